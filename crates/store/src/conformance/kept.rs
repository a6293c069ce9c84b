//! Checks of collections that keep no text.

use std::sync::Arc;

use super::{SampleRecord, TestCollection, id, stored};
use crate::changes::ChangeKind;
use crate::content::{ContentHashes, HashKey, RecordContent};
use crate::generations::GenerationSpec;
use crate::{
    CandidateJudge, CandidateRecord, CollectionSpec, GenerationId, LookupEnd, RegisterOutcome, Registration,
    RegistrationMode, Seq, Store, StoreError, StoredRecord,
};
use doppel_core::collection::{Preset, Retention, Settings};
use doppel_core::index::Via;
use doppel_core::schemes::Signature;
use doppel_core::text::Document;
use doppel_core::verdict::{Match, VIA_EXACT, Verdict, VerdictInputs, VerdictKind};

type SharedStore = Arc<dyn Store>;

const KEY: [u8; 32] = [9; 32];

/// Judges by the digest and by the signatures of the second channel, without text.
struct KeptJudge(SampleRecord);

impl CandidateJudge for KeptJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        assert!(candidate.record.content.row().is_none(), "no text is kept");
        let ours = self.0.signed();
        let mut via = Vec::new();
        if candidate.via.contains(Via::EXACT) && candidate.record.digest == ours.digest {
            via.push(VIA_EXACT.to_owned());
        }
        if let (Some(Some(Signature::Hashes(ours))), Some(Some(Signature::Hashes(theirs)))) =
            (ours.signatures.get(1), candidate.signatures.get(1))
            && ours.iter().filter(|hash| theirs.contains(hash)).count() >= super::SHARED_KEYS
        {
            via.push("shingle".to_owned());
        }
        let found = Match::unmeasured(candidate.record.id.clone(), candidate.record.seq);
        (!via.is_empty()).then_some(Match { via, ..found })
    }

    fn needs_signatures(&self) -> bool {
        true
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let generation = GenerationId(1);
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: self.0.signed().fingerprint(),
                generation,
                statistics: 0,
                truncated,
            },
        )
    }
}

fn hashes(sample: &SampleRecord) -> ContentHashes {
    let document = Document { identity: Some(sample.id.clone()), ..Document::default() };
    ContentHashes { time: Some("2026-01-01T00:00:00Z".into()), ..HashKey::new(KEY).hashes(&sample.row(), &document) }
}

fn spec(desk: &TestCollection) -> CollectionSpec {
    let settings = Settings::preset(Preset::Signatures);
    CollectionSpec { settings, hash_key: Some(HashKey::new(KEY)), ..desk.spec("p1") }
}

async fn made(store: &SharedStore, name: &str) -> TestCollection {
    let desk = TestCollection::existing(store, name);
    store.create_collection(spec(&desk)).await.expect("a new collection");
    desk
}

fn registration(desk: &TestCollection, sample: &SampleRecord) -> Registration {
    let content = RecordContent::Hashes(Box::new(hashes(sample)));
    Registration { content, ..desk.registration(sample, RegistrationMode::Put) }
}

async fn put(desk: &TestCollection, sample: &SampleRecord) -> RegisterOutcome {
    let judge = Arc::new(KeptJudge(sample.clone()));
    desk.store.register(registration(desk, sample), judge).await.expect("a registration")
}

fn shown(record: &StoredRecord) -> (Seq, Option<ContentHashes>, String) {
    (record.seq, record.content.hashes().cloned(), format!("{:?} {:?}", record.digest, record.verdict))
}

pub(super) async fn what_stays_of_a_record_without_text_comes_back_as_it_went_in(store: SharedStore) {
    let desk = made(&store, "what_stays_comes_back").await;
    let bare = ContentHashes { identity: Vec::new(), time: None, ..hashes(&SampleRecord::with_keys("b", [7])) };
    let a = SampleRecord::with_keys("a", [1, 2, 3]);
    let b = SampleRecord::with_keys("b", [7]);
    let first = stored(put(&desk, &a).await);
    let content = RecordContent::Hashes(Box::new(bare.clone()));
    let second = Registration { content, ..registration(&desk, &b) };
    let second = stored(store.register(second, Arc::new(KeptJudge(b))).await.expect("a registration"));
    assert_eq!((first.content.hashes(), second.content.hashes()), (Some(&hashes(&a)), Some(&bare)));
    let expected = [shown(&first), shown(&second)];
    let records = store.records(&desk.name, Seq(0), 10).await.expect("a page");
    assert_eq!(records.iter().map(shown).collect::<Vec<_>>(), expected);
    let records = store.records_at(&desk.name, &[first.seq, second.seq]).await.expect("records");
    assert_eq!(records.iter().map(shown).collect::<Vec<_>>(), expected);
    let read = [desk.get("a").await.expect("it is there"), desk.get("b").await.expect("it is there")];
    assert_eq!(read.each_ref().map(shown), expected);
    let changes = store.changes(&desk.name, Seq(0), 10).await.expect("changes").changes;
    let records = changes.into_iter().map(|change| match change.kind {
        ChangeKind::Created(record) => record,
        other => panic!("{other:?}"),
    });
    assert_eq!(records.map(|record| shown(&record)).collect::<Vec<_>>(), expected);
    assert_eq!(desk.state().await.hash_key, Some(HashKey::new(KEY)));
    let mut settings = spec(&desk).settings;
    settings.retention = Some(Retention { days: 30 });
    let other_key = Some(HashKey::new([1; 32]));
    let updated = store.update_collection(CollectionSpec { settings, hash_key: other_key, ..spec(&desk) }).await;
    assert_eq!(updated.expect("an update").hash_key, Some(HashKey::new(KEY)), "a collection's key is its own");
}

pub(super) async fn records_without_text_are_told_apart_by_their_hashes(store: SharedStore) {
    let desk = made(&store, "told_apart_by_hashes").await;
    let sample = SampleRecord::with_keys("a", [1, 2, 3]);
    let first = stored(put(&desk, &sample).await);
    assert!(matches!(put(&desk, &sample).await, RegisterOutcome::Unchanged(record) if record.seq == first.seq));
    let noted = sample.clone().noted("another column");
    let RegisterOutcome::Updated(updated) = put(&desk, &noted).await else { panic!("the text is the same") };
    assert_eq!((updated.seq, updated.content.hashes()), (first.seq, Some(&hashes(&noted))));
    assert_eq!(shown(&desk.get("a").await.expect("it is there")), shown(&updated));
    let near = SampleRecord::with_keys("b", [2, 3, 4]);
    let RegisterOutcome::Created(near) = put(&desk, &near).await else { panic!("a new record") };
    assert_eq!(near.verdict.duplicate_of, Some(id("a")), "found by signatures");
    let same = stored(put(&desk, &SampleRecord::with_keys("c", [1, 2, 3])).await);
    assert!(same.verdict.kind == VerdictKind::ExactDuplicate, "found by its digest");
    let other = SampleRecord::with_keys("a", [8, 9]);
    let RegisterOutcome::Replaced(replaced) = put(&desk, &other).await else { panic!("another text") };
    assert_eq!(replaced.content.hashes(), Some(&hashes(&other)));
    let judge = Arc::new(KeptJudge(sample.clone()));
    let found = store.find(desk.query(&sample, None), judge, LookupEnd::Exhausted).await.expect("a lookup").matches;
    let mut found: Vec<_> = found.iter().map(|found| found.id.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["b", "c"]);
    assert!(store.remove(&desk.name, &id("c")).await.expect("a removal"));
    assert!(desk.get("c").await.is_none());
}

pub(super) async fn what_a_collection_keeps_is_decided_when_it_is_made(store: SharedStore) {
    let bare = made(&store, "keeps_no_text").await;
    let whole = TestCollection::new(&store, "keeps_text").await;
    let sample = SampleRecord::with_keys("a", [1, 2, 3]);
    for given in [bare.registration(&sample, RegistrationMode::Put), registration(&whole, &sample)] {
        let refused = store.register(given, Arc::new(KeptJudge(sample.clone()))).await;
        assert!(matches!(refused, Err(StoreError::StaleGeneration { .. })), "{refused:?}");
    }
    assert!(bare.get("a").await.is_none() && whole.get("a").await.is_none());
    for (desk, other) in [(&bare, whole.spec("p1")), (&whole, spec(&whole))] {
        let before = desk.state().await;
        let other = CollectionSpec { name: desk.name.clone(), ..other };
        let refused = store.update_collection(other.clone()).await.map(drop);
        assert!(matches!(refused, Err(StoreError::KeepConflict { .. })), "without a record, too: {refused:?}");
        let CollectionSpec { name: collection, settings, profile, now, .. } = other;
        let generation = GenerationSpec { collection, settings, based_on: None, profile, statistics: Vec::new(), now };
        let refused = store.begin_generation(generation).await.map(drop);
        assert!(matches!(refused, Err(StoreError::KeepConflict { .. })), "{refused:?}");
        assert_eq!(desk.state().await, before);
    }
}
