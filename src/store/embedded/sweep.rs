//! Deletes the key ranges of dropped collections, in bounded batches beside the service's own writes.
//!
//! Dropping writes a tombstone and removes the name in one batch: from then on nobody sees the collection. What a crash
//! leaves is swept at the next opening; the tombstone goes last. Collection numbers are never used twice, so a new
//! collection of the same name never meets the old one's keys.

use std::sync::Arc;

use crossbeam_channel::Sender;
use tokio::sync::oneshot;

use super::core::Core;
use super::disk::{Disk, Op, Space};
use super::layout;
use super::writer::{Arrival, gone};
use crate::store::{Result, StoreError};

/// Keys deleted in one batch: some 50 KB of journal, a fraction of a millisecond beside its sync.
const KEYS_PER_BATCH: usize = 2_000;

/// Sweeps what the last run left. In the background: nobody waits for it.
pub(super) fn finish_drops(core: &Core) -> Result<()> {
    let view = core.disk.view();
    for entry in core.disk.prefix(&view, Space::Meta, layout::PREFIX_TOMBSTONE) {
        let (key, _) = entry?;
        let number = key.get(2..6).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        if let Some(number) = number {
            start(Arc::clone(&core.disk), core.writer.clone(), number)?;
        }
    }
    Ok(())
}

/// Starts sweeping collection `number`.
pub(super) fn start(disk: Arc<Disk>, writer: Sender<Arrival>, number: u32) -> Result<()> {
    let sweep = move || {
        // What fails or stops here goes on at the next opening.
        if let Err(error) = sweep(&disk, &writer, number) {
            tracing::warn!(%error, "a dropped collection is not swept yet; the next start continues");
        }
    };
    let thread = std::thread::Builder::new().name("store-sweep".into()).spawn(sweep);
    thread.map(drop).map_err(|error| StoreError::Internal(format!("the sweeping thread cannot be started: {error}")))
}

fn sweep(disk: &Disk, writer: &Sender<Arrival>, number: u32) -> Result<()> {
    let prefix = number.to_be_bytes();
    for space in [Space::Signatures, Space::Ids, Space::Records] {
        loop {
            if disk.is_stopping() {
                return Ok(());
            }
            let view = disk.view();
            let keys = disk.prefix(&view, space, &prefix).take(KEYS_PER_BATCH);
            let ops: Vec<Op> = keys.map(|entry| Ok(Op::Delete(space, entry?.0.to_vec()))).collect::<Result<_>>()?;
            if ops.is_empty() {
                break;
            }
            write(writer, ops)?;
        }
    }
    let last = [layout::numbers_key(number), layout::tombstone_key(number)];
    write(writer, last.map(|key| Op::Delete(Space::Meta, key)).into())
}

fn write(writer: &Sender<Arrival>, ops: Vec<Op>) -> Result<()> {
    super::point("store::sweep");
    let (reply, answer) = oneshot::channel();
    writer.send(Arrival::Apart { ops, then: Box::new(|| {}), reply }).map_err(|_| gone())?;
    answer.blocking_recv().map_err(|_| gone())?.map(drop)
}
