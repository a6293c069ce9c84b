//! References: a record that cites the number of another record is about the same event and is no new report.

use hashbrown::HashMap;

use super::collection::EventCollection;
use super::record::EventRecord;
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

/// A record that cites the id of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Citation {
    /// Position of the citing record.
    pub record: u32,
    /// Position of the cited record.
    pub cited: u32,
    /// The purpose of the citation.
    pub manner: CitationManner,
}

/// The numbers that records have and cite.
#[derive(Debug, Default)]
pub(super) struct ReferenceIndex {
    /// The records with each number as their id.
    owners: HashMap<String, Vec<u32>>,
    /// The records that cite each number.
    citing: HashMap<String, Vec<u32>>,
}

impl ReferenceIndex {
    /// Adds records of the collection. O(numbers in their texts).
    pub(super) fn insert(&mut self, collection: &EventCollection, new: &[u32]) {
        for at in new {
            let record = collection.record(*at);
            if let Some(number) = citable(&record.id) {
                self.owners.entry(number).or_default().push(*at);
            }
            for number in cited_numbers(record) {
                self.citing.entry(number).or_default().push(*at);
            }
        }
    }

    /// Removes records, which the collection still contains.
    pub(super) fn remove(&mut self, collection: &EventCollection, gone: &[u32]) {
        for at in gone {
            let record = collection.record(*at);
            let own = citable(&record.id).and_then(|number| self.owners.get_mut(&number));
            own.into_iter().for_each(|holders| holders.retain(|holder| holder != at));
            for number in cited_numbers(record) {
                self.citing.entry(number).and_modify(|holders| holders.retain(|holder| holder != at));
            }
        }
    }

    /// Returns the citations of other records by a record: each once, ascending.
    pub(super) fn citations_by(&self, collection: &EventCollection, at: u32) -> Vec<Citation> {
        let record = collection.record(at);
        let cited = cited_numbers(record).filter_map(|number| {
            let owners = self.owners.get(&number)?.iter().copied();
            owners.min_by(|a, b| collection.record(*a).id.cmp(&collection.record(*b).id))
        });
        let cited = cited.filter(|cited| *cited != at);
        let mut found: Vec<Citation> =
            cited.map(|cited| Citation { record: at, cited, manner: manner(record.named.compact()) }).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the records that cite a record or are cited by it, and those with the same number, which may be cited instead of it.
    pub(super) fn neighbours(&self, collection: &EventCollection, at: u32) -> Vec<u32> {
        let record = collection.record(at);
        let own = citable(&record.id);
        let citing = own.and_then(|number| self.citing.get(&number)).into_iter().flatten();
        let cited = cited_numbers(record).filter_map(|number| self.owners.get(&number)).flatten();
        citing.chain(cited).copied().filter(|other| *other != at).collect()
    }
}

/// Returns the form of an id in which other records cite it; `None` if it is too short.
fn citable(id: &str) -> Option<String> {
    Some(number_form(id)).filter(|number| number.chars().count() >= MIN_NUMBER_CHARS)
}

fn cited_numbers(record: &EventRecord) -> impl Iterator<Item = String> {
    record.values(ObjectKind::Number).map(number_form)
}

/// Returns the form in which numbers are compared: letters and digits, lower case.
fn number_form(number: &str) -> String {
    number.chars().filter(|c| c.is_alphanumeric()).map(digit_form).flat_map(char::to_lowercase).collect()
}

fn manner(text: &str) -> CitationManner {
    let shown = MANNERS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word)));
    shown.map_or(CitationManner::Refers, |(manner, _)| *manner)
}
