//! What a member of a batch is judged against: what the database holds, and the members before it.
//!
//! The lists that the database gave are continued by the members as they are concluded, so that each is judged as if those before it
//! had been committed. Members come after everything that is stored, hence at the ends of the lists.

use std::sync::Arc;

use crate::documents::{RecordDocument, SignatureDocument};
use crate::postings::{Answer, Posting};
use crate::propose::{Hits, Proposal, Seqs, Signatures, Texts};
use crate::read::Buckets;
use crate::write::Highest;
use doppel_core::collection::SimhashChannel;
use doppel_core::index::{POSTINGS_PER_KEY, Via};
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::{Fingerprint, Match};
use doppel_store::{Registration, StoredRecord};
use hashbrown::{HashMap, HashSet};

/// What was made of records, by id, and what had proposed them.
type JudgedRecords = HashMap<Arc<str>, (Via, Option<Match>)>;

/// What the members of a batch are judged against.
#[derive(Default)]
pub(super) struct Preceding {
    pub(super) answer: Answer,
    /// Of the whole batch: the highest page of each bucket.
    pub(super) highest: Highest,
    pub(super) texts: Texts,
    pub(super) seqs: Seqs,
    pub(super) signatures: Signatures,
    /// Members that were put, with their fingerprints.
    near: Vec<(Arc<str>, Fingerprint)>,
    /// Records that are stored no more, or not as they were.
    gone: HashSet<Arc<str>>,
    /// What was made of records as the database holds them, by member: these need not be judged again.
    judged: Vec<JudgedRecords>,
    /// Records that have another content than was judged.
    updated: HashSet<Arc<str>>,
    /// Whether all lists are whole, though something was taken from them.
    is_whole: bool,
}

impl Preceding {
    /// What the database holds.
    pub(super) fn of(answer: Answer) -> Self {
        Self { answer, is_whole: true, ..Self::default() }
    }

    /// Notes what was made of a record that the database holds, for the member at `at`.
    pub(super) fn note(&mut self, at: usize, item: &Proposal, judged: Option<Match>) {
        if self.judged.len() <= at {
            self.judged.resize_with(at + 1, HashMap::new);
        }
        self.judged[at].insert(item.id.clone(), (item.via, judged));
    }

    /// Parts the proposals for the member at `at` in the matches among those that were judged, and those that are to be judged: with
    /// what `texts` say, where a member before it changed them.
    pub(super) fn part(&mut self, at: usize, items: Vec<Proposal>, texts: &Texts) -> (Vec<Match>, Vec<Proposal>) {
        let mut known = self.judged.get_mut(at).map(std::mem::take).unwrap_or_default();
        let (mut matches, mut others) = (Vec::new(), Vec::new());
        for item in items {
            let is_gone = self.gone.contains(&item.id);
            match known.remove(&item.id) {
                // Removed, and not put again.
                _ if is_gone && !texts.contains_key(&item.id) => {}
                Some((via, judged)) if via == item.via && !is_gone && !self.updated.contains(&item.id) => {
                    matches.extend(judged);
                }
                _ => others.push(item),
            }
        }
        (matches, others)
    }

    /// Whether the next member can be judged: not where a list lacks what the database has behind its end.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What may match a member of which `buckets` were read.
    pub(super) fn hits(&self, signed: &Signed, mut buckets: Buckets, simhash: SimhashChannel) -> Hits {
        buckets.near.retain(|(id, _)| !self.gone.contains(id));
        if let Some(own) = signed.fingerprint() {
            let near = self.near.iter().filter(|(_, other)| own.distance(*other) <= simhash.radius.0);
            buckets.near.extend(near.cloned());
        }
        Hits::gather(self.answer.of(Some(&signed.digest), &signed.keys), &signed.keys, buckets, simhash.position)
    }

    /// Notes that a member is put.
    pub(super) fn put(&mut self, registration: &Registration, record: StoredRecord) {
        let (id, signed) = (Arc::<str>::from(registration.id.as_str()), &registration.signed);
        self.answer.add(&Posting { id: Arc::clone(&id), seq: record.seq }, &signed.digest, &signed.keys);
        self.near.extend(signed.fingerprint().map(|fingerprint| (Arc::clone(&id), fingerprint)));
        self.signatures.insert(Arc::clone(&id), signed.signatures.clone());
        self.texts.insert(id, RecordDocument { record, fingerprint: signed.fingerprint() });
    }

    /// Notes that a record is stored no more, or not as it was. `near` is how many records pages propose to any one member.
    pub(super) fn remove(&mut self, id: &str, near: usize) {
        self.is_whole &= self.answer.remove(id) && near <= POSTINGS_PER_KEY;
        self.gone.insert(id.into());
        self.texts.remove(id);
        self.seqs.remove(id);
        self.signatures.remove(id);
    }

    /// Notes that a record has another content, read as before.
    pub(super) fn update(&mut self, record: StoredRecord, filed: Option<&SignatureDocument>) {
        self.updated.insert(record.id.as_str().into());
        if let Some(text) = self.texts.get_mut(record.id.as_str()) {
            *text = RecordDocument { record, fingerprint: filed.and_then(|filed| filed.fingerprint) };
        }
    }
}
