//! References: a record that cites the number of another record is about the same event and is no new report.

use hashbrown::HashMap;

use super::cluster::RecordPair;
use super::collection::EventCollection;
use crate::text::shingles::digit_form;
use crate::verdict::ObjectKind;

/// Minimum number of characters of a cited number. Shorter numbers are counts and amounts.
const MIN_NUMBER_CHARS: usize = 6;

/// The purpose for which a record cites another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CitationManner {
    /// It takes the report back.
    Withdraws,
    /// It asks for the result.
    AsksForResult,
    /// It forwards the report.
    Forwards,
    /// It urges, adds to it or refers to it.
    Refers,
}

/// The words that show the manner, the first found wins.
const MANNERS: [(CitationManner, &[&str]); 3] = [
    (CitationManner::Withdraws, &["撤诉", "撤销", "撤单", "撤回", "取消工单", "取消诉求", "不再反映"]),
    (
        CitationManner::AsksForResult,
        &["办理结果", "处理结果", "办理进度", "处理进度", "查询结果", "查询进度", "什么结果"],
    ),
    (CitationManner::Forwards, &["转办", "转来", "转交", "转派", "交办"]),
];

/// A record that cites another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Citation {
    /// Position of the citing record.
    pub record: u32,
    /// Position of the cited record.
    pub cited: u32,
    /// The purpose of the citation.
    pub manner: CitationManner,
}

impl Citation {
    /// Returns the pair of records, as a known link.
    pub fn pair(&self) -> RecordPair {
        [self.record, self.cited]
    }
}

/// Finds the records that cite another record of the collection: by its id, or by a number that `own_numbers` gives for
/// it. `own_numbers` has the numbers that the office gave to each record, by position; it may be shorter than the
/// collection. O(numbers in all texts).
pub fn citations(collection: &EventCollection, own_numbers: &[Vec<String>]) -> Vec<Citation> {
    let mut owners: HashMap<String, u32> = HashMap::new();
    for (at, record) in (0..).zip(collection.records()) {
        let numbers = own_numbers.get(at as usize).into_iter().flatten().map(String::as_str);
        for number in numbers.chain([&*record.id]).map(number_form) {
            if number.chars().count() >= MIN_NUMBER_CHARS {
                owners.entry(number).or_insert(at);
            }
        }
    }
    let mut found = Vec::new();
    for (at, record) in (0..).zip(collection.records()) {
        let cited = record.values(ObjectKind::Number).filter_map(|number| owners.get(&number_form(number)).copied());
        for cited in cited.filter(|cited| *cited != at) {
            found.push(Citation { record: at, cited, manner: manner(record.named.compact()) });
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the form in which numbers are compared: letters and digits, lower case.
fn number_form(number: &str) -> String {
    number.chars().filter(|c| c.is_alphanumeric()).map(digit_form).flat_map(char::to_lowercase).collect()
}

fn manner(text: &str) -> CitationManner {
    let shown = MANNERS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word)));
    shown.map_or(CitationManner::Refers, |(manner, _)| *manner)
}
