//! Records that share one list of earlier records: the copies of mass letters.
//!
//! Each of a hundred thousand copies of a letter forms pairs with the same 256 earlier records. The list is kept once.

use std::collections::HashMap;
use std::sync::Arc;

use doppel_core::verdict::Match;

/// Largest number of lists, of some kilobytes each. The pairs of further lists are kept one by one.
const MOST_LISTS: usize = 1024;

pub(super) struct CopiesOfLetter {
    /// The matches, which are kept so that no other list gets their address.
    matches: Arc<Vec<Match>>,
    /// Positions of the earlier records, ascending.
    pub(super) earlier: Vec<u64>,
    /// Positions of the records that form a pair with each of them, ascending.
    pub(super) copies: Vec<u64>,
    /// Number of exact duplicates among the pairs of a copy.
    pub(super) exact: u64,
    /// Position of an exact duplicate, if there is one.
    pub(super) exact_with: Option<u32>,
}

/// All lists of a batch. Each takes 8 bytes for a record and 8 bytes for a copy.
#[derive(Default)]
pub(super) struct SharedPairs {
    /// Positions in `letters` by the address of their matches.
    by_address: HashMap<usize, usize>,
    letters: Vec<CopiesOfLetter>,
}

impl SharedPairs {
    /// Adds a record whose matches are a shared list. Returns the list, and true if this is its first record; `None` if there are too many
    /// lists.
    pub(super) fn add(&mut self, matches: &Arc<Vec<Match>>, position: u32) -> Option<(&CopiesOfLetter, bool)> {
        let next = self.letters.len();
        let address = Arc::as_ptr(matches) as usize;
        if next == MOST_LISTS && !self.by_address.contains_key(&address) {
            return None;
        }
        let at = *self.by_address.entry(address).or_insert(next);
        if at == next {
            let mut earlier: Vec<u64> = matches.iter().map(|found| found.seq.0 - 1).collect();
            earlier.sort_unstable();
            let mut exact = matches.iter().filter(|found| found.is_exact());
            let exact_with = exact.clone().next().map(|found| (found.seq.0 - 1) as u32);
            let exact = exact.by_ref().count() as u64;
            let matches = Arc::clone(matches);
            self.letters.push(CopiesOfLetter { matches, earlier, copies: Vec::new(), exact, exact_with });
        }
        let letter = &mut self.letters[at];
        letter.copies.push(position.into());
        Some((letter, at == next))
    }

    pub(super) fn len(&self) -> u64 {
        self.letters.iter().map(|letter| (letter.earlier.len() * letter.copies.len()) as u64).sum()
    }

    /// Returns the lists.
    pub(super) fn letters(&self) -> &[CopiesOfLetter] {
        &self.letters
    }
}

impl CopiesOfLetter {
    pub(super) fn matches(&self) -> &[Match] {
        &self.matches
    }
}
