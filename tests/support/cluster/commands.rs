//! Commands that read and write documents on the shards that have them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use mongodb::bson::{Bson, Document, Timestamp, doc};

use super::placement::shards_of;
use super::transactions::transaction_key;
use super::{RouterState, SHARD_BATCH, ShardConnections, error, is_ok, lock, no_shard, number};

/// The largest number of bytes of documents in one answer to a client, well below the limit of 16 MB for a document.
const MOST_ANSWER_BYTES: usize = 8 << 20;

impl RouterState {
    /// Returns an answer with the first of `rows`. The remaining rows wait for getMore.
    pub(super) fn answer(
        &self,
        name: &str,
        rows: Vec<Document>,
        first: &Document,
        at: Option<Timestamp>,
        batch: &str,
        id: i64,
    ) -> Document {
        let mut rows = VecDeque::from(rows);
        let mut sent = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.front() {
            bytes += row.to_vec().map_or(0, |row| row.len());
            if !sent.is_empty() && bytes > MOST_ANSWER_BYTES {
                break;
            }
            sent.extend(rows.pop_front());
        }
        let id = if rows.is_empty() { 0 } else { id };
        if id != 0 {
            lock(&self.cursors).insert(id, rows);
        }
        let mut cursor = doc! { batch: sent, "id": id, "ns": name };
        if let Some(at) = at {
            cursor.insert("atClusterTime", at);
        }
        let mut reply = first.clone();
        reply.insert("cursor", cursor);
        reply
    }

    pub(super) async fn find(
        &self,
        connections: &mut ShardConnections,
        name: &str,
        mut command: Document,
    ) -> io::Result<Document> {
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str(name).unwrap_or_default().to_owned();
        let sharded = self.placement(&database, &collection);
        let pipeline = command.get_array("pipeline").ok().cloned().unwrap_or_default();
        let matched = pipeline.first().and_then(Bson::as_document).and_then(|stage| stage.get_document("$match").ok());
        let filter = command.get_document("filter").ok().or(matched).cloned().unwrap_or_default();
        let shards = shards_of(sharded.as_ref(), &filter);
        self.note(name, &collection, sharded.is_some(), shards.len());
        if let Some(sharded) = &sharded
            && self.is_stale(&command, sharded)
        {
            return Ok(moved());
        }
        let sort = command.get_document("sort").ok().cloned().unwrap_or_default();
        if name == "find" {
            command.insert("batchSize", SHARD_BATCH);
            if let Ok(projection) = command.get_document_mut("projection")
                && !projection.is_empty()
                && projection.iter().any(|(field, value)| field != "_id" && number(Some(value)) == 1)
            {
                // The merge needs the fields that the order uses.
                sort.keys().for_each(|field| _ = projection.entry(field.clone()).or_insert_with(|| Bson::Int32(1)));
            }
        } else {
            command.insert("cursor", doc! { "batchSize": SHARD_BATCH });
        }
        let is_snapshot = command
            .get_document("readConcern")
            .is_ok_and(|concern| concern.get_str("level").is_ok_and(|level| level == "snapshot"));
        let mut at = None;
        if is_snapshot && transaction_key(&command).is_none() {
            let latest = lock(&self.clock).0;
            let concern = command.get_document("readConcern").cloned().unwrap_or_default();
            let after = concern.get_timestamp("afterClusterTime").map_or(latest, |after| after.max(latest));
            let chosen = concern.get_timestamp("atClusterTime").unwrap_or(after);
            command.insert("readConcern", doc! { "level": "snapshot", "atClusterTime": chosen });
            at = Some(chosen);
        }
        let mut taken = Vec::new();
        for shard in shards {
            let mut own = ShardConnections::default();
            own.0[shard] = connections.0[shard].take();
            taken.push((shard, own, self.prepared(shard, &command)));
        }
        let asked = taken.into_iter().map(|(shard, mut own, command)| async move {
            let rows = self.rows(&mut own, shard, command).await;
            (shard, own, rows)
        });
        let mut rows = Vec::new();
        let mut first = None;
        for (shard, mut own, found) in join_all(asked).await {
            connections.0[shard] = own.0[shard].take();
            let Ok((found, reply)) = found else { return Ok(no_shard()) };
            if !is_ok(&reply) {
                return Ok(reply);
            }
            rows.extend(found);
            first.get_or_insert(reply);
        }
        let is_count = pipeline.last().and_then(Bson::as_document).and_then(|stage| stage.get_document("$group").ok());
        if let Some(group) = is_count
            && matches!(group.get("_id"), Some(Bson::Int32(_)))
            && rows.len() > 1
        {
            let sum: i64 = rows.iter().map(|row| number(row.get("n"))).sum();
            rows = vec![doc! { "_id": 1, "n": sum as i32 }];
        }
        for (field, direction) in sort.iter().collect::<Vec<_>>().into_iter().rev() {
            rows.sort_by_key(|row| order(row.get(field)));
            if number(Some(direction)) < 0 {
                rows.reverse();
            }
        }
        let limit = number(command.get("limit"));
        if limit > 0 {
            rows.truncate(limit as usize);
        }
        let id = self.next_cursor.fetch_add(1, Ordering::Relaxed);
        let name = format!("{database}.{collection}");
        Ok(self.answer(&name, rows, &first.unwrap_or_default(), at, "firstBatch", id))
    }

    pub(super) async fn write(
        &self,
        connections: &mut ShardConnections,
        name: &str,
        command: Document,
    ) -> io::Result<Document> {
        let list = match name {
            "insert" => "documents",
            "update" => "updates",
            _ => "deletes",
        };
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str(name).unwrap_or_default().to_owned();
        let sharded = self.placement(&database, &collection);
        let mut parts: BTreeMap<usize, Vec<Bson>> = BTreeMap::new();
        for statement in command.get_array(list).into_iter().flatten() {
            let Some(document) = statement.as_document() else { continue };
            let filter = if name == "insert" { document } else { document.get_document("q").unwrap_or(document) };
            let shards = shards_of(sharded.as_ref(), filter);
            let is_multi = document.get_bool("multi").unwrap_or(false)
                || document.get("limit").is_some_and(|limit| number(Some(limit)) == 0);
            if shards.len() > 1 && !is_multi {
                return Ok(error(61, "ShardKeyNotFound", "a change of one document must name its shard key"));
            }
            for shard in shards {
                parts.entry(shard).or_default().push(statement.clone());
            }
        }
        self.note(name, &collection, sharded.is_some(), parts.len());
        if let Some(sharded) = &sharded
            && self.is_stale(&command, sharded)
        {
            return Ok(moved());
        }
        let mut commands = BTreeMap::new();
        for (shard, statements) in parts {
            let mut part = command.clone();
            part.insert(list, statements);
            commands.insert(shard, self.prepared(shard, &part));
        }
        let replies = self.ask_all(connections, commands).await;
        if let Some(bad) = replies.values().find(|reply| !is_ok(reply) || reply.contains_key("writeErrors")) {
            return Ok(bad.clone());
        }
        let Some(mut merged) = replies.values().next().cloned() else { return Ok(doc! { "ok": 1.0, "n": 0 }) };
        for field in ["n", "nModified"] {
            if merged.contains_key(field) {
                merged.insert(field, replies.values().map(|reply| number(reply.get(field))).sum::<i64>() as i32);
            }
        }
        if let Some(concern) = replies.values().find_map(|reply| reply.get("writeConcernError")) {
            merged.insert("writeConcernError", concern.clone());
        }
        Ok(merged)
    }

    pub(super) async fn find_and_modify(
        &self,
        connections: &mut ShardConnections,
        command: Document,
    ) -> io::Result<Document> {
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str("findAndModify").unwrap_or_default().to_owned();
        let sharded = self.placement(&database, &collection);
        let filter = command.get_document("query").cloned().unwrap_or_default();
        let shards = shards_of(sharded.as_ref(), &filter);
        self.note("findAndModify", &collection, sharded.is_some(), shards.len());
        let Some(&shard) = shards.first().filter(|_| shards.len() == 1) else {
            return Ok(error(61, "ShardKeyNotFound", "a change of one document must name its shard key"));
        };
        if let Some(sharded) = &sharded
            && self.is_stale(&command, sharded)
        {
            return Ok(moved());
        }
        self.ask(connections, shard, self.prepared(shard, &command)).await
    }
}

/// Returns the place of a value in an order of numbers or of texts.
fn order(value: Option<&Bson>) -> (i64, String) {
    (number(value), value.and_then(Bson::as_str).unwrap_or_default().to_owned())
}

/// Returns the error of a real router if documents have moved since a transaction or a snapshot began.
fn moved() -> Document {
    let mut error = error(250, "StaleChunkHistory", "documents were moved since");
    error.insert("errorLabels", ["TransientTransactionError"]);
    error
}
