//! What is found for the rows of a table that is given back: verdict, what the row repeats, how alike they are, and why, in four columns
//! behind its own. The desk's "check a file" and the commands `check` and `dedup` write the same.
//!
//! [`Finding`] and [`Refusal`] are what is said of a row, [`output`] writes the table, [`within`] compares the rows of one file with
//! each other. The sentences are in the tables of [`crate::console::words`].

pub mod output;
pub mod within;

use sha2::{Digest, Sha256};

use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, Relation, VerdictKind};
use doppel_core::violation::Violation;
use doppel_sources::Unreadable;
use doppel_sources::tables::RowFault;

use crate::console::view::numbers::percent;
use crate::console::words::Words;
use output::Added;

/// Why a row was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read.
    Row(RowFault),
    /// None of the columns that are taken says anything.
    Empty,
    /// The collection does not take it; the code of what is wrong.
    Invalid(String),
    /// The row of this number has the same id.
    SameId(u64),
    /// Another letter is stored under its id.
    Stored,
    /// The same row of the same file was registered with other columns.
    Otherwise,
}

impl Refusal {
    /// The reason why a row of a table, with this fault if it has one, is no record.
    pub fn of_unreadable(why: &Unreadable, fault: Option<&RowFault>) -> Self {
        match fault {
            Some(fault) => Self::Row(fault.clone()),
            None if why.code == "empty_row" => Self::Empty,
            None => Self::Invalid(why.code.to_owned()),
        }
    }

    /// The first thing that is wrong.
    pub fn of(violations: &[Violation]) -> Self {
        Self::Invalid(violations.first().map_or_else(String::new, |violation| violation.code.to_string()))
    }
}

/// What a row repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// A record of the collection.
    Record(RecordId),
    /// A row of the file, by its number.
    Row(u64),
    /// A row of one of several files: the name of the file, and its number there.
    RowOf(String, u64),
}

/// What was found for a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// How it stands to those before it.
    pub kind: VerdictKind,
    /// What it repeats.
    pub of: Option<Earlier>,
    /// How alike they are, 0 to 1.
    pub similarity: Option<f64>,
    /// Who the two are of.
    pub relation: Option<Relation>,
    /// Under which id it is registered, and whether that is new.
    pub registered: Option<(RecordId, bool)>,
}

impl Finding {
    /// Of a row that is only checked: what is the same before what is alike, a record before a row.
    pub fn checked(record: Option<Match>, row: Option<(Earlier, Match)>, too_short: bool) -> Self {
        let record = record.map(|found| (Earlier::Record(found.id.clone()), found));
        let is_exact = |found: &Option<(Earlier, Match)>| found.as_ref().is_some_and(|(_, found)| found.is_exact());
        let best = if is_exact(&row) && !is_exact(&record) { row } else { record.or(row) };
        let Some((of, found)) = best else {
            let kind = if too_short { VerdictKind::TooShort } else { VerdictKind::Original };
            return Self { kind, of: None, similarity: None, relation: None, registered: None };
        };
        let kind = if found.is_exact() { VerdictKind::ExactDuplicate } else { VerdictKind::NearDuplicate };
        Self { kind, of: Some(of), similarity: found.similarity, relation: found.relation, registered: None }
    }

    /// Of a row that is registered: of several records with the same text it repeats the earliest. `row_of` says which records are
    /// rows that came before it.
    pub fn registered(
        (kind, duplicate_of, similar): (VerdictKind, Option<&RecordId>, &[Match]),
        registered: Option<(RecordId, bool)>,
        row_of: impl FnOnce(&RecordId) -> Option<Earlier>,
    ) -> Self {
        // The first of several that are equal: they stand earliest first where nothing else tells them apart.
        let exact = similar.iter().filter(|found| found.is_exact()).min_by_key(|found| found.seq);
        let of = exact.map(|found| &found.id).or(duplicate_of);
        let found = of.and_then(|id| similar.iter().find(|found| found.id == *id));
        let (similarity, relation) = (found.and_then(|found| found.similarity), found.and_then(|found| found.relation));
        let of = of.map(|id| row_of(id).unwrap_or_else(|| Earlier::Record(id.clone())));
        Self { kind, of, similarity, relation, registered }
    }
}

/// So much of a hash that no two ids have the same.
pub fn short(id: &RecordId) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::digest(id.as_str()).into();
    let mut short = [0; 16];
    short.copy_from_slice(&hash[..16]);
    short
}

/// What is added to a row.
pub fn added(words: &Words, said: &Result<Finding, Refusal>) -> Added {
    let files = &words.files;
    match said {
        Err(refusal) => [files.refused.to_owned(), String::new(), String::new(), (files.refusal)(refusal)],
        Ok(finding) => {
            let of = match &finding.of {
                None => String::new(),
                Some(Earlier::Record(id)) => id.to_string(),
                Some(Earlier::Row(number)) => (files.row_of_file)(*number),
                Some(Earlier::RowOf(name, number)) => (files.row_of_named)(name, *number),
            };
            let similarity = finding.similarity.map(|share| format!("{}%", percent(share)));
            let verdict = (words.record.verdict)(finding.kind).to_owned();
            [verdict, of, similarity.unwrap_or_default(), (files.reason)(finding)]
        }
    }
}

/// The names of the columns that are added.
pub fn headings(words: &Words) -> Added {
    words.files.headings.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::Seq;

    #[test]
    fn what_is_the_same_comes_before_what_is_alike() {
        let found = |id: &str, via: &str| Match {
            via: vec![via.into()],
            ..Match::unmeasured(RecordId::new(id).unwrap(), Seq(1))
        };
        let of = |record, row| Finding::checked(record, row, true).of;
        let record = |via| Some(found("a", via));
        assert_eq!(of(record("shingle"), Some((Earlier::Row(3), found("3", "exact")))), Some(Earlier::Row(3)));
        assert_eq!(
            of(record("exact"), Some((Earlier::Row(3), found("3", "exact")))),
            Some(Earlier::Record(RecordId::new("a").unwrap()))
        );
        assert_eq!(of(None, Some((Earlier::Row(3), found("3", "shingle")))), Some(Earlier::Row(3)));
        assert_eq!(Finding::checked(None, None, true).kind, VerdictKind::TooShort);
    }
}
