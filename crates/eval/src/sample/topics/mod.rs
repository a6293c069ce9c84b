//! The matters about which letters are written, by topic.
//!
//! The lists of one matter fit each other: every place can be combined with every sign, cause and effect of the same matter.

mod home;
mod rights;
mod town;
mod work;

/// A topic with its matters.
#[derive(Debug)]
pub(super) struct LetterTopic {
    pub(super) label: &'static str,
    pub(super) matters: &'static [TopicMatter],
}

/// The relation of the writer to the matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterRelation {
    Resident,
    Villager,
    Parent,
    Worker,
    Customer,
    Citizen,
}

/// A matter. The last six fields are lists of templates, separated by `|`: see [`super::grammar`].
#[derive(Debug)]
pub(super) struct TopicMatter {
    pub(super) who: WriterRelation,
    /// Endings of company names, separated by `|`.
    pub(super) firm: &'static str,
    /// The offices that handle the matter, separated by `|`: the official name, `/`, and the name that people use.
    pub(super) offices: &'static str,
    pub(super) titles: &'static str,
    /// Places: noun phrases that may precede a sign.
    pub(super) places: &'static str,
    /// Clauses that describe the fault at the place.
    pub(super) signs: &'static str,
    /// Clauses about the people who are responsible.
    pub(super) causes: &'static str,
    /// Clauses about the consequences.
    pub(super) effects: &'static str,
    /// Requests that may follow 请 and an office.
    pub(super) asks: &'static str,
}

const TOPICS: [&[LetterTopic]; 4] = [town::TOPICS, home::TOPICS, work::TOPICS, rights::TOPICS];

pub(super) fn all() -> impl Iterator<Item = &'static LetterTopic> {
    TOPICS.into_iter().flatten()
}

/// Returns the number of topics.
pub(super) fn count() -> usize {
    TOPICS.iter().map(|topics| topics.len()).sum()
}

/// Returns the topic at `index`, which must be below [`count`].
pub(super) fn topic(index: usize) -> &'static LetterTopic {
    all().nth(index).unwrap_or(&town::TOPICS[0])
}
