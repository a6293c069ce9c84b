//! Encoding and decoding of logged changes.

use mongodb::bson::{Document, deserialize_from_document, doc, serialize_to_document};

use super::{StoredNumber, damaged, seq_of};
use doppel_store::changes::LoggedChange;
use doppel_store::{Result, Seq};

/// Returns the `_id` of a logged change. Ids have the order of commits.
fn change_key(number: StoredNumber, change: Seq) -> Document {
    doc! { "c": number, "n": i64::try_from(change.0).unwrap_or(i64::MAX) }
}

/// Returns the filter of the changes with numbers above `after`, up to `last`: a range of `_id`.
pub(in super::super) fn changes_between(number: StoredNumber, after: Seq, last: Seq) -> Document {
    doc! { "_id": { "$gt": change_key(number, after), "$lte": change_key(number, last) } }
}

/// Returns the filters of the changes that removed a record from lists.
pub(in super::super) fn took_lists() -> Vec<Document> {
    vec![doc! { "kind": { "$in": ["removed", "replaced"] } }, doc! { REFILED: true }]
}

/// The field of a change that marks a repaired signature: the content of the record is unchanged.
pub(in super::super) const REFILED: &str = "refiled";

pub(in super::super) fn encode_change(number: StoredNumber, change: &LoggedChange) -> Result<Document> {
    let mut document = doc! { "_id": change_key(number, change.number) };
    document.extend(serialize_to_document(change).map_err(damaged)?);
    Ok(document)
}

pub(in super::super) fn decode_change(document: Document) -> Result<LoggedChange> {
    let key = document.get_document("_id").map_err(damaged)?;
    let number = seq_of(key.get_i64("n").map_err(damaged)?);
    let logged: LoggedChange = deserialize_from_document(document).map_err(damaged)?;
    Ok(LoggedChange { number, ..logged })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::changes::LoggedKind;
    use doppel_store::conformance::id;
    use doppel_store::decisions::Judgement;

    #[test]
    fn an_encoded_change_decodes_to_itself_and_is_readable() {
        let decided = LoggedKind::Decided { other: id("b"), judgement: Judgement::NotSame };
        for kind in [LoggedKind::Replaced, LoggedKind::Updated { seq: Seq(3) }, LoggedKind::Removed, decided] {
            let change = LoggedChange { number: Seq(1 << 40), id: id("a"), kind };
            let document = encode_change(7, &change).unwrap();
            assert_eq!(decode_change(document).unwrap(), change);
        }
        let change = LoggedChange { number: Seq(9), id: id("a"), kind: LoggedKind::Updated { seq: Seq(3) } };
        let expected = doc! { "_id": { "c": 7, "n": 9_i64 }, "id": "a", "kind": "updated", "seq": 3_i64 };
        assert_eq!(encode_change(7, &change).unwrap(), expected);
    }
}
