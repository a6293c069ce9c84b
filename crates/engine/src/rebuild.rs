//! Building a generation: every record is signed anew, filed, and its matches found, in seq order.
//!
//! The matches come from an index of the new generation that grows in memory with the pass: each record is looked up among
//! those before it and then inserted, as registering does, so that the pairs (and the limits that cut them) are those that a
//! collection filled from the start would have. Looking up and inserting go on one thread, microseconds a record; signing,
//! reading candidates and verifying share a pool of their own.
//!
//! Memory: the growing index (about 200 bytes a record with preset `default`), and a few pieces of [`PIECE`] records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

use crate::context::{Context, Subject};
use crate::matcher::{Case, Matcher};
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::{Proposal, Proposals};
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::text::Document;
use doppel_store::generations::{Filing, GenerationSpec, GenerationState, Pairs, Phase};
use doppel_store::{GenerationId, Seq, StoredRecord};

/// Records of one step: some tens of milliseconds of work, a few hundred kilobytes of usual rows.
const PIECE: usize = 128;
/// Records whose candidates are read together: at most 256 each, of a megabyte at worst.
const TOGETHER: usize = 16;
/// Filed entries read at once when an index is loaded.
const LOAD: usize = 5_000;
/// Added to the priority of the pool's threads (`nice`): requests come first.
const NICENESS: i32 = 10;

/// How far one step came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Every record up to this seq is done.
    pub to: Seq,
    /// Records of the step.
    pub records: u64,
    /// Pairs found.
    pub pairs: u64,
    /// Records that the generation's settings cannot read; they match nothing.
    pub unreadable: u64,
}

/// A generation being built, or being brought up to date.
pub struct Rebuild {
    engine: Engine,
    collection: CollectionName,
    generation: GenerationId,
    matcher: Arc<Matcher>,
    pool: &'static ThreadPool,
    /// Everything up to here is in the matcher's index.
    last: Seq,
}

impl Engine {
    /// Announces a new generation with `settings`. Before that, a generation that an earlier attempt left half-built is dropped, and
    /// the oldest complete ones where the collection has as many generations as it may. `based_on` are the settings that the collection
    /// must have, where the new settings rest on them.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Store`] with `StaleGeneration` where the collection has other settings than `based_on`,
    /// with `DiskFull`, `Unavailable` or `Unknown` when the store does not take it now.
    pub async fn begin_generation(
        &self,
        collection: &CollectionName,
        settings: &Settings,
        based_on: Option<Settings>,
        statistics: Vec<u8>,
    ) -> Result<GenerationState> {
        self.drop_half_built(collection).await?;
        let spec = self.spec(collection, settings.clone()).await?;
        // Only when the settings are known to be valid.
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

    /// Throws away the generation that is being built, if there is one.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn drop_half_built(&self, collection: &CollectionName) -> Result<()> {
        let state = self.context(collection).await?.state.clone();
        for other in state.others.iter().filter(|other| other.phase == Phase::Building) {
            self.store.drop_generation(collection, other.id).await?;
        }
        Ok(())
    }

    /// What a new generation freezes: in how many records each word occurs, where a channel of `settings` weighs by that, and
    /// how common text is, where one prefers rare text; empty otherwise. `told` hears
    /// how many records are read.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn count_words(
        &self,
        collection: &CollectionName,
        settings: &Settings,
        mut told: impl FnMut(u64) + Send,
    ) -> Result<Vec<u8>> {
        let settings = settings.clone();
        let profile = off_thread(move || Ok(Arc::new(Profile::compile(&settings, None)))).await?;
        let text = self.fresh_frequencies(collection, &profile).await?;
        let with_text = |words: Statistics| match &text {
            Some(text) => words.with_text(text),
            None => words,
        };
        if !profile.needs_statistics() {
            return Ok(if text.is_some() { with_text(Statistics::default()).encode() } else { Vec::new() });
        }
        let (mut last, mut read, mut statistics) = (Seq(0), 0, Statistics::default());
        loop {
            let records = self.store.records(collection, last, PIECE).await?;
            let Some(end) = records.last() else { return Ok(with_text(statistics).encode()) };
            last = end.seq;
            read += records.len() as u64;
            let profile = Arc::clone(&profile);
            statistics = on_pool(pool()?, move || count(&profile, &records, statistics)).await?;
            told(read);
        }
    }

    /// Goes on with building `generation`, whose records up to `filed_to` are done. Reads those to fill the index: `told` hears
    /// how many.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`]; [`Error::Store`] with `IndexFull`.
    pub async fn rebuild(
        &self,
        collection: &CollectionName,
        generation: GenerationId,
        filed_to: Seq,
        mut told: impl FnMut(u64) + Send,
    ) -> Result<Rebuild> {
        let live = self.context(collection).await?;
        let context = match live.seen_from(generation) {
            _ if live.state.generation == generation => live,
            Some(seen) => Arc::new(seen),
            None => return Err(Error::UnknownGeneration(collection.clone(), generation)),
        };
        let matcher = Arc::new(Matcher::new(context));
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
            told(loaded);
        }
        let (engine, collection, last) = (self.clone(), collection.clone(), filed_to);
        Ok(Rebuild { engine, collection, generation, matcher, pool: pool()?, last })
    }
}

/// Adds the words of `records` to `statistics`.
fn count(profile: &Profile, records: &[StoredRecord], mut statistics: Statistics) -> Statistics {
    let read = |record: &StoredRecord| profile.read(&record.content.read()?).ok();
    let documents: Vec<Document> = records.par_iter().filter_map(read).collect();
    for document in documents.iter().filter(|document| !document.is_empty()) {
        statistics.observe(&profile.cut(document));
    }
    statistics
}

/// A record on its way through a step.
struct Item {
    record: StoredRecord,
    document: Option<Document>,
    signed: Arc<Signed>,
    proposals: Proposals,
}

impl Rebuild {
    /// Refuses a generation that another version of doppel began, by rules that differ: what that one has signed would not meet
    /// what this one signs.
    ///
    /// # Errors
    /// `OutdatedGeneration`.
    pub fn check_rules(&self) -> Result<()> {
        match self.matcher.context.is_outdated() {
            true => Err(Error::OutdatedGeneration(self.collection.clone(), self.generation)),
            false => Ok(()),
        }
    }

    /// Signs and files the next records below `end` and finds their matches. `None` when there are none left.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::UnknownGeneration`] where it is dropped meanwhile; [`Error::Store`] with
    /// `IndexFull`.
    pub async fn step(&mut self, end: Seq) -> Result<Option<Step>> {
        let items = self.next(end).await?;
        if items.is_empty() {
            return Ok(None);
        }
        let filings = items.iter().map(|item| {
            let signed = Arc::clone(&item.signed);
            Filing { id: item.record.id.clone(), seq: item.record.seq, signed }
        });
        let filings = filings.collect();
        self.engine.store.file(&self.collection, self.generation, filings).await?;
        let mut step = Step { to: self.last, records: items.len() as u64, ..Step::default() };
        step.unreadable = items.iter().filter(|item| item.document.is_none()).count() as u64;
        step.pairs = self.pair_up(items).await?;
        Ok(Some(step))
    }

    /// Brings the pairs of the generation, which is live, up to date: finds the matches of records below `end` that were registered
    /// while another one was live. `None` when all are done.
    ///
    /// # Errors
    /// As [`Rebuild::step`].
    pub async fn catch_up(&mut self, end: Seq) -> Result<Option<Step>> {
        let items = self.next(end).await?;
        if items.is_empty() {
            return Ok(None);
        }
        let (mut step, generation) = (Step { to: self.last, ..Step::default() }, self.generation);
        let others: Vec<Item> = items.into_iter().filter(|item| item.record.verdict.generation != generation).collect();
        step.records = others.len() as u64;
        step.pairs = self.pair_up(others).await?;
        Ok(Some(step))
    }

    /// Bytes of its index.
    pub fn memory_usage(&self) -> usize {
        self.matcher.memory_usage()
    }

    /// Reads and signs the next records below `end`, and puts them through the index.
    async fn next(&mut self, end: Seq) -> Result<Vec<Item>> {
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

    /// Finds the matches among what is proposed, and records them; how many.
    async fn pair_up(&self, items: Vec<Item>) -> Result<u64> {
        let here: BTreeMap<Seq, StoredRecord> =
            items.iter().map(|item| (item.record.seq, item.record.clone())).collect();
        let here = Arc::new(here);
        // Where a record cannot be read there is nothing to compare.
        let case = |Item { record, document, signed, proposals }: Item| {
            Some(self.matcher.case(record.seq, Subject { document: document?, signed, named: None }, proposals))
        };
        let cases: Vec<Case> = items.into_iter().filter_map(case).collect();
        let mut found = Vec::new();
        let mut cases = cases.into_iter().peekable();
        while cases.peek().is_some() {
            let chunk: Vec<Case> = cases.by_ref().take(TOGETHER).collect();
            found.extend(self.judge(chunk, &here).await?);
        }
        let pairs = found.iter().map(|pairs: &Pairs| pairs.earlier.len() as u64).sum();
        if !found.is_empty() {
            self.engine.store.put_pairs(&self.collection, self.generation, found).await?;
        }
        Ok(pairs)
    }

    async fn judge(&self, cases: Vec<Case>, here: &Arc<BTreeMap<Seq, StoredRecord>>) -> Result<Vec<Pairs>> {
        let mut cases = cases;
        let cases = on_pool(self.pool, move || {
            cases.par_iter_mut().for_each(Case::dismiss);
            cases
        });
        let cases = cases.await?;
        let wanted = cases.iter().flat_map(|case| case.proposals.items.iter().map(|proposal| proposal.seq));
        let missing: BTreeSet<Seq> = wanted.filter(|seq| !here.contains_key(seq)).collect();
        let mut read: HashMap<Seq, StoredRecord> = HashMap::new();
        let keep = |record: StoredRecord| drop(read.insert(record.seq, record));
        self.engine.each_at(&self.collection, missing.into_iter().collect(), keep).await?;
        let here = Arc::clone(here);
        on_pool(self.pool, move || {
            let candidate = |seq: &Seq| here.get(seq).or_else(|| read.get(seq));
            cases.par_iter().filter_map(|case| pairs(case, candidate)).collect()
        })
        .await
    }
}

/// The matches of a record; `None` where it has none.
fn pairs<'a>(case: &Case, candidate: impl Fn(&Seq) -> Option<&'a StoredRecord>) -> Option<Pairs> {
    let matches = |proposal: &&Proposal| {
        candidate(&proposal.seq).is_some_and(|record| case.judge(proposal, record, &[]).is_some())
    };
    let mut earlier: Vec<Seq> = case.proposals.items.iter().filter(matches).map(|proposal| proposal.seq).collect();
    earlier.sort_unstable();
    (!earlier.is_empty()).then_some(Pairs { seq: case.seq, earlier })
}

fn sign(context: &Context, records: Vec<StoredRecord>) -> Vec<Item> {
    let sign = |record: StoredRecord| {
        let (document, signed) = context.sign_stored(&record);
        Item { record, document, signed: Arc::new(signed), proposals: Proposals::default() }
    };
    records.into_par_iter().map(sign).collect()
}

/// The threads that rebuild: all cores but one, behind those that serve. Made when first needed.
pub(super) fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let made = POOL.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.saturating_sub(1).max(1);
        let name = |number| format!("rebuild-{number}");
        // Where the system does not let us step back, the pool works all the same.
        let step_back = |_| {
            let _ = rustix::process::nice(NICENESS);
        };
        ThreadPoolBuilder::new().num_threads(threads).thread_name(name).start_handler(step_back).build().ok()
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
        // Who asked may have stopped waiting.
        let _ = sender.send(done);
    });
    match receiver.await {
        Ok(Ok(done)) => Ok(done),
        _ => Err(Error::Crashed),
    }
}
