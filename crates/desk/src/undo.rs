//! The memory of the decisions of an action, so that one step can withdraw all of them.
//!
//! The memory is lost at a restart, and it keeps only the latest actions. The decisions of a forgotten action must be withdrawn one by one. A pair
//! about which a person has decided since is left unchanged.

use std::collections::VecDeque;

use parking_lot::Mutex;

use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::Judgement;

/// Largest number of actions: some minutes of a busy office. Each action has at most a thousand decisions, so that all need some
/// tens of megabytes.
const MOST_KEPT: usize = 50;

/// A decision that was made as a part of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeDecision {
    /// One record of the pair.
    pub one: RecordId,
    /// The other record of the pair.
    pub other: RecordId,
    /// Number of rulings about the pair after the action.
    pub seen: usize,
    /// The judgement before the action, which undoing restores.
    pub before: Judgement,
}

/// The latest actions, in the order in which they were made.
#[derive(Default)]
pub struct UndoLog(Mutex<VecDeque<(String, CollectionName, Vec<MadeDecision>)>>);

impl UndoLog {
    /// Stores the decisions of an action under `id`. If the action is known, its new decisions are added: a form that is sent twice at the
    /// same time is one action. If there are too many actions, the oldest is dropped. Returns the number of decisions of the action.
    pub fn keep(&self, id: String, collection: CollectionName, made: Vec<MadeDecision>) -> usize {
        let mut kept = self.0.lock();
        if let Some((.., decisions)) = kept.iter_mut().find(|(found, place, _)| *found == id && *place == collection) {
            for new in made {
                if !decisions.iter().any(|kept| (&kept.one, &kept.other) == (&new.one, &new.other)) {
                    decisions.push(new);
                }
            }
            return decisions.len();
        }
        if kept.len() == MOST_KEPT {
            kept.pop_front();
        }
        let count = made.len();
        kept.push_back((id, collection, made));
        count
    }

    /// Removes the action `id` and returns its decisions, so that they can be withdrawn only once.
    pub fn take(&self, id: &str, collection: &CollectionName) -> Option<Vec<MadeDecision>> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(found, place, _)| found == id && place == collection)?;
        kept.remove(at).map(|(_, _, made)| made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_of_one_action_are_taken_back_together() {
        let undo = UndoLog::default();
        let here = CollectionName::new("here").unwrap();
        let decision = |other: &str| MadeDecision {
            one: RecordId::new("a").unwrap(),
            other: RecordId::new(other).unwrap(),
            seen: 1,
            before: Judgement::Withdrawn,
        };
        assert_eq!(undo.keep("x".into(), here.clone(), vec![decision("b")]), 1);
        assert_eq!(undo.keep("x".into(), here.clone(), vec![decision("b"), decision("c")]), 2);
        assert_eq!(undo.take("x", &here), Some(vec![decision("b"), decision("c")]));
    }

    #[test]
    fn an_action_is_taken_back_once_where_it_was_made_and_the_oldest_is_forgotten() {
        let undo = UndoLog::default();
        let here = CollectionName::new("here").unwrap();
        for number in 0..=MOST_KEPT {
            undo.keep(number.to_string(), here.clone(), Vec::new());
        }
        assert_eq!(undo.take("0", &here), None);
        assert_eq!(undo.take("1", &CollectionName::new("there").unwrap()), None);
        assert_eq!((undo.take("1", &here), undo.take("1", &here)), (Some(Vec::new()), None));
    }
}
