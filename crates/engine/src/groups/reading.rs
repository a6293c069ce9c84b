//! Reads the groups of a collection, and brings them up to date.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::collection_groups::{CollectionGroups, ReadSource};
use crate::context::Context;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::GroupSet;
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::decisions::{Decision, Judgement, RecordPair};
use doppel_store::{Seq, StoreError};

/// Number of lists of pairs, decisions or log entries that are read at once.
const PIECE: usize = 1_000;
/// Largest number of changes between two requests that are applied one by one; after more changes all groups are read again.
const MAX_FOLLOWED: usize = 100_000;
/// Largest number of readings for one request. A reindex changes the generations three times while groups are read: it activates a generation,
/// its pairs become complete, and earlier generations are dropped. Two reindexes may follow each other at the end of an import.
const MOST_READINGS: usize = 7;
/// Number of seconds after which a request for groups may succeed that failed because generations changed.
const RETRY_S: u32 = 5;

/// The decision that holds about a pair, as the groups read it.
struct HoldingDecision {
    pair: RecordPair,
    /// `None` if the decision was withdrawn.
    judgement: Option<Judgement>,
    /// The record that a person chose as the original, and the time of the choice.
    chosen: Option<(RecordId, String)>,
}

impl From<Decision> for HoldingDecision {
    fn from(decision: Decision) -> Self {
        let judgement = decision.holding();
        let last = decision.rulings.into_iter().next_back().filter(|_| judgement == Some(Judgement::Same));
        let chosen = last.and_then(|ruling| Some((ruling.original?, ruling.at)));
        Self { pair: decision.pair, judgement, chosen }
    }
}

impl Engine {
    /// Calls `ask` with groups that are up to date. The update continues if the request is cancelled, because the first reading of a large
    /// collection may take longer than a request. `ask` runs outside the serving threads, because it may read all groups.
    pub(super) async fn with_groups<T: Send + 'static>(
        &self,
        collection: &CollectionName,
        ask: impl FnOnce(&CollectionGroups) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = self.context(collection).await?;
        let entry = self.groups.entry(collection);
        let mut kept = Arc::clone(&entry.groups).lock_owned().await;
        let engine = self.clone();
        let reading = tokio::spawn(async move {
            let is_outdated = entry.outdated.swap(false, Ordering::AcqRel);
            let before = kept.take().filter(|_| !is_outdated);
            *kept = Some(engine.read_current(context, before).await?);
            Ok(kept)
        });
        let kept = reading.await.unwrap_or(Err(Error::Crashed))?;
        off_thread(move || kept.as_ref().map_or(Err(Error::Crashed), ask)).await
    }

    /// Brings the groups from `before` up to date, or reads all of them. Reads them again if the generations changed meanwhile: a generation
    /// that was dropped has no pairs any more, so that groups would have shrunk.
    pub(super) async fn read_current(
        &self,
        mut context: Arc<Context>,
        mut before: Option<CollectionGroups>,
    ) -> Result<CollectionGroups> {
        for _ in 0..MOST_READINGS {
            let now = (self.options.micros)();
            let shared_at = self.store.is_shared().then_some(now);
            let brought = match before.take().filter(|groups| groups.is_current(&context, shared_at)) {
                Some(groups) => self.brought_up_to_date(&context, groups).await?,
                None => None,
            };
            let groups = match brought {
                Some(groups) => groups,
                None => self.read_groups(&context, now).await?,
            };
            context = self.context(&context.state.name).await?;
            if groups.is_current(&context, None) {
                return Ok(groups);
            }
        }
        let reason = "generations of the collection change faster than its groups can be read".into();
        Err(StoreError::Unavailable { reason, retry_after_s: RETRY_S }.into())
    }

    /// Reads all pairs and decisions.
    async fn read_groups(&self, context: &Context, now: u64) -> Result<CollectionGroups> {
        let name = &context.state.name;
        let mut groups = CollectionGroups {
            generation: context.state.generation,
            collection: context.state.number,
            sources: context.state.sources_of_pairs().into_iter().map(ReadSource::from).collect(),
            set: GroupSet::new(),
            pieces: Mutex::default(),
            members: HashMap::new(),
            by_id: HashMap::new(),
            chosen: BTreeMap::new(),
            of_one_event: BTreeSet::new(),
            followed_to: self.store.last_change(name).await?,
            read_at: now,
            took: 0,
        };
        self.read_pairs(context, &mut groups).await?;
        let mut decided = Vec::new();
        self.each_decision(name, |decision| decided.push(HoldingDecision::from(decision))).await?;
        for decision in decided {
            self.apply(context, &mut groups, decision).await?;
        }
        groups.took = (self.options.micros)().saturating_sub(now);
        Ok(groups)
    }

    /// Applies the changes since the last update; `None` if everything must be read again.
    async fn brought_up_to_date(
        &self,
        context: &Context,
        mut groups: CollectionGroups,
    ) -> Result<Option<CollectionGroups>> {
        let name = &context.state.name;
        let Some(changed) = self.changed_since(name, &mut groups.followed_to).await? else { return Ok(None) };
        for id in &changed {
            let Some(before) = groups.by_id.get(id).copied() else { continue };
            match self.store.record(name, id).await? {
                // Fields outside the text may have changed.
                Some(record) if record.seq == before => groups.describe(context, &record),
                _ => groups.forget(before),
            }
        }
        self.read_pairs(context, &mut groups).await?;
        for id in &changed {
            for decision in self.store.decisions_of(name, id).await? {
                self.apply(context, &mut groups, decision.into()).await?;
            }
        }
        Ok(Some(groups))
    }

    /// Returns the records that were replaced, updated, removed or decided about after the change `after`, and moves `after` to the last change;
    /// `None` if the log no longer has all changes, or has too many.
    async fn changed_since(&self, name: &CollectionName, after: &mut Seq) -> Result<Option<BTreeSet<RecordId>>> {
        let mut changed = BTreeSet::new();
        while changed.len() < MAX_FOLLOWED {
            let (piece, next) = match self.store.logged(name, *after, PIECE).await {
                Err(StoreError::ChangesForgotten { .. }) => return Ok(None),
                page => page?,
            };
            let is_last = piece.len() < PIECE;
            *after = next;
            for LoggedChange { id, kind, .. } in piece {
                if let LoggedKind::Decided { other, .. } = kind {
                    changed.insert(other);
                }
                changed.insert(id);
            }
            if is_last {
                return Ok(Some(changed));
            }
        }
        Ok(None)
    }

    /// Reads new pairs from every source.
    async fn read_pairs(&self, context: &Context, groups: &mut CollectionGroups) -> Result<()> {
        for at in 0..groups.sources.len() {
            self.read_source(context, groups, at).await?;
        }
        Ok(())
    }

    /// Reads new pairs from the source with index `at`.
    async fn read_source(&self, context: &Context, groups: &mut CollectionGroups, at: usize) -> Result<()> {
        let name = &context.state.name;
        loop {
            let ReadSource { source, read_to } = groups.sources[at];
            let piece = self.store.pairs(name, source.generation, read_to, PIECE).await?;
            let Some(last) = piece.last() else { return Ok(()) };
            groups.sources[at].read_to = last.seq;
            let seqs = piece.iter().flat_map(|pairs| pairs.earlier.iter().copied().chain([pairs.seq]));
            self.learn(context, groups, seqs.collect()).await?;
            piece.iter().for_each(|pairs| groups.pair(&pairs.earlier, pairs.seq));
        }
    }

    /// Reads the records with these seqs that are not known yet. Records that are gone stay unknown.
    async fn learn(&self, context: &Context, groups: &mut CollectionGroups, seqs: BTreeSet<Seq>) -> Result<()> {
        let unknown: Vec<Seq> = seqs.into_iter().filter(|seq| !groups.members.contains_key(seq)).collect();
        self.each_at(&context.state.name, unknown, |record| groups.add_member(context, &record)).await
    }

    /// Applies a person's decision about two records, if both exist.
    async fn apply(&self, context: &Context, groups: &mut CollectionGroups, decision: HoldingDecision) -> Result<()> {
        let HoldingDecision { pair, judgement, chosen } = decision;
        let mut names = Vec::with_capacity(2);
        for id in [pair.a(), pair.b()] {
            let Some(record) = self.store.record(&context.state.name, id).await? else { return Ok(()) };
            groups.add_member(context, &record);
            names.push(record.seq.0);
        }
        names.iter().for_each(|name| groups.forget_component(*name));
        let ordered = (names[0].min(names[1]), names[0].max(names[1]));
        groups.of_one_event.remove(&ordered);
        match judgement {
            Some(Judgement::Same) => groups.set.confirm(names[0], names[1]),
            Some(Judgement::SameEvent) => {
                groups.set.reject(names[0], names[1]);
                groups.of_one_event.insert(ordered);
            }
            Some(Judgement::NotSame) => groups.set.reject(names[0], names[1]),
            Some(Judgement::Withdrawn) | None => groups.set.withdraw(names[0], names[1]),
        }
        groups.chosen.remove(&(names[0], names[1]));
        groups.chosen.remove(&(names[1], names[0]));
        if let Some((original, at)) = chosen {
            let key = if original == *pair.a() { (names[0], names[1]) } else { (names[1], names[0]) };
            groups.chosen.insert(key, at);
        }
        Ok(())
    }
}
