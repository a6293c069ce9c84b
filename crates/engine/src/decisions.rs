//! What people say about pairs of records, and how it reaches verdicts.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{Engine, Error, Result, off_thread, rejudge};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::violation::Violation;
use doppel_store::decisions::{Decision, Judgement, RecordPair, Ruled, Ruling};
use doppel_store::generations::{Pairs, Phase};
use doppel_store::request::one_request;
use doppel_store::{GenerationId, Seq, StoreError};

/// Longest name of a person who decides, in characters.
pub const MAX_BY_CHARS: usize = 200;
/// Longest note on a decision, in characters.
pub const MAX_NOTE_CHARS: usize = 2000;
/// Decisions read at once.
const PIECE: usize = 1_000;

/// What holds between one record and others.
#[derive(Debug, Default)]
pub(super) struct Rulings(HashMap<RecordId, bool>);

impl Rulings {
    /// Whether `other` was said to be the same matter; `None` when nobody said.
    pub(super) fn of(&self, other: &RecordId) -> Option<bool> {
        // Most records have none: no hashing then.
        if self.0.is_empty() { None } else { self.0.get(other).copied() }
    }

    /// The records that were said to be the same matter, or not to be it.
    pub(super) fn that_are(&self, same: bool) -> Vec<RecordId> {
        self.0.iter().filter(|(_, is_same)| **is_same == same).map(|(id, _)| id.clone()).collect()
    }
}

/// A decision as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DecisionView {
    /// The record whose id sorts first.
    pub a: RecordId,
    /// The other.
    pub b: RecordId,
    /// What holds.
    pub judgement: Judgement,
    /// All that was ruled, in order; the last one holds.
    pub history: Vec<Ruling>,
}

impl From<Decision> for DecisionView {
    fn from(decision: Decision) -> Self {
        let judgement = decision.rulings.last().map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
        let (a, b) = (decision.pair.a().clone(), decision.pair.b().clone());
        Self { a, b, judgement, history: decision.rulings }
    }
}

/// What a person says, apart from when.
#[derive(Clone, Debug)]
pub struct Opinion {
    /// What they say.
    pub judgement: Judgement,
    /// Who they are.
    pub by: Option<String>,
    /// Why they say it.
    pub note: Option<String>,
}

impl Opinion {
    fn check(&self) -> Result<()> {
        let long = |text: &Option<String>, most: usize| text.as_ref().is_some_and(|text| text.chars().count() > most);
        let too_long =
            |pointer: &str, most| Violation::new(pointer, "too_long", format!("give at most {most} characters"));
        let mut found = Vec::new();
        if long(&self.by, MAX_BY_CHARS) {
            found.push(too_long("/by", MAX_BY_CHARS));
        }
        if long(&self.note, MAX_NOTE_CHARS) {
            found.push(too_long("/note", MAX_NOTE_CHARS));
        }
        if found.is_empty() { Ok(()) } else { Err(Error::Invalid(found)) }
    }
}

/// What came of the decision of a person who had seen what was decided before.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided {
    /// It holds.
    Stored(DecisionView),
    /// Somebody else decided in the meantime: theirs holds, and nothing was stored.
    Meanwhile(DecisionView),
}

fn pair(one: &RecordId, other: &RecordId) -> Result<RecordPair> {
    RecordPair::new(one.clone(), other.clone()).ok_or_else(|| {
        let detail = "a decision is about two different records";
        Error::Invalid(vec![Violation::new("/path/b", "same_record", detail)])
    })
}

impl Engine {
    /// Records what a person says of two stored records. It holds from the next question on, whatever the scores say, until it
    /// is ruled again or withdrawn.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Invalid`] for one record with itself and for names or
    /// notes that are too long; [`Error::Store`] with `TooManyRulings`.
    pub async fn decide(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
        opinion: Opinion,
    ) -> Result<DecisionView> {
        match self.rule(collection, (one, other), opinion, None).await? {
            Decided::Stored(view) => Ok(view),
            // Without a number of rulings that were seen, only a withdrawal is refused.
            Decided::Meanwhile(_) => Err(Error::Crashed),
        }
    }

    /// Takes back what was said of two records: the scores decide again. The history stays.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownDecision`]; [`Error::Invalid`] as for [`Engine::decide`]; [`Error::Store`]
    /// with `TooManyRulings`.
    pub async fn withdraw(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
        opinion: Opinion,
    ) -> Result<DecisionView> {
        let opinion = Opinion { judgement: Judgement::Withdrawn, ..opinion };
        self.decide(collection, one, other, opinion).await
    }

    /// As [`Engine::decide`] and [`Engine::withdraw`], for a person who had seen `seen` rulings about the pair: nothing is stored if the
    /// pair has another number of rulings by now, also where another instance stored them. The last ruling said again is no other
    /// ruling.
    ///
    /// # Errors
    /// Those of the two; [`Error::UnknownDecision`] also where the rulings that were seen are gone with a record.
    pub async fn decide_having_seen(
        &self,
        collection: &CollectionName,
        pair: (&RecordId, &RecordId),
        opinion: Opinion,
        seen: usize,
    ) -> Result<Decided> {
        self.rule(collection, pair, opinion, Some(seen)).await
    }

    /// All that was decided about a record and others, withdrawn decisions too, ordered by the other id.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn decisions_about(&self, collection: &CollectionName, id: &RecordId) -> Result<Vec<DecisionView>> {
        Ok(self.store.decisions_of(collection, id).await?.into_iter().map(DecisionView::from).collect())
    }

    /// Records whether the scores pair two records, in all complete generations. While a decision held, the later one may have been
    /// registered as it said. Where no text is kept, that stays.
    async fn pair_by_score(&self, collection: &CollectionName, one: &RecordId, other: &RecordId) -> Result<()> {
        // One at a time: the pairs of a record are read, changed and written.
        let _turn = self.pairing.lock().await;
        let (one, other) = (self.store.record(collection, one).await?, self.store.record(collection, other).await?);
        // A record that is gone is in no pair.
        let (Some(one), Some(other)) = (one, other) else { return Ok(()) };
        let (earlier, later) = if one.seq < other.seq { (one, other) } else { (other, one) };
        let live = self.context(collection).await?;
        if !live.state.settings.keeps_text() {
            // Nothing can be signed again: what was recorded when the later one came stands.
            self.groups.outdate(collection);
            return Ok(());
        }
        let ready = live.state.others.iter().filter(|other| other.phase == Phase::Ready);
        let beside = ready.filter_map(|other| live.seen_from(other.id)).map(Arc::new);
        for context in std::iter::once(Arc::clone(&live)).chain(beside) {
            let generation = context.state.generation;
            let (a, b) = (earlier.clone(), later.clone());
            let matching = off_thread(move || Ok(rejudge::would_match(&context, &b, &a))).await?;
            self.put_pair(collection, generation, (earlier.seq, later.seq), matching).await?;
        }
        self.groups.outdate(collection);
        Ok(())
    }

    async fn put_pair(
        &self,
        collection: &CollectionName,
        generation: GenerationId,
        (earlier, later): (Seq, Seq),
        matching: bool,
    ) -> Result<()> {
        let recorded = self.store.pairs(collection, generation, later.before(1), 1).await?;
        let recorded = recorded.into_iter().find(|pairs| pairs.seq == later);
        let mut pairs = recorded.unwrap_or(Pairs { seq: later, earlier: Vec::new() });
        match (pairs.earlier.binary_search(&earlier), matching) {
            (Err(place), true) => pairs.earlier.insert(place, earlier),
            (Ok(place), false) => drop(pairs.earlier.remove(place)),
            _ => return Ok(()),
        }
        Ok(self.store.put_pairs(collection, generation, vec![pairs]).await?)
    }

    /// Shows all decisions of a collection, withdrawn ones too.
    pub(super) async fn each_decision(
        &self,
        collection: &CollectionName,
        mut show: impl FnMut(Decision) + Send,
    ) -> Result<()> {
        let mut after: Option<RecordPair> = None;
        loop {
            let piece = self.store.decisions(collection, after.as_ref(), PIECE).await?;
            let Some(last) = piece.last() else { return Ok(()) };
            after = Some(last.pair.clone());
            piece.into_iter().for_each(&mut show);
        }
    }

    /// Adds a ruling. The store looks at the records and the rulings in the same step in which it stores the ruling.
    async fn rule(
        &self,
        collection: &CollectionName,
        (one, other): (&RecordId, &RecordId),
        opinion: Opinion,
        seen: Option<usize>,
    ) -> Result<Decided> {
        opinion.check()?;
        let pair = pair(one, other)?;
        let Opinion { judgement, by, note } = opinion;
        let ruling = Ruling { judgement, by, note, at: (self.options.now)() };
        one_request(async {
            let view = match self.store.decide(collection, pair, ruling, seen).await {
                Ok(Ruled::Added(decision) | Ruled::Repeated(decision)) => DecisionView::from(decision),
                Ok(Ruled::Refused(Some(decision))) => return Ok(Decided::Meanwhile(decision.into())),
                Ok(Ruled::Refused(None)) => return Err(Error::UnknownDecision(collection.clone())),
                Err(StoreError::UnknownRecord(id)) => return Err(Error::UnknownRecord(collection.clone(), id)),
                Err(error) => return Err(error.into()),
            };
            if judgement == Judgement::Withdrawn {
                self.pair_by_score(collection, one, other).await?;
            }
            Ok(Decided::Stored(view))
        })
        .await
    }

    /// What was said of two records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownDecision`]; [`Error::Invalid`] for one record with itself.
    pub async fn decision(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
    ) -> Result<DecisionView> {
        let pair = pair(one, other)?;
        let found = self.store.decision(collection, &pair).await?;
        found.map(DecisionView::from).ok_or_else(|| Error::UnknownDecision(collection.clone()))
    }

    /// Decisions after the pair `after`, ordered by their ids, at most `limit`; and whether there may be more.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn decisions(
        &self,
        collection: &CollectionName,
        after: Option<&RecordPair>,
        limit: usize,
    ) -> Result<(Vec<DecisionView>, bool)> {
        let mut found = self.store.decisions(collection, after, limit + 1).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found.into_iter().map(DecisionView::from).collect(), more))
    }

    /// What holds between `id` and other records.
    pub(super) async fn rulings(&self, collection: &CollectionName, id: Option<&RecordId>) -> Result<Rulings> {
        let Some(id) = id else { return Ok(Rulings::default()) };
        let decisions = self.store.decisions_of(collection, id).await?;
        let holding =
            decisions.iter().filter_map(|decision| Some((decision.pair.other(id)?.clone(), decision.same()?)));
        Ok(Rulings(holding.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Desk, id, opinion};

    #[tokio::test]
    async fn who_has_not_seen_the_last_word_changes_nothing_and_is_told_it() {
        let desk = Desk::with(&["a", "b"]).await;
        let (a, b) = (id("a"), id("b"));
        let decide =
            |judgement, by, seen| desk.engine.decide_having_seen(&desk.name, (&a, &b), opinion(judgement, by), seen);
        assert!(matches!(decide(Judgement::NotSame, "first", 0).await.unwrap(), Decided::Stored(_)));
        let Decided::Meanwhile(view) = decide(Judgement::Same, "second", 0).await.unwrap() else {
            panic!("the second had not seen the first")
        };
        assert_eq!((view.judgement, view.history.len()), (Judgement::NotSame, 1));
        assert_eq!(desk.engine.decision(&desk.name, &b, &a).await.unwrap(), view);
        assert!(matches!(decide(Judgement::NotSame, "first", 0).await.unwrap(), Decided::Stored(_)), "pressed twice");
        let Decided::Stored(view) = decide(Judgement::Withdrawn, "second", 1).await.unwrap() else {
            panic!("now the second has seen it")
        };
        assert_eq!((view.judgement, view.history.len()), (Judgement::Withdrawn, 2));
        let about = desk.engine.decisions_about(&desk.name, &b).await.unwrap();
        assert_eq!(about, [view]);
    }
}
