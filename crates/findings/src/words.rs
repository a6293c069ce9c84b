//! The words of findings, in both languages.

use doppel_core::verdict::{ObjectKind, Relation, VerdictKind};
use doppel_sources::tables::RowFault;
use doppel_texts::Language;

use crate::output::AddedCells;
use crate::{EarlierRow, RowFinding, RowRefusal, percent};

/// The words of findings in a language.
#[derive(Clone, Copy, Debug)]
pub struct FindingWords(pub Language);

impl FindingWords {
    /// Returns the text in this language. `both` contains the Chinese and the English text.
    fn of<T>(self, both: [T; 2]) -> T {
        let [chinese, english] = both;
        match self.0 {
            Language::Chinese => chinese,
            Language::English => english,
        }
    }

    pub fn verdict(self, kind: VerdictKind) -> &'static str {
        self.of(match kind {
            VerdictKind::Original => ["初件", "first"],
            VerdictKind::ExactDuplicate => ["重件（全文相同）", "repeat (same text)"],
            VerdictKind::NearDuplicate => ["重件（内容相近）", "repeat (similar text)"],
            VerdictKind::TooShort => ["文字过短", "too short"],
        })
    }

    /// Returns the name of a kind of object.
    pub fn object(self, kind: ObjectKind) -> &'static str {
        self.of(match kind {
            ObjectKind::District => ["地区", "district"],
            ObjectKind::Road => ["道路", "road"],
            ObjectKind::Place => ["地点", "place"],
            ObjectKind::Water => ["水域", "water"],
            ObjectKind::Organisation => ["单位", "organisation"],
            ObjectKind::Plate => ["车牌", "plate"],
            ObjectKind::Number => ["号码", "number"],
            ObjectKind::Line => ["线路", "line"],
            ObjectKind::Amount => ["金额", "amount"],
            ObjectKind::HouseNumber => ["门牌", "house number"],
            ObjectKind::Building => ["楼栋", "building"],
            ObjectKind::Unit => ["单元", "entrance"],
            ObjectKind::Room => ["房号", "room"],
            ObjectKind::Phase => ["期区", "phase"],
            ObjectKind::VillageGroup => ["村组", "village group"],
        })
    }

    /// Returns the text for the verdict of rows that are refused.
    pub fn refused(self) -> &'static str {
        self.of(["未处理", "not taken"])
    }

    /// Returns the names of the columns that are added to a table.
    pub fn headings(self) -> AddedCells {
        let headings = [["结论", "Verdict"], ["重复于", "Repeats"], ["相似度", "Similarity"], ["理由", "Reason"]];
        headings.map(|both| self.of(both).to_owned())
    }

    /// Returns the name of an earlier row; `None` for a record, which is named by its id.
    fn row_name(self, of: &EarlierRow) -> Option<String> {
        match of {
            EarlierRow::Record(_) => None,
            EarlierRow::Row(number) => {
                Some(self.of([format!("本文件第 {number} 行"), format!("row {number} of this file")]))
            }
            EarlierRow::RowOf(name, number) => {
                Some(self.of([format!("{name} 第 {number} 行"), format!("row {number} of {name}")]))
            }
        }
    }

    /// Returns the finding for a row, as a sentence.
    pub fn reason(self, finding: &RowFinding) -> String {
        let of = match &finding.of {
            Some(EarlierRow::Record(id)) => self.of([format!("库中编号 {id} 的信访件"), format!("record {id}")]),
            Some(row) => self.row_name(row).unwrap_or_default(),
            None => self.of(["较早的信访件", "an earlier record"]).to_owned(),
        };
        let who = self.of(match finding.relation {
            Some(Relation::Repeat) => ["，来信人相同", ", by the same petitioner"],
            Some(Relation::Shared) => ["，来信人不同", ", by another petitioner"],
            None => ["", ""],
        });
        let said = self.of(match (finding.kind, finding.similarity.map(percent)) {
            (VerdictKind::Original, _) => ["没有找到相同的信访事项".into(), "Nothing like it was found".into()],
            (VerdictKind::TooShort, _) => [
                "文字过短，只比对了是否完全相同，没有找到".into(),
                "Too short: only compared for the same text, and none was found".into(),
            ],
            (VerdictKind::ExactDuplicate, _) => [format!("与{of}内容相同{who}"), format!("The same text as {of}{who}")],
            (VerdictKind::NearDuplicate, Some(share)) => {
                [format!("与{of}内容相近，相似度 {share}%{who}"), format!("Like {of}, similarity {share}%{who}")]
            }
            (VerdictKind::NearDuplicate, None) => [format!("与{of}内容相近{who}"), format!("Like {of}{who}")],
        });
        self.of(match &finding.registered {
            Some((id, true)) => [format!("{said}。已登记，编号 {id}。"), format!("{said}. Registered as {id}.")],
            Some((id, false)) => {
                [format!("{said}。此前已登记，编号 {id}。"), format!("{said}. Registered before, as {id}.")]
            }
            None => [format!("{said}。"), format!("{said}.")],
        })
    }

    /// Returns the reason why a row is refused, as a sentence.
    pub fn refusal(self, refusal: &RowRefusal) -> String {
        let fixed = match refusal {
            RowRefusal::Row(fault) => return self.fault(fault),
            RowRefusal::Invalid(code) => match code.as_str() {
                "no_content" => {
                    ["标题和内容都是空的，无从比对。", "Title and content are empty: nothing can be compared."]
                }
                "invalid_id" => [
                    "编号不能用：须为 1 至 256 字节，不含控制字符，不以下划线开头。",
                    "The number cannot be used: 1 to 256 bytes, no control characters, no underscore at its beginning.",
                ],
                "inexact_id" => [
                    "编号是取整后的数字（如 3.30106E+17），文件里已没有全部位数。请在原系统中把编号按文本导出。",
                    "The number is rounded (such as 3.30106E+17): the file does not have all of its digits. Export it as text.",
                ],
                "no_id" => {
                    ["没有编号。请补上编号，或者让程序编号。", "It has no number. Add one, or have numbers made."]
                }
                "repeated_id" => {
                    ["编号与前面的一行相同。请改正编号。", "An earlier row has the same number. Mend the number."]
                }
                code => {
                    return self.of([format!("内容不符合要求（{code}）。"), format!("It cannot be taken ({code}).")]);
                }
            },
            RowRefusal::Empty => ["所选各列都是空的。", "The chosen columns are all empty."],
            RowRefusal::SameId(number) => {
                return self.of([
                    format!("编号与本文件第 {number} 行相同，没有登记。请改正编号。"),
                    format!("Row {number} of this file has the same number; not registered. Mend the number."),
                ]);
            }
            RowRefusal::Stored => [
                "库中已有编号相同、内容不同的信访件，没有登记，库中那件没有改动。请核对编号。",
                "Another letter is stored under this number; not registered, and that one is unchanged. Check the number.",
            ],
            RowRefusal::Otherwise => [
                "这个文件的这一行此前按另一种选列登记过，没有再次登记。",
                "This row of this file was registered before with other columns; not registered again.",
            ],
        };
        self.of(fixed).to_owned()
    }

    /// Returns the reason why a row cannot be used, as a sentence.
    fn fault(self, fault: &RowFault) -> String {
        let fixed = match fault {
            RowFault::Undecodable => [
                "有文字无法按文件的编码读出。请改正后重新提交。",
                "Some of it is no text in the file's encoding. Mend it and give the file again.",
            ],
            RowFault::TooLong { .. } => {
                ["这一行太长。请缩短后重新提交。", "The row is too long. Shorten it and give the file again."]
            }
            RowFault::OpenQuote { .. } => [
                "单元格开头的引号没有结束。请补上引号，或者把文字里的引号写成两个。",
                "A quote begins a cell and is not closed. Close it, or double it where it is text.",
            ],
            RowFault::WrongCount { found, expected } => {
                return self.of([
                    format!("有 {found} 个单元格，表头有 {expected} 列。请检查分隔符和引号。"),
                    format!("{found} cells where the header has {expected}. Check separators and quotes."),
                ]);
            }
            RowFault::RepeatedHeader => ["重复的表头，不是数据。", "The names of the columns once more; no data."],
            RowFault::Totals => ["合计行，不是数据。", "Totals; no data."],
        };
        self.of(fixed).to_owned()
    }

    /// Returns the cells that are added to a row.
    pub fn added_cells(self, said: &Result<RowFinding, RowRefusal>) -> AddedCells {
        match said {
            Err(refusal) => [self.refused().to_owned(), String::new(), String::new(), self.refusal(refusal)],
            Ok(finding) => {
                let of = match &finding.of {
                    None => String::new(),
                    Some(EarlierRow::Record(id)) => id.to_string(),
                    Some(row) => self.row_name(row).unwrap_or_default(),
                };
                let similarity = finding.similarity.map(|share| format!("{}%", percent(share)));
                let verdict = self.verdict(finding.kind).to_owned();
                [verdict, of, similarity.unwrap_or_default(), self.reason(finding)]
            }
        }
    }
}
