//! `doppel snapshot list`, `verify` and `prune`: list, verify and remove snapshots.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{UntilStopped, named, size};
use crate::progress::CommandProgress;
use crate::table::{numbers, table, words};
use crate::{answer, tell};
use doppel_snapshot::{ListedSnapshot, Repository, Snapshot as _, SnapshotId, verify as read, verify_all};
use doppel_store_embedded::RestoreCheck;
use doppel_texts as texts;

/// Options of `doppel snapshot list`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Directory of the snapshots [default: snapshots.dir of the configuration]
    #[arg(value_name = "REPOSITORY")]
    dir: Option<PathBuf>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Options of `doppel snapshot verify`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct VerifyArgs {
    /// Directory of snapshots, or the file of one snapshot; "-" is standard input [default: snapshots.dir of the configuration]
    #[arg(value_name = "REPOSITORY|FILE")]
    from: Option<PathBuf>,
    /// Id of the only snapshot to read [default: all]
    #[arg(long, value_name = "ID")]
    id: Option<SnapshotId>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Options of `doppel snapshot prune`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct PruneArgs {
    /// Directory of the snapshots [default: snapshots.dir of the configuration]
    #[arg(value_name = "REPOSITORY")]
    dir: Option<PathBuf>,
    /// Number of snapshots to keep, the latest ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let listed = Repository::open(&named(args.dir.as_deref(), args.config.as_deref())?)?.list()?;
    let columns = [
        words("snapshot"),
        numbers("records"),
        numbers("collections"),
        numbers("content"),
        numbers("stored"),
        words("by"),
    ];
    answer(&table(&columns, listed.iter().map(row)))?;
    let is_damaged = listed.iter().any(|listed| listed.manifest.is_err());
    Ok(if is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the row of a snapshot. Reports a damaged snapshot.
fn row(listed: &ListedSnapshot) -> Vec<String> {
    let id = listed.id.to_string();
    match &listed.manifest {
        Ok(manifest) => vec![
            id,
            manifest.records().to_string(),
            manifest.store.collections.len().to_string(),
            size(manifest.content_bytes()),
            size(manifest.stored_bytes()),
            manifest.written_by.clone(),
        ],
        Err(error) => {
            tell(&format!("doppel: {error}"));
            vec![id, "damaged".into()]
        }
    }
}

pub(super) fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let from = named(args.from.as_deref(), args.config.as_deref())?;
    if !from.is_dir() || args.id.is_some() {
        let snapshot = UntilStopped::open(&from, args.id.as_ref(), Box::new(|_| {}))?;
        let mut check = RestoreCheck::new(snapshot.moment())?;
        let verified = read(snapshot, &mut |piece| Ok(check.piece(piece)?))?;
        check.end()?;
        let whole = format!("whole: {} keys and values, {}\n", verified.entries, size(verified.bytes));
        return answer(&texts::said(&whole));
    }
    let progress = CommandProgress::of_bytes();
    let repository = Repository::open(&from)?;
    let verified = verify_all(&repository, &mut |bytes| progress.told(bytes, "read".into()))?;
    let verified: Vec<_> = verified
        .into_iter()
        .map(|(id, verified)| {
            let verified = verified.and_then(|verified| check_structure(&repository, &id).map(|()| verified));
            (id, verified)
        })
        .collect();
    progress.finish();
    let mut damaged = 0;
    for (id, verified) in &verified {
        let line = match verified {
            Ok(verified) => format!("{id}: whole, {} keys and values, {}\n", verified.entries, size(verified.bytes)),
            Err(error) => {
                damaged += 1;
                format!("{id}: {error}\n")
            }
        };
        answer(&texts::said(&line))?;
    }
    tell(&format!("{} snapshots, {damaged} damaged", verified.len()));
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that a store can be made from a snapshot whose chunks are complete. The function does not read all chunks again, only the keyspace with
/// the format of the store.
fn check_structure(repository: &Repository, id: &SnapshotId) -> doppel_snapshot::Result<()> {
    let manifest = repository.manifest(id)?;
    let mut check = RestoreCheck::new(&manifest.store)?;
    for piece in repository.reader(id)? {
        let piece = piece?;
        if piece.space != RestoreCheck::FORMAT_SPACE {
            break;
        }
        check.piece(&piece)?;
    }
    let others = manifest.spaces.iter().map(|space| space.name.as_str());
    // A keyspace that occurs twice would have its keys in two orders.
    let mut names = std::collections::BTreeSet::new();
    for name in others {
        if !names.insert(name) {
            return Err(doppel_snapshot::Error::Refused(format!("the snapshot {id} has the keyspace {name:?} twice")));
        }
        check.space(name)?;
    }
    Ok(check.end()?)
}

pub(super) fn prune(args: &PruneArgs) -> anyhow::Result<ExitCode> {
    let repository = Repository::open(&named(args.dir.as_deref(), args.config.as_deref())?)?;
    let pruned = repository.prune(args.keep as usize)?;
    for id in &pruned.snapshots {
        answer(&format!("{id}\n"))?;
    }
    tell(&format!("{} snapshots removed, {} freed", pruned.snapshots.len(), size(pruned.bytes)));
    Ok(ExitCode::SUCCESS)
}
