//! The records that a member of a batch is judged against: the stored records, and the members before it.
//!
//! Each member that is concluded extends the lists that the database returned, so that the next member is judged as if the earlier
//! members had been committed. Members are later than all stored records, and therefore at the ends of the lists.

use std::sync::Arc;

use crate::documents::{RecordDocument, SignatureDocument};
use crate::postings::{PostingAnswer, RecordPosting};
use crate::propose::{ProposedHits, RecordProposal, RecordSeqs, RecordSignatures, RecordTexts};
use crate::read::BucketContents;
use crate::write::HighestPages;
use doppel_core::collection::SimhashChannel;
use doppel_core::index::{POSTINGS_PER_KEY, Via};
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::{Fingerprint, Match};
use doppel_store::{Registration, StoredRecord};
use hashbrown::{HashMap, HashSet};

/// Judged records by id: the key that proposed each record, and the match.
type JudgedRecords = HashMap<Arc<str>, (Via, Option<Match>)>;

#[derive(Default)]
pub(super) struct PrecedingMembers {
    pub(super) answer: PostingAnswer,
    /// The highest page of each bucket, for the whole batch.
    pub(super) highest: HighestPages,
    pub(super) texts: RecordTexts,
    pub(super) seqs: RecordSeqs,
    pub(super) signatures: RecordSignatures,
    /// The members that are stored, with their fingerprints.
    near: Vec<(Arc<str>, Fingerprint)>,
    /// The stored records that a member removed or replaced.
    gone: HashSet<Arc<str>>,
    /// The stored records that were judged already, by the position of the member. They need not be judged again.
    judged: Vec<JudgedRecords>,
    /// Records whose content differs from the judged content.
    updated: HashSet<Arc<str>>,
    /// False if a list may lack records that the database has behind its end.
    is_whole: bool,
}

impl PrecedingMembers {
    /// Returns the state before the first member.
    pub(super) fn of(answer: PostingAnswer) -> Self {
        Self { answer, is_whole: true, ..Self::default() }
    }

    /// Notes the result of judging a stored record for the member at `at`.
    pub(super) fn note(&mut self, at: usize, item: &RecordProposal, judged: Option<Match>) {
        if self.judged.len() <= at {
            self.judged.resize_with(at + 1, HashMap::new);
        }
        self.judged[at].insert(item.id.clone(), (item.via, judged));
    }

    /// Divides the proposals for the member at `at` into the matches among the records that were judged already, and the proposals
    /// that must be judged. A proposal must also be judged if an earlier member changed it; `texts` then contains the new text.
    pub(super) fn part(
        &mut self,
        at: usize,
        items: Vec<RecordProposal>,
        texts: &RecordTexts,
    ) -> (Vec<Match>, Vec<RecordProposal>) {
        let mut known = self.judged.get_mut(at).map(std::mem::take).unwrap_or_default();
        let mut matches = Vec::new();
        let mut others = Vec::new();
        for item in items {
            let is_gone = self.gone.contains(&item.id);
            match known.remove(&item.id) {
                // The record was removed, and not stored again.
                _ if is_gone && !texts.contains_key(&item.id) => {}
                Some((via, judged)) if via == item.via && !is_gone && !self.updated.contains(&item.id) => {
                    matches.extend(judged);
                }
                _ => others.push(item),
            }
        }
        (matches, others)
    }

    /// True if the next member can be judged. False if a list lacks records that the database has behind its end.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the records that may match a member whose buckets are `buckets`.
    pub(super) fn hits(&self, signed: &Signed, mut buckets: BucketContents, simhash: SimhashChannel) -> ProposedHits {
        buckets.near.retain(|(id, _)| !self.gone.contains(id));
        if let Some(own) = signed.fingerprint() {
            let near = self.near.iter().filter(|(_, other)| own.distance(*other) <= simhash.radius.0);
            buckets.near.extend(near.cloned());
        }
        ProposedHits::gather(
            self.answer.of(Some(&signed.digest), &signed.keys),
            &signed.keys,
            buckets,
            simhash.position,
        )
    }

    /// Notes that a member is stored.
    pub(super) fn put(&mut self, registration: &Registration, record: StoredRecord) {
        let id = Arc::<str>::from(registration.id.as_str());
        let signed = &registration.signed;
        self.answer.add(&RecordPosting { id: Arc::clone(&id), seq: record.seq }, &signed.digest, &signed.keys);
        self.near.extend(signed.fingerprint().map(|fingerprint| (Arc::clone(&id), fingerprint)));
        self.signatures.insert(Arc::clone(&id), signed.signatures.clone());
        self.texts.insert(id, RecordDocument { record, fingerprint: signed.fingerprint() });
    }

    /// Notes that a stored record was removed or replaced. `near` is the largest number of records that the pages propose to any
    /// one member.
    pub(super) fn remove(&mut self, id: &str, near: usize) {
        self.is_whole &= self.answer.remove(id) && near <= POSTINGS_PER_KEY;
        self.gone.insert(id.into());
        self.texts.remove(id);
        self.seqs.remove(id);
        self.signatures.remove(id);
    }

    /// Notes that the content of a record changed, but not its text.
    pub(super) fn update(&mut self, record: StoredRecord, filed: Option<&SignatureDocument>) {
        self.updated.insert(record.id.as_str().into());
        if let Some(text) = self.texts.get_mut(record.id.as_str()) {
            *text = RecordDocument { record, fingerprint: filed.and_then(|filed| filed.fingerprint) };
        }
    }
}
