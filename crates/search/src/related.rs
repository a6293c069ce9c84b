//! Ranks the records that most probably concern the same matter as a question, even if they use other words.
//!
//! The score of the text is BM25 over words. Words of a title count [`TITLE_WEIGHT`](crate::extract::TITLE_WEIGHT) times (the simple form
//! of BM25F, which weights counts and not scores). The heaviest terms of the question find the [`MAX_CANDIDATES`] best records. These are
//! ranked again by more terms and by the other features that letters about the same matter share: names, category, petitioner and time.
//! Scores of character pairs were also measured; they improved nothing (`docs/quality.md`).

use std::collections::HashMap;

use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, DocSet, Searcher, TERMINATED, Term};

use crate::extract::{RowExtract, SEPARATOR, count_words};
use crate::index::{Index, PETITIONERS, Result, SEQ, TIME};
use crate::vectors::VectorQuestion;
use crate::weights::Weights;
use doppel_core::record::RecordId;
use doppel_store::Seq;

/// Largest number of records that are ranked by all features.
const MAX_CANDIDATES: usize = 200;
/// Largest number of terms by which records are ranked.
const MAX_TERMS: usize = 40;
/// Largest number of terms that find candidates. The postings of the other terms are read only for the candidates.
const MAX_CANDIDATE_TERMS: usize = 16;
/// Approximate number of postings that are read to find candidates. If the terms are frequent, fewer than [`MAX_CANDIDATE_TERMS`] terms find
/// candidates. A hundred thousand postings take some milliseconds.
const CANDIDATE_POSTINGS: u64 = 200_000;
/// Smallest number of terms that find candidates, even if the terms are frequent.
const MIN_CANDIDATE_TERMS: usize = 4;
/// Largest number of different terms of a question that are looked up. Each term costs a search in every segment.
const MAX_LOOKED_UP: usize = 500;
/// Largest number of shared terms that an answer names.
const MAX_NAMED_TERMS: usize = 5;
/// The constants of BM25, with the values that tantivy uses.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// Microseconds in a day.
const DAY: f32 = 86_400e6;

#[derive(Clone, Debug, PartialEq)]
pub struct RelatedRecord {
    pub id: RecordId,
    pub seq: Seq,
    /// The score in 0..=1, as a share of the score that the question would have as a record.
    pub score: f32,
    /// The heaviest shared terms, heaviest first.
    pub terms: Vec<String>,
    /// True if the record and the question name the same petitioner; `None` if one of them names no petitioner.
    pub same_petitioner: Option<bool>,
    /// The time of the record, in microseconds since 1970.
    pub time: Option<i64>,
}

struct QuestionTerm {
    term: Term,
    text: String,
    /// Number of records that contain the term.
    document_frequency: u64,
    scores: TermScores,
    /// The factor by which repetitions in the question raise the scores of the term.
    boost: f32,
    /// The score that the question itself has for the term.
    own_score: f32,
}

/// The terms that represent the text of a question.
struct BestTerms {
    /// The terms that occur in the index, heaviest first.
    found: Vec<QuestionTerm>,
    /// The score that the question itself has for its best terms.
    own_score: f32,
}

/// A candidate while it is ranked.
struct RankedCandidate {
    at: DocAddress,
    score: f32,
    /// The sum of the weights of the question's terms that the candidate contains.
    covered: f32,
}

impl RankedCandidate {
    fn at(at: DocAddress) -> Self {
        Self { at, score: 0.0, covered: 0.0 }
    }
}

impl Index {
    /// Returns at most `limit` records that most probably concern the same matter as `asked`, best first, without the record `except`.
    /// O(postings of the best terms); a part of the postings is skipped.
    ///
    /// # Errors
    /// [`IndexError`](crate::index::IndexError) if the files cannot be read.
    pub fn related(
        &self,
        asked: &RowExtract,
        except: Option<&RecordId>,
        limit: usize,
        weights: &Weights,
    ) -> Result<Vec<RelatedRecord>> {
        self.related_with_vectors(asked, except, limit, weights, None)
    }

    /// As [`related`](Self::related). If the question has a vector, the cosine of each candidate is one of its features.
    ///
    /// # Errors
    /// As [`related`](Self::related).
    pub fn related_with_vectors(
        &self,
        asked: &RowExtract,
        except: Option<&RecordId>,
        limit: usize,
        weights: &Weights,
        vectors: Option<&VectorQuestion>,
    ) -> Result<Vec<RelatedRecord>> {
        let searcher = self.searcher()?;
        let words = best_terms(&searcher, self.fields.words, &asked.words, weights)?;
        let mut candidates = find_candidates(&searcher, &words.found[..count_candidate_terms(&words.found)])?;
        for word in &words.found {
            for_each_posting(&searcher, &word.term, &mut candidates, |candidate, count, length| {
                candidate.score += word.boost * word.scores.score(count, length);
                candidate.covered += word.boost * word.scores.idf;
            })?;
        }
        let all: f32 = words.found.iter().map(|word| word.boost * word.scores.idf).sum();
        // The sum is zero if every record contains all words of the question.
        if all > 0.0 {
            for candidate in &mut candidates {
                candidate.score *= (candidate.covered / all).powf(weights.coverage);
            }
        }
        let mut own_score = words.own_score + self.add_features(&searcher, asked, &mut candidates, weights)?;
        if let Some(vectors) = vectors {
            own_score += add_cosines(&searcher, &mut candidates, vectors)?;
        }
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.at.cmp(&b.at)));
        let mut related = Vec::with_capacity(limit);
        for candidate in &candidates {
            if related.len() == limit {
                break;
            }
            let id = self.id(&searcher, candidate.at)?;
            if Some(&id) != except {
                let score = (candidate.score / own_score.max(f32::MIN_POSITIVE)).clamp(0.0, 1.0);
                related.push((candidate.at, describe(&searcher, candidate.at, asked, id, score)?));
            }
        }
        self.name_terms(&searcher, &words.found, asked, weights, &mut related)?;
        Ok(related.into_iter().map(|(_, related)| related).collect())
    }

    /// Adds the scores of all features except text to the candidates. Returns the score that the question itself has for these features.
    fn add_features(
        &self,
        searcher: &Searcher,
        asked: &RowExtract,
        candidates: &mut [RankedCandidate],
        weights: &Weights,
    ) -> Result<f32> {
        let count = searcher.num_docs().max(1) as f32;
        let mut own_score = 0.0;
        for (term, weight) in self.feature_terms(asked, weights) {
            let rarity = idf(searcher.doc_freq(&term)? as f32, count);
            own_score += weight * rarity;
            for_each_posting(searcher, &term, candidates, |candidate, _, _| candidate.score += weight * rarity)?;
        }
        if let Some(time) = asked.time {
            let weight = weights.time * idf(1.0, count);
            own_score += weight;
            for candidate in candidates {
                let reader = searcher.segment_reader(candidate.at.segment_ord);
                let Some(other) = reader.fast_fields().i64(TIME)?.first(candidate.at.doc_id) else { continue };
                let days = time.abs_diff(other) as f32 / DAY;
                candidate.score += weight * weights.days / (weights.days + days);
            }
        }
        Ok(own_score)
    }

    /// Returns the terms of the objects, categories and petitioner of a question, with their weights.
    fn feature_terms(&self, asked: &RowExtract, weights: &Weights) -> Vec<(Term, f32)> {
        let mut terms = Vec::new();
        for object in &asked.objects {
            terms.push((Term::from_field_text(self.fields.objects, object), weights.objects));
        }
        for category in &asked.categories {
            terms.push((Term::from_field_text(self.fields.category, category), weights.category));
        }
        for petitioner in &asked.petitioners {
            let weight = weights.identity / asked.petitioners.len() as f32;
            terms.push((Term::from_field_u64(self.fields.petitioners, *petitioner), weight));
        }
        terms
    }

    /// Sets the heaviest shared terms of each related record. Names and words come before single characters.
    fn name_terms<'a>(
        &self,
        searcher: &Searcher,
        terms: &'a [QuestionTerm],
        asked: &'a RowExtract,
        weights: &Weights,
        related: &mut [(DocAddress, RelatedRecord)],
    ) -> Result<()> {
        let mut places: Vec<RankedCandidate> = related.iter().map(|(at, _)| RankedCandidate::at(*at)).collect();
        let mut shared: HashMap<DocAddress, Vec<SharedTerm<'a>>> = HashMap::new();
        let count = searcher.num_docs().max(1) as f32;
        for object in &asked.objects {
            let text = object.split_once(':').map_or(object.as_str(), |(_, name)| name);
            // The term may differ from the text, as "3号" from "三号". The word of the text is then shown instead.
            if !asked.text.contains(text) {
                continue;
            }
            let term = Term::from_field_text(self.fields.objects, object);
            let score = weights.objects * idf(searcher.doc_freq(&term)? as f32, count);
            for_each_posting(searcher, &term, &mut places, |candidate, _, _| {
                shared.entry(candidate.at).or_default().push(SharedTerm { text, score, is_piece: false });
            })?;
        }
        for term in terms {
            let is_piece = term.text.chars().count() == 1;
            for_each_posting(searcher, &term.term, &mut places, |candidate, count, length| {
                let score = term.boost * term.scores.score(count, length);
                shared.entry(candidate.at).or_default().push(SharedTerm { text: &term.text, score, is_piece });
            })?;
        }
        for (at, related) in related {
            related.terms = select_named(shared.remove(at).unwrap_or_default());
        }
        Ok(())
    }
}

/// A term that a record shares with the question.
struct SharedTerm<'a> {
    text: &'a str,
    score: f32,
    /// True for a single character, which is usually a piece of a word or a name.
    is_piece: bool,
}

/// Selects the shared terms that an answer names: the heaviest terms, without terms that another selected term contains.
fn select_named(mut shared: Vec<SharedTerm<'_>>) -> Vec<String> {
    shared.sort_by(|a, b| a.is_piece.cmp(&b.is_piece).then(b.score.total_cmp(&a.score)).then(a.text.cmp(b.text)));
    let mut named: Vec<String> = Vec::new();
    for SharedTerm { text, is_piece, .. } in shared {
        let is_redundant = named.iter().any(|named| {
            let overlaps = is_piece && text.chars().any(|c| named.contains(c));
            overlaps || named.contains(text) || text.contains(named.as_str())
        });
        if named.len() < MAX_NAMED_TERMS && !is_redundant {
            named.push(text.to_owned());
        }
    }
    named
}

/// Returns BM25's inverse document frequency of a term that `found` of `count` records contain.
fn idf(found: f32, count: f32) -> f32 {
    (1.0 + (count.max(found) - found + 0.5) / (found + 0.5)).ln()
}

/// The values from which BM25 computes the scores of a term.
struct TermScores {
    idf: f32,
    /// The average length of the field, in terms.
    average_length: f32,
}

impl TermScores {
    fn score(&self, count: u32, length: u32) -> f32 {
        let count = count as f32;
        self.idf * (1.0 + K1) * count / (count + K1 * (1.0 - B + B * length as f32 / self.average_length))
    }
}

/// Returns the heaviest terms of a text.
fn best_terms(searcher: &Searcher, field: Field, words: &str, weights: &Weights) -> Result<BestTerms> {
    let length = u32::try_from(words.split(SEPARATOR).count()).unwrap_or(u32::MAX);
    let mut tokens = 0;
    let mut records = 0;
    for segment in searcher.segment_readers() {
        tokens += segment.inverted_index(field)?.total_num_tokens();
        records += u64::from(segment.max_doc());
    }
    let average_length = (tokens as f32 / records.max(1) as f32).max(1.0);
    let mut terms = Vec::new();
    for (text, count) in count_words(words, MAX_LOOKED_UP) {
        let term = Term::from_field_text(field, text);
        let boost = count as f32 * (weights.repeats + 1.0) / (count as f32 + weights.repeats);
        let document_frequency = searcher.doc_freq(&term)?;
        // The score of the question itself assumes that the question were a record, so that each term occurs in at least one record.
        let scores = TermScores { idf: idf(document_frequency.max(1) as f32, records as f32), average_length };
        let own_score = boost * scores.score(count, length);
        terms.push(QuestionTerm { term, text: text.to_owned(), document_frequency, scores, boost, own_score });
    }
    terms.sort_by(|a, b| b.own_score.total_cmp(&a.own_score).then_with(|| a.text.cmp(&b.text)));
    let own_score = terms.iter().take(MAX_TERMS).map(|term| term.own_score).sum();
    let found = terms.into_iter().filter(|term| term.document_frequency > 0);
    Ok(BestTerms { found: found.take(MAX_TERMS).collect(), own_score })
}

/// Returns how many of the terms find candidates. The terms are sorted, heaviest first.
fn count_candidate_terms(terms: &[QuestionTerm]) -> usize {
    let mut postings = 0;
    let fitting = terms.iter().take_while(|term| {
        postings += term.document_frequency;
        postings <= CANDIDATE_POSTINGS
    });
    fitting.count().clamp(MIN_CANDIDATE_TERMS, MAX_CANDIDATE_TERMS).min(terms.len())
}

/// Finds the best records by these terms. Their scores are still zero.
fn find_candidates(searcher: &Searcher, terms: &[QuestionTerm]) -> Result<Vec<RankedCandidate>> {
    let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
    for term in terms {
        let query = TermQuery::new(term.term.clone(), IndexRecordOption::WithFreqs);
        clauses.push((Occur::Should, Box::new(BoostQuery::new(Box::new(query), term.boost))));
    }
    let query = BooleanQuery::new(clauses);
    let found = searcher.search(&query, &TopDocs::with_limit(MAX_CANDIDATES).order_by_score())?;
    Ok(found.into_iter().map(|(_, at)| RankedCandidate::at(at)).collect())
}

/// Calls `visit` for each candidate that contains a term, with the number of occurrences and the length of the field.
fn for_each_posting(
    searcher: &Searcher,
    term: &Term,
    candidates: &mut [RankedCandidate],
    mut visit: impl FnMut(&mut RankedCandidate, u32, u32),
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

/// Adds the cosine of the vectors, times the rarity of a term that one record has, to the scores of the candidates. Returns the score that
/// the question itself has for this feature.
fn add_cosines(searcher: &Searcher, candidates: &mut [RankedCandidate], vectors: &VectorQuestion) -> Result<f32> {
    let weight = vectors.weight() * idf(1.0, searcher.num_docs().max(1) as f32);
    let mut seqs = Vec::with_capacity(candidates.len());
    for candidate in &*candidates {
        let columns = searcher.segment_reader(candidate.at.segment_ord).fast_fields();
        seqs.push(Seq(columns.u64(SEQ)?.first(candidate.at.doc_id).unwrap_or(0)));
    }
    for (candidate, cosine) in candidates.iter_mut().zip(vectors.cosines(&seqs)) {
        candidate.score += weight * cosine;
    }
    Ok(weight)
}

/// Makes the related record of a candidate. Its terms are still empty.
fn describe(
    searcher: &Searcher,
    at: DocAddress,
    asked: &RowExtract,
    id: RecordId,
    score: f32,
) -> Result<RelatedRecord> {
    let columns = searcher.segment_reader(at.segment_ord).fast_fields();
    let seq = Seq(columns.u64(SEQ)?.first(at.doc_id).unwrap_or(0));
    let theirs: Vec<u64> = columns.u64(PETITIONERS)?.values_for_doc(at.doc_id).collect();
    let both_name = !asked.petitioners.is_empty() && !theirs.is_empty();
    let same_petitioner = both_name.then(|| asked.petitioners.iter().any(|own| theirs.contains(own)));
    let time = columns.i64(TIME)?.first(at.doc_id);
    Ok(RelatedRecord { id, seq, score, terms: Vec::new(), same_petitioner, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_come_before_pieces_and_each_term_is_named_once() {
        let shared = vec![
            SharedTerm { text: "号路", score: 9.0, is_piece: true },
            SharedTerm { text: "路", score: 8.0, is_piece: true },
            SharedTerm { text: "路灯", score: 2.0, is_piece: false },
            SharedTerm { text: "三号", score: 3.0, is_piece: false },
            SharedTerm { text: "三号", score: 4.0, is_piece: false },
            SharedTerm { text: "井盖", score: 1.0, is_piece: true },
        ];
        assert_eq!(select_named(shared), ["三号", "路灯", "井盖"]);
    }

    #[test]
    fn frequent_terms_find_candidates_only_if_there_are_no_rarer_ones() {
        assert_eq!(count_of(&[]), 0);
        assert_eq!(count_of(&[9_000_000]), 1);
        assert_eq!(count_of(&[1; 40]), MAX_CANDIDATE_TERMS);
        assert_eq!(count_of(&[50_000; 40]), 4);
        assert_eq!(count_of(&[30_000; 40]), 6);
        assert_eq!(count_of(&[9_000_000; 40]), MIN_CANDIDATE_TERMS);
    }

    /// Returns the number of candidate terms for terms with these document frequencies.
    fn count_of(document_frequencies: &[u64]) -> usize {
        let terms = document_frequencies.iter().map(|frequency| QuestionTerm {
            term: Term::from_field_text(Field::from_field_id(0), "x"),
            text: "x".into(),
            document_frequency: *frequency,
            scores: TermScores { idf: 1.0, average_length: 1.0 },
            boost: 1.0,
            own_score: 1.0,
        });
        count_candidate_terms(&terms.collect::<Vec<_>>())
    }
}
