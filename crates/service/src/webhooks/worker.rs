//! The worker of one webhook: it follows the changes of its collections and sends their messages in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::NumberedCollection;
use super::message::{MessageData, WebhookMessage};
use super::progress::{Delivery, FrequentEvents, PendingMessage, WebhookProgress};
use super::sender::{Attempt, WebhookSender};
use doppel_config::{MessageKind, WebhookConfig};
use doppel_core::collection::CollectionName;
use doppel_core::events::{FrequencyRule, FrequencyState};
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_engine::changes::{ChangeList, ChangeName, ChangeView};
use doppel_engine::events::{EventSelection, EventWithMembers};
use doppel_engine::{Engine, Error};
use doppel_store::values::NamedValue;
use doppel_store::{CollectionNumber, Seq, StoreError};

/// Beginning of the names of the values that contain progress.
const PREFIX: &str = "webhooks/";
/// Interval at which an instance asks a database that it shares with others.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Time for which an instance holds a webhook after its last write.
const LEASE: Duration = Duration::from_secs(90);
/// Interval at which the lease is renewed although nothing happens.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// The interval at which the worker asks an embedded store, and the first pause after a failed attempt. Each further failure in a row doubles the
/// pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failed attempt.
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Number of changes that are read at once.
const PIECE: usize = 100;
/// Number of events that are read at once.
const EVENTS_PIECE: usize = 200;
/// Number of pieces of changes of one collection whose messages the worker sends before it continues with the other collections.
const PIECES_AT_ONCE: usize = 4;
/// Name of the value with the frequent events, after the name of the webhook.
const FREQUENT: &str = "/frequent";

/// The state of a webhook.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WebhookState {
    /// The name in the configuration.
    pub name: String,
    /// The kinds of messages that are sent.
    pub messages: Vec<MessageKind>,
    /// The collections of the webhook, sorted by name.
    pub collections: Vec<CollectionDeliveries>,
}

/// The deliveries of a webhook for one collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CollectionDeliveries {
    /// The name of the collection.
    #[schema(value_type = String)]
    pub collection: CollectionName,
    /// Number of messages that the receiver accepted.
    pub sent: u64,
    /// Number of messages that the service stopped trying to deliver.
    pub dropped: u64,
    /// The number of the latest change whose messages were created; `null` if no change was read yet. Each of these messages was sent, dropped, or
    /// is waiting.
    #[schema(value_type = Option<u64>)]
    pub number: Option<Seq>,
    /// Number of created messages that are not delivered yet.
    pub waiting: usize,
    /// The number of the latest change in the collection.
    #[schema(value_type = u64)]
    pub last_number: Seq,
    /// Time of the last error (RFC 3339, UTC); `null` if the last message was accepted.
    pub failed_at: Option<String>,
    /// The last error, without the address; `null` if the last message was accepted.
    pub error: Option<String>,
    /// The latest messages that were accepted or dropped, the oldest first.
    pub log: Vec<Delivery>,
}

/// The reason why the messages of a collection wait.
#[derive(Debug, thiserror::Error)]
enum WhyWaiting {
    /// Another instance serves the webhook.
    #[error("another instance serves the webhook")]
    HeldElsewhere,
    /// The events do not contain the latest changes yet.
    #[error("the events are being found")]
    EventsBehind,
    /// The receiver did not accept a message.
    #[error("{0}")]
    Refused(String),
}

pub(super) struct WebhookWorker {
    pub(super) engine: Engine,
    pub(super) config: WebhookConfig,
    pub(super) sender: WebhookSender,
    /// The name of this process in leases.
    pub(super) holder: String,
    /// The collections that existed when the process began. A new webhook sends no messages about earlier changes of these collections. For later
    /// collections it sends messages about all changes.
    pub(super) earlier: Arc<BTreeSet<CollectionNumber>>,
}

/// The time of the next round of a collection.
struct NextRound {
    at: Instant,
    pause: Duration,
    /// The error that was logged last.
    said: Option<String>,
}

fn name_of(config: &WebhookConfig) -> String {
    format!("{PREFIX}{}", config.name)
}

fn decode(stored: Option<NamedValue>) -> Result<(u64, WebhookProgress), Error> {
    let Some(NamedValue { version, value }) = stored else { return Ok((0, WebhookProgress::default())) };
    let progress = serde_json::from_value(value)
        .map_err(|error| StoreError::Internal(format!("the progress of a webhook cannot be read: {error}")))?;
    Ok((version, progress))
}

/// Returns the collections of a webhook that exist.
async fn collections(engine: &Engine, config: &WebhookConfig) -> Result<Vec<NumberedCollection>, Error> {
    let there = engine.store().collections().await?.into_iter().map(|state| (state.name.clone(), state.number));
    let wanted = &config.collections;
    Ok(there.filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name.as_str())).collect())
}

/// Returns the states of all webhooks.
///
/// # Errors
/// The store cannot be read.
pub async fn states(engine: &Engine, webhooks: &[WebhookConfig]) -> Result<Vec<WebhookState>, Error> {
    let mut states = Vec::new();
    for config in webhooks {
        let mut of_collections = BTreeMap::new();
        for (collection, _) in collections(engine, config).await? {
            let stored = engine.store().value(&collection, &name_of(config)).await?;
            let last_number = engine.store().last_change(&collection).await?;
            let progress = decode(stored)?.1;
            let error = progress.last_error;
            let state = CollectionDeliveries {
                collection: collection.clone(),
                sent: progress.sent,
                dropped: progress.dropped,
                number: progress.number,
                waiting: progress.pending.len(),
                last_number,
                failed_at: error.as_ref().map(|(at, _)| at.clone()),
                error: error.map(|(_, error)| error),
                log: progress.log.into(),
            };
            of_collections.insert(collection, state);
        }
        let collections = of_collections.into_values().collect();
        states.push(WebhookState { name: config.name.clone(), messages: config.messages.clone(), collections });
    }
    Ok(states)
}

impl WebhookWorker {
    /// Runs until the service drains.
    pub(super) async fn run(&self, draining: &CancellationToken) {
        let name = &self.config.name;
        for outcome in ["accepted", "refused"] {
            metrics::counter!("doppel_webhook_attempts_total", "webhook" => name.clone(), "outcome" => outcome)
                .increment(0);
        }
        metrics::counter!("doppel_webhook_messages_given_up_total", "webhook" => name.clone()).increment(0);
        let mut rounds: BTreeMap<NumberedCollection, NextRound> = BTreeMap::new();
        loop {
            tokio::select! {
                has_more = self.round(&mut rounds) => {
                    if has_more {
                        continue;
                    }
                }
                () = draining.cancelled() => return,
            }
            // Several instances query one database.
            let pause = if self.engine.store().is_shared() { LOOK_AGAIN } else { FIRST_PAUSE };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = draining.cancelled() => return,
            }
        }
    }

    fn count(&self, outcome: &'static str) {
        let webhook = self.config.name.clone();
        metrics::counter!("doppel_webhook_attempts_total", "webhook" => webhook, "outcome" => outcome).increment(1);
    }

    /// Looks at each collection that is due. Returns true if one of them has more messages.
    async fn round(&self, rounds: &mut BTreeMap<NumberedCollection, NextRound>) -> bool {
        // Without an answer of the store the next round tries again.
        let Ok(there) = collections(&self.engine, &self.config).await else { return false };
        rounds.retain(|collection, _| there.contains(collection));
        let Ok(is_known) = self.is_known(&there).await else { return false };
        let mut has_more = false;
        for collection in there {
            let begin = || NextRound { at: Instant::now(), pause: FIRST_PAUSE, said: None };
            let next = rounds.entry(collection.clone()).or_insert_with(begin);
            if next.at > Instant::now() {
                continue;
            }
            match self.serve(&collection, is_known).await {
                Ok(more) => {
                    has_more |= more;
                    *next = begin();
                }
                Err(error) => self.wait(&collection.0, next, &error),
            }
        }
        has_more
    }

    /// True if the webhook has progress in one of some collections.
    async fn is_known(&self, collections: &[NumberedCollection]) -> Result<bool, StoreError> {
        let name = name_of(&self.config);
        for (collection, _) in collections {
            if self.engine.store().value(collection, &name).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets a collection wait after an error.
    fn wait(&self, collection: &CollectionName, next: &mut NextRound, error: &anyhow::Error) {
        match error.downcast_ref::<WhyWaiting>() {
            Some(WhyWaiting::HeldElsewhere) => next.at = Instant::now() + LOOK_AGAIN,
            Some(WhyWaiting::EventsBehind) => next.at = Instant::now() + FIRST_PAUSE,
            Some(WhyWaiting::Refused(_)) | None => {
                let reason = format!("{error:#}");
                // Each reason is logged once, because a receiver may be down for a whole night.
                if next.said.as_ref() != Some(&reason) {
                    tracing::warn!(webhook = self.config.name, %collection, reason, "messages wait; trying again");
                    next.said = Some(reason);
                }
                next.at = Instant::now() + next.pause;
                next.pause = (next.pause * 2).min(LAST_PAUSE);
            }
        }
    }

    /// Sends the messages of a collection that are due, if this process holds the webhook. Returns true if there are more.
    async fn serve(&self, collection: &NumberedCollection, is_known: bool) -> anyhow::Result<bool> {
        let (collection_name, number) = collection;
        let name = name_of(&self.config);
        let store = self.engine.store();
        let (version, progress) = decode(store.value(collection_name, &name).await?)?;
        let last = store.last_change(collection_name).await?;
        let is_own = progress.holder == self.holder;
        let is_idle = progress.number == Some(last) && progress.pending.is_empty();
        if store.is_shared() {
            let time = store.lease_time(crate::clock::micros()).await?;
            if !is_own && progress.held_until > time {
                return Err(WhyWaiting::HeldElsewhere.into());
            }
            let renewed = progress.held_until.saturating_sub(LEASE.as_micros() as u64);
            if is_own && is_idle && renewed + RENEW_EVERY.as_micros() as u64 > time {
                return Ok(false);
            }
        } else if is_own && is_idle {
            return Ok(false);
        }
        let mut served = ServedCollection { worker: self, collection, name, version, progress };
        served.progress.holder.clone_from(&self.holder);
        served.keep().await?;
        if served.progress.number.is_none() {
            // A webhook for all collections has missed a collection only if the collection was created since the last round.
            let is_new = !self.earlier.contains(number) || is_known && self.config.collections.is_empty();
            served.begin(if is_new { Seq(0) } else { last }).await?;
        }
        served.follow().await
    }

    fn rule(&self) -> FrequencyRule {
        FrequencyRule { reports: self.config.reports, days: self.config.days }
    }
}

/// A collection whose messages this process sends.
struct ServedCollection<'a> {
    worker: &'a WebhookWorker,
    collection: &'a NumberedCollection,
    name: String,
    version: u64,
    progress: WebhookProgress,
}

impl ServedCollection<'_> {
    /// Stores the progress and renews the lease.
    async fn keep(&mut self) -> anyhow::Result<()> {
        let store = self.worker.engine.store();
        let time = store.lease_time(crate::clock::micros()).await?;
        self.progress.held_until = time.saturating_add(LEASE.as_micros() as u64);
        let value = NamedValue { version: self.version, value: serde_json::to_value(&self.progress)? };
        if !store.put_value(&self.collection.0, &self.name, value).await? {
            return Err(WhyWaiting::HeldElsewhere.into());
        }
        self.version += 1;
        Ok(())
    }

    /// Begins after a change: no message is sent about earlier changes.
    async fn begin(&mut self, number: Seq) -> anyhow::Result<()> {
        if self.worker.config.gets(MessageKind::EventFrequent) {
            let (version, _) = self.stored_frequent().await?;
            let frequent = match number {
                Seq(0) => FrequentEvents::begin(self.rule()),
                _ => self.frequent_now().await?,
            };
            self.store_frequent(version, &frequent).await?;
        }
        self.progress.number = Some(number);
        self.keep().await
    }

    /// Sends pending messages, reads changes and sends their messages, until there are no more. Returns true if there may be more.
    async fn follow(&mut self) -> anyhow::Result<bool> {
        for _ in 0..PIECES_AT_ONCE {
            while let Some(message) = self.progress.pending.front().cloned() {
                self.tell(message).await?;
            }
            let number = self.progress.number.unwrap_or_default();
            let list = match self.worker.engine.changes(&self.collection.0, number, PIECE).await {
                Err(Error::Store(StoreError::ChangesForgotten { .. })) => return self.skip_forgotten().await,
                list => list?,
            };
            if list.items.is_empty() && list.next_since == number {
                return Ok(false);
            }
            self.take(list).await?;
        }
        Ok(true)
    }

    async fn skip_forgotten(&mut self) -> anyhow::Result<bool> {
        let reason = "changes were forgotten before their messages were sent (collections.changes_kept)";
        tracing::warn!(webhook = self.worker.config.name, collection = %self.collection.0, reason);
        self.progress.last_error = Some((crate::clock::now(), reason.to_owned()));
        self.progress.number = Some(self.worker.engine.store().last_change(&self.collection.0).await?);
        self.keep().await?;
        Ok(false)
    }

    /// Makes the messages of some changes pending.
    async fn take(&mut self, list: ChangeList) -> anyhow::Result<()> {
        let ChangeList { items, next_since, .. } = list;
        let config = &self.worker.config;
        let mut pending = VecDeque::new();
        let mut touched = BTreeSet::new();
        for ChangeView { number, kind, id, verdict, duplicate_of, other, .. } in items {
            touched.extend(other);
            touched.insert(id.clone());
            let is_stored = matches!(kind, ChangeName::Created | ChangeName::Replaced);
            let is_repeat = matches!(verdict, Some(VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate));
            if is_stored && is_repeat && config.gets(MessageKind::RecordRepeat) {
                pending.push_back(PendingMessage {
                    kind: MessageKind::RecordRepeat,
                    number,
                    id,
                    verdict,
                    duplicate_of,
                });
            }
        }
        let mut told = None;
        if config.gets(MessageKind::EventFrequent) || config.gets(MessageKind::EventChanged) {
            let (version, mut frequent) = self.stored_frequent().await?;
            if frequent.rule != Some(self.rule()) {
                frequent = self.frequent_now().await?;
            }
            let before = frequent.clone();
            for EventWithMembers { event, members } in self.events_of(touched, next_since).await? {
                let is_frequent = event.frequency == FrequencyState::Frequent;
                let is_new = is_frequent && frequent.tell(&members);
                if !is_frequent {
                    frequent.forget(&members);
                }
                let kinds = [(MessageKind::EventFrequent, is_new), (MessageKind::EventChanged, true)];
                for (kind, _) in kinds.into_iter().filter(|(kind, is_due)| *is_due && config.gets(*kind)) {
                    let id = event.id.clone();
                    let number = next_since;
                    pending.push_back(PendingMessage { kind, number, id, verdict: None, duplicate_of: None });
                }
            }
            told = (frequent != before || version == 0).then_some((version, frequent));
        }
        self.progress.pending = pending;
        self.progress.number = Some(next_since);
        self.keep().await?;
        // If the process ends here, the message about a frequent event is sent again after the next change of the event.
        if let Some((version, frequent)) = told {
            self.store_frequent(version, &frequent).await?;
        }
        Ok(())
    }

    fn rule(&self) -> (usize, u32) {
        (self.worker.config.reports, self.worker.config.days)
    }

    fn frequent_name(&self) -> String {
        format!("{}{FREQUENT}", self.name)
    }

    async fn stored_frequent(&self) -> anyhow::Result<(u64, FrequentEvents)> {
        match self.worker.engine.store().value(&self.collection.0, &self.frequent_name()).await? {
            Some(NamedValue { version, value }) => Ok((version, serde_json::from_value(value)?)),
            None => Ok((0, FrequentEvents::default())),
        }
    }

    async fn store_frequent(&self, version: u64, frequent: &FrequentEvents) -> anyhow::Result<()> {
        let value = NamedValue { version, value: serde_json::to_value(frequent)? };
        match self.worker.engine.store().put_value(&self.collection.0, &self.frequent_name(), value).await? {
            true => Ok(()),
            false => Err(WhyWaiting::HeldElsewhere.into()),
        }
    }

    async fn frequent_now(&mut self) -> anyhow::Result<FrequentEvents> {
        let selection = EventSelection {
            rule: self.worker.rule(),
            frequency: Some(FrequencyState::Frequent),
            ..EventSelection::default()
        };
        let mut frequent = FrequentEvents::begin(self.rule());
        let mut after = None;
        loop {
            let page = self.worker.engine.events(&self.collection.0, selection.clone(), after, EVENTS_PIECE).await;
            let page = match page {
                // Without texts there are no events.
                Err(Error::TextNotKept(..)) => return Ok(frequent),
                Err(Error::EventsNotReady { .. }) => return Err(self.events_behind().await),
                page => page?,
            };
            for event in page.items {
                frequent.tell(&[event.id]);
            }
            after = page.next;
            if after.is_none() {
                return Ok(frequent);
            }
        }
    }

    /// Returns the events of some records, if they contain all changes up to a number.
    async fn events_of(&mut self, ids: BTreeSet<RecordId>, number: Seq) -> anyhow::Result<Vec<EventWithMembers>> {
        match self.worker.engine.events_of(&self.collection.0, ids, self.worker.rule()).await {
            Err(Error::TextNotKept(..)) => Ok(Vec::new()),
            Ok((events, as_of)) if as_of >= number => Ok(events),
            Ok(_) | Err(Error::EventsNotReady { .. }) => Err(self.events_behind().await),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes that the messages wait for the events.
    async fn events_behind(&mut self) -> anyhow::Error {
        self.progress.last_error = Some((crate::clock::now(), WhyWaiting::EventsBehind.to_string()));
        self.keep().await.err().unwrap_or_else(|| WhyWaiting::EventsBehind.into())
    }

    /// Returns the content of a message; `None` if its event has dissolved.
    async fn content(&mut self, message: &PendingMessage) -> anyhow::Result<Option<MessageData>> {
        if let Some(verdict) = message.verdict {
            let duplicate_of = message.duplicate_of.clone();
            return Ok(Some(MessageData::Repeat { id: message.id.clone(), verdict, duplicate_of }));
        }
        let events = self.events_of([message.id.clone()].into(), message.number).await?;
        Ok(events.into_iter().next().map(|found| MessageData::Event { event: Box::new(found.event) }))
    }

    /// Makes one attempt to send the first pending message, and stores the outcome.
    async fn tell(&mut self, pending: PendingMessage) -> anyhow::Result<()> {
        let Some(data) = self.content(&pending).await? else {
            self.progress.pending.pop_front();
            return self.keep().await;
        };
        let PendingMessage { kind, number, id, .. } = pending;
        let message = WebhookMessage::new(kind, self.collection, number, &id, data);
        match self.worker.sender.send(&message).await {
            Attempt::Accepted(status) => {
                self.worker.count("accepted");
                self.progress.done(&message.id, kind, Some(status));
            }
            Attempt::Refused(reason) => {
                self.worker.count("refused");
                let now = crate::clock::micros() / 1_000_000;
                if !self.progress.refused(reason.clone(), now, self.worker.config.give_up_s) {
                    self.keep().await?;
                    return Err(WhyWaiting::Refused(reason).into());
                }
                let kind_name = kind.name();
                tracing::warn!(webhook = self.worker.config.name, kind = kind_name, reason, "a message is given up");
                metrics::counter!("doppel_webhook_messages_given_up_total", "webhook" => self.worker.config.name.clone())
                    .increment(1);
                self.progress.done(&message.id, kind, None);
            }
        }
        self.keep().await
    }
}
