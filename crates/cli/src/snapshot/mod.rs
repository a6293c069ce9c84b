//! `doppel snapshot`: takes snapshots of a running service or of a data directory, and lists, verifies, restores and removes snapshots.
//!
//! A snapshot is kept in a file, or in a directory in which all snapshots share equal chunks.

mod create;
mod keep;
mod pipe;
mod restore;
mod service;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Subcommand;

use self::pipe::PipeReader;
use crate::{load_config, tell, usage};
use doppel_service::shutdown;
use doppel_snapshot::{Repository, Snapshot, SnapshotId, StreamReader};
use doppel_store::snapshot::{SnapshotMoment, SnapshotPiece};

/// Number of bytes of a file that are read at a time.
const READ_AT_ONCE: usize = 1 << 20;
/// Exit code of a command that a signal stopped early.
const STOPPED: u8 = 130;

const EXAMPLES: &str = "\
A snapshot has the complete state at one moment: all changes that doppel acknowledged before it, and no later change. doppel stores
a snapshot in a directory or as one file. The directory stores data that several snapshots share only once. doppel refuses a
snapshot that is incomplete or was changed.

Examples:
  doppel snapshot create --from http://127.0.0.1:8080                        (into the service's own snapshots.dir, and wait)
  doppel snapshot create --from http://127.0.0.1:8080 --out letters.snapshot    (as one file, on this machine)
  doppel snapshot create --from http://127.0.0.1:8080 --out - | ssh backup 'cat > letters.snapshot'
  doppel snapshot create --data ./doppel-data --to /backup/doppel            (of a directory that no service has open)
  doppel snapshot list /backup/doppel
  doppel snapshot verify /backup/doppel
  doppel snapshot restore /backup/doppel --data ./restored                   (the latest; --id takes another)
  doppel snapshot restore letters.snapshot --data ./restored
  doppel snapshot prune /backup/doppel --keep 14

Without a directory, the commands use snapshots.dir of the configuration.
Exit codes: 0 done, 1 the command failed or found damage, 2 wrong usage, 130 stopped by a signal. An unfinished command leaves no files.";

/// Options of `doppel snapshot`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    action: SnapshotAction,
}

#[derive(Clone, Debug, Subcommand)]
enum SnapshotAction {
    /// Take a snapshot of a running service, or of a data directory that no service has open
    Create(create::SnapshotCreateArgs),
    /// List the snapshots of a directory
    List(keep::ListArgs),
    /// Read snapshots back and report damage
    Verify(keep::VerifyArgs),
    /// Make a data directory from a snapshot
    Restore(restore::SnapshotRestoreArgs),
    /// Remove all snapshots of a directory except the latest ones
    Prune(keep::PruneArgs),
}

/// Runs the command.
///
/// # Errors
/// The command cannot be done. The error contains the remedy.
pub fn run(args: SnapshotArgs) -> anyhow::Result<ExitCode> {
    let stopped = match args.action {
        SnapshotAction::Restore(_) => "stopped by a signal; nothing is restored",
        _ => "stopped by a signal",
    };
    let done = match args.action {
        SnapshotAction::Create(args) => create::run(&args),
        SnapshotAction::List(args) => keep::list(&args),
        SnapshotAction::Verify(args) => keep::verify(&args),
        SnapshotAction::Restore(args) => restore::run(&args),
        SnapshotAction::Prune(args) => keep::prune(&args),
    };
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(doppel_snapshot::Error::Stopped)) => {
            tell(stopped);
            Ok(ExitCode::from(STOPPED))
        }
        done => done,
    }
}

/// Returns the directory of the snapshots: that of the command line, otherwise that of the configuration.
fn named(given: Option<&Path>, config: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let dir = load_config(config)?.config.snapshots.dir;
    if dir.as_os_str().is_empty() {
        return Err(usage("name the directory of the snapshots (or set snapshots.dir in the configuration)"));
    }
    Ok(dir)
}

/// A snapshot of any kind.
type AnySnapshot = Box<dyn Snapshot<Item = doppel_snapshot::Result<SnapshotPiece>>>;

/// Opens a snapshot for reading: the snapshot `id` of a directory, its latest one, or a file (`-`: standard input). Reading a pipe fails after
/// `stopped` is set.
fn open(named: &Path, id: Option<&SnapshotId>, stopped: &Arc<AtomicBool>) -> anyhow::Result<AnySnapshot> {
    if named.is_dir() {
        let repository = Repository::open(named)?;
        let id = match id {
            Some(id) => id.clone(),
            None => repository.latest()?,
        };
        return Ok(Box::new(repository.reader(&id)?));
    }
    if id.is_some() {
        return Err(usage(format!("{} is no directory; a file is one snapshot, which needs no --id", named.display())));
    }
    let (input, name): (Box<dyn Read>, _) = match named.to_str() {
        Some("-") => (Box::new(PipeReader::start(|| Ok(std::io::stdin()), stopped)), "standard input".to_owned()),
        _ => (open_file(named, stopped)?, named.display().to_string()),
    };
    Ok(Box::new(StreamReader::new(BufReader::with_capacity(READ_AT_ONCE, input), name)?))
}

fn open_file(named: &Path, stopped: &Arc<AtomicBool>) -> anyhow::Result<Box<dyn Read>> {
    if named.metadata().is_ok_and(|found| !found.is_file()) {
        let pipe = named.to_owned();
        return Ok(Box::new(PipeReader::start(move || File::open(pipe), stopped)));
    }
    let file = File::open(named).with_context(|| format!("cannot read {}", named.display()))?;
    Ok(Box::new(file))
}

/// A snapshot reader that ends when the command is stopped.
struct UntilStopped {
    snapshot: AnySnapshot,
    stopped: Arc<AtomicBool>,
    /// Called for each piece.
    told: Box<dyn FnMut(&SnapshotPiece)>,
}

impl UntilStopped {
    /// Opens a snapshot as [`open`] does. From now on, the first signal stops the command.
    fn open(named: &Path, id: Option<&SnapshotId>, told: Box<dyn FnMut(&SnapshotPiece)>) -> anyhow::Result<Self> {
        let stopped = on_signal()?;
        match open(named, id, &stopped) {
            Err(_) if stopped.load(Ordering::Relaxed) => Err(doppel_snapshot::Error::Stopped.into()),
            opened => Ok(Self { snapshot: opened?, stopped, told }),
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

impl Iterator for UntilStopped {
    type Item = doppel_snapshot::Result<SnapshotPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        // A signal may come before the piece is read or end the wait for it.
        let piece = if self.is_stopped() { None } else { self.snapshot.next() };
        if self.is_stopped() {
            return Some(Err(doppel_snapshot::Error::Stopped));
        }
        if let Some(Ok(piece)) = &piece {
            (self.told)(piece);
        }
        piece
    }
}

impl Snapshot for UntilStopped {
    fn moment(&self) -> &SnapshotMoment {
        self.snapshot.moment()
    }

    fn manifest(&self) -> Option<&doppel_snapshot::Manifest> {
        self.snapshot.manifest()
    }
}

/// Returns a flag that the first signal sets.
fn on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    shutdown::stop_on_signal(Arc::clone(&stopped)).context("waiting for signals")?;
    Ok(stopped)
}

/// Formats a number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
