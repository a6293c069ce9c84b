//! In which order what is proposed is judged.

use doppel_core::index::{Proposal, Via};

/// A record that is proposed.
pub trait Proposed {
    /// Whether both propose the same record.
    fn is_same(&self, other: &Self) -> bool;

    /// What proposes it.
    fn via(&mut self) -> &mut Via;
}

impl Proposed for Proposal {
    fn is_same(&self, other: &Self) -> bool {
        self.seq == other.seq
    }

    fn via(&mut self) -> &mut Via {
        &mut self.via
    }
}

/// Puts `confirmed`, the records that match by decision, before all others, each once and in their order: no limit cuts them off. One
/// that is among `items` stays one proposal, as it was proposed and by decision.
pub fn confirmed_first<T: Proposed>(items: &mut Vec<T>, confirmed: impl IntoIterator<Item = T>) {
    let mut first: Vec<T> = Vec::new();
    for mut one in confirmed {
        if first.iter().any(|other| other.is_same(&one)) {
            continue;
        }
        if let Some(at) = items.iter().position(|item| item.is_same(&one)) {
            one = items.remove(at);
        }
        *one.via() = one.via().with(Via::DECISION);
        first.push(one);
    }
    first.append(items);
    *items = first;
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::index::Slot;
    use doppel_core::numbers::Seq;
    use doppel_core::verdict::Fingerprint;

    fn proposal(seq: u64, via: Via) -> Proposal {
        Proposal { slot: Slot(seq as u32), seq: Seq(seq), via, fingerprint: None }
    }

    #[test]
    fn what_people_confirmed_comes_first_each_once_in_its_order() {
        let (exact, decided) = (Via::EXACT, Via::DECISION);
        type Case<'a> = (&'a [u64], &'a [u64], &'a [(u64, Via)]);
        let table: [Case<'_>; 4] = [
            (&[1, 2], &[], &[(1, exact), (2, exact)]),
            (&[], &[7, 3], &[(7, decided), (3, decided)]),
            (&[1, 2], &[7, 7, 3], &[(7, decided), (3, decided), (1, exact), (2, exact)]),
            (&[1, 2, 3], &[3, 9], &[(3, exact.with(decided)), (9, decided), (1, exact), (2, exact)]),
        ];
        for (items, confirmed, expected) in table {
            let mut items: Vec<_> = items.iter().map(|seq| proposal(*seq, exact)).collect();
            confirmed_first(&mut items, confirmed.iter().map(|seq| proposal(*seq, Via::default())));
            let expected: Vec<_> = expected.iter().map(|(seq, via)| proposal(*seq, *via)).collect();
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn a_proposal_that_is_confirmed_keeps_what_the_index_knows_of_it() {
        let known = Proposal { fingerprint: Some(Fingerprint(5)), ..proposal(4, Via::EXACT) };
        let mut items = vec![proposal(1, Via::EXACT), known];
        confirmed_first(&mut items, [proposal(4, Via::DECISION)]);
        assert_eq!(items[0], Proposal { via: Via::EXACT.with(Via::DECISION), ..known });
    }
}
