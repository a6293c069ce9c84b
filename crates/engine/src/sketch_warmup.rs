//! Makes the sketches of all records again after a start (`similarity::sketches`), so that candidates can be refused without reading them.
//!
//! Until then, a candidate that has only a phrase in common must be read to be refused, and registrations in a large collection are several
//! times slower. The warm-up is one pass over the records in seq order, on the rebuilding threads, which have a lower priority than the
//! serving threads. If there are more records than the memory for sketches allows, the latest ones stay.

use rayon::prelude::*;

use crate::boxed;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Result, judge};
use doppel_core::collection::CollectionName;
use doppel_store::Seq;

/// Number of records that are read at once: some tens of milliseconds of work, a few hundred kilobytes of usual rows.
const PIECE: usize = 256;

impl Engine {
    /// Makes the sketches of all records of a collection. Returns the number of records. Does nothing on a shared store: reading the whole
    /// store once for every instance would cost the others more than it saves. O(records).
    ///
    /// # Errors
    /// `UnknownCollection`.
    #[boxed]
    pub async fn remember_records(&self, collection: &CollectionName) -> Result<u64> {
        if self.store.is_shared() {
            return Ok(0);
        }
        let mut last = Seq(0);
        let mut remembered = 0;
        loop {
            // The context is read again for each piece, because another generation may have gone live.
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
