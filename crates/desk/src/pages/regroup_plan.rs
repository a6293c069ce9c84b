//! The plan of an action on a group: the decisions, the rejected pairs that forbid the action, and the resulting groups.

use std::collections::BTreeMap;

use crate::form::FormFields;
use crate::pages::group::{MOST_JOINED, MOST_MERGED};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_core::schemes::hash::city64_bytes;
use doppel_engine::groups::{MemberShape, SupposedDecision};
use doppel_engine::{Engine, Error};
use doppel_http::cursor::CursorList;
use doppel_http::problem::Problem;
use doppel_store::Seq;
use doppel_store::decisions::Judgement;

/// The field of forms with the latest change before the visitor looked at the records.
pub(super) const AS_OF: &str = "as_of";

/// The changes that a visitor has seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenChanges {
    /// The latest change before the visitor looked at the records. A record that is replaced later is not decided.
    pub(super) as_of: Seq,
    /// The latest change at the beginning of the request. A page that the request shows is as of this change.
    pub(super) now: Seq,
}

impl SeenChanges {
    /// Reads the changes that the visitor of a form had seen. Without a form the visitor is about to see the present state.
    ///
    /// # Errors
    /// 404 if the collection does not exist any more; 422 if the field is malformed.
    pub(super) async fn of(engine: &Engine, collection: &CollectionName, form: &FormFields) -> Result<Self, Problem> {
        let now = engine.last_change(collection).await?;
        Ok(Self { as_of: form.position(AS_OF)?.unwrap_or(now), now })
    }
}

/// The kind of an action on a group. Each kind has its own route.
#[derive(Clone, Copy, Debug)]
pub enum GroupActionKind {
    /// The group is cut at a pair.
    Cut,
    /// All records of the group are declared one matter.
    Join,
    /// The group is merged under a chosen original.
    Merge,
}

#[derive(Clone, Debug)]
pub enum GroupAction {
    /// Declare these two records different matters.
    Cut(RecordId, RecordId),
    /// Declare all records of the group one matter.
    Join,
    /// Declare each record of the group the same matter as this record, which becomes the original of the group.
    Merge(RecordId),
}

impl GroupAction {
    /// Returns the judgement about each pair.
    pub fn judgement(&self) -> Judgement {
        match self {
            Self::Cut(..) => Judgement::NotSame,
            Self::Join | Self::Merge(_) => Judgement::Same,
        }
    }

    /// Returns the record that becomes the original of the group.
    pub(super) fn original(&self) -> Option<&RecordId> {
        match self {
            Self::Merge(original) => Some(original),
            Self::Cut(..) | Self::Join => None,
        }
    }

    /// Reads an action of this kind from a link or a form.
    ///
    /// # Errors
    /// 422 if the form of a cut contains no valid pair, or the form of a merge no valid id of the original.
    pub fn read(kind: GroupActionKind, form: &FormFields) -> Result<Self, Problem> {
        match kind {
            GroupActionKind::Cut => Self::cut(form),
            GroupActionKind::Join => Ok(Self::Join),
            GroupActionKind::Merge => Ok(Self::Merge(record_id("original", form)?)),
        }
    }

    fn cut(form: &FormFields) -> Result<Self, Problem> {
        let one = record_id("a", form)?;
        let other = record_id("b", form)?;
        if one == other {
            let detail = "a decision is about two different records";
            return Err(Problem::invalid_at("/b", ErrorCode::SameRecord, detail));
        }
        Ok(Self::Cut(one, other))
    }
}

pub(super) fn record_id(field: &str, form: &FormFields) -> Result<RecordId, Problem> {
    RecordId::new(form.raw(field).unwrap_or_default())
        .map_err(|reason| Problem::invalid_at(format!("/{field}"), ErrorCode::InvalidValue, reason))
}

#[derive(Clone, Debug)]
pub struct PlannedDecision {
    /// One record of the pair.
    pub one: RecordId,
    /// The other record of the pair.
    pub other: RecordId,
    /// Number of rulings about the pair.
    pub seen: usize,
    /// The judgement that holds now.
    pub before: Judgement,
}

/// The plan of an action.
pub struct RegroupPlan {
    pub action: GroupAction,
    pub group: RecordId,
    pub decisions: Vec<PlannedDecision>,
    /// Pairs of the group that a person rejected. They forbid declaring the group one matter.
    pub against: Vec<(RecordId, RecordId)>,
    /// The groups after the action.
    pub after: Vec<Vec<RecordId>>,
    /// The changes that the visitor has seen.
    pub(super) seen: SeenChanges,
    /// Hash of the decisions and the resulting groups.
    pub state: String,
}

impl RegroupPlan {
    /// Plans `action` for the group of the record `id`. `form` is the form of the preview; `None` for the preview itself.
    ///
    /// # Errors
    /// 404 if the record does not exist any more or is in no group; 409 if the group is too large; 422.
    pub async fn of(
        engine: &Engine,
        collection: &CollectionName,
        id: &RecordId,
        action: GroupAction,
        form: &FormFields,
    ) -> Result<Self, Problem> {
        let seen = SeenChanges::of(engine, collection, form).await?;
        let shape = engine.group_shape(collection, id, 0).await?;
        let pairs = match &action {
            GroupAction::Cut(one, other) => vec![(one.clone(), other.clone())],
            GroupAction::Join if shape.group.size <= MOST_JOINED => every_two(&shape.members),
            GroupAction::Merge(original) if shape.group.size <= MOST_MERGED => with_every(original, &shape.members)?,
            GroupAction::Join | GroupAction::Merge(_) => {
                let most = if matches!(action, GroupAction::Join) { MOST_JOINED } else { MOST_MERGED };
                let detail = format!("at most {most} records are called one matter at once");
                return Err(Problem::conflict(ErrorCode::GroupTooLarge, detail));
            }
        };
        let mut decisions = planned(engine, collection, pairs).await?;
        if let GroupAction::Cut(one, other) = &action {
            let is_link = shape.cut.iter().any(|pair| {
                is_pair_of(&pair.earlier, &pair.later, Some(one)) && is_pair_of(&pair.earlier, &pair.later, Some(other))
            });
            // A pair that was decided may have been cut by an equal form.
            let is_new = decisions.iter().all(|planned| planned.seen == 0);
            for id in [one, other] {
                if is_new && !is_link && !is_in_group(engine, collection, id, &shape.group.id).await? {
                    return Err(not_in_group("/a", "the record is not in this group"));
                }
            }
        }
        let mut against = Vec::new();
        if matches!(action, GroupAction::Join | GroupAction::Merge(_)) {
            let rejected = decisions.iter().filter(|planned| planned.before == Judgement::NotSame);
            against = rejected.map(|planned| (planned.one.clone(), planned.other.clone())).collect();
        }
        if matches!(action, GroupAction::Merge(_)) {
            // A rejected pair of two other members is not among the decisions.
            let rejected = shape.rejected.iter().map(|pair| (pair.earlier.clone(), pair.later.clone()));
            against.extend(rejected.filter(|(one, other)| !is_pair_of(one, other, action.original())));
        }
        // A ruling about one pair is needed to choose the original, even if all pairs are decided.
        let is_chosen = action.original().is_none_or(|original| *original == shape.group.original);
        let chooser = decisions.first().filter(|_| !is_chosen).cloned();
        decisions.retain(|planned| planned.before != action.judgement());
        if decisions.is_empty() {
            decisions.extend(chooser);
        }
        let same = action.judgement() == Judgement::Same;
        let supposed: Vec<SupposedDecision> = decisions
            .iter()
            .map(|planned: &PlannedDecision| SupposedDecision {
                one: planned.one.clone(),
                other: planned.other.clone(),
                same,
            })
            .collect();
        let after = engine.groups_if(collection, id, &supposed).await?;
        let state = state(&decisions, &after);
        Ok(Self { action, group: shape.group.id, decisions, against, after, seen, state })
    }

    /// Returns the hidden fields of the form: the state that the preview shows, and the pair of a cut.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("state", self.state.clone()), (AS_OF, CursorList::DeskForms.encode_seq(self.seen.now))];
        if let GroupAction::Cut(one, other) = &self.action {
            fields.extend([("a", one.to_string()), ("b", other.to_string())]);
        }
        fields.extend(self.action.original().map(|original| ("original", original.to_string())));
        fields
    }

    /// True if the cut does not separate its two records, because other pairs still connect them.
    pub fn is_held_together(&self) -> bool {
        let GroupAction::Cut(one, other) = &self.action else { return false };
        self.after.iter().any(|group| group.contains(one) && group.contains(other))
    }

    /// True if there are decisions to make and no rejected pairs forbid them.
    pub fn can_be_done(&self) -> bool {
        self.against.is_empty() && !self.decisions.is_empty()
    }
}

/// True if one of the two records is `original`.
fn is_pair_of(one: &RecordId, other: &RecordId, original: Option<&RecordId>) -> bool {
    [Some(one), Some(other)].contains(&original)
}

/// True if the record is in the group that has this id.
async fn is_in_group(
    engine: &Engine,
    collection: &CollectionName,
    id: &RecordId,
    group: &RecordId,
) -> Result<bool, Problem> {
    match engine.group_of(collection, id, 0).await {
        Ok(found) => Ok(found.group.id == *group),
        Err(Error::Ungrouped(_) | Error::UnknownRecord(..)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn not_in_group(pointer: &str, detail: &str) -> Problem {
    Problem::invalid_at(pointer, ErrorCode::NotInGroup, detail)
}

/// Returns the pairs of `original` and each other member.
///
/// # Errors
/// 422 if the record is not in the group.
fn with_every(original: &RecordId, members: &[MemberShape]) -> Result<Vec<(RecordId, RecordId)>, Problem> {
    if !members.iter().any(|member| member.id == *original) {
        return Err(not_in_group("/original", "the record is not in this group"));
    }
    let others = members.iter().filter(|member| member.id != *original);
    Ok(others.map(|other| (original.clone(), other.id.clone())).collect())
}

/// Returns all pairs of members.
fn every_two(members: &[MemberShape]) -> Vec<(RecordId, RecordId)> {
    members
        .iter()
        .enumerate()
        .flat_map(|(at, one): (usize, &MemberShape)| {
            let one = one.id.clone();
            members[at + 1..].iter().map(move |other| (one.clone(), other.id.clone()))
        })
        .collect()
}

/// Returns the planned decisions about these pairs, with the existing rulings.
pub(super) async fn planned(
    engine: &Engine,
    collection: &CollectionName,
    pairs: Vec<(RecordId, RecordId)>,
) -> Result<Vec<PlannedDecision>, Problem> {
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
    Ok(pairs
        .into_iter()
        .map(|pair: (RecordId, RecordId)| {
            let (seen, before) = known.get(&pair).copied().unwrap_or((0, Judgement::Withdrawn));
            PlannedDecision { one: pair.0, other: pair.1, seen, before }
        })
        .collect())
}

fn state(decisions: &[PlannedDecision], after: &[Vec<RecordId>]) -> String {
    let decided = decisions.iter().map(|planned| format!("{:?}", (&planned.one, &planned.other, planned.seen)));
    let text = format!("{:?}{after:?}", decided.collect::<Vec<_>>());
    format!("{:016x}", city64_bytes(text.as_bytes()))
}
