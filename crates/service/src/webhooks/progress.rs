//! The stored progress of a webhook in one collection.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use doppel_config::MessageKind;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_store::Seq;

/// Number of deliveries that the log keeps.
pub const MAX_LOGGED: usize = 50;
/// Number of frequent events that a webhook remembers, the latest events. If a forgotten event changes, the webhook sends its message again.
pub const MAX_FREQUENT: usize = 2_000;
/// Number of records by which a frequent event is known again.
const KNOWN_BY: usize = 3;

/// A message that was accepted or dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// The id of the message, sent in the header `webhook-id`.
    pub id: String,
    /// The kind of the message.
    pub kind: MessageKind,
    /// Time of the last attempt (RFC 3339, UTC).
    pub at: String,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// The HTTP status code of the receiver's response; `null` if the message was dropped.
    pub status: Option<u16>,
}

/// A message that is to be sent. Of an event it has the id: the description is that of the time of sending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingMessage {
    pub(super) kind: MessageKind,
    /// The last change that the message takes into account.
    pub(super) number: Seq,
    /// The record, or the first record of the event.
    pub(super) id: RecordId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) verdict: Option<VerdictKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) duplicate_of: Option<RecordId>,
}

/// The progress of a webhook in one collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebhookProgress {
    /// The process that sends the messages.
    pub(super) holder: String,
    /// The end of the lease of `holder` (microseconds since 1970, by the store's clock).
    pub(super) held_until: u64,
    /// The messages of the changes up to this number are sent or pending. `None` before the first round.
    pub(super) number: Option<Seq>,
    /// The messages of the latest changes, in their order: some hundreds at most, because no changes are read before all are sent.
    pub(super) pending: VecDeque<PendingMessage>,
    /// Number of attempts to send the first of them.
    pub(super) attempts: u32,
    /// Time of the first refused attempt since the last accepted message, in seconds since 1970.
    pub(super) failing_since: Option<u64>,
    /// Number of messages that the receiver accepted.
    pub(super) sent: u64,
    /// Number of messages that the service stopped trying to deliver.
    pub(super) dropped: u64,
    /// Time and text of the last error; `None` after an accepted message.
    pub(super) last_error: Option<(String, String)>,
    pub(super) log: VecDeque<Delivery>,
}

impl WebhookProgress {
    /// Records that the first pending message is finished: accepted with a status, or given up.
    pub(super) fn done(&mut self, id: &str, kind: MessageKind, status: Option<u16>) {
        let attempts = std::mem::take(&mut self.attempts) + u32::from(status.is_some());
        self.pending.pop_front();
        match status {
            Some(_) => {
                self.sent += 1;
                self.failing_since = None;
                self.last_error = None;
            }
            None => self.dropped += 1,
        }
        if self.log.len() == MAX_LOGGED {
            self.log.pop_front();
        }
        self.log.push_back(Delivery { id: id.to_owned(), kind, at: crate::clock::now(), attempts, status });
    }

    /// Records a refused attempt. Returns true if the message must be given up, because no message was accepted for at least `give_up_s`.
    pub(super) fn refused(&mut self, reason: String, now: u64, give_up_s: u64) -> bool {
        self.attempts += 1;
        self.last_error = Some((crate::clock::now(), reason));
        now.saturating_sub(*self.failing_since.get_or_insert(now)) >= give_up_s
    }
}

/// The frequent events whose messages were sent, each with some of its records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FrequentEvents {
    /// The rule: reports and days. Under another rule other events are frequent.
    pub(super) rule: Option<(usize, u32)>,
    told: VecDeque<Vec<RecordId>>,
}

impl FrequentEvents {
    /// Forgets all events and begins with a rule.
    pub(super) fn begin(rule: (usize, u32)) -> Self {
        Self { rule: Some(rule), told: VecDeque::new() }
    }

    /// Notes an event with these members as frequent. Returns true if it was not.
    pub(super) fn tell(&mut self, members: &[RecordId]) -> bool {
        if self.position(members).is_some() {
            return false;
        }
        if self.told.len() == MAX_FREQUENT {
            self.told.pop_front();
        }
        self.told.push_back(members.iter().take(KNOWN_BY).cloned().collect());
        true
    }

    /// Notes that an event with these members is not frequent any more.
    pub(super) fn forget(&mut self, members: &[RecordId]) {
        while let Some(at) = self.position(members) {
            self.told.remove(at);
        }
    }

    fn position(&self, members: &[RecordId]) -> Option<usize> {
        let members: BTreeSet<&RecordId> = members.iter().collect();
        self.told.iter().position(|told| told.iter().any(|id| members.contains(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RecordId {
        RecordId::new(text).unwrap()
    }

    fn pending(name: &str) -> PendingMessage {
        PendingMessage {
            kind: MessageKind::RecordRepeat,
            number: Seq(1),
            id: id(name),
            verdict: None,
            duplicate_of: None,
        }
    }

    #[test]
    fn messages_are_given_up_when_none_was_accepted_for_a_time() {
        let mut progress = WebhookProgress { pending: ["a", "b"].map(pending).into(), ..WebhookProgress::default() };
        assert!(!progress.refused("no connection".into(), 100, 60));
        assert!(progress.refused("no connection".into(), 160, 60));
        progress.done("a", MessageKind::RecordRepeat, None);
        assert_eq!((progress.dropped, progress.sent, progress.log[0].attempts, progress.pending.len()), (1, 0, 2, 1));
        assert!(progress.refused("no connection".into(), 161, 60), "the next message is given up after one attempt");
        progress.done("b", MessageKind::RecordRepeat, Some(200));
        assert_eq!((progress.sent, progress.log[1].attempts, &progress.last_error), (1, 2, &None));
        assert!(!progress.refused("no connection".into(), 200, 60), "a message was accepted");
    }

    #[test]
    fn the_log_has_a_bound() {
        let mut progress = WebhookProgress::default();
        for number in 0..2_000 {
            progress.done(&number.to_string(), MessageKind::EventChanged, Some(204));
        }
        assert_eq!((progress.log.len(), progress.log[0].id.as_str()), (50, "1950"));
    }

    #[test]
    fn a_frequent_event_is_told_once_although_its_first_record_is_deleted() {
        let members = |names: &[&str]| names.iter().map(|name| id(name)).collect::<Vec<_>>();
        let mut frequent = FrequentEvents::begin((3, 3));
        assert!(frequent.tell(&members(&["a", "b", "c", "d"])));
        assert!(!frequent.tell(&members(&["b", "c", "d", "e"])));
        assert!(frequent.tell(&members(&["x", "y", "z"])));
        frequent.forget(&members(&["c"]));
        assert!(frequent.tell(&members(&["b", "c", "d", "e"])), "it was not frequent in between");
        for number in 0..3_000 {
            frequent.tell(&members(&[&format!("r{number}")]));
        }
        assert_eq!(frequent.told.len(), 2_000);
    }
}
