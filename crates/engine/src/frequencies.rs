//! Document frequencies of a collection: counted over a sample of its records, kept by the store in versions, refreshed as the
//! collection grows.
//!
//! Verification is no part of a signature, so that nothing is signed or filed anew when they change. A refresh counts at most
//! [`SAMPLE_RECORDS`] records on the threads that rebuild, behind those that serve; then the pairs recorded before are judged
//! again, so that groups follow (see `rejudge`). It is begun by whoever registers the record with which the collection has
//! grown to twice what it was, whatever instance that is: of two that count at the same time, one is kept.
//!
//! Keys are part of a signature, and lie where text was rare by what was known when their generation was begun. Where too many
//! of them turn out to lie on text that is common, as in a collection of filled-in forms that began empty, the collection is
//! reindexed, so that a record is looked up by what is particular to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;

use crate::answers::TextStatistics;
use crate::context::Context;
use crate::rebuild::{on_pool, pool};
use crate::tasks::{Reindex, Work};
use crate::{Engine, Error, READ_AT_ONCE, Result};
use doppel_core::collection::{CollectionName, Verify};
use doppel_core::record::Row;
use doppel_core::schemes::MisplacedKeys;
use doppel_core::schemes::frequencies::{Counter, Frequencies, Kinds, SAMPLE_RECORDS, SAMPLED_SHINGLE, name_code};
use doppel_core::schemes::profile::Profile;
use doppel_core::text::{Document, shingles};

/// Records with which a collection is counted first: fewer say little that the built-in list does not.
const FIRST_COUNT: u64 = 64;

/// So long after a collection grew by a quarter it is counted, if that is not due earlier: an import has ended by then.
const REST: Duration = Duration::from_secs(20);
/// ... and waits as long again while one in so many of its records is new meanwhile.
const AT_REST: u64 = 64;
/// How often a count is repeated that another one overtook. Each needs the collection to grow to twice its size meanwhile.
const COUNT_TRIES: usize = 3;

/// From so many records on, a count says much that stays true ...
const MANY: u64 = 1_024;

/// How many records a collection has when it is to be counted again while it grows without rest: twice as many as when it was
/// counted last, and four times as many from [`MANY`] on.
fn due_at(counted: u64) -> u64 {
    (if counted < MANY { 2 * counted } else { 4 * counted }).max(FIRST_COUNT)
}

/// Bytes of a record's text that are counted: a long one says no more of what is common than a usual one.
const COUNTED_BYTES: usize = 64 << 10;
/// Of so many records together, one shows whether the keys lie where they should.
const KEYS_OF_ONE_IN: usize = 16;
/// Share of misplaced keys from which a collection is reindexed: then a record has lost a quarter of its chances to be found, and
/// every one of those keys proposes crowds.
const MISPLACED: f64 = 0.25;
/// A collection is so many times as large when it may be reindexed by itself again.
const RENEWED_AT: u64 = 4;

/// A count that was put in force.
struct Count {
    frequencies: Arc<Frequencies>,
    /// Share of the live generation's keys that lie on text which is common by it, and would not if they were made now.
    misplaced: f64,
}

/// What is counted of a collection's records.
#[derive(Clone)]
pub(super) struct Counted {
    profile: Arc<Profile>,
    /// Widths of the shingles.
    widths: BTreeSet<u8>,
    /// Whether the names of things are counted too.
    objects: bool,
}

impl Context {
    /// What is counted of its records; `None` where nothing goes by document frequencies of text.
    pub(super) fn counted(&self) -> Option<Counted> {
        Counted::of(&self.profile, self.verifier.as_ref().map(|verifier| verifier.settings()))
    }
}

impl Counted {
    /// What a profile and verification go by; `None` where that is nothing.
    pub(super) fn of(profile: &Arc<Profile>, verify: Option<&Verify>) -> Option<Self> {
        let verify = verify.filter(|verify| verify.rarity);
        let sampled = profile.wants_text_frequencies().then_some(SAMPLED_SHINGLE);
        let widths: BTreeSet<u8> = verify.map(|verify| verify.shingle).into_iter().chain(sampled).collect();
        let objects = verify.is_some_and(|verify| verify.objects);
        (!widths.is_empty()).then(|| Self { profile: Arc::clone(profile), widths, objects })
    }

    fn kinds(&self) -> Kinds {
        Kinds::of(self.widths.iter().copied(), self.objects)
    }

    /// Whether all of it was counted in `frequencies`.
    pub(super) fn are_in(&self, frequencies: &Frequencies) -> bool {
        frequencies.kinds().include(self.kinds())
    }

    fn document(&self, row: &str) -> Option<Document> {
        self.profile.read(&Row::parse(row.as_bytes()).ok()?).ok()
    }

    /// The codes of a row, each once.
    fn codes(&self, row: &str) -> Option<Vec<u64>> {
        let text = self.document(row)?.joined();
        let text = &text[..text.floor_char_boundary(COUNTED_BYTES)];
        let mut codes: Vec<u64> = self.widths.iter().flat_map(|&width| shingles::codes(text, width)).collect();
        if self.objects {
            codes.extend(self.profile.objects(text).iter().map(|object| name_code(&object.name)));
        }
        codes.sort_unstable();
        codes.dedup();
        Some(codes)
    }

    /// The share of misplaced keys of some rows, see [`Scheme::misplaced_keys`](doppel_core::schemes::Scheme::misplaced_keys).
    fn misplaced_keys(&self, rows: &[Arc<str>], now: &Arc<Frequencies>) -> f64 {
        if !self.profile.wants_text_frequencies() {
            return 0.0;
        }
        let documents = rows.par_iter().filter_map(|row| self.document(row));
        documents.map(|document| self.profile.misplaced_keys(&document, now)).sum::<MisplacedKeys>().share()
    }

    /// Counts rows, on all threads of the pool it runs on.
    pub(super) fn count(&self, rows: &[Arc<str>], counter: &mut Counter) {
        let counted: Vec<_> = rows.par_iter().filter_map(|row| self.codes(row)).collect();
        counted.into_iter().for_each(|codes| counter.observe(codes));
    }
}

impl Engine {
    /// Counts a collection's document frequencies anew, puts them in force, and has what depends on them follow.
    ///
    /// # Errors
    /// As [`Engine::count_frequencies`].
    pub async fn refresh_frequencies(&self, collection: &CollectionName) -> Result<Option<Arc<Frequencies>>> {
        let counted = self.count_frequencies(collection).await?;
        if counted.is_some() {
            self.follow_frequencies(collection).await?;
        }
        Ok(counted)
    }

    /// Counts a collection's document frequencies anew and puts them in force; `None` where nothing goes by them. O(sample); again
    /// when somebody else puts others in force meanwhile, who may have counted fewer records.
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn count_frequencies(&self, collection: &CollectionName) -> Result<Option<Arc<Frequencies>>> {
        let mut counted = None;
        for _ in 0..COUNT_TRIES {
            counted = self.count_once(collection).await?;
            if counted.is_some() {
                break;
            }
        }
        let Some(count) = counted else { return Ok(None) };
        self.renew_keys(collection, &count).await?;
        Ok(Some(count.frequencies))
    }

    /// As [`Engine::count_frequencies`]; `None` also where somebody else put others in force meanwhile.
    async fn count_once(&self, collection: &CollectionName) -> Result<Option<Count>> {
        let context = self.context(collection).await?;
        let Some(counted) = context.counted() else { return Ok(None) };
        let records = self.store.count(collection).await?;
        let (counter, shown) = self.counter(collection, &counted).await?;
        let version = context.state.frequencies + 1;
        if !self.store.put_frequencies(collection, version, counter.encode(records)).await? {
            return Ok(None);
        }
        let frequencies = Arc::clone(&self.context(collection).await?.frequencies);
        let now = Arc::clone(&frequencies);
        let misplaced = on_pool(pool()?, move || counted.misplaced_keys(&shown, &now)).await?;
        tracing::info!(
            %collection, version, records, entries = frequencies.len(), misplaced_keys = misplaced, "document frequencies are counted"
        );
        Ok(Some(Count { frequencies, misplaced }))
    }

    /// Counts a sample of a collection's records; also some of their rows.
    async fn counter(&self, collection: &CollectionName, counted: &Counted) -> Result<(Counter, Vec<Arc<str>>)> {
        let sample = self.store.sample(collection, SAMPLE_RECORDS).await?;
        let (mut counter, mut shown) = (Counter::new(counted.kinds()), Vec::new());
        for seqs in sample.chunks(READ_AT_ONCE) {
            let records = self.store.records_at(collection, seqs).await?;
            let rows: Vec<_> = records.iter().filter_map(|record| record.content.row().cloned()).collect();
            let usual = |row: &&Arc<str>| row.len() <= COUNTED_BYTES;
            shown.extend(rows.iter().step_by(KEYS_OF_ONE_IN).filter(usual).cloned());
            let counted = counted.clone();
            counter = on_pool(pool()?, move || {
                counted.count(&rows, &mut counter);
                counter
            })
            .await?;
        }
        Ok((counter, shown))
    }

    /// Asks for a reindex of a collection whose keys lie on text that is common by what was counted.
    async fn renew_keys(&self, collection: &CollectionName, count: &Count) -> Result<()> {
        if count.misplaced < MISPLACED || !self.options.automatic_reindex {
            return Ok(());
        }
        let (records, context) = (count.frequencies.records(), self.context(collection).await?);
        let frozen = context.profile.statistics().and_then(|statistics| statistics.text());
        // By so much must it grow before its keys are renewed again, whatever comes.
        if records < frozen.map_or(MANY, |frozen| frozen.records() * RENEWED_AT) {
            return Ok(());
        }
        let reindex = Reindex { settings: None, activate: true, keep_previous: false, records_per_second: None };
        match self.begin_task(collection, Work::Reindex(reindex)).await {
            Ok(task) => tracing::info!(%collection, task = task.id, "reindexing: its keys lie on common text"),
            // The next count asks again.
            Err(Error::TaskRunning(_, task)) => {
                tracing::info!(%collection, task, "its keys lie on common text; another task is at work on it");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What is known of a collection's document frequencies.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn text_statistics(&self, collection: &CollectionName) -> Result<TextStatistics> {
        let context = self.context(collection).await?;
        let frequencies = &context.frequencies;
        Ok(TextStatistics {
            version: frequencies.version(),
            records: frequencies.records(),
            sampled: frequencies.sampled(),
            entries: frequencies.len(),
            bytes: frequencies.memory_usage(),
        })
    }

    /// The document frequencies that a generation under `profile` freezes, encoded: those in force where they were counted of the
    /// same texts, counted now where a count is due; else counted for it alone. `None` where it goes by none.
    pub(super) async fn fresh_frequencies(
        &self,
        collection: &CollectionName,
        profile: &Arc<Profile>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(wanted) = Counted::of(profile, None) else { return Ok(None) };
        let context = self.context(collection).await?;
        let live = context.counted().filter(|live| live.kinds().include(wanted.kinds()));
        if live.is_none() || context.profile.digest() != profile.digest() {
            let records = self.store.count(collection).await?;
            return Ok(Some(self.counter(collection, &wanted).await?.0.encode(records)));
        }
        let counted = context.frequencies.records();
        let is_due = counted == 0 || self.store.count(collection).await? >= due_at(counted);
        if is_due || context.lacks_frequencies {
            self.count_once(collection).await?;
            self.follow_frequencies_later(collection);
        }
        let version = self.context(collection).await?.state.frequencies;
        Ok(self.store.frequencies(collection, version).await?)
    }

    /// Notes that a record was registered, and has the collection counted again where it has grown enough.
    pub(super) fn grown(&self, context: &Arc<Context>) {
        // A reindex has the threads that count, and counts itself.
        if !context.counts_text || context.is_indexed_anew() {
            return;
        }
        let (counted, grown) = (context.frequencies.records(), context.growth.note());
        let some = grown >= FIRST_COUNT / 4;
        let is_due = grown >= due_at(counted) - counted || (some && context.lacks_frequencies);
        let delay = match grown {
            _ if is_due && context.growth.begin_counting() => Duration::ZERO,
            _ if some && grown >= counted / 4 && context.growth.begin_waiting() => REST,
            _ => return,
        };
        self.count_after(delay, Arc::clone(context));
    }

    /// Has a collection counted whose settings go by what was not.
    pub(super) async fn count_what_lacks(&self, collection: &CollectionName) -> Result<()> {
        let context = self.context(collection).await?;
        let lacks = context.lacks_frequencies && self.store.count(collection).await? >= FIRST_COUNT;
        if lacks && context.growth.begin_counting() {
            self.count_after(Duration::ZERO, context);
        }
        Ok(())
    }

    fn count_after(&self, delay: Duration, context: Arc<Context>) {
        let engine = self.clone();
        tokio::spawn(async move {
            loop {
                let before = context.growth.records();
                tokio::time::sleep(delay).await;
                // An import goes on: counting now would have to be repeated, with all that follows from it.
                let grown = context.growth.records().saturating_sub(before);
                if delay.is_zero() || grown <= (context.frequencies.records() / AT_REST).max(FIRST_COUNT) {
                    break;
                }
            }
            if let Err(error) = engine.count_again(&context).await {
                tracing::warn!(collection = %context.state.name, %error, "statistics of text are not up to date");
            }
            context.growth.restart();
        });
    }

    /// Counts, unless that was done since `context` was made, or the collection is gone.
    async fn count_again(&self, context: &Context) -> Result<()> {
        let name = &context.state.name;
        let now = match self.context(name).await {
            Err(Error::UnknownCollection(_)) => return Ok(()),
            now => now?,
        };
        if now.state.number == context.state.number && now.state.frequencies == context.state.frequencies {
            let renewed = match self.count_once(name).await? {
                Some(count) => self.renew_keys(name, &count).await,
                None => Ok(()),
            };
            self.follow_frequencies(name).await?;
            renewed?;
        }
        Ok(())
    }
}
