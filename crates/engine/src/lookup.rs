//! Look-ups: duplicate check, list of similar records, explanation of a pair. They store nothing.

use std::collections::HashSet;
use std::sync::Arc;

use crate::answers::{Check, Explanation, SimilarList};
use crate::boxed;
use crate::context::{Context, SignedRow, read_first};
use crate::decisions::RecordRulings;
use crate::explain::ExplainedRow;
use crate::judge::{FingerprintJudge, RecordJudge};
use crate::record_filter::RecordFilter;
use crate::tasks::Window;
use crate::{Engine, Error, GENERATION_RETRIES, Result, Side, explain, in_turn, off_thread};
use doppel_core::collection::{CollectionName, Radius, SimhashChannel};
use doppel_core::error_code::ErrorCode;
use doppel_core::index::HammingRange;
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::{Fingerprint, Match, sort_best_first};
use doppel_core::violation::Violation;
use doppel_store::content::RecordContent;
use doppel_store::request::one_request;
use doppel_store::{self, LookupEnd, LookupQuery, StoreError};

/// The reason for the refusal of explanations in a collection that keeps no text.
pub(crate) const WHY_TEXTS: &str = "an explanation is made of texts";

/// The selection of similar records.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarSelection {
    /// Largest number of records in the list: the best records that `filter` accepts.
    pub limit: usize,
    /// True to list also records of the same form about another matter, after the matches.
    pub templates: bool,
    /// The conditions for the records.
    pub filter: MatchFilter,
}

/// Conditions for the records in a list. They do not change the search: a filter finds no records that the search did not compare.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MatchFilter {
    /// The record was submitted in this time window.
    pub window: Window,
    /// One of the petitioner's values equals this value, in any form with the same normal form.
    pub identity: Option<String>,
    /// The smallest verified similarity; matches that were not verified are left out.
    pub min_similarity: Option<f64>,
    /// Ids of records that are left out.
    pub exclude: Vec<RecordId>,
    /// The conditions on the stored record.
    pub record: RecordFilter,
}

impl SimilarSelection {
    /// Selects matches only, at most `limit`.
    pub fn matches(limit: usize) -> Self {
        Self { limit, templates: false, filter: MatchFilter::default() }
    }
}

impl MatchFilter {
    /// True if a match meets all conditions except the conditions on the stored record, which is not part of a match.
    fn accepts(&self, found: &Match) -> bool {
        let time = found.time.as_deref().and_then(|time| time.parse().ok());
        let alike =
            self.min_similarity.is_none_or(|least| found.similarity.is_some_and(|similarity| similarity >= least));
        self.window.holds(time) && alike && !self.exclude.contains(&found.id)
    }
}

/// The query to the store for a row, and the data for the answer.
struct LookupQuestion {
    query: LookupQuery,
    /// Judges the candidates that the store proposes.
    judge: RecordJudge,
    fingerprint: Option<Fingerprint>,
    /// Version of the document frequencies that the judge uses.
    statistics: u32,
    /// Parts of the row that were not read.
    warnings: Vec<Violation>,
}

impl Engine {
    /// Checks a row: returns the best match; with `first`, stops at the first match and returns it. Stores nothing. A collection that does not
    /// exist yet has no duplicates.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`] if [`Options::auto_create`](crate::Options) is off; [`Error::Invalid`] if the row cannot be read; [`Error::Store`] with `StaleGeneration` if generations
    /// change too fast.
    #[boxed]
    pub async fn check(&self, collection: &CollectionName, row: Row, first: bool) -> Result<Check> {
        match self.in_live(|| self.check_once(collection, row.clone(), first)).await {
            Err(Error::UnknownCollection(_)) if self.options.auto_create => {
                let (_, document) = off_thread(move || read_first(&row)).await?;
                Ok(Check { duplicate: false, found: None, statistics: 0, warnings: document.warnings })
            }
            answer => answer,
        }
    }

    /// Repeats a look-up during which another generation went live.
    async fn in_live<T, F: Future<Output = Result<T>>>(&self, ask: impl Fn() -> F) -> Result<T> {
        let mut attempts = 0;
        let asking = async {
            loop {
                match ask().await {
                    Err(Error::Store(StoreError::StaleGeneration { .. })) if attempts < GENERATION_RETRIES => {
                        attempts += 1;
                    }
                    answer => return answer,
                }
            }
        };
        one_request(asking).await
    }

    async fn check_once(&self, collection: &CollectionName, row: Row, first: bool) -> Result<Check> {
        let except = row.id().cloned();
        let context = self.context(collection).await?;
        context.check_members(&row)?;
        let LookupQuestion { query, judge, statistics, warnings, .. } = self.question(context, row, except).await?;
        let until = if first { LookupEnd::FirstMatch } else { LookupEnd::Exhausted };
        let mut matches = self.store.find(query, Arc::new(judge), until).await?.matches;
        sort_best_first(&mut matches);
        let found = matches.into_iter().next();
        Ok(Check { duplicate: found.is_some(), found, statistics, warnings })
    }

    /// Returns the records that are similar to `row`, best first, within the bounds of `wanted`. Stores nothing. A row whose id is stored
    /// does not find itself.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] if the row cannot be read; [`Error::Store`] with `StaleGeneration` if generations
    /// change too fast.
    #[boxed]
    pub async fn similar(
        &self,
        collection: &CollectionName,
        row: Row,
        wanted: SimilarSelection,
    ) -> Result<SimilarList> {
        let except = row.id().cloned();
        self.in_live(|| self.similar_once(collection, row.clone(), except.clone(), &wanted)).await
    }

    /// Returns the records that are similar to a stored record, best first, within the bounds of `wanted`.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::TextNotKept`]; [`Error::Invalid`] if its row cannot be read under
    /// the present settings.
    #[boxed]
    pub async fn similar_to(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        wanted: SimilarSelection,
    ) -> Result<SimilarList> {
        let row = self.stored_row(collection, id).await?;
        let list = self.in_live(|| self.similar_once(collection, row.clone(), Some(id.clone()), &wanted)).await?;
        // The answer to the registration contained the warnings.
        Ok(SimilarList { warnings: Vec::new(), ..list })
    }

    async fn similar_once(
        &self,
        collection: &CollectionName,
        row: Row,
        except: Option<RecordId>,
        wanted: &SimilarSelection,
    ) -> Result<SimilarList> {
        let question = self.question(self.context(collection).await?, row, except).await?;
        let LookupQuestion { query, judge, fingerprint, statistics, warnings } = question;
        let judge = Arc::new(judge.showing_templates(wanted.templates));
        Ok(SimilarList { statistics, warnings, ..self.list(query, judge, fingerprint, wanted).await? })
    }

    /// Reads and signs `row`, and makes the query to the store.
    async fn question(&self, context: Arc<Context>, row: Row, except: Option<RecordId>) -> Result<LookupQuestion> {
        let mut subject = self.subject(&context, row).await?;
        let warnings = std::mem::take(&mut subject.document.warnings);
        let rulings = self.rulings(&context.state.name, except.as_ref()).await?;
        let query = query_of(&context, &subject, except, &rulings);
        let fingerprint = subject.signed.fingerprint();
        let statistics = context.statistics();
        self.sketches_used(&context);
        let judge = self.judge(context, subject, rulings).await?;
        Ok(LookupQuestion { query, judge, fingerprint, statistics, warnings })
    }

    /// Returns the records whose fingerprint lies within `radius` (0 to 15; the default is the channel's own radius), nearest first, unverified, at
    /// most `limit`.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] if the collection has no `simhash` channel.
    #[boxed]
    pub async fn similar_to_fingerprint(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<Radius>,
        wanted: SimilarSelection,
    ) -> Result<SimilarList> {
        self.in_live(|| self.similar_to_fingerprint_once(collection, fingerprint, radius, &wanted)).await
    }

    async fn similar_to_fingerprint_once(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<Radius>,
        wanted: &SimilarSelection,
    ) -> Result<SimilarList> {
        let context = self.context(collection).await?;
        let Some(own) = context.state.settings.simhash() else {
            let detail = "the collection has no simhash channel, so its records have no fingerprints";
            return Err(Error::Invalid(vec![Violation::new("?fingerprint", ErrorCode::NoFingerprints, detail)]));
        };
        let within = SimhashChannel { radius: radius.unwrap_or(own.radius), ..own };
        let hamming = HammingRange { centre: fingerprint, within };
        let query = LookupQuery {
            collection: collection.clone(),
            generation: context.state.generation,
            digest: None,
            hamming: Some(hamming),
            signed: None,
            except: None,
            confirmed: Vec::new(),
        };
        let judge = Arc::new(FingerprintJudge::new(context, hamming));
        self.list(query, judge, Some(fingerprint), wanted).await
    }

    async fn list(
        &self,
        query: LookupQuery,
        judge: Arc<dyn doppel_store::CandidateJudge>,
        fingerprint: Option<Fingerprint>,
        wanted: &SimilarSelection,
    ) -> Result<SimilarList> {
        let generation = query.generation;
        let collection = query.collection.clone();
        let found = self.store.find(query, judge, LookupEnd::Exhausted).await?;
        let mut similar = found.matches;
        similar.retain(|found| wanted.filter.accepts(found));
        self.retain_selected(&collection, &mut similar, &wanted.filter).await?;
        sort_best_first(&mut similar);
        let cut = similar.len() > wanted.limit;
        similar.truncate(wanted.limit);
        let truncated = found.truncated || cut;
        // A list by fingerprint is not verified, and therefore uses no statistics.
        Ok(SimilarList { fingerprint, generation, statistics: 0, similar, truncated, warnings: Vec::new() })
    }

    /// Keeps the matches whose stored record has the petitioner and the values of `filter`. Reads the matching records, unless the filter has
    /// no such condition.
    async fn retain_selected(
        &self,
        collection: &CollectionName,
        matches: &mut Vec<Match>,
        filter: &MatchFilter,
    ) -> Result<()> {
        if filter.identity.is_none() && filter.record.is_empty() {
            return Ok(());
        }
        let context = self.context(collection).await?;
        let identity = filter.identity.as_ref().map(|identity| context.identity(identity));
        let prepared = filter.record.prepared(&context);
        let mut selected = HashSet::new();
        let seqs = matches.iter().map(|found| found.seq).collect();
        self.each_at(collection, seqs, |record| {
            let is_by = |wanted: &String| match &record.content {
                RecordContent::Row(_) => context.keep(&record).is_some_and(|read| read.document.is_by(wanted)),
                RecordContent::Hashes(_) => context.is_by(&record, wanted) == Some(true),
            };
            if identity.as_ref().is_none_or(is_by) && prepared.accepts(&record) {
                selected.insert(record.seq);
            }
        })
        .await?;
        matches.retain(|found| selected.contains(&found.seq));
        Ok(())
    }

    /// Explains a pair of records: their common parts and their differences.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`]; [`Error::Side`] with [`Error::UnknownRecord`] or [`Error::Invalid`] for the
    /// side that causes the error.
    #[boxed]
    pub async fn explain(&self, collection: &CollectionName, a: Side, b: Side) -> Result<Explanation> {
        let context = self.context_with_text(collection, WHY_TEXTS).await?;
        let a = self.explained_row(collection, &context, a).await.map_err(|error| Error::Side("a", Box::new(error)))?;
        let b = self.explained_row(collection, &context, b).await.map_err(|error| Error::Side("b", Box::new(error)))?;
        in_turn(move || explain::explain(&context, &a, &b)).await
    }

    async fn explained_row(
        &self,
        collection: &CollectionName,
        context: &Arc<Context>,
        side: Side,
    ) -> Result<ExplainedRow> {
        let row = self.row_of(collection, side).await?;
        let subject = self.subject(context, row.clone()).await?;
        Ok(ExplainedRow { row, subject })
    }
}

fn query_of(context: &Context, subject: &SignedRow, except: Option<RecordId>, rulings: &RecordRulings) -> LookupQuery {
    LookupQuery {
        collection: context.state.name.clone(),
        generation: context.state.generation,
        digest: Some(subject.signed.digest),
        hamming: context.hamming(&subject.signed),
        signed: Some(subject.signed.clone()),
        except,
        confirmed: rulings.that_are(true),
    }
}
