//! Encoding and decoding of tasks.

use mongodb::bson::{Document, doc};

use super::damaged;
use doppel_store::Result;
use doppel_store::tasks::TaskState;

/// Encodes a task: its state as JSON, because BSON cannot represent all of its numbers and keys, and the fields that are queried.
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
