//! Decisions of the model.

use std::ops::Bound;

use async_trait::async_trait;

use super::{ModelCollection, ModelStore};
use crate::decisions::{Decision, DecisionStore, Judgement, RecordPair, Ruling, RulingOutcome, SeenState};
use crate::rules::ruling::{PairSeqs, RulingPlan, plan};
use crate::{Result, Seq};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

impl ModelCollection {
    fn pair_seqs(&self, pair: &RecordPair) -> PairSeqs {
        PairSeqs { a: self.seq_of(pair.a()), b: self.seq_of(pair.b()) }
    }

    fn seq_of(&self, id: &RecordId) -> Option<Seq> {
        self.position(id).map(|at| self.records[at].seq)
    }
}

#[async_trait]
impl DecisionStore for ModelStore {
    async fn decide(
        &self,
        name: &CollectionName,
        pair: RecordPair,
        ruling: Ruling,
        seen: Option<SeenState>,
    ) -> Result<RulingOutcome> {
        self.with(name, |collection| {
            let mut rulings = collection.decisions.get(&pair).cloned().unwrap_or_default();
            let planned = plan(&pair, &rulings, collection.pair_seqs(&pair), &ruling, seen)?;
            let judgement = ruling.judgement;
            if planned == RulingPlan::Add {
                rulings.push(ruling);
                collection.decisions.insert(pair.clone(), rulings.clone());
                collection.log_decision(&pair, judgement);
            }
            Ok(planned.answer(Decision { pair, rulings }))
        })
    }

    async fn drop_orphaned_decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<bool> {
        self.with(name, |collection| {
            let is_orphaned = collection.pair_seqs(pair).missing(pair).is_some();
            let dropped = is_orphaned && collection.decisions.remove(pair).is_some();
            if dropped {
                collection.log_decision(pair, Judgement::Withdrawn);
            }
            Ok(dropped)
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
