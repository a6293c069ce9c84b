//! Document frequencies, see `keys` for how they lie on disk. A version is written with the state that names it, in one batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::EmbeddedStore;
use super::admin::{Answer, Turn, put_state};
use super::candidates::blocking;
use super::disk::{Op, Space};
use super::keys;
use super::line::Collection;
use super::shared_state::SharedState;
use super::space::Reserve;
use doppel_core::collection::CollectionName;
use doppel_store::frequencies::{Frequencies, Steps, check_size};
use doppel_store::{CollectionState, Result, Seq};

impl SharedState {
    /// Begins to put a version; `None` if the one before is not in force.
    fn begin_put_frequencies(
        &self,
        name: &CollectionName,
        version: u32,
        bytes: Vec<u8>,
        turn: Turn,
    ) -> Result<Option<Answer>> {
        let collection = self.collection(name)?;
        let number = collection.number;
        let state = collection.state();
        if version.checked_sub(1) != Some(state.frequencies) {
            return Ok(None);
        }
        let state = Arc::new(CollectionState { frequencies: version, ..(*state).clone() });
        let key = |version| keys::frequencies_key(number, version);
        let (before, this) = (key(version - 1), key(version));
        let mut ops = vec![put_state(number, collection.line.lock().next_generation, &state)?];
        for entry in self.disk.prefix(&self.disk.view(), Space::Meta, &keys::frequencies_prefix(number)) {
            let (found, _) = entry?;
            if *found != before[..] && *found != this[..] {
                ops.push(Op::Delete(Space::Meta, found.to_vec()));
            }
        }
        ops.push(Op::Put(Space::Meta, this, bytes));
        let then = move || {
            collection.show(state);
            drop(turn);
        };
        Ok(Some(self.send_apart(ops, Box::new(then))))
    }
}

/// See [`Frequencies::sample`]: published records only, by their slots.
fn sample(collection: &Collection, limit: usize) -> Vec<Seq> {
    // What is sequenced behind is in the index already, and may come to nothing.
    let settled = collection.line.lock().settled_below();
    let shown = collection.shown.load_full();
    let steps = Steps::new(collection.count.load(Ordering::Acquire), limit, shown.state.frequencies);
    let published = shown.live.index.live_seqs().take_while(|seq| *seq < settled);
    let chosen = (0..).zip(published).filter(|(place, _)| steps.take(*place)).map(|(_, seq)| seq);
    chosen.take(limit).collect()
}

#[async_trait]
impl Frequencies for EmbeddedStore {
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool> {
        check_size(&bytes)?;
        let turn = self.turn().await?;
        let begun = self.writable(Reserve::Whole)?.begin_put_frequencies(name, version, bytes, turn)?;
        self.settle(begun).await
    }

    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>> {
        let core = self.core()?;
        let key = keys::frequencies_key(core.collection(name)?.number, version);
        let found = core.disk.get(&core.disk.view(), Space::Meta, &key)?;
        Ok(found.map(|bytes| bytes.to_vec()))
    }

    async fn sample(&self, name: &CollectionName, limit: usize) -> Result<Vec<Seq>> {
        let collection = self.core()?.collection(name)?;
        Ok(blocking(|| sample(&collection, limit)))
    }
}
