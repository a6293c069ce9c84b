//! Decisions, tasks and document frequencies as stored.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, doc};

use super::{Number, damaged};
use doppel_core::record::RecordId;
use doppel_store::Result;
use doppel_store::decisions::{Decision, Judgement, RecordPair, Ruling};
use doppel_store::tasks::TaskState;

/// `_id` of a decision. The order of these is the order of pairs.
pub(in super::super) fn decision_key(number: Number, pair: &RecordPair) -> Document {
    doc! { "c": number, "a": pair.a().as_str(), "b": pair.b().as_str() }
}

/// The filter of decisions that name `id` as their lower id: a range of `_id`.
pub(in super::super) fn naming_first(number: Number, id: &RecordId) -> Document {
    let end = doc! { "c": number, "a": id.as_str(), "b": Bson::MaxKey };
    doc! { "_id": { "$gt": { "c": number, "a": id.as_str() }, "$lt": end } }
}

/// The filter of decisions that name `id` as their higher id.
pub(in super::super) fn naming_second(number: Number, id: &RecordId) -> Document {
    doc! { "_id.c": number, "_id.b": id.as_str() }
}

/// `_id` of a version of a collection's document frequencies.
pub(in super::super) fn frequencies_key(number: Number, version: u32) -> Document {
    doc! { "c": number, "f": version as i32 }
}

/// The filter of all versions but one. A range of numbers: a wider one would take in what generations have.
pub(in super::super) fn frequencies_except(number: Number, version: u32) -> Document {
    let last = doc! { "c": number, "f": i32::MAX };
    let range = doc! { "$gte": frequencies_key(number, 0), "$lte": last, "$ne": frequencies_key(number, version) };
    doc! { "_id": range }
}

pub(in super::super) fn encode_frequencies(number: Number, version: u32, bytes: &[u8]) -> Document {
    let data = Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() };
    doc! { "_id": frequencies_key(number, version), "data": data }
}

pub(in super::super) fn encode_ruling(ruling: &Ruling) -> Document {
    let Ruling { judgement, by, note, at } = ruling;
    let judgement = match judgement {
        Judgement::Same => "same",
        Judgement::NotSame => "not_same",
        Judgement::Withdrawn => "withdrawn",
    };
    let mut document = doc! { "judgement": judgement, "at": at };
    for (key, value) in [("by", by), ("note", note)] {
        if let Some(value) = value {
            document.insert(key, value);
        }
    }
    document
}

pub(in super::super) fn decode_decision(document: &Document) -> Result<Decision> {
    let key = document.get_document("_id").map_err(damaged)?;
    let id = |name: &str| RecordId::new(key.get_str(name).map_err(damaged)?).map_err(damaged);
    let pair = RecordPair::new(id("a")?, id("b")?).ok_or_else(|| damaged("a decision names one record twice"))?;
    let rulings = document.get_array("rulings").map_err(damaged)?.iter().map(decode_ruling).collect::<Result<_>>()?;
    Ok(Decision { pair, rulings })
}

fn decode_ruling(ruling: &Bson) -> Result<Ruling> {
    let ruling = ruling.as_document().ok_or_else(|| damaged("a ruling is not a document"))?;
    let optional = |key: &str| ruling.get_str(key).ok().map(str::to_owned);
    Ok(Ruling {
        judgement: match ruling.get_str("judgement").map_err(damaged)? {
            "same" => Judgement::Same,
            "not_same" => Judgement::NotSame,
            "withdrawn" => Judgement::Withdrawn,
            _ => return Err(damaged("a ruling says something unknown")),
        },
        by: optional("by"),
        note: optional("note"),
        at: ruling.get_str("at").map_err(damaged)?.to_owned(),
    })
}

/// A task: its state as JSON, whose numbers and keys BSON would not all take, and beside it what is looked up and read.
pub(in super::super) fn encode_task(task: &TaskState) -> Result<Document> {
    let status = serde_json::to_value(task.status).map_err(damaged)?;
    Ok(doc! {
        "_id": &task.id, "collection": task.collection.as_str(), "kind": &task.kind,
        "status": status.as_str().unwrap_or_default(), "open": !task.status.is_finished(),
        "version": task.version as i64, "state": serde_json::to_string(task).map_err(damaged)?,
    })
}

pub(in super::super) fn decode_task(document: &Document) -> Result<TaskState> {
    serde_json::from_str(document.get_str("state").map_err(damaged)?).map_err(damaged)
}
