//! Standby generations: the way to build a complete index again while the collection is in use.
//!
//! A *generation* is one complete index of a collection's records, built with one profile (every parameter that changes a signature). A
//! collection answers from one *live* generation. It may have *standby* generations of the same records: a generation that is being built
//! (a reindex), and complete generations that are kept as previous states. After [`GenerationStore::begin_generation`] has returned, every
//! registration contains signatures for all generations, and every removal removes the record from all of them. [`GenerationStore::file`]
//! adds the earlier records. A complete generation therefore stays complete and can become live at any time.
//!
//! If a registration names generations that differ from the generations of the collection, the store refuses it with
//! [`StoreError::StaleGeneration`](super::StoreError::StaleGeneration), and the engine signs the record again. No record can therefore be
//! missed between the announcement and the filing.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{CollectionState, GenerationId, Result, Seq};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::Entry;
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;

pub use super::rules::generation_life::{MAX_GENERATIONS, check_number};

/// The phase of a standby generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Phase))]
#[serde(rename_all = "snake_case")]
pub enum GenerationPhase {
    /// Records are still being filed in the generation.
    Building,
    /// The generation is complete and can become live.
    Ready,
}

/// A standby generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationState {
    /// The number of the generation.
    pub id: GenerationId,
    /// The settings with which the generation is built.
    pub settings: Settings,
    /// The digest of the profile, in hexadecimal.
    pub profile: String,
    /// The phase.
    pub phase: GenerationPhase,
    /// The time at which the generation was begun (RFC 3339, UTC).
    pub created_at: String,
    /// Every record that must be filed with [`GenerationStore::file`] has a lower seq. Registrations of later records contain the signatures.
    pub scan_end: Seq,
}

/// A generation whose pairs are part of the pairs of a collection. See [`CollectionState::pair_sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairSource {
    /// The generation.
    pub generation: GenerationId,
    /// The generation has all pairs of the records with this seq or a later one that were registered while the generation was live.
    /// Pairs of earlier records do not count.
    pub from: Seq,
}

/// A generation to begin.
#[derive(Clone, Debug)]
pub struct GenerationSpec {
    /// The collection.
    pub collection: CollectionName,
    /// The validated settings.
    pub settings: Settings,
    /// The settings on which the new settings are based: the collection must have them. `None` if the new settings do not depend on the
    /// present settings. While the generation is built, the collection accepts no other settings, so that no change is lost when the
    /// generation becomes live.
    pub based_on: Option<Settings>,
    /// The digest of the profile, in hexadecimal.
    pub profile: String,
    /// The statistics of the collection for this generation (`Statistics::encode`); empty if no channel needs them.
    pub statistics: Vec<u8>,
    /// The present time (RFC 3339, UTC).
    pub now: String,
}

/// The signatures of a stored record for a generation.
#[derive(Clone, Debug)]
pub struct FiledSignatures {
    /// The id of the record.
    pub id: RecordId,
    /// The seq of the signed content. The signatures are filed only if the record still has this seq.
    pub seq: Seq,
    /// The signatures with the profile of the generation.
    pub signed: Arc<Signed>,
}

/// The matches of a record in a generation, found by a registration or a reindex. A seq always means the same content, so that a pair with a
/// replaced or deleted record can be recognised by its missing seq.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMatches {
    /// The seq of the record.
    pub seq: Seq,
    /// The seqs of the earlier records that the record matches, ascending.
    pub earlier: Vec<Seq>,
}

/// The generations of a store. All calls are durable and cancel-safe, like the calls of [`Store`](super::Store). A caller may repeat every
/// call whose outcome is unknown.
#[async_trait]
pub trait GenerationStore {
    /// Announces a standby generation in phase `Building`. When the call returns, every registration that has no answer yet has been or
    /// will be filed in the generation, and [`GenerationState::scan_end`] is higher than the seq of every other record.
    ///
    /// # Errors
    /// `UnknownCollection`; `GenerationBuilding` while a generation is being built; `TooManyGenerations` if there are [`MAX_GENERATIONS`]
    /// already; `StaleGeneration` if the collection has other settings than [`GenerationSpec::based_on`].
    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState>;

    /// Files records in a generation that is being built, and returns how many were filed. Leaves out records that were removed or have another
    /// seq, and records that were filed before.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration` if there is no such standby generation.
    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<FiledSignatures>) -> Result<u64>;

    /// Marks a generation as complete.
    ///
    /// # Errors
    /// As [`GenerationStore::file`].
    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()>;

    /// Makes a complete generation the live generation; the collection then has the settings of the generation. The previous live
    /// generation becomes a complete standby generation. Lookups continue during the call; each uses only one of the two generations. Does
    /// nothing if the generation is live already.
    ///
    /// The generation lacks the pairs of records that were registered while it was not live. Therefore, the pairs of the previous live
    /// generation also remain valid ([`CollectionState::pair_sources`]) until [`GenerationStore::complete_pairs`].
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration`; `GenerationBuilding`.
    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>>;

    /// Records that the live generation has the pairs of all records. From then on the pairs of other generations do not count.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration` if `generation` is not the live generation.
    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()>;

    /// Removes a standby generation with all its data. Returns false if the generation did not exist.
    ///
    /// # Errors
    /// `UnknownCollection`; `GenerationLive`.
    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool>;

    /// Returns the statistics with which a generation was begun; `None` without statistics. A first generation never has statistics.
    ///
    /// # Errors
    /// `UnknownCollection`. The result for an unknown generation is `None`.
    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>>;

    /// Returns at most `limit` entries of a generation with a seq above `after`, in seq order.
    ///
    /// # Errors
    /// `UnknownCollection`. The result for an unknown generation is empty.
    async fn filed(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>>;

    /// Stores the matches of records in a live or standby generation, and replaces earlier matches of these records. An empty list removes them.
    /// Records that are not filed in the generation are left out. The matches of a record are deleted with the record. A registration stores all
    /// its matches in the live generation, also matches that the verdict does not list.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration`.
    async fn put_pairs(&self, name: &CollectionName, generation: GenerationId, pairs: Vec<RecordMatches>)
    -> Result<()>;

    /// Waits until every change of the collection that had begun before the call is visible or has failed. If it is called after
    /// [`GenerationStore::activate_generation`], all changes that become visible later were judged in the new live generation.
    ///
    /// # Errors
    /// `UnknownCollection`; `Unavailable` and `Unknown` if the store cannot find out. The caller may then repeat the call.
    async fn wait_until_settled(&self, name: &CollectionName) -> Result<()>;

    /// Returns the matches of at most `limit` records of a generation with a seq above `after`, in seq order. Records without matches are left
    /// out. The matches may contain records that were removed.
    ///
    /// # Errors
    /// `UnknownCollection`. The result for an unknown generation is empty.
    async fn pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<RecordMatches>>;
}
