//! Reading the postings of digests and keys.
//!
//! A digest and a key give their [`POSTINGS_PER_KEY`] earliest records and say whether there are more, whatever the length of
//! their lists: what is read is bounded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mongodb::ClientSession;
use mongodb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::Shared;
use super::documents::{self, COLLECTIONS, SIGNATURES, damaged, seq_of};
use super::read::{GenerationKey, next};
use super::retry::TxnError;
use super::server::Topology;
use doppel_core::index::{POSTINGS_PER_KEY, looked_up};
use doppel_core::schemes::profile::{Digest, PostingKey};
use doppel_store::Seq;

/// Records with any of the digests or keys asked for that are read at once. The index gives them in no useful order, so where there
/// are more each digest and key is asked for its earliest.
const FEW: usize = POSTINGS_PER_KEY;
/// The same for several records together.
const FEW_IN_ALL: usize = 16 * FEW;
/// Lists joined by one command: ids of 256 bytes in all of them stay below the 16 MB of a document.
const LISTS: usize = 128;

/// A record under a key. Of a burst of alike records each is under a dozen keys of each other one: ids are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) id: Arc<str>,
    pub(super) seq: Seq,
}

/// The earliest records under a key, one more than may be used if there are more.
pub(super) type Postings = Vec<Posting>;

/// The digests and keys that are asked for, of one record or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct PostingQuery {
    records: usize,
    digests: BTreeSet<[u8; 32]>,
    keys: BTreeSet<i64>,
}

impl PostingQuery {
    /// Adds what is asked for one record.
    pub(super) fn add(&mut self, digest: Option<&Digest>, keys: &[PostingKey]) {
        self.records += 1;
        self.digests.extend(digest.map(|digest| digest.0));
        self.keys.extend(looked_up(keys).0.map(|key| key.key as i64));
    }
}

/// The answer to a [`PostingQuery`].
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    digests: HashMap<[u8; 32], Postings>,
    keys: HashMap<i64, Postings>,
}

/// What is filed under the digest and the keys of one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Filed<'a> {
    pub(super) digest: &'a [Posting],
    /// In the order of the keys asked.
    pub(super) keys: Vec<&'a [Posting]>,
}

impl Answer {
    /// The part of one record.
    pub(super) fn of(&self, digest: Option<&Digest>, keys: &[PostingKey]) -> Filed<'_> {
        let digest = digest.and_then(|digest| self.digests.get(&digest.0)).map_or(&[][..], Vec::as_slice);
        let keys = looked_up(keys).0.map(|key| self.keys.get(&(key.key as i64)).map_or(&[][..], Vec::as_slice));
        Filed { digest, keys: keys.collect() }
    }

    /// Adds a record that comes after all others.
    pub(super) fn add(&mut self, posting: &Posting, digest: &Digest, keys: &[PostingKey]) {
        let digests = self.digests.entry(digest.0).or_default();
        let lists = std::iter::once(digests);
        let mut add = |list: &mut Postings| {
            if list.len() < LIMIT && list.last() != Some(posting) {
                list.push(posting.clone());
            }
        };
        lists.for_each(&mut add);
        keys.iter().for_each(|key| add(self.keys.entry(key.key as i64).or_default()));
    }

    /// Takes a record away; whether all lists are still whole: one that had been cut off lacks the next now.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let mut whole = true;
        for list in self.digests.values_mut().chain(self.keys.values_mut()) {
            let before = list.len();
            list.retain(|posting| *posting.id != *id);
            whole &= before < LIMIT || list.len() == before;
        }
        whole
    }
}

impl Shared {
    /// Whether several lists are read by one command. Transactions of clusters do not join sharded collections.
    pub(super) fn joins_lists(&self) -> bool {
        self.topology == Topology::ReplicaSet && self.options.joins
    }

    /// What is filed under all digests and keys. Two round trips, and for every [`LISTS`] digests and keys one more where they are
    /// shared by many; on a cluster one for each of these.
    pub(super) async fn filed(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        question: &PostingQuery,
    ) -> Result<Answer, TxnError> {
        let most = (FEW * question.records).min(FEW_IN_ALL);
        let mut answer = Answer::default();
        let digests: Vec<Bson> = question.digests.iter().map(|digest| digest_bson(digest).into()).collect();
        let filter = within(place, doc! { "digest": { "$in": digests } });
        match self.few(session, filter, doc! { "seq": 1, "digest": 1 }, (question.digests.len(), most)).await? {
            Some(found) => {
                for item in found {
                    let list = answer.digests.entry(documents::digest_of(&item)?.0).or_default();
                    list.push(posting(&item)?);
                }
            }
            None => {
                let filters = question.digests.iter().map(|digest| (*digest, doc! { "digest": digest_bson(digest) }));
                answer.digests = self.each_bounded(session, place, filters).await?;
            }
        }
        let keys: Vec<i64> = question.keys.iter().copied().collect();
        let filter = within(place, doc! { "keys": { "$in": &keys } });
        match self.few(session, filter, doc! { "seq": 1, "keys": 1 }, (keys.len(), most)).await? {
            Some(found) => {
                for item in found {
                    let posting = posting(&item)?;
                    for key in item.get_array("keys").map_err(damaged)? {
                        let key = key.map_err(damaged)?.as_i64().ok_or_else(|| damaged("a key is not a number"))?;
                        if question.keys.contains(&key) {
                            answer.keys.entry(key).or_default().push(posting.clone());
                        }
                    }
                }
            }
            None => {
                let filters = keys.iter().map(|key| (*key, doc! { "keys": key }));
                answer.keys = self.each_bounded(session, place, filters).await?;
            }
        }
        answer.digests.values_mut().chain(answer.keys.values_mut()).for_each(cut);
        Ok(answer)
    }

    /// The signatures that `filter` finds, which asks for so many digests or keys, in no useful order; `None` if they are more than
    /// `most`.
    async fn few(
        &self,
        session: &mut ClientSession,
        filter: Document,
        projection: Document,
        (asked, most): (usize, usize),
    ) -> Result<Option<Vec<RawDocumentBuf>>, TxnError> {
        if asked == 0 {
            return Ok(Some(Vec::new()));
        }
        let signatures = self.in_session(SIGNATURES);
        let found = signatures.find(filter).projection(projection).limit(most as i64 + 1).batch_size(most as u32 + 1);
        let mut cursor = found.session(&mut *session).await?;
        let mut all = Vec::new();
        while let Some(item) = next(&mut cursor, session).await? {
            all.push(item);
        }
        Ok((all.len() <= most).then_some(all))
    }

    /// The earliest records of each digest or key: each list an index range of bounded length, whatever is behind it.
    async fn each_bounded<K: Copy + Eq + std::hash::Hash>(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        filters: impl Iterator<Item = (K, Document)>,
    ) -> Result<HashMap<K, Postings>, TxnError> {
        let filters: Vec<(K, Document)> = filters.collect();
        let mut all = HashMap::with_capacity(filters.len());
        if !self.joins_lists() {
            for (key, filter) in filters {
                all.insert(key, self.earliest(session, within(place, filter)).await?);
            }
            return Ok(all);
        }
        for filters in filters.chunks(LISTS) {
            let lists = filters.iter().enumerate();
            let lists = lists.map(|(at, (_, filter))| postings(&format!("l{at}"), within(place, filter.clone())));
            // Joined to one document, whichever it is.
            let one = [doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }];
            let asked = self.in_session(COLLECTIONS);
            let asked = asked.aggregate(one.into_iter().chain(lists)).session(&mut *session);
            let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
            let found = next(&mut cursor, session).await?.unwrap_or_default();
            for (at, (key, _)) in filters.iter().enumerate() {
                all.insert(*key, list(&found, &format!("l{at}"))?);
            }
        }
        Ok(all)
    }

    /// The earliest records whose signatures `filter` finds.
    async fn earliest(&self, session: &mut ClientSession, filter: Document) -> Result<Postings, TxnError> {
        let signatures = self.in_session(SIGNATURES);
        let asked = signatures.find(filter).projection(doc! { "seq": 1 });
        let asked = asked.sort(doc! { "seq": 1 }).limit(LIMIT as i64).session(&mut *session);
        let mut cursor = asked.await?;
        let mut list = Vec::new();
        while let Some(found) = next(&mut cursor, session).await? {
            list.push(posting(&found)?);
        }
        Ok(list)
    }
}

/// Postings of a list: one more than may be used, so that it shows whether there are more.
const LIMIT: usize = POSTINGS_PER_KEY + 1;

fn digest_bson(digest: &[u8; 32]) -> Binary {
    documents::digest_value(&Digest(*digest))
}

/// The earliest of a list, in order, each once.
fn cut(list: &mut Postings) {
    list.sort_unstable_by_key(|posting| posting.seq);
    list.dedup();
    list.truncate(LIMIT);
}

fn within(place: GenerationKey, what: Document) -> Document {
    let mut filter = doc! { "_id.c": place.number, "_id.g": place.generation.0 as i32 };
    filter.extend(what);
    filter
}

/// A stage that joins the earliest records whose signatures `filter` finds, as `name`.
fn postings(name: &str, filter: Document) -> Document {
    let stages = vec![
        doc! { "$match": filter },
        doc! { "$sort": { "seq": 1 } },
        doc! { "$limit": LIMIT as i32 },
        doc! { "$project": { "_id": 0, "i": "$_id.id", "s": "$seq" } },
    ];
    doc! { "$lookup": { "from": SIGNATURES, "as": name, "pipeline": stages } }
}

/// What was joined as `name`; nothing if nothing was.
fn list(found: &RawDocument, name: &str) -> doppel_store::Result<Postings> {
    let Some(RawBsonRef::Array(items)) = found.get(name).map_err(damaged)? else { return Ok(Vec::new()) };
    let items = items.into_iter().map(|item| {
        let item = item.map_err(damaged)?;
        let item = item.as_document().ok_or_else(|| damaged("a posting is not a document"))?;
        let id = item.get_str("i").map_err(damaged)?.into();
        Ok(Posting { id, seq: seq_of(item.get_i64("s").map_err(damaged)?) })
    });
    items.collect()
}

/// Of a signature.
fn posting(signature: &RawDocument) -> doppel_store::Result<Posting> {
    let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?.into();
    Ok(Posting { id, seq: seq_of(signature.get_i64("seq").map_err(damaged)?) })
}
