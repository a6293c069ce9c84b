//! Decisions about whole groups: merging groups, splitting a group, and choosing its original.
//!
//! Each of these operations is a series of decisions about pairs ([`crate::decisions`]), so that exports, snapshots and the change feed
//! contain it. The operations are not atomic. A caller whose request was interrupted sends the request again; the decisions that exist
//! already are not repeated.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use utoipa::ToSchema;

use super::{CollectionGroups, GroupDetail, GroupView};
use crate::boxed;
use crate::decisions::{DecisionOutcome, Opinion};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_core::violation::Violation;
use doppel_store::Seq;
use doppel_store::decisions::{Judgement, SeenState};

/// Largest number of records that one request may name.
pub const MAX_NAMED: usize = 1_000;
/// Largest number of pairs that a split rejects: some seconds on a store that is a server.
pub const MAX_SPLIT_PAIRS: usize = 1_000;

/// Number of attempts to confirm a pair about which others decide at the same time.
const CONFIRM_TRIES: usize = 3;
/// Number of days for the recent petitioners in the answers.
const DAYS: u32 = 30;

/// The author and the reason of an operation on groups.
#[derive(Clone, Debug, Default)]
pub struct RegroupAuthor {
    /// Name of the person.
    pub by: Option<String>,
    /// Reason for the decisions.
    pub note: Option<String>,
}

impl RegroupAuthor {
    pub(crate) fn opinion(&self, judgement: Judgement) -> Opinion {
        Opinion { judgement, by: self.by.clone(), note: self.note.clone() }
    }
}

/// The decisions of an operation on groups, and the resulting groups.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Regrouping {
    /// Number of decisions that the operation made.
    pub decisions: usize,
    /// The groups that contain the named records after the operation, sorted by first record. Records without a group are left out.
    pub groups: Vec<GroupView>,
}

/// Two records about which an operation decides.
pub type RecordIds = (RecordId, RecordId);

impl Engine {
    /// Declares the groups of these records, at least two, one matter. A record without a group counts as a group of one record. The operation
    /// confirms that the group of each further record and the group of the first record are the same matter.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Invalid`] for fewer than two records or too many;
    /// [`Error::RejectedPair`] if a person decided that two records of these groups are not the same matter.
    #[boxed]
    pub async fn merge_groups(
        &self,
        collection: &CollectionName,
        ids: &[RecordId],
        author: &RegroupAuthor,
    ) -> Result<Regrouping> {
        check_named("/records", ids, 2)?;
        self.all_stored(collection, ids).await?;
        let named = ids.to_vec();
        let pairs = self.with_groups(collection, move |groups| groups.pairs_to_merge(&named)).await?;
        for (one, other) in &pairs {
            self.confirm(collection, one, other, author.opinion(Judgement::Same), None).await?;
        }
        self.regrouped(collection, ids, pairs.len()).await
    }

    /// Separates records from the other members of the group of `id`: each pair that links a named record with another member is rejected.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`]; [`Error::Invalid`] if no record is named, too many are,
    /// a named record is not in the group, or no member is left; [`Error::TooManyLinks`] for more than [`MAX_SPLIT_PAIRS`] pairs.
    #[boxed]
    pub async fn split_group(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        records: &[RecordId],
        author: &RegroupAuthor,
    ) -> Result<Regrouping> {
        check_named("/records", records, 1)?;
        self.stored(collection, id).await?;
        let group = id.clone();
        let named = records.to_vec();
        let name = collection.clone();
        let pairs = self.with_groups(collection, move |groups| groups.pairs_to_split(name, &group, &named)).await?;
        for (one, other) in &pairs {
            self.decide(collection, one, other, author.opinion(Judgement::NotSame)).await?;
        }
        let mut ids = records.to_vec();
        ids.push(id.clone());
        ids.extend(pairs.iter().map(|(_, other)| other.clone()));
        self.regrouped(collection, &ids, pairs.len()).await
    }

    /// Chooses the original of the group of `id`; with `None` the earliest member is the original again. The choice is a part of the decision
    /// about the chosen record and another member, and ends with the next decision about these two.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`]; [`Error::Invalid`] if the record is not in the group;
    /// [`Error::RejectedPair`] if a person decided of the chosen record and each other member that they are not the same matter.
    #[boxed]
    pub async fn choose_original(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        original: Option<&RecordId>,
        author: &RegroupAuthor,
    ) -> Result<GroupDetail> {
        self.stored(collection, id).await?;
        let group = id.clone();
        let chosen = original.cloned();
        let name = collection.clone();
        match chosen {
            Some(chosen) => {
                let wanted = chosen.clone();
                let partner = self
                    .with_groups(collection, move |groups| groups.partner_of_original(name, &group, &wanted))
                    .await?;
                // Without a partner the record is the chosen original already.
                if let Some(other) = partner {
                    let opinion = author.opinion(Judgement::Same);
                    self.confirm(collection, &chosen, &other, opinion, Some(chosen.clone())).await?;
                }
            }
            None => {
                let pairs = self.with_groups(collection, move |groups| groups.choices_in(name, &group)).await?;
                for (one, other) in pairs {
                    self.confirm(collection, &one, &other, author.opinion(Judgement::Same), None).await?;
                }
            }
        }
        self.group_of(collection, id, DAYS).await
    }

    /// Decides that two records are the same matter or report one event, unless a person has decided the opposite. A pair that is the same matter
    /// by decision stays unchanged.
    ///
    /// # Errors
    /// [`Error::RejectedPair`], also if the other decision is made at the same time; the errors of [`Engine::decide`].
    pub(crate) async fn confirm(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
        opinion: Opinion,
        original: Option<RecordId>,
    ) -> Result<()> {
        for _ in 0..CONFIRM_TRIES {
            let before = match self.decision(collection, one, other).await {
                Err(Error::UnknownDecision(_)) => None,
                decision => Some(decision?),
            };
            match before.as_ref().map(|before| before.judgement) {
                Some(Judgement::NotSame) => break,
                Some(Judgement::Same) if opinion.judgement == Judgement::SameEvent => return Ok(()),
                _ => {}
            }
            // The caller names records, not texts, so that a replaced record changes nothing.
            let seen = SeenState { rulings: before.map_or(0, |before| before.history.len()), as_of: Seq::MAX };
            let outcome =
                self.decide_naming_original(collection, (one, other), opinion.clone(), original.clone(), seen).await?;
            if matches!(outcome, DecisionOutcome::Stored(_)) {
                return Ok(());
            }
        }
        Err(Error::RejectedPair(one.clone(), other.clone()))
    }

    pub(crate) async fn all_stored(&self, collection: &CollectionName, ids: &[RecordId]) -> Result<()> {
        for id in ids {
            self.stored(collection, id).await?;
        }
        Ok(())
    }

    /// Returns the groups of the named records.
    async fn regrouped(&self, collection: &CollectionName, ids: &[RecordId], decisions: usize) -> Result<Regrouping> {
        let since = self.days_ago(DAYS);
        let ids = ids.to_vec();
        self.with_groups(collection, move |groups| {
            let found = ids.iter().filter_map(|id| groups.group_of(id));
            let mut found: Vec<_> = found.collect();
            found.sort_by_key(|group| group.members[0]);
            found.dedup_by_key(|group| group.members[0]);
            Ok(Regrouping { decisions, groups: found.iter().map(|group| groups.view(group, since)).collect() })
        })
        .await
    }
}

pub(crate) fn check_named(pointer: &str, ids: &[RecordId], least: usize) -> Result<()> {
    let distinct: BTreeSet<&RecordId> = ids.iter().collect();
    if distinct.len() < least || ids.len() > MAX_NAMED {
        let detail = format!("name {least} to {MAX_NAMED} different records");
        return Err(Error::Invalid(vec![Violation::new(pointer, ErrorCode::OutOfRange, detail)]));
    }
    Ok(())
}

fn not_in_group(pointer: &str) -> Error {
    let detail = "the record is not in this group; GET of the group lists its members";
    Error::Invalid(vec![Violation::new(pointer, ErrorCode::NotInGroup, detail)])
}

impl CollectionGroups {
    /// Returns the pairs that must be confirmed so that the groups of these records are one.
    fn pairs_to_merge(&self, ids: &[RecordId]) -> Result<Vec<RecordIds>> {
        let mut originals: Vec<RecordId> = Vec::new();
        // The number of the group of each member.
        let mut members: BTreeMap<u64, usize> = BTreeMap::new();
        for (number, id) in ids.iter().enumerate() {
            let group = self.group_of(id);
            let original = group.as_ref().map_or_else(|| id.clone(), |group| self.id(self.original(group)));
            if originals.contains(&original) {
                continue;
            }
            originals.push(original);
            match group {
                Some(group) => members.extend(group.members.into_iter().map(|seq| (seq, number))),
                None => members.extend(self.by_id.get(id).map(|seq| (seq.0, number))),
            }
        }
        if originals.len() < 2 {
            return Ok(Vec::new());
        }
        let seqs: Vec<u64> = members.keys().copied().collect();
        let rejected = self.set.rejected_within(&seqs);
        // A rejected pair inside one of the groups does not concern the merge.
        if let Some((one, other)) = rejected.iter().find(|(one, other)| members.get(one) != members.get(other)) {
            return Err(Error::RejectedPair(self.id(*one), self.id(*other)));
        }
        let first = originals.remove(0);
        Ok(originals.into_iter().map(|other| (first.clone(), other)).collect())
    }

    /// Returns the pairs that link the named members with the other members of the group.
    fn pairs_to_split(&self, name: CollectionName, id: &RecordId, named: &[RecordId]) -> Result<Vec<RecordIds>> {
        let group = self.group_of(id).ok_or(Error::Ungrouped(name))?;
        let mut separated = BTreeSet::new();
        for (index, id) in named.iter().enumerate() {
            let seq = self.by_id.get(id).map(|seq| seq.0).filter(|seq| group.members.binary_search(seq).is_ok());
            separated.insert(seq.ok_or_else(|| not_in_group(&format!("/records/{index}")))?);
        }
        if separated.len() == group.members.len() {
            let detail = "name some of the members, not all of them";
            return Err(Error::Invalid(vec![Violation::new("/records", ErrorCode::OutOfRange, detail)]));
        }
        let mut pairs = Vec::new();
        for seq in &separated {
            let linked = self.set.pairs_of(*seq).filter(|other| !separated.contains(other));
            pairs.extend(
                linked
                    .filter(|other| group.members.binary_search(other).is_ok())
                    .map(|other| (self.id(*seq), self.id(other))),
            );
        }
        if pairs.len() > MAX_SPLIT_PAIRS {
            return Err(Error::TooManyLinks(pairs.len()));
        }
        Ok(pairs)
    }

    /// Returns the member that becomes the partner of the chosen original in the decision: the earliest other member about which no person
    /// decided that the two are different matters. `None` if the record is the chosen original already.
    fn partner_of_original(&self, name: CollectionName, id: &RecordId, chosen: &RecordId) -> Result<Option<RecordId>> {
        let group = self.group_of(id).ok_or(Error::Ungrouped(name))?;
        let chosen = self.by_id.get(chosen).map(|seq| seq.0);
        let chosen = chosen.filter(|seq| group.members.binary_search(seq).is_ok());
        let chosen = chosen.ok_or_else(|| not_in_group("/original"))?;
        if self.chosen_original(&group) == Some(chosen) {
            return Ok(None);
        }
        let earliest = self.earliest(&group);
        let others = [earliest].into_iter().chain(group.members.iter().copied()).filter(|seq| *seq != chosen);
        let mut partners = others
            .filter(|other| self.set.decision(chosen, *other) != Some(doppel_core::index::groups::Decision::Different));
        let partner = partners.next().ok_or_else(|| Error::RejectedPair(self.id(chosen), self.id(earliest)))?;
        Ok(Some(self.id(partner)))
    }

    /// Returns the pairs whose decisions contain a choice of an original of the group.
    fn choices_in(&self, name: CollectionName, id: &RecordId) -> Result<Vec<RecordIds>> {
        let group = self.group_of(id).ok_or(Error::Ungrouped(name))?;
        let chosen = group.members.iter().flat_map(|seq| self.choices_of(*seq));
        Ok(chosen.map(|((one, other), _)| (self.id(*one), self.id(*other))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::GroupSelection;
    use crate::testing::{LetterDesk, id};

    const MARKET: &str = "菜市场门口的摊贩每天清早占道经营，上班的车辆堵成一条长龙，公交车也进不了站";

    fn ids(names: &[&str]) -> Vec<RecordId> {
        names.iter().map(|name| id(name)).collect()
    }

    fn author() -> RegroupAuthor {
        RegroupAuthor { by: Some("李某".into()), note: None }
    }

    async fn office() -> LetterDesk {
        let desk = LetterDesk::with(&["a", "b", "c"]).await;
        for name in ["m", "n"] {
            desk.put(name, MARKET).await;
        }
        desk.put("z", "游泳馆的更衣室没有热水，冬天的课程无法进行，请尽快修复").await;
        desk
    }

    async fn groups(desk: &LetterDesk) -> Vec<Vec<String>> {
        let (views, _) = desk.engine.groups(&desk.name, &GroupSelection::default(), None, 10).await.unwrap();
        let mut groups = Vec::new();
        for view in views {
            let detail = desk.engine.group_of(&desk.name, &view.id, 30).await.unwrap();
            groups.push(detail.members.iter().map(ToString::to_string).collect());
        }
        groups
    }

    #[tokio::test]
    async fn groups_and_single_records_are_merged_and_split_again() {
        let desk = office().await;
        let merged = desk.engine.merge_groups(&desk.name, &ids(&["b", "n", "z"]), &author()).await.unwrap();
        assert_eq!((merged.decisions, merged.groups.len(), merged.groups[0].size), (2, 1, 6));
        let again = desk.engine.merge_groups(&desk.name, &ids(&["b", "n", "z"]), &author()).await.unwrap();
        assert_eq!((again.decisions, &again.groups), (0, &merged.groups));
        let split = desk.engine.split_group(&desk.name, &id("a"), &ids(&["m", "n"]), &author()).await.unwrap();
        assert_eq!(split.groups.iter().map(|group| group.size).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(groups(&desk).await, [vec!["a", "b", "c", "z"], vec!["m", "n"]]);
        let refused = desk.engine.merge_groups(&desk.name, &ids(&["a", "m"]), &author()).await;
        assert!(matches!(refused, Err(Error::RejectedPair(..))), "{refused:?}");
    }

    #[tokio::test]
    async fn a_split_takes_single_members_out() {
        let desk = office().await;
        let split = desk.engine.split_group(&desk.name, &id("a"), &ids(&["b"]), &author()).await.unwrap();
        assert_eq!((split.decisions, split.groups.len(), split.groups[0].size), (2, 1, 2));
        for wrong in [&["a", "c"][..], &["m"], &[]] {
            let refused = desk.engine.split_group(&desk.name, &id("a"), &ids(wrong), &author()).await;
            assert!(matches!(refused, Err(Error::Invalid(_))), "{wrong:?}: {refused:?}");
        }
    }

    /// Chooses the original of the group of `b`, or takes the choice back. Returns the original.
    async fn chosen(desk: &LetterDesk, original: &str) -> String {
        let original = (!original.is_empty()).then(|| id(original));
        let detail = desk.engine.choose_original(&desk.name, &id("b"), original.as_ref(), &author()).await;
        detail.unwrap().group.original.to_string()
    }

    #[tokio::test]
    async fn a_person_chooses_the_original_and_takes_the_choice_back() {
        let desk = office().await;
        assert_eq!(chosen(&desk, "c").await, "c");
        assert_eq!(chosen(&desk, "b").await, "b", "the last choice counts");
        assert_eq!(chosen(&desk, "c").await, "c", "also if it repeats an earlier one");
        assert_eq!(chosen(&desk, "b").await, "b");
        desk.engine.forget_groups(&desk.name);
        let detail = desk.engine.group_of(&desk.name, &id("a"), 30).await.unwrap();
        assert_eq!(detail.group.original, id("b"), "the choice is stored");
        assert_eq!(chosen(&desk, "a").await, "a", "the earliest record can be chosen, too");
        assert_eq!(chosen(&desk, "").await, "a");
        desk.engine.remove(&desk.name, &id("a")).await.unwrap();
        let detail = desk.engine.group_of(&desk.name, &id("b"), 30).await.unwrap();
        assert_eq!((detail.group.original, detail.group.size), (id("b"), 2));
        let refused = desk.engine.choose_original(&desk.name, &id("b"), Some(&id("m")), &author()).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
}
