//! Decisions about pairs, see `keys` for how they lie on disk.

use std::sync::Arc;

use async_trait::async_trait;

use super::EmbeddedStore;
use super::alone::{Change, check_there};
use super::candidates::blocking;
use super::disk::{Disk, Op, Space};
use super::keys;
use super::line::Collection;
use super::shared_state::SharedState;
use super::space::Reserve;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::Result;
use doppel_store::decisions::{Decision, Decisions, Pair, Ruling, check_rulings};

/// Puts the rulings about a pair.
fn put(collection: &Collection, decision: &Decision) -> Result<Vec<Op>> {
    let (number, pair) = (collection.number, &decision.pair);
    Ok(vec![
        Op::Put(Space::Decisions, keys::decision_key(number, pair), keys::encode_rulings(&decision.rulings)?),
        Op::Put(Space::Decisions, keys::decision_backlink(number, pair), Vec::new()),
    ])
}

/// Deletes all decisions that name `id`, as they are published.
pub(super) fn forget(disk: &Disk, number: u32, id: &RecordId) -> Result<Vec<Op>> {
    let view = disk.view();
    let mut ops = Vec::new();
    for prefix in keys::decisions_naming(number, id) {
        for entry in disk.prefix(&view, Space::Decisions, &prefix) {
            let pair = keys::pair_of_key(&entry?.0)?;
            ops.push(Op::Delete(Space::Decisions, keys::decision_key(number, &pair)));
            ops.push(Op::Delete(Space::Decisions, keys::decision_backlink(number, &pair)));
        }
    }
    Ok(ops)
}

impl SharedState {
    /// What is ruled about a pair in `view`.
    fn decided(&self, view: &fjall::Snapshot, number: u32, pair: Pair) -> Result<Option<Decision>> {
        let found = self.disk.get(view, Space::Decisions, &keys::decision_key(number, &pair))?;
        found.map(|bytes| Ok(Decision { pair, rulings: keys::decode_rulings(&bytes)? })).transpose()
    }

    fn decisions_of(&self, collection: &Collection, id: &RecordId) -> Result<Vec<Decision>> {
        let view = self.disk.view();
        let [as_lower, as_higher] = keys::decisions_naming(collection.number, id);
        // Those in which it is the higher one come first: the other ids are below it.
        let pairs = self.disk.prefix(&view, Space::Decisions, &as_higher);
        let pairs = pairs.chain(self.disk.prefix(&view, Space::Decisions, &as_lower));
        let decided = pairs.map(|entry| self.decided(&view, collection.number, keys::pair_of_key(&entry?.0)?));
        decided.filter_map(Result::transpose).collect()
    }

    fn decisions_after(&self, collection: &Collection, after: Option<&Pair>, limit: usize) -> Result<Vec<Decision>> {
        let [first, end] = keys::all_decisions(collection.number);
        let from = after.map_or(first, |pair| [&keys::decision_key(collection.number, pair)[..], &[0]].concat());
        let entries = self.disk.range(&self.disk.view(), Space::Decisions, &from, &end);
        let decided = entries.map(|entry| {
            let (key, value) = entry?;
            let at = (Space::Decisions, collection.number, 0);
            let read = || Ok(Decision { pair: keys::pair_of_key(&key)?, rulings: keys::decode_rulings(&value)? });
            self.disk.tolerate(at, read())
        });
        decided.filter_map(Result::transpose).take(limit).collect()
    }
}

#[async_trait]
impl Decisions for EmbeddedStore {
    async fn decide(&self, name: &CollectionName, pair: Pair, ruling: Ruling) -> Result<Decision> {
        let prepare = |core: &SharedState| {
            let (collection, name) = (core.collection(name)?, name.clone());
            Ok(move |disk: &Disk| {
                check_there(&collection, &name)?;
                let stored = disk.get(&disk.view(), Space::Decisions, &keys::decision_key(collection.number, &pair))?;
                let mut rulings = stored.map(|bytes| keys::decode_rulings(&bytes)).transpose()?.unwrap_or_default();
                check_rulings(rulings.len())?;
                rulings.push(ruling);
                let decision = Decision { pair, rulings };
                Ok(Change::written(put(&collection, &decision)?, decision))
            })
        };
        self.alone(Reserve::Whole, prepare).await
    }

    async fn decision(&self, name: &CollectionName, pair: &Pair) -> Result<Option<Decision>> {
        let core = self.core()?;
        let collection = core.collection(name)?;
        core.decided(&core.disk.view(), collection.number, pair.clone())
    }

    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>> {
        let core = self.core()?;
        core.decisions_of(&*core.collection(name)?, id)
    }

    async fn decisions(&self, name: &CollectionName, after: Option<&Pair>, limit: usize) -> Result<Vec<Decision>> {
        let core = self.core()?;
        let collection: Arc<Collection> = core.collection(name)?;
        blocking(|| core.decisions_after(&collection, after, limit))
    }

    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()> {
        let prepare = |core: &SharedState| {
            let (collection, name) = (core.collection(name)?, name.clone());
            let ops = put(&collection, &decision)?;
            Ok(move |_: &Disk| {
                check_there(&collection, &name)?;
                Ok(Change::written(ops, ()))
            })
        };
        self.alone(Reserve::Whole, prepare).await
    }
}
