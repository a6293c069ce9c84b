//! Building a generation: signs every record again, stores its index entry, and finds its matches, in seq order.
//!
//! The matches come from an index of the new generation that is built in memory at the same time: each record is looked up among the earlier
//! records and then inserted, as in a registration. Therefore the pairs, and the limits that cut them, equal those of a collection that had the new
//! settings from the beginning. One thread looks up and inserts, in microseconds for each record; a separate thread pool signs, reads candidates
//! and verifies.
//!
//! Memory: the new index (about 200 bytes for each record with preset `default`), and a few pieces of [`PIECE`] records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

use crate::boxed;
use crate::context::{Context, SignedRow};
use crate::matcher::{MatchCase, RecordMatcher};
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::Proposals;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::text::Document;
use doppel_store::generations::{FiledSignatures, GenerationPhase, GenerationSpec, GenerationState, RecordMatches};
use doppel_store::{GenerationId, Seq, StoredRecord};

/// Number of records in one step: some tens of milliseconds of work, a few hundred kilobytes of usual rows.
const PIECE: usize = 128;
/// Number of records whose candidates are read together: at most 256 candidates each, of at most a megabyte.
const TOGETHER: usize = 16;
/// Number of index entries that are read at once when an index is loaded.
const LOAD: usize = 5_000;
/// Value that is added to the priority of the pool's threads (`nice`), so that requests come first.
const NICENESS: i32 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildStep {
    /// Every record up to this seq is done.
    pub to: Seq,
    pub records: u64,
    /// Number of pairs that were found.
    pub pairs: u64,
    /// Number of records that the generation's settings cannot read; they match nothing.
    pub unreadable: u64,
}

/// A generation that is being built, or being brought up to date.
pub struct GenerationRebuild {
    engine: Engine,
    collection: CollectionName,
    generation: GenerationId,
    matcher: Arc<RecordMatcher>,
    pool: &'static ThreadPool,
    /// Every record up to this seq is in the matcher's index.
    last: Seq,
}

impl Engine {
    /// Begins a new generation with `settings`. First drops an incomplete generation of an earlier attempt and, if the collection has the largest
    /// number of generations, the oldest complete generations. If the new settings depend on the settings of the collection, `based_on` are the
    /// settings that the collection must still have.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Store`] with `StaleGeneration` if the collection has other settings than `based_on`, with
    /// `DiskFull`, `Unavailable` or `Unknown` when the store does not accept it now.
    #[boxed]
    pub async fn begin_generation(
        &self,
        collection: &CollectionName,
        settings: &Settings,
        based_on: Option<Settings>,
        statistics: Vec<u8>,
    ) -> Result<GenerationState> {
        self.drop_half_built(collection).await?;
        let spec = self.spec(collection, settings.clone()).await?;
        // Generations are dropped only after the settings are known to be valid.
        for generation in self.context(collection).await?.state.dropped_for_room() {
            self.store.drop_generation(collection, generation).await?;
        }
        let spec = GenerationSpec {
            collection: spec.name,
            settings: spec.settings,
            based_on,
            profile: spec.profile,
            statistics,
            now: spec.now,
        };
        Ok(self.store.begin_generation(spec).await?)
    }

    /// Drops the generation in progress; does nothing without one.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn drop_half_built(&self, collection: &CollectionName) -> Result<()> {
        let state = self.context(collection).await?.state.clone();
        for other in state.others.iter().filter(|other| other.phase == GenerationPhase::Building) {
            self.store.drop_generation(collection, other.id).await?;
        }
        Ok(())
    }

    /// Returns the statistics that a new generation keeps: the number of records with each word, if a channel of `settings` weights by this number,
    /// and the document frequencies of text, if a channel prefers rare text; empty otherwise. With `counts_all` the document frequencies cover all
    /// records. Calls `progress` with the number of records that were read.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn count_words(
        &self,
        collection: &CollectionName,
        settings: &Settings,
        counts_all: bool,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<Vec<u8>> {
        let settings = settings.clone();
        let profile = off_thread(move || Ok(Arc::new(Profile::compile(&settings, None)))).await?;
        let text = self.fresh_frequencies(collection, &profile, counts_all).await?;
        if !profile.needs_statistics() {
            let words = Statistics::default();
            return Ok(if text.is_some() { with_text(words, text.as_deref()).encode() } else { Vec::new() });
        }
        let mut last = Seq(0);
        let mut read = 0;
        let mut statistics = Statistics::default();
        loop {
            let records = self.store.records(collection, last, PIECE).await?;
            let Some(end) = records.last() else { return Ok(with_text(statistics, text.as_deref()).encode()) };
            last = end.seq;
            read += records.len() as u64;
            let profile = Arc::clone(&profile);
            statistics = on_pool(pool()?, move || count(&profile, &records, statistics)).await?;
            progress(read);
        }
    }

    /// Continues to build `generation`, whose records up to `filed_to` are done. Reads their index entries, and calls `progress` with the
    /// number of entries that were read.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`]; [`Error::Store`] with `IndexFull`.
    pub async fn rebuild(
        &self,
        collection: &CollectionName,
        generation: GenerationId,
        filed_to: Seq,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<GenerationRebuild> {
        let live = self.context(collection).await?;
        let context = match live.seen_from(generation) {
            _ if live.state.generation == generation => live,
            Some(seen) => Arc::new(seen),
            None => return Err(Error::UnknownGeneration(collection.clone(), generation)),
        };
        let matcher = Arc::new(RecordMatcher::new(context));
        let mut last = Seq(0);
        let mut loaded = 0;
        while last < filed_to {
            let mut filed = self.store.filed(collection, generation, last, LOAD).await?;
            filed.retain(|filed| filed.seq <= filed_to);
            let Some(end) = filed.last() else { break };
            last = end.seq;
            loaded += filed.len() as u64;
            let matcher = Arc::clone(&matcher);
            off_thread(move || matcher.load(filed)).await?;
            progress(loaded);
        }
        Ok(GenerationRebuild {
            engine: self.clone(),
            collection: collection.clone(),
            generation,
            matcher,
            pool: pool()?,
            last: filed_to,
        })
    }
}

/// Adds encoded document frequencies of text to statistics of words.
fn with_text(words: Statistics, text: Option<&[u8]>) -> Statistics {
    match text {
        Some(text) => words.with_text(text),
        None => words,
    }
}

/// Adds the words of `records` to `statistics`.
fn count(profile: &Profile, records: &[StoredRecord], mut statistics: Statistics) -> Statistics {
    let documents = records.par_iter().filter_map(|record| profile.read(&record.content.read()?).ok());
    let documents: Vec<Document> = documents.collect();
    for document in documents.iter().filter(|document| !document.is_empty()) {
        statistics.observe(&profile.cut(document));
    }
    statistics
}

/// A record in a step.
struct RebuildItem {
    record: StoredRecord,
    document: Option<Document>,
    signed: Arc<Signed>,
    proposals: Proposals,
}

impl GenerationRebuild {
    /// Returns an error for a generation that a version of doppel with other rules began: its signatures would not match the signatures of
    /// this version.
    ///
    /// # Errors
    /// `OutdatedGeneration`.
    pub fn check_rules(&self) -> Result<()> {
        match self.matcher.context.is_outdated() {
            true => Err(Error::OutdatedGeneration(self.collection.clone(), self.generation)),
            false => Ok(()),
        }
    }

    /// Signs and files the next records below `end` and finds their matches. `None` if there are no more records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::UnknownGeneration`] if the generation is dropped meanwhile; [`Error::Store`] with
    /// `IndexFull`.
    #[boxed]
    pub async fn step(&mut self, end: Seq) -> Result<Option<RebuildStep>> {
        let items = self.next(end).await?;
        if items.is_empty() {
            return Ok(None);
        }
        let filings = items.iter().map(|item| {
            let signed = Arc::clone(&item.signed);
            FiledSignatures { id: item.record.id.clone(), seq: item.record.seq, signed }
        });
        let filings = filings.collect();
        self.engine.store.file(&self.collection, self.generation, filings).await?;
        let mut step = RebuildStep { to: self.last, records: items.len() as u64, ..RebuildStep::default() };
        step.unreadable = items.iter().filter(|item| item.document.is_none()).count() as u64;
        step.pairs = self.pair_up(items).await?;
        Ok(Some(step))
    }

    /// Brings the pairs of the live generation up to date: finds the matches of records below `end` that were registered while another
    /// generation was live. `None` if all records are done.
    ///
    /// # Errors
    /// The errors of [`GenerationRebuild::step`].
    #[boxed]
    pub async fn catch_up(&mut self, end: Seq) -> Result<Option<RebuildStep>> {
        let items = self.next(end).await?;
        if items.is_empty() {
            return Ok(None);
        }
        let generation = self.generation;
        let mut step = RebuildStep { to: self.last, ..RebuildStep::default() };
        let others: Vec<RebuildItem> =
            items.into_iter().filter(|item| item.record.verdict.generation != generation).collect();
        step.records = others.len() as u64;
        step.pairs = self.pair_up(others).await?;
        Ok(Some(step))
    }

    /// Returns the size of the index in bytes.
    pub fn memory_usage(&self) -> usize {
        self.matcher.memory_usage()
    }

    /// Reads and signs the next records below `end`, and inserts them into the index.
    async fn next(&mut self, end: Seq) -> Result<Vec<RebuildItem>> {
        let mut records = self.engine.store.records(&self.collection, self.last, PIECE).await?;
        records.retain(|record| record.seq < end);
        let context = Arc::clone(&self.matcher.context);
        let mut items = on_pool(self.pool, move || sign(&context, records)).await?;
        for item in &mut items {
            self.last = item.record.seq;
            item.proposals = self.matcher.place(self.last, &item.signed)?;
        }
        Ok(items)
    }

    /// Finds the matches among the proposals and records them. Returns their number.
    async fn pair_up(&self, items: Vec<RebuildItem>) -> Result<u64> {
        let here: BTreeMap<Seq, StoredRecord> =
            items.iter().map(|item| (item.record.seq, item.record.clone())).collect();
        let here = Arc::new(here);
        // A record that cannot be read is not compared.
        let mut cases = Vec::with_capacity(items.len());
        for RebuildItem { record, document, signed, proposals } in items {
            let Some(document) = document else { continue };
            cases.push(self.matcher.case(record.seq, SignedRow { document, signed, named: None }, proposals));
        }
        let mut found = Vec::new();
        let mut cases = cases.into_iter().peekable();
        while cases.peek().is_some() {
            let chunk: Vec<MatchCase> = cases.by_ref().take(TOGETHER).collect();
            found.extend(self.judge(chunk, &here).await?);
        }
        let pairs = found.iter().map(|pairs: &RecordMatches| pairs.earlier.len() as u64).sum();
        if !found.is_empty() {
            self.engine.store.put_pairs(&self.collection, self.generation, found).await?;
        }
        Ok(pairs)
    }

    async fn judge(
        &self,
        cases: Vec<MatchCase>,
        here: &Arc<BTreeMap<Seq, StoredRecord>>,
    ) -> Result<Vec<RecordMatches>> {
        let mut cases = cases;
        let cases = on_pool(self.pool, move || {
            cases.par_iter_mut().for_each(MatchCase::dismiss);
            cases
        });
        let cases = cases.await?;
        let wanted = cases.iter().flat_map(|case| case.proposals.items.iter().map(|proposal| proposal.seq));
        let missing: BTreeSet<Seq> = wanted.filter(|seq| !here.contains_key(seq)).collect();
        let mut read: HashMap<Seq, StoredRecord> = HashMap::new();
        self.engine
            .each_at(&self.collection, missing.into_iter().collect(), |record| {
                read.insert(record.seq, record);
            })
            .await?;
        let here = Arc::clone(here);
        on_pool(self.pool, move || {
            let pairs = cases.par_iter().filter_map(|case| pairs(case, |seq| here.get(seq).or_else(|| read.get(seq))));
            pairs.collect()
        })
        .await
    }
}

/// Returns the matches of a record; `None` without matches.
fn pairs<'a>(case: &MatchCase, candidate: impl Fn(&Seq) -> Option<&'a StoredRecord>) -> Option<RecordMatches> {
    let mut earlier = Vec::new();
    for proposal in &case.proposals.items {
        if candidate(&proposal.seq).is_some_and(|record| case.judge(proposal, record, &[]).is_some()) {
            earlier.push(proposal.seq);
        }
    }
    earlier.sort_unstable();
    (!earlier.is_empty()).then_some(RecordMatches { seq: case.seq, earlier })
}

fn sign(context: &Context, records: Vec<StoredRecord>) -> Vec<RebuildItem> {
    let items = records.into_par_iter().map(|record| {
        let (document, signed) = context.sign_stored(&record);
        RebuildItem { record, document, signed: Arc::new(signed), proposals: Proposals::default() }
    });
    items.collect()
}

/// Returns the rebuilding threads: one fewer than the number of cores, with a lower priority than the serving threads. The first call
/// starts them.
pub(super) fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let made = POOL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.saturating_sub(1).max(1);
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("rebuild-{number}"));
        // The pool works with the usual priority if the system does not allow a lower one.
        let pool = pool.start_handler(|_| {
            let _ = rustix::process::nice(NICENESS);
        });
        pool.build().ok()
    });
    made.as_ref().ok_or(Error::Crashed)
}

/// Runs `work` on a pool.
pub(super) async fn on_pool<T: Send + 'static>(
    pool: &'static ThreadPool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    pool.spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(work));
        // An error means that the caller does not wait any more.
        let _ = sender.send(done);
    });
    match receiver.await {
        Ok(Ok(done)) => Ok(done),
        _ => Err(Error::Crashed),
    }
}
