//! The findings for the rows of a table: the verdict, the repeated row or record, the similarity and the reason. They are four columns
//! after the columns of the table. The pages of the desk for files and the commands `check` and `dedup` write the same columns.
//!
//! [`RowFinding`] and [`RowRefusal`] are the results for a row, [`output`] writes the table, and [`within`] compares the rows of a file with
//! each other. The sentences are in [`FindingWords`].

pub mod csv;
mod ids;
pub mod log;
pub mod output;
pub mod within;
mod words;

use serde::{Deserialize, Serialize};

use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, Relation, VerdictKind};
use doppel_core::violation::Violation;
use doppel_engine::answers::Outcome;
use doppel_sources::UnreadableLine;
use doppel_sources::tables::RowFault;

pub use ids::RowIds;
pub use words::FindingWords;

/// The reason why a row was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowRefusal {
    /// The row cannot be read.
    Row(RowFault),
    /// All used columns are empty.
    Empty,
    /// The collection refuses the row; the code of the first violation.
    Invalid(String),
    /// The row with this number has the same id.
    SameId(u64),
    /// The collection has a record with this id and other content.
    Stored,
    /// The same row of the same file was registered before with other columns.
    Otherwise,
}

impl RowRefusal {
    /// Returns the refusal for a row of a table that is not a record. `fault` is the fault of the row, if there is one.
    pub fn of_unreadable(why: &UnreadableLine, fault: Option<&RowFault>) -> Self {
        match fault {
            Some(fault) => Self::Row(fault.clone()),
            None if why.code == "empty_row" => Self::Empty,
            None => Self::Invalid(why.code.to_owned()),
        }
    }

    /// Returns the refusal for the first violation.
    pub fn of(violations: &[Violation]) -> Self {
        Self::Invalid(violations.first().map_or_else(String::new, |violation| violation.code.to_string()))
    }
}

/// The earlier row or record that a row repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierRow {
    /// A record of the collection.
    Record(RecordId),
    /// The row of the file with this number.
    Row(u64),
    /// The row of another file: the name of the file and the number of the row.
    RowOf(String, u64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct RowFinding {
    /// The verdict, compared with the earlier rows and records.
    pub kind: VerdictKind,
    /// The repeated row or record.
    pub of: Option<EarlierRow>,
    /// The similarity, 0 to 1.
    pub similarity: Option<f64>,
    /// The relation between the two petitioners.
    pub relation: Option<Relation>,
    /// The id under which the row is registered, and true if the record is new or changed.
    pub registered: Option<(RecordId, bool)>,
}

impl RowFinding {
    /// Returns the finding for a row that is only checked. An exact duplicate comes before a near duplicate, and a record comes before a
    /// row.
    fn checked(record: Option<Match>, row: Option<(EarlierRow, Match)>, too_short: bool) -> Self {
        let record = record.map(|found| (EarlierRow::Record(found.id.clone()), found));
        let best = if is_exact_match(&row) && !is_exact_match(&record) { row } else { record.or(row) };
        let Some((of, found)) = best else {
            let kind = if too_short { VerdictKind::TooShort } else { VerdictKind::Original };
            return Self { kind, of: None, similarity: None, relation: None, registered: None };
        };
        let kind = if found.is_exact() { VerdictKind::ExactDuplicate } else { VerdictKind::NearDuplicate };
        Self { kind, of: Some(of), similarity: found.similarity, relation: found.relation, registered: None }
    }

    /// Returns the finding for a row that is registered under `id`. If several records have the same text, the row repeats the earliest.
    /// `row_of` returns the earlier row of a record, if the record comes from the file.
    pub fn registered(
        kind: VerdictKind,
        duplicate_of: Option<&RecordId>,
        similar: &[Match],
        id: Option<RecordId>,
        outcome: Outcome,
        row_of: impl FnOnce(&RecordId) -> Option<EarlierRow>,
    ) -> Self {
        // Several exact duplicates are possible. The row repeats the earliest.
        let exact = similar.iter().filter(|found| found.is_exact()).min_by_key(|found| found.seq);
        let of = exact.map(|found| &found.id).or(duplicate_of);
        let found = of.and_then(|id| similar.iter().find(|found| found.id == *id));
        let similarity = found.and_then(|found| found.similarity);
        let relation = found.and_then(|found| found.relation);
        let of = of.map(|id| row_of(id).unwrap_or_else(|| EarlierRow::Record(id.clone())));
        let is_new = matches!(outcome, Outcome::Created | Outcome::Replaced);
        Self { kind, of, similarity, relation, registered: id.map(|id| (id, is_new)) }
    }
}

fn is_exact_match(found: &Option<(EarlierRow, Match)>) -> bool {
    found.as_ref().is_some_and(|(_, found)| found.is_exact())
}

/// Returns a share from 0 to 1 in whole per cent. Only 1 becomes 100, and only 0 becomes 0: values close to them become 99 and 1.
pub fn percent(share: f64) -> u8 {
    match share {
        share if share >= 1.0 => 100,
        share if share <= 0.0 || share.is_nan() => 0,
        share => ((share * 100.0).round() as u8).clamp(1, 99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::Seq;

    #[test]
    fn exact_duplicates_come_before_near_duplicates() {
        assert_eq!(
            earlier_of(matched_record("shingle"), Some((EarlierRow::Row(3), match_of("3", "exact")))),
            Some(EarlierRow::Row(3))
        );
        assert_eq!(
            earlier_of(matched_record("exact"), Some((EarlierRow::Row(3), match_of("3", "exact")))),
            Some(EarlierRow::Record(RecordId::new("a").unwrap()))
        );
        assert_eq!(earlier_of(None, Some((EarlierRow::Row(3), match_of("3", "shingle")))), Some(EarlierRow::Row(3)));
        assert_eq!(RowFinding::checked(None, None, true).kind, VerdictKind::TooShort);
    }

    fn earlier_of(record: Option<Match>, row: Option<(EarlierRow, Match)>) -> Option<EarlierRow> {
        RowFinding::checked(record, row, true).of
    }

    fn matched_record(via: &str) -> Option<Match> {
        Some(match_of("a", via))
    }

    fn match_of(id: &str, via: &str) -> Match {
        Match { via: vec![via.into()], ..Match::unmeasured(RecordId::new(id).unwrap(), Seq(1)) }
    }

    #[test]
    fn a_share_close_to_one_is_shown_as_99_per_cent() {
        let table = [(1.0, 100), (0.999, 99), (0.854, 85), (0.002, 1), (0.0, 0), (f64::NAN, 0)];
        for (share, per_cent) in table {
            assert_eq!(percent(share), per_cent, "{share}");
        }
    }
}
