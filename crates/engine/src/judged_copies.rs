//! A cache of the matches of texts that match many earlier records of a batch.
//!
//! All copies of a letter that thousands of people sent have the same proposals as soon as their keys are full, and therefore the same matches. The
//! matches are found for one copy, and the other copies share them: a batch of copies costs as much as one copy. Copies in which each sender adds
//! own contacts also share their matches.
//!
//! This holds for a batch only. Nobody changes its records or decides about them, so that the matches of a record depend only on its text and
//! contacts, on those of the proposed records, and on the senders.

use std::collections::HashMap;
use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::read_records::ReadRecord;
use doppel_core::collection::{MatchScope, Settings};
use doppel_core::index::{Proposals, Via};
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::schemes::profile::Digest;
use doppel_core::text::Document;
use doppel_core::verdict::{Match, Relation, VIA_COPY, VIA_EXACT};
use doppel_store::Seq;

/// Smallest number of matches of a text whose matches are kept: for fewer matches it costs little to find them again.
const LEAST_MATCHES: usize = 64;
/// Number of texts whose matches are kept: the mass letters that come at the same time. Each takes up to some hundred kilobytes.
const TEXTS: usize = 64;

/// The matches of a record of a batch.
#[derive(Clone, Debug, Default)]
pub struct BatchMatches {
    /// The matches, in the order in which they were found. If several records share them, they state no relation.
    matches: Arc<Vec<Match>>,
    /// The relations of the record to its matches, if the record shares its matches with others; otherwise `matches` state them.
    relations: Option<Box<[Option<Relation>]>>,
    /// True if a limit ended the search early.
    pub truncated: bool,
}

impl BatchMatches {
    /// Makes the matches of one record.
    pub(super) fn own(matches: Vec<Match>, truncated: bool) -> Self {
        Self { matches: Arc::new(matches), relations: None, truncated }
    }

    /// Returns the matches. Their relations are those of [`BatchMatches::relation`].
    pub fn matches(&self) -> &Arc<Vec<Match>> {
        &self.matches
    }

    /// True if other records may have the same list of matches, so that [`BatchMatches::matches`] may be equal as a pointer.
    pub fn is_shared(&self) -> bool {
        self.relations.is_some()
    }

    /// Returns the relation of the record to the match at a position.
    pub fn relation(&self, at: usize) -> Option<Relation> {
        match &self.relations {
            Some(relations) => relations[at],
            None => self.matches[at].relation,
        }
    }

    /// Returns the matches with their relations. O(matches).
    pub fn into_matches(self) -> Vec<Match> {
        let mut matches = Arc::unwrap_or_clone(self.matches);
        for (found, relation) in matches.iter_mut().zip(self.relations.into_iter().flatten()) {
            found.relation = relation;
        }
        matches
    }
}

/// A record of a batch: its text, its digest and all its proposals.
#[derive(Clone, Copy)]
pub(super) struct JudgedRecord<'a> {
    pub(super) document: &'a Document,
    pub(super) digest: Digest,
    pub(super) proposals: &'a Proposals,
}

/// A text with its proposals and matches.
pub(super) struct JudgedText {
    /// The text and its contacts.
    document: Document,
    digest: Digest,
    proposals: Proposals,
    /// The contacts of the records that were compared, ascending.
    contacts: Vec<u64>,
    matches: Arc<Vec<Match>>,
    /// The petitioners of the matching records: documents without text.
    petitioners: Vec<Document>,
    truncated: bool,
    /// The sketch of the text; `None` if the record of this text has no sketch.
    pub(super) sketch: Option<Vec<u64>>,
}

/// The cache of one batch, see the module.
pub(super) struct JudgedCopies {
    texts: Option<Cache<u64, Arc<JudgedText>>>,
}

impl JudgedCopies {
    /// Creates an empty cache for records that are compared by `settings`.
    pub(super) fn new(settings: &Settings) -> Self {
        // With conditions, the matches depend also on the time and other fields of the record.
        let is_unconditional = settings.scope == MatchScope::default();
        Self { texts: is_unconditional.then(|| Cache::new(TEXTS)) }
    }

    /// Creates a cache that keeps nothing.
    #[cfg(test)]
    pub(super) fn off() -> Self {
        Self { texts: None }
    }

    /// Returns the text of a record, if another record with this text and these proposals was judged before. O(length + proposals).
    pub(super) fn get(&self, record: &JudgedRecord<'_>) -> Option<Arc<JudgedText>> {
        if record.proposals.items.len() < LEAST_MATCHES {
            return None;
        }
        self.texts.as_ref()?.get(&text_hash(record.document)).filter(|known| known.is_judged_like(record))
    }

    /// True if the matches of a record are worth keeping: there are many, and its text has come before.
    pub(super) fn wants(&self, judged: &BatchMatches) -> bool {
        self.texts.is_some() && judged.matches.len() >= LEAST_MATCHES && judged.matches.iter().any(is_copy)
    }

    /// Keeps the matches of a record that was judged. `compared` are the records that it was compared with, the matches among them.
    pub(super) fn keep(
        &self,
        record: &JudgedRecord<'_>,
        judged: &BatchMatches,
        compared: &HashMap<Seq, Arc<ReadRecord>>,
        sketch: Option<Vec<u64>>,
    ) {
        let Some(texts) = &self.texts else { return };
        let JudgedRecord { document, digest, proposals } = *record;
        let petitioners = judged.matches.iter().map(|found| Some(petitioner(compared.get(&found.seq)?)));
        let Some(petitioners) = petitioners.collect() else { return };
        let mut contacts: Vec<u64> =
            compared.values().flat_map(|read| read.document.contacts.iter().copied()).collect();
        contacts.sort_unstable();
        contacts.dedup();
        let Document { fields, columns, contacts: own, .. } = document;
        let text = JudgedText {
            document: Document {
                fields: fields.clone(),
                columns: columns.clone(),
                contacts: own.clone(),
                ..Document::default()
            },
            digest,
            proposals: proposals.clone(),
            contacts,
            matches: Arc::new(judged.matches.iter().map(|found| Match { relation: None, ..found.clone() }).collect()),
            petitioners,
            truncated: judged.truncated,
            sketch,
        };
        texts.insert(text_hash(document), Arc::new(text));
    }
}

/// True if a match has the same text as the record.
fn is_copy(found: &Match) -> bool {
    found.via.iter().any(|via| via == VIA_EXACT || via == VIA_COPY)
}

/// Returns the petitioner of a record, as a document without text.
fn petitioner(read: &ReadRecord) -> Document {
    Document { identity: read.document.identity.clone(), ..Document::default() }
}

/// Returns a hash of the text of a document.
fn text_hash(document: &Document) -> u64 {
    document.fields.iter().fold(0, |hash, field| hash.rotate_left(7) ^ city64_bytes(field.text.as_bytes()))
}

impl JudgedText {
    /// True if a record with the same text has the same matches.
    fn is_judged_like(&self, record: &JudgedRecord<'_>) -> bool {
        let JudgedRecord { document, digest, proposals } = *record;
        if !self.document.has_same_text(document) || self.proposals != *proposals {
            return false;
        }
        if self.digest == digest {
            return self.document.contacts == document.contacts;
        }
        // Without exact proposals, no compared record has the digest of either text. Contacts are evidence only if two texts share one.
        let is_exact = proposals.items.iter().any(|proposal| proposal.via.contains(Via::EXACT));
        let has_contacts = [&self.document, document].map(|document| !document.contacts.is_empty());
        let mut contacts = self.document.contacts.iter().chain(&document.contacts);
        !is_exact
            && has_contacts[0] == has_contacts[1]
            && contacts.all(|contact| self.contacts.binary_search(contact).is_err())
    }

    /// Returns the matches for a record with this text. O(matches).
    pub(super) fn matches_of(&self, document: &Document) -> BatchMatches {
        BatchMatches {
            matches: Arc::clone(&self.matches),
            relations: Some(self.petitioners.iter().map(|theirs| crate::judge::relation(document, theirs)).collect()),
            truncated: self.truncated,
        }
    }
}
