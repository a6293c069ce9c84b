//! Decisions about pairs, see `keys` for how they lie on disk.

use std::sync::Arc;

use async_trait::async_trait;

use super::collection::Collection;
use super::disk::Disk;
use super::exclusive::Exclusive;
use super::free_space::Reserve;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Op, Space};
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::{Decision, Decisions, RecordPair, Ruling, check_rulings};
use doppel_store::{CollectionNumber, Result};

/// Puts the rulings about a pair.
fn put(collection: &Collection, decision: &Decision) -> Result<Vec<Op>> {
    let (number, pair) = (collection.number, &decision.pair);
    Ok(vec![
        Op::Put(Space::Decisions, keys::decision_key(number, pair), keys::encode_rulings(&decision.rulings)?),
        Op::Put(Space::Decisions, keys::decision_backlink(number, pair), Vec::new()),
    ])
}

impl SharedState {
    /// What is ruled about a pair in `view`.
    fn decided(&self, view: &fjall::Snapshot, number: CollectionNumber, pair: RecordPair) -> Result<Option<Decision>> {
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

    fn decisions_after(
        &self,
        collection: &Collection,
        after: Option<&RecordPair>,
        limit: usize,
    ) -> Result<Vec<Decision>> {
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
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision> {
        let prepare = |shared: &SharedState| {
            let (collection, name) = (shared.collection(name)?, name.clone());
            Ok(move |disk: &Disk| {
                collection.check_not_dropped(&name)?;
                let stored = disk.get(&disk.view(), Space::Decisions, &keys::decision_key(collection.number, &pair))?;
                let mut rulings = stored.map(|bytes| keys::decode_rulings(&bytes)).transpose()?.unwrap_or_default();
                check_rulings(rulings.len())?;
                rulings.push(ruling);
                let decision = Decision { pair, rulings };
                Ok(Exclusive::written(put(&collection, &decision)?, decision))
            })
        };
        self.exclusive(Reserve::Whole, prepare).await
    }

    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        shared.decided(&shared.disk.view(), collection.number, pair.clone())
    }

    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>> {
        let shared = self.shared()?;
        shared.decisions_of(&*shared.collection(name)?, id)
    }

    async fn decisions(
        &self,
        name: &CollectionName,
        after: Option<&RecordPair>,
        limit: usize,
    ) -> Result<Vec<Decision>> {
        let shared = self.shared()?;
        let collection: Arc<Collection> = shared.collection(name)?;
        blocking(|| shared.decisions_after(&collection, after, limit))
    }

    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()> {
        let prepare = |shared: &SharedState| {
            let (collection, name) = (shared.collection(name)?, name.clone());
            let ops = put(&collection, &decision)?;
            Ok(move |_: &Disk| {
                collection.check_not_dropped(&name)?;
                Ok(Exclusive::written(ops, ()))
            })
        };
        self.exclusive(Reserve::Whole, prepare).await
    }
}
