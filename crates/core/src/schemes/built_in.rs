//! Built-in frequencies of the phrases that letters to authorities and hotline orders repeat. A collection uses them until its own
//! frequencies are counted.
//!
//! `official_phrases.txt` contains phrases that were written for this project. Each line has the assumed number of records in a thousand that
//! contain the phrase, and the phrase.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::frequencies::name_code;
use super::hash::city64;
use crate::text::shingles;

const PHRASES: &str = include_str!("official_phrases.txt");
/// Width of the counted shingles in characters: the default width of verification.
const SHINGLE: u8 = 3;

/// Returns a hash of the list, which changes with its content.
pub(super) fn version() -> String {
    format!("{:016x}", city64(PHRASES))
}

/// Returns the number of records in a thousand that contain each code. The codes belong to the shingles of the phrases, and to the lines
/// that are names.
pub(super) fn counts() -> &'static HashMap<u64, f64> {
    static COUNTS: LazyLock<HashMap<u64, f64>> = LazyLock::new(|| {
        let mut counts = HashMap::new();
        for line in PHRASES.lines().filter(|line| !line.starts_with('#')) {
            let Some((number, phrase)) = line.split_once(' ') else { continue };
            let number: f64 = number.parse().unwrap_or_default();
            let codes: HashSet<u64> = shingles::codes(phrase, SHINGLE).into_iter().collect();
            for code in codes.into_iter().chain([name_code(phrase)]) {
                let count: &mut f64 = counts.entry(code).or_default();
                *count = count.max(number);
            }
        }
        counts
    });
    &COUNTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_number_and_a_phrase() {
        for line in PHRASES.lines().filter(|line| !line.starts_with('#')) {
            let (number, phrase) = line.split_once(' ').unwrap();
            assert!((1..=500).contains(&number.parse::<u32>().unwrap()) && phrase.chars().count() >= 2, "{line}");
        }
        assert!(counts().len() > 500);
    }
}
