//! The generations of a collection: listing, dropping, comparing two of them.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use crate::collection::{CollectionName, Settings};
use crate::engine::{Engine, Error, Result};
use crate::record::RecordId;
use crate::store::generations::{Pairs, Phase};
use crate::store::{CollectionState, GenerationId, Seq};

/// Pairs lists read at once when two generations are compared.
const PIECE: usize = 1000;

/// How a generation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It answers.
    Live,
    /// It is complete and kept up to date: it can be activated.
    Ready,
    /// A reindex builds it.
    Building,
}

/// A generation as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Generation {
    /// Its number.
    pub generation: GenerationId,
    /// How it stands.
    pub status: Standing,
    /// The settings it was built with.
    pub settings: Settings,
    /// Digest of its profile.
    pub profile: String,
    /// When it was begun (RFC 3339, UTC).
    pub created_at: String,
}

/// Two generations side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Comparison {
    /// The generation asked about.
    pub generation: GenerationId,
    /// The live one.
    pub live: GenerationId,
    /// Pairs that both find.
    pub shared: u64,
    /// Pairs that only the generation asked about finds.
    pub gained: u64,
    /// Pairs that only the live one finds.
    pub lost: u64,
    /// Examples of pairs gained, the earliest first.
    pub gained_examples: Vec<PairView>,
    /// Examples of pairs lost, the earliest first.
    pub lost_examples: Vec<PairView>,
}

/// Two records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairView {
    /// The earlier.
    #[schema(value_type = String)]
    pub earlier: RecordId,
    /// The later.
    #[schema(value_type = String)]
    pub later: RecordId,
}

impl Engine {
    /// The generations of a collection, ascending.
    pub async fn generations(&self, collection: &CollectionName) -> Result<Vec<Generation>> {
        let state = self.context(collection).await?.state.clone();
        let mut found = vec![Generation {
            generation: state.generation,
            status: Standing::Live,
            settings: state.settings.clone(),
            profile: state.profile.clone(),
            created_at: state.generation_created_at().to_owned(),
        }];
        found.extend(state.others.iter().map(|other| Generation {
            generation: other.id,
            status: match other.phase {
                Phase::Building => Standing::Building,
                Phase::Ready => Standing::Ready,
            },
            settings: other.settings.clone(),
            profile: other.profile.clone(),
            created_at: other.created_at.clone(),
        }));
        found.sort_by_key(|generation| generation.generation);
        Ok(found)
    }

    /// Removes a generation beside the live one.
    ///
    /// # Errors
    /// [`Error::Conflict`] for the live one and one that is being built.
    pub async fn drop_generation(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        let state = self.context(collection).await?.state.clone();
        if state.generation == generation {
            return Err(Error::Conflict(format!("generation {generation} is live; activate another one first")));
        }
        let being_built = |other: &&crate::store::generations::GenerationState| {
            other.id == generation && other.phase == Phase::Building
        };
        if state.others.iter().find(being_built).is_some() && self.unfinished_task(collection).await?.is_some() {
            return Err(Error::Conflict(format!("generation {generation} is being built; cancel its task first")));
        }
        match self.store.drop_generation(collection, generation).await? {
            true => Ok(()),
            false => Err(Error::UnknownGeneration(collection.clone(), generation)),
        }
    }

    /// Number of records.
    pub async fn count(&self, collection: &CollectionName) -> Result<u64> {
        Ok(self.store.count(collection).await?)
    }

    /// Says that a generation is complete.
    pub async fn complete_generation(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        Ok(self.store.complete_generation(collection, generation).await?)
    }

    /// How long after [`Engine::activate_generation`] what was judged under the generation before may still become visible.
    pub fn settling(&self) -> Duration {
        self.store.settling()
    }

    /// Makes a complete generation the live one, unless it is.
    pub async fn activate_generation(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        if !self.is_live(collection, generation).await? {
            self.store.activate_generation(collection, generation).await?;
        }
        Ok(())
    }

    /// Whether `generation` is the one that answers.
    pub async fn is_live(&self, collection: &CollectionName, generation: GenerationId) -> Result<bool> {
        Ok(self.context(collection).await?.state.generation == generation)
    }

    /// [`CollectionState::scan_end`].
    pub async fn live_scan_end(&self, collection: &CollectionName) -> Result<Seq> {
        Ok(self.context(collection).await?.state.scan_end)
    }

    /// Which pairs a generation finds that the live one does not, and the reverse, as far as both ends are still there and nobody
    /// decided about them. Of records that were there when the younger of the two was begun: the pairs of later ones are only
    /// looked for in the one that answers. Reads the pairs of both: O(pairs), three store reads for each pair that differs.
    pub async fn compare_generations(
        &self,
        collection: &CollectionName,
        generation: GenerationId,
        examples: usize,
    ) -> Result<Comparison> {
        let state = self.context(collection).await?.state.clone();
        check_comparable(&state, generation)?;
        let begun = state.others.iter().filter(|other| other.id == generation).map(|other| other.scan_end);
        let end = begun.chain([state.scan_end]).max().unwrap_or(0);
        let mut old = PairStream::new(self, collection, state.generation, end);
        let mut new = PairStream::new(self, collection, generation, end);
        let mut comparison = Comparison {
            generation,
            live: state.generation,
            shared: 0,
            gained: 0,
            lost: 0,
            gained_examples: Vec::new(),
            lost_examples: Vec::new(),
        };
        loop {
            let next = (old.peek().await?, new.peek().await?);
            let (order, seq) = match next {
                (None, None) => return Ok(comparison),
                (Some(seq), None) => (Ordering::Less, seq),
                (None, Some(seq)) => (Ordering::Greater, seq),
                (Some(old), Some(new)) => (old.cmp(&new), old.min(new)),
            };
            let before = if order.is_le() { old.take() } else { Vec::new() };
            let after = if order.is_ge() { new.take() } else { Vec::new() };
            self.note(collection, seq, (&before, &after), examples, &mut comparison).await?;
        }
    }

    /// Adds what two generations say of one record.
    async fn note(
        &self,
        collection: &CollectionName,
        seq: Seq,
        (before, after): (&[Seq], &[Seq]),
        examples: usize,
        comparison: &mut Comparison,
    ) -> Result<()> {
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), after.iter().collect());
        comparison.shared += before.intersection(&after).count() as u64;
        if before == after {
            return Ok(());
        }
        let Some(later) = self.record_at(collection, seq).await? else { return Ok(()) };
        let gained = after.difference(&before).map(|earlier| (**earlier, true));
        let lost = before.difference(&after).map(|earlier| (**earlier, false));
        for (earlier, is_gain) in gained.chain(lost) {
            // Gone meanwhile: neither generation would find it now.
            let Some(earlier) = self.record_at(collection, earlier).await? else { continue };
            if self.is_decided(collection, &earlier.id, &later.id).await? {
                continue;
            }
            let (count, list) = match is_gain {
                true => (&mut comparison.gained, &mut comparison.gained_examples),
                false => (&mut comparison.lost, &mut comparison.lost_examples),
            };
            *count += 1;
            if list.len() < examples {
                list.push(PairView { earlier: earlier.id, later: later.id.clone() });
            }
        }
        Ok(())
    }

    /// The record that has this seq, if it is still there.
    pub(super) async fn record_at(
        &self,
        collection: &CollectionName,
        seq: Seq,
    ) -> Result<Option<crate::store::StoredRecord>> {
        let next = self.store.records(collection, seq.saturating_sub(1), 1).await?.into_iter().next();
        Ok(next.filter(|record| record.seq == seq))
    }
}

fn check_comparable(state: &CollectionState, generation: GenerationId) -> Result<()> {
    if state.generation == generation {
        return Err(Error::Conflict(format!("generation {generation} is the live one; compare another with it")));
    }
    match state.others.iter().find(|other| other.id == generation) {
        None => Err(Error::UnknownGeneration(state.name.clone(), generation)),
        Some(other) if other.phase == Phase::Building => {
            Err(Error::Conflict(format!("generation {generation} is still being built; see its task")))
        }
        Some(_) => Ok(()),
    }
}

/// The pairs of a generation in seq order, a piece at a time.
struct PairStream<'a> {
    engine: &'a Engine,
    collection: &'a CollectionName,
    generation: GenerationId,
    piece: std::vec::IntoIter<Pairs>,
    last: Seq,
    /// Records from here on are left out.
    end: Seq,
    ended: bool,
}

impl<'a> PairStream<'a> {
    fn new(engine: &'a Engine, collection: &'a CollectionName, generation: GenerationId, end: Seq) -> Self {
        Self { engine, collection, generation, piece: Vec::new().into_iter(), last: 0, end, ended: false }
    }

    /// The record next in order.
    async fn peek(&mut self) -> Result<Option<Seq>> {
        if self.piece.as_slice().is_empty() && !self.ended {
            let mut piece = self.engine.store.pairs(self.collection, self.generation, self.last, PIECE).await?;
            self.last = piece.last().map_or(self.last, |pairs| pairs.seq);
            self.ended = piece.len() < PIECE || self.last >= self.end;
            piece.retain(|pairs| pairs.seq < self.end);
            self.piece = piece.into_iter();
        }
        Ok(self.piece.as_slice().first().map(|pairs| pairs.seq))
    }

    /// Takes what [`PairStream::peek`] named.
    fn take(&mut self) -> Vec<Seq> {
        self.piece.next().map_or_else(Vec::new, |pairs| pairs.earlier)
    }
}
