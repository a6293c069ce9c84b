//! Counts of the records that arrived in each part of a time range, by verdict.
//!
//! The count walks back through the seqs of the collection, like the list of arrivals. It does not contain records that were deleted or
//! replaced since, and it passes at most [`MOST_COUNTED`] seqs.

use jiff::Timestamp;

use crate::boxed;
use crate::{Engine, READ_AT_ONCE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::verdict::VerdictKind;
use doppel_store::{RecordArrival, Seq};

/// Largest number of seqs that a count passes: a tenth of a second on a local store.
pub const MOST_COUNTED: u64 = 16 << 10;

/// Numbers of records by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByVerdict {
    /// Originals.
    pub original: u64,
    /// Duplicates with the same text.
    pub exact: u64,
    /// Duplicates with a similar text.
    pub near: u64,
    /// Records that are too short for a comparison.
    pub too_short: u64,
}

impl ByVerdict {
    /// Returns the number of all records.
    pub fn total(&self) -> u64 {
        self.original + self.exact + self.near + self.too_short
    }

    fn add(&mut self, kind: VerdictKind) {
        let count = match kind {
            VerdictKind::Original => &mut self.original,
            VerdictKind::ExactDuplicate => &mut self.exact,
            VerdictKind::NearDuplicate => &mut self.near,
            VerdictKind::TooShort => &mut self.too_short,
        };
        *count += 1;
    }
}

/// Counts of the records that arrived.
#[derive(Clone, Debug)]
pub struct Intake {
    /// The counts for each part of the time range.
    pub parts: Vec<ByVerdict>,
    /// Time at which the earliest counted record arrived.
    pub earliest: Option<Timestamp>,
    /// True if the whole time range was counted.
    pub is_complete: bool,
}

impl Engine {
    /// Counts the records that arrived since the first of `begins`. `begins` are the beginnings of the parts to count, ascending; the last
    /// part has no end. O(seqs that the walk passes), at most [`MOST_COUNTED`].
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn intake(&self, collection: &CollectionName, begins: &[Timestamp]) -> Result<Intake> {
        let last = self.store.last_change(collection).await?.0;
        let mut intake = Intake { parts: vec![ByVerdict::default(); begins.len()], earliest: None, is_complete: true };
        let mut end = last + 1;
        let stop = end.saturating_sub(MOST_COUNTED);
        // No record has seq 0.
        while end > stop.max(1) {
            let begin = end.saturating_sub(READ_AT_ONCE as u64).max(stop).max(1);
            let arrivals = self.store.arrivals(collection, Seq(begin), Seq(end)).await?;
            // Clocks of several instances differ: a single record that seems older does not end the walk.
            let counted = arrivals.iter().rev().filter(|arrival| intake.count(arrival, begins)).count();
            if counted == 0 && !arrivals.is_empty() {
                return Ok(intake);
            }
            end = begin;
        }
        intake.is_complete = end <= 1;
        Ok(intake)
    }
}

impl Intake {
    /// Counts a record; true if it arrived in the time range.
    fn count(&mut self, arrival: &RecordArrival, begins: &[Timestamp]) -> bool {
        let Ok(stored) = arrival.stored_at.parse::<Timestamp>() else { return true };
        let part = begins.partition_point(|begin| *begin <= stored).checked_sub(1);
        let Some(part) = part.and_then(|part| self.parts.get_mut(part)) else { return false };
        part.add(arrival.verdict);
        self.earliest = Some(stored);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::LetterDesk;

    #[tokio::test]
    async fn arrivals_are_counted_by_verdict_in_each_part_of_the_time_range() {
        let desk = LetterDesk::with(&["a", "b", "c"]).await;
        desk.put("d", "好").await;
        let begins = ["2025-12-30T00:00:00Z", "2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z"];
        let begins = begins.map(|time| time.parse::<Timestamp>().unwrap());
        let intake = desk.engine.intake(&desk.name, &begins).await.unwrap();
        let day = ByVerdict { original: 1, exact: 2, near: 0, too_short: 1 };
        assert_eq!(
            (&intake.parts[..], intake.is_complete),
            (&[ByVerdict::default(), ByVerdict::default(), day][..], true)
        );
        assert_eq!(day.total(), 4);
        let later = "2026-01-02T00:00:00Z".parse().unwrap();
        let later = desk.engine.intake(&desk.name, &[later]).await.unwrap();
        assert_eq!((later.parts[0].total(), later.earliest, later.is_complete), (0, None, true));
    }
}
