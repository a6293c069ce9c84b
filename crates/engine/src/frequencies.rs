//! The document frequencies of a collection. They are counted over a sample of its records, stored in versions, and counted again as the
//! collection grows.
//!
//! Verification is no part of a signature, so that new frequencies need no new signatures and no new index entries. A count reads at most
//! [`SAMPLE_RECORDS`] records, on the rebuilding threads, which have a lower priority than the serving threads. Then the recorded pairs are
//! judged again, so that groups follow (see `rejudge`). The registration with which the collection has grown to twice its size starts the
//! count, on any instance. If two instances count at the same time, one result is kept.
//!
//! Posting keys are part of a signature. They lie on text that was rare when their generation was begun. If too many of them turn out to
//! lie on common text, as in a collection of filled-in forms that began empty, the collection is reindexed, so that its records are found
//! by their particular text.

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

/// Smallest number of records with which a collection is counted: fewer records add little to the built-in list.
const FIRST_COUNT: u64 = 64;

/// Pause between the growth of a collection by a quarter and its count, unless a count is due earlier: an import has ended by then.
const REST: Duration = Duration::from_secs(20);
/// The pause is repeated if more than one in this number of records is new after it.
const AT_REST: u64 = 64;
/// Largest number of repetitions of a count because another count was stored first. Each repetition means that the collection grew to twice
/// its size meanwhile.
const COUNT_TRIES: usize = 3;

/// Number of records from which on a count stays accurate for longer.
const MANY: u64 = 1_024;

/// Returns the number of records with which a collection is counted again while it keeps growing: twice the number of the last count, and
/// four times that number from [`MANY`] records on.
fn due_at(counted: u64) -> u64 {
    (if counted < MANY { 2 * counted } else { 4 * counted }).max(FIRST_COUNT)
}

/// Number of bytes of a record's text that are counted: a long text adds no more information about common text than a usual one.
const COUNTED_BYTES: usize = 64 << 10;
/// One in this number of records is tested for misplaced posting keys.
const KEYS_OF_ONE_IN: usize = 16;
/// Share of misplaced posting keys from which on a collection is reindexed: then a record is found through three quarters of its keys only,
/// and each misplaced key proposes very many candidates.
const MISPLACED: f64 = 0.25;
/// Factor by which a collection must grow before it is reindexed automatically again.
const RENEWED_AT: u64 = 4;

/// A count that was stored.
struct StoredCount {
    frequencies: Arc<Frequencies>,
    /// Share of the live generation's posting keys that lie on text which is common by the new count, and would lie elsewhere if they were
    /// made now.
    misplaced: f64,
}

/// The parts of records that are counted.
#[derive(Clone)]
pub(super) struct CountedParts {
    profile: Arc<Profile>,
    /// Widths of the shingles that are counted.
    widths: BTreeSet<u8>,
    /// True if names of things are counted, too.
    objects: bool,
}

impl Context {
    /// Returns the parts of records that are counted; `None` if the collection uses no document frequencies of text.
    pub(super) fn counted(&self) -> Option<CountedParts> {
        CountedParts::of(&self.profile, self.verifier.as_ref().map(|verifier| verifier.settings()))
    }
}

impl CountedParts {
    /// Returns the parts that a profile and verification use; `None` if they use none.
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

    /// True if `frequencies` contains counts of all these parts.
    pub(super) fn are_in(&self, frequencies: &Frequencies) -> bool {
        frequencies.kinds().include(self.kinds())
    }

    fn document(&self, row: &str) -> Option<Document> {
        self.profile.read(&Row::parse(row.as_bytes()).ok()?).ok()
    }

    /// Returns the codes of a row, each once.
    fn codes(&self, row: &str) -> Option<Vec<u64>> {
        let document = self.document(row)?;
        let text = document.joined();
        let text = &text[..text.floor_char_boundary(COUNTED_BYTES)];
        let mut codes: Vec<u64> = self.widths.iter().flat_map(|&width| shingles::codes(text, width)).collect();
        if self.objects {
            codes.extend(self.profile.objects(text).iter().map(|object| name_code(&object.name)));
            codes.extend(&document.contacts);
        }
        codes.sort_unstable();
        codes.dedup();
        Some(codes)
    }

    /// Returns the share of misplaced keys of some rows, see [`Scheme::misplaced_keys`](doppel_core::schemes::Scheme::misplaced_keys).
    fn misplaced_keys(&self, rows: &[Arc<str>], now: &Arc<Frequencies>) -> f64 {
        if !self.profile.wants_text_frequencies() {
            return 0.0;
        }
        let documents = rows.par_iter().filter_map(|row| self.document(row));
        documents.map(|document| self.profile.misplaced_keys(&document, now)).sum::<MisplacedKeys>().share()
    }

    /// Counts rows, on all threads of the pool that calls this function.
    pub(super) fn count(&self, rows: &[Arc<str>], counter: &mut Counter) {
        let counted: Vec<_> = rows.par_iter().filter_map(|row| self.codes(row)).collect();
        counted.into_iter().for_each(|codes| counter.observe(codes));
    }
}

impl Engine {
    /// Counts a collection's document frequencies again, stores them, and updates all data that depends on them.
    ///
    /// # Errors
    /// The errors of [`Engine::count_frequencies`].
    pub async fn refresh_frequencies(&self, collection: &CollectionName) -> Result<Option<Arc<Frequencies>>> {
        let counted = self.count_frequencies(collection).await?;
        if counted.is_some() {
            self.follow_frequencies(collection).await?;
        }
        Ok(counted)
    }

    /// Counts a collection's document frequencies again and stores them; `None` if the collection uses none. O(sample). The count is
    /// repeated if another count was stored meanwhile, because that one may have read fewer records.
    ///
    /// # Errors
    /// The errors of the store.
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

    /// Makes one attempt of [`Engine::count_frequencies`]; `None` also if another count was stored meanwhile.
    async fn count_once(&self, collection: &CollectionName) -> Result<Option<StoredCount>> {
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
        Ok(Some(StoredCount { frequencies, misplaced }))
    }

    /// Counts a sample of a collection's records. Also returns some of their rows.
    async fn counter(&self, collection: &CollectionName, counted: &CountedParts) -> Result<(Counter, Vec<Arc<str>>)> {
        let sample = self.store.sample(collection, SAMPLE_RECORDS).await?;
        let mut counter = Counter::new(counted.kinds());
        let mut shown = Vec::new();
        for seqs in sample.chunks(READ_AT_ONCE) {
            let records = self.store.records_at(collection, seqs).await?;
            let rows: Vec<_> = records.iter().filter_map(|record| record.content.row().cloned()).collect();
            let every_so_many = rows.iter().step_by(KEYS_OF_ONE_IN);
            shown.extend(every_so_many.filter(|row| row.len() <= COUNTED_BYTES).cloned());
            let counted = counted.clone();
            counter = on_pool(pool()?, move || {
                counted.count(&rows, &mut counter);
                counter
            })
            .await?;
        }
        Ok((counter, shown))
    }

    /// Starts a reindex of a collection whose posting keys lie on text that is common by the new count.
    async fn renew_keys(&self, collection: &CollectionName, count: &StoredCount) -> Result<()> {
        if count.misplaced < MISPLACED || !self.options.automatic_reindex {
            return Ok(());
        }
        let records = count.frequencies.records();
        let context = self.context(collection).await?;
        let frozen = context.profile.statistics().and_then(|statistics| statistics.text());
        // The growth that is required before the keys are renewed again, whatever their share of misplaced keys.
        if records < frozen.map_or(MANY, |frozen| frozen.records() * RENEWED_AT) {
            return Ok(());
        }
        let reindex = Reindex { settings: None, activate: true, keep_previous: false, records_per_second: None };
        match self.begin_task(collection, Work::Reindex(reindex)).await {
            Ok(task) => {
                tracing::info!(%collection, task = task.id, "reindexing because many posting keys lie on common text");
            }
            // The next count tries again.
            Err(Error::TaskRunning(_, task)) => {
                tracing::info!(%collection, task, "many posting keys lie on common text; another task of the collection is running");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the version and size of a collection's document frequencies.
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

    /// Returns the encoded document frequencies that a new generation with `profile` keeps: those of the collection if they were counted of
    /// the same texts, after a new count if one is due; otherwise frequencies that are counted for the generation alone. `None` if the
    /// profile uses none.
    pub(super) async fn fresh_frequencies(
        &self,
        collection: &CollectionName,
        profile: &Arc<Profile>,
    ) -> Result<Option<Vec<u8>>> {
        let Some(wanted) = CountedParts::of(profile, None) else { return Ok(None) };
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

    /// Counts a registration, and starts a count of document frequencies if the collection has grown enough.
    pub(super) fn grown(&self, context: &Arc<Context>) {
        // A reindex uses the counting threads, and counts document frequencies itself.
        if !context.counts_text || context.is_indexed_anew() {
            return;
        }
        let counted = context.frequencies.records();
        let grown = context.growth.note();
        let some = grown >= FIRST_COUNT / 4;
        let is_due = grown >= due_at(counted) - counted || (some && context.lacks_frequencies);
        let delay = match grown {
            _ if is_due && context.growth.begin_counting() => Duration::ZERO,
            _ if some && grown >= counted / 4 && context.growth.begin_waiting() => REST,
            _ => return,
        };
        self.count_after(delay, Arc::clone(context));
    }

    /// Starts a count of a collection whose settings use frequencies that were not counted.
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
                // The import goes on: a count now would soon be outdated, with all the work that depends on it.
                let grown = context.growth.records().saturating_sub(before);
                if delay.is_zero() || grown <= (context.frequencies.records() / AT_REST).max(FIRST_COUNT) {
                    break;
                }
            }
            if let Err(error) = engine.count_again(&context).await {
                tracing::warn!(collection = %context.state.name, %error, "document frequencies could not be counted");
            }
            context.growth.restart();
        });
    }

    /// Counts, unless the collection was counted since `context` was made, or is gone.
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
