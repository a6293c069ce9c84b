//! Deletes the key ranges of dropped collections and generations in the background, in bounded batches between other writes.
//!
//! Dropping writes a tombstone and removes the name in one batch: from then on nobody sees the collection. The tombstone is deleted
//! last; where there is one at the next opening, sweeping continues. Numbers of collections and of generations are never used
//! twice, so a new collection of the same name shares no key with the old one.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::disk::Disk;
use super::errors::gone;
use super::failpoints::point;
use super::keys;
use super::keyspaces::{Op, Space};
use super::layout;
use super::pipeline::{Barrier, Change, Message};
use doppel_store::{CollectionNumber, GenerationId, Result, StoreError};

/// Keys deleted in one batch: some 50 KB of journal, a fraction of a millisecond besides its sync.
const KEYS_PER_BATCH: usize = 2_000;

/// What is dropped, by its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Swept {
    Collection(CollectionNumber),
    Generation(CollectionNumber, GenerationId),
}

impl Swept {
    /// Where its keys are.
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

    /// The keys to delete last.
    fn last(self) -> Vec<Vec<u8>> {
        match self {
            Self::Collection(number) => vec![layout::numbers_key(number), layout::tombstone_key(number)],
            Self::Generation(number, generation) => {
                vec![keys::statistics_key(number, generation), keys::generation_tombstone_key(number, generation)]
            }
        }
    }
}

/// Sweeps in the background what the last run left.
pub(super) fn finish_drops(disk: &Arc<Disk>, committer: &Sender<Message>) -> Result<()> {
    let view = disk.view();
    for entry in disk.prefix(&view, Space::Meta, layout::PREFIX_TOMBSTONE) {
        let (key, _) = entry?;
        let number =
            key.get(2..6).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes).map(CollectionNumber);
        if let Some(number) = number {
            start(Arc::clone(disk), committer.clone(), Swept::Collection(number))?;
        }
    }
    for entry in disk.prefix(&view, Space::Meta, keys::PREFIX_GENERATION_TOMBSTONE) {
        if let Some((number, generation)) = keys::of_tombstone(&entry?.0) {
            start(Arc::clone(disk), committer.clone(), Swept::Generation(number, generation))?;
        }
    }
    Ok(())
}

/// Starts sweeping, if there is a thread for it.
pub(super) fn begin(disk: &Arc<Disk>, committer: &Sender<Message>, swept: Swept) {
    if let Err(error) = start(Arc::clone(disk), committer.clone(), swept) {
        tracing::warn!(%error, ?swept, "what was dropped is not swept yet; the next start continues");
    }
}

fn start(disk: Arc<Disk>, committer: Sender<Message>, swept: Swept) -> Result<()> {
    let sweep = move || {
        // What fails or stops here is continued at the next opening.
        if let Err(error) = sweep(&disk, &committer, swept) {
            tracing::warn!(%error, ?swept, "what was dropped is not swept yet; the next start continues");
        }
    };
    let thread = std::thread::Builder::new().name("store-sweep".into()).spawn(sweep);
    thread.map(drop).map_err(|error| StoreError::Internal(format!("the sweeping thread cannot be started: {error}")))
}

fn sweep(disk: &Disk, committer: &Sender<Message>, swept: Swept) -> Result<()> {
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
            // Behind the last one: a scan from the start would go over all that is deleted already.
            let Some(last) = found.last() else { break };
            from = [last, &[0][..]].concat();
            write(committer, found.into_iter().map(|key| Op::Delete(space, key)).collect())?;
        }
    }
    write(committer, swept.last().into_iter().map(|key| Op::Delete(Space::Meta, key)).collect())
}

/// The first key behind all that begin with `prefix`, which is not all ones.
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

fn write(committer: &Sender<Message>, ops: Vec<Op>) -> Result<()> {
    point("store::sweep");
    let (barrier, answer) = Barrier::new(ops, Box::new(|| {}));
    committer.send(Message::Unordered(Change::Barrier(barrier))).map_err(|_| gone())?;
    answer.blocking_recv().map_err(|_| gone())?.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedOptions;
    use crate::options::FRESH;
    use crate::pipeline::Answer;
    use doppel_store::Seq;

    #[test]
    fn every_key_of_the_collection_goes_and_none_of_another() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk =
            Arc::new(Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens"));
        let seqs = 0..2 * KEYS_PER_BATCH as u64 + 10;
        let put =
            |number| move |seq| Op::Put(Space::Records, layout::record_key(number, Seq(seq)).to_vec(), vec![0; 8]);
        disk.commit(
            [6, 7, 8].map(CollectionNumber).into_iter().flat_map(|number| seqs.clone().map(put(number))).collect(),
        )
        .expect("a commit");
        disk.publish();
        let (sender, messages) = crossbeam_channel::unbounded();
        let committer = std::thread::spawn({
            let disk = Arc::clone(&disk);
            move || {
                for message in messages {
                    let Message::Unordered(Change::Barrier(Barrier { ops, reply, .. })) = message else {
                        panic!("a sweep has no position")
                    };
                    disk.commit(ops).expect("a commit");
                    disk.publish();
                    reply.send(Ok(Answer::Done)).expect("the sweep waits");
                }
            }
        });
        sweep(&disk, &sender, Swept::Collection(CollectionNumber(7))).expect("a sweep");
        drop(sender);
        committer.join().expect("no panic");
        let view = disk.view();
        let left =
            |number: CollectionNumber| disk.prefix(&view, Space::Records, &number.0.to_be_bytes()).count() as u64;
        assert_eq!([6, 7, 8].map(CollectionNumber).map(left), [seqs.end, 0, seqs.end]);
    }
}
