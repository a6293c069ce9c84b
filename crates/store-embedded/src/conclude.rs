//! Concludes a judged registration: computes the verdict from the matches whose condition holds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::layout;
use super::pipeline::{JudgedRegistration, RegistrationOutcome};
use doppel_core::verdict::Match;
use doppel_store::rules::conclude as rules;
use doppel_store::{StoreError, StoredRecord};

/// Concludes at once if no match depends on another change, so that the committer only has to write.
pub(super) fn conclude_early(mut judged: JudgedRegistration) -> JudgedRegistration {
    if judged.matches.iter().all(|found| found.condition.is_none()) {
        judged.conclusion = Some(conclude(&mut judged));
    }
    judged
}

/// Returns the outcome of a registration, and takes its matches. Every change that a match depends on is settled. If the judge panics, the
/// registration fails.
pub(super) fn conclude(judged: &mut JudgedRegistration) -> RegistrationOutcome {
    let verdict = catch_unwind(AssertUnwindSafe(|| verdict_of(judged)));
    verdict.unwrap_or_else(|_| RegistrationOutcome::Fail(StoreError::Internal("concluding a verdict panicked".into())))
}

fn verdict_of(judged: &mut JudgedRegistration) -> RegistrationOutcome {
    let mut matches = std::mem::take(&mut judged.matches);
    matches.retain(|found| found.condition.as_ref().is_none_or(|condition| condition.holds()));
    let matches: Vec<Match> = matches.into_iter().map(|found| found.found).collect();
    match rules::conclude(judged.judge.as_ref(), judged.mode, matches, judged.truncated) {
        rules::RegistrationConclusion::Skip(verdict) => RegistrationOutcome::Skip(verdict),
        rules::RegistrationConclusion::Store { verdict, duplicate_of_seq, earlier } => {
            let record = StoredRecord { verdict, duplicate_of_seq, ..judged.pending.record.clone() };
            match layout::encode_record(&record) {
                Ok(value) => RegistrationOutcome::Store { record, value, earlier },
                Err(error) => RegistrationOutcome::Fail(error),
            }
        }
    }
}
