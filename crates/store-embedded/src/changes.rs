//! The change feed: the records by their seqs, and the logged changes (see `keys`).

use std::sync::Arc;

use async_trait::async_trait;
use fjall::Snapshot;

use super::collection::Collection;
use super::disk::Disk;
use super::free_space::SpaceReserve;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::layout;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_store::changes::{ChangeFeed, ChangePage, LoggedChange};
use doppel_store::rules::feed;
use doppel_store::{CollectionNumber, Result, Seq};

/// Number of logged changes that are deleted in one batch: about a hundred kilobytes of journal.
const FORGOTTEN_PER_BATCH: usize = 2_000;

/// Returns the highest change that was deleted from the log.
fn forgotten(disk: &Disk, view: &Snapshot, number: CollectionNumber) -> Result<Seq> {
    let stored = disk.get(view, Space::Meta, &keys::forgotten_key(number))?;
    stored.map_or(Ok(Seq(0)), |bytes| layout::decode_seq(&bytes))
}

/// Returns the number of the last published change.
fn last(disk: &Disk, view: &Snapshot, number: CollectionNumber) -> Result<Seq> {
    let stored = last_seq(disk, view, Space::Records, &number.0.to_be_bytes())?;
    let logged = last_seq(disk, view, Space::Meta, &keys::changes_prefix(number))?;
    Ok(stored.max(logged).max(forgotten(disk, view, number)?))
}

/// Returns the seq in the last key that begins with `prefix`; 0 if there is none.
fn last_seq(disk: &Disk, view: &Snapshot, space: Space, prefix: &[u8]) -> Result<Seq> {
    let key = disk.last_key(view, space, prefix)?;
    key.map_or(Ok(Seq(0)), |key| layout::seq_of_key(&key))
}

impl SharedState {
    fn changes(&self, collection: &Collection, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage> {
        let view = self.disk.view();
        let (logged, last) = self.logged_after(&view, collection, name, after, limit)?;
        let records = self.records_in(&view, collection, after, limit)?;
        let updated = self.records_at_in(&view, collection, &feed::updated(&logged))?;
        Ok(feed::page(after, last, limit, records, logged, updated))
    }

    /// Reads at most `limit` logged changes with numbers above `after`, and the number of the last change.
    fn logged_after(
        &self,
        view: &Arc<Snapshot>,
        collection: &Collection,
        name: &CollectionName,
        after: Seq,
        limit: usize,
    ) -> Result<(Vec<LoggedChange>, Seq)> {
        let number = collection.number;
        let last = last(&self.disk, view, number)?;
        feed::check_after(name, after, forgotten(&self.disk, view, number)?, last)?;
        let logged = self.logged(view, number, after, Seq::MAX).take(limit).collect::<Result<_>>()?;
        Ok((logged, last))
    }

    /// Reads the logged changes with numbers above `after` and below `end`.
    fn logged(
        &self,
        view: &Arc<Snapshot>,
        number: CollectionNumber,
        after: Seq,
        end: Seq,
    ) -> impl Iterator<Item = Result<LoggedChange>> {
        let from = keys::change_key(number, after.next());
        let to = keys::change_key(number, end);
        let entries = self.disk.range(view, Space::Meta, &from, &to);
        entries.map(|entry| entry.and_then(|(key, value)| keys::decode_change(&key, &value)))
    }

    /// Returns the operations that delete the lowest logged changes below `end`; none if there are no such changes.
    fn forgetting(&self, number: CollectionNumber, end: Seq) -> Result<Vec<WriteOp>> {
        let view = self.disk.view();
        let numbers = self.logged(&view, number, Seq(0), end).map(|change| change.map(|change| change.number));
        let gone = numbers.take(FORGOTTEN_PER_BATCH).collect::<Result<Vec<_>>>()?;
        let Some(highest) = gone.last() else { return Ok(Vec::new()) };
        let noted = WriteOp::Put(Space::Meta, keys::forgotten_key(number), highest.0.to_le_bytes().to_vec());
        let deletes = gone.iter().map(|change| WriteOp::Delete(Space::Meta, keys::change_key(number, *change)));
        Ok(deletes.chain([noted]).collect())
    }
}

#[async_trait]
impl ChangeFeed for EmbeddedStore {
    async fn changes(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        blocking(|| shared.changes(&collection, name, after, limit))
    }

    async fn logged(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<(Vec<LoggedChange>, Seq)> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        let (logged, last) = blocking(|| shared.logged_after(&shared.disk.view(), &collection, name, after, limit))?;
        let next = feed::after_logged(&logged, limit, last);
        Ok((logged, next))
    }

    async fn last_change(&self, name: &CollectionName) -> Result<Seq> {
        let shared = self.shared()?;
        last(&shared.disk, &shared.disk.view(), shared.collection(name)?.number)
    }

    async fn changed(&self, name: &CollectionName, after: Seq) -> Result<()> {
        let mut published = {
            let shared = self.shared()?;
            let collection = shared.collection(name)?;
            let published = collection.published.subscribe();
            if last(&shared.disk, &shared.disk.view(), collection.number)? > after {
                return Ok(());
            }
            published
        };
        // If the store is closed or opened again meanwhile, the next read returns an error.
        let _ = published.wait_for(|number| *number > after).await;
        Ok(())
    }

    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()> {
        loop {
            let shared = self.writable(SpaceReserve::Last)?;
            let number = shared.collection(name)?.number;
            let end = last(&shared.disk, &shared.disk.view(), number)?.before(keep).next();
            let ops = blocking(|| shared.forgetting(number, end))?;
            if ops.is_empty() {
                return Ok(());
            }
            let answer = shared.send_unordered(ops, Box::new(|| {}));
            drop(shared);
            self.answered(answer).await?;
        }
    }
}
