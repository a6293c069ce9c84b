//! The index of one generation in memory.

use super::layout::IndexEntry;
use doppel_core::collection::{Channel, Settings, SimhashChannel};
use doppel_core::index::{GenerationIndex, IndexFull, Lookup, ProposalOrder, Proposals, Slot};
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Seq};

/// True if the signatures of a standby generation are stored in addition to its keys. Only judges know whether they need signatures, and no
/// judge is available here. Signatures are therefore stored, unless the keys are certainly sufficient.
#[deny(clippy::wildcard_enum_match_arm, reason = "a new scheme needs a decision")]
pub(super) fn keeps_signatures(settings: &Settings) -> bool {
    !settings.channels.iter().all(|channel| match channel {
        Channel::Simhash(_) => true,
        Channel::Shingle(params) => params.t == 0.0,
        Channel::Md5(_)
        | Channel::MultiMd5(_)
        | Channel::SuperShingle(_)
        | Channel::Minhash(_)
        | Channel::IMatch(_)
        | Channel::Segments(_)
        | Channel::Tianwang1(_)
        | Channel::Tianwang2(_)
        | Channel::Tianwang3(_)
        | Channel::Tianwang4(_)
        | Channel::Tianwang5(_)
        | Channel::FeatureCode(_)
        | Channel::Vsm(_)
        | Channel::Boolean(_)
        | Channel::Scam(_) => false,
    })
}

pub(super) struct Generation {
    pub(super) id: GenerationId,
    pub(super) index: GenerationIndex,
    simhash: Option<SimhashChannel>,
    pub(super) order: ProposalOrder,
}

impl Generation {
    pub(super) fn new(id: GenerationId, settings: &Settings, index: GenerationIndex) -> Self {
        Self { id, index, simhash: settings.simhash(), order: ProposalOrder::of(settings) }
    }

    /// Returns the candidates that the index proposes for a record with these signatures.
    pub(super) fn propose(&self, signed: &Signed) -> Proposals {
        self.index.propose(&Lookup::of(signed, self.simhash, self.order))
    }

    /// Adds a record. Its seq is higher than the seqs of all records in the index.
    pub(super) fn insert(&self, seq: Seq, signed: &Signed) -> Result<(), IndexFull> {
        self.index.insert_signed(seq, signed).map(drop)
    }

    /// Removes a record if the index contains it.
    pub(super) fn remove(&self, seq: Seq, entry: &IndexEntry) {
        if let Some(slot) = self.slot_of(seq) {
            self.index.remove(slot, entry.digest_key, entry.fingerprint, &entry.keys);
        }
    }

    /// Returns the slot of a record, or a slot that no record has if the index does not contain it.
    pub(super) fn slot(&self, seq: Seq) -> Slot {
        self.slot_of(seq).unwrap_or(Slot(u32::MAX))
    }

    /// Slots ascend with seqs, so that bisection finds the slot of a seq with 32 reads of the slot table.
    fn slot_of(&self, seq: Seq) -> Option<Slot> {
        let mut low = 0;
        let mut high = u32::MAX;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index.seq(Slot(middle)).is_some_and(|found| found < seq) { low = middle + 1 } else { high = middle }
        }
        (self.index.seq(Slot(low)) == Some(seq)).then_some(Slot(low))
    }

    /// Returns the size of the index in bytes.
    pub(super) fn index_bytes(&self) -> u64 {
        self.index.memory_usage().total() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::schemes::profile::Profile;

    #[test]
    fn signatures_are_omitted_only_if_keys_or_fingerprints_decide() {
        for name in doppel_core::collection::SCHEMES {
            let channel: Channel = serde_json::from_str(&format!("{{\"scheme\":\"{name}\"}}")).expect("its defaults");
            let settings = Settings { channels: vec![channel], ..Settings::default() };
            let profile = Profile::compile(&settings, None);
            let scheme = &profile.schemes()[0];
            let decided = scheme.name() == "simhash" || scheme.key_implies_match();
            assert!(keeps_signatures(&settings) || decided, "{name}");
        }
    }
}
