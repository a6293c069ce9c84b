//! Defines sharded collections, and moves their documents between shards.

use std::collections::BTreeMap;
use std::io;

use mongodb::bson::{Bson, Document, Timestamp, doc};

use super::placement::{DocumentPlacement, ShardedCollection};
use super::transactions::{ShardTransaction, TransactionKey};
use super::{RouterState, SHARD_BATCH, SHARDS, ShardConnections, error, is_ok, lock, number};

impl RouterState {
    async fn abort_all(&self, connections: &mut ShardConnections) -> io::Result<()> {
        let open: Vec<(TransactionKey, ShardTransaction)> = lock(&self.transactions).open.clone().into_iter().collect();
        for ((session, number), transaction) in open {
            for shard in transaction.participants {
                let id =
                    mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Uuid, bytes: session.clone() };
                let abort = doc! {
                    "abortTransaction": 1, "lsid": { "id": id }, "txnNumber": number, "autocommit": false, "$db": "admin",
                };
                self.ask(connections, shard, abort).await?;
            }
        }
        Ok(())
    }

    /// Creates a collection on the second shard with the options and indexes that it has on the first shard.
    async fn copy_definition(
        &self,
        connections: &mut ShardConnections,
        database: &str,
        collection: &str,
    ) -> io::Result<()> {
        let list = doc! { "listCollections": 1, "filter": { "name": collection }, "$db": database };
        let (found, _) = self.rows(connections, 0, list).await?;
        let mut create = doc! { "create": collection };
        if let Some(options) = found.first().and_then(|found| found.get_document("options").ok()) {
            create.extend(options.clone());
        }
        create.insert("$db", database);
        self.ask(connections, 1, create).await?;
        let (indexes, _) = self.rows(connections, 0, doc! { "listIndexes": collection, "$db": database }).await?;
        let indexes: Vec<Document> =
            indexes.into_iter().filter(|index| index.get_str("name").is_ok_and(|name| name != "_id_")).collect();
        if !indexes.is_empty() {
            let create = doc! { "createIndexes": collection, "indexes": indexes, "$db": database };
            let reply = self.ask(connections, 1, create).await?;
            assert!(is_ok(&reply), "{reply}");
        }
        Ok(())
    }

    pub(super) async fn shard_collection(
        &self,
        connections: &mut ShardConnections,
        command: &Document,
    ) -> io::Result<Document> {
        let name = command.get_str("shardCollection").unwrap_or_default().to_owned();
        let (database, collection) = name.split_once('.').unwrap_or((&name, ""));
        let key = command.get_document("key").cloned().unwrap_or_default();
        let any = doc! { "find": collection, "filter": {}, "limit": 1, "$db": database };
        let is_empty = self.rows(connections, 0, any).await?.0.is_empty();
        let version = lock(&self.versions).get(database).cloned().unwrap_or_default();
        let create = doc! {
            "_shardsvrCreateCollection": collection, "shardKey": key.clone(), "databaseVersion": version,
            "writeConcern": { "w": "majority" }, "$db": database,
        };
        let reply = self.ask(connections, 0, create).await?;
        if !is_ok(&reply) {
            return Ok(reply);
        }
        let is_hashed = key.values().any(|kind| kind.as_str() == Some("hashed"));
        let placement = match (is_hashed, is_empty) {
            (true, true) => DocumentPlacement::Hashed,
            (true, false) => DocumentPlacement::First,
            (false, _) => {
                DocumentPlacement::Ranges { fields: key.keys().cloned().collect(), first: 0, bounds: BTreeMap::new() }
            }
        };
        let since = Timestamp { time: 1, increment: 1 };
        lock(&self.sharded).entry(name).or_insert(ShardedCollection { key, placement, since });
        Ok(doc! { "ok": 1.0 })
    }

    /// Moves the documents of a collection to the shards of `target`, and stores the new placement. Aborts open transactions. No command
    /// may run meanwhile.
    pub(super) async fn move_documents(
        &self,
        connections: &mut ShardConnections,
        name: &str,
        target: &DocumentPlacement,
    ) {
        let (database, collection) = name.split_once('.').expect("a database and a collection");
        self.abort_all(connections).await.expect("transactions are aborted");
        self.copy_definition(connections, database, collection).await.expect("the collection is defined");
        for from in 0..SHARDS {
            let all = doc! { "find": collection, "filter": {}, "batchSize": SHARD_BATCH, "$db": database };
            let (rows, _) = self.rows(connections, from, all).await.expect("the shard answers");
            let moved: Vec<Document> = rows.into_iter().filter(|row| !target.shards(row).contains(&from)).collect();
            for moved in moved.chunks(1_000) {
                let ids: Vec<Bson> = moved.iter().filter_map(|row| row.get("_id").cloned()).collect();
                let concern = doc! { "w": "majority" };
                let insert = doc! {
                    "insert": collection, "documents": moved.to_vec(), "writeConcern": &concern, "$db": database,
                };
                let delete = doc! {
                    "delete": collection, "deletes": [{ "q": { "_id": { "$in": ids } }, "limit": 0 }],
                    "writeConcern": concern, "$db": database,
                };
                for (shard, command) in [(SHARDS - 1 - from, insert), (from, delete)] {
                    let reply = self.ask(connections, shard, command).await.expect("the shard answers");
                    assert!(is_ok(&reply) && !reply.contains_key("writeErrors"), "{reply}");
                }
            }
        }
        let since = lock(&self.clock).0;
        if let Some(sharded) = lock(&self.sharded).get_mut(name) {
            (sharded.placement, sharded.since) = (target.clone(), since);
        }
    }

    /// Moves a range of documents to another shard.
    pub(super) async fn move_range(&self, connections: &mut ShardConnections, command: &Document) -> Document {
        let _alone = self.moving.write().await;
        let target = command.get_str("to").ok().and_then(|name| name.strip_prefix("shard")?.parse().ok()).unwrap_or(0);
        let name = command.get_str("moveChunk").unwrap_or_default().to_owned();
        let before = lock(&self.sharded).get(&name).map(|sharded| sharded.placement.clone());
        let reply = self.change_ranges(command, Some(target));
        let after = lock(&self.sharded).get(&name).map(|sharded| sharded.placement.clone());
        if let (true, Some(before), Some(after)) = (is_ok(&reply), before, after) {
            if let Some(sharded) = lock(&self.sharded).get_mut(&name) {
                sharded.placement = before;
            }
            self.move_documents(connections, &name, &after).await;
        }
        reply
    }

    /// Splits a range, or assigns it to another shard.
    pub(super) fn change_ranges(&self, command: &Document, target: Option<usize>) -> Document {
        let Some((_, Bson::String(name))) = command.iter().next() else { return error(9, "FailedToParse", "no name") };
        let mut sharded = lock(&self.sharded);
        let Some(ShardedCollection { placement: DocumentPlacement::Ranges { fields, first, bounds }, .. }) =
            sharded.get_mut(name)
        else {
            return error(118, "NamespaceNotSharded", "no ranges");
        };
        let at = command.get_document("middle").or_else(|_| command.get_document("find"));
        let Ok(at) = at else { return error(9, "FailedToParse", "no key") };
        let at: Vec<i64> = fields.iter().map(|field| number(at.get(field))).collect();
        let owner = bounds.range(..=at.clone()).next_back().map(|(bound, shard)| (bound.clone(), *shard));
        match (target, owner) {
            (None, owner) => _ = bounds.entry(at).or_insert(owner.map_or(*first, |(_, shard)| shard)),
            (Some(target), Some((bound, _))) => _ = bounds.insert(bound, target),
            (Some(target), None) => *first = target,
        }
        doc! { "ok": 1.0 }
    }
}
