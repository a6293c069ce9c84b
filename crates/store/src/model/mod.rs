//! A store in a list: the simplest correct implementation of the contract.
//!
//! Every operation takes one lock and reads every record. The model keeps nothing on disk, so that it is not durable. Other stores are compared
//! with it, and tests of the engine use it.
//!
//! The model has no limits: a key proposes all its records.

mod changes;
mod decisions;
mod frequencies;
mod generations;
mod keys;
mod tasks;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::changes::{LoggedChange, LoggedKind};
use crate::decisions::{Decision, RecordPair, Ruling};
use crate::keys::KeyRing;
use crate::rules::conclude::{RegistrationConclusion, conclude};
use crate::rules::plan::{self, CollectionMoment, FiledDigest, FiledText, RegistrationPlan, check_live, plan};
use crate::stages::{RegistrationStage, StageSpan};
use crate::tasks::TaskState;
use crate::values::NamedValue;
use crate::{
    CandidateJudge, CandidateRecord, CollectionNumber, CollectionSpec, CollectionState, GenerationId, LookupEnd,
    LookupQuery, LookupResult, RegisterOutcome, Registration, RemovalCondition, Result, Seq, SnapshotReader, Store,
    StoreError, StoreUsage, StoredRecord,
};
use doppel_core::collection::CollectionName;
use doppel_core::index::{HammingRange, Via};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::{Digest, Signed};
use doppel_core::verdict::Match;

/// A store in memory, for tests.
#[derive(Default)]
pub struct ModelStore {
    collections: Mutex<BTreeMap<CollectionName, ModelCollection>>,
    /// Number of collections that were ever created.
    created: AtomicU32,
    tasks: Mutex<BTreeMap<String, TaskState>>,
    keys: Mutex<KeyRing>,
}

struct ModelCollection {
    state: Arc<CollectionState>,
    next_seq: Seq,
    /// The records in seq order.
    records: Vec<StoredRecord>,
    /// All generations that ever existed, including the live one. Dropped generations are empty.
    generations: BTreeMap<GenerationId, ModelGeneration>,
    decisions: BTreeMap<RecordPair, Vec<Ruling>>,
    /// The logged changes in order.
    logged: Vec<LoggedChange>,
    /// The highest number of a change that the log has forgotten.
    forgotten: Seq,
    /// The document frequencies by version: the present version and the one before.
    frequencies: BTreeMap<u32, Vec<u8>>,
    values: BTreeMap<String, NamedValue>,
}

/// A generation, with the signed data of each record.
#[derive(Default)]
struct ModelGeneration {
    signed: BTreeMap<Seq, Arc<Signed>>,
    statistics: Option<Vec<u8>>,
    pairs: BTreeMap<Seq, Vec<Seq>>,
}

/// The record that exists under an id.
struct ModelEntry {
    /// The position of the record in the list.
    at: usize,
    record: StoredRecord,
    filed: BTreeMap<GenerationId, Digest>,
}

impl plan::StandingRecord for ModelEntry {
    fn record(&self) -> &StoredRecord {
        &self.record
    }

    fn text_in(&self, generation: GenerationId) -> Option<FiledText> {
        let digest = self.filed.get(&generation)?;
        Some(FiledText { seq: self.record.seq, digest: FiledDigest::Whole(*digest) })
    }
}

/// The data by which records are looked up.
struct LookupData<'a> {
    digest: Option<Digest>,
    hamming: Option<HammingRange>,
    signed: Option<&'a Signed>,
    confirmed: &'a [RecordId],
}

impl LookupData<'_> {
    /// Returns the sources that propose the record `id` with the signed data `other`; `None` if nothing proposes it.
    fn proposes(&self, id: &RecordId, other: &Signed) -> Option<Via> {
        let mut via = Via::default();
        if self.confirmed.contains(id) {
            via = via.with(Via::DECISION);
        }
        if self.digest == Some(other.digest) {
            via = via.with(Via::EXACT);
        }
        if let Some((hamming, theirs)) = self.hamming.zip(other.fingerprint())
            && hamming.contains(theirs)
        {
            via = via.with(Via::channel(hamming.within.position));
        }
        for key in self.signed.iter().flat_map(|signed| &signed.keys) {
            if other.keys.contains(key) {
                via = via.with(Via::channel(key.channel));
            }
        }
        (via != Via::default()).then_some(via)
    }
}

impl ModelCollection {
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

    /// Removes the record `id` and all decisions about it. Returns true if the record existed.
    fn remove(&mut self, id: &RecordId) -> bool {
        let Some(at) = self.position(id) else { return false };
        self.take_out(at);
        self.log(id.clone(), LoggedKind::Removed);
        self.decisions.retain(|pair, _| pair.other(id).is_none());
        true
    }

    fn record(&self, id: &RecordId) -> Option<&StoredRecord> {
        self.position(id).map(|at| &self.records[at])
    }

    /// True if `condition` for removing the record `id` holds.
    fn allows(&self, id: &RecordId, condition: &RemovalCondition) -> bool {
        let about = self.decisions.iter().filter(|(pair, _)| pair.other(id).is_some());
        let about: Vec<Decision> =
            about.map(|(pair, rulings)| Decision { pair: pair.clone(), rulings: rulings.clone() }).collect();
        condition.allows(&self.state)
            && self.record(id).is_some_and(|record| record.version() == condition.version)
            && condition.kept.as_ref().is_none_or(|kept| kept.holds(self.record(&kept.id), id, &about))
    }

    /// Returns the record `id` with its data in all generations.
    fn standing(&self, id: &RecordId) -> Option<ModelEntry> {
        let at = self.position(id)?;
        let record = self.records[at].clone();
        let filed = self
            .generations
            .iter()
            .filter_map(|(id, generation)| Some((*id, generation.signed.get(&record.seq)?.digest)));
        Some(ModelEntry { at, filed: filed.collect(), record })
    }

    fn matches(&self, wanted: &LookupData<'_>, except: Option<&RecordId>, judge: &dyn CandidateJudge) -> Vec<Match> {
        let Some(live) = self.generations.get(&self.state.generation) else { return Vec::new() };
        let others = self.records.iter().filter(|record| Some(&record.id) != except);
        let filed = others.filter_map(|record| Some((record, live.signed.get(&record.seq)?)));
        let proposed =
            filed.filter_map(|(record, signed)| Some((record, signed, wanted.proposes(&record.id, signed)?)));
        let judged = proposed.filter_map(|(record, signed, via)| {
            let signatures = if judge.needs_signatures() { &signed.signatures[..] } else { &[] };
            judge.judge(&CandidateRecord {
                record,
                via,
                fingerprint: signed.fingerprint(),
                signatures,
                seq_is_immutable: false,
            })
        });
        judged.collect()
    }

    fn register(&mut self, registration: &Registration, judge: &dyn CandidateJudge) -> Result<RegisterOutcome> {
        let standby = self.state.standby_ids();
        let keep = self.state.settings.keep;
        let now = CollectionMoment { live: self.state.generation, standby: &standby, keep, decided: Seq(0) };
        match plan(registration, now, self.standing(&registration.id))? {
            RegistrationPlan::Unchanged(standing) => Ok(RegisterOutcome::Unchanged(standing.record)),
            RegistrationPlan::Update(standing, missing) => {
                Ok(RegisterOutcome::Updated(self.update(registration, standing, &missing)))
            }
            RegistrationPlan::Create => Ok(self.store(registration, None, judge)),
            RegistrationPlan::Replace(standing) => Ok(self.store(registration, Some(standing.at), judge)),
        }
    }

    fn update(&mut self, registration: &Registration, standing: ModelEntry, missing: &[GenerationId]) -> StoredRecord {
        let record = registration.updated(standing.record);
        for (generation, signed) in registration.others.iter().filter(|(id, _)| missing.contains(id)) {
            self.file(*generation, record.seq, signed);
        }
        self.records[standing.at] = record.clone();
        self.log(record.id.clone(), LoggedKind::Updated { seq: record.seq });
        record
    }

    fn store(
        &mut self,
        registration: &Registration,
        old: Option<usize>,
        judge: &dyn CandidateJudge,
    ) -> RegisterOutcome {
        let Registration { id, signed, others, confirmed, mode, .. } = registration;
        let wanted = LookupData {
            digest: Some(signed.digest),
            hamming: HammingRange::of(signed, self.state.settings.simhash()),
            signed: Some(signed),
            confirmed,
        };
        let matches = self.matches(&wanted, Some(id), judge);
        let (verdict, duplicate_of_seq, earlier) = match conclude(judge, *mode, matches, false) {
            RegistrationConclusion::Skip(verdict) => return RegisterOutcome::Skipped(verdict),
            RegistrationConclusion::Store { verdict, duplicate_of_seq, earlier } => {
                (verdict, duplicate_of_seq, earlier)
            }
        };
        if let Some(at) = old {
            self.take_out(at);
        }
        let record = registration.record(self.next_seq, verdict, duplicate_of_seq);
        self.next_seq = self.next_seq.next();
        self.records.push(record.clone());
        self.file(self.state.generation, record.seq, signed);
        if !earlier.is_empty() {
            self.generations.entry(self.state.generation).or_default().pairs.insert(record.seq, earlier);
        }
        for (generation, signed) in others {
            self.file(*generation, record.seq, signed);
        }
        if old.is_none() {
            return RegisterOutcome::Created(record);
        }
        self.logged.push(LoggedChange { number: record.seq, id: record.id.clone(), kind: LoggedKind::Replaced });
        RegisterOutcome::Replaced(record)
    }

    /// Logs a change under the next number.
    fn log(&mut self, id: RecordId, kind: LoggedKind) {
        self.logged.push(LoggedChange { number: self.next_seq, id, kind });
        self.next_seq = self.next_seq.next();
    }

    fn file(&mut self, generation: GenerationId, seq: Seq, signed: &Arc<Signed>) {
        self.generations.entry(generation).or_default().signed.insert(seq, Arc::clone(signed));
    }
}

impl ModelStore {
    fn with<T>(&self, name: &CollectionName, work: impl FnOnce(&mut ModelCollection) -> Result<T>) -> Result<T> {
        let mut collections = self.collections.lock();
        work(collections.get_mut(name).ok_or_else(|| StoreError::UnknownCollection(name.clone()))?)
    }
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
        let collection = ModelCollection {
            state: Arc::clone(&state),
            next_seq: Seq(1),
            records: Vec::new(),
            generations: BTreeMap::from([(GenerationId(1), ModelGeneration::default())]),
            decisions: BTreeMap::new(),
            logged: Vec::new(),
            forgotten: Seq(0),
            frequencies: BTreeMap::new(),
            values: BTreeMap::new(),
        };
        collections.insert(name, collection);
        Ok(state)
    }

    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        self.with(&spec.name, |collection| {
            let next = collection.next_generation();
            let has_records = !collection.records.is_empty();
            let (state, gone) = collection.state.with_settings(spec.clone(), next, has_records)?;
            // The generations are emptied and not removed, so that their numbers are not used again.
            let emptied = gone.into_iter().chain([state.generation]).map(|id| (id, ModelGeneration::default()));
            if state.generation == next {
                collection.generations.extend(emptied);
            }
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

    async fn register(&self, registration: Registration, judge: Arc<dyn CandidateJudge>) -> Result<RegisterOutcome> {
        let name = registration.collection.clone();
        let began = Instant::now();
        let registered = self.with(&name, |collection| collection.register(&registration, judge.as_ref()))?;
        let verified = StageSpan::since(began);
        let begins = StageSpan { began: verified.began, ended: verified.began };
        let ends = StageSpan { began: verified.ended, ended: verified.ended };
        let stages: &[_] = match registered {
            RegisterOutcome::Unchanged(_) => &[],
            RegisterOutcome::Updated(_) => &[(RegistrationStage::Wait, begins), (RegistrationStage::Commit, ends)],
            _ => &[
                (RegistrationStage::Wait, begins),
                (RegistrationStage::Propose, begins),
                (RegistrationStage::Verify, verified),
                (RegistrationStage::Commit, ends),
            ],
        };
        stages.iter().for_each(|(stage, span)| judge.took(*stage, *span));
        Ok(registered)
    }

    async fn remove(&self, name: &CollectionName, id: &RecordId) -> Result<bool> {
        self.with(name, |collection| Ok(collection.remove(id)))
    }

    async fn remove_if(&self, name: &CollectionName, id: &RecordId, condition: RemovalCondition) -> Result<bool> {
        self.with(name, |collection| Ok(collection.allows(id, &condition) && collection.remove(id)))
    }

    async fn find(&self, query: LookupQuery, judge: Arc<dyn CandidateJudge>, until: LookupEnd) -> Result<LookupResult> {
        self.with(&query.collection, |collection| {
            check_live(query.generation, collection.state.generation)?;
            let digest = query.digest;
            let hamming = query.hamming;
            let signed = query.signed.as_deref();
            let wanted = LookupData { digest, hamming, signed, confirmed: &query.confirmed };
            let began = Instant::now();
            judge.took(RegistrationStage::Propose, StageSpan { began, ended: began });
            let mut matches = collection.matches(&wanted, query.except.as_ref(), judge.as_ref());
            judge.took(RegistrationStage::Verify, StageSpan::since(began));
            if until == LookupEnd::FirstMatch {
                matches.truncate(1);
            }
            Ok(LookupResult { matches, truncated: false })
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

    async fn usage(&self) -> Result<StoreUsage> {
        let records = self.collections.lock().values().map(|collection| collection.records.len() as u64).sum();
        Ok(StoreUsage { records, ..StoreUsage::default() })
    }

    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>> {
        Err(StoreError::Unsupported("the model keeps nothing"))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
