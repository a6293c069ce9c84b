//! The order in which proposed records are judged.

use doppel_core::index::{Proposal, Via};

/// A proposed record.
pub trait ProposedRecord {
    /// True if both propose the same record.
    fn is_same(&self, other: &Self) -> bool;

    /// The sources that propose the record.
    fn via(&mut self) -> &mut Via;
}

impl ProposedRecord for Proposal {
    fn is_same(&self, other: &Self) -> bool {
        self.seq == other.seq
    }

    fn via(&mut self) -> &mut Via {
        &mut self.via
    }
}

/// Moves the records that match by decision (`confirmed`) before all others, each once and in their order, so that no limit leaves them out. If
/// such a record is among `items` already, the two proposals are merged.
pub fn confirmed_first<T: ProposedRecord>(items: &mut Vec<T>, confirmed: impl IntoIterator<Item = T>) {
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
    fn confirmed_records_come_first_each_once_and_in_their_order() {
        let exact = Via::EXACT;
        let decided = Via::DECISION;
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
    fn a_confirmed_proposal_keeps_the_data_of_the_index() {
        let known = Proposal { fingerprint: Some(Fingerprint(5)), ..proposal(4, Via::EXACT) };
        let mut items = vec![proposal(1, Via::EXACT), known];
        confirmed_first(&mut items, [proposal(4, Via::DECISION)]);
        assert_eq!(items[0], Proposal { via: Via::EXACT.with(Via::DECISION), ..known });
    }
}
