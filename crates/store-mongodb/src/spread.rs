//! Spreads a new generation over the shards of a cluster before it has documents.
//!
//! `blocks` is sharded by ranges of (c, g, b). The range of a new collection or generation is behind all others and stays on one
//! shard until the balancer finds it large enough. Therefore, each new range is split into as many parts as there are shards, and
//! each empty part is moved to its shard. `records` and `signatures` are sharded by hashes and need no splits.
//!
//! This only affects the speed: if the user lacks the privilege (`clusterManager`), or if the cluster is busy, the balancer moves the parts
//! as they grow.

use std::sync::Arc;

use mongodb::bson::{Document, doc};

use super::SharedStore;
use super::documents::{BLOCKS, BUCKETS, BucketNumber, StoredNumber, generation_key};
use super::retry;
use super::server::ServerTopology;
use doppel_store::GenerationId;

/// Returns the lowest bucket of each part if the buckets are split into `parts` of equal size.
fn bounds(parts: usize) -> Vec<BucketNumber> {
    (0..parts).map(|part| BucketNumber::try_from(BUCKETS * part / parts.max(1)).unwrap_or(0)).collect()
}

impl SharedStore {
    /// Starts to spread the pages of a new generation, and returns at once.
    pub(super) fn begin_to_spread(self: &Arc<Self>, number: StoredNumber, generation: GenerationId) {
        if self.topology != ServerTopology::Cluster {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = shared.spread_pages(number, generation).await {
                let reason = retry::summary(&error);
                tracing::info!(
                    reason,
                    "the pages of a new generation are not spread over the shards; the balancer will do it"
                );
            }
        });
    }

    /// Splits the pages of a generation and moves each part to a shard. Two commands for each shard.
    async fn spread_pages(&self, number: StoredNumber, generation: GenerationId) -> mongodb::error::Result<()> {
        let admin = self.client.database("admin");
        let listed = admin.run_command(doc! { "listShards": 1 }).await?;
        let shards = listed.get_array("shards").into_iter().flatten().filter_map(|shard| shard.as_document());
        let shards: Vec<&str> = shards.filter_map(|shard| shard.get_str("_id").ok()).collect();
        if shards.len() < 2 {
            return Ok(());
        }
        let name = format!("{}.{BLOCKS}", self.database.name());
        for (bucket, shard) in bounds(shards.len()).into_iter().zip(&shards) {
            let key = bucket_key(number, generation, bucket);
            admin.run_command(doc! { "split": &name, "middle": &key }).await?;
            admin.run_command(doc! { "moveChunk": &name, "find": key, "to": *shard }).await?;
        }
        Ok(())
    }
}

fn bucket_key(number: StoredNumber, generation: GenerationId, bucket: BucketNumber) -> Document {
    let mut key = generation_key(number, generation);
    key.insert("b", bucket);
    key
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_split_into_parts_of_equal_size() {
        assert_eq!(bounds(2), [0, 131_072]);
        assert_eq!(bounds(3), [0, 87_381, 174_762]);
        assert!(bounds(0).is_empty());
    }
}
