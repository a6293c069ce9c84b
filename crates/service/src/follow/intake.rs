//! Registers rows like a caller of `_bulk`: in their order, a few at a time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

use super::write_back::VerdictTable;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_engine::answers::Registration;
use doppel_engine::{Engine, Error, IfDuplicate, Series};
use doppel_sources::UnreadableLine;
use doppel_sources::database::SqlValue;
use doppel_sources::database::sql::VerdictRow;

/// Number of rows that are registered at the same time. The service allows 256 registrations at once, so that other callers do not wait for these.
const AT_ONCE: usize = 8;
/// Largest number of remembered rows, which are not registered again when they are read a second time. They take about ten megabytes.
const MOST_REMEMBERED: usize = 100_000;

/// A hash of the content of each row that was registered or rejected recently, by id.
#[derive(Debug, Default)]
pub(super) struct RecentRows(HashMap<String, u64>);

impl RecentRows {
    /// True if a row with this id and this content was handled recently.
    pub(super) fn has(&self, id: &str, content: u64) -> bool {
        self.0.get(id) == Some(&content)
    }

    pub(super) fn note(&mut self, id: &str, said: u64) {
        if self.0.len() < MOST_REMEMBERED || self.0.contains_key(id) {
            self.0.insert(id.to_owned(), said);
        }
    }
}

/// Returns a hash of the content of a row: of its record, or of its values if it is no record.
pub(super) fn hash(row: &Result<Row, UnreadableLine>, cells: &[SqlValue]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match row {
        Ok(row) => row.json().hash(&mut hasher),
        Err(_) => format!("{cells:?}").hash(&mut hasher),
    }
    hasher.finish()
}

/// The numbers of registered and rejected rows.
#[derive(Debug, Default)]
pub(super) struct IntakeCounts {
    pub(super) registered: u64,
    pub(super) rejected: u64,
    /// The id of the last rejected row, and the reason.
    pub(super) last_rejected: Option<(String, String)>,
}

impl IntakeCounts {
    fn reject(&mut self, id: &str, code: &str) {
        self.rejected += 1;
        self.last_rejected = Some((id.to_owned(), code.to_owned()));
    }
}

/// Registers the rows of one source in its collection.
pub(super) struct SourceIntake<'a> {
    pub(super) engine: &'a Engine,
    pub(super) collection: &'a CollectionName,
    pub(super) source: &'a str,
    pub(super) verdicts: VerdictTable,
}

impl SourceIntake<'_> {
    /// Registers rows in their order, each with its id. A row that is no record is counted as rejected, and the next rows are registered.
    ///
    /// # Errors
    /// A row cannot be registered at the moment. This row and the rows after it may be unregistered.
    pub(super) async fn take(
        &mut self,
        rows: Vec<(String, Result<Row, UnreadableLine>)>,
    ) -> anyhow::Result<IntakeCounts> {
        let mut taken = IntakeCounts::default();
        let mut verdicts = Vec::new();
        let mut series = Series::default();
        let mut under_way = FuturesOrdered::new();
        let mut rows = rows.into_iter();
        loop {
            while under_way.len() < AT_ONCE {
                let Some((id, row)) = rows.next() else { break };
                match row {
                    Ok(row) if row.id().is_some() => {
                        let position = series.next_position();
                        let engine = self.engine.clone();
                        let collection = self.collection.clone();
                        // The registration runs in its own task, so that it is completed even if the worker stops.
                        let task = tokio::spawn(async move {
                            let own = None::<RecordId>;
                            engine.register_in_series(&collection, own, row, IfDuplicate::Keep, position).await
                        });
                        under_way.push_back(async move { (id, task.await) });
                    }
                    Ok(_) => self.reject(&mut taken, &id, "no_id"),
                    Err(why) => self.reject(&mut taken, &id, why.code),
                }
            }
            let Some((id, registered)) = under_way.next().await else { break };
            match registered {
                Ok(Ok(registration)) => {
                    taken.registered += 1;
                    metrics::counter!("doppel_source_rows_total", "source" => self.source.to_owned()).increment(1);
                    if self.verdicts.are_written() {
                        verdicts.push(verdict_row(id, &registration));
                    }
                }
                Ok(Err(Error::Invalid(violations))) => {
                    let code = violations.first().map_or("invalid", |violation| violation.code.as_str());
                    self.reject(&mut taken, &id, code);
                }
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => {
                    anyhow::bail!("registering a row ended with a panic, which is a bug; the log has its position")
                }
            }
        }
        self.verdicts.put(&verdicts).await;
        Ok(taken)
    }

    /// Returns the problem with the table of verdicts, if there is one, with the present time, for the checkpoint.
    pub(super) fn trouble(&self) -> Option<(String, String)> {
        self.verdicts.trouble().map(|trouble| (crate::clock::now(), trouble.to_owned()))
    }

    fn reject(&self, taken: &mut IntakeCounts, id: &str, code: &str) {
        metrics::counter!("doppel_source_rows_rejected_total", "source" => self.source.to_owned()).increment(1);
        tracing::warn!(source = self.source, id, code, "a row of a source cannot be registered");
        taken.reject(id, code);
    }
}

fn verdict_row(id: String, registration: &Registration) -> VerdictRow {
    let verdict = &registration.verdict;
    // The score and the channels of the record that this record repeats.
    let of = verdict.duplicate_of.as_ref();
    let shown = verdict.similar.iter().find(|shown| Some(&shown.id) == of);
    VerdictRow {
        id,
        verdict: word_of(verdict.kind).unwrap_or_default(),
        duplicate_of: of.map(|of| of.as_str().to_owned()),
        similarity: shown.and_then(|shown| shown.similarity),
        relation: shown.and_then(|shown| word_of(shown.relation?)),
    }
}

/// Returns the word that stands for `value` in JSON.
fn word_of(value: impl serde::Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}
