//! Decides whether a store adds a ruling about a pair. The decision depends on the earlier rulings and on the existing records of the pair.

use crate::decisions::{Decision, Judgement, RecordPair, Ruling, RulingOutcome, SeenState, check_rulings};
use crate::{Result, Seq, StoreError};
use doppel_core::record::RecordId;

/// The steps of a store for a ruling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulingPlan {
    /// Add the ruling.
    Add,
    /// The last ruling says the same: add nothing.
    Repeated,
    /// The pair has other rulings than the caller had seen, or no ruling that could be withdrawn: add nothing.
    Refused,
    /// A record of the pair was replaced after the caller had seen it: add nothing.
    Replaced,
}

impl RulingPlan {
    /// Returns the answer of a store that has carried out the plan. `decision` is the decision of the store afterwards, perhaps without
    /// rulings.
    pub fn answer(self, decision: Decision) -> RulingOutcome {
        let is_ruled = !decision.rulings.is_empty();
        match self {
            Self::Add => RulingOutcome::Added(decision),
            Self::Repeated => RulingOutcome::Repeated(decision),
            Self::Refused => RulingOutcome::Refused(is_ruled.then_some(decision)),
            Self::Replaced => RulingOutcome::Replaced(is_ruled.then_some(decision)),
        }
    }
}

/// The seqs of the two records of a pair; `None` for a record that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSeqs {
    /// The record whose id sorts first.
    pub a: Option<Seq>,
    /// The other record.
    pub b: Option<Seq>,
}

impl PairSeqs {
    /// Returns the seqs that `seq_of` finds for the two records.
    ///
    /// # Errors
    /// The errors of `seq_of`.
    pub fn of(pair: &RecordPair, seq_of: impl Fn(&RecordId) -> Result<Option<Seq>>) -> Result<Self> {
        Ok(Self { a: seq_of(pair.a())?, b: seq_of(pair.b())? })
    }

    /// Returns a record of the pair that does not exist.
    pub fn missing(self, pair: &RecordPair) -> Option<RecordId> {
        match (self.a, self.b) {
            (None, _) => Some(pair.a().clone()),
            (_, None) => Some(pair.b().clone()),
            (Some(_), Some(_)) => None,
        }
    }

    /// True if a record of the pair was registered after the seq `as_of`.
    fn are_newer_than(self, as_of: Seq) -> bool {
        self.a.max(self.b) > Some(as_of)
    }
}

/// Returns the plan for `ruling` about a pair with the rulings `kept`. `stored` are the seqs of its records; `seen` is the state that the
/// caller had seen, if the caller states it.
///
/// # Errors
/// `UnknownRecord`, `TooManyRulings`.
pub fn plan(
    pair: &RecordPair,
    kept: &[Ruling],
    stored: PairSeqs,
    ruling: &Ruling,
    seen: Option<SeenState>,
) -> Result<RulingPlan> {
    if kept.is_empty() && ruling.judgement == Judgement::Withdrawn {
        return Ok(RulingPlan::Refused);
    }
    if let Some(id) = stored.missing(pair) {
        return Err(StoreError::UnknownRecord(id));
    }
    if kept.last().is_some_and(|last| says_the_same(last, ruling)) {
        return Ok(RulingPlan::Repeated);
    }
    if seen.is_some_and(|seen| stored.are_newer_than(seen.as_of)) {
        return Ok(RulingPlan::Replaced);
    }
    if seen.is_some_and(|seen| seen.rulings != kept.len()) {
        return Ok(RulingPlan::Refused);
    }
    check_rulings(kept.len()).map(|()| RulingPlan::Add)
}

/// True if two rulings differ only in their time: a caller that received no answer sends the same ruling again. A choice of an original is
/// never a repetition, because its time decides between several choices.
fn says_the_same(one: &Ruling, other: &Ruling) -> bool {
    let is_choice = one.original.is_some() || other.original.is_some();
    one.judgement == other.judgement && one.by == other.by && one.note == other.note && !is_choice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::MAX_RULINGS;

    fn ruling(judgement: Judgement, note: &str, at: &str) -> Ruling {
        Ruling { judgement, by: None, note: Some(note.into()), at: at.into(), original: None }
    }

    #[test]
    fn a_ruling_needs_both_records_and_the_rulings_that_its_caller_has_seen() {
        let withdrawn = ruling(Judgement::Withdrawn, "", "2026-01-01");
        assert_eq!(plan_of(&[], STORED, &ruling_same(""), None), Some(RulingPlan::Add));
        assert_eq!(plan_of(&[], STORED, &ruling_same(""), Some(0)), Some(RulingPlan::Add));
        assert_eq!(plan_of(&[], WITHOUT_B, &ruling_same(""), None), None, "a record is not there");
        assert_eq!(plan_of(&[ruling_same("")], WITHOUT_B, &withdrawn, None), None);
        assert_eq!(plan_of(&[], STORED, &withdrawn, Some(0)), Some(RulingPlan::Refused), "nothing to withdraw");
        assert_eq!(plan_of(&[ruling_same("")], STORED, &withdrawn, None), Some(RulingPlan::Add));
        assert_eq!(
            plan_of(&[ruling_same("")], STORED, &ruling_same("other"), Some(0)),
            Some(RulingPlan::Refused),
            "somebody else ruled"
        );
        let later = ruling(Judgement::Same, "", "2026-01-02");
        assert_eq!(
            plan_of(&[ruling_same("")], STORED, &later, Some(0)),
            Some(RulingPlan::Repeated),
            "the same caller again"
        );
        let chosen = Ruling { original: RecordId::new("a").ok(), ..ruling_same("") };
        assert_eq!(plan_of(&[ruling_same("")], STORED, &chosen, None), Some(RulingPlan::Add), "another original");
        assert_eq!(plan_of(&vec![ruling_same(""); MAX_RULINGS], STORED, &withdrawn, None), None, "there is no room");
    }

    const STORED: PairSeqs = PairSeqs { a: Some(Seq(1)), b: Some(Seq(2)) };
    const WITHOUT_B: PairSeqs = PairSeqs { a: Some(Seq(1)), b: None };

    #[test]
    fn a_ruling_needs_the_records_that_its_caller_has_seen() {
        assert_eq!(plan_seen_at(Seq(2)), Some(RulingPlan::Add));
        assert_eq!(plan_seen_at(Seq(1)), Some(RulingPlan::Replaced), "the second record is newer");
    }

    fn plan_seen_at(as_of: Seq) -> Option<RulingPlan> {
        plan(&pair(), &[], STORED, &ruling_same(""), Some(SeenState { rulings: 0, as_of })).ok()
    }

    fn pair() -> RecordPair {
        RecordPair::new(RecordId::new("a").expect("an id"), RecordId::new("b").expect("an id")).expect("two ids")
    }

    fn plan_of(kept: &[Ruling], stored: PairSeqs, ruling: &Ruling, seen: Option<usize>) -> Option<RulingPlan> {
        let seen = seen.map(|rulings| SeenState { rulings, as_of: Seq::MAX });
        plan(&pair(), kept, stored, ruling, seen).ok()
    }

    fn ruling_same(note: &str) -> Ruling {
        ruling(Judgement::Same, note, "2026-01-01")
    }
}
