//! `doppel snapshot restore`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::{UntilStopped, size};
use crate::progress::CommandProgress;
use crate::{tell, usage};
use doppel_config::snapshots::real;
use doppel_config::{self as config, ConfigFlags};
use doppel_snapshot::{Repository, Snapshot as _, SnapshotId};
use doppel_store::keys::KeyRing;
use doppel_store::snapshot::SnapshotPiece;
use doppel_store_embedded as embedded;

/// Options of `doppel snapshot restore`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SnapshotRestoreArgs {
    /// Directory of snapshots, or the file of one snapshot; "-" is standard input [default: snapshots.dir of the configuration]
    #[arg(value_name = "REPOSITORY|FILE")]
    from: Option<PathBuf>,
    /// Id of the snapshot in the directory [default: the latest]
    #[arg(long, value_name = "ID")]
    id: Option<SnapshotId>,
    /// Directory into which the snapshot is restored: empty or missing, afterwards readable by its owner only [default: store.data of the
    /// configuration]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Leave out the keys and accounts that were made while the service ran: every caller with such a key or account needs a new one
    #[arg(long)]
    without_keys: bool,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn run(args: &SnapshotRestoreArgs) -> anyhow::Result<ExitCode> {
    let from = super::named(args.from.as_deref(), args.config.as_deref())?;
    let flags = ConfigFlags { file: args.config.clone(), data: args.data.clone(), ..ConfigFlags::default() };
    let data = config::load(&flags)?.config.store.data;
    refuse_within_another(&data)?;
    let progress = Arc::new(CommandProgress::of_bytes());
    let shown = Arc::clone(&progress);
    let mut bytes = 0;
    let told = Box::new(move |piece: &SnapshotPiece| {
        bytes += piece.entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        shown.told(bytes, format!("restored ({})", piece.space));
    });
    let mut snapshot = UntilStopped::open(&from, args.id.as_ref(), told)?;
    let moment = snapshot.moment().clone();
    let mut keys = KeyRing::default();
    let pieces = snapshot.by_ref().map(|piece| {
        let piece = piece?;
        let found = embedded::key_ring_in(&piece);
        keys.keys.extend(found.keys);
        keys.accounts.extend(found.accounts);
        Ok(if args.without_keys { embedded::without_key_ring(piece) } else { piece })
    });
    embedded::restore::<doppel_snapshot::Error>(&data, &moment, pieces)?;
    progress.finish();
    if let Some(manifest) = snapshot.manifest() {
        tell(&format!(
            "restored {} records of {} collection(s), {}, as of {}, into {}",
            manifest.records(),
            moment.collections.len(),
            size(manifest.content_bytes()),
            manifest.taken_at,
            data.display()
        ));
    }
    say_keys(&keys, args.without_keys);
    Ok(ExitCode::SUCCESS)
}

/// Refuses a target inside a data directory or a repository. The restored files would count as damage there and be lost with it.
fn refuse_within_another(data: &Path) -> anyhow::Result<()> {
    let real = real(data);
    if let Some(around) = real.ancestors().find(|around| Repository::is_in(around)) {
        return Err(not_apart(data, "the directory of snapshots", around));
    }
    // If the path is this directory itself, the check for an empty directory reports it.
    match real.ancestors().skip(1).find(|around| embedded::is_data_directory(around)) {
        Some(around) => Err(not_apart(data, "the data directory", around)),
        None => Ok(()),
    }
}

fn not_apart(data: &Path, what: &str, around: &Path) -> anyhow::Error {
    let data = data.display();
    let around = around.display();
    usage(format!("{data} is in {what} {around}; restore into a directory outside it"))
}

/// Warns that keys and accounts that were revoked or removed after the snapshot are valid again.
fn say_keys(ring: &KeyRing, are_left_out: bool) {
    let accounts = ring.accounts.len();
    match are_left_out {
        _ if accounts == 0 => {}
        true => tell(&format!("left out {accounts} account(s) of people")),
        false => tell(&format!(
            "{accounts} account(s) of people are restored with the roles and passwords of the time of the snapshot; \
                remove the accounts of people who left (doppel account list)"
        )),
    }
    let names: Vec<&str> = ring.keys.iter().map(|key| &*key.name).collect();
    let count = names.len();
    let names = names.join(", ");
    match are_left_out {
        _ if count == 0 => {}
        true => tell(&format!("left out {count} key(s): {names}")),
        false => tell(&format!(
            "{count} key(s) are restored in their state of the time of the snapshot: {names}; revoke again the keys \
                that were revoked since then (doppel keys revoke NAME)"
        )),
    }
}
