//! How much came in, in each part of a time, by the verdict that it was given.
//!
//! Counted by walking back through the numbers of the collection, as arrivals are: records that were deleted or replaced since are
//! not in it, and no more numbers are walked through than [`MOST_COUNTED`].

use jiff::Timestamp;

use crate::{Engine, READ_AT_ONCE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::verdict::VerdictKind;
use doppel_store::{Arrival, Seq};

/// Most numbers that are walked back through: a tenth of a second on a store of this machine.
pub const MOST_COUNTED: u64 = 16 << 10;

/// Records by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByVerdict {
    /// First cases.
    pub original: u64,
    /// Repeats with the same text.
    pub exact: u64,
    /// Repeats with a similar text.
    pub near: u64,
    /// Too short to be compared.
    pub too_short: u64,
}

impl ByVerdict {
    /// All of them.
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

/// What came in.
#[derive(Clone, Debug)]
pub struct Intake {
    /// In each part of the time asked about.
    pub parts: Vec<ByVerdict>,
    /// When the earliest record that was counted came in.
    pub earliest: Option<Timestamp>,
    /// Whether all of the time asked about was counted.
    pub is_complete: bool,
}

impl Engine {
    /// What came in since the first of `begins`, the beginnings of the parts to count, ascending; the last part has no end. O(numbers
    /// walked back through), of which there are at most [`MOST_COUNTED`].
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    pub async fn intake(&self, collection: &CollectionName, begins: &[Timestamp]) -> Result<Intake> {
        let last = self.store.last_change(collection).await?.0;
        let mut intake = Intake { parts: vec![ByVerdict::default(); begins.len()], earliest: None, is_complete: true };
        let (mut end, stop) = (last + 1, (last + 1).saturating_sub(MOST_COUNTED));
        // No record has number 0.
        while end > stop.max(1) {
            let begin = end.saturating_sub(READ_AT_ONCE as u64).max(stop).max(1);
            let arrivals = self.store.arrivals(collection, Seq(begin), Seq(end)).await?;
            // Clocks of several instances differ: one record that seems older ends nothing.
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
    /// Counts a record; whether it came in in the time asked about.
    fn count(&mut self, arrival: &Arrival, begins: &[Timestamp]) -> bool {
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
    use crate::testing::Desk;

    #[tokio::test]
    async fn what_came_in_is_counted_by_verdict_in_each_part_of_the_time() {
        let desk = Desk::with(&["a", "b", "c"]).await;
        desk.put("d", "好").await;
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let begins = ["2025-12-30T00:00:00Z", "2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z"].map(at);
        let intake = desk.engine.intake(&desk.name, &begins).await.unwrap();
        let day = ByVerdict { original: 1, exact: 2, near: 0, too_short: 1 };
        assert_eq!(
            (&intake.parts[..], intake.is_complete),
            (&[ByVerdict::default(), ByVerdict::default(), day][..], true)
        );
        assert_eq!(day.total(), 4);
        let later = desk.engine.intake(&desk.name, &[at("2026-01-02T00:00:00Z")]).await.unwrap();
        assert_eq!((later.parts[0].total(), later.earliest, later.is_complete), (0, None, true));
    }
}
