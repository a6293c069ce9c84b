//! Search: records that have certain words.
//!
//! A question is a list of words and of phrases in quotes, each of which a record must have; one behind a minus it must not have.
//! Words are found as words and as runs of characters, so that what the segmenter cuts otherwise is found all the same. Answers
//! are ranked, or the newest come first; either way a cursor leads on behind the last one.

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

use crate::extract::{Extractor, Placed, is_single, run_terms};
use crate::index::{Index, Result, SEQ, TIME, verdict_code};
use doppel_core::collection::Settings;
use doppel_core::record::RecordId;
use doppel_core::text::shingles::counts;
use doppel_core::verdict::VerdictKind;
use doppel_store::Seq;

/// Longest question, in characters.
pub const MAX_QUESTION_CHARS: usize = 1_000;
/// Most words and phrases of a question.
pub const MAX_PARTS: usize = 32;
/// How far matches are counted exactly.
pub const MAX_COUNTED: u64 = 10_000;
/// Of a record's score, how much character runs count beside words.
const RUNS: f32 = 0.5;

/// How answers are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Best first.
    #[default]
    Ranked,
    /// Latest first, by the time of the record; those without one come last.
    Newest,
}

/// A place in a list: behind the record with this rank and seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// What the list is ordered by, as a number.
    pub rank: u64,
    /// The record's seq.
    pub seq: Seq,
}

/// What is searched for.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    /// The question, of at most [`MAX_PARTS`] parts; empty for all records.
    pub text: String,
    /// Only records from this time on, in microseconds since 1970.
    pub from: Option<i64>,
    /// Only records before this time.
    pub to: Option<i64>,
    /// Only those of this petitioner.
    pub identity: Option<String>,
    /// Only those with this value in a field of role `whole`.
    pub category: Option<String>,
    /// Only those with this verdict.
    pub verdict: Option<VerdictKind>,
    /// In which order.
    pub order: Order,
    /// At most so many.
    pub limit: usize,
    /// Where an earlier answer ended.
    pub after: Option<After>,
}

/// A record that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// Its id.
    pub id: RecordId,
    /// Its seq.
    pub seq: Seq,
    /// How well it fits; 0 where nothing is ranked.
    pub score: f32,
    /// When it was submitted, in microseconds since 1970.
    pub time: Option<i64>,
}

/// How many records were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Total {
    /// So many.
    Exactly(u64),
    /// So many, or more.
    AtLeast(u64),
}

impl Default for Total {
    fn default() -> Self {
        Self::Exactly(0)
    }
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Records, in order.
    pub hits: Vec<Hit>,
    /// How many there are in all.
    pub total: Total,
    /// Where the next answer begins; `None` at the end.
    pub next: Option<After>,
    /// What may be marked in the texts that were found, normalised.
    pub marked: Vec<String>,
    /// Parts of the question that were left out: nothing of them is indexed.
    pub ignored: Vec<String>,
}

/// A part of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What is to be there, normalised.
    pub text: String,
    /// Whether it was in quotes.
    pub is_phrase: bool,
    /// Whether it must not be there.
    pub is_excluded: bool,
}

/// The parts of a question, in order. A quote that is not closed ends with the question.
pub fn parts(question: &str, normalise: impl Fn(&str) -> String) -> Vec<Part> {
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
        // What is left of nothing is told as it was given.
        let piece = &whole[..whole.len() - behind.len()];
        let text = if normal.trim().is_empty() { piece } else { normal.as_str() }.trim();
        if !text.is_empty() {
            found.push(Part { text: text.to_owned(), is_phrase, is_excluded });
        }
        if behind.is_empty() {
            return found;
        }
        rest = behind;
    }
}

/// A question as it is understood.
struct Question {
    /// What it asks for.
    parts: Vec<Part>,
    /// Parts without a letter, digit or Han character, of which nothing is indexed.
    ignored: Vec<String>,
}

impl Question {
    /// What may be marked in the texts that are found: phrases, and the words of all else.
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
    /// What a question asks for, read as texts of the collection are.
    fn question(&self, text: &str) -> Question {
        let parts = parts(text, |text| self.extractor().normalise(text));
        let (parts, ignored): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.text.chars().any(counts));
        Question { parts, ignored: ignored.into_iter().map(|part| part.text).collect() }
    }

    /// Finds records; of a question without anything that can be found, none. O(records that have the rarest part, and their filters).
    ///
    /// # Errors
    /// [`IndexError`](crate::index::IndexError) where its files cannot be read.
    pub fn search(&self, settings: &Settings, wanted: &SearchQuery) -> Result<Hits> {
        let question = self.question(&wanted.text);
        if question.parts.is_empty() && !question.ignored.is_empty() {
            return Ok(Hits { ignored: question.ignored, ..Hits::default() });
        }
        let searcher = self.searcher();
        let query = self.query(settings, wanted, &question)?;
        let excluded = question.parts.iter().filter(|part| part.is_excluded);
        let excluded = excluded.map(|part| self.part(part)).collect::<Result<Vec<_>>>()?;
        // Found by themselves: the library's own exclusion misplaces phrases.
        let excluded = match excluded.is_empty() {
            true => Excluded::default(),
            false => searcher.search(&BooleanQuery::union(excluded), &Exclusion)?,
        };
        let collector = InOrder { order: wanted.order, after: wanted.after, limit: wanted.limit, excluded };
        let found = searcher.search(&query, &collector)?;
        let has_more = found.best.len() > wanted.limit;
        let mut hits = Vec::with_capacity(wanted.limit);
        let mut last = None;
        for place in found.best.into_iter().take(wanted.limit) {
            let score = if wanted.order == Order::Ranked { f32::from_bits(place.rank as u32) } else { 0.0 };
            last = Some(After { rank: place.rank, seq: place.seq });
            let columns = searcher.segment_reader(place.at.segment_ord).fast_fields();
            let time = columns.i64(TIME)?.first(place.at.doc_id);
            hits.push(Hit { id: self.id(&searcher, place.at)?, seq: place.seq, score, time });
        }
        let total = if found.total > MAX_COUNTED { Total::AtLeast(MAX_COUNTED) } else { Total::Exactly(found.total) };
        let marked = question.marked(self.extractor());
        Ok(Hits { hits, total, next: last.filter(|_| has_more), marked, ignored: question.ignored })
    }

    fn query(&self, settings: &Settings, wanted: &SearchQuery, question: &Question) -> Result<BooleanQuery> {
        let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for part in question.parts.iter().filter(|part| !part.is_excluded) {
            clauses.push((Occur::Must, self.part(part)?));
        }
        if clauses.is_empty() {
            clauses.push((Occur::Must, Box::new(ConstScoreQuery::new(Box::new(AllQuery), 0.0))));
        }
        let filters = self
            .filters(settings, wanted)
            .into_iter()
            .map(|filter| -> (Occur, Box<dyn Query>) { (Occur::Must, Box::new(ConstScoreQuery::new(filter, 0.0))) });
        clauses.extend(filters);
        Ok(BooleanQuery::new(clauses))
    }

    fn filters(&self, settings: &Settings, wanted: &SearchQuery) -> Vec<Box<dyn Query>> {
        let term = |term: Term| -> Box<dyn Query> { Box::new(TermQuery::new(term, IndexRecordOption::Basic)) };
        let fields = &self.fields;
        let mut filters: Vec<Box<dyn Query>> = Vec::new();
        if wanted.from.is_some() || wanted.to.is_some() {
            let at = |time: i64| Term::from_field_i64(fields.time, time);
            let from = wanted.from.map_or(Bound::Unbounded, |from| Bound::Included(at(from)));
            let to = wanted.to.map_or(Bound::Unbounded, |to| Bound::Excluded(at(to)));
            filters.push(Box::new(RangeQuery::new(from, to)));
        }
        if let Some(identity) = &wanted.identity {
            filters.push(term(Term::from_field_u64(fields.petitioners, self.extractor().identity(identity))));
        }
        if let Some(verdict) = wanted.verdict {
            filters.push(term(Term::from_field_u64(fields.verdict, verdict_code(verdict))));
        }
        if let Some(category) = &wanted.category {
            let terms = self.extractor().category_terms(settings, category);
            let any = terms.iter().map(|value| term(Term::from_field_text(fields.category, value)));
            filters.push(Box::new(BooleanQuery::union(any.collect())));
        }
        filters
    }

    /// What finds a part of a question: the whole of it as a run of characters or, unless it is a phrase, all of its words, each as a
    /// word or as a run.
    fn part(&self, part: &Part) -> Result<Box<dyn Query>> {
        let words = if part.is_phrase { Vec::new() } else { self.extractor().words(&part.text) };
        let mut either: Vec<Box<dyn Query>> = self.run(&part.text)?.into_iter().collect();
        if !words.is_empty() {
            let all = words.iter().map(|word| self.word(word)).collect::<Result<_>>()?;
            either.push(Box::new(BooleanQuery::intersection(all)));
        }
        Ok(Box::new(BooleanQuery::union(either)))
    }

    fn word(&self, word: &str) -> Result<Box<dyn Query>> {
        let term = Term::from_field_text(self.fields.words, word);
        let mut either: Vec<Box<dyn Query>> = vec![Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))];
        let run = self.run(word)?.map(|run| -> Box<dyn Query> { Box::new(BoostQuery::new(run, RUNS)) });
        either.extend(run);
        Ok(Box::new(BooleanQuery::union(either)))
    }

    /// The query for a text as it stands; `None` where it has no character that is indexed.
    fn run(&self, text: &str) -> Result<Option<Box<dyn Query>>> {
        let field = self.fields.pairs;
        let term = |placed: &Placed| Term::from_field_text(field, &placed.term);
        let terms = run_terms(text);
        Ok(match terms.as_slice() {
            [] => None,
            [only] if is_single(&only.term) => {
                // By itself, or with another behind it. Nothing in a Han character means something in a pattern.
                let pattern = format!("{}.?", only.term);
                Some(Box::new(RegexQuery::from_pattern(&pattern, field)?))
            }
            [only] => Some(Box::new(TermQuery::new(term(only), IndexRecordOption::WithFreqs))),
            run => {
                let run = run.iter().map(|placed| (placed.position, term(placed)));
                Some(Box::new(PhraseQuery::new_with_offset(run.collect())))
            }
        })
    }
}

/// Records that are left out, by segment: a bit for each of its documents.
type Excluded = HashMap<SegmentOrdinal, Arc<[u64]>>;

/// Collects records that are left out.
struct Exclusion;

struct SegmentExclusion {
    segment: SegmentOrdinal,
    bits: Vec<u64>,
}

impl Collector for Exclusion {
    type Fruit = Excluded;
    type Child = SegmentExclusion;

    fn for_segment(&self, segment: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<SegmentExclusion> {
        Ok(SegmentExclusion { segment, bits: vec![0; reader.max_doc().div_ceil(64) as usize] })
    }

    fn requires_scoring(&self) -> bool {
        false
    }

    fn merge_fruits(&self, fruits: Vec<(SegmentOrdinal, Vec<u64>)>) -> tantivy::Result<Excluded> {
        Ok(fruits.into_iter().map(|(segment, bits)| (segment, bits.into())).collect())
    }
}

impl SegmentCollector for SegmentExclusion {
    type Fruit = (SegmentOrdinal, Vec<u64>);

    fn collect(&mut self, doc: DocId, _: Score) {
        self.bits[doc as usize / 64] |= 1 << (doc % 64);
    }

    fn harvest(self) -> (SegmentOrdinal, Vec<u64>) {
        (self.segment, self.bits)
    }
}

/// Collects the first records in an order, and counts all.
struct InOrder {
    order: Order,
    after: Option<After>,
    limit: usize,
    excluded: Excluded,
}

/// A record in an order: higher ranks come first, and of equal ones those with higher seqs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: u64,
    seq: Seq,
    at: DocAddress,
}

#[derive(Default)]
struct InOrderFruit {
    /// In order, one more than asked for where there is.
    best: Vec<Place>,
    total: u64,
}

struct SegmentInOrder {
    order: Order,
    after: Option<After>,
    most: usize,
    segment: SegmentOrdinal,
    excluded: Option<Arc<[u64]>>,
    seqs: Column<u64>,
    times: Column<i64>,
    best: BinaryHeap<Reverse<Place>>,
    total: u64,
}

impl Collector for InOrder {
    type Fruit = InOrderFruit;
    type Child = SegmentInOrder;

    fn for_segment(&self, segment: SegmentOrdinal, reader: &SegmentReader) -> tantivy::Result<SegmentInOrder> {
        let columns = reader.fast_fields();
        Ok(SegmentInOrder {
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

    fn merge_fruits(&self, fruits: Vec<InOrderFruit>) -> tantivy::Result<InOrderFruit> {
        let mut merged = InOrderFruit::default();
        for fruit in fruits {
            merged.best.extend(fruit.best);
            merged.total += fruit.total;
        }
        merged.best.sort_unstable_by(|a, b| b.cmp(a));
        merged.best.truncate(self.limit + 1);
        Ok(merged)
    }
}

impl SegmentCollector for SegmentInOrder {
    type Fruit = InOrderFruit;

    fn collect(&mut self, doc: DocId, score: Score) {
        if self.excluded.as_ref().is_some_and(|bits| bits[doc as usize / 64] & 1 << (doc % 64) != 0) {
            return;
        }
        self.total += 1;
        let rank = match self.order {
            // Positive numbers are ordered as their bits are.
            Order::Ranked => u64::from(score.max(0.0).to_bits()),
            Order::Newest => self.times.first(doc).map_or(0, |time| time.abs_diff(i64::MIN)),
        };
        let seq = Seq(self.seqs.first(doc).unwrap_or(0));
        if self.after.is_some_and(|after| (rank, seq) >= (after.rank, after.seq)) {
            return;
        }
        let place = Place { rank, seq, at: DocAddress::new(self.segment, doc) };
        if self.best.len() < self.most {
            self.best.push(Reverse(place));
        } else if self.best.peek().is_some_and(|Reverse(least)| place > *least) {
            self.best.pop();
            self.best.push(Reverse(place));
        }
    }

    fn harvest(self) -> InOrderFruit {
        InOrderFruit { best: self.best.into_iter().map(|Reverse(place)| place).collect(), total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_cut_into_words_phrases_and_what_must_not_be_there() {
        let part = |text: &str, is_phrase, is_excluded| Part { text: text.into(), is_phrase, is_excluded };
        let cut = |question| parts(question, |text| text.to_lowercase());
        assert_eq!(cut("路灯 LED"), [part("路灯", false, false), part("led", false, false)]);
        assert_eq!(cut("\"三号路 路灯\" -井盖"), [part("三号路 路灯", true, false), part("井盖", false, true)]);
        assert_eq!(
            cut("“路灯不亮” -\"五号 路\"x"),
            [part("路灯不亮", true, false), part("五号 路", true, true), part("x", false, false)]
        );
        assert_eq!(cut("a - b"), [part("a", false, false), part("-", false, false), part("b", false, false)]);
        assert_eq!(cut("\"offen"), [part("offen", true, false)]);
        assert_eq!(cut("-- \"\""), [part("--", false, true), part("\"\"", true, false)]);
        assert!(cut("  ").is_empty());
        assert!(cut("").is_empty());
    }
}
