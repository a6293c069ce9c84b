//! The index of one generation in memory.

use super::layout::IndexEntry;
use doppel_core::collection::{Channel, Settings, SimhashChannel};
use doppel_core::index::{GenerationIndex, IndexFull, Lookup, Proposals, Slot};
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Seq};

/// Whether signatures are stored in a standby generation, not only keys. Judges know what they need, but none is asked about
/// it: so they are kept unless it is plain that the keys are enough.
#[deny(clippy::wildcard_enum_match_arm, reason = "of every new scheme somebody decides")]
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

/// One generation's index.
pub(super) struct Generation {
    pub(super) id: GenerationId,
    pub(super) index: GenerationIndex,
    simhash: Option<SimhashChannel>,
}

impl Generation {
    pub(super) fn new(id: GenerationId, settings: &Settings, index: GenerationIndex) -> Self {
        Self { id, index, simhash: settings.simhash() }
    }

    /// What the index proposes for a record signed so.
    pub(super) fn propose(&self, signed: &Signed) -> Proposals {
        self.index.propose(&Lookup::of(signed, self.simhash))
    }

    /// Files a record; its seq is above all filed before.
    pub(super) fn insert(&self, seq: Seq, signed: &Signed) -> Result<(), IndexFull> {
        self.index.insert_signed(seq, signed).map(drop)
    }

    /// Takes a record out; no harm if it is not there.
    pub(super) fn remove(&self, seq: Seq, entry: &IndexEntry) {
        if let Some(slot) = self.slot_of(seq) {
            self.index.remove(slot, entry.digest_key, entry.fingerprint, &entry.keys);
        }
    }

    /// The slot of a record; one that no record has if the index has none of it.
    pub(super) fn slot(&self, seq: Seq) -> Slot {
        self.slot_of(seq).unwrap_or(Slot(u32::MAX))
    }

    /// Slots are given out in seq order, so the slot of a seq is found by bisection: 32 looks at the slot table.
    fn slot_of(&self, seq: Seq) -> Option<Slot> {
        let (mut low, mut high) = (0, u32::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.index.seq(Slot(middle)).is_some_and(|found| found < seq) { low = middle + 1 } else { high = middle }
        }
        (self.index.seq(Slot(low)) == Some(seq)).then_some(Slot(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::schemes::profile::Profile;

    #[test]
    fn signatures_are_left_out_only_where_keys_or_fingerprints_decide() {
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
