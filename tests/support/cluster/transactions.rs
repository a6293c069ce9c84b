//! Transactions on several shards.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;

use mongodb::bson::{Bson, Document, Timestamp, doc};

use super::placement::ShardedCollection;
use super::{RouterState, ShardConnections, error, is_ok, lock, no_shard, number};

/// Number of committed transactions that are remembered, so that a commit may be repeated.
const MOST_FINISHED: usize = 10_000;

/// A transaction on the shards that take part in it.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardTransaction {
    pub(super) participants: Vec<usize>,
    read_concern: Document,
    at: Option<Timestamp>,
}

/// Identifies a transaction: the session and the number of the transaction.
pub(super) type TransactionKey = (Vec<u8>, i64);

#[derive(Default)]
pub(super) struct ClientTransactions {
    pub(super) open: HashMap<TransactionKey, ShardTransaction>,
    finished: VecDeque<(TransactionKey, ShardTransaction)>,
}

/// Returns the key of a transaction, if the command belongs to a transaction.
pub(super) fn transaction_key(command: &Document) -> Option<TransactionKey> {
    if command.get_bool("autocommit").unwrap_or(true) {
        return None;
    }
    let Some(Bson::Binary(session)) = command.get_document("lsid").ok()?.get("id") else { return None };
    Some((session.bytes.clone(), number(command.get("txnNumber"))))
}

impl RouterState {
    /// Returns the command for the shard. In a transaction the first command to a shard starts the transaction there, at the cluster time
    /// that all shards of the transaction share.
    pub(super) fn prepared(&self, shard: usize, command: &Document) -> Document {
        let mut command = command.clone();
        let Some(key) = transaction_key(&command) else { return command };
        let latest = lock(&self.clock).0;
        let mut transactions = lock(&self.transactions);
        let transaction = transactions.open.entry(key).or_default();
        command.remove("startTransaction");
        let after =
            command.get_document("readConcern").ok().and_then(|concern| concern.get_timestamp("afterClusterTime").ok());
        if let Ok(concern) = command.get_document("readConcern") {
            transaction.read_concern = concern.clone();
            transaction.read_concern.remove("afterClusterTime");
        }
        command.remove("readConcern");
        if !transaction.participants.contains(&shard) {
            let at = *transaction.at.get_or_insert_with(|| after.map_or(latest, |after| after.max(latest)));
            let mut concern = transaction.read_concern.clone();
            concern.insert("level", "snapshot");
            concern.insert("atClusterTime", at);
            command.insert("readConcern", concern);
            command.insert("startTransaction", true);
            if transaction.participants.is_empty() {
                command.insert("coordinator", true);
            }
            transaction.participants.push(shard);
        }
        command
    }

    /// True if a transaction or a snapshot is older than the last move of documents of the collection.
    pub(super) fn is_stale(&self, command: &Document, sharded: &ShardedCollection) -> bool {
        let own =
            transaction_key(command).and_then(|key| lock(&self.transactions).open.get(&key).and_then(|own| own.at));
        let snapshot =
            command.get_document("readConcern").ok().and_then(|concern| concern.get_timestamp("atClusterTime").ok());
        own.or(snapshot).is_some_and(|at| at < sharded.since)
    }

    /// Commits or aborts on all shards of the transaction. For more than one shard, it uses the two-phase commit of the server.
    pub(super) async fn end_transaction(
        &self,
        connections: &mut ShardConnections,
        is_commit: bool,
        command: Document,
    ) -> io::Result<Document> {
        let Some(key) = transaction_key(&command) else { return Ok(error(251, "NoSuchTransaction", "no transaction")) };
        let transaction = {
            let transactions = lock(&self.transactions);
            let finished =
                || transactions.finished.iter().find(|(other, _)| *other == key).map(|(_, known)| known.clone());
            transactions.open.get(&key).cloned().or_else(finished)
        };
        let Some(transaction) = transaction.filter(|transaction| !transaction.participants.is_empty()) else {
            let mut gone = error(251, "NoSuchTransaction", "the transaction is not known");
            gone.insert("errorLabels", ["TransientTransactionError"]);
            return Ok(if is_commit {
                gone
            } else {
                doc! { "ok": 1.0 }
            });
        };
        let mut command = command;
        command.remove("startTransaction");
        let reply = if !is_commit {
            let all = transaction.participants.iter().map(|shard| (*shard, command.clone())).collect();
            self.ask_all(connections, all).await;
            doc! { "ok": 1.0 }
        } else {
            let shards = transaction.participants.len();
            self.note("commitTransaction", "", true, shards);
            if shards > 1 {
                command.remove("commitTransaction");
                let names = transaction.participants.iter().map(|shard| doc! { "shardId": format!("shard{shard}") });
                let mut two_phase =
                    doc! { "coordinateCommitTransaction": 1, "participants": names.collect::<Vec<_>>() };
                two_phase.extend(command);
                command = two_phase;
            }
            let shard = transaction.participants[0];
            self.ask_all(connections, BTreeMap::from([(shard, command)])).await.remove(&shard).unwrap_or_else(no_shard)
        };
        if is_ok(&reply) {
            let mut transactions = lock(&self.transactions);
            if transactions.open.remove(&key).is_some() {
                transactions.finished.push_back((key, transaction));
            }
            if transactions.finished.len() > MOST_FINISHED {
                transactions.finished.pop_front();
            }
        }
        Ok(reply)
    }
}
