//! Reading the postings of digests and keys.
//!
//! A digest and a key give their [`POSTINGS_PER_KEY`] earliest records and say whether there are more, whatever the length of
//! their lists: what is read is bounded.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::Shared;
use super::documents::{self, COLLECTIONS, SIGNATURES, damaged, seq_of};
use super::posting_cache::{Behind, PostingCache};
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

/// Lists by what their records share.
pub(super) type ListsByKey = HashMap<ListKey, Arc<Postings>>;

/// Names a list: what its records share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ListKey {
    Digest([u8; 32]),
    Key(i64),
}

/// The digests and keys that are asked for, of one record or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct PostingQuery {
    records: usize,
    lists: BTreeSet<ListKey>,
}

impl PostingQuery {
    /// Adds what is asked for one record.
    pub(super) fn add(&mut self, digest: Option<&Digest>, keys: &[PostingKey]) {
        self.records += 1;
        self.lists.extend(digest.map(|digest| ListKey::Digest(digest.0)));
        self.lists.extend(looked_up(keys).0.map(|key| ListKey::Key(key.key as i64)));
    }

    /// Takes out what `known` knows; the answer as far as it goes.
    pub(super) fn answer_from(&mut self, known: impl Fn(&ListKey) -> Option<Arc<Postings>>) -> Answer {
        let mut answer = Answer::default();
        self.lists.retain(|key| match known(key) {
            Some(list) => answer.lists.insert(*key, list).is_some(),
            None => true,
        });
        answer
    }
}

/// The answer to a [`PostingQuery`].
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// All that was asked for, also where nothing is filed.
    lists: ListsByKey,
    /// What was added under other keys.
    others: Vec<(ListKey, Posting)>,
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
        let list = |key: ListKey| self.lists.get(&key).map_or(&[][..], |list| list.as_slice());
        let digest = digest.map_or(&[][..], |digest| list(ListKey::Digest(digest.0)));
        Filed { digest, keys: looked_up(keys).0.map(|key| list(ListKey::Key(key.key as i64))).collect() }
    }

    /// Adds a record that comes after all others.
    pub(super) fn add(&mut self, posting: &Posting, digest: &Digest, keys: &[PostingKey]) {
        for key in list_keys(digest, keys) {
            match self.lists.get_mut(&key) {
                Some(list) => _ = append(list, posting),
                None => self.others.push((key, posting.clone())),
            }
        }
    }

    /// Adds another answer, to another question.
    pub(super) fn extend(&mut self, more: Self) {
        self.lists.extend(more.lists);
        self.others.extend(more.others);
    }

    /// The lists that were asked for, and what was added under other keys.
    pub(super) fn into_parts(self) -> (ListsByKey, Vec<(ListKey, Posting)>) {
        (self.lists, self.others)
    }

    /// Takes a record away; whether all lists are still whole: one that had been cut off lacks the next now.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let mut whole = true;
        for list in self.lists.values_mut() {
            let before = list.len();
            if list.iter().any(|posting| *posting.id == *id) {
                Arc::make_mut(list).retain(|posting| *posting.id != *id);
                whole &= before < LIMIT;
            }
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
        let (digests, keys): (Vec<ListKey>, Vec<ListKey>) =
            question.lists.iter().partition(|key| matches!(key, ListKey::Digest(_)));
        let mut all: HashMap<ListKey, Postings> =
            question.lists.iter().map(|key| (*key, Postings::default())).collect();
        for (keys, field) in [(digests, "digest"), (keys, "keys")] {
            let values: Vec<Bson> = keys.iter().map(ListKey::value).collect();
            let filter = within(place, doc! { field: { "$in": values } });
            match self.few(session, filter, doc! { "seq": 1, field: 1 }, (keys.len(), most)).await? {
                Some(found) => {
                    for item in found {
                        let posting = posting(&item)?;
                        for key in stored_list_keys(&item)? {
                            if let Some(list) = all.get_mut(&key) {
                                list.push(posting.clone());
                            }
                        }
                    }
                }
                None => {
                    let filters = keys.iter().map(|key| (*key, doc! { field: key.value() }));
                    all.extend(self.each_bounded(session, place, filters).await?);
                }
            }
        }
        let lists = all.into_iter().map(|(key, mut list)| {
            cut(&mut list);
            (key, Arc::new(list))
        });
        Ok(Answer { lists: lists.collect(), others: Vec::new() })
    }

    /// As [`Shared::filed`], from what a cache holds as far as it goes.
    pub(super) async fn filed_beside(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        mut question: PostingQuery,
        (cache, behind): (&PostingCache, &Behind),
    ) -> Result<Answer, TxnError> {
        let mut answer = match behind {
            Behind::Filed(records) => question.answer_from(|key| cache.get(key, records)),
            Behind::Unknown => Answer::default(),
        };
        answer.extend(self.filed(session, place, &question).await?);
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
    async fn each_bounded(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        filters: impl Iterator<Item = (ListKey, Document)>,
    ) -> Result<HashMap<ListKey, Postings>, TxnError> {
        let filters: Vec<(ListKey, Document)> = filters.collect();
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

impl ListKey {
    /// As stored.
    fn value(&self) -> Bson {
        match self {
            Self::Digest(digest) => documents::digest_value(&Digest(*digest)).into(),
            Self::Key(key) => Bson::Int64(*key),
        }
    }
}

/// The lists on which a record stands, each once.
pub(super) fn list_keys(digest: &Digest, keys: &[PostingKey]) -> BTreeSet<ListKey> {
    let keys = keys.iter().map(|key| ListKey::Key(key.key as i64));
    std::iter::once(ListKey::Digest(digest.0)).chain(keys).collect()
}

/// The lists on which a stored signature stands, as far as they were read; each once.
pub(super) fn stored_list_keys(signature: &RawDocument) -> doppel_store::Result<BTreeSet<ListKey>> {
    let mut all = BTreeSet::new();
    if signature.get("digest").map_err(damaged)?.is_some() {
        all.insert(ListKey::Digest(documents::digest_of(signature)?.0));
    }
    if let Some(RawBsonRef::Array(keys)) = signature.get("keys").map_err(damaged)? {
        for key in keys {
            let key = key.map_err(damaged)?.as_i64().ok_or_else(|| damaged("a key is not a number"))?;
            all.insert(ListKey::Key(key));
        }
    }
    Ok(all)
}

/// Adds a record that comes after all others to a list; whether it was not full.
pub(super) fn append(list: &mut Arc<Postings>, posting: &Posting) -> bool {
    let has_room = list.len() < LIMIT;
    if has_room {
        Arc::make_mut(list).push(posting.clone());
    }
    has_room
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
pub(super) fn posting(signature: &RawDocument) -> doppel_store::Result<Posting> {
    let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?.into();
    Ok(Posting { id, seq: seq_of(signature.get_i64("seq").map_err(damaged)?) })
}
