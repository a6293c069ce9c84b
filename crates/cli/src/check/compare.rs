//! Compares the rows with the collection and writes the findings in the order of the rows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;

use super::AT_ONCE;
use super::report::CheckReport;
use crate::import::deliver::{BatchDelivery, STOPPED};
use crate::import::input::{InputLine, LineBatch, OriginalLine};
use crate::import::target::{CheckResponse, LineResponse};
use crate::line_report::LinePlace;
use crate::spool::{ResultTable, RowSpool, SpoolEntry};
use doppel_core::record::Row;
use doppel_core::verdict::Match;
use doppel_engine::answers::Outcome;
use doppel_engine::replay::{Replay, SignedRecord};
use doppel_findings::within::PlacedRows;
use doppel_findings::{RowFinding, RowRefusal, short};
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

/// The result of checking one row.
enum RowOutcomes {
    Refused(RowRefusal),
    Found { row: Row, subject: Box<SignedRecord>, found: Box<Option<Match>> },
}

impl RowComparison<'_, '_> {
    /// Checks all rows: several at once against the collection, and one after the other against the earlier rows.
    pub(super) async fn check(&mut self, replay: Arc<Replay>) -> anyhow::Result<()> {
        let mut within = PlacedRows::new(Arc::clone(&replay), self.dir);
        let delivery = &*self.delivery;
        let progress = self.report.progress();
        let mut under_way = FuturesOrdered::new();
        let mut next = 0;
        loop {
            while next < self.spool.len() && under_way.len() < AT_ONCE {
                let entry = self.spool.entry(next)?;
                let replay = Arc::clone(&replay);
                let progress = Arc::clone(&progress);
                under_way.push_back(async move {
                    let outcome = match &entry.content {
                        Err(_) => None,
                        Ok(json) => Some(one(delivery, replay, json, |text| progress.say(text)).await?),
                    };
                    anyhow::Ok((entry, outcome))
                });
                next += 1;
            }
            let done = tokio::select! {
                biased;
                () = delivery.stop.reached(Phase::Grace) => anyhow::bail!(STOPPED),
                done = under_way.next() => done,
            };
            let Some(done) = done else { return Ok(()) };
            let (entry, outcome) = done?;
            let at = next - under_way.len() - 1;
            let said = match (&entry.content, outcome) {
                (Err(why), _) => {
                    self.table.put_refused(&entry, why)?;
                    continue;
                }
                (Ok(_), None) => continue,
                (Ok(_), Some(RowOutcomes::Refused(refusal))) => Err(refusal),
                (Ok(_), Some(RowOutcomes::Found { row, subject, found })) => {
                    let too_short = subject.signed().too_short;
                    let earlier = within.place(at as u64, &row, *subject)?;
                    let earlier = earlier.map(|(at, found)| anyhow::Ok((self.spool.earlier(at as usize)?, found)));
                    Ok(RowFinding::checked(*found, earlier.transpose()?, too_short))
                }
            };
            self.report.note(&said, at as u64 + 1);
            self.table.put(&entry, &said)?;
        }
    }

    /// Registers all rows in batches.
    pub(super) async fn register(&mut self) -> anyhow::Result<()> {
        let mut ids: HashMap<[u8; 16], usize> = HashMap::new();
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
                let repeats = self.repeated_id(&entry, next, &mut ids)?;
                bytes += entry.content.as_ref().map_or(0, String::len);
                if let Some(why) = &repeats {
                    entry.content = Err(why.clone());
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
                match &entry.content {
                    Err(why) => self.table.put_refused(entry, why)?,
                    Ok(_) => {
                        let answer = answers.next().flatten().context("a row has no answer")?;
                        self.answered(entry, at, answer, &ids)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the reason for a refusal if an earlier row has the same id: registering the row would replace the earlier record.
    fn repeated_id(
        &self,
        entry: &SpoolEntry,
        at: usize,
        ids: &mut HashMap<[u8; 16], usize>,
    ) -> anyhow::Result<Option<String>> {
        let Ok(json) = &entry.content else { return Ok(None) };
        let row = Row::parse(json.as_bytes()).context("a row came back damaged")?;
        let Some(id) = row.id() else { return Ok(None) };
        let first = *ids.entry(short(id)).or_insert(at);
        Ok((first != at).then(|| self.table.sentence(&RowRefusal::Invalid("repeated_id".into()))))
    }

    fn answered(
        &mut self,
        entry: &SpoolEntry,
        at: usize,
        answer: LineResponse,
        ids: &HashMap<[u8; 16], usize>,
    ) -> anyhow::Result<()> {
        let LineResponse { outcome, verdict, id, duplicate_of, similar, refusal, .. } = answer;
        let said = match (outcome, verdict) {
            (Some(outcome), Some(kind)) => {
                self.report.registered(outcome);
                let is_new = matches!(outcome, Outcome::Created | Outcome::Replaced);
                let stored = id.map(|id| (id, is_new));
                Ok(RowFinding::registered(kind, duplicate_of.as_ref(), &similar, stored, |id| {
                    ids.get(&short(id)).and_then(|at| self.spool.earlier(*at).ok())
                }))
            }
            _ => Err(RowRefusal::Invalid(refusal.code)),
        };
        self.report.note(&said, at as u64 + 1);
        self.table.put(entry, &said)
    }
}

/// Checks one row.
async fn one(
    delivery: &BatchDelivery<'_>,
    replay: Arc<Replay>,
    json: &str,
    say: impl Fn(&str),
) -> anyhow::Result<RowOutcomes> {
    let row = Row::parse(json.as_bytes()).context("a row came back damaged")?;
    let found = match delivery.check(row.json(), say).await? {
        CheckResponse::Found(found) => found,
        CheckResponse::Refused(refusal) => return Ok(RowOutcomes::Refused(RowRefusal::Invalid(refusal.code))),
    };
    let signing = tokio::task::spawn_blocking(move || replay.sign(&row).map(|subject| (row, subject)));
    let (row, subject) = signing.await.context("signing a row")??;
    Ok(RowOutcomes::Found { row, subject: Box::new(subject), found: Box::new(found) })
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
