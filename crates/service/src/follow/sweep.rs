//! A sweep compares all ids: it finds rows that no round has read, and records whose rows no longer exist.
//!
//! The comparison takes about 20 bytes of memory for each record. Before it changes anything, it reads the found rows and records again, because
//! they may have changed meanwhile. It deletes records only if the configuration allows this, and never so many that a mistake is likely (another
//! table, or a table that is being filled again).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Context;

use super::intake::SourceIntake;
use super::opened::ReadableSource;
use super::state::{SweepResult, UnwrittenVerdicts};
use super::worker::SourceLease;
use doppel_config as config;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_engine::{Engine, Error};
use doppel_sources::database::sql;
use doppel_sources::database::{SqlValue, text_of};
use doppel_store::Seq;

/// Largest number of records in a collection that is compared; their hashes take 400 MB.
const MOST_COMPARED: usize = 20_000_000;
/// Number of ids in one query.
const IDS: usize = 5_000;
/// Number of records that are read at once, with their rows.
const RECORDS: usize = 500;
/// Number of rows that are read again in one query.
const LOOKED_AT: usize = 200;
/// Number of ids that the report names.
const NAMED: usize = 20;
/// Records without a row are deleted if there are at most this many, or at most [`SHARE_PERCENT`] of all records.
const FEW: usize = 100;
/// See [`FEW`].
const SHARE_PERCENT: usize = 10;

/// Runs a sweep and returns its result.
///
/// # Errors
/// The database or the store is not available, or the lease is lost.
pub(super) async fn run(
    config: &config::SourceConfig,
    opened: &mut ReadableSource,
    intake: &mut SourceIntake<'_>,
    lease: &mut SourceLease<'_>,
) -> anyhow::Result<()> {
    let engine = intake.engine;
    let collection = intake.collection;
    let mut records = lease.run_with_renewal(hashes_of_records(engine, collection)).await?;
    let mut swept = SweepResult::default();
    let mut skipped = Vec::new();
    let mut after: Option<SqlValue> = None;
    loop {
        let dialect = opened.connection.dialect();
        let select = sql::ids(dialect, &opened.origin, &opened.id, after.as_ref(), IDS);
        let ids: Vec<SqlValue> = lease.query_with_renewal(all(opened, select)).await?.into_iter().flatten().collect();
        for id in &ids {
            swept.rows += 1;
            let text = text_of(id).unwrap_or_default();
            match records.get_mut(&hash(text.trim())) {
                Some(has_row) => *has_row = true,
                None => skipped.push(id.clone()),
            }
        }
        take_skipped(config, opened, intake, lease, &mut skipped, &mut swept).await?;
        lease.keep().await?;
        let last = ids.last().map(|id| opened.ordered(id)).transpose()?;
        anyhow::ensure!(
            last.is_none() || last != after,
            "comparing does not get on: the database gives the same ids again"
        );
        after = last;
        if ids.len() < IDS {
            break;
        }
    }
    let missing = lease.run_with_renewal(missing(opened, engine, collection, &records)).await?;
    // If another instance has taken the lease, that instance deletes.
    lease.keep().await?;
    swept.missing = missing.len() as u64;
    swept.missing_ids = missing.iter().take(NAMED).map(ToString::to_string).collect();
    let most = FEW.max(records.len() * SHARE_PERCENT / 100);
    if config.delete && missing.len() > most {
        swept.refused = Some(format!(
            "{} of {} records have no row any more, more than {most}: nothing is deleted; look at the source, and delete them by hand \
             if this is right",
            missing.len(),
            records.len()
        ));
    } else if config.delete {
        (swept.deleted, swept.refused) = lease.run_with_renewal(delete(intake, &missing)).await?;
    }
    swept.at = crate::clock::now();
    let SweepResult { rows, skipped, registered, missing, deleted, .. } = swept;
    tracing::info!(
        source = config.name,
        rows,
        skipped,
        registered,
        missing,
        deleted,
        "the ids of a source were compared"
    );
    for (what, count) in [("skipped", skipped), ("missing", missing)] {
        metrics::gauge!("doppel_source_sweep_differences", "source" => config.name.clone(), "kind" => what)
            .set(count as f64);
    }
    lease.saved.swept = Some(swept);
    lease.saved.swept_at = lease.time().await?;
    lease.keep().await
}

async fn all(opened: &mut ReadableSource, select: String) -> anyhow::Result<Vec<Vec<SqlValue>>> {
    Ok(opened.connection.all(select).await?)
}

async fn all_of(opened: &mut ReadableSource, select: String) -> anyhow::Result<Vec<Vec<SqlValue>>> {
    Ok(opened.connection.all_of(select, &opened.columns).await?)
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

async fn each_record(
    engine: &Engine,
    collection: &CollectionName,
    mut each: impl FnMut(RecordId) + Send,
) -> anyhow::Result<()> {
    let mut after = Seq(0);
    loop {
        let page = engine.store().records(collection, after, RECORDS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.into_iter().for_each(|record| each(record.id));
    }
}

/// Returns the hashes of all record ids. The value is true after a row with this id was seen; here it is false.
async fn hashes_of_records(engine: &Engine, collection: &CollectionName) -> anyhow::Result<HashMap<u64, bool>> {
    let count = engine.store().count(collection).await?;
    let most = MOST_COMPARED;
    anyhow::ensure!(
        count <= most as u64,
        "the collection has more than {most} records, too many to compare; set sweep_s = 0"
    );
    let mut hashes = HashMap::with_capacity(count as usize);
    each_record(engine, collection, |id| {
        hashes.insert(hash(id.as_str()), false);
    })
    .await?;
    Ok(hashes)
}

/// Reads the rows without a record again, and registers them if the configuration allows it.
async fn take_skipped(
    config: &config::SourceConfig,
    opened: &mut ReadableSource,
    intake: &mut SourceIntake<'_>,
    lease: &mut SourceLease<'_>,
    skipped: &mut Vec<SqlValue>,
    swept: &mut SweepResult,
) -> anyhow::Result<()> {
    let dialect = opened.connection.dialect();
    let settings = intake.engine.collection(intake.collection).await?.settings;
    // With a retention period, a missing record may have been deleted because of its age, so that it is not registered again.
    let registers = config.register_skipped && settings.retention.is_none();
    let reached = match (&opened.watermark, &lease.saved.watermark) {
        (Some(watermark), Some(kept)) => Some(watermark.shape.read(&kept.cell())?),
        _ => None,
    };
    if skipped.is_empty() {
        return Ok(());
    }
    let now = match opened.watermark {
        Some(_) => Some(lease.query_with_renewal(opened.now()).await?),
        None => None,
    };
    for ids in std::mem::take(skipped).chunks(LOOKED_AT) {
        let select = sql::with_ids(dialect, &opened.origin, &opened.id, ids);
        let rows = lease.query_with_renewal(all_of(opened, select)).await?;
        let mut late = Vec::new();
        for cells in rows {
            // The next round reads newer rows. No round reads rows without a watermark or with a watermark far in the future.
            let mark =
                opened.watermark.as_ref().and_then(|watermark| watermark.shape.read(cells.get(watermark.at)?).ok());
            if mark.is_some_and(|mark| reached.is_none_or(|reached| mark > reached) && now >= Some(mark)) {
                continue;
            }
            let id = opened.id_text(&cells);
            let Ok(id) = RecordId::new(&id) else { continue };
            if intake.engine.store().record(intake.collection, &id).await?.is_none() {
                swept.skipped += 1;
                late.push((id.to_string(), opened.mapping.row(&cells)));
            }
        }
        if registers && !late.is_empty() {
            let taken = lease.run_with_renewal(intake.take(late)).await?;
            if intake.verdicts.trouble().is_some() {
                lease.saved.unwritten = Some(UnwrittenVerdicts::default());
            }
            swept.registered += taken.registered;
            lease.count(&taken);
            lease.keep().await?;
        }
    }
    Ok(())
}

/// Returns the records that had no row before and have no row now.
async fn missing(
    opened: &mut ReadableSource,
    engine: &Engine,
    collection: &CollectionName,
    records: &HashMap<u64, bool>,
) -> anyhow::Result<Vec<RecordId>> {
    if records.values().all(|has_row| *has_row) {
        return Ok(Vec::new());
    }
    let mut without = Vec::new();
    each_record(engine, collection, |id| {
        if records.get(&hash(id.as_str())) == Some(&false) {
            without.push(id);
        }
    })
    .await?;
    let kind = opened.columns.iter().find(|column| column.name == opened.id).map(|column| column.kind);
    let kind = kind.context("the id is no column any more")?;
    let mut missing = Vec::new();
    for ids in without.chunks(LOOKED_AT) {
        let cells: Vec<SqlValue> = ids.iter().filter_map(|id| super::check::id_cell(kind, id.as_str())).collect();
        let mut there = std::collections::HashSet::new();
        if !cells.is_empty() {
            let dialect = opened.connection.dialect();
            let rows = all_of(opened, sql::with_ids(dialect, &opened.origin, &opened.id, &cells)).await?;
            there.extend(rows.iter().map(|row| opened.id_text(row)));
        }
        missing.extend(ids.iter().filter(|id| !there.contains(id.as_str())).cloned());
    }
    Ok(missing)
}

/// Deletes records and their verdicts. Verdicts are deleted first, so that the next comparison finds the rest if the deletion is
/// interrupted. Returns the number of deleted records, and the reason if not all were deleted.
async fn delete(intake: &mut SourceIntake<'_>, missing: &[RecordId]) -> anyhow::Result<(u64, Option<String>)> {
    let mut deleted = 0;
    for ids in missing.chunks(LOOKED_AT) {
        if !intake.verdicts.remove(ids).await {
            return Ok((
                deleted,
                Some("the table of verdicts cannot be written, so that their verdicts would stay".into()),
            ));
        }
        for id in ids {
            match remove(intake.engine, intake.collection, id).await {
                Ok(()) => deleted += 1,
                Err(Error::UnknownRecord(..)) => (),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok((deleted, None))
}

async fn remove(engine: &Engine, collection: &CollectionName, id: &RecordId) -> Result<(), Error> {
    let engine = engine.clone();
    let collection = collection.clone();
    let id = id.clone();
    // The deletion runs in its own task, so that it is completed even if the worker stops.
    tokio::spawn(async move { engine.remove(&collection, &id).await }).await.unwrap_or(Err(Error::Crashed))
}
