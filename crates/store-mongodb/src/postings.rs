//! Reading the postings of digests and keys.
//!
//! A digest and a key give their [`POSTINGS_PER_KEY`] earliest records and say whether there are more, whatever the length of
//! their lists: what is read is bounded.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use super::Shared;
use super::documents::{self, SIGNATURES, damaged, seq_of};
use super::finds::{Find, Rows};
use super::read::GenerationKey;
use super::retry::TxnError;
use super::server::Topology;
use doppel_core::index::{POSTINGS_PER_KEY, looked_up};
use doppel_core::record::MAX_ID_BYTES;
use doppel_core::schemes::profile::{Digest, PostingKey, Signed};
use doppel_store::Seq;

/// Digests or keys whose records are read at once.
const GROUP: usize = 32;
/// Records with any of a group that are read at once. Where there are more, those digests and keys that these do not show wholly are read
/// next.
const GROUP_LIMIT: usize = POSTINGS_PER_KEY;
/// The field that has a signature's keys.
const KEYS: &str = "keys";
/// Bytes of a signature as it is joined, at most: its id, a digest or a group of keys with their places in an array, seq and names.
const SIGNATURE_BYTES: usize = MAX_ID_BYTES + GROUP * 12 + 128;

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
    lists: BTreeSet<ListKey>,
}

/// Digests or keys that are read at once.
struct Group {
    field: &'static str,
    keys: Vec<ListKey>,
}

impl PostingQuery {
    /// Adds what is asked for one record.
    pub(super) fn add(&mut self, digest: Option<&Digest>, keys: &[PostingKey]) {
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

    /// What is asked for records that are signed so.
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Signed>) -> Self {
        let mut question = Self::default();
        all.for_each(|signed| question.add(Some(&signed.digest), &signed.keys));
        question
    }

    /// What these lists hold.
    pub(super) fn of_lists(lists: impl Iterator<Item = ListKey>) -> Self {
        Self { lists: lists.collect() }
    }

    /// Takes out what `is_known`.
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

    /// Finds records with any of a group of digests or keys, for each group: one more than [`GROUP_LIMIT`], if there are more.
    pub(super) fn finds(&self, place: GenerationKey) -> Vec<Find> {
        self.groups().map(|group| group.find(place)).collect()
    }

    fn groups(&self) -> impl Iterator<Item = Group> {
        let (digests, keys): (Vec<ListKey>, Vec<ListKey>) =
            self.lists.iter().partition(|key| matches!(key, ListKey::Digest(_)));
        [("digest", digests), (KEYS, keys)].into_iter().flat_map(|(field, keys)| {
            let groups: Vec<Group> = keys.chunks(GROUP).map(|keys| Group { field, keys: keys.to_vec() }).collect();
            groups
        })
    }
}

impl Group {
    fn find(&self, place: GenerationKey) -> Find {
        let field = self.field;
        let values: Vec<Bson> = self.keys.iter().map(ListKey::value).collect();
        let filter = within(place, doc! { field: { "$in": &values } });
        let wanted = doc! { "seq": 1, field: 1 };
        // The indexes are called as the fields.
        let find = Find::new(SIGNATURES, filter, wanted, (GROUP_LIMIT + 1, SIGNATURE_BYTES)).by(field);
        if field == KEYS { find.only(field, values) } else { find }
    }

    /// Takes the keys whose lists `rows`, what [`Group::find`] found, show wholly out of the group, in their order, and gives their
    /// lists. Where there are more rows than were asked for, these are the first keys, one at least; `None` where the rows do not surely
    /// come in the order of the index then: by the first key of the group that they have, each once, and by seq.
    fn take_whole(&mut self, rows: &Rows) -> doppel_store::Result<Option<Vec<(ListKey, Postings)>>> {
        let mut lists = vec![Postings::default(); self.keys.len()];
        let (mut last, mut in_order) = ((0, Seq(0)), rows.are_by_index());
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
            // Of the key that was being read, all records up to this one are there.
            lists[at].retain(|posting| posting.seq <= seq);
            cut(&mut lists[at]);
            whole = if lists[at].len() < LIMIT { at } else { at + 1 };
        }
        Ok(Some(self.keys.drain(..whole).zip(lists).collect()))
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

    /// The lists that were asked for.
    pub(super) fn lists(&self) -> impl Iterator<Item = (&ListKey, &Arc<Postings>)> {
        self.lists.iter()
    }

    /// Whether a list was asked for.
    pub(super) fn has(&self, key: &ListKey) -> bool {
        self.lists.contains_key(key)
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
    /// What is filed under all digests and keys, where `found` is what [`PostingQuery::finds`] found. A round trip for every 256 records
    /// more that share some of a group.
    pub(super) async fn filed(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        question: &PostingQuery,
        found: Vec<Rows>,
    ) -> Result<Answer, TxnError> {
        let mut all: HashMap<ListKey, Postings> =
            question.lists.iter().map(|key| (*key, Postings::default())).collect();
        if found.len() != question.groups().count() {
            return Err(damaged("a group of keys has no answer").into());
        }
        let mut out_of_order = Vec::new();
        for (mut group, mut found) in question.groups().zip(found) {
            loop {
                match group.take_whole(&found)? {
                    Some(whole) => all.extend(whole),
                    None if found.are_by_index() || self.topology != Topology::ReplicaSet => break,
                    // They were joined. One command of its own names the index.
                    None => {}
                }
                if group.keys.is_empty() {
                    break;
                }
                found = self.find_one(session, group.find(place)).await?;
            }
            out_of_order.extend(group.keys.iter().map(|key| (*key, doc! { group.field: key.value() })));
        }
        all.extend(self.each_bounded(session, place, out_of_order).await?);
        let lists = all.into_iter().map(|(key, mut list)| {
            cut(&mut list);
            (key, Arc::new(list))
        });
        Ok(Answer { lists: lists.collect(), others: Vec::new() })
    }

    /// The earliest records of each digest or key: each list an index range of bounded length, whatever is behind it. For every 128 of
    /// them one round trip; on a cluster, whose servers give rows in no common order, one for each.
    async fn each_bounded(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        filters: Vec<(ListKey, Document)>,
    ) -> Result<HashMap<ListKey, Postings>, TxnError> {
        let mut all = HashMap::with_capacity(filters.len());
        let (keys, filters): (Vec<ListKey>, Vec<Document>) = filters.into_iter().unzip();
        let finds = filters.into_iter().map(|filter| {
            let find = Find::new(SIGNATURES, within(place, filter), doc! { "seq": 1 }, (LIMIT, POSTING_BYTES));
            find.sorted(doc! { "seq": 1 })
        });
        let found = self.find_all(session, finds.collect()).await?;
        for (key, found) in keys.into_iter().zip(found) {
            let list = found.iter().map(|row| posting(row?));
            all.insert(key, list.collect::<doppel_store::Result<_>>()?);
        }
        Ok(all)
    }
}

/// Bytes of a signature of which nothing is read but its id and seq, at most.
const POSTING_BYTES: usize = MAX_ID_BYTES + 128;
/// Postings of a list: one more than may be used, so that it shows whether there are more.
pub(super) const LIMIT: usize = POSTINGS_PER_KEY + 1;

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
    see_list_keys(signature, |key| _ = all.insert(key))?;
    Ok(all)
}

/// Calls `see` with the lists on which a stored signature stands, as far as they were read.
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

/// Of a signature.
pub(super) fn posting(signature: &RawDocument) -> doppel_store::Result<Posting> {
    let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?.into();
    Ok(Posting { id, seq: seq_of(signature.get_i64("seq").map_err(damaged)?) })
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
    fn a_signature_of_the_longest_id_has_no_more_bytes_than_a_find_reckons_with() {
        let id = id(&"x".repeat(MAX_ID_BYTES));
        let _id = documents::signature_key(documents::Number::MAX, GenerationId(u32::MAX), &id);
        let alone = doc! { "_id": _id, "seq": i64::MAX };
        let joined = |field: &str, value: Bson| {
            let mut joined = alone.clone();
            joined.insert(field, value);
            RawDocumentBuf::try_from(&joined).expect("it can be encoded").as_bytes().len()
        };
        let key = PostingKey { channel: ChannelPosition(1), key: u64::MAX };
        let keys: Vec<Bson> = (0..GROUP).map(|_| ListKey::Key(key.key as i64).value()).collect();
        let with_keys = joined(KEYS, keys.into());
        let with_digest = joined("digest", ListKey::Digest([255; 32]).value());
        assert!(
            (SIGNATURE_BYTES / 2..=SIGNATURE_BYTES).contains(&with_keys.max(with_digest)),
            "{with_keys} {with_digest}"
        );
        let alone = RawDocumentBuf::try_from(&alone).expect("it can be encoded").as_bytes().len();
        assert!((POSTING_BYTES / 2..=POSTING_BYTES).contains(&alone), "{alone}");
    }

    /// Signatures as a find gives them that walks the index of `keys`: by the first of these that each has, then by seq.
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

    fn found<'d>(rows: impl Iterator<Item = &'d Document>) -> Rows {
        Rows::made_up(&rows.take(GROUP_LIMIT + 1).collect::<Vec<_>>(), true)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// However many records share keys of a group, all lists end up whole, up to their limit.
        #[test]
        fn lists_of_a_group_are_the_earliest_records_of_each_key(
            // A high draw has one key, a low one several of the popular ones.
            draws in prop::collection::vec(prop::collection::btree_set(prop_oneof![0..3_i64, 0..12_i64, 0..40_i64], 0..4), 0..2_500),
            asked in prop::collection::btree_set(0..40_i64, 1..24),
        ) {
            let stored: Vec<(Seq, BTreeSet<i64>)> =
                draws.into_iter().enumerate().map(|(at, keys)| (Seq(at as u64 + 1), keys)).collect();
            let mut group = Group { field: KEYS, keys: asked.into_iter().map(ListKey::Key).collect() };
            let mut unread = group.keys.len();
            while !group.keys.is_empty() {
                let rows = found(walked(&stored, &group.keys).iter());
                let whole = group.take_whole(&rows).expect("rows").expect("in order");
                prop_assert!(!whole.is_empty());
                for (key, mut list) in whole {
                    cut(&mut list);
                    let has = |own: &BTreeSet<i64>| matches!(key, ListKey::Key(key) if own.contains(&key));
                    let all = stored.iter().filter(|(_, own)| has(own));
                    let all: Vec<Seq> = all.map(|(seq, _)| *seq).take(LIMIT).collect();
                    prop_assert_eq!(list.iter().map(|posting| posting.seq).collect::<Vec<_>>(), all);
                    unread -= 1;
                }
            }
            prop_assert_eq!(unread, 0);
        }
    }

    #[test]
    fn rows_in_another_order_than_that_of_the_index_show_nothing_but_if_there_are_no_more() {
        let stored: Vec<(Seq, BTreeSet<i64>)> =
            (1..=1_000).map(|seq| (Seq(seq), BTreeSet::from([seq as i64 % 7]))).collect();
        let group = || Group { field: KEYS, keys: (0..7).map(ListKey::Key).collect() };
        let rows = walked(&stored, &group().keys);
        assert!(group().take_whole(&found(rows.iter().rev())).expect("rows").is_none());
        // The first records have the first key, but so have later ones: by another index these rows come in the order of seqs, too.
        let key_of = |seq: u64| if (11..300).contains(&seq) { 6 } else { 0 };
        let stored: Vec<(Seq, BTreeSet<i64>)> =
            (1..=1_000).map(|seq| (Seq(seq), BTreeSet::from([key_of(seq)]))).collect();
        let mut by_seq = walked(&stored, &group().keys);
        by_seq.sort_by_key(|row| row.get_i64("seq").expect("a seq"));
        let joined: Vec<&Document> = by_seq.iter().take(GROUP_LIMIT + 1).collect();
        assert!(group().take_whole(&Rows::made_up(&joined, false)).expect("rows").is_none());
        let whole =
            group().take_whole(&found(rows.iter().take(GROUP_LIMIT).rev())).expect("rows").expect("that is all");
        assert_eq!(whole.len(), 7);
    }
}
