//! A set of duplicates: who is in it, who of them stays, and whom a person's word protects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::{Found, Superfluous};
use crate::tasks::{Purge, Survivor};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::{Digest, Profile};
use doppel_store::decisions::RecordPair;
use doppel_store::{KeptDuplicate, RecordVersion, StoredRecord};

/// What a purge needs to know of a record.
pub(super) struct Member {
    pub(super) id: RecordId,
    version: RecordVersion,
    time: Option<Timestamp>,
    /// As the live generation reads it: what is stored may be another generation's. `None` for a record without content,
    /// which is equal to no other.
    digest: Option<Digest>,
}

impl Member {
    /// Reads a record as `profile` does. O(length).
    pub(super) fn read(profile: &Profile, record: StoredRecord) -> Self {
        let version = record.version();
        if let Some(hashes) = record.content.hashes() {
            // Signed by the only generation that such a collection has ever had.
            let time = hashes.time.as_deref().and_then(|time| time.parse().ok());
            return Self { id: record.id, version, time, digest: Some(record.digest) };
        }
        let document = record.content.read().and_then(|row| profile.read(&row).ok());
        let digest = document.as_ref().filter(|document| !document.is_empty());
        let digest = digest.map(|document| profile.exact_digest(document));
        Self { id: record.id, version, time: document.and_then(|document| document.time), digest }
    }
}

/// Sets of at least two members whose contents are equal.
pub(super) fn by_digest(members: Vec<Member>) -> Vec<Vec<Member>> {
    let mut sets: BTreeMap<[u8; 32], Vec<Member>> = BTreeMap::new();
    for member in members {
        let Some(Digest(digest)) = member.digest else { continue };
        sets.entry(digest).or_default().push(member);
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

/// The pairs that a person rejected, from both ends.
#[derive(Default)]
pub(super) struct Rejected(HashMap<RecordId, Vec<RecordId>>);

impl Rejected {
    pub(super) fn add(&mut self, pair: &RecordPair) {
        for (one, other) in [(pair.a(), pair.b()), (pair.b(), pair.a())] {
            self.0.entry(one.clone()).or_default().push(other.clone());
        }
    }

    /// Whether the record is another matter than one of `set`, which ascends.
    fn within(&self, id: &RecordId, set: &[RecordId]) -> bool {
        self.0.get(id).is_some_and(|others| others.iter().any(|other| set.binary_search(other).is_ok()))
    }
}

impl Found {
    /// All of a set but the survivor and those that a person said are another matter than any other of the set.
    /// Nothing where no member's time is in the window: its records ask, the whole collection answers.
    pub(super) fn add(&mut self, members: Vec<Member>, request: &Purge, rejected: &Rejected) {
        if !members.iter().any(|member| request.window.holds(member.time)) {
            return;
        }
        // Equal times: the later registered stays. No time is older than any.
        let survivor = match request.keep {
            Survivor::Latest => members.iter().max_by_key(|member| (member.time, member.version.seq)),
            Survivor::Earliest => members.iter().min_by_key(|member| (member.time, Reverse(member.version.seq))),
            Survivor::First => members.iter().min_by_key(|member| member.version.seq),
        };
        let Some((id, version)) = survivor.map(|member| (member.id.clone(), member.version)) else { return };
        let mut set: Vec<RecordId> = members.iter().map(|member| member.id.clone()).collect();
        set.sort_unstable();
        let kept = KeptDuplicate { id, version, set: set.into() };
        self.groups += 1;
        for Member { id, version, .. } in members.into_iter().filter(|member| member.id != kept.id) {
            if rejected.within(&id, &kept.set) {
                self.rejected += 1;
            } else {
                self.delete.push(Superfluous { id, version, kept: kept.clone() });
            }
        }
    }
}
