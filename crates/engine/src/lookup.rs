//! Looking up: is there a duplicate, which records are similar, what do two of them share. Nothing is stored.

use std::collections::HashSet;
use std::sync::Arc;

use crate::answers::{Check, Explanation, SimilarList};
use crate::context::{Context, Subject, read_first};
use crate::decisions::Rulings;
use crate::judge::{FingerprintJudge, RecordJudge};
use crate::tasks::Window;
use crate::{Engine, Error, GENERATION_RETRIES, Result, Side, explain, in_turn, off_thread};
use doppel_core::collection::{CollectionName, Radius, SimhashChannel};
use doppel_core::index::Ball;
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::{Fingerprint, Match, sort_best_first};
use doppel_core::violation::Violation;
use doppel_store::content::Content;
use doppel_store::request::one_request;
use doppel_store::{self, Query, StoreError, Until};

/// Why what is compared in words is refused where no text is kept.
pub(crate) const WHY_TEXTS: &str = "an explanation is made of texts";

/// Which similar records are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// At most so many, the best of those that `filter` lets through.
    pub limit: usize,
    /// Also those that share the form and are about another matter, behind the matches.
    pub templates: bool,
    /// Which of them.
    pub filter: Filter,
}

/// Which of the records found are shown. The search itself is the same: what it did not look at is not found by filtering either.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Submitted in it.
    pub window: Window,
    /// One of the petitioner's values, in any form that reads alike.
    pub identity: Option<String>,
    /// The least verified similarity; one that was not verified is left out.
    pub min_similarity: Option<f64>,
    /// Not these.
    pub exclude: Vec<RecordId>,
}

impl Wanted {
    /// Matches only, at most `limit`.
    pub fn matches(limit: usize) -> Self {
        Self { limit, templates: false, filter: Filter::default() }
    }
}

impl Filter {
    /// Whether a match is let through, as far as it says so by itself: all but the identity.
    fn accepts(&self, found: &Match) -> bool {
        let time = found.time.as_deref().and_then(|time| time.parse().ok());
        let alike =
            self.min_similarity.is_none_or(|least| found.similarity.is_some_and(|similarity| similarity >= least));
        self.window.holds(time) && alike && !self.exclude.contains(&found.id)
    }
}

/// What a row asks of the store.
struct Question {
    query: Query,
    /// Who judges what the store proposes.
    judge: RecordJudge,
    fingerprint: Option<Fingerprint>,
    /// Version of the document frequencies that judge.
    statistics: u32,
    /// What was left unread of the row.
    warnings: Vec<Violation>,
}

impl Engine {
    /// "Is this a duplicate?" The best match, or with `first` the first found, where the search stops. Stores nothing. A collection that a
    /// record would create has no duplicates.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`] where [`Options::auto_create`](crate::Options) is off; [`Error::Invalid`] where the row
    /// cannot be read; [`Error::Store`] with `StaleGeneration` where generations change too fast.
    pub async fn check(&self, collection: &CollectionName, row: Row, first: bool) -> Result<Check> {
        match self.in_live(|| self.check_once(collection, row.clone(), first)).await {
            Err(Error::UnknownCollection(_)) if self.options.auto_create => {
                let (_, document) = off_thread(move || read_first(&row)).await?;
                Ok(Check { duplicate: false, found: None, statistics: 0, warnings: document.warnings })
            }
            answer => answer,
        }
    }

    /// Asks again when another generation went live between signing and looking up.
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
        let Question { query, judge, statistics, warnings, .. } = self.question(context, row, except).await?;
        let until = if first { Until::FirstMatch } else { Until::Exhausted };
        let mut matches = self.store.find(query, Arc::new(judge), until).await?.matches;
        sort_best_first(&mut matches);
        let found = matches.into_iter().next();
        Ok(Check { duplicate: found.is_some(), found, statistics, warnings })
    }

    /// All records similar to `row`, best first, as far as `wanted`. Stores nothing. A row whose id is stored does not find
    /// itself.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] where the row cannot be read; [`Error::Store`] with `StaleGeneration`
    /// where generations change too fast.
    pub async fn similar(&self, collection: &CollectionName, row: Row, wanted: Wanted) -> Result<SimilarList> {
        let except = row.id().cloned();
        self.in_live(|| self.similar_once(collection, row.clone(), except.clone(), &wanted)).await
    }

    /// All records similar to a stored one, best first, as far as `wanted`.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::TextNotKept`]; [`Error::Invalid`] where its row cannot be read
    /// under the settings of today.
    pub async fn similar_to(&self, collection: &CollectionName, id: &RecordId, wanted: Wanted) -> Result<SimilarList> {
        let row = self.stored_row(collection, id).await?;
        let list = self.in_live(|| self.similar_once(collection, row.clone(), Some(id.clone()), &wanted)).await?;
        // Who stored it was told.
        Ok(SimilarList { warnings: Vec::new(), ..list })
    }

    async fn similar_once(
        &self,
        collection: &CollectionName,
        row: Row,
        except: Option<RecordId>,
        wanted: &Wanted,
    ) -> Result<SimilarList> {
        let question = self.question(self.context(collection).await?, row, except).await?;
        let Question { query, judge, fingerprint, statistics, warnings } = question;
        let judge = Arc::new(judge.showing_templates(wanted.templates));
        Ok(SimilarList { statistics, warnings, ..self.list(query, judge, fingerprint, wanted).await? })
    }

    /// Reads and signs `row`, and says what the store is asked for it.
    async fn question(&self, context: Arc<Context>, row: Row, except: Option<RecordId>) -> Result<Question> {
        let mut subject = self.subject(&context, row).await?;
        let warnings = std::mem::take(&mut subject.document.warnings);
        let rulings = self.rulings(&context.state.name, except.as_ref()).await?;
        let query = query_of(&context, &subject, except, &rulings);
        let (fingerprint, statistics) = (subject.signed.fingerprint(), context.statistics());
        let judge = self.judge(context, subject, rulings).await?;
        Ok(Question { query, judge, fingerprint, statistics, warnings })
    }

    /// All records whose fingerprint lies within `radius` (the channel's own unless given, 0 to 15), nearest first,
    /// unverified, at most `limit`.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Invalid`] where the collection has no `simhash` channel.
    pub async fn similar_to_fingerprint(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<Radius>,
        wanted: Wanted,
    ) -> Result<SimilarList> {
        self.in_live(|| self.similar_to_fingerprint_once(collection, fingerprint, radius, &wanted)).await
    }

    async fn similar_to_fingerprint_once(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<Radius>,
        wanted: &Wanted,
    ) -> Result<SimilarList> {
        let context = self.context(collection).await?;
        let Some(own) = context.state.settings.simhash() else {
            let detail = "the collection has no simhash channel, so its records have no fingerprints";
            return Err(Error::Invalid(vec![Violation::new("?fingerprint", "no_fingerprints", detail)]));
        };
        let within = SimhashChannel { radius: radius.unwrap_or(own.radius), ..own };
        let ball = Ball { centre: fingerprint, within };
        let query = Query {
            collection: collection.clone(),
            generation: context.state.generation,
            digest: None,
            ball: Some(ball),
            signed: None,
            except: None,
            confirmed: Vec::new(),
        };
        let judge = Arc::new(FingerprintJudge::new(context, ball));
        self.list(query, judge, Some(fingerprint), wanted).await
    }

    async fn list(
        &self,
        query: Query,
        judge: Arc<dyn doppel_store::Judge>,
        fingerprint: Option<Fingerprint>,
        wanted: &Wanted,
    ) -> Result<SimilarList> {
        let (generation, collection) = (query.generation, query.collection.clone());
        let found = self.store.find(query, judge, Until::Exhausted).await?;
        let (mut similar, truncated) = (found.matches, found.truncated);
        similar.retain(|found| wanted.filter.accepts(found));
        self.retain_identity(&collection, &mut similar, wanted.filter.identity.as_deref()).await?;
        sort_best_first(&mut similar);
        let cut = similar.len() > wanted.limit;
        similar.truncate(wanted.limit);
        let truncated = truncated || cut;
        // By fingerprint alone nothing is verified, and so by no statistics.
        Ok(SimilarList { fingerprint, generation, statistics: 0, similar, truncated, warnings: Vec::new() })
    }

    /// Keeps the matches of the petitioner `identity`, if one is given. Reads the matching records.
    async fn retain_identity(
        &self,
        collection: &CollectionName,
        matches: &mut Vec<Match>,
        identity: Option<&str>,
    ) -> Result<()> {
        let Some(identity) = identity else { return Ok(()) };
        let context = self.context(collection).await?;
        let wanted = context.identity(identity);
        let mut theirs = HashSet::new();
        let seqs = matches.iter().map(|found| found.seq).collect();
        self.each_at(collection, seqs, |record| {
            let is_by = match &record.content {
                Content::Row(_) => context.keep(&record).map(|read| read.document.is_by(&wanted)),
                Content::Hashes(_) => context.is_by(&record, &wanted),
            };
            if is_by == Some(true) {
                theirs.insert(record.seq);
            }
        })
        .await?;
        matches.retain(|found| theirs.contains(&found.seq));
        Ok(())
    }

    /// What two records share and where they differ.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`]; [`Error::Side`] with [`Error::UnknownRecord`] or [`Error::Invalid`] for the
    /// side that has it.
    pub async fn explain(&self, collection: &CollectionName, a: Side, b: Side) -> Result<Explanation> {
        let context = self.context_with_text(collection, WHY_TEXTS).await?;
        let of = |side| move |error| Error::Side(side, Box::new(error));
        let a = self.side(collection, &context, a).await.map_err(of("a"))?;
        let b = self.side(collection, &context, b).await.map_err(of("b"))?;
        in_turn(move || explain::explain(&context, (&a.0, &a.1), (&b.0, &b.1))).await
    }

    async fn side(&self, collection: &CollectionName, context: &Arc<Context>, side: Side) -> Result<(Row, Subject)> {
        let row = self.row_of(collection, side).await?;
        Ok((row.clone(), self.subject(context, row).await?))
    }
}

fn query_of(context: &Context, subject: &Subject, except: Option<RecordId>, rulings: &Rulings) -> Query {
    Query {
        collection: context.state.name.clone(),
        generation: context.state.generation,
        digest: Some(subject.signed.digest),
        ball: context.ball(&subject.signed),
        signed: Some(subject.signed.clone()),
        except,
        confirmed: rulings.that_are(true),
    }
}
