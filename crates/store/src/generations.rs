//! Standby generations: how a whole index is built anew while the collection is in use.
//!
//! A *generation* is one complete index of a collection's records, built with one profile (every parameter that changes a signature).
//! A collection answers from one *live* generation. It may have *standby* generations of the same records: one being
//! built (reindex), and complete ones kept to go back to. From the return of [`Generations::begin_generation`] on every
//! registration brings its signatures for all of them, and every removal takes them out of all of them; what was there before
//! is filed by [`Generations::file`]. So a complete generation stays complete and can go live at any time.
//!
//! A registration that names other generations than the collection has is refused with
//! [`StoreError::StaleGeneration`](super::StoreError::StaleGeneration), and signed again: nothing can slip between the
//! announcement and the filing.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{CollectionState, GenerationId, Result, Seq};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::Entry;
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;

pub use super::rules::generation_life::{MAX_GENERATIONS, check_number};

/// How far a standby generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not all records are filed in it yet.
    Building,
    /// Complete: it can go live.
    Ready,
}

/// A standby generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenerationState {
    /// Its number.
    pub id: GenerationId,
    /// The settings it is built with.
    pub settings: Settings,
    /// Digest of its profile, in hexadecimal.
    pub profile: String,
    /// How far it is.
    pub phase: Phase,
    /// When it was begun (RFC 3339, UTC).
    pub created_at: String,
    /// Every record that must be filed with [`Generations::file`] has a seq below this. Later ones bring their signatures
    /// themselves.
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
    /// Of which collection.
    pub collection: CollectionName,
    /// Its settings, validated.
    pub settings: Settings,
    /// The settings that the collection must have; `None` where the new settings do not rest on them. While the generation is built, a
    /// collection takes no other settings, so that none are lost at the switch.
    pub based_on: Option<Settings>,
    /// Digest of its profile, in hexadecimal.
    pub profile: String,
    /// The collection's statistics, frozen with it (`Statistics::encode`); empty where its channels need none.
    pub statistics: Vec<u8>,
    /// When (RFC 3339, UTC).
    pub now: String,
}

/// A stored record's signatures for a generation.
#[derive(Clone, Debug)]
pub struct Filing {
    /// The record.
    pub id: RecordId,
    /// The content that was signed: filed only while the record still has this seq.
    pub seq: Seq,
    /// Its signatures under the generation's profile.
    pub signed: Arc<Signed>,
}

/// The matches of a record in a generation, as registering or reindexing found them. A seq names one content for ever,
/// so a pair whose other end was replaced or deleted is recognised by its seq being gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The record.
    pub seq: Seq,
    /// The earlier records that it matches, ascending.
    pub earlier: Vec<Seq>,
}

/// Building, switching and dropping generations. Durable and cancel-safe as all of [`Store`](super::Store); every call may be
/// repeated when its outcome is unknown.
#[async_trait]
pub trait Generations {
    /// Announces a standby generation, in phase `Building`. When it returns, every registration that is not yet
    /// answered has been or will be filed in it, and [`GenerationState::scan_end`] is above the seq of every record that is
    /// not.
    ///
    /// # Errors
    /// `UnknownCollection`; `GenerationBuilding` while one is being built; `TooManyGenerations` when there are
    /// [`MAX_GENERATIONS`] already; `StaleGeneration` where the collection has other settings than [`GenerationSpec::based_on`].
    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState>;

    /// Files records in a generation that is being built; how many. Left out: records that are gone or have another seq by
    /// now, and those filed already.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration` when there is no such standby generation.
    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<Filing>) -> Result<u64>;

    /// Says that a generation is complete.
    ///
    /// # Errors
    /// As [`Generations::file`].
    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()>;

    /// Makes a complete generation the live one, with its settings; the one that was live becomes a standby one, complete.
    /// Lookups continue meanwhile, each wholly in one generation or the other. Nothing to do when it is live already.
    ///
    /// The generation lacks the pairs of records that were registered while it was not live. So the pairs of the generation that was
    /// live stay in force beside its own ([`CollectionState::pair_sources`]) until [`Generations::complete_pairs`].
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration`; `GenerationBuilding`.
    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>>;

    /// Says that the live generation has the pairs of all records: from now on no other generation's pairs are in force.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration` where `generation` is not the live one.
    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()>;

    /// Removes a standby generation with everything in it; whether it was there.
    ///
    /// # Errors
    /// `UnknownCollection`; `GenerationLive`.
    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool>;

    /// The statistics that a generation was begun with; `None` where it has none, as every first generation.
    ///
    /// # Errors
    /// `UnknownCollection`. A generation that is not there has none.
    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>>;

    /// What a generation has filed, with a seq above `after`, in seq order: at most `limit`.
    ///
    /// # Errors
    /// `UnknownCollection`. A generation that is not there has nothing filed.
    async fn filed(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>>;

    /// Records the matches of records in a generation, live or standby, replacing what was recorded for them; none
    /// removes that. Records that are not filed in it are left out, and what is recorded of a record is deleted with it.
    /// Registrations record their own in the live generation: all matches, not only those that the verdict lists.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownGeneration`.
    async fn put_pairs(&self, name: &CollectionName, generation: GenerationId, pairs: Vec<Pairs>) -> Result<()>;

    /// Waits until every change of the collection that was under way at the call is visible or has failed. After
    /// [`Generations::activate_generation`]: what becomes visible later was judged in the generation that is live now.
    ///
    /// # Errors
    /// `UnknownCollection`; `Unavailable` and `Unknown` when the store cannot say, then the call may be repeated.
    async fn wait_until_settled(&self, name: &CollectionName) -> Result<()>;

    /// What is recorded of a generation's matches, for records with a seq above `after` that have any, in seq order: at most
    /// `limit`. Records that are gone may still be named.
    ///
    /// # Errors
    /// `UnknownCollection`. A generation that is not there has none.
    async fn pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Pairs>>;
}
