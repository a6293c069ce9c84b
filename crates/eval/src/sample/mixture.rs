//! The positions of letters and orders in one file: evenly mixed, without a table.
//!
//! In every sequence of positions, the number of orders differs from the exact share by at most one. O(1), without memory.

/// The kind of the record at a position, with its index among the records of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MixturePlace {
    Letter(u64),
    Order(u64),
}

/// A file of letters and orders.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordMixture {
    pub(super) records: u64,
    pub(super) orders: u64,
}

impl RecordMixture {
    /// Creates a mixture of `records` records, of which the share `orders` consists of orders.
    pub(super) fn new(records: u64, orders: f64) -> Self {
        Self { records, orders: (records as f64 * orders.clamp(0.0, 1.0)).round() as u64 }
    }

    pub(super) fn letters(self) -> u64 {
        self.records - self.orders
    }

    /// Returns the record at `position`, which must be below the number of records.
    pub(super) fn place(self, position: u64) -> MixturePlace {
        let before = self.orders_before(position);
        if self.orders_before(position + 1) > before {
            MixturePlace::Order(before)
        } else {
            MixturePlace::Letter(position - before)
        }
    }

    /// Returns the position of the order `index`, which must be below the number of orders.
    pub(super) fn order(self, index: u64) -> u64 {
        let end = (u128::from(index) + 1) * u128::from(self.records);
        end.div_ceil(u128::from(self.orders)) as u64 - 1
    }

    /// Returns the position of the letter `index`, which must be below the number of letters.
    pub(super) fn letter(self, index: u64) -> u64 {
        (u128::from(index) * u128::from(self.records) / u128::from(self.letters())) as u64
    }

    fn orders_before(self, position: u64) -> u64 {
        (u128::from(position) * u128::from(self.orders) / u128::from(self.records.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_and_every_order_has_one_place_in_its_order() {
        for (records, share) in [(1, 0.0), (1, 1.0), (7, 0.4), (100, 0.33), (1000, 0.999), (64, 0.5), (10, 0.0)] {
            let mixture = RecordMixture::new(records, share);
            let mut letters = 0;
            let mut orders = 0;
            for position in 0..records {
                match mixture.place(position) {
                    MixturePlace::Letter(index) => {
                        assert!(index == letters && mixture.letter(index) == position);
                        letters += 1;
                    }
                    MixturePlace::Order(index) => {
                        assert!(index == orders && mixture.order(index) == position);
                        orders += 1;
                    }
                }
            }
            assert_eq!((letters, orders), (mixture.letters(), mixture.orders), "{records} {share}");
        }
    }

    #[test]
    fn without_orders_letters_stand_where_they_are() {
        let mixture = RecordMixture::new(50, 0.0);
        assert!((0..50).all(|at| mixture.place(at) == MixturePlace::Letter(at) && mixture.letter(at) == at));
    }
}
