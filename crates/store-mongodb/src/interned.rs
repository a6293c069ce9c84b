//! Posting lists with shared ids: a record is in a dozen lists, but its id is stored once.

use std::sync::Arc;

use hashbrown::HashSet;

use super::postings::{LIMIT, ListKey, ListsByKey, PostingList, RecordPosting, append};

/// Size in bytes of a list without its postings: its key and its place in the map, its header and reference counts, and the
/// overhead of the allocator.
pub(super) const LIST_BYTES: usize = 160;
/// Size in bytes of an id without its characters: its place in the set, its reference counts, and the overhead of the allocator.
const ID_BYTES: usize = 64;

/// Lists that share the ids of their postings.
#[derive(Debug, Default)]
pub(super) struct InternedLists {
    lists: ListsByKey,
    /// The sum of the capacities of all lists.
    room: usize,
    /// The ids of all posting lists. Ids of removed lists stay until the next [`InternedLists::halve`].
    ids: HashSet<Arc<str>>,
    id_bytes: usize,
}

impl InternedLists {
    pub(super) fn get(&self, key: &ListKey) -> Option<&Arc<PostingList>> {
        self.lists.get(key)
    }

    /// Adds a list unless the key already has one. O(length).
    pub(super) fn add(&mut self, key: ListKey, list: &[RecordPosting]) {
        if self.lists.contains_key(&key) {
            return;
        }
        let own = Arc::new(list.iter().map(|posting| self.interned(posting)).collect::<PostingList>());
        self.room += own.capacity();
        self.lists.insert(key, own);
    }

    /// Returns the posting with the stored id, and stores the id if it is new.
    fn interned(&mut self, posting: &RecordPosting) -> RecordPosting {
        let id = self.ids.get_or_insert_with(&*posting.id, |_| {
            self.id_bytes += posting.id.len() + ID_BYTES;
            Arc::clone(&posting.id)
        });
        RecordPosting { id: Arc::clone(id), seq: posting.seq }
    }

    /// Replaces a list by a longer list that begins with the same records. O(number of new records).
    pub(super) fn put(&mut self, key: ListKey, list: Arc<PostingList>) {
        let before = self.lists.get(&key).map_or(0, |list| list.len());
        self.remove(&key);
        list.iter().skip(before).for_each(|posting| _ = self.interned(posting));
        self.room += list.capacity();
        self.lists.insert(key, list);
    }

    /// Adds a record that is later than all others, if the list is stored.
    pub(super) fn append(&mut self, key: &ListKey, posting: &RecordPosting) {
        if self.lists.get(key).is_none_or(|list| list.len() >= LIMIT) {
            return;
        }
        let posting = self.interned(posting);
        if let Some(list) = self.lists.get_mut(key) {
            let before = list.capacity();
            append(list, &posting);
            self.room = self.room + list.capacity() - before;
        }
    }

    pub(super) fn remove(&mut self, key: &ListKey) {
        if let Some(list) = self.lists.remove(key) {
            self.room -= list.capacity();
        }
    }

    /// Removes every second list.
    pub(super) fn halve(&mut self) {
        let mut stays = false;
        self.lists.retain(|_, list| {
            stays = !stays;
            self.room -= if stays { 0 } else { list.capacity() };
            stays
        });
        self.lists.shrink_to_fit();
        self.ids.retain(|id| Arc::strong_count(id) > 1);
        self.ids.shrink_to_fit();
        self.id_bytes = self.ids.iter().map(|id| id.len() + ID_BYTES).sum();
    }

    /// Returns the approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lists.len() * LIST_BYTES + self.room * size_of::<RecordPosting>() + self.id_bytes
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ListKey, &Arc<PostingList>)> {
        self.lists.iter()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Returns the size in bytes, computed from the lists.
    #[cfg(test)]
    pub(super) fn counted_bytes(&self) -> usize {
        let room: usize = self.lists.values().map(|list| list.capacity()).sum();
        let ids: usize = self.ids.iter().map(|id| id.len() + ID_BYTES).sum();
        self.lists.len() * LIST_BYTES + room * size_of::<RecordPosting>() + ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::Seq;

    fn list(seqs: std::ops::Range<u64>) -> PostingList {
        seqs.map(|seq| RecordPosting { id: format!("r{seq}").into(), seq: Seq(seq) }).collect()
    }

    #[test]
    fn a_list_grows_until_it_is_full() {
        let mut lists = InternedLists::default();
        let key = ListKey::Key(1);
        lists.add(key, &list(0..8));
        list(8..LIMIT as u64 + 20).iter().for_each(|posting| lists.append(&key, posting));
        assert_eq!(lists.get(&key).map(|kept| &**kept), Some(&list(0..LIMIT as u64)));
        assert_eq!(lists.bytes(), lists.counted_bytes());
    }

    #[test]
    fn an_id_is_stored_once_and_the_size_in_bytes_is_right() {
        let mut lists = InternedLists::default();
        (0..10).for_each(|key| lists.add(ListKey::Key(key), &list(0..100)));
        let ids: usize = (0..100).map(|seq| format!("r{seq}").len() + ID_BYTES).sum();
        assert_eq!(lists.bytes(), 10 * LIST_BYTES + 1000 * size_of::<RecordPosting>() + ids);
        let [first, last] = [0, 9].map(|key| lists.get(&ListKey::Key(key)).expect("it is kept")[7].id.as_ptr());
        assert_eq!(first, last);
        lists.append(&ListKey::Key(3), &list(100..101)[0]);
        lists.append(&ListKey::Key(77), &list(100..101)[0]);
        let longer = Arc::new(list(0..102));
        lists.put(ListKey::Key(3), Arc::clone(&longer));
        assert_eq!(lists.get(&ListKey::Key(3)), Some(&longer));
        drop(longer);
        assert_eq!(lists.bytes(), lists.counted_bytes());
        lists.halve();
        assert_eq!((lists.len(), lists.bytes()), (5, lists.counted_bytes()));
        let keys: Vec<ListKey> = lists.iter().map(|(key, _)| *key).collect();
        keys.iter().for_each(|key| lists.remove(key));
        lists.halve();
        assert_eq!(lists.bytes(), 0);
    }
}
