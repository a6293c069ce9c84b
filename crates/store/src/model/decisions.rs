//! Decisions of the model.

use std::ops::Bound;

use async_trait::async_trait;

use super::ModelStore;
use crate::Result;
use crate::decisions::{Decision, Decisions, RecordPair, Ruling, check_rulings};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

#[async_trait]
impl Decisions for ModelStore {
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision> {
        self.with(name, |collection| {
            let rulings = collection.decisions.entry(pair.clone()).or_default();
            check_rulings(rulings.len())?;
            let judgement = ruling.judgement;
            rulings.push(ruling);
            let decision = Decision { pair, rulings: rulings.clone() };
            collection.log_decision(&decision.pair, judgement);
            Ok(decision)
        })
    }

    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>> {
        self.with(name, |collection| {
            let rulings = collection.decisions.get(pair);
            Ok(rulings.map(|rulings| Decision { pair: pair.clone(), rulings: rulings.clone() }))
        })
    }

    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>> {
        self.with(name, |collection| {
            let naming = collection.decisions.iter().filter(|(pair, _)| pair.other(id).is_some());
            let mut found: Vec<Decision> =
                naming.map(|(pair, rulings)| Decision { pair: pair.clone(), rulings: rulings.clone() }).collect();
            found.sort_by(|x, y| x.pair.other(id).cmp(&y.pair.other(id)));
            Ok(found)
        })
    }

    async fn decisions(
        &self,
        name: &CollectionName,
        after: Option<&RecordPair>,
        limit: usize,
    ) -> Result<Vec<Decision>> {
        self.with(name, |collection| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let later = collection.decisions.range::<RecordPair, _>((from, Bound::Unbounded)).take(limit);
            Ok(later.map(|(pair, rulings)| Decision { pair: pair.clone(), rulings: rulings.clone() }).collect())
        })
    }

    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()> {
        self.with(name, |collection| {
            if let Some(last) = decision.rulings.last() {
                collection.log_decision(&decision.pair, last.judgement);
            }
            collection.decisions.insert(decision.pair, decision.rulings);
            Ok(())
        })
    }
}
