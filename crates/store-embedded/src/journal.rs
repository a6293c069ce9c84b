//! Reads the journals of the storage engine without opening it, and finds the complete writes.
//!
//! The engine drops a journal from the first byte that it does not understand, as the incomplete last write of a crash. Complete
//! writes behind this byte show that there was no crash, because each write is synced before the next begins.
//!
//! A write consists of (little-endian): 1, number of items u32, seqno u64; the items; 3, XXH3 of the items u64, a trailer. An item
//! is 2, kind u8, compression u8, keyspace u64, length of the key u16, length of the value u32, length of the stored value u32,
//! key, value; or 4, keyspace u64. This is the format of fjall 3.1.13.

use xxhash_rust::xxh3::xxh3_64;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const TRAILER: &[u8] = b"FJL\x03";

/// Returns the length in bytes of the complete writes at the beginning.
pub(super) fn whole(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = write(&bytes[end..]) {
        end += length;
    }
    end
}

/// Returns the offset of the next complete write at or behind `from`.
pub(super) fn next_whole(bytes: &[u8], from: usize) -> Option<usize> {
    (from..bytes.len()).find(|at| write(&bytes[*at..]).is_some())
}

/// Returns the length of the write at the beginning, if it is complete.
fn write(bytes: &[u8]) -> Option<usize> {
    let (&START, mut rest) = bytes.split_first()? else { return None };
    let count = u32::from_le_bytes(take(&mut rest)?);
    take::<8>(&mut rest)?;
    let items = rest;
    for _ in 0..count {
        match take::<1>(&mut rest)? {
            [ITEM] => {
                take::<10>(&mut rest)?;
                let key = usize::from(u16::from_le_bytes(take(&mut rest)?));
                take::<4>(&mut rest)?;
                let value = u32::from_le_bytes(take(&mut rest)?) as usize;
                rest = rest.get(key.checked_add(value)?..)?;
            }
            [CLEAR] => {
                take::<8>(&mut rest)?;
            }
            _ => return None,
        }
    }
    let items = &items[..items.len() - rest.len()];
    let [END] = take::<1>(&mut rest)? else { return None };
    let hash = u64::from_le_bytes(take(&mut rest)?);
    (hash == xxh3_64(items) && rest.starts_with(TRAILER)).then(|| bytes.len() - rest.len() + TRAILER.len())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>()?;
    *bytes = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_the_engine_are_complete_and_writes_behind_damage_are_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = fjall::Database::builder(dir.path()).open().expect("a database");
        let spaces =
            ["a", "b"].map(|name| db.keyspace(name, fjall::KeyspaceCreateOptions::default).expect("a keyspace"));
        for number in 0..9u8 {
            let mut batch = db.batch();
            batch.insert(&spaces[0], [number], vec![number; 9_000]);
            batch.remove(&spaces[1], [number, 1]);
            batch.commit().expect("a commit");
        }
        db.persist(fjall::PersistMode::SyncAll).expect("a sync");
        let path = dir.path().join("0.jnl");
        let length = super::super::manifest::written(&path).expect("it can be read") as usize;
        let mut bytes = std::fs::read(path).expect("a journal");
        assert_eq!(whole(&bytes), length);
        bytes.truncate(length);
        assert!(
            whole(&bytes[..length - 1]) < length
                && next_whole(&bytes[..length - 1], whole(&bytes[..length - 1])).is_none()
        );
        bytes[length / 2] ^= 1;
        let end = whole(&bytes);
        assert!(0 < end && end <= length / 2, "{end}");
        let next = next_whole(&bytes, end).expect("there are complete writes behind");
        assert!(next > length / 2 && next + whole(&bytes[next..]) == length);
    }
}
