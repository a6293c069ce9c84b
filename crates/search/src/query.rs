//! Full-text search.
//!
//! A question is a list of words and of phrases in quotes. A record must contain each of them, and must not contain a word or phrase after
//! a minus sign. A word is searched as a word and as a run of characters, so that it is found even if the segmenter cut the text of the
//! record in another way. The hits are ordered by score or by time; a cursor continues a list on the next page.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::columnar::Column;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, ConstScoreQuery, Occur, PhraseQuery, Query, RangeQuery, RegexQuery, TermQuery,
};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocId, Score, SegmentOrdinal, SegmentReader, Term};

use crate::extract::{Extractor, is_single, run_terms};
use crate::index::{Index, Result, SEQ, TIME, verdict_code};
use doppel_core::collection::{Role, Settings};
use doppel_core::record::RecordId;
use doppel_core::text::shingles::counts;
use doppel_core::verdict::VerdictKind;
use doppel_store::Seq;

/// Largest length of a question in characters.
pub const MAX_QUESTION_CHARS: usize = 1_000;
/// Largest number of words and phrases in a question.
pub const MAX_PARTS: usize = 32;
/// Largest number of hits that is stated exactly.
pub const MAX_COUNTED: u64 = 10_000;
/// The weight of a word that is found as a run of characters; a word that is found as a word has weight 1.
const RUN_WEIGHT: f32 = 0.5;

/// The order of the hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The highest score first.
    #[default]
    Ranked,
    /// The latest time first; records without a time last.
    Newest,
}

/// A position in the list of hits, after the record with this rank and seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HitCursor {
    /// The score or the time by which the list is ordered, as a number.
    pub rank: u64,
    pub seq: Seq,
}

/// A search with its filters.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// The question with at most [`MAX_PARTS`] parts. An empty question finds all records.
    pub text: String,
    /// The earliest time of a record, in microseconds since 1970, inclusive.
    pub from: Option<i64>,
    /// The latest time of a record, in microseconds since 1970, exclusive.
    pub to: Option<i64>,
    /// The petitioner.
    pub identity: Option<String>,
    /// A value in a field of role `whole` or `category`.
    pub category: Option<String>,
    /// A value of role `status`.
    pub status: Option<String>,
    /// A value of role `unit`.
    pub unit: Option<String>,
    pub verdict: Option<VerdictKind>,
    pub order: Order,
    /// Largest number of hits in the answer.
    pub limit: usize,
    /// The end of an earlier answer; the search continues after it.
    pub after: Option<HitCursor>,
}

/// A record that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    pub id: RecordId,
    pub seq: Seq,
    /// The score; 0 if the hits are ordered by time.
    pub score: f32,
    /// The time of the record, in microseconds since 1970.
    pub time: Option<i64>,
}

/// The number of records that match a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitTotal {
    Exactly(u64),
    AtLeast(u64),
}

impl Default for HitTotal {
    fn default() -> Self {
        Self::Exactly(0)
    }
}

/// One page of hits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchHits {
    /// The hits in order.
    pub hits: Vec<SearchHit>,
    /// The number of matching records on all pages.
    pub total: HitTotal,
    /// The beginning of the next page; `None` on the last page.
    pub next: Option<HitCursor>,
    /// The normalised words and phrases to mark in the texts of the hits.
    pub marked: Vec<String>,
    /// The parts of the question that the search left out, because they contain no character that is indexed.
    pub ignored: Vec<String>,
}

/// A word or phrase of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionPart {
    /// The normalised text.
    pub text: String,
    /// True if the part was in quotes.
    pub is_phrase: bool,
    /// True if matching records must not contain the part.
    pub is_excluded: bool,
}

/// Splits a question into its parts. A quote that is not closed ends at the end of the question.
pub fn split_question(question: &str, normalise: impl Fn(&str) -> String) -> Vec<QuestionPart> {
    let mut found = Vec::new();
    let question = question.replace(['“', '”', '＂', '「', '」'], "\"");
    let mut rest = question.as_str();
    loop {
        rest = rest.trim_start();
        let whole = rest;
        let is_excluded =
            rest.starts_with(['-', '－']) && rest.chars().nth(1).is_some_and(|next| !next.is_whitespace());
        if is_excluded {
            rest = rest.trim_start_matches(['-', '－']);
        }
        let (text, is_phrase, behind) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
                (text, true, behind)
            }
            None => {
                let end = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
                (&rest[..end], false, &rest[end..])
            }
        };
        let normal = normalise(text);
        // A part that normalises to nothing keeps its original text, so that the answer can name it as ignored.
        let piece = &whole[..whole.len() - behind.len()];
        let text = if normal.trim().is_empty() { piece } else { normal.as_str() }.trim();
        if !text.is_empty() {
            found.push(QuestionPart { text: text.to_owned(), is_phrase, is_excluded });
        }
        if behind.is_empty() {
            return found;
        }
        rest = behind;
    }
}

/// A question, split into parts that can and cannot be searched.
struct ParsedQuestion {
    /// The parts to search for.
    parts: Vec<QuestionPart>,
    /// The parts without a letter, digit or Han character. The index does not contain such text.
    ignored: Vec<String>,
}

impl ParsedQuestion {
    /// Returns the texts to mark in the hits: the phrases, and the words of all other parts.
    fn marked(&self, extractor: &Extractor) -> Vec<String> {
        let wanted = self.parts.iter().filter(|part| !part.is_excluded);
        let words = wanted.flat_map(|part| {
            let words = if part.is_phrase { Vec::new() } else { extractor.words(&part.text) };
            if words.is_empty() { vec![part.text.clone()] } else { words }
        });
        words.collect()
    }
}

impl Index {
    /// Parses a question. Normalises its parts like the texts of the collection.
    fn parse_question(&self, text: &str) -> ParsedQuestion {
        let parts = split_question(text, |text| self.extractor().normalise(text));
        let (parts, ignored): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.text.chars().any(counts));
        ParsedQuestion { parts, ignored: ignored.into_iter().map(|part| part.text).collect() }
    }

    /// Finds the records that match a query. A question that has only ignored parts finds nothing. O(records that contain the rarest part,
    /// and their filters).
    ///
    /// # Errors
    /// [`IndexError`](crate::index::IndexError) if the files cannot be read.
    pub fn search(&self, settings: &Settings, wanted: &SearchQuery) -> Result<SearchHits> {
        let question = self.parse_question(&wanted.text);
        if question.parts.is_empty() && !question.ignored.is_empty() {
            return Ok(SearchHits { ignored: question.ignored, ..SearchHits::default() });
        }
        let searcher = self.searcher()?;
        let query = self.main_query(settings, wanted, &question)?;
        let excluded = question.parts.iter().filter(|part| part.is_excluded);
        let excluded = excluded.map(|part| self.part_query(part)).collect::<Result<Vec<_>>>()?;
        // A separate search finds the excluded records, because tantivy's own exclusion does not work for phrases.
        let excluded = match excluded.is_empty() {
            true => ExcludedRecords::default(),
            false => searcher.search(&BooleanQuery::union(excluded), &ExclusionCollector)?,
        };
        let collector = OrderedCollector { order: wanted.order, after: wanted.after, limit: wanted.limit, excluded };
        let found = searcher.search(&query, &collector)?;
        let has_more = found.best.len() > wanted.limit;
        let mut hits = Vec::with_capacity(wanted.limit);
        let mut last = None;
        for place in found.best.into_iter().take(wanted.limit) {
            let score = if wanted.order == Order::Ranked { f32::from_bits(place.rank as u32) } else { 0.0 };
            last = Some(HitCursor { rank: place.rank, seq: place.seq });
            let columns = searcher.segment_reader(place.at.segment_ord).fast_fields();
            let time = columns.i64(TIME)?.first(place.at.doc_id);
            hits.push(SearchHit { id: self.id(&searcher, place.at)?, seq: place.seq, score, time });
        }
        let total =
            if found.total > MAX_COUNTED { HitTotal::AtLeast(MAX_COUNTED) } else { HitTotal::Exactly(found.total) };
        let marked = question.marked(self.extractor());
        Ok(SearchHits { hits, total, next: last.filter(|_| has_more), marked, ignored: question.ignored })
    }

    fn main_query(&self, settings: &Settings, wanted: &SearchQuery, question: &ParsedQuestion) -> Result<BooleanQuery> {
        let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for part in question.parts.iter().filter(|part| !part.is_excluded) {
            clauses.push((Occur::Must, self.part_query(part)?));
        }
        if clauses.is_empty() {
            clauses.push((Occur::Must, Box::new(ConstScoreQuery::new(Box::new(AllQuery), 0.0))));
        }
        for filter in self.filter_queries(settings, wanted) {
            clauses.push((Occur::Must, Box::new(ConstScoreQuery::new(filter, 0.0))));
        }
        Ok(BooleanQuery::new(clauses))
    }

    fn filter_queries(&self, settings: &Settings, wanted: &SearchQuery) -> Vec<Box<dyn Query>> {
        let fields = &self.fields;
        let mut filters: Vec<Box<dyn Query>> = Vec::new();
        if wanted.from.is_some() || wanted.to.is_some() {
            let from = wanted.from.map(|from| Term::from_field_i64(fields.time, from));
            let to = wanted.to.map(|to| Term::from_field_i64(fields.time, to));
            let from = from.map_or(Bound::Unbounded, Bound::Included);
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            filters.push(Box::new(RangeQuery::new(from, to)));
        }
        if let Some(identity) = &wanted.identity {
            let hash = self.extractor().identity_hash(identity);
            filters.push(term_query(Term::from_field_u64(fields.petitioners, hash)));
        }
        if let Some(verdict) = wanted.verdict {
            filters.push(term_query(Term::from_field_u64(fields.verdict, verdict_code(verdict))));
        }
        if let Some(category) = &wanted.category {
            let terms = self.extractor().category_terms(settings, category);
            let whole = terms.iter().map(|value| term_query(Term::from_field_text(fields.category, value)));
            let any = whole.chain([self.handling_query(Role::Category, category)]);
            filters.push(Box::new(BooleanQuery::union(any.collect())));
        }
        let handled = [(Role::Status, &wanted.status), (Role::Unit, &wanted.unit)];
        let handled = handled.into_iter().filter_map(|(role, value)| Some((role, value.as_ref()?)));
        filters.extend(handled.map(|(role, value)| self.handling_query(role, value)));
        filters
    }

    fn handling_query(&self, role: Role, value: &str) -> Box<dyn Query> {
        term_query(Term::from_field_text(self.fields.handling, &self.extractor().handling_term(role, value)))
    }

    /// Returns the query for a part of a question. It matches the part as a run of characters. Unless the part is a phrase, it also matches
    /// all words of the part, each of them as a word or as a run.
    fn part_query(&self, part: &QuestionPart) -> Result<Box<dyn Query>> {
        let words = if part.is_phrase { Vec::new() } else { self.extractor().words(&part.text) };
        let mut either: Vec<Box<dyn Query>> = self.run_query(&part.text)?.into_iter().collect();
        if !words.is_empty() {
            let all = words.iter().map(|word| self.word_query(word)).collect::<Result<_>>()?;
            either.push(Box::new(BooleanQuery::intersection(all)));
        }
        Ok(Box::new(BooleanQuery::union(either)))
    }

    fn word_query(&self, word: &str) -> Result<Box<dyn Query>> {
        let term = Term::from_field_text(self.fields.words, word);
        let mut either: Vec<Box<dyn Query>> = vec![Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))];
        if let Some(run) = self.run_query(word)? {
            either.push(Box::new(BoostQuery::new(run, RUN_WEIGHT)));
        }
        Ok(Box::new(BooleanQuery::union(either)))
    }

    /// Returns the query for a text as a run of characters; `None` if the text has no character that is indexed.
    fn run_query(&self, text: &str) -> Result<Option<Box<dyn Query>>> {
        let field = self.fields.pairs;
        let terms = run_terms(text);
        Ok(match terms.as_slice() {
            [] => None,
            [only] if is_single(&only.term) => {
                // The pattern matches the character alone and the pairs that begin with it. No Han character has a special meaning in a pattern.
                let pattern = format!("{}.?", only.term);
                Some(Box::new(RegexQuery::from_pattern(&pattern, field)?))
            }
            [only] => {
                let term = Term::from_field_text(field, &only.term);
                Some(Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)))
            }
            run => {
                let run = run.iter().map(|placed| (placed.position, Term::from_field_text(field, &placed.term)));
                Some(Box::new(PhraseQuery::new_with_offset(run.collect())))
            }
        })
    }
}

fn term_query(term: Term) -> Box<dyn Query> {
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

/// The excluded records: a bit for each document, by segment.
type ExcludedRecords = HashMap<SegmentOrdinal, Arc<[u64]>>;

/// Collects the records that match an excluded part.
struct ExclusionCollector;

struct SegmentExclusionCollector {
    segment: SegmentOrdinal,
    bits: Vec<u64>,
}

impl Collector for ExclusionCollector {
    type Fruit = ExcludedRecords;
    type Child = SegmentExclusionCollector;

    fn for_segment(
        &self,
        segment: SegmentOrdinal,
        reader: &SegmentReader,
    ) -> tantivy::Result<SegmentExclusionCollector> {
        Ok(SegmentExclusionCollector { segment, bits: vec![0; reader.max_doc().div_ceil(64) as usize] })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, fruits: Vec<(SegmentOrdinal, Vec<u64>)>) -> tantivy::Result<ExcludedRecords> {
        Ok(fruits.into_iter().map(|(segment, bits)| (segment, bits.into())).collect())
    }
}

impl SegmentCollector for SegmentExclusionCollector {
    type Fruit = (SegmentOrdinal, Vec<u64>);

    fn collect(&mut self, doc: DocId, _: Score) {
        self.bits[doc as usize / 64] |= 1 << (doc % 64);
    }

    fn harvest(self) -> (SegmentOrdinal, Vec<u64>) {
        (self.segment, self.bits)
    }
}

/// Collects the first records in an order, and counts all matching records.
struct OrderedCollector {
    order: Order,
    after: Option<HitCursor>,
    limit: usize,
    excluded: ExcludedRecords,
}

/// A document with the values that order it. Higher ranks come first; among equal ranks, higher seqs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankedDocument {
    rank: u64,
    seq: Seq,
    at: DocAddress,
}

#[derive(Default)]
struct OrderedHits {
    /// The first documents in order: one more than requested, if it exists, to show that another page follows.
    best: Vec<RankedDocument>,
    total: u64,
}

struct SegmentOrderedCollector {
    order: Order,
    after: Option<HitCursor>,
    most: usize,
    segment: SegmentOrdinal,
    excluded: Option<Arc<[u64]>>,
    seqs: Column<u64>,
    times: Column<i64>,
    best: BinaryHeap<Reverse<RankedDocument>>,
    total: u64,
}

impl Collector for OrderedCollector {
    type Fruit = OrderedHits;
    type Child = SegmentOrderedCollector;

    fn for_segment(&self, segment: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<SegmentOrderedCollector> {
        let columns = reader.fast_fields();
        Ok(SegmentOrderedCollector {
            order: self.order,
            after: self.after,
            most: self.limit + 1,
            segment,
            excluded: self.excluded.get(&segment).cloned(),
            seqs: columns.u64(SEQ)?,
            times: columns.i64(TIME)?,
            best: BinaryHeap::new(),
            total: 0,
        })
    }

    fn requires_scoring(&self) -> bool {
        self.order == Order::Ranked
    }

    fn merge_fruits(&self, fruits: Vec<OrderedHits>) -> tantivy::Result<OrderedHits> {
        let mut merged = OrderedHits::default();
        for fruit in fruits {
            merged.best.extend(fruit.best);
            merged.total += fruit.total;
        }
        merged.best.sort_unstable_by(|a, b| b.cmp(a));
        merged.best.truncate(self.limit + 1);
        Ok(merged)
    }
}

impl SegmentCollector for SegmentOrderedCollector {
    type Fruit = OrderedHits;

    fn collect(&mut self, doc: DocId, score: Score) {
        if self.excluded.as_ref().is_some_and(|bits| bits[doc as usize / 64] & 1 << (doc % 64) != 0) {
            return;
        }
        self.total += 1;
        let rank = match self.order {
            // The bits of positive floating-point numbers have the same order as the numbers.
            Order::Ranked => u64::from(score.max(0.0).to_bits()),
            Order::Newest => self.times.first(doc).map_or(0, |time| time.abs_diff(i64::MIN)),
        };
        let seq = Seq(self.seqs.first(doc).unwrap_or(0));
        if self.after.is_some_and(|after| (rank, seq) >= (after.rank, after.seq)) {
            return;
        }
        let place = RankedDocument { rank, seq, at: DocAddress::new(self.segment, doc) };
        if self.best.len() < self.most {
            self.best.push(Reverse(place));
        } else if self.best.peek().is_some_and(|Reverse(least)| place > *least) {
            self.best.pop();
            self.best.push(Reverse(place));
        }
    }

    fn harvest(self) -> OrderedHits {
        OrderedHits { best: self.best.into_iter().map(|Reverse(place)| place).collect(), total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_split_into_words_phrases_and_excluded_parts() {
        assert_eq!(split("路灯 LED"), [word("路灯"), word("led")]);
        assert_eq!(split("\"三号路 路灯\" -井盖"), [phrase("三号路 路灯"), excluded(word("井盖"))]);
        assert_eq!(split("“路灯不亮” -\"五号 路\"x"), [phrase("路灯不亮"), excluded(phrase("五号 路")), word("x")]);
        assert_eq!(split("a - b"), [word("a"), word("-"), word("b")]);
        assert_eq!(split("\"offen"), [phrase("offen")]);
        assert_eq!(split("-- \"\""), [excluded(word("--")), phrase("\"\"")]);
        assert!(split("  ").is_empty());
        assert!(split("").is_empty());
    }

    fn split(question: &str) -> Vec<QuestionPart> {
        split_question(question, str::to_lowercase)
    }

    fn word(text: &str) -> QuestionPart {
        QuestionPart { text: text.into(), is_phrase: false, is_excluded: false }
    }

    fn phrase(text: &str) -> QuestionPart {
        QuestionPart { is_phrase: true, ..word(text) }
    }

    fn excluded(part: QuestionPart) -> QuestionPart {
        QuestionPart { is_excluded: true, ..part }
    }
}
