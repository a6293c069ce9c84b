//! Invented records, their signatures, and the rule by which they match.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::id;
use crate::content::RecordContent;
use crate::{CandidateJudge, CandidateRecord, GenerationId, StoredRecord};
use doppel_core::collection::{ChannelPosition, SimhashChannel};
use doppel_core::index::Via;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Digest, PostingKey, Signed};
use doppel_core::verdict::{Fingerprint, Match, VIA_EXACT, Verdict, VerdictInputs};

/// Number of keys that two samples must share to match. One shared key makes a candidate; the judge requires more.
pub const SHARED_KEYS: usize = 2;
/// Radius of the samples' `simhash` channel.
pub const RADIUS: u8 = 3;
/// The `simhash` channel that samples are made for.
pub const SIMHASH: SimhashChannel = SimhashChannel::first(RADIUS);
/// [`Match::via`] of a candidate that a decision proposed.
const VIA_DECISION: &str = "decision";
/// Mixed into the keys and fingerprints of [`SampleSigning::Noted`], so that they differ from the keys and fingerprints of
/// [`SampleSigning::Plain`].
const APART: u64 = 0x5a5a_0000_0000_0000;

/// An invented record. Its "text" consists of a few keys and a fingerprint.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRecord {
    /// Its id.
    pub id: String,
    /// The posting keys of the sample.
    pub keys: Vec<u64>,
    /// The fingerprint of the sample.
    pub fingerprint: Option<u64>,
    /// Content outside the digest.
    pub note: String,
}

/// The way in which samples are signed. There are two ways, so that generations differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSigning {
    /// All keys are used, and the digest does not contain the note.
    Plain,
    /// Only odd keys are used, and the digest contains the note. No key and no digest equals a key or digest of [`SampleSigning::Plain`].
    Noted,
}

impl SampleSigning {
    /// Returns the way of signing of a profile: `noted` means [`SampleSigning::Noted`], any other name means [`SampleSigning::Plain`].
    pub fn of(profile: &str) -> Self {
        if profile == "noted" { Self::Noted } else { Self::Plain }
    }

    fn takes(self, key: u64) -> bool {
        self == Self::Plain || key % 2 == 1
    }
}

impl SampleRecord {
    /// Makes a sample with posting keys only.
    pub fn with_keys(id: impl Into<String>, keys: impl Into<Vec<u64>>) -> Self {
        Self { id: id.into(), keys: keys.into(), fingerprint: None, note: String::new() }
    }

    /// Parses the sample that a stored record contains.
    pub fn of_record(record: &StoredRecord) -> Self {
        let row = record.content.row().expect("these samples are kept with their rows");
        let row: serde_json::Value = serde_json::from_str(row).expect("a stored row is JSON");
        let keys = row["keys"].as_str().unwrap_or_default().split_whitespace();
        Self {
            id: record.id.to_string(),
            keys: keys.filter_map(|key| key.parse().ok()).collect(),
            fingerprint: row["fingerprint"].as_str().and_then(|text| u64::from_str_radix(text, 16).ok()),
            note: row["note"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Returns the same sample with another note.
    #[must_use]
    pub fn noted(mut self, note: &str) -> Self {
        note.clone_into(&mut self.note);
        self
    }

    pub(super) fn record_id(&self) -> RecordId {
        id(&self.id)
    }

    /// Returns the content as JSON.
    pub fn row(&self) -> Row {
        let keys: Vec<String> = self.keys.iter().map(u64::to_string).collect();
        let fingerprint = self.fingerprint.map_or("none".into(), |bits| Fingerprint(bits).to_string());
        let json = serde_json::json!({"keys": keys.join(" "), "fingerprint": fingerprint, "note": self.note});
        Row::parse(json.to_string().as_bytes()).expect("a sample is a valid row")
    }

    /// Returns the content in its stored form.
    pub fn content(&self) -> RecordContent {
        RecordContent::from(&self.row())
    }

    /// Returns the signatures of [`SampleSigning::Plain`].
    pub fn signed(&self) -> Arc<Signed> {
        self.signed_as(SampleSigning::Plain)
    }

    /// Returns the signatures, made in this way.
    pub fn signed_as(&self, signing: SampleSigning) -> Arc<Signed> {
        let (apart, note) = match signing {
            SampleSigning::Plain => (0, String::new()),
            SampleSigning::Noted => (APART, format!(" noted {}", self.note)),
        };
        let text = format!("{:?} {:?}{note}", self.keys, self.fingerprint);
        let keys: Vec<u64> = self.keys.iter().filter(|key| signing.takes(**key)).map(|key| key ^ apart).collect();
        let fingerprint = self.fingerprint.map(|bits| Signature::Fingerprint(Fingerprint(bits ^ apart)));
        // The hashes of a signature ascend without repetition.
        let distinct = keys.iter().copied().collect::<BTreeSet<u64>>();
        let hashes = (!keys.is_empty()).then(|| Signature::Hashes(distinct.into_iter().collect()));
        Arc::new(Signed {
            digest: Digest(Sha256::digest(text).into()),
            features: self.keys.len() as u32,
            too_short: false,
            signatures: vec![fingerprint, hashes],
            keys: keys.into_iter().map(|key| PostingKey { channel: ChannelPosition(1), key }).collect(),
        })
    }

    /// True if the two samples match by their contents.
    pub fn matches(&self, other: &Self) -> bool {
        self.matches_as(other, SampleSigning::Plain)
    }

    /// True if the two samples match in a generation that is signed in this way.
    pub fn matches_as(&self, other: &Self, signing: SampleSigning) -> bool {
        let near = self.fingerprint.zip(other.fingerprint).is_some_and(|(a, b)| (a ^ b).count_ones() <= RADIUS.into());
        let shared = || self.keys.iter().filter(|key| other.keys.contains(key));
        let proposed = shared().any(|key| signing.takes(*key));
        let exact = self.signed_as(signing).digest == other.signed_as(signing).digest;
        exact || near || (proposed && shared().count() >= SHARED_KEYS)
    }
}

/// Judges samples by their rows.
#[derive(Debug)]
pub struct SampleJudge {
    sample: SampleRecord,
    signing: SampleSigning,
    generation: GenerationId,
    signed: Arc<Signed>,
    /// If true, the judge compares the keys of signatures instead of rows.
    by_signature: bool,
}

impl SampleJudge {
    /// Returns the judge of `sample` in a first generation.
    pub fn of(sample: &SampleRecord, by_signature: bool) -> Arc<dyn CandidateJudge> {
        let signing = SampleSigning::Plain;
        let signed = sample.signed();
        Arc::new(Self { sample: sample.clone(), signing, generation: GenerationId(1), signed, by_signature })
    }

    /// Returns the judge of `sample` in a generation.
    pub fn within(sample: &SampleRecord, generation: GenerationId, signing: SampleSigning) -> Arc<dyn CandidateJudge> {
        let signed = sample.signed_as(signing);
        Arc::new(Self { sample: sample.clone(), signing, generation, signed, by_signature: false })
    }

    fn shares(&self, candidate: &CandidateRecord<'_>, other: &SampleRecord) -> usize {
        if !self.by_signature {
            return self.sample.keys.iter().filter(|key| other.keys.contains(key)).count();
        }
        let (Some(Some(Signature::Hashes(ours))), Some(Some(Signature::Hashes(theirs)))) =
            (self.signed.signatures.get(1), candidate.signatures.get(1))
        else {
            return 0;
        };
        ours.iter().filter(|hash| theirs.contains(hash)).count()
    }
}

impl CandidateJudge for SampleJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let other = SampleRecord::of_record(candidate.record);
        // Every record that this program stores names the generation of its digest.
        assert_ne!(candidate.record.digest_generation.0, 0, "the generation of the digest is unknown");
        if candidate.record.digest_generation == self.generation {
            assert_eq!(candidate.record.digest, other.signed_as(self.signing).digest, "another generation's digest");
        }
        let ours = self.signed.fingerprint();
        let distance = ours.zip(candidate.fingerprint).map(|(mine, theirs)| mine.distance(theirs));
        let mut via = Vec::new();
        if candidate.via.contains(Via::EXACT) && is_same_text(&other, self.signing, &self.signed) {
            via.push(VIA_EXACT.to_owned());
        }
        if candidate.via.contains(Via::DECISION) {
            via.push(VIA_DECISION.to_owned());
        }
        if distance.is_some_and(|distance| distance <= RADIUS) {
            via.push("simhash".to_owned());
        }
        if self.shares(candidate, &other) >= SHARED_KEYS {
            via.push("shingle".to_owned());
        }
        let found = Match { distance, ..Match::unmeasured(candidate.record.id.clone(), candidate.record.seq) };
        (!via.is_empty()).then_some(Match { via, ..found })
    }

    fn needs_signatures(&self) -> bool {
        self.by_signature
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        let fingerprint = self.signed.fingerprint();
        let generation = self.generation;
        Verdict::conclude(
            matches,
            VerdictInputs { too_short: false, fingerprint, generation, statistics: 0, truncated },
        )
    }
}

fn is_same_text(other: &SampleRecord, signing: SampleSigning, signed: &Signed) -> bool {
    other.signed_as(signing).digest == signed.digest
}
