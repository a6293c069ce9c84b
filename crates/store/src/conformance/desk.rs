//! A collection of a store with helper methods for the checks.

use std::sync::Arc;

use super::samples::{SIMHASH, SampleJudge, SampleRecord, SampleSigning};
use crate::generations::{FiledSignatures, GenerationSpec, GenerationState};
use crate::{
    CollectionSpec, CollectionState, GenerationId, LookupEnd, LookupQuery, LookupResult, RegisterOutcome, Registration,
    RegistrationMode, Result, Seq, SequencedNotifier, Store, StoreError, StoredRecord,
};
use doppel_core::collection::{CollectionName, Preset, Settings};
use doppel_core::index::{Entry, HammingRange};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Fingerprint, Match};

/// Makes a record id of a valid text.
pub fn id(text: &str) -> RecordId {
    RecordId::new(text).expect("a test's id is valid")
}

/// A collection of a store with helper methods.
#[derive(Clone)]
pub struct TestCollection {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The collection.
    pub name: CollectionName,
}

impl TestCollection {
    /// Creates the collection `name`.
    pub async fn new(store: &Arc<dyn Store>, name: &str) -> Self {
        let desk = Self::existing(store, name);
        desk.store.create_collection(desk.spec("p1")).await.expect("a new collection");
        desk
    }

    /// Uses the existing collection `name`.
    pub fn existing(store: &Arc<dyn Store>, name: &str) -> Self {
        let name: String = name.chars().take(60).collect();
        let name = CollectionName::new(&name).expect("a check's name is a valid collection name");
        Self { store: Arc::clone(store), name }
    }

    /// Returns settings with a `simhash` and a `shingle` channel.
    pub fn spec(&self, profile: &str) -> CollectionSpec {
        let settings = Settings::preset(Preset::Default);
        assert_eq!(settings.simhash(), Some(SIMHASH), "samples are made for the default preset");
        CollectionSpec {
            name: self.name.clone(),
            settings,
            profile: profile.into(),
            hash_key: None,
            now: "2026-01-01T00:00:00Z".into(),
        }
    }

    /// Makes the registration of `sample`.
    pub fn registration(&self, sample: &SampleRecord, mode: RegistrationMode) -> Registration {
        Registration {
            collection: self.name.clone(),
            generation: GenerationId(1),
            id: sample.record_id(),
            content: sample.content(),
            signed: sample.signed(),
            mode,
            write_once: false,
            now: "2026-01-02T00:00:00Z".into(),
            others: Vec::new(),
            confirmed: Vec::new(),
            refused: Vec::new(),
            decisions_as_of: None,
            sequenced: SequencedNotifier::default(),
        }
    }

    /// Registers `sample` and returns the outcome.
    pub async fn try_put(&self, sample: &SampleRecord, mode: RegistrationMode) -> Result<RegisterOutcome> {
        self.store.register(self.registration(sample, mode), SampleJudge::of(sample, false)).await
    }

    /// Registers in mode [`RegistrationMode::Put`].
    pub async fn put(&self, sample: &SampleRecord) -> RegisterOutcome {
        self.try_put(sample, RegistrationMode::Put).await.expect("a registration")
    }

    /// Registers in mode [`RegistrationMode::SkipDuplicate`].
    pub async fn put_unless_duplicate(&self, sample: &SampleRecord) -> RegisterOutcome {
        self.try_put(sample, RegistrationMode::SkipDuplicate).await.expect("a registration")
    }

    /// Makes the query that finds the matches of `sample`.
    pub fn query(&self, sample: &SampleRecord, except: Option<&str>) -> LookupQuery {
        let signed = sample.signed();
        LookupQuery {
            collection: self.name.clone(),
            generation: GenerationId(1),
            digest: Some(signed.digest),
            hamming: sample.fingerprint.map(|bits| HammingRange { centre: Fingerprint(bits), within: SIMHASH }),
            signed: Some(signed),
            except: except.map(id),
            confirmed: Vec::new(),
        }
    }

    /// Looks up `sample` and returns the whole result.
    pub async fn find_all(&self, sample: &SampleRecord, except: Option<&str>, until: LookupEnd) -> LookupResult {
        let judge = SampleJudge::of(sample, false);
        self.store.find(self.query(sample, except), judge, until).await.expect("a lookup")
    }

    /// Returns the ids of all matches of `sample`, sorted.
    pub async fn find(&self, sample: &SampleRecord) -> Vec<String> {
        let found = self.find_all(sample, None, LookupEnd::Exhausted).await;
        let mut ids: Vec<String> = found.matches.iter().map(|found| found.id.to_string()).collect();
        ids.sort();
        ids
    }

    /// Returns the record `id`.
    pub async fn get(&self, text: &str) -> Option<StoredRecord> {
        self.store.record(&self.name, &id(text)).await.expect("a look at a record")
    }

    /// Removes the record `id`.
    pub async fn remove(&self, text: &str) -> bool {
        self.store.remove(&self.name, &id(text)).await.expect("a removal")
    }

    /// Returns all records in seq order.
    pub async fn all(&self) -> Vec<StoredRecord> {
        self.store.records(&self.name, Seq(0), usize::MAX).await.expect("a listing")
    }
}

/// The same operations for any generations of the collection.
impl TestCollection {
    /// Returns the present state of the collection.
    pub async fn state(&self) -> Arc<CollectionState> {
        self.store.collection(&self.name).await.expect("a look at a collection").expect("the collection is there")
    }

    /// Makes the registration of `sample` for the generations in `state`.
    pub fn registration_for(
        &self,
        state: &CollectionState,
        sample: &SampleRecord,
        mode: RegistrationMode,
    ) -> Registration {
        let standby = state.others.iter();
        let others = standby.map(|other| (other.id, sample.signed_as(SampleSigning::of(&other.profile)))).collect();
        let signed = sample.signed_as(SampleSigning::of(&state.profile));
        Registration { generation: state.generation, signed, others, ..self.registration(sample, mode) }
    }

    /// Registers in all generations, and signs again if the generations change. The records `confirmed` match by decision.
    ///
    /// # Errors
    /// As [`Store::collection`] and [`Store::register`], except `StaleGeneration`.
    pub async fn try_put_confirmed(
        &self,
        sample: &SampleRecord,
        mode: RegistrationMode,
        confirmed: &[&str],
    ) -> Result<RegisterOutcome> {
        loop {
            let state = self.store.collection(&self.name).await?.expect("the collection is there");
            let judge = SampleJudge::within(sample, state.generation, SampleSigning::of(&state.profile));
            let confirmed = confirmed.iter().map(|text| id(text)).collect();
            let registration = Registration { confirmed, ..self.registration_for(&state, sample, mode) };
            match self.store.register(registration, judge).await {
                Err(StoreError::StaleGeneration { .. }) => {}
                outcome => return outcome,
            }
        }
    }

    /// Registers in all generations.
    pub async fn put_in_all(&self, sample: &SampleRecord) -> RegisterOutcome {
        self.try_put_confirmed(sample, RegistrationMode::Put, &[]).await.expect("a registration")
    }

    /// Looks up in the live generation, and signs again if the generation changes. The records `confirmed` match by decision, and `except` is
    /// not found. Returns all matches, sorted by id.
    pub async fn find_within(&self, sample: &SampleRecord, except: Option<&str>, confirmed: &[&str]) -> Vec<Match> {
        loop {
            let state = self.state().await;
            let signing = SampleSigning::of(&state.profile);
            let signed = sample.signed_as(signing);
            let query = LookupQuery {
                generation: state.generation,
                digest: Some(signed.digest),
                hamming: HammingRange::of(&signed, Some(SIMHASH)),
                signed: Some(signed),
                confirmed: confirmed.iter().map(|text| id(text)).collect(),
                ..self.query(sample, except)
            };
            let judge = SampleJudge::within(sample, state.generation, signing);
            match self.store.find(query, judge, LookupEnd::Exhausted).await {
                Err(StoreError::StaleGeneration { .. }) => {}
                found => {
                    let mut found = found.expect("a lookup").matches;
                    found.sort_by(|a, b| a.id.cmp(&b.id));
                    return found;
                }
            }
        }
    }

    /// Returns the ids of all matches of `sample` in the live generation, with the channels by which they match. The records `confirmed` match
    /// by decision.
    pub async fn find_confirmed(&self, sample: &SampleRecord, confirmed: &[&str]) -> Vec<(String, Vec<String>)> {
        let found = self.find_within(sample, None, confirmed).await;
        found.into_iter().map(|found| (found.id.to_string(), found.via)).collect()
    }

    /// Returns the ids of all matches of `sample` in the live generation, sorted.
    pub async fn find_live(&self, sample: &SampleRecord) -> Vec<String> {
        self.find_confirmed(sample, &[]).await.into_iter().map(|(found, _)| found).collect()
    }

    /// Makes the specification of a generation for [`begin_generation`](crate::GenerationStore::begin_generation).
    pub fn generation_spec(&self, profile: &str) -> GenerationSpec {
        let CollectionSpec { name, mut settings, profile, hash_key: _, now } = self.spec(profile);
        // The settings must differ from the settings of the first generation.
        settings.verify = None;
        GenerationSpec { collection: name, settings, based_on: None, profile, statistics: Vec::new(), now }
    }

    /// Announces a generation.
    pub async fn begin(&self, profile: &str) -> GenerationState {
        self.store.begin_generation(self.generation_spec(profile)).await.expect("an announcement")
    }

    /// Files all records below the generation's [`GenerationState::scan_end`] in small batches, and returns the number of records that were
    /// not filed before.
    pub async fn file_rest(&self, generation: &GenerationState) -> u64 {
        let signing = SampleSigning::of(&generation.profile);
        let mut after = Seq(0);
        let mut filed = 0;
        loop {
            let records = self.store.records(&self.name, after, 7).await.expect("a page");
            let records: Vec<_> = records.into_iter().filter(|record| record.seq < generation.scan_end).collect();
            let Some(last) = records.last() else { return filed };
            after = last.seq;
            let mut batch = Vec::with_capacity(records.len());
            for record in &records {
                let signed = SampleRecord::of_record(record).signed_as(signing);
                batch.push(FiledSignatures { id: record.id.clone(), seq: record.seq, signed });
            }
            filed += self.store.file(&self.name, generation.id, batch).await.expect("a filing");
        }
    }

    /// Builds a standby generation.
    pub async fn build(&self, profile: &str) -> GenerationId {
        let generation = self.begin(profile).await;
        self.file_rest(&generation).await;
        self.store.complete_generation(&self.name, generation.id).await.expect("a completion");
        generation.id
    }

    /// Makes a generation the live generation.
    pub async fn activate(&self, generation: GenerationId) -> Arc<CollectionState> {
        self.store.activate_generation(&self.name, generation).await.expect("an activation")
    }

    /// Returns all entries of a generation, read in small pages.
    pub async fn filed(&self, generation: GenerationId) -> Vec<Entry> {
        let mut after: Seq = Seq(0);
        let mut all: Vec<Entry> = Vec::new();
        loop {
            let mut page = self.store.filed(&self.name, generation, after, 5).await.expect("a page");
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 5 && page.is_sorted_by(|a, b| a.seq < b.seq) && page[0].seq > after);
            after = last.seq;
            page.iter_mut().for_each(|filed| filed.keys.sort());
            all.append(&mut page);
        }
        all
    }

    /// Returns the entries that a complete generation of this profile must have: one for every record.
    pub async fn should_be_filed(&self, profile: &str) -> Vec<Entry> {
        let signing = SampleSigning::of(profile);
        let mut entries = Vec::new();
        for record in self.all().await {
            let signed = SampleRecord::of_record(&record).signed_as(signing);
            let mut entry = Entry::of(record.seq, &signed);
            entry.keys.sort();
            entries.push(entry);
        }
        entries
    }
}

/// Returns the record that was stored with this outcome.
pub fn stored(outcome: RegisterOutcome) -> StoredRecord {
    match outcome {
        RegisterOutcome::Created(record) | RegisterOutcome::Replaced(record) => record,
        other => panic!("nothing was stored: {other:?}"),
    }
}
