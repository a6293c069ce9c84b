//! One round: what was written since the last one, in the order of (watermark, id).
//!
//! A round ends `delay_s` behind the clock of the database, because a transaction that is still open may yet write a watermark before
//! that; it begins `read_back_s` before the last row of the round before, because one may have been open longer. Rows that were read
//! then and have not changed since are not registered again.

use super::intake::{Intake, Recent, hash};
use super::opened::{Opened, PAGE};
use super::state::{Import, Kept, Unwritten};
use super::worker::Lease;
use crate::config;
use doppel_sources::Unreadable;
use doppel_sources::database::sql::{self, Position};
use doppel_sources::database::{Cell, Shape, Watermark};

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
    let upper = lease.asking(opened.now()).await?.earlier(config.delay_s);
    let Some(watermark) = &opened.watermark else { anyhow::bail!("a source that is followed has no watermark") };
    let (at, shape) = (watermark.at, watermark.shape.clone());
    let to = shape.write(upper);
    let from = begin(config, &shape, upper, lease)?;
    let from = with_unwritten(from, &shape, intake, recent, lease)?;
    let mut seen = Recent::default();
    let mut after: Option<Position> = None;
    loop {
        let bounds = (from.as_ref(), Some(&to));
        let dialect = opened.connection.dialect();
        let select = sql::page(dialect, &opened.origin, opened.order(true), bounds, after.as_ref(), PAGE);
        let page = lease.asking(opened.page(select)).await?;
        let Some(row) = page.rows.last() else { break };
        let mark = row.get(at).cloned().unwrap_or(Cell::Null);
        after = Some(opened.behind(row, Some(shape.same(&mark)), after.as_ref())?);
        // What is no time stands before or behind all times.
        let read = page.rows.iter().rev().find_map(|row| Some((row.get(at)?, shape.read(row.get(at)?).ok()?)));
        let new = fresh(opened, (at, &shape), &page.rows, recent, &mut seen);
        let taken = lease.beside(intake.take(new)).await?;
        if intake.verdicts.trouble().is_some() {
            note_unwritten(from.as_ref(), &shape, lease);
        }
        if let Some((mark, read)) = read {
            let highest = lease.saved.watermark.as_ref().and_then(|kept| shape.read(&kept.cell()).ok());
            if highest.is_none_or(|highest| read >= highest) {
                lease.saved.watermark = Kept::of(mark);
                lease.saved.watermark_at = Some(read.0.to_string());
            }
            let reached = highest.map_or(read, |highest| highest.max(read));
            let now = lease.asking(opened.now()).await?;
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
    let now = lease.asking(opened.now()).await?;
    show_lag(config, upper, now, lease);
    lease.saved.last_error = intake.trouble();
    lease.keep().await
}

/// The watermark at which a round begins that reads up to `upper`; none where everything is to be read.
fn begin(
    config: &config::Source,
    shape: &Shape,
    upper: Watermark,
    lease: &mut Lease<'_>,
) -> anyhow::Result<Option<Cell>> {
    let Some(kept) = &lease.saved.watermark else { return Ok(None) };
    let last = shape.read(&kept.cell())?;
    // A clock that was ahead for a moment must not hide what is written until it is that late again.
    let last = if last > upper {
        lease.saved.watermark = Kept::of(&shape.write(upper));
        lease.saved.watermark_at = Some(upper.0.to_string());
        upper
    } else {
        last
    };
    Ok(Some(shape.write(last.earlier(config.read_back_s))))
}

/// The same, earlier where verdicts are to be written once more that could not be.
fn with_unwritten(
    from: Option<Cell>,
    shape: &Shape,
    intake: &Intake<'_>,
    recent: &mut Recent,
    lease: &Lease<'_>,
) -> anyhow::Result<Option<Cell>> {
    let Some(unwritten) = lease.saved.unwritten.as_ref().filter(|_| intake.verdicts.are_written()) else {
        return Ok(from);
    };
    *recent = Recent::default();
    let (Some(kept), Some(from)) = (&unwritten.from, from) else { return Ok(None) };
    Ok(Some(if shape.read(&kept.cell())? < shape.read(&from)? { kept.cell() } else { from }))
}

/// Notes that verdicts of rows from this watermark on are not written.
fn note_unwritten(from: Option<&Cell>, shape: &Shape, lease: &mut Lease<'_>) {
    let read = |kept: Option<&Kept>| kept.and_then(|kept| shape.read(&kept.cell()).ok());
    let from = from.and_then(Kept::of);
    let is_noted = lease.saved.unwritten.as_ref().is_some_and(|noted| read(noted.from.as_ref()) <= read(from.as_ref()));
    if !is_noted {
        lease.saved.unwritten = Some(Unwritten { from });
    }
}

/// Notes that everything up to `reached` is read, by a clock of the database that says `now`.
fn show_lag(config: &config::Source, reached: Watermark, now: Watermark, lease: &mut Lease<'_>) {
    let lag_s = (reached.seconds_before(now) * 10.0).round() / 10.0;
    lease.saved.lag_s = Some(lag_s);
    metrics::gauge!("doppel_source_lag_seconds", "source" => config.name.clone()).set(lag_s);
}

/// The rows that were not taken lately as they are.
fn fresh(
    opened: &Opened,
    (at, shape): (usize, &Shape),
    rows: &[Vec<Cell>],
    recent: &Recent,
    seen: &mut Recent,
) -> Vec<(String, Result<doppel_core::record::Row, Unreadable>)> {
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

fn no_time() -> Unreadable {
    let detail = "the watermark is no time".into();
    Unreadable { code: "watermark_no_time", pointer: String::new(), detail, text: None }
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
        let page = lease.asking(opened.page(select)).await?;
        let last = page.rows.last().map(|row| opened.behind(row, None, after.as_ref())).transpose()?;
        let rows = page.rows.iter().map(|cells| (opened.id_text(cells), opened.mapping.row(cells))).collect();
        let taken = lease.beside(intake.take(rows)).await?;
        if intake.verdicts.trouble().is_some() {
            lease.saved.unwritten = Some(Unwritten::default());
        }
        let Import { after, mut shown } = import;
        shown.rows += taken.registered;
        shown.rejected += taken.rejected;
        let after = last.and_then(|last| Kept::of(&last.id)).or(after);
        if page.is_last {
            shown.finished_at = Some(crate::clock::now());
            lease.saved.last_error = intake.trouble();
        }
        lease.saved.import = Some(Import { after, shown });
        lease.count(&taken);
        lease.keep().await?;
    }
    Ok(())
}
