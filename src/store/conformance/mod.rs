//! One suite for every store: what [`super`] promises, as checks that any implementation must pass.
//!
//! A check is an async function over an open, empty store; [`ALL`] lists them. They panic when a promise is broken. They
//! work on made-up signatures ([`Sample`]), so a failure here is the store's and nobody else's. Collections they create
//! carry the check's name, so that several checks may share one store.

mod basics;
mod races;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::collection::{CollectionName, Preset, Settings};
use crate::index::Via;
use crate::record::{RecordId, Row};
use crate::schemes::Signature;
use crate::schemes::profile::{Digest, PostingKey, Signed};
use crate::store::{
    Candidate, CollectionSpec, Found, Judge, Mode, Query, Registered, Registration, Result, Store, StoredRecord, Until,
};
use crate::verdict::{Facts, Fingerprint, Match, VIA_EXACT, Verdict};

/// A check.
pub type Check = fn(Arc<dyn Store>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! checks {
    ($($module:ident::$name:ident),* $(,)?) => {
        /// All checks, by name.
        pub const ALL: &[(&str, Check)] = &[$((stringify!($name), |store| Box::pin($module::$name(store)))),*];
    };
}

checks! {
    basics::a_record_comes_back_as_it_went_in,
    basics::the_same_content_again_changes_nothing,
    basics::other_fields_are_updated_in_place,
    basics::another_text_replaces_and_never_matches_itself,
    basics::a_removed_record_is_gone_from_every_lookup,
    basics::skip_stores_nothing_when_there_is_a_duplicate,
    basics::a_skipped_replacement_leaves_the_old_record,
    basics::duplicate_of_is_the_earliest_match,
    basics::a_lookup_leaves_out_the_record_asked_about,
    basics::pages_follow_seq_order_without_gaps_or_repeats,
    basics::collections_do_not_see_each_other,
    basics::a_dropped_collection_can_be_made_again_empty,
    basics::a_new_profile_needs_an_empty_collection,
    basics::another_generation_is_refused,
    basics::unknown_collections_are_refused,
    basics::signatures_are_handed_to_judges_that_ask,
    races::of_a_family_exactly_one_is_original,
    races::cyclic_triples_name_only_earlier_records,
    races::skippers_of_a_family_leave_exactly_one,
    races::the_same_id_from_many_callers_is_stored_once,
    races::removal_and_registration_leave_no_trace_of_the_removed,
    races::replacements_beside_lookups_are_always_found,
    races::a_caller_that_gives_up_leaves_a_whole_record_or_none,
}

/// Keys that two samples must share to match: one shared key proposes, the judge wants more.
pub const SHARED_KEYS: usize = 2;
/// Radius of the samples' `simhash` channel.
pub const RADIUS: u8 = 3;

/// A made-up record: its "text" is a few keys and a fingerprint.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its id.
    pub id: String,
    /// Its posting keys.
    pub keys: Vec<u64>,
    /// Its fingerprint.
    pub fingerprint: Option<u64>,
    /// Content outside the digest.
    pub note: String,
}

impl Sample {
    /// A sample with posting keys only.
    pub fn with_keys(id: impl Into<String>, keys: impl Into<Vec<u64>>) -> Self {
        Self { id: id.into(), keys: keys.into(), fingerprint: None, note: String::new() }
    }

    /// The same with another note.
    #[must_use]
    pub fn noted(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    fn record_id(&self) -> RecordId {
        id(&self.id)
    }

    /// Its content as JSON.
    pub fn row(&self) -> Row {
        let keys: Vec<String> = self.keys.iter().map(u64::to_string).collect();
        let fingerprint = self.fingerprint.map_or("none".into(), |bits| Fingerprint(bits).to_string());
        let json = serde_json::json!({"keys": keys.join(" "), "fingerprint": fingerprint, "note": self.note});
        Row::parse(json.to_string().as_bytes()).expect("a sample is a valid row")
    }

    /// Its signatures.
    pub fn signed(&self) -> Arc<Signed> {
        let text = format!("{:?} {:?}", self.keys, self.fingerprint);
        let fingerprint = self.fingerprint.map(|bits| Signature::Fingerprint(Fingerprint(bits)));
        let hashes = (!self.keys.is_empty()).then(|| Signature::Hashes(self.keys.clone().into()));
        Arc::new(Signed {
            digest: Digest(Sha256::digest(text).into()),
            features: self.keys.len() as u32,
            too_short: false,
            signatures: vec![fingerprint, hashes],
            keys: self.keys.iter().map(|key| PostingKey { channel: 1, key: *key }).collect(),
        })
    }

    /// Whether the two match, by their contents alone.
    pub fn matches(&self, other: &Self) -> bool {
        let near = self.fingerprint.zip(other.fingerprint).is_some_and(|(a, b)| (a ^ b).count_ones() <= RADIUS.into());
        let shared = self.keys.iter().filter(|key| other.keys.contains(key)).count();
        (self.keys == other.keys && self.fingerprint == other.fingerprint) || near || shared >= SHARED_KEYS
    }
}

/// Judges samples by their rows.
#[derive(Debug)]
pub struct SampleJudge {
    digest: Digest,
    keys: Vec<u64>,
    fingerprint: Option<Fingerprint>,
    /// Whether to judge keys by signatures, not by rows.
    by_signature: bool,
}

impl SampleJudge {
    /// The judge of `sample`.
    pub fn of(sample: &Sample, by_signature: bool) -> Arc<dyn Judge> {
        let fingerprint = sample.fingerprint.map(Fingerprint);
        Arc::new(Self { digest: sample.signed().digest, keys: sample.keys.clone(), fingerprint, by_signature })
    }

    fn shares(&self, candidate: &Candidate<'_>) -> usize {
        let theirs = if self.by_signature {
            match candidate.signatures.get(1) {
                Some(Some(Signature::Hashes(hashes))) => hashes.to_vec(),
                _ => Vec::new(),
            }
        } else {
            let row: serde_json::Value = serde_json::from_str(&candidate.record.row).expect("a stored row is JSON");
            let keys = row["keys"].as_str().unwrap_or_default();
            keys.split_whitespace().filter_map(|key| key.parse().ok()).collect()
        };
        self.keys.iter().filter(|key| theirs.contains(key)).count()
    }
}

impl Judge for SampleJudge {
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match> {
        let distance = self.fingerprint.zip(candidate.fingerprint).map(|(mine, theirs)| mine.distance(theirs));
        let mut via = Vec::new();
        if candidate.via.contains(Via::EXACT) && candidate.record.digest == self.digest {
            via.push(VIA_EXACT.to_owned());
        }
        if distance.is_some_and(|distance| distance <= RADIUS) {
            via.push("simhash".to_owned());
        }
        if self.shares(candidate) >= SHARED_KEYS {
            via.push("shingle".to_owned());
        }
        (!via.is_empty()).then(|| Match {
            id: candidate.record.id.clone(),
            seq: candidate.record.seq,
            via,
            distance,
            jaccard: None,
            containment: None,
            similarity: None,
            relation: None,
            time: None,
        })
    }

    fn needs_signatures(&self) -> bool {
        self.by_signature
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let facts = Facts { too_short: false, fingerprint: self.fingerprint, generation: 1, truncated };
        Verdict::conclude(matches, facts)
    }
}

/// A valid id.
pub fn id(text: &str) -> RecordId {
    RecordId::new(text).expect("a test's id is valid")
}

/// One collection of a store, with shorthands.
#[derive(Clone)]
pub struct Desk {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The collection.
    pub name: CollectionName,
}

impl Desk {
    /// Creates the collection `name`.
    pub async fn new(store: &Arc<dyn Store>, name: &str) -> Self {
        let desk = Self::existing(store, name);
        desk.store.create_collection(desk.spec("p1")).await.expect("a new collection");
        desk
    }

    /// The collection `name`, which exists.
    pub fn existing(store: &Arc<dyn Store>, name: &str) -> Self {
        let name: String = name.chars().take(60).collect();
        let name = CollectionName::new(&name).expect("a check's name is a valid collection name");
        Self { store: Arc::clone(store), name }
    }

    /// Settings with a `simhash` and a `shingle` channel.
    pub fn spec(&self, profile: &str) -> CollectionSpec {
        let settings = Settings::preset(Preset::Default);
        assert_eq!(settings.simhash_radius(), Some(RADIUS), "samples are made for the default preset");
        CollectionSpec {
            name: self.name.clone(),
            settings,
            profile: profile.into(),
            now: "2026-01-01T00:00:00Z".into(),
        }
    }

    /// What [`Store::register`] is given for `sample`.
    pub fn registration(&self, sample: &Sample, mode: Mode) -> Registration {
        Registration {
            collection: self.name.clone(),
            generation: 1,
            id: sample.record_id(),
            row: sample.row(),
            signed: sample.signed(),
            mode,
            now: "2026-01-02T00:00:00Z".into(),
            others: Vec::new(),
            confirmed: Vec::new(),
            placed: crate::store::Placed::default(),
        }
    }

    /// Registers, and hands over the outcome.
    pub async fn try_put(&self, sample: &Sample, mode: Mode) -> Result<Registered> {
        self.store.register(self.registration(sample, mode), SampleJudge::of(sample, false)).await
    }

    /// Registers in mode [`Mode::Put`].
    pub async fn put(&self, sample: &Sample) -> Registered {
        self.try_put(sample, Mode::Put).await.expect("a registration")
    }

    /// Registers in mode [`Mode::SkipDuplicate`].
    pub async fn put_unless_duplicate(&self, sample: &Sample) -> Registered {
        self.try_put(sample, Mode::SkipDuplicate).await.expect("a registration")
    }

    /// The query that finds what matches `sample`.
    pub fn query(&self, sample: &Sample, except: Option<&str>) -> Query {
        let signed = sample.signed();
        Query {
            collection: self.name.clone(),
            generation: 1,
            digest: Some(signed.digest),
            fingerprint: sample.fingerprint.map(|bits| (Fingerprint(bits), RADIUS, 0)),
            signed: Some(signed),
            except: except.map(id),
            confirmed: Vec::new(),
        }
    }

    /// Looks up, and hands over everything.
    pub async fn find_all(&self, sample: &Sample, except: Option<&str>, until: Until) -> Found {
        let judge = SampleJudge::of(sample, false);
        self.store.find(self.query(sample, except), judge, until).await.expect("a lookup")
    }

    /// The ids of all that match `sample`, sorted.
    pub async fn find(&self, sample: &Sample) -> Vec<String> {
        let found = self.find_all(sample, None, Until::Exhausted).await;
        let mut ids: Vec<String> = found.matches.iter().map(|found| found.id.to_string()).collect();
        ids.sort();
        ids
    }

    /// The record `id`.
    pub async fn get(&self, text: &str) -> Option<StoredRecord> {
        self.store.record(&self.name, &id(text)).await.expect("a look at a record")
    }

    /// Removes the record `id`.
    pub async fn remove(&self, text: &str) -> bool {
        self.store.remove(&self.name, &id(text)).await.expect("a removal")
    }

    /// All records in seq order.
    pub async fn all(&self) -> Vec<StoredRecord> {
        self.store.records(&self.name, 0, usize::MAX).await.expect("a listing")
    }
}

/// The record in an outcome that stored one.
pub fn stored(outcome: Registered) -> StoredRecord {
    match outcome {
        Registered::Created(record) | Registered::Replaced(record) => record,
        other => panic!("nothing was stored: {other:?}"),
    }
}
