//! Generations of the model.

use std::sync::Arc;

use async_trait::async_trait;

use super::{ModelCollection, ModelGeneration, ModelStore};
use crate::generations::{FiledSignatures, GenerationSpec, GenerationState, GenerationStore, RecordMatches};
use crate::{CollectionState, GenerationId, Result, Seq};
use doppel_core::collection::CollectionName;
use doppel_core::index::Entry;

impl ModelCollection {
    /// Returns a number that no generation of the collection has had.
    pub(super) fn next_generation(&self) -> GenerationId {
        self.generations.keys().max().map_or(GenerationId(1), |highest| highest.next())
    }

    /// Returns the standby generation `id`.
    fn standby(&mut self, id: GenerationId) -> Result<&mut ModelGeneration> {
        self.state.standby(id)?;
        self.generations.get_mut(&id).ok_or_else(|| self.state.lacks(id))
    }

    /// Replaces the state with `state`. Returns false if there is no new state.
    fn show(&mut self, state: Option<CollectionState>) -> bool {
        let changed = state.is_some();
        self.state = state.map_or_else(|| Arc::clone(&self.state), Arc::new);
        changed
    }
}

#[async_trait]
impl GenerationStore for ModelStore {
    async fn wait_until_settled(&self, name: &CollectionName) -> Result<()> {
        self.with(name, |_| Ok(()))
    }

    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState> {
        self.with(&spec.collection, |collection| {
            let (begun, state) = collection.state.begin(collection.next_generation(), &spec, collection.next_seq)?;
            let statistics = (!spec.statistics.is_empty()).then(|| spec.statistics.clone());
            collection.generations.insert(begun.id, ModelGeneration { statistics, ..ModelGeneration::default() });
            collection.show(Some(state));
            Ok(begun)
        })
    }

    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<FiledSignatures>) -> Result<u64> {
        self.with(name, |collection| {
            collection.standby(generation)?;
            let mut filed = 0;
            for FiledSignatures { id, seq, signed } in batch {
                let there = collection.records.iter().any(|record| record.id == id && record.seq == seq);
                let generation = collection.standby(generation)?;
                if there && !generation.signed.contains_key(&seq) {
                    generation.signed.insert(seq, signed);
                    filed += 1;
                }
            }
            Ok(filed)
        })
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        self.with(name, |collection| {
            collection.show(collection.state.complete(generation)?);
            Ok(())
        })
    }

    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>> {
        self.with(name, |collection| {
            collection.show(collection.state.activate(generation, collection.next_seq)?);
            Ok(Arc::clone(&collection.state))
        })
    }

    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        self.with(name, |collection| {
            collection.show(collection.state.complete_pairs(generation)?);
            Ok(())
        })
    }

    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool> {
        self.with(name, |collection| {
            let there = collection.show(collection.state.without(generation)?);
            if there {
                // The generation is emptied and not removed, so that its number is not used again.
                collection.generations.insert(generation, ModelGeneration::default());
            }
            Ok(there)
        })
    }

    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        self.with(name, |collection| {
            Ok(collection.generations.get(&generation).and_then(|generation| generation.statistics.clone()))
        })
    }

    async fn filed(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        self.with(name, |collection| {
            let Some(generation) = collection.generations.get(&generation) else { return Ok(Vec::new()) };
            let later = generation.signed.range(after.next()..).take(limit);
            Ok(later.map(|(seq, signed)| Entry::of(*seq, signed)).collect())
        })
    }

    async fn put_pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        pairs: Vec<RecordMatches>,
    ) -> Result<()> {
        self.with(name, |collection| {
            if generation != collection.state.generation {
                collection.standby(generation)?;
            }
            let generation = collection.generations.entry(generation).or_default();
            for RecordMatches { seq, earlier } in pairs {
                if earlier.is_empty() {
                    generation.pairs.remove(&seq);
                } else if generation.signed.contains_key(&seq) {
                    generation.pairs.insert(seq, earlier);
                }
            }
            Ok(())
        })
    }

    async fn pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<RecordMatches>> {
        self.with(name, |collection| {
            let Some(generation) = collection.generations.get(&generation) else { return Ok(Vec::new()) };
            let later = generation.pairs.range(after.next()..).take(limit);
            Ok(later.map(|(seq, earlier)| RecordMatches { seq: *seq, earlier: earlier.clone() }).collect())
        })
    }
}
