//! A comparison of all ids: which rows no round has read, and which records' rows are gone.
//!
//! Memory is some 20 bytes a record. What is found is looked at once more before anything is done, since rows and records come and go
//! meanwhile. Records are deleted only where that is configured, and never so many that it looks like a mistake (another table, one
//! that is being filled anew).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Context;

use super::intake::Intake;
use super::opened::Opened;
use super::state::{Swept, Unwritten};
use super::worker::Lease;
use crate::config;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_engine::{Engine, Error};
use doppel_sources::database::sql;
use doppel_sources::database::{Cell, text_of};
use doppel_store::Seq;

/// Records of a collection that is compared: 400 MB of hashes.
const MOST_COMPARED: usize = 20_000_000;
/// Ids asked for at once.
const IDS: usize = 5_000;
/// Records read at once: with their rows.
const RECORDS: usize = 500;
/// Rows looked at once more together.
const LOOKED_AT: usize = 200;
/// Ids that the report names.
const NAMED: usize = 20;
/// Records whose rows are gone are deleted when there are at most so many, or ...
const FEW: usize = 100;
/// ... at most so many of all, in percent.
const SHARE_PERCENT: usize = 10;

/// Compares, and says what was found.
///
/// # Errors
/// When the database or the store is away, or the lease is lost.
pub(super) async fn run(
    config: &config::Source,
    opened: &mut Opened,
    intake: &mut Intake<'_>,
    lease: &mut Lease<'_>,
) -> anyhow::Result<()> {
    let of = (intake.engine, intake.collection);
    let mut records = lease.beside(hashes_of_records(of)).await?;
    let mut swept = Swept::default();
    let mut skipped = Vec::new();
    let mut after: Option<Cell> = None;
    loop {
        let dialect = opened.connection.dialect();
        let select = sql::ids(dialect, &opened.origin, &opened.id, after.as_ref(), IDS);
        let ids: Vec<Cell> = lease.asking(all(opened, select)).await?.into_iter().flatten().collect();
        for id in &ids {
            swept.rows += 1;
            let text = text_of(id).unwrap_or_default();
            match records.get_mut(&hash(text.trim())) {
                Some(has_row) => *has_row = true,
                None => skipped.push(id.clone()),
            }
        }
        take_skipped(config, (opened, intake, lease), &mut skipped, &mut swept).await?;
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
    let missing = lease.beside(missing(opened, of, &records)).await?;
    // Whoever took over meanwhile deletes.
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
        (swept.deleted, swept.refused) = lease.beside(delete(intake, &missing)).await?;
    }
    swept.at = crate::clock::now();
    let Swept { rows, skipped, registered, missing, deleted, .. } = swept;
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

async fn all(opened: &mut Opened, select: String) -> anyhow::Result<Vec<Vec<Cell>>> {
    Ok(opened.connection.all(select).await?)
}

async fn all_of(opened: &mut Opened, select: String) -> anyhow::Result<Vec<Vec<Cell>>> {
    Ok(opened.connection.all_of(select, &opened.columns).await?)
}

/// A collection, and who reads it.
type Whole<'a> = (&'a Engine, &'a CollectionName);

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

async fn each_record((engine, collection): Whole<'_>, mut each: impl FnMut(RecordId) + Send) -> anyhow::Result<()> {
    let mut after = Seq(0);
    loop {
        let page = engine.store().records(collection, after, RECORDS).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        page.into_iter().for_each(|record| each(record.id));
    }
}

/// A hash of each record's id, and that no row of it was seen yet.
async fn hashes_of_records(of: Whole<'_>) -> anyhow::Result<HashMap<u64, bool>> {
    let count = of.0.store().count(of.1).await?;
    let most = MOST_COMPARED;
    anyhow::ensure!(
        count <= most as u64,
        "the collection has more than {most} records, too many to compare; set sweep_s = 0"
    );
    let mut hashes = HashMap::with_capacity(count as usize);
    each_record(of, |id| {
        hashes.insert(hash(id.as_str()), false);
    })
    .await?;
    Ok(hashes)
}

/// Looks at rows that have no record once more, and registers them if it may.
async fn take_skipped(
    config: &config::Source,
    (opened, intake, lease): (&mut Opened, &mut Intake<'_>, &mut Lease<'_>),
    skipped: &mut Vec<Cell>,
    swept: &mut Swept,
) -> anyhow::Result<()> {
    let dialect = opened.connection.dialect();
    let settings = intake.engine.collection(intake.collection).await?.settings;
    // What is past its age is gone for good.
    let registers = config.register_skipped && settings.retention.is_none();
    let reached = match (&opened.watermark, &lease.saved.watermark) {
        (Some(watermark), Some(kept)) => Some(watermark.shape.read(&kept.cell())?),
        _ => None,
    };
    if skipped.is_empty() {
        return Ok(());
    }
    let now = match opened.watermark {
        Some(_) => Some(lease.asking(opened.now()).await?),
        None => None,
    };
    for ids in std::mem::take(skipped).chunks(LOOKED_AT) {
        let select = sql::with_ids(dialect, &opened.origin, &opened.id, ids);
        let rows = lease.asking(all_of(opened, select)).await?;
        let mut late = Vec::new();
        for cells in rows {
            // The next round reads what is newer; what has no watermark, or one that is far ahead, no round reads.
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
            let taken = lease.beside(intake.take(late)).await?;
            if intake.verdicts.trouble().is_some() {
                lease.saved.unwritten = Some(Unwritten::default());
            }
            swept.registered += taken.registered;
            lease.count(&taken);
            lease.keep().await?;
        }
    }
    Ok(())
}

/// The records that had no row, and have none now.
async fn missing(opened: &mut Opened, of: Whole<'_>, records: &HashMap<u64, bool>) -> anyhow::Result<Vec<RecordId>> {
    if records.values().all(|has_row| *has_row) {
        return Ok(Vec::new());
    }
    let mut without = Vec::new();
    each_record(of, |id| {
        if records.get(&hash(id.as_str())) == Some(&false) {
            without.push(id);
        }
    })
    .await?;
    let kind = opened.columns.iter().find(|column| column.name == opened.id).map(|column| column.kind);
    let kind = kind.context("the id is no column any more")?;
    let mut missing = Vec::new();
    for ids in without.chunks(LOOKED_AT) {
        let cells: Vec<Cell> = ids.iter().filter_map(|id| super::check::id_cell(kind, id.as_str())).collect();
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

/// Deletes records and their verdicts, verdicts first: what is left when that is cut short the next comparison finds. Says how many, and
/// why not all.
async fn delete(intake: &mut Intake<'_>, missing: &[RecordId]) -> anyhow::Result<(u64, Option<String>)> {
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
    let (engine, collection, id) = (engine.clone(), collection.clone(), id.clone());
    // A worker that stops does not leave a deletion half-way.
    tokio::spawn(async move { engine.remove(&collection, &id).await }).await.unwrap_or(Err(Error::Crashed))
}
