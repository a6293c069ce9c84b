//! Related cases: which records most probably concern the same matter, in whatever words.
//!
//! BM25 over words, of which those of a title count [`TITLE_WEIGHT`](crate::extract::TITLE_WEIGHT) times (the simple form of BM25F:
//! weights are applied to counts, not to scores). The question is cut to its best terms; the [`CANDIDATES`] best by the heaviest of
//! them are ranked anew by all of them and by what two letters about one matter share besides: what both name, their categories,
//! who wrote them, and when. Character pairs were measured beside words and add nothing (`docs/quality.md`).

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, DocSet, Searcher, TERMINATED, Term};

use crate::extract::{Extract, SEPARATOR, counted};
use crate::index::{IDENTITY, Index, Result, SEQ, TIME};
use doppel_core::record::RecordId;
use doppel_store::Seq;

/// Records that are ranked by more than their text.
const CANDIDATES: usize = 200;
/// Best terms by which records are ranked.
const MOST_TERMS: usize = 40;
/// Those of them by which candidates are found, at most: the postings of all others are read for candidates alone.
const CANDIDATE_TERMS: usize = 16;
/// Postings that are read to find candidates, about: fewer terms than [`CANDIDATE_TERMS`] where they stand in many records. A hundred
/// thousand take some milliseconds.
const CANDIDATE_POSTINGS: u64 = 200_000;
/// Fewest terms by which candidates are found, however often they stand.
const FEWEST_CANDIDATE_TERMS: usize = 4;
/// Different terms of a question that are looked up, its first ones: each costs a look into every segment.
const MOST_LOOKED_UP: usize = 500;
/// Terms that an answer names.
const SHOWN_TERMS: usize = 5;
/// The constants of BM25, those of the library that scores.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Microseconds in a day.
const DAY: f32 = 86_400e6;

/// How much each part counts, beside words, which count 1. Measured on judged petitions by leaving questions out; see
/// `docs/quality.md`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// How far a term that stands often in the question counts more: 0 is once, large is as often as it stands.
    pub repeats: f32,
    /// How far a record counts less whose text has less of the question's: what its text scores is multiplied by the share of the
    /// question's terms that it has, by how rare they are, to this power. 0 is not at all.
    pub coverage: f32,
    /// A thing that both name, by how rare it is.
    pub objects: f32,
    /// A category that both have, by how rare it is.
    pub category: f32,
    /// The same petitioner, by how rare that is.
    pub identity: f32,
    /// Nearness in time, by how rare what one record has is: added in whole on the same day, half of it after `days`.
    pub time: f32,
    /// See `time`.
    pub days: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { repeats: 1.0, coverage: 0.25, objects: 2.0, category: 0.5, identity: 0.5, time: 1.0, days: 90.0 }
    }
}

/// A related record.
#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// Its id.
    pub id: RecordId,
    /// Its seq.
    pub seq: Seq,
    /// In 0..=1, relative to what the question would score with itself.
    pub score: f32,
    /// The terms that both have which weigh most, heaviest first.
    pub terms: Vec<String>,
    /// Whether it names the same petitioner; `None` where either names none.
    pub same_petitioner: Option<bool>,
    /// When it was submitted, in microseconds since 1970.
    pub time: Option<i64>,
}

/// A term of the question.
struct Asked {
    term: Term,
    text: String,
    /// Records that have it.
    having: u64,
    scores: TermScores,
    /// What each score of it is multiplied by.
    boost: f32,
    /// What the question scores by it with itself.
    own: f32,
}

/// By what a text is found.
struct BestTerms {
    /// Those that records have, heaviest first.
    found: Vec<Asked>,
    /// What the text scores by its best terms with itself.
    own: f32,
}

/// A candidate on its way through the ranking.
struct Candidate {
    at: DocAddress,
    score: f32,
    /// What it has of the question's terms, by how rare they are.
    covered: f32,
}

impl Candidate {
    fn at(at: DocAddress) -> Self {
        Self { at, score: 0.0, covered: 0.0 }
    }
}

impl Index {
    /// The records that are most probably about the same matter as what `asked` says, best first, at most `limit`, without the record
    /// `except`. O(postings of the best terms), a part of which is skipped.
    ///
    /// # Errors
    /// [`IndexError`](crate::index::IndexError) where its files cannot be read.
    pub fn related(
        &self,
        asked: &Extract,
        except: Option<&RecordId>,
        limit: usize,
        weights: &Weights,
    ) -> Result<Vec<Related>> {
        let searcher = self.searcher();
        let words = best_terms(&searcher, self.fields.words, &asked.words, weights)?;
        let mut candidates = candidates(&searcher, &words.found[..candidate_terms(&words.found)])?;
        for word in &words.found {
            for_each_posting(&searcher, &word.term, &mut candidates, |candidate, count, length| {
                candidate.score += word.boost * word.scores.score(count, length);
                candidate.covered += word.boost * word.scores.idf;
            })?;
        }
        let all: f32 = words.found.iter().map(|word| word.boost * word.scores.idf).sum();
        // A word that every record has weighs nothing.
        if all > 0.0 {
            for candidate in &mut candidates {
                candidate.score *= (candidate.covered / all).powf(weights.coverage);
            }
        }
        let own = words.own + self.add_features(&searcher, asked, &mut candidates, weights)?;
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.at.cmp(&b.at)));
        let mut related = Vec::with_capacity(limit);
        for candidate in &candidates {
            if related.len() == limit {
                break;
            }
            let id = self.id(&searcher, candidate.at)?;
            if Some(&id) != except {
                let score = (candidate.score / own.max(f32::MIN_POSITIVE)).clamp(0.0, 1.0);
                related.push((candidate.at, described(&searcher, candidate.at, asked, (id, score))?));
            }
        }
        self.name_terms(&searcher, &words.found, (asked, weights), &mut related)?;
        Ok(related.into_iter().map(|(_, related)| related).collect())
    }

    /// Adds what candidates share with the question besides text; what the question shares with itself.
    fn add_features(
        &self,
        searcher: &Searcher,
        asked: &Extract,
        candidates: &mut [Candidate],
        weights: &Weights,
    ) -> Result<f32> {
        let count = searcher.num_docs().max(1) as f32;
        let mut own = 0.0;
        let text_terms = |field: Field, values: &[String], weight: f32| -> Vec<(Term, f32)> {
            values.iter().map(|value| (Term::from_field_text(field, value), weight)).collect()
        };
        let mut features = text_terms(self.fields.objects, &asked.objects, weights.objects);
        features.extend(text_terms(self.fields.category, &asked.categories, weights.category));
        let identity = asked.identity.map(|identity| Term::from_field_u64(self.fields.petitioners, identity));
        features.extend(identity.map(|term| (term, weights.identity)));
        for (term, weight) in features {
            let rarity = idf(searcher.doc_freq(&term)? as f32, count);
            own += weight * rarity;
            for_each_posting(searcher, &term, candidates, |candidate, _, _| candidate.score += weight * rarity)?;
        }
        if let Some(time) = asked.time {
            let weight = weights.time * idf(1.0, count);
            own += weight;
            for candidate in candidates {
                let reader = searcher.segment_reader(candidate.at.segment_ord);
                let Some(other) = reader.fast_fields().i64(TIME)?.first(candidate.at.doc_id) else { continue };
                let days = time.abs_diff(other) as f32 / DAY;
                candidate.score += weight * weights.days / (weights.days + days);
            }
        }
        Ok(own)
    }

    /// Names the terms that weigh most in each answer: names and words before what is cut out of them, each by weight.
    fn name_terms<'a>(
        &self,
        searcher: &Searcher,
        terms: &'a [Asked],
        (asked, weights): (&'a Extract, &Weights),
        related: &mut [(DocAddress, Related)],
    ) -> Result<()> {
        let mut places: Vec<Candidate> = related.iter().map(|(at, _)| Candidate::at(*at)).collect();
        let mut shared: HashMap<DocAddress, Vec<SharedTerm<'a>>> = HashMap::new();
        let count = searcher.num_docs().max(1) as f32;
        for object in &asked.objects {
            let term = Term::from_field_text(self.fields.objects, object);
            let score = weights.objects * idf(searcher.doc_freq(&term)? as f32, count);
            let text = object.split_once(':').map_or(object.as_str(), |(_, name)| name);
            for_each_posting(searcher, &term, &mut places, |candidate, _, _| {
                shared.entry(candidate.at).or_default().push(SharedTerm { text, score, is_piece: false });
            })?;
        }
        for asked in terms {
            let is_piece = asked.text.chars().count() == 1;
            for_each_posting(searcher, &asked.term, &mut places, |candidate, count, length| {
                let score = asked.boost * asked.scores.score(count, length);
                shared.entry(candidate.at).or_default().push(SharedTerm { text: &asked.text, score, is_piece });
            })?;
        }
        for (at, related) in related {
            related.terms = named(shared.remove(at).unwrap_or_default());
        }
        Ok(())
    }
}

/// A term that a record shares with the question.
struct SharedTerm<'a> {
    text: &'a str,
    score: f32,
    /// A single character: most often cut out of a word or a name.
    is_piece: bool,
}

/// The terms to name of those that are shared.
fn named(mut shared: Vec<SharedTerm<'_>>) -> Vec<String> {
    shared.sort_by(|a, b| a.is_piece.cmp(&b.is_piece).then(b.score.total_cmp(&a.score)).then(a.text.cmp(b.text)));
    let mut named: Vec<String> = Vec::new();
    for SharedTerm { text, is_piece, .. } in shared {
        let says_nothing_new = named.iter().any(|named| {
            let overlaps = is_piece && text.chars().any(|c| named.contains(c));
            overlaps || named.contains(text) || text.contains(named.as_str())
        });
        if named.len() < SHOWN_TERMS && !says_nothing_new {
            named.push(text.to_owned());
        }
    }
    named
}

/// How rare what `found` of `count` records have is: BM25's idf.
fn idf(found: f32, count: f32) -> f32 {
    (1.0 + (count.max(found) - found + 0.5) / (found + 0.5)).ln()
}

/// What a term scores.
struct TermScores {
    idf: f32,
    /// Average length of the field.
    average: f32,
}

impl TermScores {
    fn score(&self, count: u32, length: u32) -> f32 {
        let count = count as f32;
        self.idf * (1.0 + K1) * count / (count + K1 * (1.0 - B + B * length as f32 / self.average))
    }
}

/// The terms by which a text is best found.
fn best_terms(searcher: &Searcher, field: Field, words: &str, weights: &Weights) -> Result<BestTerms> {
    let length = u32::try_from(words.split(SEPARATOR).count()).unwrap_or(u32::MAX);
    let (mut tokens, mut records) = (0, 0);
    for segment in searcher.segment_readers() {
        tokens += segment.inverted_index(field)?.total_num_tokens();
        records += u64::from(segment.max_doc());
    }
    let average = (tokens as f32 / records.max(1) as f32).max(1.0);
    let mut asked = Vec::new();
    for (text, count) in counted(words, MOST_LOOKED_UP) {
        let term = Term::from_field_text(field, text);
        let repeated = count as f32 * (weights.repeats + 1.0) / (count as f32 + weights.repeats);
        let having = searcher.doc_freq(&term)?;
        // A term that nothing has would be in one record if the question were.
        let scores = TermScores { idf: idf(having.max(1) as f32, records as f32), average };
        let own = repeated * scores.score(count, length);
        asked.push(Asked { term, text: text.to_owned(), having, scores, boost: repeated, own });
    }
    asked.sort_by(|a, b| b.own.total_cmp(&a.own).then_with(|| a.text.cmp(&b.text)));
    let own = asked.iter().take(MOST_TERMS).map(|asked| asked.own).sum();
    let found = asked.into_iter().filter(|asked| asked.having > 0);
    Ok(BestTerms { found: found.take(MOST_TERMS).collect(), own })
}

/// By how many of the heaviest terms candidates are found.
fn candidate_terms(terms: &[Asked]) -> usize {
    let mut postings = 0;
    let fits = terms.iter().take_while(|asked| {
        postings += asked.having;
        postings <= CANDIDATE_POSTINGS
    });
    fits.count().clamp(FEWEST_CANDIDATE_TERMS, CANDIDATE_TERMS).min(terms.len())
}

/// The best records by these terms, not scored yet.
fn candidates(searcher: &Searcher, terms: &[Asked]) -> Result<Vec<Candidate>> {
    let clause = |asked: &Asked| -> (Occur, Box<dyn Query>) {
        let query = TermQuery::new(asked.term.clone(), IndexRecordOption::WithFreqs);
        (Occur::Should, Box::new(BoostQuery::new(Box::new(query), asked.boost)))
    };
    let query = BooleanQuery::new(terms.iter().map(clause).collect());
    let found = searcher.search(&query, &TopDocs::with_limit(CANDIDATES).order_by_score())?;
    Ok(found.into_iter().map(|(_, at)| Candidate::at(at)).collect())
}

/// Calls `visit` for each of the candidates that have a term, with how often they have it and how long their field is.
fn for_each_posting(
    searcher: &Searcher,
    term: &Term,
    candidates: &mut [Candidate],
    mut visit: impl FnMut(&mut Candidate, u32, u32),
) -> Result<()> {
    candidates.sort_unstable_by_key(|candidate| candidate.at);
    for own in candidates.chunk_by_mut(|a, b| a.at.segment_ord == b.at.segment_ord) {
        let segment = searcher.segment_reader(own[0].at.segment_ord);
        let index = segment.inverted_index(term.field())?;
        let Some(mut postings) = index.read_postings(term, IndexRecordOption::WithFreqs)? else { continue };
        let lengths = segment.get_fieldnorms_reader(term.field()).ok();
        for candidate in own {
            let wanted = candidate.at.doc_id;
            let at = if postings.doc() < wanted { postings.seek(wanted) } else { postings.doc() };
            if at == TERMINATED {
                break;
            }
            if at == wanted {
                let length = lengths.as_ref().map_or(1, |lengths| lengths.fieldnorm(wanted));
                visit(candidate, tantivy::postings::Postings::term_freq(&postings), length);
            }
        }
    }
    Ok(())
}

/// A record that was found, its terms still unnamed.
fn described(searcher: &Searcher, at: DocAddress, asked: &Extract, (id, score): (RecordId, f32)) -> Result<Related> {
    let columns = searcher.segment_reader(at.segment_ord).fast_fields();
    let seq = Seq(columns.u64(SEQ)?.first(at.doc_id).unwrap_or(0));
    let theirs = columns.u64(IDENTITY)?.first(at.doc_id);
    let same_petitioner = asked.identity.zip(theirs).map(|(own, theirs)| own == theirs);
    let time = columns.i64(TIME)?.first(at.doc_id);
    Ok(Related { id, seq, score, terms: Vec::new(), same_petitioner, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_are_named_before_pieces_and_nothing_twice() {
        let term = |text, score, is_piece| SharedTerm { text, score, is_piece };
        let shared = vec![
            term("号路", 9.0, true),
            term("路", 8.0, true),
            term("路灯", 2.0, false),
            term("三号", 3.0, false),
            term("三号", 4.0, false),
            term("井盖", 1.0, true),
        ];
        assert_eq!(named(shared), ["三号", "路灯", "井盖"]);
    }

    #[test]
    fn terms_that_stand_everywhere_find_no_candidates_while_there_are_others() {
        let asked = |having| Asked {
            term: Term::from_field_text(Field::from_field_id(0), "x"),
            text: "x".into(),
            having,
            scores: TermScores { idf: 1.0, average: 1.0 },
            boost: 1.0,
            own: 1.0,
        };
        let count = |having: &[u64]| candidate_terms(&having.iter().map(|having| asked(*having)).collect::<Vec<_>>());
        assert_eq!((count(&[]), count(&[9_000_000]), count(&[1; 40])), (0, 1, CANDIDATE_TERMS));
        assert_eq!(count(&[50_000; 40]), 4);
        assert_eq!(count(&[30_000; 40]), 6);
        assert_eq!(count(&[9_000_000; 40]), FEWEST_CANDIDATE_TERMS);
    }
}
