//! After a start: what is remembered of records so that they need not be read (`similarity::sketches`) is made again.
//!
//! Until then a candidate that shares only a phrase is read to be refused, and a large collection registers several times more
//! slowly. One pass over the records in seq order, on the threads that rebuild, behind those that serve; where there are more
//! records than may be remembered, the latest stay.

use rayon::prelude::*;

use crate::rebuild::{on_pool, pool};
use crate::{Engine, Result, judge};
use doppel_core::collection::CollectionName;
use doppel_store::Seq;

/// Records read at once: some tens of milliseconds of work, a few hundred kilobytes of usual rows.
const PIECE: usize = 256;

impl Engine {
    /// Remembers sketches of all records of a collection; of how many. Only for a store on this machine: to read a shared one
    /// whole, once for every instance, would cost others more than it saves. O(records).
    ///
    /// # Errors
    /// `UnknownCollection`.
    pub async fn remember_records(&self, collection: &CollectionName) -> Result<u64> {
        if self.store.is_shared() {
            return Ok(0);
        }
        let (mut last, mut remembered) = (Seq(0), 0);
        loop {
            // Looked up anew for each piece: another generation may have gone live.
            let context = self.context(collection).await?;
            if context.state.settings.verify.is_none() || context.is_indexed_anew() {
                return Ok(remembered);
            }
            let records = self.store.records(collection, last, PIECE).await?;
            let Some(end) = records.last() else { return Ok(remembered) };
            last = end.seq;
            remembered += records.len() as u64;
            on_pool(pool()?, move || records.par_iter().for_each(|record| judge::remember(&context, record))).await?;
        }
    }
}
