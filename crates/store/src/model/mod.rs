//! The store as a list: what the promises mean, in the simplest form that can be right.
//!
//! Every operation takes one lock and looks at every record. It keeps nothing on disk, so of the promises durability is the
//! one it does not make. Other stores are compared with it; the engine's tests may use it too.
//!
//! It knows no limits: a key proposes all its records.

mod decisions;
mod frequencies;
mod generations;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::decisions::{RecordPair, Ruling};
use crate::tasks::TaskState;
use crate::{
    Candidate, CollectionNumber, CollectionSpec, CollectionState, Found, GenerationId, Judge, Mode, Query, Registered,
    Registration, Result, Seq, Store, StoreError, StoredRecord, Until, Usage,
};
use doppel_core::collection::{Channel, CollectionName, Settings};
use doppel_core::index::Via;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::{Fingerprint, Match, VerdictKind};

/// See the module.
#[derive(Default)]
pub struct ModelStore {
    collections: Mutex<BTreeMap<CollectionName, Collection>>,
    /// Collections ever created.
    created: AtomicU32,
    tasks: Mutex<BTreeMap<String, TaskState>>,
}

struct Collection {
    state: Arc<CollectionState>,
    next_seq: Seq,
    /// In seq order.
    records: Vec<StoredRecord>,
    /// Every generation that there was, the live one included; those that are gone are empty.
    generations: BTreeMap<GenerationId, Generation>,
    decisions: BTreeMap<RecordPair, Vec<Ruling>>,
    /// Document frequencies by version: the one in force and the one before.
    frequencies: BTreeMap<u32, Vec<u8>>,
}

/// One generation: what it has filed of each record.
#[derive(Default)]
struct Generation {
    signed: BTreeMap<Seq, Arc<Signed>>,
    statistics: Option<Vec<u8>>,
    pairs: BTreeMap<Seq, Vec<Seq>>,
}

/// What is looked for.
struct Wanted<'a> {
    digest: Option<doppel_core::schemes::profile::Digest>,
    fingerprint: Option<(Fingerprint, u8, u8)>,
    signed: Option<&'a Signed>,
    confirmed: &'a [RecordId],
}

impl Wanted<'_> {
    /// What proposes the record `id` signed as `other`, if anything does.
    fn proposes(&self, id: &RecordId, other: &Signed) -> Option<Via> {
        let mut via = Via::default();
        if self.confirmed.contains(id) {
            via = via.with(Via::DECISION);
        }
        if self.digest == Some(other.digest) {
            via = via.with(Via::EXACT);
        }
        if let Some(((mine, radius, channel), theirs)) = self.fingerprint.zip(other.fingerprint())
            && mine.distance(theirs) <= radius
        {
            via = via.with(Via::channel(channel));
        }
        for key in self.signed.iter().flat_map(|signed| &signed.keys) {
            if other.keys.contains(key) {
                via = via.with(Via::channel(key.channel));
            }
        }
        (via != Via::default()).then_some(via)
    }
}

impl Collection {
    fn position(&self, id: &RecordId) -> Option<usize> {
        self.records.iter().position(|record| record.id == *id)
    }

    /// Removes a record from all generations.
    fn take_out(&mut self, at: usize) {
        let record = self.records.remove(at);
        for generation in self.generations.values_mut() {
            generation.signed.remove(&record.seq);
            generation.pairs.remove(&record.seq);
        }
    }

    /// Whether every generation that has the record filed reads the same text in it as before.
    fn reads_the_same(&self, seq: Seq, signed: &Arc<Signed>, others: &[(GenerationId, Arc<Signed>)]) -> bool {
        let filed = |id: GenerationId| self.generations.get(&id).and_then(|generation| generation.signed.get(&seq));
        filed(self.state.generation).is_some_and(|filed| filed.digest == signed.digest)
            && others.iter().all(|(id, signed)| filed(*id).is_none_or(|filed| filed.digest == signed.digest))
    }

    fn live(&mut self) -> &mut Generation {
        self.generations.entry(self.state.generation).or_default()
    }

    fn matches(&self, wanted: &Wanted<'_>, except: Option<&RecordId>, judge: &dyn Judge) -> Vec<Match> {
        let Some(live) = self.generations.get(&self.state.generation) else { return Vec::new() };
        let others = self.records.iter().filter(|record| Some(&record.id) != except);
        let filed = others.filter_map(|record| Some((record, live.signed.get(&record.seq)?)));
        let proposed =
            filed.filter_map(|(record, signed)| Some((record, signed, wanted.proposes(&record.id, signed)?)));
        let judged = proposed.filter_map(|(record, signed, via)| {
            let signatures = if judge.needs_signatures() { &signed.signatures[..] } else { &[] };
            judge.judge(&Candidate {
                record,
                via,
                fingerprint: signed.fingerprint(),
                signatures,
                seq_is_immutable: false,
            })
        });
        judged.collect()
    }

    fn register(&mut self, registration: Registration, judge: &dyn Judge) -> Registered {
        let Registration { id, row, signed, others, confirmed, mode, now, .. } = registration;
        let old = self.position(&id);
        if let Some(at) = old
            && self.reads_the_same(self.records[at].seq, &signed, &others)
        {
            let record = &mut self.records[at];
            if Row::parse(record.row.as_bytes()).is_ok_and(|stored| stored.same_content(&row)) {
                return Registered::Unchanged(record.clone());
            }
            (record.row, record.stored_at) = (Arc::clone(row.json()), now);
            (record.digest, record.digest_generation) = (signed.digest, self.state.generation);
            for (generation, signed) in others {
                self.generations.entry(generation).or_default().signed.entry(record.seq).or_insert(signed);
            }
            return Registered::Updated(record.clone());
        }
        let wanted = Wanted {
            digest: Some(signed.digest),
            fingerprint: signed.fingerprint().zip(simhash(&self.state.settings)).map(|(f, (r, c))| (f, r, c)),
            signed: Some(&signed),
            confirmed: &confirmed,
        };
        let matches = self.matches(&wanted, Some(&id), judge);
        let mut earlier: Vec<Seq> = matches.iter().map(|found| found.seq).collect();
        earlier.sort_unstable();
        let duplicate_of_seq = earlier.first().copied();
        let verdict = judge.conclude(matches, false);
        let duplicate = matches!(verdict.kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
        if mode == Mode::SkipDuplicate && duplicate {
            return Registered::Skipped(verdict);
        }
        if let Some(at) = old {
            self.take_out(at);
        }
        let row = Arc::clone(row.json());
        let (seq, digest) = (self.next_seq, signed.digest);
        let digest_generation = self.state.generation;
        let record =
            StoredRecord { id, seq, row, digest, digest_generation, verdict, duplicate_of_seq, stored_at: now };
        self.next_seq += 1;
        self.records.push(record.clone());
        let live = self.live();
        live.signed.insert(seq, signed);
        if !earlier.is_empty() {
            live.pairs.insert(seq, earlier);
        }
        for (generation, signed) in others {
            self.generations.entry(generation).or_default().signed.insert(seq, signed);
        }
        if old.is_some() { Registered::Replaced(record) } else { Registered::Created(record) }
    }
}

/// Radius and position of the `simhash` channel.
fn simhash(settings: &Settings) -> Option<(u8, u8)> {
    let position = settings.channels.iter().position(|channel| matches!(channel, Channel::Simhash(_)))?;
    Some((settings.simhash_radius()?, position as u8))
}

impl ModelStore {
    fn with<T>(&self, name: &CollectionName, work: impl FnOnce(&mut Collection) -> Result<T>) -> Result<T> {
        let mut collections = self.collections.lock();
        work(collections.get_mut(name).ok_or_else(|| StoreError::UnknownCollection(name.clone()))?)
    }
}

fn check_generation(collection: &Collection, given: GenerationId) -> Result<()> {
    let live = collection.state.generation;
    if given == live { Ok(()) } else { Err(StoreError::StaleGeneration { given, live }) }
}

/// Refuses a registration that was signed for other generations than there are.
fn check_generations(collection: &Collection, registration: &Registration) -> Result<()> {
    check_generation(collection, registration.generation)?;
    let (given, live) = (registration.generation, collection.state.generation);
    let beside = collection.state.others.iter().map(|other| other.id);
    let same = beside.eq(registration.others.iter().map(|(id, _)| *id));
    if same { Ok(()) } else { Err(StoreError::StaleGeneration { given, live }) }
}

#[async_trait]
impl Store for ModelStore {
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let mut collections = self.collections.lock();
        if collections.contains_key(&spec.name) {
            return Err(StoreError::CollectionExists(spec.name));
        }
        let name = spec.name.clone();
        let number = CollectionNumber(self.created.fetch_add(1, Ordering::Relaxed) + 1);
        let state = Arc::new(CollectionState::first(number, spec));
        let collection = Collection {
            state: Arc::clone(&state),
            next_seq: 1,
            records: Vec::new(),
            generations: BTreeMap::from([(1, Generation::default())]),
            decisions: BTreeMap::new(),
            frequencies: BTreeMap::new(),
        };
        collections.insert(name, collection);
        Ok(state)
    }

    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        self.with(&spec.name, |collection| {
            let mut state = (*collection.state).clone();
            if state.profile != spec.profile {
                if !collection.records.is_empty() {
                    return Err(StoreError::ProfileConflict(spec.name.clone()));
                }
                // Without records standby generations are worth nothing. Emptied, not removed: numbers are not given twice.
                state.generation = collection.next_generation();
                state.others.clear();
                (state.live_since, state.scan_end) = (None, 0);
                collection.generations.values_mut().for_each(|generation| *generation = Generation::default());
                collection.generations.insert(state.generation, Generation::default());
            }
            (state.settings, state.profile) = (spec.settings.clone(), spec.profile.clone());
            collection.state = Arc::new(state);
            Ok(Arc::clone(&collection.state))
        })
    }

    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>> {
        Ok(self.collections.lock().get(name).map(|collection| Arc::clone(&collection.state)))
    }

    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>> {
        Ok(self.collections.lock().values().map(|collection| Arc::clone(&collection.state)).collect())
    }

    async fn count(&self, name: &CollectionName) -> Result<u64> {
        self.with(name, |collection| Ok(collection.records.len() as u64))
    }

    async fn drop_collection(&self, name: &CollectionName) -> Result<bool> {
        Ok(self.collections.lock().remove(name).is_some())
    }

    async fn register(&self, registration: Registration, judge: Arc<dyn Judge>) -> Result<Registered> {
        let name = registration.collection.clone();
        self.with(&name, |collection| {
            check_generations(collection, &registration)?;
            if let Some(at) = collection.position(&registration.id) {
                registration.check_content(&collection.records[at].row)?;
            }
            Ok(collection.register(registration, judge.as_ref()))
        })
    }

    async fn remove(&self, name: &CollectionName, id: &RecordId) -> Result<bool> {
        self.with(name, |collection| {
            let Some(at) = collection.position(id) else { return Ok(false) };
            collection.take_out(at);
            collection.decisions.retain(|pair, _| pair.other(id).is_none());
            Ok(true)
        })
    }

    async fn remove_exactly(&self, name: &CollectionName, id: &RecordId, seq: Seq) -> Result<bool> {
        let there = self.record(name, id).await?.is_some_and(|record| record.seq == seq);
        if there { self.remove(name, id).await } else { Ok(false) }
    }

    async fn find(&self, query: Query, judge: Arc<dyn Judge>, until: Until) -> Result<Found> {
        self.with(&query.collection, |collection| {
            check_generation(collection, query.generation)?;
            let (digest, fingerprint, signed) = (query.digest, query.fingerprint, query.signed.as_deref());
            let wanted = Wanted { digest, fingerprint, signed, confirmed: &query.confirmed };
            let mut matches = collection.matches(&wanted, query.except.as_ref(), judge.as_ref());
            if until == Until::FirstMatch {
                matches.truncate(1);
            }
            Ok(Found { matches, truncated: false })
        })
    }

    async fn record(&self, name: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>> {
        self.with(name, |collection| Ok(collection.position(id).map(|at| collection.records[at].clone())))
    }

    async fn records(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>> {
        self.with(name, |collection| {
            let later = collection.records.iter().filter(|record| record.seq > after);
            Ok(later.take(limit).cloned().collect())
        })
    }

    async fn records_at(&self, name: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>> {
        self.with(name, |collection| {
            let asked = collection.records.iter().filter(|record| seqs.contains(&record.seq));
            Ok(asked.cloned().collect())
        })
    }

    async fn ready(&self) -> Result<()> {
        Ok(())
    }

    async fn usage(&self) -> Result<Usage> {
        let records = self.collections.lock().values().map(|collection| collection.records.len() as u64).sum();
        Ok(Usage { records, ..Usage::default() })
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
