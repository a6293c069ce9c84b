//! Computes the geometry of charts in whole units of the picture. The stylesheet contains the colours. Pages also show the numbers of each
//! chart in text.

use jiff::Timestamp;

use crate::view::numbers::count;

/// A column of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartBar {
    /// The left edge.
    pub x: usize,
    /// The upper edge.
    pub y: usize,
    pub width: usize,
    pub height: usize,
}

/// Width of a sparkline.
pub const SPARK_WIDTH: usize = 120;
/// Height of a sparkline.
pub const SPARK_HEIGHT: usize = 28;

/// Returns the columns for these numbers. The largest number has the height of the picture; a number above 0 has at least a height of 1; a
/// 0 has no column.
pub fn spark(numbers: &[usize]) -> Vec<ChartBar> {
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    numbers
        .iter()
        .enumerate()
        .map(|(at, number): (usize, &usize)| {
            let height = (number * SPARK_HEIGHT).div_ceil(most);
            let x = spark_edge(at, numbers);
            let next = spark_edge(at + 1, numbers);
            ChartBar { x, y: SPARK_HEIGHT - height, width: (next - x).saturating_sub(1).max(1), height }
        })
        .filter(|bar| bar.height > 0)
        .collect()
}

fn spark_edge(at: usize, numbers: &[usize]) -> usize {
    at * SPARK_WIDTH / numbers.len().max(1)
}

/// Number of columns of a time line.
const COLUMNS: usize = 60;
/// Distance between two columns, and between two dots of a column.
const STEP: usize = 12;
/// Largest number of dots of a time line. People cannot distinguish more dots; the page shows the number of the others.
const MOST_DOTS: usize = 300;
/// Largest number of dots in a column.
const HIGHEST: usize = 12;
/// Height of the space above the dots, for the columns of members that have no dot.
const ABOVE: usize = 44;
/// Height of the space below the dots, for the line and its dates.
const BELOW: usize = 22;
/// Width of a time line.
pub const LINE_WIDTH: usize = COLUMNS * STEP;

/// A member on a time line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDot {
    /// Index of the member in the list.
    pub member: usize,
    /// X coordinate of the centre.
    pub x: usize,
    /// Y coordinate of the centre.
    pub y: usize,
}

/// The time line of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeLine {
    /// The drawn members.
    pub dots: Vec<MemberDot>,
    /// The bars above columns with too many members, each with the number of members that have no dot.
    pub more: Vec<(ChartBar, usize)>,
    /// Height of the picture.
    pub height: usize,
    /// Y coordinate of the line.
    pub base: usize,
    /// Number of members without a time.
    pub undated: usize,
    /// The first and the last time.
    pub ends: Option<(Timestamp, Timestamp)>,
}

/// Arranges members by time in columns, from the first time on the left to the last on the right.
pub fn time_line(times: &[Option<Timestamp>]) -> TimeLine {
    let dated = || times.iter().enumerate().filter_map(|(at, time)| Some(((*time)?, at)));
    let undated = times.iter().filter(|time| time.is_none()).count();
    let (Some(first), Some(last)) = (dated().map(|(time, _)| time).min(), dated().map(|(time, _)| time).max()) else {
        return TimeLine { undated, ..TimeLine::default() };
    };
    let span = u128::from(micros_after(last, first)) + 1;
    let mut columns = vec![Vec::new(); COLUMNS];
    let mut sorted: Vec<(Timestamp, usize)> = dated().collect();
    sorted.sort_unstable();
    for (time, at) in sorted {
        columns[(u128::from(micros_after(time, first)) * COLUMNS as u128 / span) as usize].push(at);
    }
    let cap = (1..=HIGHEST).rev().find(|cap| drawn_count(*cap, &columns) <= MOST_DOTS).unwrap_or(1);
    let highest = columns.iter().map(|column| column.len().min(cap)).max().unwrap_or(0);
    let most = columns.iter().map(|column| column.len().saturating_sub(cap)).max().unwrap_or(0);
    let base = highest * STEP + if most > 0 { ABOVE } else { 0 };
    let mut dots = Vec::new();
    let mut more = Vec::new();
    for (at, column) in columns.iter().enumerate() {
        let x = at * STEP + STEP / 2;
        let dot =
            |(level, member): (usize, &usize)| MemberDot { member: *member, x, y: base - level * STEP - STEP / 2 - 1 };
        dots.extend(column.iter().take(cap).enumerate().map(dot));
        if column.len() > cap {
            let left = column.len() - cap;
            let height = (left * (ABOVE - 6)).div_ceil(most);
            let y = base - cap * STEP - 4 - height;
            more.push((ChartBar { x: x - 4, y, width: 8, height }, left));
        }
    }
    TimeLine { dots, more, height: base + BELOW, base, undated, ends: Some((first, last)) }
}

fn micros_after(time: Timestamp, first: Timestamp) -> u64 {
    time.as_microsecond().abs_diff(first.as_microsecond())
}

fn drawn_count(cap: usize, columns: &[Vec<usize>]) -> usize {
    columns.iter().map(|column| column.len().min(cap)).sum::<usize>()
}

/// A part of a stacked column: its CSS class and its rectangle.
pub type StackPart = (&'static str, ChartBar);

/// Width of a chart of stacked columns.
pub const STACK_WIDTH: usize = 1200;
/// Height of a chart of stacked columns.
pub const STACK_HEIGHT: usize = 200;

/// A chart of stacked columns.
#[derive(Clone, Debug)]
pub struct StackChart {
    /// The columns.
    pub stacks: Vec<Vec<StackPart>>,
    /// A description of the chart in text.
    pub title: String,
    /// The sum of the largest column.
    pub most: String,
    /// The labels below the columns, each with its X coordinate.
    pub labels: Vec<(usize, String)>,
}

impl StackChart {
    /// Creates the chart of these columns; `None` if all numbers are 0. Each label has the number of its column.
    pub fn new(
        title: String,
        columns: &[Vec<(&'static str, u64)>],
        labels: impl IntoIterator<Item = (usize, String)>,
    ) -> Option<Self> {
        let totals = columns.iter().map(|column| column.iter().map(|(_, number)| number).sum::<u64>());
        let most = totals.max().filter(|most| *most > 0)?;
        let placed = labels.into_iter().map(|(at, label)| (stack_edge(at, columns), label));
        Some(Self { stacks: stacks(columns), title, most: count(most), labels: placed.collect() })
    }
}

/// Returns stacked columns of parts. The largest column has the height of the picture.
fn stacks(columns: &[Vec<(&'static str, u64)>]) -> Vec<Vec<StackPart>> {
    let most = columns
        .iter()
        .map(|column: &Vec<(&'static str, u64)>| column.iter().map(|(_, number)| number).sum::<u64>())
        .max()
        .unwrap_or(0)
        .max(1);
    columns
        .iter()
        .enumerate()
        .map(|(at, column): (usize, &Vec<(&'static str, u64)>)| {
            let x = stack_edge(at, columns);
            let width = (stack_edge(at + 1, columns) - stack_edge(at, columns)).saturating_sub(3).max(1);
            let mut below = 0;
            let mut parts = Vec::new();
            for (class, number) in column {
                // The code rounds the edges and not the heights, so there are no gaps between the parts of a column.
                let from = stack_height(below, most);
                let to = stack_height(below + number, most);
                below += number;
                if to > from {
                    parts.push((*class, ChartBar { x, y: STACK_HEIGHT - to, width, height: to - from }));
                }
            }
            parts
        })
        .collect()
}

fn stack_height(number: u64, most: u64) -> usize {
    usize::try_from(number * STACK_HEIGHT as u64 / most).unwrap_or(0)
}

fn stack_edge(at: usize, columns: &[Vec<(&'static str, u64)>]) -> usize {
    at * STACK_WIDTH / columns.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Option<Timestamp> {
        Some(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn the_highest_column_is_as_high_as_the_picture_and_what_is_not_nothing_is_seen() {
        let bars = spark(&[0, 1, 1000]);
        assert_eq!(bars.iter().map(|bar| (bar.x, bar.y, bar.height)).collect::<Vec<_>>(), [(40, 27, 1), (80, 0, 28)]);
        assert_eq!(spark(&[0, 0]), []);
        assert_eq!(spark(&[]), []);
        assert!(spark(&[1; 500]).iter().all(|bar| bar.x + bar.width <= SPARK_WIDTH && bar.width > 0));
    }

    #[test]
    fn a_time_line_draws_some_hundred_and_counts_the_rest() {
        let few = time_line(&[at(10), None, at(0), at(10)]);
        assert_eq!(few.dots.iter().map(|dot| dot.member).collect::<Vec<_>>(), [2, 0, 3]);
        assert!(few.dots[0].x < few.dots[1].x && few.dots[1].x == few.dots[2].x && few.dots[1].y > few.dots[2].y);
        assert_eq!((few.undated, few.more.len(), few.ends), (1, 0, at(0).zip(at(10))));
        let times: Vec<_> = (0..5000).map(|second| at(second % 777)).collect();
        let many = time_line(&times);
        assert!(many.dots.len() <= MOST_DOTS && many.dots.len() > MOST_DOTS / 2, "{}", many.dots.len());
        assert_eq!(many.dots.len() + many.more.iter().map(|(_, more)| more).sum::<usize>(), 5000);
        assert!(many.more.iter().all(|(bar, _)| bar.y < many.base && bar.y + bar.height < many.height));
        assert!(many.dots.iter().all(|dot| dot.x < LINE_WIDTH && dot.y < many.height));
        assert_eq!(time_line(&[None]).dots, []);
    }

    #[test]
    fn parts_of_a_column_stand_on_each_other() {
        let stacked = stacks(&[vec![("a", 1), ("b", 0), ("c", 2)], vec![("a", 6)]]);
        assert_eq!(stacked[0], [("a", stacked_bar(167, 33)), ("c", stacked_bar(100, 67))]);
        assert_eq!(stacked[1], [("a", ChartBar { x: 600, y: 0, width: 597, height: 200 })]);
        assert_eq!(stacks(&[]), Vec::<Vec<StackPart>>::new());
    }

    fn stacked_bar(y: usize, height: usize) -> ChartBar {
        ChartBar { x: 0, y, width: 597, height }
    }
}
