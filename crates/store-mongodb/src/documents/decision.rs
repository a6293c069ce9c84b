//! Encoding and decoding of decisions.

use mongodb::bson::{Bson, Document, doc};

use super::{StoredNumber, damaged};
use doppel_core::record::RecordId;
use doppel_store::Result;
use doppel_store::decisions::{Decision, Judgement, RecordPair, Ruling};

/// Returns the `_id` of a decision. Ids have the order of pairs.
pub(in super::super) fn decision_key(number: StoredNumber, pair: &RecordPair) -> Document {
    doc! { "c": number, "a": pair.a().as_str(), "b": pair.b().as_str() }
}

/// Returns the filter of decisions whose lower id is `id`: a range of `_id`.
pub(in super::super) fn naming_first(number: StoredNumber, id: &RecordId) -> Document {
    let end = doc! { "c": number, "a": id.as_str(), "b": Bson::MaxKey };
    doc! { "_id": { "$gt": { "c": number, "a": id.as_str() }, "$lt": end } }
}

/// Returns the filter of decisions whose higher id is `id`.
pub(in super::super) fn naming_second(number: StoredNumber, id: &RecordId) -> Document {
    doc! { "_id.c": number, "_id.b": id.as_str() }
}

pub(in super::super) fn encode_ruling(ruling: &Ruling) -> Document {
    let Ruling { judgement, by, note, at, original } = ruling;
    let judgement = match judgement {
        Judgement::Same => "same",
        Judgement::SameEvent => "same_event",
        Judgement::NotSame => "not_same",
        Judgement::Withdrawn => "withdrawn",
    };
    let mut document = doc! { "judgement": judgement, "at": at };
    for (key, value) in [("by", by), ("note", note)] {
        if let Some(value) = value {
            document.insert(key, value);
        }
    }
    if let Some(original) = original {
        document.insert("original", original.as_str());
    }
    document
}

pub(in super::super) fn decode_decision(document: &Document) -> Result<Decision> {
    let key = document.get_document("_id").map_err(damaged)?;
    let pair = RecordPair::new(id_of(key, "a")?, id_of(key, "b")?)
        .ok_or_else(|| damaged("a decision names one record twice"))?;
    let rulings = document.get_array("rulings").map_err(damaged)?.iter().map(decode_ruling).collect::<Result<_>>()?;
    Ok(Decision { pair, rulings })
}

fn id_of(key: &Document, name: &str) -> Result<RecordId> {
    RecordId::new(key.get_str(name).map_err(damaged)?).map_err(damaged)
}

fn decode_ruling(ruling: &Bson) -> Result<Ruling> {
    let ruling = ruling.as_document().ok_or_else(|| damaged("a ruling is not a document"))?;

    Ok(Ruling {
        judgement: match ruling.get_str("judgement").map_err(damaged)? {
            "same" => Judgement::Same,
            "same_event" => Judgement::SameEvent,
            "not_same" => Judgement::NotSame,
            "withdrawn" => Judgement::Withdrawn,
            _ => return Err(damaged("a ruling says something unknown")),
        },
        by: ruling.get_str("by").ok().map(str::to_owned),
        note: ruling.get_str("note").ok().map(str::to_owned),
        at: ruling.get_str("at").map_err(damaged)?.to_owned(),
        original: ruling.get_str("original").ok().map(RecordId::new).transpose().map_err(damaged)?,
    })
}
