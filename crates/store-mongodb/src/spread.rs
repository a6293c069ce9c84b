//! Spreading a new generation over the shards of a cluster, before it has documents to move.
//!
//! `blocks` is sharded by ranges of (c, g, b). A new collection or generation has a range of its own behind all others, which lies on
//! one shard until the balancer finds it large enough. So each new range is split into as many parts as there are shards, and each part
//! is moved to its shard while it is empty. `records` and `signatures` are sharded by hashes and need none of that.
//!
//! Only speed depends on it: where the user lacks the right (`clusterManager`), or the cluster is busy, the balancer moves what grows.

use std::sync::Arc;

use mongodb::bson::{Document, doc};

use super::Shared;
use super::documents::{BLOCKS, BUCKETS, BucketNumber, Number, generation_key};
use super::retry;
use super::server::Topology;
use doppel_store::GenerationId;

/// The lowest bucket of each part, where the buckets are split into `parts` of equal size.
fn bounds(parts: usize) -> Vec<BucketNumber> {
    let bucket = |part: usize| BucketNumber::try_from(BUCKETS * part / parts.max(1)).unwrap_or(0);
    (0..parts).map(bucket).collect()
}

impl Shared {
    /// Begins to spread the pages of a new generation. Returns at once.
    pub(super) fn begin_to_spread(self: &Arc<Self>, number: Number, generation: GenerationId) {
        if self.topology != Topology::Cluster {
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

    /// Splits the pages of a generation and moves each part to a shard. Three commands a shard.
    async fn spread_pages(&self, number: Number, generation: GenerationId) -> mongodb::error::Result<()> {
        let admin = self.client.database("admin");
        let listed = admin.run_command(doc! { "listShards": 1 }).await?;
        let shards = listed.get_array("shards").into_iter().flatten().filter_map(|shard| shard.as_document());
        let shards: Vec<&str> = shards.filter_map(|shard| shard.get_str("_id").ok()).collect();
        if shards.len() < 2 {
            return Ok(());
        }
        let name = format!("{}.{BLOCKS}", self.database.name());
        let key = |bucket: BucketNumber| -> Document {
            let mut key = generation_key(number, generation);
            key.insert("b", bucket);
            key
        };
        for (bucket, shard) in bounds(shards.len()).into_iter().zip(&shards) {
            admin.run_command(doc! { "split": &name, "middle": key(bucket) }).await?;
            admin.run_command(doc! { "moveChunk": &name, "find": key(bucket), "to": *shard }).await?;
        }
        Ok(())
    }
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
