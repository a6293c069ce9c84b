//! Deletes the key ranges of dropped collections and generations in the background, in bounded batches between other writes.
//!
//! Dropping writes a tombstone and removes the name in one batch: from then on, no reader sees the collection. The tombstone is deleted
//! last. If a tombstone exists at the next opening, the deletion continues. Numbers of collections and of generations are never used twice,
//! so that a new collection of the same name shares no key with the old collection.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::disk::Disk;
use super::errors::gone;
use super::failpoints::point;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::layout;
use super::pipeline::{Barrier, CommitterMessage, PipelineChange};
use doppel_store::{CollectionNumber, GenerationId, Result, StoreError};

/// Number of keys that are deleted in one batch: some 50 KB of journal, a fraction of a millisecond in addition to the sync.
const KEYS_PER_BATCH: usize = 2_000;

/// A dropped collection or generation, by its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum DroppedKeys {
    Collection(CollectionNumber),
    Generation(CollectionNumber, GenerationId),
}

impl DroppedKeys {
    /// Returns the keyspaces and the prefixes of the keys to be deleted.
    fn ranges(self) -> Vec<(Space, Vec<u8>)> {
        match self {
            Self::Collection(number) => {
                let own = [Space::Signatures, Space::Pairs, Space::Decisions, Space::Ids, Space::Records];
                let own = own.map(|space| (space, number.0.to_be_bytes().to_vec()));
                own.into_iter().chain(keys::meta_prefixes(number).map(|prefix| (Space::Meta, prefix))).collect()
            }
            Self::Generation(number, generation) => {
                let prefix = keys::generation_prefix(number, generation).to_vec();
                vec![(Space::Signatures, prefix.clone()), (Space::Pairs, prefix)]
            }
        }
    }

    /// Returns the keys that are deleted last.
    fn last(self) -> Vec<Vec<u8>> {
        match self {
            Self::Collection(number) => vec![layout::numbers_key(number), layout::tombstone_key(number)],
            Self::Generation(number, generation) => {
                vec![keys::statistics_key(number, generation), keys::generation_tombstone_key(number, generation)]
            }
        }
    }
}

/// Continues interrupted deletions in the background.
pub(super) fn finish_drops(disk: &Arc<Disk>, committer: &Sender<CommitterMessage>) -> Result<()> {
    let view = disk.view();
    for entry in disk.prefix(&view, Space::Meta, layout::PREFIX_TOMBSTONE) {
        let (key, _) = entry?;
        let number =
            key.get(2..6).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes).map(CollectionNumber);
        if let Some(number) = number {
            start(Arc::clone(disk), committer.clone(), DroppedKeys::Collection(number))?;
        }
    }
    for entry in disk.prefix(&view, Space::Meta, keys::PREFIX_GENERATION_TOMBSTONE) {
        if let Some((number, generation)) = keys::of_tombstone(&entry?.0) {
            start(Arc::clone(disk), committer.clone(), DroppedKeys::Generation(number, generation))?;
        }
    }
    Ok(())
}

/// Starts the deletion in the background. If no thread can be started, the next opening continues.
pub(super) fn begin(disk: &Arc<Disk>, committer: &Sender<CommitterMessage>, swept: DroppedKeys) {
    if let Err(error) = start(Arc::clone(disk), committer.clone(), swept) {
        tracing::warn!(%error, ?swept, "dropped keys are not deleted yet; the next start continues");
    }
}

fn start(disk: Arc<Disk>, committer: Sender<CommitterMessage>, swept: DroppedKeys) -> Result<()> {
    let builder = std::thread::Builder::new().name("store-sweep".into());
    let thread = builder.spawn(move || {
        // After an error, the next opening continues.
        if let Err(error) = sweep(&disk, &committer, swept) {
            tracing::warn!(%error, ?swept, "dropped keys are not deleted yet; the next start continues");
        }
    });
    thread
        .map(drop)
        .map_err(|error| StoreError::Internal(format!("the thread for deletions cannot be started: {error}")))
}

fn sweep(disk: &Disk, committer: &Sender<CommitterMessage>, swept: DroppedKeys) -> Result<()> {
    for (space, first) in swept.ranges() {
        let end = behind(&first);
        let mut from = first;
        loop {
            if disk.is_stopping() {
                return Ok(());
            }
            let view = disk.view();
            let entries = disk.range(&view, space, &from, &end).take(KEYS_PER_BATCH);
            let found: Vec<Vec<u8>> = entries.map(|entry| Ok(entry?.0.to_vec())).collect::<Result<_>>()?;
            // The next range begins behind the last key, because a scan from the start would pass all deleted keys.
            let Some(last) = found.last() else { break };
            from = [last, &[0][..]].concat();
            write(committer, found.into_iter().map(|key| WriteOp::Delete(space, key)).collect())?;
        }
    }
    write(committer, swept.last().into_iter().map(|key| WriteOp::Delete(Space::Meta, key)).collect())
}

/// Returns the first key behind all keys that begin with `prefix`. `prefix` does not consist of 0xFF only.
fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

fn write(committer: &Sender<CommitterMessage>, ops: Vec<WriteOp>) -> Result<()> {
    point("store::sweep");
    let (barrier, answer) = Barrier::new(ops, Box::new(|| {}));
    committer.send(CommitterMessage::Unordered(PipelineChange::Barrier(barrier))).map_err(|_| gone())?;
    answer.blocking_recv().map_err(|_| gone())?.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedOptions;
    use crate::options::FRESH;
    use crate::pipeline::ChangeAnswer;
    use doppel_store::Seq;

    #[test]
    fn all_keys_of_the_collection_are_deleted_and_no_others() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk =
            Arc::new(Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens"));
        let seqs = 0..2 * KEYS_PER_BATCH as u64 + 10;
        let mut ops = Vec::new();
        for number in [6, 7, 8].map(CollectionNumber) {
            ops.extend(
                seqs.clone()
                    .map(|seq| WriteOp::Put(Space::Records, layout::record_key(number, Seq(seq)).to_vec(), vec![0; 8])),
            );
        }
        disk.commit(ops).expect("a commit");
        disk.publish();
        let (sender, messages) = crossbeam_channel::unbounded();
        let committer = std::thread::spawn({
            let disk = Arc::clone(&disk);
            move || {
                for message in messages {
                    let CommitterMessage::Unordered(PipelineChange::Barrier(Barrier { ops, reply, .. })) = message
                    else {
                        panic!("the deletion has no position")
                    };
                    disk.commit(ops).expect("a commit");
                    disk.publish();
                    reply.send(Ok(ChangeAnswer::Done)).expect("the deletion waits");
                }
            }
        });
        sweep(&disk, &sender, DroppedKeys::Collection(CollectionNumber(7))).expect("a deletion");
        drop(sender);
        committer.join().expect("no panic");
        let view = disk.view();
        let left = [6, 7, 8_u32].map(|number| disk.prefix(&view, Space::Records, &number.to_be_bytes()).count() as u64);
        assert_eq!(left, [seqs.end, 0, seqs.end]);
    }
}
