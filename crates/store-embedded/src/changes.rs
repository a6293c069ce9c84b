//! The change feed: records by their seqs, and what is logged beside them, see `keys`.

use std::sync::Arc;

use async_trait::async_trait;
use fjall::Snapshot;

use super::collection::Collection;
use super::disk::Disk;
use super::free_space::Reserve;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Op, Space};
use super::layout;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_core::collection::CollectionName;
use doppel_store::changes::{ChangePage, Changes, LoggedChange};
use doppel_store::rules::feed;
use doppel_store::{CollectionNumber, Result, Seq};

/// Logged changes that are forgotten in one batch: about a hundred kilobytes of journal.
const FORGOTTEN_PER_BATCH: usize = 2_000;

/// The highest change that is not logged any more.
fn forgotten(disk: &Disk, view: &Snapshot, number: CollectionNumber) -> Result<Seq> {
    let stored = disk.get(view, Space::Meta, &keys::forgotten_key(number))?;
    stored.map_or(Ok(Seq(0)), |bytes| layout::decode_seq(&bytes))
}

/// The number of the last published change.
fn last(disk: &Disk, view: &Snapshot, number: CollectionNumber) -> Result<Seq> {
    let last = |space, prefix: &[u8]| {
        let key = disk.last_key(view, space, prefix)?;
        key.map_or(Ok(Seq(0)), |key| layout::seq_of_key(&key))
    };
    let stored = last(Space::Records, &number.0.to_be_bytes())?;
    Ok(stored.max(last(Space::Meta, &keys::changes_prefix(number))?).max(forgotten(disk, view, number)?))
}

impl SharedState {
    fn changes(
        &self,
        (collection, name): (&Collection, &CollectionName),
        after: Seq,
        limit: usize,
    ) -> Result<ChangePage> {
        let view = self.disk.view();
        let (logged, last) = self.logged_after(&view, (collection, name), after, limit)?;
        let records = self.records_in(&view, collection, after, limit)?;
        let updated = self.records_at_in(&view, collection, &feed::updated(&logged))?;
        Ok(feed::page((after, last, limit), records, logged, updated))
    }

    /// What is logged with a number above `after`, at most `limit`; and the number of the last change.
    fn logged_after(
        &self,
        view: &Arc<Snapshot>,
        (collection, name): (&Collection, &CollectionName),
        after: Seq,
        limit: usize,
    ) -> Result<(Vec<LoggedChange>, Seq)> {
        let number = collection.number;
        let last = last(&self.disk, view, number)?;
        feed::check_after(name, after, forgotten(&self.disk, view, number)?, last)?;
        let logged = self.logged(view, number, after, Seq::MAX).take(limit).collect::<Result<_>>()?;
        Ok((logged, last))
    }

    /// What is logged with a number above `after`, below `end`.
    fn logged(
        &self,
        view: &Arc<Snapshot>,
        number: CollectionNumber,
        after: Seq,
        end: Seq,
    ) -> impl Iterator<Item = Result<LoggedChange>> {
        let (from, to) = (keys::change_key(number, after.next()), keys::change_key(number, end));
        let entries = self.disk.range(view, Space::Meta, &from, &to);
        entries.map(|entry| entry.and_then(|(key, value)| keys::decode_change(&key, &value)))
    }

    /// What forgets the lowest logged changes below `end`; nothing where there is none.
    fn forgetting(&self, number: CollectionNumber, end: Seq) -> Result<Vec<Op>> {
        let view = self.disk.view();
        let numbers = self.logged(&view, number, Seq(0), end).map(|change| change.map(|change| change.number));
        let gone = numbers.take(FORGOTTEN_PER_BATCH).collect::<Result<Vec<_>>>()?;
        let Some(highest) = gone.last() else { return Ok(Vec::new()) };
        let noted = Op::Put(Space::Meta, keys::forgotten_key(number), highest.0.to_le_bytes().to_vec());
        let deletes = gone.iter().map(|change| Op::Delete(Space::Meta, keys::change_key(number, *change)));
        Ok(deletes.chain([noted]).collect())
    }
}

#[async_trait]
impl Changes for EmbeddedStore {
    async fn changes(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        blocking(|| shared.changes((&collection, name), after, limit))
    }

    async fn logged(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<(Vec<LoggedChange>, Seq)> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        let read = || shared.logged_after(&shared.disk.view(), (&collection, name), after, limit);
        let (logged, last) = blocking(read)?;
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
        // Where the store is opened again or closed meanwhile, the next reading says so.
        let _ = published.wait_for(|number| *number > after).await;
        Ok(())
    }

    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()> {
        loop {
            let shared = self.writable(Reserve::Last)?;
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
