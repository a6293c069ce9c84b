//! The worker of one webhook: it follows the changes of its collections and sends their messages in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::message::{MessageData, WebhookMessage};
use super::progress::{Delivery, WebhookProgress};
use super::sender::{Attempt, WebhookSender};
use crate::config::{MessageKind, WebhookConfig};
use doppel_core::collection::CollectionName;
use doppel_core::events::{FrequencyRule, FrequencyState};
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_engine::changes::{ChangeList, ChangeName, ChangeView};
use doppel_engine::events::{EventSelection, EventView};
use doppel_engine::{Engine, Error};
use doppel_store::values::NamedValue;
use doppel_store::{CollectionNumber, Seq, StoreError};

/// Beginning of the names of the values that contain progress.
const PREFIX: &str = "webhooks/";
/// Interval at which the worker asks for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time for which an instance holds a webhook after its last write.
const LEASE: Duration = Duration::from_secs(90);
/// Interval at which the lease is renewed although nothing happens.
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// The first pause after a failed attempt. Each further one in a row doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failed attempt.
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Number of changes that are read at once.
const PIECE: usize = 100;
/// Number of events that are read at once.
const EVENTS_PIECE: usize = 200;
/// Largest number of frequent events that are told of a collection at once.
const MOST_FREQUENT: usize = 5_000;

/// The state of a webhook.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct WebhookState {
    /// The name in the configuration.
    pub name: String,
    /// The kinds of messages.
    pub messages: Vec<MessageKind>,
    /// Its collections, sorted by name.
    pub collections: Vec<CollectionDeliveries>,
}

/// The messages of a webhook about one collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CollectionDeliveries {
    /// The collection.
    #[schema(value_type = String)]
    pub collection: CollectionName,
    /// Number of accepted messages.
    pub sent: u64,
    /// Number of messages that were given up.
    pub dropped: u64,
    /// The changes up to this number are done; `null` before the first round.
    #[schema(value_type = Option<u64>)]
    pub number: Option<Seq>,
    /// The number of the last change of the collection.
    #[schema(value_type = u64)]
    pub last_number: Seq,
    /// Time of the last error (RFC 3339, UTC); `null` if the last message was accepted.
    pub failed_at: Option<String>,
    /// The last error; it contains no address.
    pub error: Option<String>,
    /// The latest messages that were accepted or given up, oldest first.
    pub log: Vec<Delivery>,
}

/// A message was not accepted. The collection waits.
#[derive(Debug, thiserror::Error)]
#[error("a message was not accepted")]
struct NotAccepted;

/// Another instance serves the webhook.
#[derive(Debug, thiserror::Error)]
#[error("another instance serves the webhook")]
struct HeldElsewhere;

/// The worker of a webhook.
pub(super) struct WebhookWorker {
    pub(super) engine: Engine,
    pub(super) config: WebhookConfig,
    pub(super) sender: WebhookSender,
    /// The name of this process in leases.
    pub(super) holder: String,
    /// The collections that existed when the process began. Webhooks begin at the present of these. Of later ones all changes are told.
    pub(super) earlier: Arc<BTreeSet<CollectionNumber>>,
}

/// A collection, and the number that tells it from an earlier one with the same name.
type NumberedCollection = (CollectionName, CollectionNumber);

/// When a collection is next looked at.
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
        for outcome in ["accepted", "refused", "given_up"] {
            self.count(outcome, 0);
        }
        let mut rounds: BTreeMap<NumberedCollection, NextRound> = BTreeMap::new();
        loop {
            tokio::select! {
                () = self.round(&mut rounds) => {}
                () = draining.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = draining.cancelled() => return,
            }
        }
    }

    fn count(&self, outcome: &'static str, number: u64) {
        let webhook = self.config.name.clone();
        metrics::counter!("doppel_webhook_attempts_total", "webhook" => webhook, "outcome" => outcome)
            .increment(number);
    }

    /// Looks at each collection that is due.
    async fn round(&self, rounds: &mut BTreeMap<NumberedCollection, NextRound>) {
        let there = match collections(&self.engine, &self.config).await {
            Ok(there) => there,
            // The next round tries again.
            Err(_) => return,
        };
        rounds.retain(|collection, _| there.contains(collection));
        for collection in there {
            let next = rounds.entry(collection.clone()).or_insert_with(|| NextRound {
                at: Instant::now(),
                pause: FIRST_PAUSE,
                said: None,
            });
            if next.at > Instant::now() {
                continue;
            }
            let (name, number) = collection;
            match self.serve(&name, !self.earlier.contains(&number)).await {
                Ok(()) => {
                    next.pause = FIRST_PAUSE;
                    next.said = None;
                }
                Err(error) => {
                    let reason = format!("{error:#}");
                    let is_waiting = error.is::<HeldElsewhere>()
                        || matches!(error.downcast_ref(), Some(Error::EventsNotReady { .. }));
                    if !is_waiting && next.said.as_ref() != Some(&reason) {
                        // Each reason is logged once, because a receiver may be down for a whole night.
                        tracing::warn!(webhook = self.config.name, collection = %name, reason, "messages wait; trying again");
                        next.said = Some(reason);
                    }
                    next.at = Instant::now() + next.pause;
                    next.pause = (next.pause * 2).min(LAST_PAUSE);
                }
            }
        }
    }

    /// Sends all messages of a collection that are due, if this process holds the webhook.
    async fn serve(&self, collection: &CollectionName, is_new: bool) -> anyhow::Result<()> {
        let name = name_of(&self.config);
        let store = self.engine.store();
        let (version, progress) = decode(store.value(collection, &name).await?)?;
        let last = store.last_change(collection).await?;
        let time = store.lease_time(crate::clock::micros()).await?;
        let is_own = progress.holder == self.holder;
        if !is_own && store.is_shared() && progress.held_until > time {
            return Err(HeldElsewhere.into());
        }
        let is_idle = progress.number == Some(last) && progress.touched.is_empty();
        let renewed = progress.held_until.saturating_sub(LEASE.as_micros() as u64);
        if is_own && is_idle && renewed + RENEW_EVERY.as_micros() as u64 > time {
            return Ok(());
        }
        let mut served = ServedCollection { worker: self, collection, name, version, progress };
        served.progress.holder.clone_from(&self.holder);
        served.keep().await?;
        if served.progress.number.is_none() && !is_new {
            return served.begin(last).await;
        }
        served.follow().await
    }

    fn rule(&self) -> FrequencyRule {
        FrequencyRule { reports: self.config.reports, days: self.config.days }
    }

    fn wants_events(&self) -> bool {
        self.config.gets(MessageKind::EventFrequent) || self.config.gets(MessageKind::EventChanged)
    }
}

/// A collection whose messages this process sends.
struct ServedCollection<'a> {
    worker: &'a WebhookWorker,
    collection: &'a CollectionName,
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
        if !store.put_value(self.collection, &self.name, value).await? {
            return Err(HeldElsewhere.into());
        }
        self.version += 1;
        Ok(())
    }

    /// Begins at the present: nothing is sent about what is there already.
    async fn begin(&mut self, last: Seq) -> anyhow::Result<()> {
        if self.worker.config.gets(MessageKind::EventFrequent) {
            self.progress.frequent = self.frequent_events().await?.into_iter().map(|event| event.id).collect();
        }
        self.progress.number = Some(last);
        self.keep().await
    }

    async fn follow(&mut self) -> anyhow::Result<()> {
        loop {
            let number = self.progress.number.unwrap_or_default();
            let list = match self.worker.engine.changes(self.collection, number, PIECE).await {
                Err(Error::Store(StoreError::ChangesForgotten { .. })) => {
                    let reason = "changes were forgotten before their messages were sent (collections.changes_kept)";
                    tracing::warn!(webhook = self.worker.config.name, collection = %self.collection, reason);
                    self.progress.last_error = Some((crate::clock::now(), reason.to_owned()));
                    let last = self.worker.engine.store().last_change(self.collection).await?;
                    self.progress.number = Some(last);
                    return self.keep().await;
                }
                list => list?,
            };
            let ChangeList { items, next_since, more } = list;
            let is_empty = items.is_empty();
            for change in items {
                self.tell_change(change).await?;
            }
            self.progress.number = Some(next_since);
            if !more {
                if !is_empty || !self.progress.touched.is_empty() {
                    self.tell_events().await?;
                }
                return self.keep().await;
            }
            self.keep().await?;
        }
    }

    async fn tell_change(&mut self, change: ChangeView) -> anyhow::Result<()> {
        let ChangeView { number, kind, id, verdict, duplicate_of, other, .. } = change;
        if self.worker.config.gets(MessageKind::EventChanged) && kind != ChangeName::Removed {
            self.progress.touch(id.clone());
            other.into_iter().for_each(|other| self.progress.touch(other));
        }
        let is_stored = matches!(kind, ChangeName::Created | ChangeName::Replaced);
        let verdict = verdict
            .filter(|verdict| is_stored && matches!(verdict, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate));
        if let Some(verdict) = verdict.filter(|_| self.worker.config.gets(MessageKind::RecordRepeat)) {
            let data = MessageData::Repeat { id: id.clone(), verdict, duplicate_of };
            self.tell(&WebhookMessage::new(MessageKind::RecordRepeat, self.collection, number, &id, data)).await?;
        }
        self.progress.number = Some(number);
        Ok(())
    }

    /// Tells the events that are frequent now and were not before, and then the events of the changed records.
    async fn tell_events(&mut self) -> anyhow::Result<()> {
        if !self.worker.wants_events() {
            return Ok(());
        }
        let number = self.progress.number.unwrap_or_default();
        if self.worker.config.gets(MessageKind::EventFrequent) {
            let frequent = self.frequent_events().await?;
            // An event may have another first record by now.
            let told = self.events_of(self.progress.frequent.clone()).await?;
            let mut told: BTreeSet<RecordId> = told.into_iter().map(|event| event.id).collect();
            let now: BTreeSet<RecordId> = frequent.iter().map(|event| event.id.clone()).collect();
            for event in frequent {
                if told.insert(event.id.clone()) {
                    self.tell_event(MessageKind::EventFrequent, number, event.clone()).await?;
                    self.progress.frequent.insert(event.id);
                }
            }
            self.progress.frequent = now;
        }
        for event in self.events_of(self.progress.touched.clone()).await? {
            self.tell_event(MessageKind::EventChanged, number, event).await?;
        }
        self.progress.touched.clear();
        Ok(())
    }

    async fn tell_event(&mut self, kind: MessageKind, number: Seq, event: EventView) -> anyhow::Result<()> {
        let id = event.id.clone();
        let data = MessageData::Event { event: Box::new(event) };
        self.tell(&WebhookMessage::new(kind, self.collection, number, &id, data)).await
    }

    /// Returns the events of some records.
    async fn events_of(&self, ids: BTreeSet<RecordId>) -> anyhow::Result<Vec<EventView>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        match self.worker.engine.events_of(self.collection, ids, self.worker.rule()).await {
            Err(Error::TextNotKept(..)) => Ok(Vec::new()),
            events => Ok(events?),
        }
    }

    /// Returns the frequent events of the collection.
    async fn frequent_events(&self) -> anyhow::Result<Vec<EventView>> {
        let selection = EventSelection {
            rule: self.worker.rule(),
            frequency: Some(FrequencyState::Frequent),
            ..EventSelection::default()
        };
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = self.worker.engine.events(self.collection, selection.clone(), after, EVENTS_PIECE).await;
            let page = match page {
                // Without texts there are no events.
                Err(Error::TextNotKept(..)) => return Ok(Vec::new()),
                page => page?,
            };
            found.extend(page.items);
            after = page.next;
            if after.is_none() || found.len() >= MOST_FREQUENT {
                return Ok(found);
            }
        }
    }

    /// Makes one attempt to send a message, and stores the outcome.
    async fn tell(&mut self, message: &WebhookMessage) -> anyhow::Result<()> {
        match self.worker.sender.send(message).await {
            Attempt::Accepted(status) => {
                self.worker.count("accepted", 1);
                self.progress.done(&message.id, message.kind, Some(status));
                self.keep().await
            }
            Attempt::Refused(reason) => {
                self.worker.count("refused", 1);
                let now = crate::clock::micros() / 1_000_000;
                if !self.progress.failed(&message.id, reason.clone(), now, self.worker.config.give_up_s) {
                    self.keep().await?;
                    return Err(anyhow::Error::new(NotAccepted).context(reason));
                }
                self.worker.count("given_up", 1);
                let kind = message.kind.name();
                tracing::warn!(webhook = self.worker.config.name, kind, reason, "a message is given up");
                self.progress.done(&message.id, message.kind, None);
                self.keep().await
            }
        }
    }
}
