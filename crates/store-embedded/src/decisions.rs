//! Decisions about pairs, see `keys` for how they lie on disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::collection::Collection;
use super::disk::Disk;
use super::exclusive::Exclusive;
use super::free_space::Reserve;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Op, Space};
use super::sequencer;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::decisions::{Decision, Decisions, Judgement, RecordPair, Ruling, check_rulings};
use doppel_store::{CollectionNumber, Result, Seq, StoreError};

/// Puts the rulings about a pair, by the change `change`. Run by the committer between two batches.
fn put(collection: &Arc<Collection>, decision: Decision, change: Seq) -> Result<Exclusive<Decision>> {
    let (number, pair) = (collection.number, &decision.pair);
    let (id, other) = (pair.a().clone(), pair.b().clone());
    let judgement = decision.rulings.last().map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
    let logged = LoggedChange { number: change, id, kind: LoggedKind::Decided { other, judgement } };
    let ops = vec![
        collection.numbers(collection.count.load(Ordering::Acquire)),
        keys::logged(number, &logged)?,
        Op::Put(Space::Decisions, keys::decision_key(number, pair), keys::encode_rulings(&decision.rulings)?),
        Op::Put(Space::Decisions, keys::decision_backlink(number, pair), Vec::new()),
    ];
    let published = Arc::clone(collection);
    let on_published = move || {
        published.published.send_replace(change);
    };
    Ok(Exclusive { ops, on_published: Box::new(on_published), value: decision })
}

impl EmbeddedStore {
    /// Runs a change of a decision, in its place among the changes of the collection.
    async fn change_decision(
        &self,
        name: &CollectionName,
        change: impl FnOnce(&Disk, CollectionNumber) -> Result<Decision> + Send + 'static,
    ) -> Result<Decision> {
        let place = |shared: &SharedState| {
            let collection = shared.collection(name)?;
            let place = sequencer::other(&collection, &shared.committer);
            let (ticket, number) = place.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
            let work = move |disk: &Disk| put(&collection, change(disk, collection.number)?, number);
            Ok((Some(ticket), work))
        };
        self.exclusive_at(Reserve::Whole, place).await
    }
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
            let at = (Space::Decisions, collection.number, Seq(0));
            let read = || Ok(Decision { pair: keys::pair_of_key(&key)?, rulings: keys::decode_rulings(&value)? });
            self.disk.tolerate(at, read())
        });
        decided.filter_map(Result::transpose).take(limit).collect()
    }
}

#[async_trait]
impl Decisions for EmbeddedStore {
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision> {
        let add = move |disk: &Disk, number| {
            let stored = disk.get(&disk.view(), Space::Decisions, &keys::decision_key(number, &pair))?;
            let mut rulings = stored.map(|bytes| keys::decode_rulings(&bytes)).transpose()?.unwrap_or_default();
            check_rulings(rulings.len())?;
            rulings.push(ruling);
            Ok(Decision { pair, rulings })
        };
        self.change_decision(name, add).await
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
        self.change_decision(name, move |_, _| Ok(decision)).await.map(drop)
    }
}
