//! A round reads the rows that were written since the last round, in the order of (watermark, id).
//!
//! A round ends `delay_s` before the present time of the database, because an open transaction may still write rows with an earlier watermark. The
//! round begins `read_back_s` before the last row of the previous round, because a transaction may have been open for longer. Rows that were read
//! before and have not changed are not registered again.

use super::intake::{RecentRows, SourceIntake, hash};
use super::opened::{PAGE, ReadableSource};
use super::state::{CheckpointValue, ImportProgress, UnwrittenVerdicts};
use super::worker::SourceLease;
use doppel_config as config;
use doppel_sources::UnreadableLine;
use doppel_sources::database::sql::{self, RowPosition};
use doppel_sources::database::{SqlValue, Watermark, WatermarkFormat};

/// Reads and registers the rows since the last round.
///
/// # Errors
/// The database or the store is not available, or the lease is lost. The checkpoint contains the progress until then.
pub(super) async fn run(
    config: &config::SourceConfig,
    opened: &mut ReadableSource,
    intake: &mut SourceIntake<'_>,
    recent: &mut RecentRows,
    lease: &mut SourceLease<'_>,
) -> anyhow::Result<()> {
    let upper = lease.query_with_renewal(opened.now()).await?.earlier(config.delay_s);
    let Some(watermark) = &opened.watermark else { anyhow::bail!("a source that is followed has no watermark") };
    let at = watermark.at;
    let shape = watermark.shape.clone();
    let to = shape.write(upper);
    let from = begin(config, &shape, upper, lease)?;
    let from = with_unwritten(from, &shape, intake, recent, lease)?;
    let mut seen = RecentRows::default();
    let mut after: Option<RowPosition> = None;
    loop {
        let dialect = opened.connection.dialect();
        let select =
            sql::page(dialect, &opened.origin, opened.order(true), from.as_ref(), Some(&to), after.as_ref(), PAGE);
        let page = lease.query_with_renewal(opened.page(select)).await?;
        let Some(row) = page.rows.last() else { break };
        let mark = row.get(at).cloned().unwrap_or(SqlValue::Null);
        after = Some(opened.behind(row, Some(shape.same(&mark)), after.as_ref())?);
        // Values that are no time come before or after all times.
        let read = page.rows.iter().rev().find_map(|row| Some((row.get(at)?, shape.read(row.get(at)?).ok()?)));
        let new = fresh(opened, at, &shape, &page.rows, recent, &mut seen);
        let taken = lease.run_with_renewal(intake.take(new)).await?;
        if intake.verdicts.trouble().is_some() {
            note_unwritten(from.as_ref(), &shape, lease);
        }
        if let Some((mark, read)) = read {
            let highest = lease.saved.watermark.as_ref().and_then(|kept| shape.read(&kept.cell()).ok());
            if highest.is_none_or(|highest| read >= highest) {
                lease.saved.watermark = CheckpointValue::of(mark);
                lease.saved.watermark_at = Some(read.0.to_string());
            }
            let reached = highest.map_or(read, |highest| highest.max(read));
            let now = lease.query_with_renewal(opened.now()).await?;
            show_lag(config, reached, now, lease);
        }
        lease.count(&taken);
        lease.keep().await?;
        if page.is_last {
            break;
        }
    }
    *recent = seen;
    if intake.verdicts.trouble().is_none() {
        lease.saved.unwritten = None;
    }
    lease.saved.last_round = Some(crate::clock::now());
    let now = lease.query_with_renewal(opened.now()).await?;
    show_lag(config, upper, now, lease);
    lease.saved.last_error = intake.trouble();
    lease.keep().await
}

/// Returns the watermark at which a round that ends at `upper` begins; `None` to read all rows.
fn begin(
    config: &config::SourceConfig,
    shape: &WatermarkFormat,
    upper: Watermark,
    lease: &mut SourceLease<'_>,
) -> anyhow::Result<Option<SqlValue>> {
    let Some(kept) = &lease.saved.watermark else { return Ok(None) };
    let last = shape.read(&kept.cell())?;
    // If the clock of the database was ahead for a moment, the stored watermark lies in the future. It is moved back, so that rows with the
    // right time are read.
    let last = if last > upper {
        lease.saved.watermark = CheckpointValue::of(&shape.write(upper));
        lease.saved.watermark_at = Some(upper.0.to_string());
        upper
    } else {
        last
    };
    Ok(Some(shape.write(last.earlier(config.read_back_s))))
}

/// Moves the beginning of a round back to rows whose verdicts could not be written.
fn with_unwritten(
    from: Option<SqlValue>,
    shape: &WatermarkFormat,
    intake: &SourceIntake<'_>,
    recent: &mut RecentRows,
    lease: &SourceLease<'_>,
) -> anyhow::Result<Option<SqlValue>> {
    let Some(unwritten) = lease.saved.unwritten.as_ref().filter(|_| intake.verdicts.are_written()) else {
        return Ok(from);
    };
    *recent = RecentRows::default();
    let (Some(kept), Some(from)) = (&unwritten.from, from) else { return Ok(None) };
    Ok(Some(if shape.read(&kept.cell())? < shape.read(&from)? { kept.cell() } else { from }))
}

/// Records that the verdicts of rows from this watermark on are not written.
fn note_unwritten(from: Option<&SqlValue>, shape: &WatermarkFormat, lease: &mut SourceLease<'_>) {
    let from = from.and_then(CheckpointValue::of);
    let is_noted = lease
        .saved
        .unwritten
        .as_ref()
        .is_some_and(|noted| read_kept(noted.from.as_ref(), shape) <= read_kept(from.as_ref(), shape));
    if !is_noted {
        lease.saved.unwritten = Some(UnwrittenVerdicts { from });
    }
}

fn read_kept(kept: Option<&CheckpointValue>, shape: &WatermarkFormat) -> Option<Watermark> {
    kept.and_then(|kept| shape.read(&kept.cell()).ok())
}

/// Records that all rows up to `reached` were read when the clock of the database was at `now`.
fn show_lag(config: &config::SourceConfig, reached: Watermark, now: Watermark, lease: &mut SourceLease<'_>) {
    let lag_s = (reached.seconds_before(now) * 10.0).round() / 10.0;
    lease.saved.lag_s = Some(lag_s);
    metrics::gauge!("doppel_source_lag_seconds", "source" => config.name.clone()).set(lag_s);
}

/// Returns the rows that were not handled recently with the same content.
fn fresh(
    opened: &ReadableSource,
    at: usize,
    shape: &WatermarkFormat,
    rows: &[Vec<SqlValue>],
    recent: &RecentRows,
    seen: &mut RecentRows,
) -> Vec<(String, Result<doppel_core::record::Row, UnreadableLine>)> {
    let mut new = Vec::new();
    for cells in rows {
        let id = opened.id_text(cells);
        let row = match cells.get(at).map(|mark| shape.read(mark)) {
            Some(Ok(_)) => opened.mapping.row(cells),
            _ => Err(no_time()),
        };
        let said = hash(&row, cells);
        seen.note(&id, said);
        if !recent.has(&id, said) {
            new.push((id, row));
        }
    }
    new
}

fn no_time() -> UnreadableLine {
    let detail = "the watermark is no time".into();
    UnreadableLine { code: "watermark_no_time", pointer: String::new(), detail, text: None }
}

/// Reads all rows in the order of their ids, and continues at the position that the import has reached.
///
/// # Errors
/// The errors of [`run`].
pub(super) async fn import(
    opened: &mut ReadableSource,
    intake: &mut SourceIntake<'_>,
    lease: &mut SourceLease<'_>,
) -> anyhow::Result<()> {
    while let Some(import) = lease.saved.import.clone().filter(|import| import.shown.finished_at.is_none()) {
        let dialect = opened.connection.dialect();
        let after = import.position();
        let select = sql::page(dialect, &opened.origin, opened.order(false), None, None, after.as_ref(), PAGE);
        let page = lease.query_with_renewal(opened.page(select)).await?;
        let last = page.rows.last().map(|row| opened.behind(row, None, after.as_ref())).transpose()?;
        let rows = page.rows.iter().map(|cells| (opened.id_text(cells), opened.mapping.row(cells))).collect();
        let taken = lease.run_with_renewal(intake.take(rows)).await?;
        if intake.verdicts.trouble().is_some() {
            lease.saved.unwritten = Some(UnwrittenVerdicts::default());
        }
        let ImportProgress { after, mut shown } = import;
        shown.rows += taken.registered;
        shown.rejected += taken.rejected;
        let after = last.and_then(|last| CheckpointValue::of(&last.id)).or(after);
        if page.is_last {
            shown.finished_at = Some(crate::clock::now());
            lease.saved.last_error = intake.trouble();
        }
        lease.saved.import = Some(ImportProgress { after, shown });
        lease.count(&taken);
        lease.keep().await?;
    }
    Ok(())
}
