//! The change feed: the records by their seqs, and the changes that each transaction logs.
//!
//! While callers wait for changes, an instance sends one small query every [`LOOK_EVERY`] for all waiters and collections together, or
//! every [`LOOK_EVERY_IDLE`] if no collection has changed for a while. Without waiters it sends no query. An instance learns of its own
//! commits at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocument, doc};
use tokio::sync::watch;

use super::documents::{
    CHANGES, COLLECTIONS, RECORDS, RecordDocument, StoredNumber, changes_between, damaged, decode_change, optional_i64,
    seq_of, seq_value,
};
use super::retry::TxnError;
use super::{MongoStore, SharedStore};
use doppel_core::collection::CollectionName;
use doppel_store::changes::{ChangeFeed, ChangePage, LoggedChange};
use doppel_store::rules::feed;
use doppel_store::{Result, Seq, StoreError, StoredRecord};

/// Time between two queries for the commits of other instances, while a caller waits for them.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time between two queries if no collection has changed for [`IDLE_AFTER`]. Most instances of an office are idle for most of the
/// day, and each query costs the database as much as a short read of a user.
const LOOK_EVERY_IDLE: Duration = Duration::from_secs(1);
/// Time without a change after which an instance is idle.
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// The last commits of all collections at the last query.
#[derive(Clone, Debug, Default)]
pub(super) struct LastCommits {
    asked: Option<Instant>,
    commits: HashMap<StoredNumber, Seq>,
}

impl LastCommits {
    /// True if the collection may have a commit above `after`. `since` is a time at which the collection existed.
    fn may_be_above(&self, number: StoredNumber, after: Seq, since: Instant) -> bool {
        match self.commits.get(&number) {
            Some(last) => *last > after,
            // The collection was dropped meanwhile. The waiter continues, and reads the error.
            None => self.asked.is_some_and(|asked| asked > since),
        }
    }
}

/// The range of the log of a collection.
struct LogRange {
    number: StoredNumber,
    last: Seq,
    forgotten: Seq,
}

impl LogRange {
    fn decode(document: &RawDocument) -> Result<Self> {
        Ok(Self {
            number: document.get_i32("number").map_err(damaged)?,
            last: seq_of(document.get_i64("commits").map_err(damaged)?),
            forgotten: seq_of(optional_i64(document, "forgotten")?.unwrap_or(0)),
        })
    }

    fn projection() -> Document {
        doc! { "number": 1, "commits": 1, "forgotten": 1 }
    }
}

impl SharedStore {
    async fn changes(
        &self,
        name: &CollectionName,
        after: Seq,
        limit: usize,
    ) -> std::result::Result<ChangePage, TxnError> {
        let mut session = self.snapshot().await?;
        let session = &mut session;
        let LogRange { number, last, forgotten } = self.ends(session, name).await?;
        feed::check_after(name, after, forgotten, last)?;
        if after == last {
            return Ok(ChangePage { next: last, ..ChangePage::default() });
        }
        let from = seq_value(after);
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let records = self.records_in(session, number, doc! { "$gt": from }, most).await?;
        let logged = self.logged(session, number, after, last, most).await?;
        let seqs = feed::updated(&logged);
        let updated = match seqs.is_empty() {
            true => Vec::new(),
            false => {
                let seqs: Vec<i64> = seqs.into_iter().map(seq_value).collect();
                self.records_in(session, number, doc! { "$in": seqs }, 0).await?
            }
        };
        Ok(feed::page(after, last, limit, records, logged, updated))
    }

    async fn logged_page(
        &self,
        name: &CollectionName,
        after: Seq,
        limit: usize,
    ) -> std::result::Result<(Vec<LoggedChange>, Seq), TxnError> {
        let mut session = self.snapshot().await?;
        let LogRange { number, last, forgotten } = self.ends(&mut session, name).await?;
        feed::check_after(name, after, forgotten, last)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let logged = self.logged(&mut session, number, after, last, most).await?;
        let next = feed::after_logged(&logged, limit, last);
        Ok((logged, next))
    }

    /// Reads the range of the log in the snapshot. One round trip.
    async fn ends(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
    ) -> std::result::Result<LogRange, TxnError> {
        let collections = self.in_session(COLLECTIONS);
        let asked = collections.find_one(doc! { "_id": name.as_str() }).projection(LogRange::projection());
        let found = asked.session(&mut *session).await?;
        let found = found.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
        Ok(LogRange::decode(&found)?)
    }

    /// Reads the number of a collection and its last commit in the snapshot. One round trip.
    pub(super) async fn last_commit_in(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
    ) -> std::result::Result<(StoredNumber, Seq), TxnError> {
        let LogRange { number, last, .. } = self.ends(session, name).await?;
        Ok((number, last))
    }

    /// Reads records whose seq matches `which`, in the order of seqs; at most `limit` records, unless `limit` is 0. One round trip.
    async fn records_in(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        which: Document,
        limit: i64,
    ) -> std::result::Result<Vec<StoredRecord>, TxnError> {
        let records = self.in_session(RECORDS);
        let asked = records.find(doc! { "_id.c": number, "seq": which }).sort(doc! { "seq": 1 }).limit(limit);
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = Vec::new();
        while cursor.advance(session).await? {
            found.push(RecordDocument::decode(cursor.current())?.record);
        }
        Ok(found)
    }

    /// Reads the logged changes above `after` up to `last`, in order. One round trip.
    async fn logged(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        after: Seq,
        last: Seq,
        limit: i64,
    ) -> std::result::Result<Vec<LoggedChange>, TxnError> {
        let changes = self.in_session(CHANGES);
        let asked = changes.find(changes_between(number, after, last)).sort(doc! { "_id": 1 }).limit(limit);
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = Vec::new();
        while cursor.advance(session).await? {
            let change: Document =
                mongodb::bson::deserialize_from_slice(cursor.current().as_bytes()).map_err(damaged)?;
            found.push(decode_change(change)?);
        }
        Ok(found)
    }

    async fn changed(&self, name: &CollectionName, after: Seq) -> Result<()> {
        let since = Instant::now();
        let number = self.known(name).await?.number;
        let mut own = self.latch_queues.of(number).confirmations();
        let mut all = self.last_commits.subscribe();
        // The senders exist as long as the store.
        tokio::select! {
            _ = own.wait_for(|confirmed| *confirmed > after) => {}
            _ = all.wait_for(|last| last.may_be_above(number, after, since)) => {}
        }
        self.check_open()
    }

    /// Reads the last commits of all collections.
    async fn look_up_commits(&self) -> std::result::Result<LastCommits, TxnError> {
        let asked = Some(Instant::now());
        let mut cursor = self.raw(COLLECTIONS).find(doc! {}).projection(LogRange::projection()).await?;
        let mut commits = HashMap::new();
        while cursor.advance().await? {
            let ends = LogRange::decode(cursor.current())?;
            commits.insert(ends.number, ends.last);
        }
        Ok(LastCommits { asked, commits })
    }

    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()> {
        self.read(self.deadline(), || async {
            let collections = self.raw(COLLECTIONS);
            let own = doc! { "_id": name.as_str() };
            let found = collections.find_one(own.clone()).projection(LogRange::projection()).await?;
            let found = found.ok_or_else(|| StoreError::UnknownCollection(name.clone()))?;
            let LogRange { number, last, .. } = LogRange::decode(&found)?;
            let changes = self.documents(CHANGES);
            let gone = changes_between(number, Seq(0), last.before(keep));
            let highest = changes.find_one(gone.clone()).sort(doc! { "_id": -1 }).await?;
            let Some(highest) = highest.map(decode_change).transpose()? else { return Ok(()) };
            // `forgotten` is set before the changes are deleted, so that a reader that would miss a change gets an error.
            let noted = doc! { "$max": { "forgotten": seq_value(highest.number) } };
            let mut own = own;
            own.insert("number", number);
            if collections.update_one(own, noted).await?.matched_count > 0 {
                changes.delete_many(gone).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Reads the last commits from the database while a caller waits for them, until the store is closed or dropped.
pub(super) async fn watch_commits(shared: std::sync::Weak<SharedStore>) {
    let mut changed_at = Instant::now();
    loop {
        let is_idle = changed_at.elapsed() > IDLE_AFTER;
        tokio::time::sleep(if is_idle { LOOK_EVERY_IDLE } else { LOOK_EVERY }).await;
        let Some(shared) = shared.upgrade().filter(|shared| shared.check_open().is_ok()) else { return };
        if shared.last_commits.receiver_count() == 0 {
            continue;
        }
        // After an error, the waiters wait on, because reading changes would also fail.
        let looking = tokio::time::timeout(shared.options.deadline, shared.look_up_commits());
        if let Ok(Ok(found)) = looking.await {
            if shared.last_commits.borrow().commits != found.commits {
                changed_at = Instant::now();
            }
            shared.last_commits.send_replace(found);
        }
    }
}

#[async_trait]
impl ChangeFeed for MongoStore {
    async fn changes(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage> {
        let shared = &self.shared;
        shared.read(shared.deadline(), || shared.changes(name, after, limit)).await
    }

    async fn logged(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<(Vec<LoggedChange>, Seq)> {
        let shared = &self.shared;
        shared.read(shared.deadline(), || shared.logged_page(name, after, limit)).await
    }

    async fn last_change(&self, name: &CollectionName) -> Result<Seq> {
        let shared = &self.shared;
        let ends = shared.read(shared.deadline(), || async {
            let mut session = shared.snapshot().await?;
            shared.ends(&mut session, name).await
        });
        Ok(ends.await?.last)
    }

    async fn changed(&self, name: &CollectionName, after: Seq) -> Result<()> {
        self.shared.changed(name, after).await
    }

    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { shared.forget_changes(&name, keep).await }).await
    }
}

/// The sender of new [`LastCommits`] to the waiters.
pub(super) type LastCommitsSender = watch::Sender<LastCommits>;
