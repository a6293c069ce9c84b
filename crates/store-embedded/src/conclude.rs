//! Concludes a judged registration: the verdict from those of its matches that hold.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::layout;
use super::pipeline::{Conclusion, JudgedRegistration};
use doppel_core::verdict::Match;
use doppel_store::rules::conclude as rules;
use doppel_store::{StoreError, StoredRecord};

/// Concludes at once where no match depends on another change, so that the committer only has to write.
pub(super) fn conclude_early(mut judged: JudgedRegistration) -> JudgedRegistration {
    if judged.matches.iter().all(|found| found.condition.is_none()) {
        judged.conclusion = Some(conclude(&judged));
    }
    judged
}

/// The outcome of a registration. Every change that a match depends on is settled. A judge that panics fails the registration.
pub(super) fn conclude(judged: &JudgedRegistration) -> Conclusion {
    let panicked = || Conclusion::Fail(StoreError::Internal("concluding a verdict panicked".into()));
    catch_unwind(AssertUnwindSafe(|| verdict_of(judged))).unwrap_or_else(|_| panicked())
}

fn verdict_of(judged: &JudgedRegistration) -> Conclusion {
    let holds =
        judged.matches.iter().filter(|found| found.condition.as_ref().is_none_or(|condition| condition.holds()));
    let matches: Vec<Match> = holds.map(|found| found.found.clone()).collect();
    match rules::conclude(judged.judge.as_ref(), judged.mode, matches, judged.truncated) {
        rules::Conclusion::Skip(verdict) => Conclusion::Skip(verdict),
        rules::Conclusion::Store { verdict, duplicate_of_seq, earlier } => {
            let record = StoredRecord { verdict, duplicate_of_seq, ..judged.pending.record.clone() };
            match layout::encode_record(&record) {
                Ok(value) => Conclusion::Store { record, value, earlier },
                Err(error) => Conclusion::Fail(error),
            }
        }
    }
}
