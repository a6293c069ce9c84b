//! Compares the rows with the collection and writes the findings in the order of the rows.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::{StreamExt as _, stream};

use super::AT_ONCE;
use super::report::CheckReport;
use crate::import::deliver::{BatchDelivery, STOPPED};
use crate::import::input::{InputLine, LineBatch, OriginalLine};
use crate::import::target::{CheckResponse, LineResponse};
use crate::line_report::LinePlace;
use crate::spool::{ResultTable, RowSpool, SpoolEntry};
use doppel_core::record::Row;
use doppel_engine::replay::Replay;
use doppel_findings::within::{CheckedRow, PlacedRows};
use doppel_findings::{RowFinding, RowIds, RowRefusal};
use doppel_service::shutdown::Phase;

/// Largest number of rows that are registered together. They take some hundred milliseconds; a stop signal is processed after them.
const BATCH_ROWS: usize = 2000;
/// Number of bytes after which a batch is full.
const BATCH_BYTES: usize = 4 << 20;

/// The comparison of the rows of a check.
pub(super) struct RowComparison<'a, 'd> {
    pub(super) spool: &'a RowSpool,
    pub(super) delivery: &'a mut BatchDelivery<'d>,
    pub(super) table: ResultTable,
    pub(super) report: &'a mut CheckReport,
    pub(super) dir: &'a Path,
}

/// A row that was checked against the collection.
struct ComparedRow {
    at: usize,
    entry: SpoolEntry,
    /// The row, or the reason why it was refused.
    checked: Result<CheckedRow, RowRefusal>,
}

impl RowComparison<'_, '_> {
    /// Compares all rows: several at once with the collection, and one after the other with the earlier rows.
    pub(super) async fn check(&mut self, replay: Arc<Replay>) -> anyhow::Result<()> {
        let spool = self.spool;
        let delivery = &*self.delivery;
        let progress = self.report.progress();
        let mut within = PlacedRows::new(Arc::clone(&replay), self.dir);
        let rows = stream::iter(0..spool.len());
        let compared = rows.map(|at| compare(spool, at, delivery, &replay, |text| progress.say(text)));
        let mut compared = std::pin::pin!(compared.buffered(AT_ONCE));
        loop {
            let row = tokio::select! {
                biased;
                () = delivery.stop.reached(Phase::Grace) => anyhow::bail!(STOPPED),
                row = compared.next() => row,
            };
            let Some(row) = row else { return Ok(()) };
            let ComparedRow { at, entry, checked } = row?;
            let said = match checked {
                Ok(row) => Ok(within.finding(at as u64, row, |at| spool.earlier(at as usize))?),
                Err(refusal) => Err(refusal),
            };
            if entry.content.is_ok() {
                self.report.note(&said, at as u64 + 1);
            }
            self.table.put(&entry, &said)?;
        }
    }

    /// Registers all rows in batches.
    pub(super) async fn register(&mut self) -> anyhow::Result<()> {
        let mut ids = RowIds::default();
        let mut next = 0;
        while next < self.spool.len() {
            if self.delivery.stop.phase() >= Phase::Grace {
                anyhow::bail!(STOPPED);
            }
            let first = next;
            let mut entries = Vec::new();
            let mut bytes = 0;
            while next < self.spool.len() && entries.len() < BATCH_ROWS && bytes < BATCH_BYTES {
                let mut entry = self.spool.entry(next)?;
                bytes += entry.content.as_ref().map_or(0, String::len);
                // Registering the row would replace the earlier record.
                if repeats_id(&entry, next as u64, &mut ids)? {
                    entry.content = Err(RowRefusal::Invalid("repeated_id".into()));
                    self.report.refuse_id(LinePlace { file: entry.file, line: entry.line })?;
                }
                entries.push(entry);
                next += 1;
            }
            let lines = entries.iter().filter_map(line).collect();
            let (answers, end) =
                self.delivery.deliver(&LineBatch::of(lines), |text| self.report.progress().say(text)).await;
            end.into_result()?;
            let mut answers = answers.into_iter();
            for (at, entry) in (first..).zip(&entries) {
                let said = match &entry.content {
                    Err(refusal) => Err(refusal.clone()),
                    Ok(_) => {
                        let said = self.answered(answers.next().flatten().context("a row has no answer")?, &ids);
                        self.report.note(&said, at as u64 + 1);
                        said
                    }
                };
                self.table.put(entry, &said)?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, answer: LineResponse, ids: &RowIds) -> Result<RowFinding, RowRefusal> {
        let LineResponse { outcome, verdict, id, duplicate_of, similar, refusal, .. } = answer;
        let (Some(outcome), Some(kind)) = (outcome, verdict) else { return Err(RowRefusal::Invalid(refusal.code)) };
        self.report.registered(outcome);
        Ok(RowFinding::registered(kind, duplicate_of.as_ref(), &similar, id, outcome, |id| {
            self.spool.earlier(ids.get(id)? as usize).ok()
        }))
    }
}

/// Compares one row with the collection.
async fn compare(
    spool: &RowSpool,
    at: usize,
    delivery: &BatchDelivery<'_>,
    replay: &Arc<Replay>,
    say: impl Fn(&str),
) -> anyhow::Result<ComparedRow> {
    let entry = spool.entry(at)?;
    let checked = match &entry.content {
        Err(refusal) => Err(refusal.clone()),
        Ok(json) => {
            let row = row_of(json)?;
            match delivery.check(row.json(), say).await? {
                CheckResponse::Refused(refusal) => Err(RowRefusal::Invalid(refusal.code)),
                CheckResponse::Found(found) => {
                    let replay = Arc::clone(replay);
                    let signing = tokio::task::spawn_blocking(move || CheckedRow::new(&replay, row, found));
                    Ok(signing.await.context("signing a row")??)
                }
            }
        }
    };
    Ok(ComparedRow { at, entry, checked })
}

/// True if an earlier row has the same id.
fn repeats_id(entry: &SpoolEntry, at: u64, ids: &mut RowIds) -> anyhow::Result<bool> {
    let Ok(json) = &entry.content else { return Ok(false) };
    Ok(row_of(json)?.id().is_some_and(|id| ids.first(id, at) != at))
}

fn row_of(json: &str) -> anyhow::Result<Row> {
    Row::parse(json.as_bytes()).context("a stored row is damaged")
}

/// Returns the line to send for a row; `None` if the row is refused.
fn line(entry: &SpoolEntry) -> Option<InputLine> {
    let json = entry.content.as_ref().ok()?;
    Some(InputLine {
        file: entry.file,
        number: entry.line,
        content: Ok(json.as_str().into()),
        came: OriginalLine::Nothing,
    })
}
