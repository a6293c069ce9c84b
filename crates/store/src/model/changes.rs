//! The change feed of the model.

use async_trait::async_trait;

use super::{ModelCollection, ModelStore};
use crate::changes::{ChangeFeed, ChangePage, LoggedChange, LoggedKind};
use crate::decisions::{Judgement, RecordPair};
use crate::rules::feed;
use crate::{Result, Seq};
use doppel_core::collection::CollectionName;

impl ModelCollection {
    pub(super) fn log_decision(&mut self, pair: &RecordPair, judgement: Judgement) {
        self.log(pair.a().clone(), LoggedKind::Decided { other: pair.b().clone(), judgement });
    }

    /// The number of the last change.
    fn last_change(&self) -> Seq {
        let stored = self.records.last().map_or(Seq(0), |record| record.seq);
        let logged = self.logged.last().map_or(Seq(0), |change| change.number);
        stored.max(logged).max(self.forgotten)
    }
}

#[async_trait]
impl ChangeFeed for ModelStore {
    async fn changes(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<ChangePage> {
        self.with(name, |collection| {
            let last = collection.last_change();
            feed::check_after(name, after, collection.forgotten, last)?;
            let records = collection.records.iter().filter(|record| record.seq > after).take(limit).cloned();
            let logged: Vec<_> =
                collection.logged.iter().filter(|change| change.number > after).take(limit).cloned().collect();
            let seqs = feed::updated(&logged);
            let updated = collection.records.iter().filter(|record| seqs.contains(&record.seq)).cloned();
            Ok(feed::page(after, last, limit, records.collect(), logged, updated.collect()))
        })
    }

    async fn logged(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<(Vec<LoggedChange>, Seq)> {
        self.with(name, |collection| {
            let last = collection.last_change();
            feed::check_after(name, after, collection.forgotten, last)?;
            let logged: Vec<_> =
                collection.logged.iter().filter(|change| change.number > after).take(limit).cloned().collect();
            let next = feed::after_logged(&logged, limit, last);
            Ok((logged, next))
        })
    }

    async fn last_change(&self, name: &CollectionName) -> Result<Seq> {
        self.with(name, |collection| Ok(collection.last_change()))
    }

    async fn changed(&self, name: &CollectionName, after: Seq) -> Result<()> {
        while self.with(name, |collection| Ok(collection.last_change() <= after))? {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn forget_changes(&self, name: &CollectionName, keep: u64) -> Result<()> {
        self.with(name, |collection| {
            let up_to = collection.last_change().before(keep);
            let gone = collection.logged.partition_point(|change| change.number <= up_to);
            let gone = collection.logged.drain(..gone).next_back();
            collection.forgotten = gone.map_or(collection.forgotten, |change| change.number);
            Ok(())
        })
    }
}
