//! Decisions about pairs of records (see `keys` for their form on disk).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use fjall::Snapshot;

use super::collection::Collection;
use super::disk::Disk;
use super::exclusive::ExclusiveChange;
use super::free_space::SpaceReserve;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::sequencer;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::decisions::{Decision, DecisionStore, Judgement, RecordPair, Ruling, RulingOutcome, SeenState};
use doppel_store::rules::ruling::{PairSeqs, RulingPlan, plan};
use doppel_store::{CollectionNumber, Result, Seq, StoreError};

/// A change of a decision. The committer makes it between two batches.
enum DecisionChange<T> {
    /// Nothing must be written.
    Nothing(T),
    /// The rulings replace the rulings about the pair. Without rulings, the decision is deleted.
    Put(RecordPair, Vec<Ruling>, T),
}

/// Returns the operations that write a change of a decision with this number.
fn written<T>(collection: &Arc<Collection>, change: DecisionChange<T>, number: Seq) -> Result<ExclusiveChange<T>> {
    let (pair, rulings, value) = match change {
        DecisionChange::Nothing(value) => return Ok(ExclusiveChange::written(Vec::new(), value)),
        DecisionChange::Put(pair, rulings, value) => (pair, rulings, value),
    };
    let id = pair.a().clone();
    let other = pair.b().clone();
    let judgement = rulings.last().map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
    let logged = LoggedChange { number, id, kind: LoggedKind::Decided { other, judgement } };
    let mut ops =
        vec![collection.numbers(collection.count.load(Ordering::Acquire)), keys::logged(collection.number, &logged)?];
    let (key, backlink) =
        (keys::decision_key(collection.number, &pair), keys::decision_backlink(collection.number, &pair));
    ops.extend(match rulings.is_empty() {
        true => [WriteOp::Delete(Space::Decisions, key), WriteOp::Delete(Space::Decisions, backlink)],
        false => [
            WriteOp::Put(Space::Decisions, key, keys::encode_rulings(&rulings)?),
            WriteOp::Put(Space::Decisions, backlink, Vec::new()),
        ],
    });
    let published = Arc::clone(collection);
    let on_published = Box::new(move || _ = published.published.send_replace(number));
    Ok(ExclusiveChange { ops, on_published, value })
}

/// Returns the rulings about a pair in `view`; empty if there are none.
fn rulings(disk: &Disk, view: &Snapshot, number: CollectionNumber, pair: &RecordPair) -> Result<Vec<Ruling>> {
    let stored = disk.get(view, Space::Decisions, &keys::decision_key(number, pair))?;
    stored.map_or(Ok(Vec::new()), |bytes| keys::decode_rulings(&bytes))
}

/// Returns the seqs of the two records in `view`.
fn pair_seqs(disk: &Disk, view: &Snapshot, number: CollectionNumber, pair: &RecordPair) -> Result<PairSeqs> {
    PairSeqs::of(pair, |id| disk.seq_of(view, number, id))
}

/// Returns all decisions in `view` about `id`, in the order of the other id.
pub(super) fn naming(
    disk: &Disk,
    view: &Arc<Snapshot>,
    number: CollectionNumber,
    id: &RecordId,
) -> Result<Vec<Decision>> {
    let [as_lower, as_higher] = keys::decisions_naming(number, id);
    // Decisions with `id` as the higher id come first, because their other ids are lower.
    let pairs = disk.prefix(view, Space::Decisions, &as_higher).chain(disk.prefix(view, Space::Decisions, &as_lower));
    let decided = pairs.map(|entry| {
        let pair = keys::pair_of_key(&entry?.0)?;
        let rulings = rulings(disk, view, number, &pair)?;
        Ok((!rulings.is_empty()).then_some(Decision { pair, rulings }))
    });
    decided.filter_map(Result::transpose).collect()
}

impl EmbeddedStore {
    /// Changes a decision in its place among the changes of the collection. `change` runs after all earlier changes are published
    /// and before a later change begins, so that the results of its reads stay valid until the change is written.
    async fn change_decision<T: Send + 'static>(
        &self,
        name: &CollectionName,
        reserve: SpaceReserve,
        change: impl FnOnce(&Disk, CollectionNumber) -> Result<DecisionChange<T>> + Send + 'static,
    ) -> Result<T> {
        self.exclusive_at(reserve, |shared: &SharedState| {
            let collection = shared.collection(name)?;
            let place = sequencer::other(&collection, &shared.committer);
            let (ticket, number) = place.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
            let work = move |disk: &Disk| written(&collection, change(disk, collection.number)?, number);
            Ok((Some(ticket), work))
        })
        .await
    }
}

impl SharedState {
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
            let pair = keys::pair_of_key(&key);
            self.disk.tolerate(at, pair.and_then(|pair| Ok(Decision { pair, rulings: keys::decode_rulings(&value)? })))
        });
        decided.filter_map(Result::transpose).take(limit).collect()
    }
}

#[async_trait]
impl DecisionStore for EmbeddedStore {
    async fn decide(
        &self,
        name: &CollectionName,
        pair: RecordPair,
        ruling: Ruling,
        seen: Option<SeenState>,
    ) -> Result<RulingOutcome> {
        let changed = self.change_decision(name, SpaceReserve::Whole, move |disk: &Disk, number| {
            let view = disk.view();
            let mut rulings = rulings(disk, &view, number, &pair)?;
            let stored = pair_seqs(disk, &view, number, &pair)?;
            let planned = plan(&pair, &rulings, stored, &ruling, seen)?;
            if planned == RulingPlan::Add {
                rulings.push(ruling);
            }
            let decision = Decision { pair, rulings };
            let ruled = planned.answer(decision.clone());
            Ok(match planned {
                RulingPlan::Add => DecisionChange::Put(decision.pair, decision.rulings, ruled),
                RulingPlan::Repeated | RulingPlan::Refused | RulingPlan::Replaced => DecisionChange::Nothing(ruled),
            })
        });
        changed.await
    }

    async fn drop_orphaned_decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<bool> {
        let pair = pair.clone();
        let changed = self.change_decision(name, SpaceReserve::Last, move |disk: &Disk, number| {
            let view = disk.view();
            let is_orphaned = pair_seqs(disk, &view, number, &pair)?.missing(&pair).is_some();
            let is_there = !rulings(disk, &view, number, &pair)?.is_empty();
            Ok(match is_orphaned && is_there {
                true => DecisionChange::Put(pair, Vec::new(), true),
                false => DecisionChange::Nothing(false),
            })
        });
        changed.await
    }

    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        let rulings = rulings(&shared.disk, &shared.disk.view(), collection.number, pair)?;
        Ok((!rulings.is_empty()).then_some(Decision { pair: pair.clone(), rulings }))
    }

    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>> {
        let shared = self.shared()?;
        naming(&shared.disk, &shared.disk.view(), shared.collection(name)?.number, id)
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
        let Decision { pair, rulings } = decision;
        self.change_decision(name, SpaceReserve::Whole, move |_, _| Ok(DecisionChange::Put(pair, rulings, ()))).await
    }
}
