//! What was just done, told by the next page: an action answers with a redirect, and its outcome travels in a cookie.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::console::words::{Words, WorkDone};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::Judgement;

/// How long it waits to be told: a browser follows the redirect at once.
pub const SECONDS: u32 = 60;

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flash {
    /// Somebody signed out.
    SignedOut,
    /// A letter was registered.
    Registered,
    /// Somebody decided about a pair.
    Decided(Decided),
    /// Somebody decided about many pairs of a group.
    Regrouped(Regrouped),
    /// Something was asked for on the page of tasks.
    Work(WorkDone),
    /// Somebody took such decisions back.
    Undone {
        /// So many ...
        done: usize,
        /// ... of so many.
        of: usize,
    },
}

/// Decisions about a group that were just made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regrouped {
    /// Where.
    pub collection: CollectionName,
    /// Under which name they are kept to be taken back.
    pub id: String,
    /// How many were made ...
    pub done: usize,
    /// ... of how many.
    pub of: usize,
}

/// A decision that was just made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Where.
    pub collection: CollectionName,
    /// About this record ...
    pub a: RecordId,
    /// ... and this one.
    pub b: RecordId,
    /// What was decided.
    pub judgement: Judgement,
    /// What held before, and holds again when it is undone.
    pub before: Judgement,
    /// How many rulings there are about the two.
    pub seen: usize,
}

impl Flash {
    /// As it stands in the cookie.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a cookie says, if it is one of ours. It is shown, and otherwise believed no more than any form.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// What it tells.
    pub fn text(&self, words: &Words) -> Cow<'static, str> {
        match self {
            Self::SignedOut => words.frame.signed_out.into(),
            Self::Registered => words.check.registered.into(),
            Self::Decided(Decided { a, b, judgement, .. }) => {
                format!("{} {a} ↔ {b}", (words.decide.done)(*judgement)).into()
            }
            Self::Regrouped(Regrouped { done, of, .. }) => (words.regroup.done)(*done, *of).into(),
            Self::Work(done) => (words.work.done)(*done).into(),
            Self::Undone { done, of } => (words.regroup.undone)(*done, *of).into(),
        }
    }

    /// The decision that can be taken back; what takes one back is not itself taken back, but decided anew.
    pub fn to_undo(&self) -> Option<&Decided> {
        match self {
            Self::Decided(decided) => {
                let is_undone = matches!(decided.judgement, Judgement::Withdrawn);
                (!is_undone && decided.judgement != decided.before).then_some(decided)
            }
            _ => None,
        }
    }

    /// The decisions about a group that can be taken back.
    pub fn to_undo_together(&self) -> Option<&Regrouped> {
        match self {
            Self::Regrouped(regrouped) if regrouped.done > 0 => Some(regrouped),
            _ => None,
        }
    }
}
