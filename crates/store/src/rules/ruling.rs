//! Decides whether a store adds a ruling about a pair. The decision depends on the earlier rulings and on the existing records of the pair.

use crate::decisions::{Decision, Judgement, Ruling, RulingOutcome, check_rulings};
use crate::{Result, StoreError};
use doppel_core::record::RecordId;

/// The steps of a store for a ruling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulingPlan {
    /// Add the ruling.
    Add,
    /// The last ruling says the same: add nothing.
    Repeated,
    /// The pair has other rulings than the caller had seen, or none that could be withdrawn: add nothing.
    Refused,
}

impl RulingPlan {
    /// Returns the answer of a store that has carried out the plan. `decision` is the decision of the store afterwards, perhaps without
    /// rulings.
    pub fn answer(self, decision: Decision) -> RulingOutcome {
        match self {
            Self::Add => RulingOutcome::Added(decision),
            Self::Repeated => RulingOutcome::Repeated(decision),
            Self::Refused => RulingOutcome::Refused((!decision.rulings.is_empty()).then_some(decision)),
        }
    }
}

/// Returns the plan for `ruling` about a pair with the rulings `kept`. `missing` is a record of the pair that does not exist; `seen` is the
/// number of rulings that the caller had seen, if the caller states it.
///
/// # Errors
/// `UnknownRecord`, `TooManyRulings`.
pub fn plan(kept: &[Ruling], missing: Option<RecordId>, ruling: &Ruling, seen: Option<usize>) -> Result<RulingPlan> {
    if kept.is_empty() && ruling.judgement == Judgement::Withdrawn {
        return Ok(RulingPlan::Refused);
    }
    if let Some(id) = missing {
        return Err(StoreError::UnknownRecord(id));
    }
    if kept.last().is_some_and(|last| says_the_same(last, ruling)) {
        return Ok(RulingPlan::Repeated);
    }
    if seen.is_some_and(|seen| seen != kept.len()) {
        return Ok(RulingPlan::Refused);
    }
    check_rulings(kept.len()).map(|()| RulingPlan::Add)
}

/// True if two rulings differ only in their time: a caller that got no answer sends the same ruling again. A choice of an original is never a
/// repetition, because its time decides between several choices.
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
        assert_eq!(plan_of(&[], None, &ruling_same(""), None), Some(RulingPlan::Add));
        assert_eq!(plan_of(&[], None, &ruling_same(""), Some(0)), Some(RulingPlan::Add));
        assert_eq!(plan_of(&[], missing_record(), &ruling_same(""), None), None, "a record is not there");
        assert_eq!(plan_of(&[ruling_same("")], missing_record(), &withdrawn, None), None);
        assert_eq!(plan_of(&[], None, &withdrawn, Some(0)), Some(RulingPlan::Refused), "nothing to withdraw");
        assert_eq!(plan_of(&[ruling_same("")], None, &withdrawn, None), Some(RulingPlan::Add));
        assert_eq!(
            plan_of(&[ruling_same("")], None, &ruling_same("other"), Some(0)),
            Some(RulingPlan::Refused),
            "somebody else ruled"
        );
        let later = ruling(Judgement::Same, "", "2026-01-02");
        assert_eq!(
            plan_of(&[ruling_same("")], None, &later, Some(0)),
            Some(RulingPlan::Repeated),
            "the same caller again"
        );
        let chosen = Ruling { original: RecordId::new("a").ok(), ..ruling_same("") };
        assert_eq!(plan_of(&[ruling_same("")], None, &chosen, None), Some(RulingPlan::Add), "another original");
        assert_eq!(plan_of(&vec![ruling_same(""); MAX_RULINGS], None, &withdrawn, None), None, "there is no room");
    }

    fn plan_of(kept: &[Ruling], missing: Option<RecordId>, ruling: &Ruling, seen: Option<usize>) -> Option<RulingPlan> {
        plan(kept, missing, ruling, seen).ok()
    }

    fn missing_record() -> Option<RecordId> {
        RecordId::new("gone").ok()
    }

    fn ruling_same(note: &str) -> Ruling {
        ruling(Judgement::Same, note, "2026-01-01")
    }
}
