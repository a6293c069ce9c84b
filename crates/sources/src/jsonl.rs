//! JSON lines: one object on each line. Blank lines are counted and left out. Members of rows are mapped to members of records in the same
//! way as the columns of a table.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, BufRead, Read};

use super::lines::{LineCutter, NumberedLine};
use super::tables::columns::ColumnTarget;
use super::{FileLine, FileLines, UnreadableLine, json_lines, too_large, unreadable};
use doppel_core::record::Row;

/// Number of rows that are read ahead to find the members.
const ROWS_AHEAD: usize = 100;
/// Number of bytes after which no more rows are read ahead.
const BYTES_AHEAD: usize = 4 << 20;

/// A file of JSON lines whose members are known from its first rows.
pub struct JsonStream {
    /// The names of the members of the first 100 rows, `id` included.
    pub header: Vec<String>,
    /// Items that were read ahead.
    waiting: VecDeque<io::Result<FileLine>>,
    items: FileLines,
}

impl JsonStream {
    /// Reads the first rows of `input`. Lines have at most `max` bytes.
    ///
    /// # Errors
    /// The beginning of the input cannot be read.
    pub fn open(input: impl Read + Send + 'static, max: usize) -> io::Result<Self> {
        let mut items = json_lines(input, max)?;
        let mut waiting = VecDeque::new();
        let mut header = Vec::new();
        let mut seen = HashSet::new();
        let mut bytes = 0;
        while waiting.len() < ROWS_AHEAD && bytes < BYTES_AHEAD {
            let Some(item) = items.next() else { break };
            if let Ok(FileLine { content: Ok(row), .. }) = &item {
                bytes += row.json().len();
                let id = row.id().map(|_| "id");
                let new = id.into_iter().chain(row.names()).filter(|name| seen.insert((*name).to_owned()));
                header.extend(new.map(str::to_owned));
            }
            waiting.push_back(item);
        }
        Ok(Self { header, waiting, items })
    }
}

impl Iterator for JsonStream {
    type Item = io::Result<FileLine>;

    fn next(&mut self) -> Option<Self::Item> {
        self.waiting.pop_front().or_else(|| self.items.next())
    }
}

/// The mapping of the members of rows to the members of records.
#[derive(Clone, Debug)]
pub struct MemberMapping {
    /// The new names; `None` for a member that is left out. Other members keep their names.
    names: HashMap<String, Option<String>>,
}

impl MemberMapping {
    /// Maps the members of `header` to `targets`.
    pub fn new(header: &[String], targets: &[ColumnTarget]) -> Self {
        let mut names = HashMap::new();
        for (member, target) in header.iter().zip(targets) {
            let name = target.name(member).map(str::to_owned);
            if name.as_ref() != Some(member) {
                names.insert(member.clone(), name);
            }
        }
        Self { names }
    }

    /// Returns the row with the members of a record.
    ///
    /// # Errors
    /// The reason why the row is not a record.
    pub fn row(&self, row: Row) -> Result<Row, UnreadableLine> {
        if self.names.is_empty() {
            return Ok(row);
        }
        row.renamed(|name| self.new_name(name)).map_err(|error| unreadable(error, row.json().as_bytes()))
    }

    fn new_name(&self, name: &str) -> Option<String> {
        self.names.get(name).cloned().unwrap_or_else(|| Some(name.to_owned()))
    }

    /// Returns the member of the file that became the member `name` of records, if it has another name.
    pub fn column_of(&self, name: &str) -> Option<&str> {
        let found = self.names.iter().find(|(_, new)| new.as_deref() == Some(name));
        found.map(|(member, _)| member.as_str())
    }
}

pub(super) struct JsonLines<R> {
    input: R,
    max: usize,
    lines: LineCutter,
}

impl<R: BufRead> JsonLines<R> {
    pub(super) fn new(input: R, max: usize) -> Self {
        Self { input, max, lines: LineCutter::new(max) }
    }

    fn next_line(&mut self) -> io::Result<Option<NumberedLine>> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(line));
            }
            let piece = self.input.fill_buf()?;
            if piece.is_empty() {
                return Ok(self.lines.last_line());
            }
            let length = piece.len();
            self.lines.feed(piece);
            self.input.consume(length);
        }
    }

    fn item(&self, NumberedLine { number, bytes }: NumberedLine) -> FileLine {
        let content = match bytes {
            Some(bytes) => Row::parse(&bytes).map_err(|error| unreadable(error, &bytes)),
            None => Err(too_large(self.max, "")),
        };
        FileLine { line: number, content }
    }
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = io::Result<FileLine>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.next_line().transpose()?;
        Some(line.map(|line| self.item(line)))
    }
}

#[cfg(test)]
mod tests {
    use crate::FileFormat::Jsonl;
    use crate::tests::{item, read};

    use super::*;

    #[test]
    fn members_become_fields_and_their_values_stay_as_they_are_written() {
        let text = "{\"工单编号\":12345678901234567890,\"市民诉求\":\"路灯\\u4e0d亮\",\"x\":1.50}\n{\n{\"other\":1}\n";
        let mut stream = JsonStream::open(text.as_bytes(), 100).unwrap();
        assert_eq!(stream.header, ["工单编号", "市民诉求", "x", "other"]);
        let targets =
            [ColumnTarget::Id, ColumnTarget::Field("content".into()), ColumnTarget::Unused, ColumnTarget::Own];
        let mapping = MemberMapping::new(&stream.header, &targets);
        let first = stream.next().unwrap().unwrap().content.unwrap();
        let json = mapping.row(first).unwrap().json().to_string();
        assert_eq!(json, r#"{"id":12345678901234567890,"content":"路灯\u4e0d亮"}"#);
        assert_eq!(stream.map(|item| item.unwrap().line).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(mapping.column_of("content"), Some("市民诉求"));
        let twice = Row::parse(r#"{"市民诉求":"a","content":"b"}"#.as_bytes()).unwrap();
        assert_eq!(mapping.row(twice).unwrap_err().code, "duplicate_key");
    }

    #[test]
    fn blank_lines_count_and_are_left_out() {
        let found = read(b"\xef\xbb\xbf{\"id\":1}\r\n\n  \n{\"id\":2}", Jsonl, 100);
        assert_eq!(found, [item(1, "{\"id\":1}"), item(4, "{\"id\":2}")]);
    }

    #[test]
    fn a_bad_line_is_an_item_and_the_rest_go_on() {
        let found = read(b"{\"id\":1}\n{\n[1]\n\xff\n{\"id\":{}}\n{\"id\":2}\n", Jsonl, 100);
        let codes = ["malformed_line", "not_an_object", "malformed_line", "invalid_id"];
        let codes = codes.iter().zip(2..).map(|(code, line)| item(line, code));
        let expected: Vec<_> =
            [item(1, "{\"id\":1}")].into_iter().chain(codes).chain([item(6, "{\"id\":2}")]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_over_the_limit_is_left_out_and_one_at_the_limit_is_not() {
        let found = read(b"{\"id\":1}\r\n{\"id\":10}\n{\"id\":2}", Jsonl, 8);
        assert_eq!(found, [item(1, "{\"id\":1}"), item(2, "line_too_large"), item(3, "{\"id\":2}")]);
    }
}
