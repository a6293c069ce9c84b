//! The position of each record in the file: letters, orders, and the letters about the hot event, without a table.
//!
//! The letters about the hot event lie close together. All other positions are numbered without them, and [`RecordMixture`] distributes
//! letters and orders over these numbers. O(log of the size of the hot event) per record.

use jiff::civil::Date;

use super::calendar::{DAYS, HOT_DAYS, SampleCalendar};
use super::mixture::{MixturePlace, RecordMixture};
use super::rng::RandomStream;

/// Minimum number of records of a sample with a hot event.
const LEAST: u64 = 60;
/// One record in this number belongs to the hot event, within these bounds.
const ONE_IN: u64 = 60;
const SIZES: [u64; 2] = [6, 24];

/// The kind of the record at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordPlace {
    /// A letter or an order.
    Common(MixturePlace),
    /// A letter about the hot event, with its index among them.
    Hot(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FileLayout {
    pub(super) mixture: RecordMixture,
    pub(super) calendar: SampleCalendar,
    /// Number of letters about the hot event.
    pub(super) hot: u64,
}

impl FileLayout {
    /// Creates the layout of `records` records, of which the share `forms` consists of orders. Without duplicates there is no hot event.
    pub(super) fn new(records: u64, seed: u64, until: Date, forms: f64, duplicates: f64) -> Self {
        let hot = if records < LEAST || duplicates <= 0.0 { 0 } else { (records / ONE_IN).clamp(SIZES[0], SIZES[1]) };
        let span = if hot == 0 { 0 } else { (hot * 2).max(records * HOT_DAYS / DAYS) };
        let room = records - span;
        let start = if hot == 0 {
            0
        } else {
            room / 4 + RandomStream::of(&[seed, 36]).below((room / 2).max(1) as usize) as u64
        };
        let calendar = SampleCalendar { records, seed, until, hot_start: start, hot_span: span };
        Self { mixture: RecordMixture::new(records - hot, forms), calendar, hot }
    }

    pub(super) fn records(&self) -> u64 {
        self.calendar.records
    }

    /// Returns the record at `position`, which must be below the number of records.
    pub(super) fn place(&self, position: u64) -> RecordPlace {
        let before = self.hot_before(position);
        if before < self.hot && self.hot_position(before) == position {
            return RecordPlace::Hot(before);
        }
        RecordPlace::Common(self.mixture.place(position - before))
    }

    /// Returns the position of the letter `index` about the hot event.
    pub(super) fn hot_position(&self, index: u64) -> u64 {
        self.calendar.hot_start + index * self.calendar.hot_span / self.hot.max(1)
    }

    /// Returns the position of the order `index`.
    pub(super) fn order(&self, index: u64) -> u64 {
        self.common_position(self.mixture.order(index))
    }

    /// Returns the position of the letter `index`.
    pub(super) fn letter(&self, index: u64) -> u64 {
        self.common_position(self.mixture.letter(index))
    }

    /// Returns the number of letters about the hot event before `position`.
    fn hot_before(&self, position: u64) -> u64 {
        first_index(self.hot, |index| self.hot_position(index) >= position)
    }

    /// Returns the position of a record that is numbered without the hot event.
    fn common_position(&self, number: u64) -> u64 {
        number + first_index(self.hot, |index| self.hot_position(index) - index > number)
    }
}

/// Returns the first index below `count` for which `reached` is true, or `count`. From this index on, `reached` must be true.
fn first_index(count: u64, reached: impl Fn(u64) -> bool) -> u64 {
    let mut low = 0;
    let mut high = count;
    while low < high {
        let middle = u64::midpoint(low, high);
        if reached(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::calendar::UNTIL;
    use super::*;

    #[test]
    fn every_record_has_one_place_and_the_positions_lead_back() {
        for (records, forms) in [(59, 0.4), (60, 0.4), (61, 0.0), (400, 1.0), (1_000, 0.4), (5_000, 0.3)] {
            let layout = FileLayout::new(records, 7, UNTIL, forms, 0.1);
            let mut hot = 0;
            for position in 0..records {
                let back = match layout.place(position) {
                    RecordPlace::Common(MixturePlace::Letter(index)) => layout.letter(index),
                    RecordPlace::Common(MixturePlace::Order(index)) => layout.order(index),
                    RecordPlace::Hot(index) => {
                        assert_eq!(index, hot);
                        hot += 1;
                        layout.hot_position(index)
                    }
                };
                assert_eq!(back, position, "{records}");
            }
            assert_eq!(hot, layout.hot, "{records}");
        }
    }
}
