//! Selects the record of each set of duplicates that stays, and writes these records.

use super::components::UnionFind;
use super::stock::RecordStock;
use super::{JsonLinesFile, KeepRule};

/// Writes the rows that stay, one of each set, in the order of the input. Returns their number.
pub(super) fn write(
    stock: &RecordStock,
    sets: &mut UnionFind,
    keep: KeepRule,
    out: &mut JsonLinesFile,
) -> anyhow::Result<u64> {
    let count = stock.len() as u32;
    let mut stays: Vec<u32> = (0..count).collect();
    for position in 0..count {
        let root = sets.root(position) as usize;
        stays[root] = better(keep, (stays[root], position), |position| stock.time(position));
    }
    let mut written = 0;
    for position in 0..count {
        if stays[sets.root(position) as usize] == position {
            out.put_raw(stock.row(position)?.as_bytes())?;
            written += 1;
        }
    }
    Ok(written)
}

/// Returns the position that stays. `b` is not before `a`.
fn better(keep: KeepRule, pair: (u32, u32), time: impl Fn(u32) -> i64) -> u32 {
    let (a, b) = pair;
    let second = match keep {
        KeepRule::First => false,
        // If the times are equal, the later row stays.
        KeepRule::Newest => time(b) >= time(a),
        KeepRule::Oldest => time(b) <= time(a),
    };
    if second { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_times_the_later_row_stays_and_no_time_is_oldest() {
        let times = [20, 10, i64::MIN, 20];
        for (keep, pair, stays) in [
            (KeepRule::First, (0, 1), 0),
            (KeepRule::First, (2, 3), 2),
            (KeepRule::Newest, (0, 1), 0),
            (KeepRule::Newest, (0, 3), 3),
            (KeepRule::Newest, (1, 2), 1),
            (KeepRule::Oldest, (0, 1), 1),
            (KeepRule::Oldest, (0, 3), 3),
            (KeepRule::Oldest, (1, 2), 2),
        ] {
            assert_eq!(better(keep, pair, |at| times[at as usize]), stays, "{keep:?} {pair:?}");
        }
    }
}
