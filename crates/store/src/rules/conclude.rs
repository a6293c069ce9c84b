//! Decides from the matches of a registration whether the record is stored, and with which verdict.

use doppel_core::verdict::{Match, Verdict};

use crate::{CandidateJudge, RegistrationMode, Seq};

/// The decision about a registration.
#[derive(Clone, Debug, PartialEq)]
pub enum RegistrationConclusion {
    /// The record is stored.
    Store {
        /// The verdict.
        verdict: Verdict,
        /// See [`StoredRecord::duplicate_of_seq`](crate::StoredRecord::duplicate_of_seq).
        duplicate_of_seq: Option<Seq>,
        /// The seqs of all records that the record matches, ascending, each once.
        earlier: Vec<Seq>,
    },
    /// Nothing is stored, because the mode is [`RegistrationMode::SkipDuplicate`] and the record is a duplicate.
    Skip(Verdict),
}

/// Decides about a registration with these `matches`. `truncated` is true if a limit ended the search early.
pub fn conclude(
    judge: &dyn CandidateJudge,
    mode: RegistrationMode,
    matches: Vec<Match>,
    truncated: bool,
) -> RegistrationConclusion {
    let mut earlier: Vec<Seq> = matches.iter().map(|found| found.seq).collect();
    earlier.sort_unstable();
    earlier.dedup();
    let verdict = judge.conclude(matches, truncated);
    if mode == RegistrationMode::SkipDuplicate && verdict.kind.is_duplicate() {
        return RegistrationConclusion::Skip(verdict);
    }
    let duplicate_of_seq = verdict.duplicate_of.as_ref().and(earlier.first().copied());
    RegistrationConclusion::Store { verdict, duplicate_of_seq, earlier }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CandidateRecord;
    use crate::GenerationId;
    use doppel_core::record::RecordId;
    use doppel_core::verdict::{VIA_EXACT, VerdictInputs, VerdictKind};

    struct TestJudge;

    impl CandidateJudge for TestJudge {
        fn judge(&self, _: &CandidateRecord<'_>) -> Option<Match> {
            None
        }

        fn needs_signatures(&self) -> bool {
            false
        }

        fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
            let facts = VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(1),
                statistics: 0,
                truncated,
            };
            Verdict::conclude(matches, facts)
        }
    }

    /// The record `r3` has the seq 3.
    fn found(seq: u64, exact: bool) -> Match {
        let via = if exact { vec![VIA_EXACT.to_owned()] } else { Vec::new() };
        Match { via, ..Match::unmeasured(RecordId::new(&format!("r{seq}")).unwrap(), Seq(seq)) }
    }

    #[test]
    fn a_record_is_stored_with_all_its_matches_unless_it_is_a_duplicate_and_the_mode_skips_duplicates() {
        use VerdictKind::{ExactDuplicate, NearDuplicate, Original};
        type Row<'a> = (&'a [(u64, bool)], VerdictKind, Option<u64>, &'a [u64]);
        let table: [Row<'_>; 4] = [
            (&[], Original, None, &[]),
            (&[(4, false)], NearDuplicate, Some(4), &[4]),
            (&[(9, false), (4, true)], ExactDuplicate, Some(4), &[4, 9]),
            (&[(9, false), (2, false), (9, false)], NearDuplicate, Some(2), &[2, 9]),
        ];
        for (matches, kind, original, earlier) in table {
            let matches: Vec<Match> = matches.iter().map(|(seq, exact)| found(*seq, *exact)).collect();
            let verdict = TestJudge.conclude(matches.clone(), true);
            assert_eq!((verdict.kind, verdict.truncated), (kind, true));
            let id = original.map(|seq| format!("r{seq}"));
            assert_eq!(verdict.duplicate_of.as_ref().map(|id| id.as_str().to_owned()), id);
            let earlier = earlier.iter().copied().map(Seq).collect();
            let stored = RegistrationConclusion::Store {
                verdict: verdict.clone(),
                duplicate_of_seq: original.map(Seq),
                earlier,
            };
            assert_eq!(conclude(&TestJudge, RegistrationMode::Put, matches.clone(), true), stored);
            let skipped = if kind == Original { stored } else { RegistrationConclusion::Skip(verdict) };
            assert_eq!(conclude(&TestJudge, RegistrationMode::SkipDuplicate, matches, true), skipped);
        }
    }
}
