//! Lookups that store nothing. They see exactly what is published.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::candidates::{blocking, for_each};
use super::core::Core;
use super::line::Collection;
use crate::index::{Probe, Proposal, Proposals};
use crate::store::{Found, Judge, Query, Result, Seq, StoreError, StoredRecord, Until};

/// How often a lookup starts over because something was published while it asked the index. Each try takes microseconds
/// and publications are a sync apart, so the second try nearly always stands.
const TRIES: usize = 16;

impl Core {
    /// Judges what the index proposes.
    pub(super) fn find(&self, query: &Query, judge: &Arc<dyn Judge>, until: Until) -> Result<Found> {
        let collection = self.collection(&query.collection)?;
        let live = collection.live.load().id;
        if query.generation != live {
            return Err(StoreError::StaleGeneration { given: query.generation, live });
        }
        let (view, proposals) = self.consistent(&collection, query);
        let except: Option<Seq> = match &query.except {
            Some(id) => self.disk.seq_of(&view, collection.number, id)?,
            None => None,
        };
        let mut matches = Vec::new();
        let items: Vec<Proposal> = proposals.items.into_iter().filter(|item| Some(item.seq) != except).collect();
        let cut = for_each(&items, |item| {
            let (bytes, found) = self.judge_stored(&view, (collection.number, live), item, judge.as_ref())?;
            matches.extend(found);
            let enough = until == Until::FirstMatch && !matches.is_empty();
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(bytes) })
        })?;
        Ok(Found { matches, truncated: proposals.truncated || cut })
    }

    /// Proposals and a view of the same instant: a replacement published in between could hide both the old and the new
    /// record.
    fn consistent(&self, collection: &Collection, query: &Query) -> (Arc<fjall::Snapshot>, Proposals) {
        let probe = Probe {
            digest_key: query.digest.map(|digest| digest.key()),
            fingerprint: query.fingerprint,
            keys: query.signed.as_ref().map_or(&[], |signed| &signed.keys),
            sparse: collection.live.load().sparse,
        };
        let mut tries = 0;
        loop {
            let view = self.disk.view();
            let proposals = collection.live.load().index.propose(&probe);
            tries += 1;
            if self.disk.is_current(&view) || tries == TRIES {
                return (view, proposals);
            }
        }
    }

    /// One published record.
    pub(super) fn stored_record(
        &self,
        collection: &Collection,
        id: &crate::record::RecordId,
    ) -> Result<Option<StoredRecord>> {
        let view = self.disk.view();
        match self.disk.seq_of(&view, collection.number, id)? {
            Some(seq) => self.disk.record(&view, collection.number, seq, true),
            None => Ok(None),
        }
    }

    /// Published records in seq order.
    pub(super) fn stored_records(
        &self,
        collection: &Collection,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<StoredRecord>> {
        use super::disk::Space;
        use super::layout;
        let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
        let view = self.disk.view();
        let (from, to) = (layout::record_key(collection.number, first), (collection.number + 1).to_be_bytes());
        let read = || {
            let entries = self.disk.range(&view, Space::Records, &from, &to).take(limit);
            let records = entries.map(|entry| {
                let (key, value) = entry?;
                layout::decode_record(layout::seq_of_key(&key)?, &value, true)
            });
            records.collect()
        };
        if limit > 1 { blocking(read) } else { read() }
    }
}
