//! The stored progress of a webhook in one collection.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::MessageKind;
use doppel_core::record::RecordId;
use doppel_store::Seq;

/// Number of deliveries that the log keeps.
const LOGGED: usize = 50;
/// Largest number of records whose events are still to be told. The events of more records are not told.
const MOST_TOUCHED: usize = 1_000;

/// A message that was accepted or given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// The id of the message, header `webhook-id`.
    pub id: String,
    /// Its kind.
    pub kind: MessageKind,
    /// Time of the last attempt (RFC 3339, UTC).
    pub at: String,
    /// Number of attempts.
    pub attempts: u32,
    /// The status of the receiver's answer; `null` if the message was given up.
    pub status: Option<u16>,
}

/// A message that the receiver has not accepted so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FailingMessage {
    pub(super) id: String,
    /// Time of the first attempt, in seconds since 1970.
    pub(super) since: u64,
    pub(super) attempts: u32,
}

/// The progress of a webhook in one collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookProgress {
    /// The process that sends the messages.
    pub(super) holder: String,
    /// The end of its lease (microseconds since 1970, by the store's clock).
    pub(super) held_until: u64,
    /// The changes up to this number are done. `None` before the first round, which begins at the present.
    pub(super) number: Option<Seq>,
    /// The first records of the events that are known to be frequent.
    pub(super) frequent: BTreeSet<RecordId>,
    /// The changed records whose events are still to be told.
    pub(super) touched: BTreeSet<RecordId>,
    pub(super) failing: Option<FailingMessage>,
    /// Number of accepted messages.
    pub(super) sent: u64,
    /// Number of messages that were given up.
    pub(super) dropped: u64,
    /// Time and text of the last error; none after a message was accepted.
    pub(super) last_error: Option<(String, String)>,
    pub(super) log: VecDeque<Delivery>,
}

impl WebhookProgress {
    /// Notes that a message is done: accepted with a status, or given up.
    pub(super) fn done(&mut self, id: &str, kind: MessageKind, status: Option<u16>) {
        let earlier = self.failing.take().filter(|failing| failing.id == id).map_or(0, |failing| failing.attempts);
        let attempts = earlier + u32::from(status.is_some());
        match status {
            Some(_) => {
                self.sent += 1;
                self.last_error = None;
            }
            None => self.dropped += 1,
        }
        if self.log.len() == LOGGED {
            self.log.pop_front();
        }
        self.log.push_back(Delivery { id: id.to_owned(), kind, at: crate::clock::now(), attempts, status });
    }

    /// Notes a failed attempt. Returns true if the message is to be given up: it has failed for at least `give_up_s`.
    pub(super) fn failed(&mut self, id: &str, reason: String, now: u64, give_up_s: u64) -> bool {
        let failing = self.failing.get_or_insert_with(|| FailingMessage { since: now, ..FailingMessage::default() });
        if failing.id != id {
            *failing = FailingMessage { id: id.to_owned(), since: now, attempts: 0 };
        }
        failing.attempts += 1;
        self.last_error = Some((crate::clock::now(), reason));
        now.saturating_sub(failing.since) >= give_up_s
    }

    /// Notes a changed record.
    pub(super) fn touch(&mut self, id: RecordId) {
        if self.touched.len() < MOST_TOUCHED {
            self.touched.insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_given_up_after_its_own_time() {
        let mut progress = WebhookProgress::default();
        assert!(!progress.failed("a", "no connection".into(), 100, 60));
        assert!(!progress.failed("a", "no connection".into(), 159, 60));
        assert!(!progress.failed("b", "no connection".into(), 160, 60), "another message has its own time");
        assert!(progress.failed("b", "no connection".into(), 220, 60));
        progress.done("b", MessageKind::RecordRepeat, None);
        assert_eq!((progress.dropped, progress.sent, progress.log[0].attempts), (1, 0, 2));
        progress.done("c", MessageKind::RecordRepeat, Some(200));
        assert_eq!((progress.sent, progress.log[1].attempts, progress.last_error), (1, 1, None));
    }

    #[test]
    fn the_log_and_the_list_of_changed_records_have_a_bound() {
        let mut progress = WebhookProgress::default();
        for number in 0..2_000 {
            progress.done(&number.to_string(), MessageKind::EventChanged, Some(204));
            progress.touch(RecordId::new(&format!("r{number}")).unwrap());
        }
        assert_eq!((progress.log.len(), progress.touched.len(), progress.log[0].id.as_str()), (50, 1_000, "1950"));
    }
}
