//! One round: what was written since the last one, in the order of (watermark, id).
//!
//! A round ends `delay_s` behind the clock of the database, because a transaction that is still open may yet write a watermark before
//! that; it begins `read_back_s` before the last row of the round before, because one may have been open longer. Rows that were read
//! then and have not changed since are not registered again.

use super::intake::{Intake, Recent};
use super::opened::{Opened, PAGE};
use super::state::{Import, Kept};
use super::worker::Lease;
use crate::config;
use doppel_sources::database::sql::{self, Position};
use doppel_sources::database::{Cell, Watermark};

/// Reads what was written since the last round.
///
/// # Errors
/// When the database or the store is away, or the lease is lost: what was registered until then is in the checkpoint.
pub(super) async fn run(
    config: &config::Source,
    opened: &mut Opened,
    intake: &mut Intake<'_>,
    recent: &mut Recent,
    lease: &mut Lease<'_>,
) -> anyhow::Result<()> {
    let now = opened.now().await?;
    let upper = now.earlier(config.delay_s);
    let Some(watermark) = &opened.watermark else { anyhow::bail!("a source that is followed has no watermark") };
    let (at, shape) = (watermark.at, watermark.shape.clone());
    let last = lease.saved.watermark.as_ref().map(|kept| shape.read(&kept.cell())).transpose()?;
    let from = last.map(|last| shape.write(last.earlier(config.read_back_s)));
    let to = shape.write(upper);
    let mut seen = Recent::default();
    let mut after: Option<Position> = None;
    loop {
        let bounds = (from.as_ref(), Some(&to));
        let dialect = opened.connection.dialect();
        let select = sql::page(dialect, &opened.origin, opened.order(true), bounds, after.as_ref(), PAGE);
        let page = opened.page(select).await?;
        let Some(row) = page.rows.last() else { break };
        let (id, mark) = (opened.id_of(row).clone(), row.get(at).cloned().unwrap_or(Cell::Null));
        let new = fresh(opened, &page.rows, recent, &mut seen);
        let taken = intake.take(new).await?;
        let read = shape.read(&mark)?;
        let highest = lease.saved.watermark.as_ref().and_then(|kept| shape.read(&kept.cell()).ok());
        if highest.is_none_or(|highest| read >= highest) {
            lease.saved.watermark = Kept::of(&mark);
            lease.saved.watermark_at = Some(read.0.to_string());
        }
        lease.count(&taken);
        lease.keep().await?;
        after = Some(Position { watermark: Some(shape.same(&mark)), id });
        if page.is_last {
            break;
        }
    }
    *recent = seen;
    lease.saved.last_round = Some(crate::clock::now());
    lease.saved.lag_s = Some(behind(upper, now));
    lease.saved.last_error = None;
    lease.keep().await
}

fn behind(upper: Watermark, now: Watermark) -> f64 {
    (upper.seconds_before(now) * 10.0).round() / 10.0
}

/// The rows that were not registered lately as they are.
fn fresh(
    opened: &Opened,
    rows: &[Vec<Cell>],
    recent: &Recent,
    seen: &mut Recent,
) -> Vec<(String, Result<doppel_core::record::Row, doppel_sources::Unreadable>)> {
    let mut new = Vec::new();
    for cells in rows {
        let id = opened.id_text(cells);
        let row = opened.mapping.row(cells);
        if let Ok(row) = &row {
            seen.note(&id, row);
            if recent.has(&id, row) {
                continue;
            }
        }
        new.push((id, row));
    }
    new
}

/// Reads all rows in the order of their ids, from where the import was left.
///
/// # Errors
/// As [`run`].
pub(super) async fn import(opened: &mut Opened, intake: &mut Intake<'_>, lease: &mut Lease<'_>) -> anyhow::Result<()> {
    while let Some(import) = lease.saved.import.clone().filter(|import| import.shown.finished_at.is_none()) {
        let dialect = opened.connection.dialect();
        let after = import.position();
        let select = sql::page(dialect, &opened.origin, opened.order(false), (None, None), after.as_ref(), PAGE);
        let page = opened.page(select).await?;
        let last = page.rows.last().map(|row| opened.id_of(row).clone());
        let rows = page.rows.iter().map(|cells| (opened.id_text(cells), opened.mapping.row(cells))).collect();
        let taken = intake.take(rows).await?;
        let Import { after, mut shown } = import;
        shown.rows += taken.registered;
        shown.rejected += taken.rejected;
        let after = last.as_ref().and_then(Kept::of).or(after);
        if page.is_last {
            shown.finished_at = Some(crate::clock::now());
            lease.saved.last_error = None;
        }
        lease.saved.import = Some(Import { after, shown });
        lease.count(&taken);
        lease.keep().await?;
    }
    Ok(())
}
