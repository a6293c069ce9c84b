//! What deciding about a group would do: which decisions would be made, what stands against them, and what the group would become.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use crate::console::form::Form;
use crate::console::pages::group::MOST_JOINED;
use crate::http::problem::Problem;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::violation::Violation;
use doppel_engine::Engine;
use doppel_engine::groups::{MemberShape, SupposedDecision};
use doppel_store::decisions::Judgement;

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// These two are not the same matter.
    Cut(RecordId, RecordId),
    /// All are one matter.
    Join,
}

impl Action {
    /// What would be decided about each pair.
    pub fn judgement(&self) -> Judgement {
        match self {
            Self::Cut(..) => Judgement::NotSame,
            Self::Join => Judgement::Same,
        }
    }

    /// The pair that a link or a form names.
    ///
    /// # Errors
    /// 422 where it names none.
    pub fn cut(form: &Form) -> Result<Self, Problem> {
        let id = |field: &str| {
            let invalid = |reason| Problem::invalid(vec![Violation::new(format!("/{field}"), "invalid_value", reason)]);
            RecordId::new(form.raw(field).unwrap_or_default()).map_err(invalid)
        };
        let (one, other) = (id("a")?, id("b")?);
        if one == other {
            let detail = "a decision is about two different records";
            return Err(Problem::invalid(vec![Violation::new("/b", "same_record", detail)]));
        }
        Ok(Self::Cut(one, other))
    }
}

/// A decision to be made.
#[derive(Clone, Debug)]
pub struct Planned {
    /// About this record ...
    pub one: RecordId,
    /// ... and this one.
    pub other: RecordId,
    /// How many rulings there are about the two.
    pub seen: usize,
    /// What holds.
    pub before: Judgement,
}

/// What would be done.
pub struct Plan {
    /// What is to be done.
    pub action: Action,
    /// The name of the group.
    pub group: RecordId,
    /// Each decision that is to be made.
    pub decisions: Vec<Planned>,
    /// Pairs that a person rejected, where all are to be one matter.
    pub against: Vec<(RecordId, RecordId)>,
    /// What the group would become.
    pub after: Vec<Vec<RecordId>>,
    /// A hash of all this.
    pub state: String,
}

impl Plan {
    /// What `action` would do to the group of the record `id`.
    ///
    /// # Errors
    /// 404 where the record is gone or in no group, 409 where the group is too large.
    pub async fn of(
        engine: &Engine,
        collection: &CollectionName,
        id: &RecordId,
        action: Action,
    ) -> Result<Self, Problem> {
        let shape = engine.group_shape(collection, id, 0).await?;
        let pairs = match &action {
            Action::Cut(one, other) => vec![(one.clone(), other.clone())],
            Action::Join if shape.group.size <= MOST_JOINED => every_two(&shape.members),
            Action::Join => {
                let detail = format!("at most {MOST_JOINED} records are called one matter at once");
                return Err(Problem::new(StatusCode::CONFLICT, "group_too_large", detail));
            }
        };
        let mut decisions = planned(engine, collection, pairs).await?;
        let mut against = Vec::new();
        if matches!(action, Action::Join) {
            let rejected = decisions.iter().filter(|planned| planned.before == Judgement::NotSame);
            against = rejected.map(|planned| (planned.one.clone(), planned.other.clone())).collect();
        }
        decisions.retain(|planned| planned.before != action.judgement());
        let same = action.judgement() == Judgement::Same;
        let supposed =
            |planned: &Planned| SupposedDecision { one: planned.one.clone(), other: planned.other.clone(), same };
        let supposed: Vec<SupposedDecision> = decisions.iter().map(supposed).collect();
        let after = engine.groups_if(collection, id, &supposed).await?;
        let state = state(&decisions, &after);
        Ok(Self { action, group: shape.group.id, decisions, against, after, state })
    }

    /// What the form that carries it out names: the state that is shown, and the pair of a cut.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("state", self.state.clone())];
        if let Action::Cut(one, other) = &self.action {
            fields.extend([("a", one.to_string()), ("b", other.to_string())]);
        }
        fields
    }

    /// Whether the two records of a cut stay in one group all the same.
    pub fn is_held_together(&self) -> bool {
        let Action::Cut(one, other) = &self.action else { return false };
        self.after.iter().any(|group| group.contains(one) && group.contains(other))
    }

    /// Whether there is something to do, and nothing against it.
    pub fn can_be_done(&self) -> bool {
        self.against.is_empty() && !self.decisions.is_empty()
    }
}

/// Every two of them.
fn every_two(members: &[MemberShape]) -> Vec<(RecordId, RecordId)> {
    let behind = |(at, one): (usize, &MemberShape)| {
        let one = one.id.clone();
        members[at + 1..].iter().map(move |other| (one.clone(), other.id.clone()))
    };
    members.iter().enumerate().flat_map(behind).collect()
}

/// The decisions about these pairs, with what is known of them.
async fn planned(
    engine: &Engine,
    collection: &CollectionName,
    pairs: Vec<(RecordId, RecordId)>,
) -> Result<Vec<Planned>, Problem> {
    let mut known: BTreeMap<(RecordId, RecordId), (usize, Judgement)> = BTreeMap::new();
    let mut asked: Vec<&RecordId> = pairs.iter().map(|(one, _)| one).collect();
    asked.dedup();
    for id in asked {
        for decision in engine.decisions_about(collection, id).await? {
            let said = (decision.history.len(), decision.judgement);
            known.insert((decision.a.clone(), decision.b.clone()), said);
            known.insert((decision.b, decision.a), said);
        }
    }
    let plan = |pair: (RecordId, RecordId)| {
        let (seen, before) = known.get(&pair).copied().unwrap_or((0, Judgement::Withdrawn));
        Planned { one: pair.0, other: pair.1, seen, before }
    };
    Ok(pairs.into_iter().map(plan).collect())
}

fn state(decisions: &[Planned], after: &[Vec<RecordId>]) -> String {
    let decided = decisions.iter().map(|planned| format!("{:?}", (&planned.one, &planned.other, planned.seen)));
    let text = format!("{:?}{after:?}", decided.collect::<Vec<_>>());
    format!("{:016x}", city64_bytes(text.as_bytes()))
}
