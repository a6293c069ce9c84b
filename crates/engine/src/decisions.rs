//! Decisions of people about pairs of records, and their effect on verdicts.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::boxed;
use crate::matcher::would_match;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_core::violation::Violation;
use doppel_store::decisions::{Decision, Judgement, RecordPair, Ruling, RulingOutcome, SeenState};
use doppel_store::generations::{GenerationPhase, RecordMatches};
use doppel_store::request::one_request;
use doppel_store::{GenerationId, Seq, StoreError};

/// Longest name of a person who decides, in characters.
pub const MAX_BY_CHARS: usize = 200;
/// Longest note on a decision, in characters.
pub const MAX_NOTE_CHARS: usize = 2000;
/// Number of decisions that are read at once.
const PIECE: usize = 1_000;

/// The decisions that hold between one record and other records.
#[derive(Debug, Default)]
pub(super) struct RecordRulings(HashMap<RecordId, bool>);

impl RecordRulings {
    /// True if nobody decided about the record.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the decision about `other`: true for the same matter; `None` if nobody decided.
    pub(super) fn of(&self, other: &RecordId) -> Option<bool> {
        // Most records have no decisions, so that no hash is needed.
        if self.0.is_empty() { None } else { self.0.get(other).copied() }
    }

    /// Returns the records about which people decided `same`, or did not.
    pub(super) fn that_are(&self, same: bool) -> Vec<RecordId> {
        self.0.iter().filter(|(_, is_same)| **is_same == same).map(|(id, _)| id.clone()).collect()
    }
}

/// The decisions about two records.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DecisionView {
    /// The first record of the pair, in the order of ids.
    pub a: RecordId,
    /// The other record of the pair.
    pub b: RecordId,
    /// The valid judgement.
    pub judgement: Judgement,
    /// All rulings in the order of time. The last ruling is valid.
    pub history: Vec<Ruling>,
}

impl From<Decision> for DecisionView {
    fn from(decision: Decision) -> Self {
        let judgement = decision.rulings.last().map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
        let a = decision.pair.a().clone();
        let b = decision.pair.b().clone();
        Self { a, b, judgement, history: decision.rulings }
    }
}

/// A person's decision, without its time.
#[derive(Clone, Debug)]
pub struct Opinion {
    pub judgement: Judgement,
    /// Name of the person.
    pub by: Option<String>,
    /// Reason for the judgement.
    pub note: Option<String>,
}

impl Opinion {
    fn check(&self) -> Result<()> {
        let mut found = Vec::new();
        found.extend(too_long("/by", self.by.as_deref(), MAX_BY_CHARS));
        found.extend(too_long("/note", self.note.as_deref(), MAX_NOTE_CHARS));
        if found.is_empty() { Ok(()) } else { Err(Error::Invalid(found)) }
    }
}

/// Returns a violation if `text` is longer than `most` characters.
pub(super) fn too_long(pointer: &str, text: Option<&str>, most: usize) -> Option<Violation> {
    let is_long = text.is_some_and(|text| text.chars().count() > most);
    is_long.then(|| Violation::new(pointer, ErrorCode::TooLong, format!("give at most {most} characters")))
}

/// A ruling to add.
struct WantedRuling {
    opinion: Opinion,
    /// The record of the pair that becomes the original of its group.
    original: Option<RecordId>,
    /// The state of the pair that the person had seen, if the caller states it.
    seen: Option<SeenState>,
}

/// The result of a decision by a person who had seen the earlier rulings.
#[derive(Clone, Debug, PartialEq)]
pub enum DecisionOutcome {
    /// The decision was stored and holds.
    Stored(DecisionView),
    /// Another person decided in the meantime. Their decision holds, and nothing was stored.
    Meanwhile(DecisionView),
    /// A record of the pair was replaced in the meantime, and nothing was stored. The value is the earlier decision about the pair.
    Replaced(Option<DecisionView>),
}

fn pair(one: &RecordId, other: &RecordId) -> Result<RecordPair> {
    RecordPair::new(one.clone(), other.clone()).ok_or_else(|| {
        let detail = "a decision is about two different records";
        Error::Invalid(vec![Violation::new("/path/b", ErrorCode::SameRecord, detail)])
    })
}

impl Engine {
    /// Records a person's decision about two stored records. It holds from the next request on, independent of the scores, until it is
    /// replaced or withdrawn.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Invalid`] for a record with itself and for names or notes that are
    /// too long; [`Error::Store`] with `TooManyRulings`.
    #[boxed]
    pub async fn decide(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
        opinion: Opinion,
    ) -> Result<DecisionView> {
        let wanted = WantedRuling { opinion, original: None, seen: None };
        match self.rule(collection, one, other, wanted).await? {
            DecisionOutcome::Stored(view) => Ok(view),
            // If the caller states no seen state, only a withdrawal is refused.
            DecisionOutcome::Meanwhile(_) | DecisionOutcome::Replaced(_) => Err(Error::Crashed),
        }
    }

    /// Withdraws the decision about two records: the scores decide again. The history stays.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownDecision`]; [`Error::Invalid`] as for [`Engine::decide`]; [`Error::Store`] with
    /// `TooManyRulings`.
    #[boxed]
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

    /// Records or withdraws a decision for a person who had seen the pair in the state `seen`. Nothing is stored if the pair has another
    /// number of rulings by now or a record was replaced, also if this happened on another instance. Repeating the last ruling does not
    /// count as another ruling.
    ///
    /// # Errors
    /// The errors of [`Engine::decide`] and [`Engine::withdraw`]; [`Error::UnknownDecision`] also if the rulings were deleted with a
    /// record.
    #[boxed]
    pub async fn decide_having_seen(
        &self,
        collection: &CollectionName,
        pair: (&RecordId, &RecordId),
        opinion: Opinion,
        seen: SeenState,
    ) -> Result<DecisionOutcome> {
        let wanted = WantedRuling { opinion, original: None, seen: Some(seen) };
        self.rule(collection, pair.0, pair.1, wanted).await
    }

    /// Records a decision as [`Engine::decide_having_seen`] does, and the record that the person chose as the original of the group.
    ///
    /// # Errors
    /// The errors of [`Engine::decide_having_seen`].
    #[boxed]
    pub async fn decide_naming_original(
        &self,
        collection: &CollectionName,
        pair: (&RecordId, &RecordId),
        opinion: Opinion,
        original: Option<RecordId>,
        seen: SeenState,
    ) -> Result<DecisionOutcome> {
        self.rule(collection, pair.0, pair.1, WantedRuling { opinion, original, seen: Some(seen) }).await
    }

    /// Returns all decisions about a record and other records, including withdrawn decisions, ordered by the other id.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn decisions_about(&self, collection: &CollectionName, id: &RecordId) -> Result<Vec<DecisionView>> {
        Ok(self.store.decisions_of(collection, id).await?.into_iter().map(DecisionView::from).collect())
    }

    /// Records in all complete generations whether the scores pair two records. While a decision held, the later record may have been
    /// registered with the pair that the decision required. If the collection keeps no text, the recorded pairs stay.
    async fn pair_by_score(&self, collection: &CollectionName, one: &RecordId, other: &RecordId) -> Result<()> {
        // The lock is needed because the pairs of a record are read, changed and written.
        let _turn = self.pairing.lock().await;
        let one = self.store.record(collection, one).await?;
        let other = self.store.record(collection, other).await?;
        // A record that is gone belongs to no pair.
        let (Some(one), Some(other)) = (one, other) else { return Ok(()) };
        let (earlier, later) = if one.seq < other.seq { (one, other) } else { (other, one) };
        let live = self.context(collection).await?;
        if !live.state.settings.keeps_text() {
            // No text can be signed again: the pairs that were recorded at the later record's registration stay.
            self.groups.outdate(collection);
            return Ok(());
        }
        let ready = live.state.others.iter().filter(|other| other.phase == GenerationPhase::Ready);
        let standby = ready.filter_map(|other| live.seen_from(other.id)).map(Arc::new);
        for context in std::iter::once(Arc::clone(&live)).chain(standby) {
            let generation = context.state.generation;
            let a = earlier.clone();
            let b = later.clone();
            let matching = off_thread(move || Ok(would_match(&context, &b, &a))).await?;
            self.put_pair(collection, generation, earlier.seq, later.seq, matching).await?;
        }
        self.groups.outdate(collection);
        Ok(())
    }

    async fn put_pair(
        &self,
        collection: &CollectionName,
        generation: GenerationId,
        earlier: Seq,
        later: Seq,
        matching: bool,
    ) -> Result<()> {
        let recorded = self.store.pairs(collection, generation, later.before(1), 1).await?;
        let recorded = recorded.into_iter().find(|pairs| pairs.seq == later);
        let mut pairs = recorded.unwrap_or(RecordMatches { seq: later, earlier: Vec::new() });
        match (pairs.earlier.binary_search(&earlier), matching) {
            (Err(place), true) => pairs.earlier.insert(place, earlier),
            (Ok(place), false) => drop(pairs.earlier.remove(place)),
            _ => return Ok(()),
        }
        Ok(self.store.put_pairs(collection, generation, vec![pairs]).await?)
    }

    /// Calls `show` for all decisions of a collection, including withdrawn decisions.
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

    /// Adds a ruling. The store reads the records and the rulings in the same step in which it stores the ruling.
    async fn rule(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
        wanted: WantedRuling,
    ) -> Result<DecisionOutcome> {
        let WantedRuling { opinion, original, seen } = wanted;
        opinion.check()?;
        let pair = pair(one, other)?;
        let Opinion { judgement, by, note } = opinion;
        let ruling = Ruling { judgement, by, note, at: (self.options.now)(), original };
        one_request(async {
            // The pair follows the scores already before the withdrawal, because the service may end between the two steps, and a decision
            // counts more than a recorded pair. The records may change in between, so that the pair is recorded again afterwards.
            if judgement == Judgement::Withdrawn && self.decision(collection, one, other).await.is_ok() {
                self.pair_by_score(collection, one, other).await?;
            }
            let view = match self.store.decide(collection, pair, ruling, seen).await {
                Ok(RulingOutcome::Added(decision) | RulingOutcome::Repeated(decision)) => DecisionView::from(decision),
                Ok(RulingOutcome::Refused(Some(decision))) => return Ok(DecisionOutcome::Meanwhile(decision.into())),
                Ok(RulingOutcome::Replaced(decision)) => {
                    return Ok(DecisionOutcome::Replaced(decision.map(DecisionView::from)));
                }
                Ok(RulingOutcome::Refused(None)) => return Err(Error::UnknownDecision(collection.clone())),
                Err(StoreError::UnknownRecord(id)) => return Err(Error::UnknownRecord(collection.clone(), id)),
                Err(error) => return Err(error.into()),
            };
            if judgement == Judgement::Withdrawn {
                self.pair_by_score(collection, one, other).await?;
            }
            Ok(DecisionOutcome::Stored(view))
        })
        .await
    }

    /// Returns the decision about two records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownDecision`]; [`Error::Invalid`] for a record with itself.
    #[boxed]
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

    /// Returns decisions after the pair `after`, ordered by their ids, at most `limit`; and true if there are more.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
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

    /// Returns the decisions that hold between `id` and other records.
    pub(super) async fn rulings(&self, collection: &CollectionName, id: Option<&RecordId>) -> Result<RecordRulings> {
        let Some(id) = id else { return Ok(RecordRulings::default()) };
        let decisions = self.store.decisions_of(collection, id).await?;
        let holding =
            decisions.iter().filter_map(|decision| Some((decision.pair.other(id)?.clone(), decision.same()?)));
        Ok(RecordRulings(holding.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LetterDesk, id, opinion};

    #[tokio::test]
    async fn a_decision_is_refused_if_the_person_has_not_seen_the_last_ruling() {
        let desk = LetterDesk::with(&["a", "b"]).await;
        let a = id("a");
        let b = id("b");
        let decide = |judgement, by, rulings| {
            let seen = SeenState { rulings, as_of: Seq::MAX };
            desk.engine.decide_having_seen(&desk.name, (&a, &b), opinion(judgement, by), seen)
        };
        assert!(matches!(decide(Judgement::NotSame, "first", 0).await.unwrap(), DecisionOutcome::Stored(_)));
        let DecisionOutcome::Meanwhile(view) = decide(Judgement::Same, "second", 0).await.unwrap() else {
            panic!("the second had not seen the first")
        };
        assert_eq!((view.judgement, view.history.len()), (Judgement::NotSame, 1));
        assert_eq!(desk.engine.decision(&desk.name, &b, &a).await.unwrap(), view);
        let repeated = decide(Judgement::NotSame, "first", 0).await.unwrap();
        assert!(matches!(repeated, DecisionOutcome::Stored(_)), "the same ruling again");
        let DecisionOutcome::Stored(view) = decide(Judgement::Withdrawn, "second", 1).await.unwrap() else {
            panic!("now the second has seen it")
        };
        assert_eq!((view.judgement, view.history.len()), (Judgement::Withdrawn, 2));
        let about = desk.engine.decisions_about(&desk.name, &b).await.unwrap();
        assert_eq!(about, [view]);
    }
}
