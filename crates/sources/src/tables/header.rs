//! Finds the rows of a table that name its columns, and the rows that are not data.
//!
//! The rows above the names of the columns may contain a title, the author of the table and a date. The names may have two rows: a heading
//! for several columns, and below it the name of each column. The rows below may repeat the names (if pages were joined) and may contain
//! totals.

use super::{MOST_ABOVE, MOST_COLUMNS, RowFault, TableError, TableRow};
use doppel_core::columns::{is_usual_name, kind_of};

/// The largest number of characters of a name in the second of two rows of names.
const MOST_NAME_CHARS: usize = 12;
/// Joins the heading of several columns and the name of a column.
const JOINT: char = '/';
/// The first words of a row of totals. A period or a page may stand before them, and a unit in brackets behind them (本页小计, 合计（件）).
const TOTALS: [&str; 12] =
    ["合计", "总计", "小计", "共计", "汇总", "累计", "总数", "合計", "總計", "累計", "total", "subtotal"];
/// Words before a word of totals.
const TOTALS_OF: [&str; 10] = ["", "本页", "本月", "本周", "本日", "本年", "本表", "当月", "当日", "全部"];

/// The rows that name the columns, among the first rows of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableHeader {
    /// The names of the columns, without the empty names at the end.
    pub(super) names: Vec<String>,
    /// Index of the first row that names columns.
    pub(super) first: usize,
    /// Index of the last row that names columns: the same row or the next.
    pub(super) last: usize,
    /// The texts of these rows, so that their repetitions below are recognised.
    written: Vec<Vec<String>>,
}

/// Number of rows that are read to find the names of the columns.
pub(super) const ROWS_READ: usize = MOST_ABOVE + 2;

impl TableHeader {
    /// Finds the names of the columns in the first [`ROWS_READ`] rows of a table.
    ///
    /// # Errors
    /// [`TableError::NoHeader`], [`TableError::TooManyColumns`].
    pub(super) fn find(rows: &[TableRow]) -> Result<Self, TableError> {
        let rows = &rows[..rows.len().min(MOST_ABOVE + 1)];
        let found = best(rows);
        // A row that is too long to be held may be the row that names the columns.
        let mut above = rows[..found.unwrap_or(rows.len())].iter();
        if above.any(|row| matches!(row.fault, Some(RowFault::TooLong { .. }))) {
            return Err(TableError::TooManyColumns);
        }
        let header = Self::at(rows, found.ok_or(TableError::NoHeader)?);
        if header.names.len() > MOST_COLUMNS { Err(TableError::TooManyColumns) } else { Ok(header) }
    }

    /// Returns the names in the row `at`, and in the row above or below that belongs to it.
    fn at(rows: &[TableRow], at: usize) -> Self {
        let above = at.checked_sub(1).filter(|above| is_pair(&rows[*above], &rows[at]));
        let below = Some(at + 1).filter(|below| rows.get(*below).is_some_and(|lower| is_pair(&rows[at], lower)));
        let mut header = match above.or(below) {
            Some(other) => {
                let first = at.min(other);
                let last = at.max(other);
                let names = joined(&texts(&rows[first]), &texts(&rows[last]));
                Self { names, first, last, written: vec![owned(&rows[first]), owned(&rows[last])] }
            }
            None => Self { names: owned(&rows[at]), first: at, last: at, written: vec![owned(&rows[at])] },
        };
        while header.names.len() > 1 && header.names.last().is_some_and(String::is_empty) {
            header.names.pop();
        }
        header
    }

    /// Marks a row below the names that is not data: a repetition of the names, or totals. O(cells).
    pub(super) fn mark(&self, row: &mut TableRow) {
        if matches!(row.fault, Some(RowFault::Undecodable | RowFault::TooLong { .. } | RowFault::OpenQuote { .. })) {
            return;
        }
        let texts = texts(row);
        if self.written.iter().any(|names| is_same(names, &texts)) {
            row.fault = Some(RowFault::RepeatedHeader);
        } else if is_totals(&texts) {
            row.fault = Some(RowFault::Totals);
        }
    }
}

/// Returns the index of the row that names the columns best: the first row with two usual names, otherwise the first row with one usual
/// name, otherwise the first row that gives several columns the same usual name, otherwise the first row with two different texts,
/// otherwise the first row with any text.
fn best(rows: &[TableRow]) -> Option<usize> {
    first_list(rows, 2)
        .or_else(|| first_list(rows, 1))
        .or_else(|| rows.iter().position(|row| row.fault.is_none() && repeats_name(&texts(row))))
        .or_else(|| first_list(rows, 0))
        .or_else(|| rows.iter().position(|row| row.fault.is_none() && texts(row).iter().any(|text| !text.is_empty())))
}

/// Returns the index of the first row with two different texts in which at least `usual` texts are usual names of columns.
fn first_list(rows: &[TableRow], usual: usize) -> Option<usize> {
    rows.iter().position(|row| {
        let texts = texts(row);
        row.fault.is_none() && differs(&texts) && texts.iter().filter(|text| kind_of(text).is_some()).count() >= usual
    })
}

/// Returns the texts of the cells of a row without the white space around them.
fn texts(row: &TableRow) -> Vec<&str> {
    row.cells.iter().map(|cell| cell.text.trim()).collect()
}

fn owned(row: &TableRow) -> Vec<String> {
    texts(row).into_iter().map(str::to_owned).collect()
}

/// True if the cell at `column` has a text.
fn is_said(texts: &[&str], column: usize) -> bool {
    texts.get(column).is_some_and(|text| !text.is_empty())
}

/// True if two cells have different texts. A title that fills every cell of its row does not count.
fn differs(texts: &[&str]) -> bool {
    let mut said = texts.iter().filter(|text| !text.is_empty());
    let first = said.next();
    said.any(|text| Some(text) != first)
}

/// True if a row has the same usual name in at least two cells and nothing else. The usual ending of a name is not enough, because the title
/// of a table may have it.
fn repeats_name(texts: &[&str]) -> bool {
    let mut said = texts.iter().filter(|text| !text.is_empty());
    let Some(first) = said.next() else { return false };
    is_usual_name(first) && said.clone().next().is_some() && said.all(|text| text == first)
}

/// True if two rows name the columns: some names are only in the lower row, and others only in the upper row, which also has headings of
/// several columns.
fn is_pair(upper: &TableRow, lower: &TableRow) -> bool {
    if upper.fault.is_some() || lower.fault.is_some() || lower.number != upper.number + 1 {
        return false;
    }
    let upper = texts(upper);
    let lower = texts(lower);
    let mut columns = 0..upper.len().max(lower.len());
    differs(&upper)
        && differs(&lower)
        && columns.clone().any(|column| is_said(&upper, column) && !is_said(&lower, column))
        && columns.clone().any(|column| !is_said(&upper, column) && is_said(&lower, column))
        && columns.all(|column| is_said(&upper, column) || is_said(&lower, column) || column >= upper.len())
        && upper.iter().chain(&lower).all(|text| is_short_name(text))
        && lower.iter().any(|text| kind_of(text).is_some())
}

/// True if the text may be the name of a column in two rows of names.
fn is_short_name(text: &str) -> bool {
    text.chars().count() <= MOST_NAME_CHARS
        && !text.contains(|sign: char| sign.is_ascii_digit() || "：:，。".contains(sign))
}

/// Returns the names of columns that two rows name. A heading applies to its column and the columns behind it until the next heading.
fn joined(upper: &[&str], lower: &[&str]) -> Vec<String> {
    let mut heading = "";
    let mut names = Vec::new();
    for column in 0..upper.len().max(lower.len()) {
        let above = upper.get(column).copied().unwrap_or("");
        let below = lower.get(column).copied().unwrap_or("");
        if !above.is_empty() {
            heading = above;
        }
        names.push(match (heading, below) {
            (_, "") => above.to_owned(),
            ("", below) => below.to_owned(),
            (heading, below) => format!("{heading}{JOINT}{below}"),
        });
    }
    names
}

/// True if a row repeats a row of several names.
fn is_same(names: &[String], texts: &[&str]) -> bool {
    let several = names.iter().filter(|name| !name.is_empty()).count() > 1;
    let mut columns = 0..names.len().max(texts.len());
    // A row of a single word may be a letter.
    several && columns.all(|at| names.get(at).map_or("", String::as_str) == texts.get(at).copied().unwrap_or(""))
}

/// True for a row of totals: it begins with a word for totals, and numbers follow.
fn is_totals(texts: &[&str]) -> bool {
    let mut said = texts.iter().filter(|text| !text.is_empty());
    let Some(first) = said.next() else { return false };
    let first = first.split(['（', '(']).next().unwrap_or_default();
    let word: String = first.chars().filter(|sign| !sign.is_whitespace() && !"：:".contains(*sign)).collect();
    let word = word.to_lowercase();
    let is_total =
        TOTALS.iter().any(|total| word.strip_suffix(total).is_some_and(|before| TOTALS_OF.contains(&before)));
    is_total && said.all(|text| is_count(text))
}

/// True for a number. A measure word may follow the number.
fn is_count(text: &str) -> bool {
    text.parse::<f64>().is_ok() || text.chars().all(|sign| sign.is_ascii_digit() || "件条,.，%".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::TableCell;

    fn row(number: u64, line: &str) -> TableRow {
        let cells = line.split('|').map(|text| TableCell::from(text.to_owned())).collect();
        TableRow { number, line: number, cells, ..TableRow::default() }
    }

    fn rows(lines: &[&str]) -> Vec<TableRow> {
        (1..).zip(lines).map(|(number, line)| row(number, line)).collect()
    }

    fn marked(header: &TableHeader, line: &str) -> Option<RowFault> {
        let mut row = row(9, line);
        header.mark(&mut row);
        row.fault
    }

    #[track_caller]
    fn found(lines: &[&str]) -> (usize, usize, String) {
        let header = TableHeader::find(&rows(lines)).unwrap();
        (header.first, header.last, header.names.join("|"))
    }

    #[test]
    fn a_title_and_remarks_above_the_names_are_passed_over() {
        let names = "编号|内容|来电人";
        for title in
            ["三月来件登记|||", "三月来件登记|三月来件登记|三月来件登记", "填表单位：信访局||2025年3月", "制表人|李四|"]
        {
            assert_eq!(found(&[title, names, "1|路灯不亮|张三"]), (1, 1, names.into()), "{title}");
        }
        assert_eq!(found(&["a|b", "1|2"]), (0, 0, "a|b".into()));
        assert_eq!(found(&["正文", "路灯不亮"]), (0, 0, "正文".into()));
        assert_eq!(found(&["内容|内容", "路灯不亮|三天了"]), (0, 0, "内容|内容".into()));
        assert_eq!(found(&["内容|内容|时间", "路灯不亮|三天了|3月1日"]), (0, 0, "内容|内容|时间".into()));
        assert_eq!(found(&["三月信访情况|三月信访情况", "甲|乙", "1|2"]), (1, 1, "甲|乙".into()), "a title");
        assert!(matches!(TableHeader::find(&rows(&["", "|"])), Err(TableError::NoHeader)));
    }

    #[test]
    fn names_in_two_rows_are_joined() {
        let lines = ["登记表||||", "编号|诉求||来电人|", "|标题|内容|姓名|电话", "7|路灯|路灯不亮|张三|139"];
        assert_eq!(found(&lines), (1, 2, "编号|诉求/标题|诉求/内容|来电人/姓名|来电人/电话".into()));
        // The upper row has the usual names.
        let lines = ["编号|标题|办理|", "||单位|时间", "7|路灯|城管局|3月5日"];
        assert_eq!(found(&lines), (0, 1, "编号|标题|办理/单位|办理/时间".into()));
        // A row of data with an empty cell is not a second row of names.
        let lines = ["编号|内容||来电人", "1|路灯不亮|急|"];
        assert_eq!(found(&lines).1, 0);
    }

    #[test]
    fn the_names_again_and_totals_are_no_data() {
        let header = TableHeader::find(&rows(&["编号|内容|", "1|路灯|"])).unwrap();
        assert_eq!(marked(&header, "编号|内容|"), Some(RowFault::RepeatedHeader));
        assert_eq!(marked(&header, "编号|内容"), Some(RowFault::RepeatedHeader));
        for totals in [
            "合计|5",
            "合 计：|",
            "总计|120件",
            "Total|5|7.5",
            "本页小计|3",
            "总计（件）|8",
            "合计（共3件）|",
            "累计|12",
        ] {
            assert_eq!(marked(&header, totals), Some(RowFault::Totals), "{totals}");
        }
        for data in ["1|路灯", "合计|路灯不亮了", "合计有误|5", "|内容", "总数不对|5", "（合计）|5"]
        {
            assert_eq!(marked(&header, data), None, "{data}");
        }
        let single = TableHeader::find(&rows(&["内容", "路灯"])).unwrap();
        assert_eq!(marked(&single, "内容"), None, "a letter may say so");
    }
}
