//! `doppel import --exported`: registers the content of a file of `doppel export`, with constant memory. A second run changes nothing.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{
    DecisionLine, ExportEnd, ExportHeader, ExportLine, HandlingLine, MAX_LINE_BYTES, MONGODB, VERSION, engine, open,
    progress_of,
};
use crate::import::deliver::{DeliveryEnd, RUN_AGAIN, UNSETTLED};
use crate::output::CommandOutputs;
use crate::progress::CommandProgress;
use crate::scratch::{NewDirectory, check_new_path};
use crate::store::NewStore;
use crate::{PARTLY, run_until_signal, start_threads, usage};
use doppel_config as config;
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_engine::answers::Outcome;
use doppel_engine::events::handling::add_handling;
use doppel_engine::runner::{SETTLING, TaskRunner};
use doppel_engine::{Engine, Error, IfDuplicate, Position, Series};
use doppel_service::shutdown::{Phase, Shutdown};
use doppel_store::decisions::{Decision, RecordPair, orphaned_decisions};
use doppel_store::{Store, StoreError};
use doppel_store_embedded::Opening;
use doppel_texts as texts;

/// Number of lines that are read ahead.
const AHEAD: usize = 64;
/// Number of registrations in progress. They are committed in the order of the file.
const AT_ONCE: usize = 128;
/// Largest number of refused records that are printed; the others are counted.
const SHOWN: u64 = 10;
/// Number of attempts for a record while the store is not available. They are half a second apart.
const TRIES: u32 = 120;

/// The file to import, and its destination.
pub(crate) struct CollectionImport<'a> {
    pub(crate) to: &'a str,
    pub(crate) collection: &'a CollectionName,
    pub(crate) file: &'a str,
}

/// The summary of an import.
#[derive(Default)]
struct ImportTotals {
    stored: u64,
    unchanged: u64,
    rejected: u64,
    decisions: u64,
    /// Number of decisions about pairs that people have judged again since.
    kept: u64,
    /// Decisions that were left out because one of their records was not imported.
    orphaned: u64,
    /// False if the service still counts and indexes the collection.
    is_settled: bool,
}

/// Imports an exported collection.
///
/// # Errors
/// The file is no export or is cut off, or the store refuses a record. Records that were imported before stay.
pub(crate) fn restore(what: &CollectionImport<'_>, config: config::StoreConfig) -> anyhow::Result<ExitCode> {
    check_new_path(Path::new(what.to)).map_err(|reason| usage(format!("--to {}: {reason}", what.to)))?;
    let mut input = ExportReader::open(what.file)?.start();
    let mut sum = ImportTotals::default();
    let outputs = CommandOutputs::new();
    let ended = run_until_signal(start_threads()?, &outputs, async |stop| {
        let new = (what.to != MONGODB).then(|| NewDirectory::of(Path::new(what.to))).flatten();
        let store = open(what.to, Opening::CreateIfEmpty, config).await?;
        let new = new.map(|directory| NewStore::new(directory, &engine(&store), &outputs));
        let ended = all(&store, what.collection, &mut input, &mut sum, stop).await;
        // A collection that was imported as a whole stays, even without records.
        let new = new.filter(|_| !matches!(ended, Ok(DeliveryEnd::Done)));
        let closed = NewStore::close(new, store.close()).await;
        ended.and_then(|end| Ok(closed.map(|()| end)?))
    });
    let ImportTotals { stored, unchanged, rejected, decisions, kept, orphaned, is_settled } = sum;
    let mut out = std::io::stdout().lock();
    tell(
        &mut out,
        &format!("{stored} records stored, {unchanged} unchanged, {rejected} rejected; {decisions} decisions"),
    )?;
    if kept > 0 {
        tell(&mut out, &format!("the target has other decisions about {kept} pairs; it keeps its own"))?;
    }
    if orphaned > 0 {
        tell(&mut out, &format!("{orphaned} decisions are left out: no record has one of their two ids"))?;
    }
    let end = ended?;
    match end {
        DeliveryEnd::Stopped => crate::tell(RUN_AGAIN),
        _ if !is_settled => crate::tell(UNSETTLED),
        _ => {}
    }
    end.into_result()?;
    Ok(if rejected == 0 { ExitCode::SUCCESS } else { ExitCode::from(PARTLY) })
}

async fn all(
    store: &Arc<dyn Store>,
    name: &CollectionName,
    input: &mut ExportLines,
    sum: &mut ImportTotals,
    stop: &Shutdown,
) -> anyhow::Result<DeliveryEnd> {
    let Some(first) = input.next(stop).await else { return Ok(DeliveryEnd::Stopped) };
    let header = header_of(first?, &input.name)?;
    let engine = engine(store);
    prepare(store, &engine, name, &header).await?;
    let tasks = TaskRunner::start(&engine);
    let progress = progress_of(header.records);
    let series = Series::default();
    let open = VecDeque::new();
    let mut window =
        RegistrationWindow { engine: engine.clone(), name, open, series, settled: false, sum, progress: &progress };
    let mut read = ExportEnd::default();
    let end = loop {
        let Some(line) = input.next(stop).await else {
            window.finish().await?;
            progress.finish();
            tasks.end(Duration::ZERO).await;
            return Ok(DeliveryEnd::Stopped);
        };
        match line? {
            Some(ExportLine::Decision(line)) => {
                put_decision(store, name, line, window.sum).await?;
                read.decisions += 1;
            }
            Some(ExportLine::Handling(HandlingLine { event, handling })) => {
                add_handling(store.as_ref(), name, &event, &handling).await?;
                read.handlings += 1;
            }
            Some(ExportLine::Record(line)) => {
                let row = Row::parse(line.row.get().as_bytes());
                window.register(input.line, line.id, row.map_err(|error| error.to_string())).await?;
                read.records += 1;
                progress.at(read.records);
            }
            Some(ExportLine::End(end)) => break Some(end),
            Some(ExportLine::DoppelExport(_)) => bail!("{}, line {}: a second header", input.name, input.line),
            None => break None,
        }
    };
    window.finish().await?;
    progress.finish();
    // The decisions come before the records, so that registering a record knows them.
    for (pair, _) in orphaned_decisions(store.as_ref(), name).await? {
        sum.orphaned += u64::from(store.drop_orphaned_decision(name, &pair).await?);
    }
    let counted = count_as_before(&engine, name, header.counted).await;
    sum.is_settled = tokio::select! {
        is_settled = tasks.end(SETTLING) => is_settled,
        () = stop.reached(Phase::Grace) => false,
    };
    counted?;
    match end {
        Some(end) if end == read => Ok(DeliveryEnd::Done),
        _ => bail!("{} ends early: its content is imported; export it again for the rest", input.name),
    }
}

/// Counts as many records as were counted in the exported collection, so that both give the same answers if no counted record was deleted or
/// replaced there.
async fn count_as_before(engine: &Engine, name: &CollectionName, counted: Option<u64>) -> anyhow::Result<()> {
    let present = engine.text_statistics(name).await?.records;
    if let Some(counted) = counted.filter(|counted| *counted != present) {
        engine.recount_first(name, counted).await?;
    }
    Ok(())
}

/// Creates the collection with the settings of the file, or checks the settings of the existing collection.
async fn prepare(
    store: &Arc<dyn Store>,
    engine: &Engine,
    name: &CollectionName,
    header: &ExportHeader,
) -> anyhow::Result<()> {
    match store.collection(name).await? {
        Some(state) if state.settings == header.settings => Ok(()),
        Some(_) => bail!("collection {name} exists with other settings; drop it, or import under another name"),
        None => {
            engine.put_collection(name, header.settings.clone()).await?;
            Ok(())
        }
    }
}

/// Stores a decision, unless people have made other rulings about the pair.
async fn put_decision(
    store: &Arc<dyn Store>,
    name: &CollectionName,
    line: DecisionLine,
    sum: &mut ImportTotals,
) -> anyhow::Result<()> {
    let DecisionLine { a, b, rulings } = line;
    let pair = RecordPair::new(a, b).ok_or_else(|| anyhow!("a decision of the file names one record twice"))?;
    let before = store.decision(name, &pair).await?.map_or_else(Vec::new, |decision| decision.rulings);
    if !rulings.starts_with(&before) {
        sum.kept += 1;
        return Ok(());
    }
    store.put_decision(name, Decision { pair, rulings }).await?;
    sum.decisions += 1;
    Ok(())
}

/// The registrations in progress, in the order of the file.
struct RegistrationWindow<'a> {
    engine: Engine,
    name: &'a CollectionName,
    open: VecDeque<(u64, JoinHandle<Result<Outcome, Error>>)>,
    series: Series,
    /// True if a registration has ended.
    settled: bool,
    sum: &'a mut ImportTotals,
    progress: &'a CommandProgress,
}

impl RegistrationWindow<'_> {
    async fn register(&mut self, line: u64, id: RecordId, row: Result<Row, String>) -> anyhow::Result<()> {
        let row = match row {
            Ok(row) => row,
            Err(reason) => {
                self.reject(line, &reason);
                return Ok(());
            }
        };
        // The first registration runs alone: in an empty collection, registrations conflict, and a repeated registration would be committed
        // later.
        let at_once = if self.settled { AT_ONCE } else { 1 };
        while self.open.len() >= at_once {
            self.settle().await?;
        }
        let engine = self.engine.clone();
        let name = self.name.clone();
        let position = self.series.next_position();
        self.open.push_back((line, tokio::spawn(register(engine, name, id, row, position))));
        Ok(())
    }

    /// Waits for the oldest registration.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let Some((line, oldest)) = self.open.pop_front() else { return Ok(()) };
        self.settled = true;
        match oldest.await.context("a registration panicked")? {
            Ok(Outcome::Unchanged) => self.sum.unchanged += 1,
            Ok(_) => self.sum.stored += 1,
            Err(Error::Invalid(violations)) => {
                let first = violations.first().map_or_else(String::new, |first| first.detail.clone());
                self.reject(line, &first);
            }
            Err(error) => return Err(error).with_context(|| format!("line {line}")),
        }
        Ok(())
    }

    async fn finish(mut self) -> anyhow::Result<()> {
        while !self.open.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }

    fn reject(&mut self, line: u64, reason: &str) {
        self.sum.rejected += 1;
        if self.sum.rejected <= SHOWN {
            self.progress.say(&format!("line {line} is refused: {reason}"));
        }
    }
}

/// Registers a record, and repeats the request while the store is not available. Only after a repetition, the record may be committed later than
/// the records after it.
async fn register(
    engine: Engine,
    name: CollectionName,
    id: RecordId,
    row: Row,
    mut position: Position,
) -> Result<Outcome, Error> {
    for _ in 1..TRIES {
        let own = std::mem::take(&mut position);
        match engine.register_in_series(&name, Some(id.clone()), row.clone(), IfDuplicate::Keep, own).await {
            Err(Error::Store(StoreError::Unavailable { .. } | StoreError::Unknown(_))) => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            ended => return ended.map(|registered| registered.outcome),
        }
    }
    engine.register(&name, Some(id), row, IfDuplicate::Keep).await.map(|registered| registered.outcome)
}

/// The lines of an exported file.
pub(super) struct ExportReader {
    name: String,
    reader: BufReader<Box<dyn Read + Send>>,
    /// The number of the last line read.
    line: u64,
}

impl ExportReader {
    pub(super) fn open(name: &str) -> anyhow::Result<Self> {
        let reader: Box<dyn Read + Send> = match name {
            "-" => Box::new(std::io::stdin()),
            name => Box::new(File::open(name).with_context(|| format!("cannot open {name}"))?),
        };
        Ok(Self { name: name.to_owned(), reader: BufReader::with_capacity(1 << 20, reader), line: 0 })
    }

    /// Reads the lines on a thread of their own, because reading from a pipe may wait for ever.
    fn start(mut self) -> ExportLines {
        let name = self.name.clone();
        let (sender, lines) = mpsc::channel(AHEAD);
        std::thread::spawn(move || {
            loop {
                let line = self.next();
                let is_last = !matches!(line, Ok(Some(_)));
                if sender.blocking_send(line).is_err() || is_last {
                    break;
                }
            }
        });
        ExportLines { name, line: 0, lines }
    }

    pub(super) fn next(&mut self) -> anyhow::Result<Option<ExportLine>> {
        let mut bytes = Vec::new();
        let limited = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
        if limited.with_context(|| format!("cannot read {}", self.name))? == 0 {
            return Ok(None);
        }
        self.line += 1;
        // The error of the parser may repeat text of the record, so that only its position is reported.
        let line = serde_json::from_slice(&bytes);
        line.map(Some).map_err(|error: serde_json::Error| {
            anyhow!("{}, line {}, column {}: not the format of doppel export", self.name, self.line, error.column())
        })
    }
}

/// Returns the header of an export, if `first` is a header.
pub(super) fn header_of(first: Option<ExportLine>, name: &str) -> anyhow::Result<ExportHeader> {
    let Some(ExportLine::DoppelExport(header)) = first else {
        bail!("{name} is not a file of doppel export: its first line differs");
    };
    if header.version != VERSION {
        bail!("the file has version {}, this doppel reads version {VERSION}", header.version);
    }
    Ok(*header)
}

/// The lines of an export that is being read.
struct ExportLines {
    name: String,
    /// The number of the last line.
    line: u64,
    lines: mpsc::Receiver<anyhow::Result<Option<ExportLine>>>,
}

impl ExportLines {
    /// Returns the next line, or the end of the export. `None` after a signal.
    async fn next(&mut self, stop: &Shutdown) -> Option<anyhow::Result<Option<ExportLine>>> {
        tokio::select! {
            biased;
            () = stop.reached(Phase::Grace) => None,
            line = self.lines.recv() => {
                self.line += 1;
                Some(line.unwrap_or(Ok(None)))
            }
        }
    }
}

/// Writes a line of the summary.
fn tell(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    writeln!(out, "{}", texts::said(text))
}
