//! The worker of one source. It holds the lease, reads rows, reports errors and continues after an error.

use std::time::Duration;

use anyhow::Context;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::intake::{IntakeCounts, RecentRows, SourceIntake};
use super::opened::ReadableSource;
use super::state::{ImportProgress, SourceCheckpoint, SourceImport, SourceState, SourceStatus};
use super::write_back::VerdictTable;
use super::{SourceEntry, round, sweep};
use doppel_config as config;
use doppel_core::collection::{CollectionName, Settings};
use doppel_engine::{Engine, Error};
use doppel_store::StoreError;
use doppel_store::values::NamedValue;

/// Duration of a lease after it is renewed. A slow machine reads some pages of rows in this time.
const LEASE: Duration = Duration::from_secs(60);
/// Interval at which the worker renews the lease during long work. A renewal may be three intervals late. If a renewal
/// fails, the work ends.
const RENEW_EVERY: Duration = Duration::from_secs(15);
/// The first pause after an error. Each further error in a row doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause after an error.
const LAST_PAUSE: Duration = Duration::from_secs(60);
/// Interval at which the worker checks whether another instance has received a request for an import or has given up the lease.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Number of attempts to write a checkpoint that an administrator changes at the same time.
const TRIES: u32 = 10;

/// The reasons why an import was not requested.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no source is called {0}; GET /v1/admin/sources lists those that are configured")]
    Unknown(String),
    #[error(transparent)]
    Engine(#[from] Error),
}

/// The checkpoint of a source, whose lease this process holds.
pub(super) struct SourceLease<'a> {
    engine: &'a Engine,
    collection: CollectionName,
    name: &'a str,
    version: u64,
    /// The holder of the lease when the checkpoint was last read or written.
    known_holder: String,
    pub(super) saved: SourceCheckpoint,
}

/// The error that another instance has taken the lease.
#[derive(Debug, thiserror::Error)]
#[error("another instance has taken over")]
struct LeaseLost;

fn decode(checkpoint: Option<NamedValue>) -> Result<(u64, SourceCheckpoint), Error> {
    let Some(NamedValue { version, value }) = checkpoint else { return Ok((0, SourceCheckpoint::default())) };
    Ok((
        version,
        serde_json::from_value(value)
            .map_err(|error| StoreError::Internal(format!("the checkpoint of a source cannot be read: {error}")))?,
    ))
}

fn encode(version: u64, saved: &SourceCheckpoint) -> Result<NamedValue, Error> {
    let value = serde_json::to_value(saved).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(NamedValue { version, value })
}

impl<'a> SourceLease<'a> {
    /// Takes the lease; `None` while another process holds it.
    async fn take(engine: &'a Engine, entry: &'a SourceEntry, holder: &str) -> anyhow::Result<Option<Self>> {
        let collection = collection_of(&entry.config)?;
        let name = entry.config.name.as_str();
        let (version, saved) = decode(engine.store().value(&collection, name).await?)?;
        let known_holder = saved.holder.clone();
        let mut lease = Self { engine, collection, name, version, known_holder, saved };
        let others = lease.saved.holder != holder && !lease.saved.holder.is_empty();
        // If no other process uses the store, the previous holder is dead.
        if others && engine.store().is_shared() && lease.saved.held_until > lease.time().await? {
            return Ok(None);
        }
        lease.saved.holder = holder.to_owned();
        // The previous holder no longer waits for the database.
        lease.saved.unanswered_since = None;
        match lease.keep().await {
            Ok(()) => Ok(Some(lease)),
            Err(error) if error.is::<LeaseLost>() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn time(&self) -> anyhow::Result<u64> {
        Ok(self.engine.store().lease_time(crate::clock::micros()).await?)
    }

    pub(super) fn count(&mut self, taken: &IntakeCounts) {
        self.saved.rows += taken.registered;
        self.saved.rejected += taken.rejected;
        if taken.last_rejected.is_some() {
            self.saved.last_rejected.clone_from(&taken.last_rejected);
        }
    }

    /// Writes the checkpoint and renews the lease.
    ///
    /// # Errors
    /// [`LeaseLost`] if another process holds the lease; or the store is not available.
    pub(super) async fn keep(&mut self) -> anyhow::Result<()> {
        let until = self.time().await?.saturating_add(LEASE.as_micros() as u64);
        self.saved.held_until = until;
        self.write().await
    }

    /// Runs long work and renews the lease during it. Stops the work if the lease is lost.
    ///
    /// # Errors
    /// The errors of the work, and those of [`Self::keep`].
    pub(super) async fn run_with_renewal<T, E: Into<anyhow::Error>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T> {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(RENEW_EVERY, work.as_mut()).await {
                Ok(done) => return done.map_err(Into::into),
                Err(_) => self.keep().await?,
            }
        }
    }

    /// Runs a query like [`Self::run_with_renewal`]. While the database does not answer, the checkpoint contains the time since when the worker waits.
    ///
    /// # Errors
    /// The errors of [`Self::run_with_renewal`].
    pub(super) async fn query_with_renewal<T, E: Into<anyhow::Error>>(
        &mut self,
        question: impl Future<Output = Result<T, E>>,
    ) -> anyhow::Result<T> {
        let mut question = std::pin::pin!(question);
        let since = crate::clock::now();
        if let Ok(answer) = tokio::time::timeout(RENEW_EVERY, question.as_mut()).await {
            return answer.map_err(Into::into);
        }
        tracing::warn!(source = self.name, since, "a database does not answer; it is waited for");
        self.saved.unanswered_since = Some(since);
        self.keep().await?;
        let answer = self.run_with_renewal(question).await;
        self.saved.unanswered_since = None;
        answer
    }

    /// Empties the checkpoint if it belongs to another table or another order of reading.
    fn reads(&mut self, what: String) {
        let saved = &mut self.saved;
        if saved.reads != what && !saved.reads.is_empty() {
            tracing::warn!(
                source = self.name,
                "the source reads another database, table, id or watermark than before; all rows are read anew"
            );
            (saved.watermark, saved.watermark_at, saved.last_round, saved.lag_s) = (None, None, None, None);
            (saved.swept, saved.swept_at, saved.unwritten) = (None, 0, None);
            if let Some(import) = &mut saved.import {
                import.after = None;
            }
        }
        saved.reads = what;
    }

    async fn write(&mut self) -> anyhow::Result<()> {
        for _ in 0..TRIES {
            let checkpoint = encode(self.version, &self.saved)?;
            if self.engine.store().put_value(&self.collection, self.name, checkpoint).await? {
                self.version += 1;
                self.known_holder.clone_from(&self.saved.holder);
                return Ok(());
            }
            let (version, stored) = decode(self.engine.store().value(&self.collection, self.name).await?)?;
            if stored.holder != self.known_holder {
                return Err(LeaseLost.into());
            }
            // An administrator may have requested an import since the checkpoint was read.
            if import_request(&stored) != import_request(&self.saved) {
                self.saved.import = stored.import;
            }
            self.version = version;
        }
        Err(LeaseLost.into())
    }

    /// Releases the lease, so that another instance does not need to wait.
    async fn release(mut self) {
        self.saved.held_until = 0;
        // If this fails, the lease expires.
        let _ = self.write().await;
    }
}

fn import_request(saved: &SourceCheckpoint) -> Option<String> {
    saved.import.as_ref().map(|import| import.shown.asked_at.clone())
}

fn collection_of(config: &config::SourceConfig) -> anyhow::Result<CollectionName> {
    CollectionName::new(&config.collection).map_err(anyhow::Error::msg)
}

/// Returns a digest of the table of a source and of the order in which it is read.
fn digest(config: &config::SourceConfig, id: &str) -> anyhow::Result<String> {
    let location = config.location()?.to_string();
    let what = serde_json::json!([location, config.table, config.query, id, config.watermark]);
    Ok(Sha256::digest(what.to_string()).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs the worker of a source until the service drains.
pub(super) async fn run(engine: &Engine, entry: &SourceEntry, holder: &str, draining: &CancellationToken) {
    let name = entry.config.name.as_str();
    for counter in ["doppel_source_rows_total", "doppel_source_rows_rejected_total", "doppel_source_failures_total"] {
        metrics::counter!(counter, "source" => name.to_owned()).increment(0);
    }
    if entry.config.follow {
        // The metric exists from the start, so that an alert works even if no round ever ends.
        show_last_round(name, crate::clock::micros() as f64 / 1e6);
    }
    let mut pause = FIRST_PAUSE;
    let mut recent = RecentRows::default();
    let mut last_said = None;
    loop {
        let worked = tokio::select! {
            worked = work(engine, entry, holder, &mut recent) => worked,
            () = draining.cancelled() => break,
        };
        let wait = match worked {
            Ok(()) => {
                *entry.trouble.lock() = None;
                last_said = None;
                pause = FIRST_PAUSE;
                let look = if entry.config.follow { Duration::MAX } else { LOOK_EVERY };
                look.min(Duration::from_secs(entry.config.interval_s))
            }
            Err(error) => {
                let reason = format!("{error:#}");
                metrics::counter!("doppel_source_failures_total", "source" => name.to_owned()).increment(1);
                // Each reason is logged once, because a database may be unavailable for a whole night.
                if last_said.as_ref() != Some(&reason) {
                    tracing::warn!(source = name, reason, "a source cannot be read; trying again");
                    last_said = Some(reason.clone());
                }
                note_trouble(engine, entry, holder, &reason).await;
                let wait = pause;
                pause = (pause * 2).min(LAST_PAUSE);
                wait
            }
        };
        tokio::select! {
            () = draining.cancelled() => break,
            () = entry.wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    if let Ok(Some(lease)) = SourceLease::take(engine, entry, holder).await {
        lease.release().await;
    }
}

/// Does the work that is due, if this process gets the lease.
async fn work(engine: &Engine, entry: &SourceEntry, holder: &str, recent: &mut RecentRows) -> anyhow::Result<()> {
    let config = &entry.config;
    let collection = collection_of(config)?;
    let Some(settings) = settings(engine, config, &collection).await? else { return Ok(()) };
    let Some(mut lease) = SourceLease::take(engine, entry, holder).await? else {
        let of_another =
            saved(engine, config).await.and_then(|saved| saved.last_round?.parse::<jiff::Timestamp>().ok());
        if let Some(ended) = of_another.filter(|_| config.follow) {
            show_last_round(&config.name, ended.as_microsecond() as f64 / 1e6);
        }
        return Ok(());
    };
    let imports = lease.saved.import.as_ref().is_some_and(|import| import.shown.finished_at.is_none());
    if !imports && !config.follow {
        return Ok(());
    }
    let password = config.password()?;
    let opening = ReadableSource::open(config, password.as_deref(), &settings, entry.max_row_bytes);
    let mut opened = lease.query_with_renewal(opening).await?;
    lease.reads(digest(config, &opened.id)?);
    let verdicts = lease.query_with_renewal(async { anyhow::Ok(VerdictTable::open(config).await) }).await?;
    let said = lease.saved.last_error.as_ref().map(|(_, error)| error.clone());
    let mut intake = SourceIntake { engine, collection: &collection, source: &config.name, verdicts };
    if imports {
        tracing::info!(source = config.name, "reading all rows of a source");
        round::import(&mut opened, &mut intake, &mut lease).await?;
        let counting = async {
            engine.end_batch(&collection).await;
            anyhow::Ok(())
        };
        lease.run_with_renewal(counting).await?;
        tracing::info!(source = config.name, "all rows of a source are read");
    }
    if config.follow {
        let before = lease.saved.rows;
        round::run(config, &mut opened, &mut intake, recent, &mut lease).await?;
        let rows = lease.saved.rows - before;
        let lag_s = lease.saved.lag_s.unwrap_or(0.0);
        show_last_round(&config.name, crate::clock::micros() as f64 / 1e6);
        if rows > 0 {
            let watermark = lease.saved.watermark_at.as_deref().unwrap_or("");
            tracing::info!(source = config.name, rows, watermark, lag_s, "rows of a source were registered");
        } else {
            tracing::debug!(source = config.name, lag_s, "a source has nothing new");
        }
        let due = lease.saved.swept_at.saturating_add(config.sweep_s.saturating_mul(1_000_000));
        if config.sweep_s > 0 && lease.time().await? >= due {
            sweep::run(config, &mut opened, &mut intake, &mut lease).await.context("comparing all ids")?;
        }
    }
    if let Some(trouble) = intake.verdicts.trouble() {
        // Each reason is logged once.
        if said.as_deref() != Some(trouble) {
            tracing::warn!(source = config.name, reason = trouble, "verdicts are not written; they will be later");
        }
        lease.saved.last_error = intake.trouble();
        lease.keep().await?;
    }
    opened.connection.close().await;
    Ok(())
}

/// Sets the metric for the end of the last round, in seconds since 1970.
fn show_last_round(source: &str, ended: f64) {
    metrics::gauge!("doppel_source_last_round_seconds", "source" => source.to_owned()).set(ended);
}

/// Returns the settings of the collection. Creates the collection if the source has rows to read and creating collections is allowed;
/// `None` otherwise.
async fn settings(
    engine: &Engine,
    config: &config::SourceConfig,
    collection: &CollectionName,
) -> anyhow::Result<Option<Settings>> {
    match engine.collection(collection).await {
        Ok(there) => Ok(Some(there.settings)),
        Err(Error::UnknownCollection(_)) if !config.follow => Ok(None),
        Err(Error::UnknownCollection(_)) => {
            Ok(Some(engine.put_collection(collection, Settings::default()).await?.0.settings))
        }
        Err(error) => Err(error.into()),
    }
}

/// Stores an error in the checkpoint, if possible.
async fn note_trouble(engine: &Engine, entry: &SourceEntry, holder: &str, reason: &str) {
    *entry.trouble.lock() = Some(reason.to_owned());
    if let Ok(Some(mut lease)) = SourceLease::take(engine, entry, holder).await {
        let now = crate::clock::now();
        lease.saved.last_error = Some((now, reason.to_owned()));
        let _ = lease.keep().await;
    }
}

/// Stores the request to read all rows.
pub(super) async fn ask_import(engine: &Engine, entry: &SourceEntry) -> Result<(), AskError> {
    let collection = CollectionName::new(&entry.config.collection)
        .map_err(|reason| Error::Conflict(format!("the collection of the source cannot be created: {reason}")))?;
    if matches!(engine.collection(&collection).await, Err(Error::UnknownCollection(_))) {
        engine.put_collection(&collection, Settings::default()).await?;
    }
    let name = &entry.config.name;
    for _ in 0..TRIES {
        let stored = engine.store().value(&collection, name).await.map_err(Error::from)?;
        let (version, mut saved) = decode(stored)?;
        if saved.import.as_ref().is_some_and(|import| import.shown.finished_at.is_none()) {
            return Err(Error::Conflict(format!("an import of {name} is under way; wait for it to end")).into());
        }
        let shown = SourceImport { asked_at: crate::clock::now(), ..SourceImport::default() };
        saved.import = Some(ImportProgress { after: None, shown });
        let checkpoint = encode(version, &saved)?;
        if engine.store().put_value(&collection, name, checkpoint).await.map_err(Error::from)? {
            return Ok(());
        }
    }
    Err(Error::Conflict("the source is being worked on; try again".into()).into())
}

pub(super) async fn state(engine: &Engine, entry: &SourceEntry) -> SourceState {
    let config = &entry.config;
    let saved = saved(engine, config).await.unwrap_or_default();
    let trouble = entry.trouble.lock().clone();
    let (last_error_at, last_error) = match (saved.last_error, trouble) {
        (Some((at, error)), _) => (Some(at), Some(error)),
        (None, trouble) => (None, trouble),
    };
    let imports = saved.import.as_ref().is_some_and(|import| import.shown.finished_at.is_none());
    let status = match (&last_error, imports, config.follow, &saved.last_round) {
        (Some(_), ..) => SourceStatus::Failing,
        _ if saved.unanswered_since.is_some() => SourceStatus::Unanswered,
        (_, true, ..) => SourceStatus::Importing,
        (_, _, false, _) => SourceStatus::Idle,
        (_, _, true, None) => SourceStatus::Waiting,
        (_, _, true, Some(_)) => SourceStatus::Following,
    };
    let (last_rejected_id, last_rejected_code) = saved.last_rejected.unzip();
    SourceState {
        name: config.name.clone(),
        collection: config.collection.clone(),
        database: config.location().map(|location| location.to_string()).unwrap_or_default(),
        follow: config.follow,
        status,
        watermark: saved.watermark_at,
        last_round: saved.last_round,
        lag_s: saved.lag_s,
        rows: saved.rows,
        rejected: saved.rejected,
        last_rejected_id,
        last_rejected_code,
        last_error,
        last_error_at,
        unanswered_since: saved.unanswered_since,
        import: saved.import.map(|import| import.shown),
        sweep: saved.swept,
    }
}

async fn saved(engine: &Engine, config: &config::SourceConfig) -> Option<SourceCheckpoint> {
    let collection = collection_of(config).ok()?;
    let stored = engine.store().value(&collection, &config.name).await.ok()?;
    decode(stored).ok().map(|(_, saved)| saved)
}
