//! The messages about finished actions. An action answers with a redirect, and a cookie transfers the outcome of the action to the next page, which
//! shows the message.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::words::{DeskWords, WorkDone};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::Judgement;

/// Lifetime of the cookie in seconds. A browser follows a redirect at once, so a minute is enough.
pub const SECONDS: u32 = 60;

/// An action that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlashMessage {
    /// The visitor signed out.
    SignedOut,
    /// A letter was registered.
    Registered,
    /// The visitor decided about a pair.
    Decided(DecidedNotice),
    /// The visitor decided about many pairs of a group.
    Regrouped(RegroupedNotice),
    /// The visitor added a step to the handling of an event.
    StepAdded,
    /// A collection was created.
    Created,
    /// The made-up letters were loaded.
    DemoLoaded,
    /// An administrator changed an account.
    AccountChanged,
    /// An administrator removed an account.
    AccountRemoved,
    /// The visitor changed their own password.
    PasswordChanged,
    /// The visitor ended a session.
    SessionEnded,
    /// The visitor started an action on the page of tasks.
    Work(WorkDone),
    /// The visitor took decisions about a group back.
    Undone {
        /// Number of withdrawn decisions.
        done: usize,
        /// Number of decisions that the visitor wanted to withdraw.
        of: usize,
    },
}

/// Decisions about a group that were just made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegroupedNotice {
    /// The collection of the group.
    pub collection: CollectionName,
    /// The id under which the decisions are kept, so that the visitor can take them back.
    pub id: String,
    /// Number of decisions that were made.
    pub done: usize,
    /// Number of decisions that were to be made.
    pub of: usize,
}

/// A decision that was just made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecidedNotice {
    /// The collection of the pair.
    pub collection: CollectionName,
    /// One record of the pair.
    pub a: RecordId,
    /// The other record of the pair.
    pub b: RecordId,
    pub judgement: Judgement,
    /// The judgement that held before. It holds again after the decision is undone.
    pub before: Judgement,
    /// Number of rulings about the pair.
    pub seen: usize,
}

impl FlashMessage {
    /// Returns the value of the cookie.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the value of a cookie; `None` if it is not valid. A client can forge the value. The desk shows it and trusts it no more than
    /// any form.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the decision about a pair that was just made.
    pub fn decided(&self) -> Option<&DecidedNotice> {
        match self {
            Self::Decided(decided) => Some(decided),
            _ => None,
        }
    }

    /// Returns the message for the visitor. `titles` are the titles of the records of a decision; without them the message contains the ids.
    pub fn text(&self, words: &DeskWords, titles: Option<&[String; 2]>) -> Cow<'static, str> {
        match self {
            Self::SignedOut => words.frame.signed_out.into(),
            Self::Registered => words.check.registered.into(),
            Self::Decided(DecidedNotice { a, b, judgement, .. }) => {
                let done = (words.decide.done)(*judgement);
                match titles {
                    // Copies have the same title, so that the ids distinguish them.
                    Some([one, other]) if one == other => format!("{done} {one} ({a} ↔ {b})").into(),
                    Some([one, other]) if !one.is_empty() && !other.is_empty() => {
                        format!("{done} {one} ↔ {other}").into()
                    }
                    _ => format!("{done} {a} ↔ {b}").into(),
                }
            }
            Self::Regrouped(RegroupedNotice { done, of, .. }) => (words.regroup.done)(*done, *of).into(),
            Self::Created => words.start.created_now.into(),
            Self::DemoLoaded => words.start.demo_loaded.into(),
            Self::StepAdded => words.events.step_added.into(),
            Self::AccountChanged => words.people.changed.into(),
            Self::AccountRemoved => words.people.removed.into(),
            Self::PasswordChanged => words.people.password_changed.into(),
            Self::SessionEnded => words.people.ended.into(),
            Self::Work(done) => (words.work.done)(*done).into(),
            Self::Undone { done, of } => (words.regroup.undone)(*done, *of).into(),
        }
    }

    /// Returns the decision that the visitor can withdraw. A withdrawal itself cannot be withdrawn: the visitor makes a new decision instead.
    pub fn to_undo(&self) -> Option<&DecidedNotice> {
        let decided = self.decided()?;
        let is_undone = matches!(decided.judgement, Judgement::Withdrawn);
        (!is_undone && decided.judgement != decided.before).then_some(decided)
    }

    /// Returns the decisions about a group that the visitor can take back.
    pub fn to_undo_together(&self) -> Option<&RegroupedNotice> {
        match self {
            Self::Regrouped(regrouped) if regrouped.done > 0 => Some(regrouped),
            _ => None,
        }
    }
}
