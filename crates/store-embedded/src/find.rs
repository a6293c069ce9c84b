//! Lookups that store nothing. They see exactly the published records.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use fjall::Snapshot;

use super::collection::Collection;
use super::disk::PublishedView;
use super::generation::Generation;
use super::judging::{blocking, confirmed_proposal, for_each, judge_stored};
use super::keys::GenerationKey;
use super::keyspaces::Space;
use super::layout;
use super::shared_state::SharedState;
use doppel_core::index::{Lookup, Proposals};
use doppel_store::rules::plan::check_live;
use doppel_store::rules::proposals::confirmed_first;
use doppel_store::stages::{RegistrationStage, StageSpan};
use doppel_store::{CandidateJudge, LookupEnd, LookupQuery, LookupResult, Result, Seq, StoredRecord};

/// Largest number of attempts of a lookup that starts again because of a publication during the read of the index. An attempt takes
/// microseconds and there is a sync between two publications, so that the second attempt nearly always succeeds.
const TRIES: usize = 16;

impl SharedState {
    /// Judges the candidates that the index proposes.
    pub(super) fn find(
        &self,
        query: &LookupQuery,
        judge: &dyn CandidateJudge,
        until: LookupEnd,
    ) -> Result<LookupResult> {
        let began = Instant::now();
        let collection = self.collection(&query.collection)?;
        let (view, live, proposals) = self.consistent(&collection, query)?;
        let keys = GenerationKey { number: collection.number, generation: live.id };
        let except: Option<Seq> = match &query.except {
            Some(id) => self.disk.seq_of(&view.snapshot, collection.number, id)?,
            None => None,
        };
        let mut items = proposals.items;
        let confirmed =
            query.confirmed.iter().map(|id| confirmed_proposal(&self.disk, &view.snapshot, keys, &live, id));
        let confirmed: Vec<_> = confirmed.filter_map(Result::transpose).collect::<Result<_>>()?;
        confirmed_first(&mut items, confirmed);
        items.retain(|item| Some(item.seq) != except);
        let proposed = StageSpan::since(began);
        judge.took(RegistrationStage::Propose, proposed);
        judge.expects(&items.iter().map(|item| item.seq).collect::<Vec<_>>());
        let mut matches = Vec::new();
        let cut = for_each(&items, |item| {
            let (bytes, found) = judge_stored(&self.disk, &view, keys, item, judge)?;
            matches.extend(found);
            let enough = until == LookupEnd::FirstMatch && !matches.is_empty();
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(bytes) })
        })?;
        judge.took(RegistrationStage::Verify, StageSpan::since(proposed.ended));
        Ok(LookupResult { matches, truncated: proposals.truncated || cut })
    }

    /// Returns candidates and a view of the same moment, because a replacement that is published in between could hide both the old
    /// and the new record; and the generation that is live at this moment, because other indexes are not updated.
    fn consistent(
        &self,
        collection: &Collection,
        query: &LookupQuery,
    ) -> Result<(Arc<PublishedView>, Arc<Generation>, Proposals)> {
        let mut tries = 0;
        loop {
            let shown = collection.shown.load_full();
            let live = &shown.live;
            check_live(query.generation, live.id)?;
            let lookup = Lookup {
                digest_key: query.digest.map(|digest| digest.key()),
                hamming: query.hamming,
                keys: query.signed.as_ref().map_or(&[], |signed| &signed.keys),
                order: live.order,
            };
            let view = self.disk.numbered_view();
            let proposals = live.index.propose(&lookup);
            tries += 1;
            let current = self.disk.is_current(&view.snapshot) || tries >= TRIES;
            if current && Arc::ptr_eq(&shown, &collection.shown.load()) {
                return Ok((view, Arc::clone(live), proposals));
            }
        }
    }

    /// Reads one published record.
    pub(super) fn stored_record(
        &self,
        collection: &Collection,
        id: &doppel_core::record::RecordId,
    ) -> Result<Option<StoredRecord>> {
        let view = self.disk.view();
        match self.disk.seq_of(&view, collection.number, id)? {
            Some(seq) => self.disk.record(&view, collection.number, seq, true),
            None => Ok(None),
        }
    }

    /// Reads published records in the order of seqs.
    pub(super) fn stored_records(
        &self,
        collection: &Collection,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<StoredRecord>> {
        let view = self.disk.view();
        match limit > 1 {
            true => blocking(|| self.records_in(&view, collection, after, limit)),
            false => self.records_in(&view, collection, after, limit),
        }
    }

    /// Reads records in `view`, in the order of seqs.
    pub(super) fn records_in(
        &self,
        view: &Arc<Snapshot>,
        collection: &Collection,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<StoredRecord>> {
        if after == Seq::MAX {
            return Ok(Vec::new());
        }
        let (from, to) =
            (layout::record_key(collection.number, after.next()), collection.number.next().0.to_be_bytes());
        let entries = self.disk.range(view, Space::Records, &from, &to);
        let records = entries.map(|entry| {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            let at = (Space::Records, collection.number, seq);
            self.disk.tolerate(at, layout::decode_record(seq, &value, true))
        });
        records.filter_map(Result::transpose).take(limit).collect()
    }

    /// Reads published records with these seqs, in the order of seqs.
    pub(super) fn stored_records_at(&self, collection: &Collection, seqs: &[Seq]) -> Result<Vec<StoredRecord>> {
        let view = self.disk.view();
        match seqs.len() > 1 {
            true => blocking(|| self.records_at_in(&view, collection, seqs)),
            false => self.records_at_in(&view, collection, seqs),
        }
    }

    /// Returns the seqs of this list that published records have, ascending. Decodes no record.
    pub(super) fn stored_seqs(&self, collection: &Collection, seqs: &[Seq]) -> Result<Vec<Seq>> {
        let seqs: BTreeSet<Seq> = seqs.iter().copied().collect();
        let view = self.disk.view();
        blocking(|| {
            let mut stored = Vec::with_capacity(seqs.len());
            for seq in seqs {
                if self.disk.has_record(&view, collection.number, seq)? {
                    stored.push(seq);
                }
            }
            Ok(stored)
        })
    }

    /// Reads records in `view` with these seqs, in the order of seqs.
    pub(super) fn records_at_in(
        &self,
        view: &Snapshot,
        collection: &Collection,
        seqs: &[Seq],
    ) -> Result<Vec<StoredRecord>> {
        let seqs: BTreeSet<Seq> = seqs.iter().copied().collect();
        let records = seqs.iter().map(|seq| self.disk.record(view, collection.number, *seq, true));
        records.filter_map(Result::transpose).collect()
    }
}
