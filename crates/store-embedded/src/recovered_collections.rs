//! Recovered collections: collections without an entry in `meta`, which are found by the numbers in the keys of their records.
//!
//! They are only looked for in a store that is opened with [`super::EmbeddedOptions::damages`]. Such a collection gets a name from its
//! number, the default settings and its last generation; a note in the damages reports it.

use std::collections::BTreeSet;
use std::sync::Arc;

use fjall::Snapshot;

use super::disk::Disk;
use super::keyspaces::Space;
use super::layout::{self, CollectionEntry};
use super::scan::{DamageKind, Damages};
use doppel_core::collection::{CollectionName, Settings};
use doppel_store::{CollectionNumber, CollectionSpec, CollectionState, GenerationId, Result, Seq, StoreError};

/// The time of creation of recovered collections, which is unknown.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";

/// Adds the collections behind damages to `entries`, and then the collections that have records or ids and no entry, and that were
/// not dropped. Adds nothing if damages are not skipped. It reads one or two blocks for each collection, and the damaged blocks.
pub(super) fn add(disk: &Disk, view: &Arc<Snapshot>, entries: &mut Vec<CollectionEntry>) -> Result<()> {
    let Some(damages) = disk.damages() else { return Ok(()) };
    let mut known: BTreeSet<CollectionNumber> = entries.iter().map(|entry| entry.number).collect();
    // The reader of the entries in order has stopped at the first damage.
    let behind = disk.last_first(view, Space::Meta, layout::PREFIX_COLLECTION);
    let behind = behind.filter_map(|value| serde_json::from_slice::<CollectionEntry>(&value).ok());
    entries.extend(behind.filter(|entry| known.insert(entry.number)));
    let mut taken: BTreeSet<CollectionName> = entries.iter().map(|entry| entry.state.name.clone()).collect();
    for number in numbers(disk, view, &known) {
        // If the tombstone cannot be read either, an additional collection does no harm.
        if let Ok(Some(_)) = disk.get(view, Space::Meta, &layout::tombstone_key(number)) {
            continue;
        }
        damages.note_collection(DamageKind::Name, number);
        let name = free_name(number, &taken)?;
        taken.insert(name.clone());
        // The profile that signed its records is also unknown.
        let settings = Settings::default();
        let profile = String::new();
        let spec = CollectionSpec { name, settings, profile, hash_key: None, now: UNKNOWN_TIME.to_owned() };
        let first = CollectionState::first(number, spec);
        let state = CollectionState { generation: last_generation(disk, view, number), ..first };
        entries.push(CollectionEntry { number, next_generation: GenerationId(0), state });
    }
    Ok(())
}

/// Returns the last generation of a collection that has index entries; the first generation if no generation can be read.
fn last_generation(disk: &Disk, view: &Arc<Snapshot>, number: CollectionNumber) -> GenerationId {
    let mut last = GenerationId(1);
    let mut next = last;
    loop {
        let from = layout::signature_key(number, next, Seq(0));
        let Ok(Some(key)) = disk.first_from(view, Space::Signatures, &from) else { return last };
        let Some(found) = layout::generation_of_key(&key).filter(|_| layout::number_of_key(&key) == Some(number))
        else {
            return last;
        };
        last = found;
        next = found.next();
    }
}

/// Reads all records of a collection once, and returns the next seq and the number of records.
pub(super) fn count(
    disk: &Disk,
    view: &Arc<Snapshot>,
    number: CollectionNumber,
    damages: &Damages,
) -> Result<(Seq, u64)> {
    damages.note_collection(DamageKind::Count, number);
    let mut counted = (Seq(1), 0);
    for entry in disk.prefix(view, Space::Records, &number.0.to_be_bytes()) {
        counted = (layout::seq_of_key(&entry?.0)?.next(), counted.1 + 1);
    }
    Ok(counted)
}

/// Returns all other numbers with a readable record or id.
fn numbers(disk: &Disk, view: &Arc<Snapshot>, known: &BTreeSet<CollectionNumber>) -> BTreeSet<CollectionNumber> {
    let mut numbers = BTreeSet::new();
    for space in [Space::Records, Space::Ids] {
        let mut next = Some(0);
        while let Some(number) = next.map(CollectionNumber) {
            let number = match disk.first_from(view, space, &number.0.to_be_bytes()) {
                Ok(None) => break,
                Ok(Some(key)) => layout::number_of_key(&key).unwrap_or(number),
                // It is unknown whether this number begins there.
                Err(_) => number,
            };
            let has_any = matches!(disk.prefix(view, space, &number.0.to_be_bytes()).next(), Some(Ok(_)));
            if !known.contains(&number) && has_any {
                numbers.insert(number);
            }
            next = number.0.checked_add(1);
        }
    }
    numbers
}

/// Returns an unused name for the collection.
fn free_name(number: CollectionNumber, taken: &BTreeSet<CollectionName>) -> Result<CollectionName> {
    let first = format!("collection-{number}");
    let names = std::iter::once(first.clone()).chain((2..).map(|turn| format!("{first}-{turn}")));
    let mut free = names.filter_map(|name| CollectionName::new(&name).ok()).filter(|name| !taken.contains(name));
    free.next().ok_or_else(|| StoreError::Internal(format!("there is no name left for collection {number}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::*;
    use crate::EmbeddedOptions;
    use crate::keyspaces::{NAMES, WriteOp};
    use crate::load;
    use crate::options::{FRESH, Opening, OpeningMode, Workers};

    const RECORDS: u64 = 190;
    /// Size of a block of twenty records in bytes.
    const BLOCK_BYTES: u64 = 4_229;

    fn entry(number: CollectionNumber, name: &str) -> CollectionEntry {
        let name = CollectionName::new(name).expect("a name");
        let settings = Settings::default();
        let profile = String::new();
        let now = String::new();
        let spec = CollectionSpec { name, settings, profile, hash_key: None, now };
        let state = CollectionState::first(number, spec);
        CollectionEntry { number, next_generation: GenerationId(2), state }
    }

    /// Makes a directory with three collections in tables, and their records. The second collection is dropped and not yet deleted.
    fn directory(dir: &Path) {
        let disk = Disk::open(dir, &EmbeddedOptions::default(), FRESH).expect("an empty directory opens");
        let mut ops = vec![put_meta(layout::tombstone_key(CollectionNumber(2)), Vec::new())];
        for (number, name) in [(1, "lamps"), (3, "trees")] {
            let value = serde_json::to_vec(&entry(CollectionNumber(number), name)).expect("JSON");
            ops.push(put_meta(layout::collection_key(name), value));
        }
        for number in 1..=3_u32 {
            let numbers = layout::encode_numbers(Seq(RECORDS + 1), RECORDS).to_vec();
            ops.push(put_meta(layout::numbers_key(CollectionNumber(number)), numbers));
            ops.extend((1..=RECORDS).map(|seq| {
                let key = layout::record_key(CollectionNumber(number), Seq(seq));
                WriteOp::Put(Space::Records, key.to_vec(), vec![seq as u8; 200])
            }));
        }
        disk.commit(ops).expect("a commit");
        drop(disk);
        to_tables(dir);
    }

    fn put_meta(key: Vec<u8>, value: Vec<u8>) -> WriteOp {
        WriteOp::Put(Space::Meta, key, value)
    }

    fn to_tables(dir: &Path) {
        let db = fjall::Database::builder(dir).open().expect("it is closed");
        for name in &NAMES[..2] {
            let space = db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace");
            space.rotate_memtable_and_wait().expect("a flush");
        }
    }

    /// Damages the only table of a keyspace at these offsets.
    fn damage(dir: &Path, space: Space, places: &[u64]) {
        let folder = dir.join(format!("keyspaces/{}/tables", space as usize + 1));
        let mut tables: Vec<_> = std::fs::read_dir(folder).expect("a listing").collect();
        let table = tables.pop().expect("a table").expect("an entry").path();
        assert!(tables.is_empty());
        let file = std::fs::OpenOptions::new().write(true).open(table).expect("it opens");
        for place in places {
            file.write_all_at(&[0xa5; 16], *place).expect("a write");
        }
    }

    fn open(dir: &Path) -> (Disk, EmbeddedOptions) {
        let options = EmbeddedOptions { damages: Some(Damages::default()), ..EmbeddedOptions::default() };
        (
            Disk::open(dir, &options, OpeningMode { opening: Opening::Existing, workers: Workers::Held })
                .expect("it opens"),
            options,
        )
    }

    /// Returns the name, the next seq and the number of records of each collection.
    fn found(disk: &Disk, options: &EmbeddedOptions) -> Vec<(String, Seq, u64)> {
        let collections = load::collections(disk, options).expect("what can be read");
        let mut found = Vec::new();
        for (name, collection) in &collections {
            let next = collection.sequencer.lock().next_seq;
            let count = collection.count.load(std::sync::atomic::Ordering::Relaxed);
            found.push((name.to_string(), next, count));
        }
        found
    }

    fn by_number(number: CollectionNumber, next: Seq, count: u64) -> (String, Seq, u64) {
        (format!("collection-{number}"), next, count)
    }

    #[test]
    fn collections_without_readable_entries_are_found_by_their_records() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        directory(dir.path());
        let (disk, options) = open(dir.path());
        let all = ["lamps", "trees"].map(|name| (name.to_owned(), Seq(RECORDS + 1), RECORDS));
        assert_eq!(found(&disk, &options), all);
        assert!(options.damages.expect("set").all().is_empty());
        drop(disk);
        damage(dir.path(), Space::Meta, &[60]);
        let mode = OpeningMode { opening: Opening::Existing, workers: Workers::Held };
        let strict = Disk::open(dir.path(), &EmbeddedOptions::default(), mode);
        assert!(strict.is_err(), "damages are skipped only on request");
        let (disk, options) = open(dir.path());
        // The tombstone of the second collection cannot be read, and neither can the names of the others.
        assert_eq!(
            found(&disk, &options),
            [1, 2, 3].map(|number| by_number(CollectionNumber(number), Seq(RECORDS + 1), RECORDS))
        );
        let noted = options.damages.expect("set").all();
        for number in 1..=3 {
            assert!(
                noted.iter().any(|damage| damage.number == CollectionNumber(number) && damage.what == DamageKind::Name),
                "{number}"
            );
        }
    }

    /// Opens a directory with damages at these offsets in its records and without `meta`. Returns the number of found records and
    /// the number of reported damages of each collection.
    fn left(places: &[u64]) -> [(u64, u64); 3] {
        let dir = tempfile::tempdir().expect("a temporary directory");
        directory(dir.path());
        damage(dir.path(), Space::Meta, &[60]);
        damage(dir.path(), Space::Records, places);
        let (disk, options) = open(dir.path());
        let found = found(&disk, &options);
        let noted = options.damages.expect("set").all();
        [1, 2, 3].map(|number| {
            let (name, _, count) = &found[number as usize - 1];
            assert_eq!(*name, format!("collection-{number}"));
            let named = noted.iter().filter(|damage| damage.number == CollectionNumber(number) && damage.seq.is_some());
            (*count, named.count() as u64)
        })
    }

    #[test]
    fn records_behind_damages_are_found_without_the_next_seq() {
        // Two damages lie in the first collection, one across its end and the beginning of the next collection, one in the last collection,
        // and one at its end.
        let blocks = [2, 4, 9, 24, 28].map(|block| block * BLOCK_BYTES + BLOCK_BYTES / 4);
        assert_eq!(left(&blocks), [50, 10, 30].map(|lost| (RECORDS - lost, lost)));
    }

    #[test]
    fn names_behind_a_damaged_name_are_read_and_no_name_is_used_twice() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens");
        // In the order of names; one name is the name of a recovered collection.
        let name = |number| if number == 1 { "collection-10".to_owned() } else { format!("n{number:02}") };
        let ops = (1..=20).flat_map(|number| {
            let value = serde_json::to_vec(&entry(CollectionNumber(number), &name(number))).expect("JSON");
            let record = WriteOp::Put(
                Space::Records,
                layout::record_key(CollectionNumber(number), Seq(1)).to_vec(),
                vec![0; 200],
            );
            [WriteOp::Put(Space::Meta, layout::collection_key(&name(number)), value), record]
        });
        disk.commit(ops.collect()).expect("a commit");
        drop(disk);
        to_tables(dir.path());
        damage(dir.path(), Space::Meta, &[2 * 4_400]);
        let (disk, options) = open(dir.path());
        let found = found(&disk, &options);
        assert_eq!(found.len(), 20);
        let nameless: Vec<&str> =
            found.iter().map(|(name, ..)| &**name).filter(|name| name.starts_with("collection")).collect();
        assert!((2..10).contains(&nameless.len()) && nameless.contains(&"collection-10-2"), "{nameless:?}");
    }
}
