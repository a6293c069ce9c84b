//! `doppel export`: writes a collection to a file with constant memory.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::value::RawValue;

use super::{DecisionLine, ExportEnd, ExportHeader, ExportLine, HandlingLine, RecordLine, VERSION, open, progress_of};
use crate::output::{CommandOutputs, OutputFile};
use crate::{load_config, start_threads, tell};
use doppel_core::collection::CollectionName;
use doppel_core::schemes::frequencies::Frequencies;
use doppel_engine::events::handling::handlings_after;
use doppel_store::{Seq, Store, StoredRecord};
use doppel_store_embedded::Opening;

/// Number of records and decisions that are read at a time.
const PAGE: usize = 100;

const EXAMPLES: &str = "\
The file has one JSON object a line: settings, decisions with their history, records in the order of their registration, and an end.
Import the file with: doppel import --exported --to DIR|mongodb --collection C FILE

An import restores: settings, rows byte for byte, ids, order, decisions, the handling of events. Similar records, checks and groups are the
same afterwards. The file also has verdicts, sequence numbers and times of storing, for people who read it; an import makes new ones.
A change during the export may be missing in the file; to move a collection for good, stop writing first.

Examples:
  doppel export --from ./doppel-data --collection letters letters.jsonl      (while no service runs on the directory)
  DOPPEL_STORE__URI=mongodb://… doppel export --from mongodb --collection letters letters.jsonl
  doppel export --from ./doppel-data --collection letters - | gzip > letters.jsonl.gz

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by a signal. The command replaces FILE when the new file is complete. After a
failure or a signal it removes the incomplete file. On standard output, an incomplete export has no end line.";

/// Options of `doppel export`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Store of the collection: a data directory that no service has open, or "mongodb" for the database of the configuration
    #[arg(long, value_name = "DIR|mongodb")]
    from: String,
    /// Collection to write
    #[arg(long, value_name = "C", value_parser = CollectionName::new)]
    collection: CollectionName,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File to write, replaced when it is complete; "-" is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The store cannot be opened or does not contain the collection, or the file cannot be written.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_config(args.config.as_deref())?;
    if args.from != super::MONGODB && !args.from.contains("://") && !Path::new(&args.from).is_dir() {
        bail!("{} is no data directory", args.from);
    }
    let mut file = output(&args, loaded.file.as_deref())?;
    let done = start_threads()?.block_on(async {
        let store = open(&args.from, Opening::Existing, loaded.config.store).await?;
        let done = match &mut file {
            Some(file) => write(&store, &args.collection, file).await,
            None => write(&store, &args.collection, std::io::stdout()).await,
        };
        let closed = store.close().await;
        done.and_then(|done| Ok(closed.map(|()| done)?))
    })?;
    file.map_or(Ok(()), OutputFile::finish)?;
    tell(&format!("{} records and {} decisions exported", done.records, done.decisions));
    Ok(ExitCode::SUCCESS)
}

/// Creates the output file, which must not be in the directory that is read; `None` for standard output.
fn output(args: &ExportArgs, config: Option<&Path>) -> anyhow::Result<Option<OutputFile>> {
    let outputs = CommandOutputs::new();
    config.into_iter().for_each(|file| outputs.reads(file));
    if args.from != super::MONGODB {
        outputs.uses(Path::new(&args.from));
    }
    outputs.abandon_on_signal()?;
    (args.file.as_os_str() != "-").then(|| outputs.create(&args.file)).transpose()
}

/// Writes a whole collection to a file and completes the file.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub(crate) async fn to_file(
    store: &Arc<dyn Store>,
    name: &CollectionName,
    mut file: OutputFile,
) -> anyhow::Result<ExportEnd> {
    let done = write(store, name, &mut file).await?;
    file.finish()?;
    Ok(done)
}

/// Returns the number of records whose document frequencies a collection uses, if it uses any.
async fn counted(store: &dyn Store, name: &CollectionName, version: u32) -> anyhow::Result<Option<u64>> {
    let encoded = store.frequencies(name, version).await?;
    Ok(encoded.and_then(|encoded| Frequencies::decode(version, &encoded)).map(|frequencies| frequencies.records()))
}

/// Writes a whole collection.
async fn write(store: &Arc<dyn Store>, name: &CollectionName, out: impl Write) -> anyhow::Result<ExportEnd> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let Some(state) = store.collection(name).await? else { bail!("there is no collection {name}") };
    if !state.settings.keeps_text() {
        bail!(
            "collection {name} keeps no text (\"keep\": \"signatures\"), so that nothing of it could be imported; take a snapshot"
        );
    }
    let header = ExportHeader {
        version: VERSION,
        collection: name.clone(),
        settings: state.settings.clone(),
        records: store.count(name).await?,
        counted: counted(store.as_ref(), name, state.frequencies).await?,
        exported_at: doppel_service::clock::now(),
    };
    let progress = progress_of(header.records);
    put(&mut out, &ExportLine::DoppelExport(Box::new(header)))?;
    let mut done = ExportEnd::default();
    let mut after = None;
    loop {
        let decisions = store.decisions(name, after.as_ref(), PAGE).await?;
        let Some(last) = decisions.last() else { break };
        after = Some(last.pair.clone());
        for decision in decisions {
            let a = decision.pair.a().clone();
            let b = decision.pair.b().clone();
            put(&mut out, &ExportLine::Decision(DecisionLine { a, b, rulings: decision.rulings }))?;
            done.decisions += 1;
        }
    }
    let mut after = None;
    loop {
        let handlings = handlings_after(store.as_ref(), name, after.as_ref(), PAGE).await?;
        let Some((last, _)) = handlings.last() else { break };
        after = Some(last.clone());
        for (event, handling) in handlings {
            put(&mut out, &ExportLine::Handling(HandlingLine { event, handling }))?;
            done.handlings += 1;
        }
    }
    let mut after = Seq(0);
    loop {
        let records = store.records(name, after, PAGE).await?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in records {
            put(&mut out, &ExportLine::Record(Box::new(line_of(record)?)))?;
            done.records += 1;
        }
        progress.at(done.records);
    }
    progress.finish();
    put(&mut out, &ExportLine::End(done))?;
    out.flush().context("cannot write the file")?;
    Ok(done)
}

fn line_of(record: StoredRecord) -> anyhow::Result<RecordLine> {
    let StoredRecord { id, seq, content, verdict, stored_at, digest: _, digest_generation: _, duplicate_of_seq: _ } =
        record;
    let row = content.row().with_context(|| format!("record {id} has no text that could be imported again"))?;
    let row = RawValue::from_string(row.as_ref().to_owned());
    let row = row.with_context(|| format!("the row of record {id} is damaged; run doppel doctor"))?;
    Ok(RecordLine { id, row, seq, stored_at, verdict: Some(verdict) })
}

fn put(out: &mut impl Write, line: &ExportLine) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line).context("cannot write the file")?;
    out.write_all(b"\n").context("cannot write the file")
}
