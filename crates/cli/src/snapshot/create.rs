//! `doppel snapshot create`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::service::SnapshotClient;
use super::{on_signal, size};
use crate::client::TlsArgs;
use crate::output::CommandOutputs;
use crate::progress::CommandProgress;
use crate::{tell, usage};
use doppel_config::snapshots::is_within;
use doppel_config::{self as config, ConfigFlags, StoreKind};
use doppel_service::snapshots::WRITTEN_BY;
use doppel_snapshot::{Repository, SnapshotLabel, SnapshotProgress, SnapshotSink, StreamWriter, TakenSnapshot, take};
use doppel_store::snapshot::SnapshotReader;
use doppel_store_embedded::read_directory;

/// Interval at which the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Options of `doppel snapshot create`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SnapshotCreateArgs {
    /// The running service; without --out it writes into its own snapshots.dir
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "to"])]
    from: Option<reqwest::Url>,
    /// Data directory that no service has open [default: store.data of the configuration]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory of the snapshots, made if it is missing [default: snapshots.dir of the configuration]
    #[arg(long, value_name = "REPOSITORY", conflicts_with = "out")]
    to: Option<PathBuf>,
    /// Write one file instead; it replaces an earlier file when it is complete; "-" is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// File that holds the key (only for a service that has keys) [default: the environment variable DOPPEL_KEY]
    #[arg(long, value_name = "FILE", requires = "from")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: TlsArgs,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    config: Option<PathBuf>,
}

pub(super) fn run(args: &SnapshotCreateArgs) -> anyhow::Result<ExitCode> {
    match &args.from {
        Some(url) => of_service(args, url),
        None => match args.trust.option() {
            Some(option) => Err(usage(format!("{option} is for a service, named by --from"))),
            None => of_directory(args),
        },
    }
}

fn of_service(args: &SnapshotCreateArgs, url: &reqwest::Url) -> anyhow::Result<ExitCode> {
    let service = SnapshotClient::open(url, args.key_file.as_deref(), &args.trust)?;
    let Some(out) = &args.out else {
        service.take(&CommandProgress::new())?;
        return Ok(ExitCode::SUCCESS);
    };
    let progress = CommandProgress::of_bytes();
    let verified = with_file(out, |file| service.stream(file, &progress))?;
    progress.finish();
    tell(&format!("{} in {} keys and values received, and verified", size(verified.bytes), verified.entries));
    Ok(ExitCode::SUCCESS)
}

fn of_directory(args: &SnapshotCreateArgs) -> anyhow::Result<ExitCode> {
    let flags = ConfigFlags { file: args.config.clone(), data: args.data.clone(), ..ConfigFlags::default() };
    let config = config::load(&flags)?.config;
    if args.data.is_none() && config.store.kind == StoreKind::Mongodb {
        return Err(usage(
            "records in MongoDB are backed up by MongoDB's own means; docs/mongodb.md says how, under Backup",
        ));
    }
    let data = &config.store.data;
    let Some(out) = &args.out else {
        let to = super::named(args.to.as_deref(), args.config.as_deref())?;
        if is_within(&to, data) {
            return Err(usage(format!(
                "{} is in {}, and would be lost with it; name another",
                to.display(),
                data.display()
            )));
        }
        // The directory is opened before anything is created.
        let mut reader = opened(data)?;
        let repository = Repository::open_or_create(&to)?;
        return taken(&directory(&mut *reader, &mut repository.writer()?)?);
    };
    let mut reader = opened(data)?;
    with_file(out, |file| {
        let mut writer = StreamWriter::new(file, out.display().to_string());
        taken(&directory(&mut *reader, &mut writer)?)
    })
}

fn opened(data: &Path) -> anyhow::Result<Box<dyn SnapshotReader>> {
    read_directory(data).map_err(|error| match data.is_dir() {
        true => anyhow::Error::new(error)
            .context("a service has this directory open, and must take the snapshot itself: give --from URL"),
        false => error.into(),
    })
}

/// Takes a snapshot of a data directory.
fn directory(reader: &mut dyn SnapshotReader, sink: &mut dyn SnapshotSink) -> anyhow::Result<TakenSnapshot> {
    let stopped = on_signal()?;
    let label = SnapshotLabel { taken_at: doppel_service::clock::now(), written_by: WRITTEN_BY.into() };
    let progress = SnapshotProgress::default();
    let bar = CommandProgress::of_bytes();
    let ended = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if stopped.load(Ordering::Relaxed) {
                    progress.stop();
                }
                bar.told(progress.bytes(), format!("read, {} written", size(progress.new_bytes())));
                std::thread::sleep(SHOW_EVERY);
            }
        });
        let taken = take(reader, sink, label, &progress);
        ended.store(true, Ordering::Relaxed);
        taken
    });
    bar.finish();
    Ok(taken?)
}

fn taken(taken: &TakenSnapshot) -> anyhow::Result<ExitCode> {
    let manifest = &taken.manifest;
    tell(&format!(
        "snapshot {}: {} records, {} of content, {} written",
        manifest.id,
        manifest.records(),
        size(manifest.content_bytes()),
        size(taken.new_bytes)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Creates a file, which gets its name after `work` has written it; or writes to standard output.
fn with_file<T>(out: &Path, work: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>) -> anyhow::Result<T> {
    if out.as_os_str() == "-" {
        return work(&mut std::io::stdout().lock());
    }
    let outputs = CommandOutputs::new();
    outputs.abandon_on_signal()?;
    let mut file = outputs.create(out)?;
    let done = work(&mut file)?;
    file.finish()?;
    Ok(done)
}
