//! What was decided about many pairs in one go, so that it can be taken back in one go.
//!
//! In memory: after a restart, or once more such actions followed than are kept, each pair is taken back by itself. What somebody
//! decided about a pair since is left as it is.

use std::collections::VecDeque;

use parking_lot::Mutex;

use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::Judgement;

/// Most actions that are kept: some minutes of a busy office; a few hundred decisions each at most, so some megabytes in all.
const MOST_KEPT: usize = 50;

/// A decision that was made as a part of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// About this record ...
    pub one: RecordId,
    /// ... and this one.
    pub other: RecordId,
    /// How many rulings there are about the two since.
    pub seen: usize,
    /// What held before: taking back restores it.
    pub before: Judgement,
}

/// Actions, the latest last.
#[derive(Default)]
pub struct Undo(Mutex<VecDeque<(String, CollectionName, Vec<Made>)>>);

impl Undo {
    /// Keeps what was made, under the name `id`; the oldest action is forgotten where there are too many.
    pub fn keep(&self, id: String, collection: CollectionName, made: Vec<Made>) {
        let mut kept = self.0.lock();
        if kept.len() == MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back((id, collection, made));
    }

    /// What was made in the action `id`, which is then forgotten: it is taken back once.
    pub fn take(&self, id: &str, collection: &CollectionName) -> Option<Vec<Made>> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|(found, place, _)| found == id && place == collection)?;
        kept.remove(at).map(|(_, _, made)| made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_taken_back_once_where_it_was_made_and_the_oldest_is_forgotten() {
        let (undo, here) = (Undo::default(), CollectionName::new("here").unwrap());
        for number in 0..=MOST_KEPT {
            undo.keep(number.to_string(), here.clone(), Vec::new());
        }
        assert_eq!(undo.take("0", &here), None);
        assert_eq!(undo.take("1", &CollectionName::new("there").unwrap()), None);
        assert_eq!((undo.take("1", &here), undo.take("1", &here)), (Some(Vec::new()), None));
    }
}
