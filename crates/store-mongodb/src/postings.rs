//! Reads the posting lists of digests and keys.
//!
//! A list gives its first [`POSTINGS_PER_KEY`] records in the [`ProposalOrder`] of the generation, and whether there are more. The number of
//! documents that are read is therefore bounded for lists of any length.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use super::SharedStore;
use super::documents::{self, SIGNATURES, damaged, seq_of};
use super::finds::{BoundedFind, FoundRows};
use super::read::GenerationKey;
use super::retry::TxnError;
use super::server::ServerTopology;
use doppel_core::index::{POSTINGS_PER_KEY, ProposalOrder, looked_up};
use doppel_core::record::MAX_ID_BYTES;
use doppel_core::schemes::profile::{Digest, PostingKey, Signed};
use doppel_store::Seq;

/// Number of digests or keys whose records are read at once.
const GROUP: usize = 32;
/// Number of records that are read at once for a group. If there are more, the next read is for those digests and keys whose lists
/// are incomplete.
const GROUP_LIMIT: usize = POSTINGS_PER_KEY;
/// The field of the keys of a signature.
const KEYS: &str = "keys";
/// Largest size in bytes of a signature in a join: its id, a digest or a group of keys with their positions in an array, the seq
/// and the field names.
const SIGNATURE_BYTES: usize = MAX_ID_BYTES + GROUP * 12 + 128;

/// A record in a posting list. Similar records share many keys, so that the id is shared between lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordPosting {
    pub(super) id: Arc<str>,
    pub(super) seq: Seq,
}

/// The first records of a key in the [`ProposalOrder`] of the generation, at most [`LIMIT`].
pub(super) type PostingList = Vec<RecordPosting>;

pub(super) type ListsByKey = HashMap<ListKey, Arc<PostingList>>;

/// The digest or key that the records of a list share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ListKey {
    Digest([u8; 32]),
    Key(i64),
}

/// The digests and keys to be read, of one record or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct PostingQuery {
    lists: BTreeSet<ListKey>,
}

/// Digests or keys that are read with one find.
struct KeyGroup {
    field: &'static str,
    keys: Vec<ListKey>,
}

impl PostingQuery {
    /// Adds the digest and the keys of one record.
    pub(super) fn add(&mut self, digest: Option<&Digest>, keys: &[PostingKey]) {
        self.lists.extend(digest.map(|digest| ListKey::Digest(digest.0)));
        self.lists.extend(looked_up(keys).0.map(|key| ListKey::Key(key.key as i64)));
    }

    /// Removes the lists that `known` returns, and returns them as an answer.
    pub(super) fn answer_from(&mut self, known: impl Fn(&ListKey) -> Option<Arc<PostingList>>) -> PostingAnswer {
        let mut answer = PostingAnswer::default();
        self.lists.retain(|key| match known(key) {
            Some(list) => answer.lists.insert(*key, list).is_some(),
            None => true,
        });
        answer
    }

    /// Returns the query for records with these signatures.
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Signed>) -> Self {
        let mut question = Self::default();
        all.for_each(|signed| question.add(Some(&signed.digest), &signed.keys));
        question
    }

    pub(super) fn of_lists(lists: impl Iterator<Item = ListKey>) -> Self {
        Self { lists: lists.collect() }
    }

    /// Removes the lists for which `is_known` is true.
    pub(super) fn leave_out(&mut self, is_known: impl Fn(&ListKey) -> bool) {
        self.lists.retain(|key| !is_known(key));
    }

    pub(super) fn has(&self, key: &ListKey) -> bool {
        self.lists.contains(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ListKey> {
        self.lists.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns one find for each group of digests or keys. A find returns [`GROUP_LIMIT`] + 1 records if there are more than
    /// [`GROUP_LIMIT`]. Lists of the latest records are not read in groups.
    pub(super) fn finds(&self, place: GenerationKey) -> Vec<BoundedFind> {
        match place.order {
            ProposalOrder::EarliestFirst => self.groups().map(|group| group.find(place)).collect(),
            ProposalOrder::LatestFirst => Vec::new(),
        }
    }

    fn groups(&self) -> impl Iterator<Item = KeyGroup> {
        let (digests, keys): (Vec<ListKey>, Vec<ListKey>) =
            self.lists.iter().partition(|key| matches!(key, ListKey::Digest(_)));
        [("digest", digests), (KEYS, keys)].into_iter().flat_map(|(field, keys)| {
            let groups: Vec<KeyGroup> =
                keys.chunks(GROUP).map(|keys| KeyGroup { field, keys: keys.to_vec() }).collect();
            groups
        })
    }
}

impl KeyGroup {
    fn find(&self, place: GenerationKey) -> BoundedFind {
        let field = self.field;
        let values: Vec<Bson> = self.keys.iter().map(ListKey::value).collect();
        let filter = within(place, doc! { field: { "$in": &values } });
        let wanted = doc! { "seq": 1, field: 1 };
        // The indexes have the names of the fields.
        let find = BoundedFind::new(SIGNATURES, filter, wanted, GROUP_LIMIT + 1, SIGNATURE_BYTES).by(field);
        if field == KEYS { find.only(field, values) } else { find }
    }

    /// Removes the keys with complete lists from the group, in order, and returns their lists. `rows` is the result of [`KeyGroup::find`].
    /// If the result was cut by the limit, the complete lists are those of the first keys, at least one. Returns `None` if the result was
    /// cut and its rows may not be in the order of the index. In this order, each row occurs once, at the first key of the group that the
    /// row has, and rows with the same key are sorted by seq.
    fn take_whole(&mut self, rows: &FoundRows) -> doppel_store::Result<Option<Vec<(ListKey, PostingList)>>> {
        let mut lists = vec![PostingList::default(); self.keys.len()];
        let mut last = (0, Seq(0));
        let mut in_order = rows.are_by_index();
        for row in rows.iter() {
            let row = row?;
            let posting = posting(row)?;
            let mut first = None;
            see_list_keys(row, |key| {
                if let Ok(at) = self.keys.binary_search(&key) {
                    first = Some(first.map_or(at, |first: usize| first.min(at)));
                    lists[at].push(posting.clone());
                }
            })?;
            let first = first.ok_or_else(|| damaged("a signature lacks the key that it was found by"))?;
            in_order &= last <= (first, posting.seq);
            last = (first, posting.seq);
        }
        let mut whole = self.keys.len();
        if rows.len() > GROUP_LIMIT {
            if !in_order {
                return Ok(None);
            }
            let (at, seq) = last;
            // The list of the last key is complete up to this record.
            lists[at].retain(|posting| posting.seq <= seq);
            cut(&mut lists[at]);
            whole = if lists[at].len() < LIMIT { at } else { at + 1 };
        }
        Ok(Some(self.keys.drain(..whole).zip(lists).collect()))
    }
}

/// The lists of a [`PostingQuery`].
#[derive(Clone, Debug, Default)]
pub(super) struct PostingAnswer {
    /// All lists of the query, including empty lists.
    lists: ListsByKey,
    /// Records that were added under keys outside the query.
    others: Vec<(ListKey, RecordPosting)>,
    order: ProposalOrder,
}

/// The postings of the digest and the keys of one record.
#[derive(Clone, Debug, Default)]
pub(super) struct FiledPostings<'a> {
    pub(super) digest: &'a [RecordPosting],
    /// The postings of the keys, in the order of the keys of the record.
    pub(super) keys: Vec<&'a [RecordPosting]>,
    pub(super) order: ProposalOrder,
}

impl PostingAnswer {
    /// Returns the postings of one record.
    pub(super) fn of(&self, digest: Option<&Digest>, keys: &[PostingKey]) -> FiledPostings<'_> {
        let digest = digest.map_or(&[][..], |digest| self.list(ListKey::Digest(digest.0)));
        let keys = looked_up(keys).0.map(|key| self.list(ListKey::Key(key.key as i64)));
        FiledPostings { digest, keys: keys.collect(), order: self.order }
    }

    fn list(&self, key: ListKey) -> &[RecordPosting] {
        self.lists.get(&key).map_or(&[][..], |list| list.as_slice())
    }

    /// Returns the lists of the query.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&ListKey, &Arc<PostingList>)> {
        self.lists.iter()
    }

    /// True if the query contained the list.
    pub(super) fn has(&self, key: &ListKey) -> bool {
        self.lists.contains_key(key)
    }

    /// Adds a record that is later than all others.
    pub(super) fn add(&mut self, posting: &RecordPosting, digest: &Digest, keys: &[PostingKey]) {
        for key in list_keys(digest, keys) {
            match self.lists.get_mut(&key) {
                Some(list) if self.order == ProposalOrder::LatestFirst => prepend(list, posting),
                Some(list) => _ = append(list, posting),
                None => self.others.push((key, posting.clone())),
            }
        }
    }

    /// Adds the answer to another query.
    pub(super) fn extend(&mut self, more: Self) {
        self.lists.extend(more.lists);
        self.others.extend(more.others);
        self.order = more.order;
    }

    /// Returns the lists of the query, and the records that were added under other keys, for a cache. Returns nothing for lists of the
    /// latest records, because they are not cached.
    pub(super) fn into_parts(self) -> (ListsByKey, Vec<(ListKey, RecordPosting)>) {
        match self.order {
            ProposalOrder::EarliestFirst => (self.lists, self.others),
            ProposalOrder::LatestFirst => Default::default(),
        }
    }

    /// Removes a record. Returns true if all lists are still complete; a list that was cut now lacks its next record.
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

impl SharedStore {
    /// Reads the postings of all digests and keys in `question`. `found` is the results of [`PostingQuery::finds`]. One more round
    /// trip for every 256 records that share keys of a group.
    pub(super) async fn filed(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        question: &PostingQuery,
        found: Vec<FoundRows>,
    ) -> Result<PostingAnswer, TxnError> {
        let mut all: HashMap<ListKey, PostingList> =
            question.lists.iter().map(|key| (*key, PostingList::default())).collect();
        if place.order == ProposalOrder::LatestFirst {
            let lists = question.lists.iter().map(|key| (*key, key.filter())).collect();
            all.extend(self.each_bounded(session, place, lists).await?);
            let lists = all.into_iter().map(|(key, list)| (key, Arc::new(list))).collect();
            return Ok(PostingAnswer { lists, others: Vec::new(), order: place.order });
        }
        if found.len() != question.groups().count() {
            return Err(damaged("a group of keys has no answer").into());
        }
        let mut out_of_order = Vec::new();
        for (mut group, mut found) in question.groups().zip(found) {
            loop {
                match group.take_whole(&found)? {
                    Some(whole) => all.extend(whole),
                    None if found.are_by_index() || self.topology != ServerTopology::ReplicaSet => break,
                    // The rows were joined. A separate command names the index.
                    None => {}
                }
                if group.keys.is_empty() {
                    break;
                }
                found = self.find_one(session, group.find(place)).await?;
            }
            out_of_order.extend(group.keys.iter().map(|key| (*key, key.filter())));
        }
        all.extend(self.each_bounded(session, place, out_of_order).await?);
        let lists = all.into_iter().map(|(key, mut list)| {
            cut(&mut list);
            (key, Arc::new(list))
        });
        Ok(PostingAnswer { lists: lists.collect(), others: Vec::new(), order: place.order })
    }

    /// Reads the first records of each digest or key. Each list is a range of the index with a bounded length. One round trip for every 128
    /// lists; on a cluster, one round trip for each list, because the shards have no common order.
    async fn each_bounded(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        filters: Vec<(ListKey, Document)>,
    ) -> Result<HashMap<ListKey, PostingList>, TxnError> {
        let mut all = HashMap::with_capacity(filters.len());
        let (keys, filters): (Vec<ListKey>, Vec<Document>) = filters.into_iter().unzip();
        let direction = if place.order == ProposalOrder::LatestFirst { -1 } else { 1 };
        let finds = filters.into_iter().map(|filter| {
            let find = BoundedFind::new(SIGNATURES, within(place, filter), doc! { "seq": 1 }, LIMIT, POSTING_BYTES);
            find.sorted(doc! { "seq": direction })
        });
        let found = self.find_all(session, finds.collect()).await?;
        for (key, found) in keys.into_iter().zip(found) {
            let list = found.iter().map(|row| posting(row?));
            all.insert(key, list.collect::<doppel_store::Result<_>>()?);
        }
        Ok(all)
    }
}

/// Largest size in bytes of a signature of which only id and seq are read.
const POSTING_BYTES: usize = MAX_ID_BYTES + 128;
/// Largest length of a list: one record more than is used, so that the length shows whether more records exist.
pub(super) const LIMIT: usize = POSTINGS_PER_KEY + 1;

impl ListKey {
    /// Returns the condition that the list contains a signature.
    fn filter(&self) -> Document {
        match self {
            Self::Digest(_) => doc! { "digest": self.value() },
            Self::Key(_) => doc! { KEYS: self.value() },
        }
    }

    /// Returns the value in the database.
    fn value(&self) -> Bson {
        match self {
            Self::Digest(digest) => documents::digest_value(&Digest(*digest)).into(),
            Self::Key(key) => Bson::Int64(*key),
        }
    }
}

/// Returns the keys of the lists that contain a record, each once.
pub(super) fn list_keys(digest: &Digest, keys: &[PostingKey]) -> BTreeSet<ListKey> {
    let keys = keys.iter().map(|key| ListKey::Key(key.key as i64));
    std::iter::once(ListKey::Digest(digest.0)).chain(keys).collect()
}

/// Returns the keys of the lists that contain the record of a stored signature, for the fields that were read; each once.
pub(super) fn stored_list_keys(signature: &RawDocument) -> doppel_store::Result<BTreeSet<ListKey>> {
    let mut all = BTreeSet::new();
    see_list_keys(signature, |key| _ = all.insert(key))?;
    Ok(all)
}

/// Calls `see` with the keys of the lists that contain the record of a stored signature, for the fields that were read.
fn see_list_keys(signature: &RawDocument, mut see: impl FnMut(ListKey)) -> doppel_store::Result<()> {
    if signature.get("digest").map_err(damaged)?.is_some() {
        see(ListKey::Digest(documents::digest_of(signature)?.0));
    }
    if let Some(RawBsonRef::Array(keys)) = signature.get(KEYS).map_err(damaged)? {
        for key in keys {
            let key = key.map_err(damaged)?.as_i64().ok_or_else(|| damaged("a key is not a number"))?;
            see(ListKey::Key(key));
        }
    }
    Ok(())
}

/// Adds a record that is later than all others to a list. Returns true if the list was not full.
pub(super) fn append(list: &mut Arc<PostingList>, posting: &RecordPosting) -> bool {
    let has_room = list.len() < LIMIT;
    if has_room {
        Arc::make_mut(list).push(posting.clone());
    }
    has_room
}

/// Adds a record that is later than all others to a list of the latest records.
fn prepend(list: &mut Arc<PostingList>, posting: &RecordPosting) {
    let list = Arc::make_mut(list);
    list.insert(0, posting.clone());
    list.truncate(LIMIT);
}

/// Sorts a list, removes repeated records, and keeps the earliest.
fn cut(list: &mut PostingList) {
    list.sort_unstable_by_key(|posting| posting.seq);
    list.dedup();
    list.truncate(LIMIT);
}

fn within(place: GenerationKey, what: Document) -> Document {
    let mut filter = doc! { "_id.c": place.number, "_id.g": place.generation.0 as i32 };
    filter.extend(what);
    filter
}

/// Decodes the posting of a signature.
pub(super) fn posting(signature: &RawDocument) -> doppel_store::Result<RecordPosting> {
    let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?.into();
    Ok(RecordPosting { id, seq: seq_of(signature.get_i64("seq").map_err(damaged)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::ChannelPosition;
    use doppel_store::GenerationId;
    use doppel_store::conformance::id;
    use mongodb::bson::RawDocumentBuf;
    use proptest::prelude::*;

    #[test]
    fn the_limits_of_bytes_hold_for_a_signature_of_the_longest_id() {
        let id = id(&"x".repeat(MAX_ID_BYTES));
        let _id = documents::signature_key(documents::StoredNumber::MAX, GenerationId(u32::MAX), &id);
        let alone = doc! { "_id": _id, "seq": i64::MAX };
        let key = PostingKey { channel: ChannelPosition(1), key: u64::MAX };
        let keys: Vec<Bson> = (0..GROUP).map(|_| ListKey::Key(key.key as i64).value()).collect();
        let mut with_keys = alone.clone();
        with_keys.insert(KEYS, keys);
        let mut with_digest = alone.clone();
        with_digest.insert("digest", ListKey::Digest([255; 32]).value());
        let with_keys = encoded_bytes(&with_keys);
        let with_digest = encoded_bytes(&with_digest);
        assert!(
            (SIGNATURE_BYTES / 2..=SIGNATURE_BYTES).contains(&with_keys.max(with_digest)),
            "{with_keys} {with_digest}"
        );
        let alone = encoded_bytes(&alone);
        assert!((POSTING_BYTES / 2..=POSTING_BYTES).contains(&alone), "{alone}");
    }

    fn encoded_bytes(document: &Document) -> usize {
        RawDocumentBuf::try_from(document).expect("it can be encoded").as_bytes().len()
    }

    /// Returns signatures in the order of the index of `keys`: by the first of these keys that each signature has, then by seq.
    fn walked(stored: &[(Seq, BTreeSet<i64>)], keys: &[ListKey]) -> Vec<Document> {
        let mut rows = Vec::new();
        for (seq, own) in stored {
            let first = keys.iter().position(|key| matches!(key, ListKey::Key(key) if own.contains(key)));
            rows.extend(first.map(|first| (first, *seq, own)));
        }
        rows.sort();
        let rows = rows.into_iter().map(|(_, seq, own)| {
            let id = doc! { "c": 1, "g": 1, "id": format!("r{seq}") };
            let own: Vec<i64> = own.iter().copied().collect();
            doc! { "_id": id, "seq": i64::try_from(seq.0).expect("a small seq"), "keys": own }
        });
        rows.collect()
    }

    fn found<'d>(rows: impl Iterator<Item = &'d Document>) -> FoundRows {
        FoundRows::made_up(&rows.take(GROUP_LIMIT + 1).collect::<Vec<_>>(), true)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Checks that all lists are complete up to their limit, for any number of records that share keys of a group.
        #[test]
        fn lists_of_a_group_are_the_earliest_records_of_each_key(
            // Keys of low numbers are popular.
            draws in prop::collection::vec(prop::collection::btree_set(prop_oneof![0..3_i64, 0..12_i64, 0..40_i64], 0..4), 0..2_500),
            asked in prop::collection::btree_set(0..40_i64, 1..24),
        ) {
            let stored: Vec<(Seq, BTreeSet<i64>)> =
                draws.into_iter().enumerate().map(|(at, keys)| (Seq(at as u64 + 1), keys)).collect();
            let mut group = KeyGroup { field: KEYS, keys: asked.into_iter().map(ListKey::Key).collect() };
            let mut unread = group.keys.len();
            while !group.keys.is_empty() {
                let rows = found(walked(&stored, &group.keys).iter());
                let whole = group.take_whole(&rows).expect("rows").expect("in order");
                prop_assert!(!whole.is_empty());
                for (key, mut list) in whole {
                    cut(&mut list);
                    let all = stored.iter().filter(|(_, own)| matches!(key, ListKey::Key(key) if own.contains(&key)));
                    let all: Vec<Seq> = all.map(|(seq, _)| *seq).take(LIMIT).collect();
                    prop_assert_eq!(list.iter().map(|posting| posting.seq).collect::<Vec<_>>(), all);
                    unread -= 1;
                }
            }
            prop_assert_eq!(unread, 0);
        }
    }

    #[test]
    fn rows_in_another_order_than_the_index_give_lists_only_if_there_are_no_more_rows() {
        let stored: Vec<(Seq, BTreeSet<i64>)> =
            (1..=1_000).map(|seq| (Seq(seq), BTreeSet::from([seq as i64 % 7]))).collect();
        let rows = walked(&stored, &group_of_seven().keys);
        assert!(group_of_seven().take_whole(&found(rows.iter().rev())).expect("rows").is_none());
        // The first records have the first key, and so have later records. With another index, these rows are also in the order of
        // seqs.
        let stored: Vec<(Seq, BTreeSet<i64>)> =
            (1..=1_000).map(|seq| (Seq(seq), BTreeSet::from([if (11..300).contains(&seq) { 6 } else { 0 }]))).collect();
        let mut by_seq = walked(&stored, &group_of_seven().keys);
        by_seq.sort_by_key(|row| row.get_i64("seq").expect("a seq"));
        let joined: Vec<&Document> = by_seq.iter().take(GROUP_LIMIT + 1).collect();
        assert!(group_of_seven().take_whole(&FoundRows::made_up(&joined, false)).expect("rows").is_none());
        let found = found(rows.iter().take(GROUP_LIMIT).rev());
        let whole = group_of_seven().take_whole(&found).expect("rows").expect("that is all");
        assert_eq!(whole.len(), 7);
    }

    fn group_of_seven() -> KeyGroup {
        KeyGroup { field: KEYS, keys: (0..7).map(ListKey::Key).collect() }
    }
}
