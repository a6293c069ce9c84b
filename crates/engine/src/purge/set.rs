//! A set of duplicates: its members, the record that stays, and the records that a decision protects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::{PurgeFindings, SuperfluousRecord};
use crate::tasks::{Purge, Survivor};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::{Digest, Profile};
use doppel_store::decisions::RecordPair;
use doppel_store::{KeptDuplicate, RecordVersion, StoredRecord};

/// The data about a record that a purge needs.
pub(super) struct SetMember {
    pub(super) id: RecordId,
    version: RecordVersion,
    time: Option<Timestamp>,
    /// The digest in the live generation; the stored digest may belong to another generation. `None` for a record without content, which
    /// equals no other record.
    digest: Option<Digest>,
}

impl SetMember {
    /// Reads a record with `profile`. O(length).
    pub(super) fn read(profile: &Profile, record: StoredRecord) -> Self {
        let version = record.version();
        if let Some(hashes) = record.content.hashes() {
            // The collection keeps no text, so that it has only one generation, which made the stored digest.
            let time = hashes.time.as_deref().and_then(|time| time.parse().ok());
            return Self { id: record.id, version, time, digest: Some(record.digest) };
        }
        let document = record.content.read().and_then(|row| profile.read(&row).ok());
        let digest = document.as_ref().filter(|document| !document.is_empty());
        let digest = digest.map(|document| profile.exact_digest(document));
        Self { id: record.id, version, time: document.and_then(|document| document.time), digest }
    }
}

/// Returns the sets of at least two members with equal contents.
pub(super) fn by_digest(members: Vec<SetMember>) -> Vec<Vec<SetMember>> {
    let mut sets: BTreeMap<[u8; 32], Vec<SetMember>> = BTreeMap::new();
    for member in members {
        let Some(Digest(digest)) = member.digest else { continue };
        sets.entry(digest).or_default().push(member);
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

/// The pairs that a person rejected, by both records.
#[derive(Default)]
pub(super) struct RejectedPairs(HashMap<RecordId, Vec<RecordId>>);

impl RejectedPairs {
    pub(super) fn add(&mut self, pair: &RecordPair) {
        for (one, other) in [(pair.a(), pair.b()), (pair.b(), pair.a())] {
            self.0.entry(one.clone()).or_default().push(other.clone());
        }
    }

    /// True if a person decided that the record is another matter than a record of `set`, which ascends.
    fn within(&self, id: &RecordId, set: &[RecordId]) -> bool {
        self.0.get(id).is_some_and(|others| others.iter().any(|other| set.binary_search(other).is_ok()))
    }
}

impl PurgeFindings {
    /// Adds the superfluous records of a set: all records except the survivor and the records that a person decided are another matter than
    /// another record of the set. Adds nothing if no member's time is in the window: the window selects sets, not single records.
    pub(super) fn add(&mut self, members: Vec<SetMember>, request: &Purge, rejected: &RejectedPairs) {
        if !members.iter().any(|member| request.window.holds(member.time)) {
            return;
        }
        // If times are equal, the record that was registered later stays. A missing time counts as the oldest.
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
        for SetMember { id, version, .. } in members.into_iter().filter(|member| member.id != kept.id) {
            if rejected.within(&id, &kept.set) {
                self.rejected += 1;
            } else {
                self.delete.push(SuperfluousRecord { id, version, kept: kept.clone() });
            }
        }
    }
}
