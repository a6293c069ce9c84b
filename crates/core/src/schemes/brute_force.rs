//! Compares schemes with their definitions on all pairs of generated texts, for the tests of each scheme.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::Scheme;
use super::tests::{document, reading};
use crate::collection::{Role, SegmenterKind, StopWords, TextSettings};
use crate::text::words::Words;

/// A small vocabulary, so that most texts share some pieces.
const PIECES: &[&str] = &[
    "小区", "夜市", "噪音", "扰民", "物业", "投诉", "。", "!", ",", "路灯", "维修", "a1", "1.5", "积水", "道路", "  ",
];

/// A segmenter that makes a word of each two characters and has no stop words, so that results can be computed by hand.
pub(super) static PAIRS: LazyLock<Words> = LazyLock::new(|| {
    Words::new(&TextSettings {
        segmenter: SegmenterKind::Chars2,
        stop_words: StopWords::These(Vec::new()),
        ..TextSettings::default()
    })
});
static DICTIONARY: LazyLock<Words> = LazyLock::new(|| Words::new(&TextSettings::default()));

/// Generates texts and copies of them with a few changes.
pub(super) fn texts() -> impl Strategy<Value = Vec<String>> {
    let bases = prop::collection::vec(prop::collection::vec(0..PIECES.len(), 0..30), 1..3);
    let edit = (any::<prop::sample::Index>(), 0..PIECES.len(), 0..3_u8);
    let copies = prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(edit, 0..5)), 1..6);
    (bases, copies).prop_map(|(mut all, copies)| {
        let bases = all.len();
        for (base, edits) in copies {
            let mut copy = all[base.index(bases)].clone();
            for (at, piece, kind) in edits {
                let at = at.index(copy.len() + 1);
                match kind {
                    0 => copy.insert(at, piece),
                    1 if at < copy.len() => copy[at] = piece,
                    _ if at < copy.len() => drop(copy.remove(at)),
                    _ => copy.push(piece),
                }
            }
            all.push(copy);
        }
        all.into_iter().map(|text| text.into_iter().map(|piece| PIECES[piece]).collect()).collect()
    })
}

/// True if `part` is at least `share` of `whole`. Rounds `share` to hundredths.
pub(super) fn at_least(part: usize, share: f64, whole: usize) -> bool {
    part * 100 >= (share * 100.0).round() as usize * whole
}

/// Returns the words of a text with their counts, as the segmenter returns them.
pub(super) fn counts(text: &str) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    DICTIONARY.for_each(text, |word, _| *counts.entry(word).or_default() += 1);
    counts
}

/// Returns the words of a text in heavy order.
pub(super) fn heavy(text: &str) -> Vec<&str> {
    let mut words: Vec<(&str, u32)> = counts(text).into_iter().collect();
    words.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    words.into_iter().map(|(word, _)| word).collect()
}

/// Checks `scheme` on every pair of `texts`. The keys may find only pairs of the `definition`, and must find all of them if the keys are
/// `complete`. Comparing two signatures must give the same result as the definition.
pub(super) fn hold(
    scheme: &dyn Scheme,
    texts: &[String],
    complete: bool,
    definition: impl Fn(&str, &str) -> bool,
) -> Result<(), TestCaseError> {
    let documents: Vec<_> = texts.iter().map(|text| document(&[(Role::Text, text)])).collect();
    let signed: Vec<_> = documents
        .iter()
        .map(|document| {
            let signature = scheme.sign(&reading(document, &DICTIONARY, &[1]))?;
            let mut keys = Vec::new();
            scheme.keys(&signature, &mut keys);
            Some((signature, keys))
        })
        .collect();
    for (i, a) in signed.iter().enumerate() {
        for (j, b) in signed.iter().enumerate() {
            let defined = definition(&texts[i], &texts[j]);
            let (Some((a, keys_a)), Some((b, keys_b))) = (a, b) else {
                prop_assert!(!defined, "{:?} and {:?} match and are not signed", texts[i], texts[j]);
                continue;
            };
            let accepted = scheme.compare(a, b);
            prop_assert_eq!(accepted, defined, "{:?} and {:?}", texts[i], texts[j]);
            let shares = keys_a.iter().any(|key| keys_b.contains(key));
            prop_assert!(!complete || !defined || shares, "{:?} and {:?} share no key", texts[i], texts[j]);
            prop_assert!(!scheme.key_implies_match() || !shares || accepted, "{:?} and {:?}", texts[i], texts[j]);
        }
    }
    Ok(())
}
