//! Encoding of document frequencies.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, doc};

use super::StoredNumber;

/// Returns the `_id` of a version of the document frequencies of a collection.
pub(in super::super) fn frequencies_key(number: StoredNumber, version: u32) -> Document {
    doc! { "c": number, "f": version as i32 }
}

/// Returns the filter of all versions except `version`. The filter bounds the version number: a filter by the collection alone would also
/// match the word statistics of generations, which are in the same MongoDB collection.
pub(in super::super) fn frequencies_except(number: StoredNumber, version: u32) -> Document {
    let last = doc! { "c": number, "f": i32::MAX };
    let range = doc! { "$gte": frequencies_key(number, 0), "$lte": last, "$ne": frequencies_key(number, version) };
    doc! { "_id": range }
}

pub(in super::super) fn encode_frequencies(number: StoredNumber, version: u32, bytes: &[u8]) -> Document {
    let data = Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() };
    doc! { "_id": frequencies_key(number, version), "data": data }
}
