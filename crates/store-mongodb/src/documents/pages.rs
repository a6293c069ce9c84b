//! Encoding and decoding of the pages of buckets, and the statements that change pages.

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, doc};

use super::{BucketNumber, StoredNumber, bucket_name, damaged};
use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;
use doppel_store::{GenerationId, Result};

/// The place of a page: generation, bucket, and number in the bucket.
pub(in super::super) type PageKey = (GenerationId, BucketNumber, i32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PageEntry<'a> {
    pub(in super::super) fingerprint: Fingerprint,
    pub(in super::super) id: &'a str,
}

/// A page whose entries are decoded while they are visited, without copies.
pub(in super::super) struct PageDocument<'a> {
    pub(in super::super) bucket: BucketNumber,
    pub(in super::super) page: i32,
    /// Number of entries that were ever added. It never decreases.
    pub(in super::super) pushed: i32,
    entries: Option<&'a mongodb::bson::RawArray>,
}

impl<'a> PageDocument<'a> {
    /// Returns the projection of the fields that [`PageDocument::decode`] reads.
    pub(in super::super) fn projection() -> Document {
        doc! { "_id": 0, "b": 1, "p": 1, "n": 1, "info": 1 }
    }

    pub(in super::super) fn decode(raw: &'a RawDocument) -> Result<Self> {
        let mut bucket = None;
        let mut page = None;
        let mut pushed = None;
        let mut entries = None;
        for element in raw {
            let (key, value) = element.map_err(damaged)?;
            match (key.as_str(), value) {
                ("b", RawBsonRef::Int32(value)) => bucket = Some(value),
                ("p", RawBsonRef::Int32(value)) => page = Some(value),
                ("n", RawBsonRef::Int32(value)) => pushed = Some(value),
                ("info", RawBsonRef::Array(value)) => entries = Some(value),
                _ => {}
            }
        }
        match (bucket, page, pushed) {
            (Some(bucket), Some(page), Some(pushed)) => Ok(Self { bucket, page, pushed, entries }),
            _ => Err(damaged("a page lacks b, p or n")),
        }
    }

    /// Calls `see` with every entry, in the order in which the entries were added. O(entries).
    pub(in super::super) fn walk(&self, mut see: impl FnMut(PageEntry<'a>)) -> Result<()> {
        let Some(entries) = self.entries else { return Ok(()) };
        for item in entries {
            let RawBsonRef::Document(item) = item.map_err(damaged)? else {
                return Err(damaged("an entry of a page is not a document"));
            };
            let mut hashcode = None;
            let mut textname = None;
            for element in item {
                match element.map_err(damaged)? {
                    (key, RawBsonRef::Int64(value)) if key.as_str() == "hashcode" => hashcode = Some(value),
                    (key, RawBsonRef::String(value)) if key.as_str() == "textname" => textname = Some(value),
                    _ => {}
                }
            }
            match (hashcode, textname) {
                (Some(hashcode), Some(id)) => see(PageEntry { fingerprint: Fingerprint(hashcode as u64), id }),
                _ => return Err(damaged("an entry of a page lacks hashcode or textname")),
            }
        }
        Ok(())
    }
}

/// Returns a statement of an update command that adds entries to a page and creates the page if necessary.
pub(in super::super) fn push_statement(
    number: StoredNumber,
    page: PageKey,
    entries: &[(Fingerprint, RecordId)],
) -> Document {
    let pushed = entries
        .iter()
        .map(|(fingerprint, id)| Bson::from(doc! { "hashcode": fingerprint.0 as i64, "textname": id.as_str() }));
    let update = doc! {
        "$push": { "info": { "$each": pushed.collect::<Vec<_>>() } },
        "$inc": { "n": entries.len() as i32 },
        "$setOnInsert": { "blockName": bucket_name(page.1) },
    };
    doc! { "q": page_key(number, page), "u": update, "upsert": true }
}

/// Returns a complete page, for inserts in bulk.
pub(in super::super) fn page(
    number: StoredNumber,
    at: PageKey,
    entries: impl Iterator<Item = (Fingerprint, String)>,
) -> Document {
    let entries = entries.map(|(fingerprint, id)| doc! { "hashcode": fingerprint.0 as i64, "textname": id });
    let entries: Vec<Bson> = entries.map(Bson::from).collect();
    let mut page = page_key(number, at);
    page.extend(doc! { "blockName": bucket_name(at.1), "n": entries.len() as i32, "info": entries });
    page
}

/// Returns a statement of an update command that removes the entries of a record from a page.
pub(in super::super) fn pull_statement(number: StoredNumber, page: PageKey, id: &RecordId) -> Document {
    doc! { "q": page_key(number, page), "u": { "$pull": { "info": { "textname": id.as_str() } } } }
}

/// Returns the filter of a page.
pub(in super::super) fn page_key(number: StoredNumber, page: PageKey) -> Document {
    let (generation, bucket, page) = page;
    doc! { "c": number, "g": generation.0 as i32, "b": bucket, "p": page }
}
