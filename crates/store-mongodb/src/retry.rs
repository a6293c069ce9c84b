//! Transactions with a deadline, and the meanings of the errors of the server.
//!
//! [`TransactionRunner::transact`] runs a piece of work as one transaction (snapshot, majority) as often as necessary. After a conflict or the
//! loss of the primary, it runs the work again; after a commit with an unknown result, it commits again; the deadline ends both. No
//! wait in this module is longer than the time until the deadline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use mongodb::bson::Document;
use mongodb::error::{Error, ErrorKind, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT, WriteFailure};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions};
use mongodb::{Client, ClientSession};

use doppel_store::{Result, StoreError};

/// Seconds after which a client may try again if there is no primary: about the duration of an election.
const RETRY_AFTER_S: u32 = 2;
/// Longest pause between attempts.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause before another attempt to take a latch that another instance holds: much shorter than a transaction.
const CONFLICT_PAUSE: Duration = Duration::from_millis(6);
const DUPLICATE_KEY: i32 = 11_000;
const WRITE_CONFLICT: i32 = 112;
const UNAUTHORIZED: i32 = 13;
/// DatabaseDifferCase: the name of the database differs from the name of another database only by letter case.
const OTHER_CASE: i32 = 13_297;
/// SnapshotTooOld, SnapshotUnavailable: the time of a snapshot is too old, or older than a change of the schema. A later snapshot
/// succeeds.
const SNAPSHOT: [i32; 2] = [239, 246];
/// Transient errors of a server or a router: the same command may succeed a moment later.
const PASSING: [i32; 16] = [
    24,     // LockTimeout
    46,     // LockBusy
    50,     // MaxTimeMSExpired
    63,     // StaleShardVersion
    117,    // ConflictingOperationInProgress
    133,    // FailedToSatisfyReadPreference
    134,    // ReadConcernMajorityNotAvailableYet
    150,    // StaleEpoch
    202,    // NetworkInterfaceExceededTimeLimit
    249,    // StaleDbVersion
    250,    // StaleChunkHistory
    262,    // ExceededTimeLimit
    267,    // PreparedTransactionInProgress
    272,    // MigrationConflict
    11_601, // Interrupted
    13_388, // StaleConfig
];

/// The time at which a call must have been answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallDeadline {
    at: Instant,
}

impl CallDeadline {
    pub(super) fn after(duration: Duration) -> Self {
        Self { at: Instant::now() + duration }
    }

    /// Returns the deadline `duration` after the request began, or after now if the call has no request.
    pub(super) fn of_request(began: Option<Instant>, duration: Duration) -> Self {
        Self { at: began.unwrap_or_else(Instant::now) + duration }
    }

    pub(super) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub(super) fn at(self) -> tokio::time::Instant {
        self.at.into()
    }
}

/// The reason why an attempt failed.
#[derive(Debug)]
pub(super) enum TxnError {
    Driver(Error),
    /// The data changed after it was read. The transaction begins again.
    Conflict,
    /// The write may have been done, or may be lost with the primary that did it. Contains the code of the server. The write is
    /// repeated.
    Unconfirmed(i32),
    /// An error that no further attempt can avoid.
    Store(StoreError),
}

impl From<Error> for TxnError {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl From<StoreError> for TxnError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The way in which an attempt ends.
#[derive(Debug)]
pub(super) enum TransactionEnd<T> {
    /// Commit the changes.
    Commit(T),
    /// Discard the changes.
    Abort(T),
}

/// The work of one transaction. It may be attempted several times.
#[async_trait]
pub(super) trait TransactionWork: Send {
    type Answer: Send;

    /// Makes one attempt. All reads and writes use `session`.
    async fn attempt(
        &mut self,
        session: &mut ClientSession,
    ) -> std::result::Result<TransactionEnd<Self::Answer>, TxnError>;
}

/// Counts the transactions of a store and their attempts.
#[derive(Debug, Default)]
pub(super) struct TransactionRunner {
    attempts: AtomicU64,
    transactions: AtomicU64,
}

impl TransactionRunner {
    /// Returns the number of transactions and the number of their attempts.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.transactions.load(Ordering::Relaxed), self.attempts.load(Ordering::Relaxed))
    }

    /// Runs `work` until it commits or aborts, fails with a final error, or reaches the deadline.
    pub(super) async fn transact<W: TransactionWork>(
        &self,
        client: &Client,
        deadline: CallDeadline,
        work: &mut W,
    ) -> Result<W::Answer> {
        self.transact_at_most(u32::MAX, client, deadline, work).await
    }

    /// As [`TransactionRunner::transact`], but stops after `most` attempts.
    pub(super) async fn transact_at_most<W: TransactionWork>(
        &self,
        most: u32,
        client: &Client,
        deadline: CallDeadline,
        work: &mut W,
    ) -> Result<W::Answer> {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        let mut last = None;
        for attempt in 0..most {
            self.attempts.fetch_add(1, Ordering::Relaxed);
            let trouble = match tokio::time::timeout_at(deadline.at(), once(client, deadline, work)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(trouble)) => trouble,
                Err(_) => return Err(late(last)),
            };
            let mut conflict = false;
            match trouble {
                TxnError::Store(error) => return Err(error),
                TxnError::Conflict | TxnError::Unconfirmed(_) => {}
                TxnError::Driver(error) if is_transient(&error) => {
                    conflict = code(&error) == Some(WRITE_CONFLICT);
                    last = Some(error);
                }
                TxnError::Driver(error) => return Err(fatal(&error)),
            }
            // The holder of the latch commits soon, and an attempt to take the latch costs little.
            let paused =
                if conflict { pause_below(CONFLICT_PAUSE, deadline).await } else { pause(attempt, deadline).await };
            if attempt + 1 == most || paused.is_err() {
                break;
            }
        }
        Err(late(last))
    }
}

/// Makes one attempt and commits it. If the future is dropped, the session aborts uncommitted changes.
async fn once<W: TransactionWork>(
    client: &Client,
    deadline: CallDeadline,
    work: &mut W,
) -> std::result::Result<W::Answer, TxnError> {
    let mut session = client.start_session().await?;
    session.start_transaction().with_options(options(deadline)).await?;
    match work.attempt(&mut session).await? {
        TransactionEnd::Abort(answer) => Ok(answer),
        TransactionEnd::Commit(answer) => commit(&mut session, deadline).await.map(|()| answer),
    }
}

async fn commit(session: &mut ClientSession, deadline: CallDeadline) -> std::result::Result<(), TxnError> {
    // The outer timeout would report that the commit was late, but its outcome must be reported as unknown. Therefore, this limit is
    // slightly earlier.
    let limit = deadline.at().checked_sub(Duration::from_millis(20)).unwrap_or(deadline.at());
    for attempt in 0.. {
        match tokio::time::timeout_at(limit, session.commit_transaction()).await {
            Ok(Ok(())) => return Ok(()),
            // The server guarantees that nothing was committed.
            Ok(Err(error)) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => return Err(TxnError::Driver(error)),
            // The transaction may have been committed. It is safe to commit again, but not to begin again.
            Ok(Err(error)) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) || is_passing(&error) => {
                if pause(attempt, deadline).await.is_err() {
                    break;
                }
            }
            Ok(Err(error)) if is_transient(&error) => return Err(TxnError::Driver(error)),
            Ok(Err(error)) => return Err(TxnError::Store(StoreError::Unknown(summary(&error)))),
            Err(_) => break,
        }
    }
    Err(TxnError::Store(StoreError::Unknown("the database did not confirm the commit in time".into())))
}

fn options(deadline: CallDeadline) -> TransactionOptions {
    TransactionOptions::builder()
        .read_concern(ReadConcern::snapshot())
        .write_concern(super::server::durable())
        .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
        .max_commit_time(deadline.left().max(Duration::from_millis(1)))
        .build()
}

/// Waits a random time that grows with the attempts. Returns `Err` if the deadline comes first.
pub(super) async fn pause(attempt: u32, deadline: CallDeadline) -> std::result::Result<(), ()> {
    pause_below(Duration::from_millis(2 << attempt.min(6)).min(MAX_PAUSE), deadline).await
}

/// Waits a random time below `ceiling`. Returns `Err` if the deadline comes first.
async fn pause_below(ceiling: Duration, deadline: CallDeadline) -> std::result::Result<(), ()> {
    let pause = ceiling.mul_f64(jitter());
    if pause >= deadline.left() {
        return Err(());
    }
    tokio::time::sleep(pause).await;
    Ok(())
}

/// Returns a number in 0..1 that differs for every call and process, so that competing instances do not try again at the same moments.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(()) >> 11) as f64 / (1_u64 << 53) as f64
}

/// True if another attempt from the start may succeed.
pub(super) fn is_transient(error: &Error) -> bool {
    let again = code(error).is_some_and(|code| code == WRITE_CONFLICT || SNAPSHOT.contains(&code));
    again || is_passing(error) || error.contains_label(TRANSIENT_TRANSACTION_ERROR) || is_away(error)
}

/// True if the error is one of [`PASSING`].
fn is_passing(error: &Error) -> bool {
    code(error).is_some_and(|code| PASSING.contains(&code))
}

/// True if the error means that no primary is reachable, or that the primary changes.
pub(super) fn is_away(error: &Error) -> bool {
    // 91, 189, 11600, 11602, 10107, 13435, 13436: shutting down, stepping down or not primary; 6, 7, 89, 9001: network.
    const AWAY: [i32; 11] = [6, 7, 89, 91, 189, 9001, 10107, 11600, 11602, 13435, 13436];
    match &*error.kind {
        ErrorKind::ServerSelection { .. }
        | ErrorKind::Io(_)
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => true,
        _ => code(error).is_some_and(|code| AWAY.contains(&code)),
    }
}

/// Returns the error code of the server.
pub(super) fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        ErrorKind::Write(WriteFailure::WriteConcernError(concern)) => Some(concern.code),
        ErrorKind::InsertMany(failure) => failure.write_errors.iter().flatten().next().map(|write| write.code),
        _ => None,
    }
}

/// True if a unique index refused the document.
pub(super) fn is_duplicate_key(error: &Error) -> bool {
    code(error) == Some(DUPLICATE_KEY)
}

/// Returns an error if the reply to an update command contains write errors, because the command itself then reports success. A duplicate
/// key means that another transaction created the same document first: a conflict. If no majority confirmed the writes, the error is
/// [`TxnError::Unconfirmed`], because the writes are lost if the primary steps down.
pub(super) fn check_reply(reply: &Document) -> std::result::Result<(), TxnError> {
    if let Ok(errors) = reply.get_array("writeErrors") {
        return match errors.first().and_then(|error| error.as_document()).map(error_code) {
            Some(DUPLICATE_KEY | WRITE_CONFLICT) => Err(TxnError::Conflict),
            Some(code) if PASSING.contains(&code) => Err(TxnError::Conflict),
            code => Err(StoreError::Internal(format!("the database refused a write (code {code:?})")).into()),
        };
    }
    reply.get_document("writeConcernError").map_or(Ok(()), |error| Err(TxnError::Unconfirmed(error_code(error))))
}

/// Returns the code in an error document of a reply; 0 if it has none.
fn error_code(error: &Document) -> i32 {
    error.get_i32("code").unwrap_or(0)
}

/// Returns the error that the deadline came before a majority confirmed a write.
pub(super) fn unconfirmed(code: i32) -> StoreError {
    StoreError::Unknown(format!("the database did not confirm the write by a majority in time (code {code})"))
}

fn late(last: Option<Error>) -> StoreError {
    match last {
        Some(error) if is_away(&error) || is_passing(&error) => unavailable(&error),
        _ => StoreError::Unavailable {
            reason: "the write was not done in time: too many others write to the collection, or the database is slow"
                .into(),
            retry_after_s: 1,
        },
    }
}

/// Converts an error that no other attempt can avoid, or an error of a call that is not attempted again.
pub(super) fn fatal(error: &Error) -> StoreError {
    match code(error) {
        Some(UNAUTHORIZED) => StoreError::Unavailable {
            reason: "the database refuses: the user of store.uri lacks rights; grant it readWrite on the database, and dbAdmin for \
                     migrations"
                .into(),
            retry_after_s: 60,
        },
        _ if is_transient(error) => unavailable(error),
        _ => StoreError::Internal(summary(error)),
    }
}

fn unavailable(error: &Error) -> StoreError {
    let what = if is_away(error) { "no primary of the replica set answers" } else { "the database is busy" };
    StoreError::Unavailable { reason: format!("{what} ({})", summary(error)), retry_after_s: RETRY_AFTER_S }
}

/// Returns the error that the database did not answer before the deadline.
pub(super) fn no_answer() -> StoreError {
    let reason = "the database did not answer in time".into();
    StoreError::Unavailable { reason, retry_after_s: RETRY_AFTER_S }
}

/// Describes the error in few words. The description contains no part of the document, because the messages of the server about duplicate
/// keys contain values.
pub(super) fn summary(error: &Error) -> String {
    if code(error) == Some(OTHER_CASE) {
        return "there is a database whose name differs in letter case alone; write store.database as it is written"
            .into();
    }
    match &*error.kind {
        ErrorKind::Command(command) => format!("{}, code {}", command.code_name, command.code),
        ErrorKind::Write(_) | ErrorKind::InsertMany(_) => format!("write error, code {}", code(error).unwrap_or(0)),
        ErrorKind::Io(io) => format!("connection: {}", io.kind()),
        ErrorKind::ServerSelection { .. } => "no suitable server found".into(),
        ErrorKind::Authentication { .. } => "authentication failed; check user and password of store.uri".into(),
        ErrorKind::ConnectionPoolCleared { .. } => "connections were closed".into(),
        ErrorKind::BsonDeserialization(_) | ErrorKind::Bson(_) => "a document could not be read".into(),
        ErrorKind::InvalidArgument { message, .. } | ErrorKind::DnsResolve { message, .. } => message.clone(),
        kind => {
            let name = format!("{kind:?}");
            name.split(['(', '{', ' ']).next().unwrap_or("driver error").to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn a_duplicate_key_in_a_reply_is_a_conflict() {
        let reply = doc! { "ok": 1, "writeErrors": [{ "index": 0, "code": DUPLICATE_KEY, "errmsg": "dup" }] };
        assert!(matches!(check_reply(&reply), Err(TxnError::Conflict)));
        let reply = doc! { "ok": 1, "writeErrors": [{ "index": 0, "code": 121, "errmsg": "validation" }] };
        assert!(matches!(check_reply(&reply), Err(TxnError::Store(StoreError::Internal(_)))));
        assert!(check_reply(&doc! { "ok": 1, "n": 4 }).is_ok());
    }

    #[test]
    fn a_commit_waits_for_the_journals_of_a_majority() {
        let concern = options(CallDeadline::after(Duration::from_secs(1))).write_concern;
        assert_eq!(concern.and_then(|concern| concern.journal), Some(true));
    }

    #[test]
    fn a_write_that_no_majority_confirmed_is_an_error() {
        let concern = doc! { "code": 189, "codeName": "PrimarySteppedDown", "errmsg": "stepped down while waiting" };
        let reply = doc! { "ok": 1, "n": 1, "nModified": 1, "writeConcernError": concern };
        assert!(matches!(check_reply(&reply), Err(TxnError::Unconfirmed(189))));
        assert!(matches!(unconfirmed(189), StoreError::Unknown(_)), "the caller repeats it");
    }

    #[test]
    fn transient_errors_are_conflicts_and_other_errors_are_final() {
        for code in [50, 133, 202, 250, 262, 11_601, 13_388] {
            assert!(matches!(check_reply(&write_error(code)), Err(TxnError::Conflict)), "{code}");
        }
        // CannotImplicitlyCreateCollection is not an error of a snapshot: only a migration solves it.
        assert!(!SNAPSHOT.contains(&227) && !PASSING.contains(&227));
        assert!(matches!(check_reply(&write_error(227)), Err(TxnError::Store(StoreError::Internal(_)))));
    }

    fn write_error(code: i32) -> Document {
        doc! { "ok": 1, "writeErrors": [{ "index": 0, "code": code, "errmsg": "" }] }
    }

    #[tokio::test]
    async fn a_pause_never_outlasts_the_deadline() {
        let deadline = CallDeadline::after(Duration::ZERO);
        assert!(pause(10, deadline).await.is_err() || deadline.left().is_zero());
    }
}
