//! The document frequencies of a collection. They are counted over a sample of its first records, or of all records, and stored in versions.
//! `renewal` decides when.
//!
//! A count passes over the records and counts a [`CountedSample`] of them, on the rebuilding threads, which have a lower priority than the
//! serving threads. If two instances count at the same time, one result is kept.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;

use crate::answers::TextStatistics;
use crate::boxed;
use crate::context::Context;
use crate::rebuild::{on_pool, pool};
use crate::{Engine, Result};
use doppel_core::collection::{CollectionName, Verify};
use doppel_core::record::Row;
use doppel_core::schemes::frequencies::{
    CountedKinds, CountedSample, Counter, Frequencies, SAMPLED_SHINGLE, counted_of, counted_of_batch, name_code,
};
use doppel_core::schemes::profile::Profile;
use doppel_core::text::objects::NamedObject;
use doppel_core::text::{Document, shingles};
use doppel_store::{Seq, StoredRecord};

/// Number of records that are read at once: a few hundred kilobytes of usual rows.
const PIECE: usize = 256;
/// Largest number of repetitions of a count because another count was stored first.
const COUNT_TRIES: usize = 3;

/// Number of bytes of a record's text that are counted. A long text gives no more information about common text than a text of usual length.
const COUNTED_BYTES: usize = 64 << 10;

/// The parts of records that are counted.
#[derive(Clone)]
pub(super) struct CountedParts {
    profile: Arc<Profile>,
    /// Widths of the shingles that are counted.
    widths: BTreeSet<u8>,
    /// True if names of things are also counted.
    objects: bool,
}

impl Context {
    /// Returns the parts of records that are counted; `None` if the collection uses no document frequencies of text.
    pub(super) fn counted(&self) -> Option<CountedParts> {
        CountedParts::of(&self.profile, self.verifier.as_ref().map(|verifier| verifier.settings()))
    }

    /// Returns the number of first records that must be counted, because the collection has grown to it with its `records` records, or uses
    /// frequencies that were not counted; `None` if the present frequencies apply.
    pub(super) fn due_count(&self, records: u64) -> Option<u64> {
        let first = counted_of(records);
        let counted = self.frequencies.records();
        let is_due = first > counted || (first > 0 && self.lacks_frequencies);
        (is_due && self.counted().is_some()).then_some(first.max(counted))
    }
}

impl CountedParts {
    /// Returns the frequencies that a profile and verification use; `None` if they use no frequencies.
    pub(super) fn of(profile: &Arc<Profile>, verify: Option<&Verify>) -> Option<Self> {
        let verify = verify.filter(|verify| verify.rarity);
        let sampled = profile.wants_text_frequencies().then_some(SAMPLED_SHINGLE);
        let widths: BTreeSet<u8> = verify.map(|verify| verify.shingle).into_iter().chain(sampled).collect();
        let objects = profile.wants_name_frequencies() || verify.is_some_and(|verify| verify.objects);
        (!widths.is_empty()).then(|| Self { profile: Arc::clone(profile), widths, objects })
    }

    fn kinds(&self) -> CountedKinds {
        CountedKinds::of(self.widths.iter().copied(), self.objects)
    }

    /// True if `frequencies` contains counts of all these parts.
    pub(super) fn are_in(&self, frequencies: &Frequencies) -> bool {
        frequencies.kinds().include(self.kinds())
    }

    /// Returns the codes of a row, each once.
    pub(super) fn codes_of_row(&self, row: &str) -> Option<Vec<u64>> {
        let document = self.profile.read(&Row::parse(row.as_bytes()).ok()?).ok()?;
        Some(self.codes(&document, None))
    }

    /// Returns the codes of a document, each once. `names` are the names in its text, if they are known.
    pub(super) fn codes(&self, document: &Document, names: Option<&[NamedObject]>) -> Vec<u64> {
        let whole = document.joined();
        let text = &whole[..whole.floor_char_boundary(COUNTED_BYTES)];
        let mut codes: Vec<u64> = self.widths.iter().flat_map(|&width| shingles::codes(text, width)).collect();
        if self.objects {
            let names = names.filter(|_| text.len() == whole.len());
            let names = names.map_or_else(|| self.profile.objects(text).into(), Cow::Borrowed);
            codes.extend(names.iter().map(|object| name_code(&object.name)));
            codes.extend(&document.contacts);
        }
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// Counts rows, on all threads of the pool that calls this function.
    fn count(&self, rows: &[Arc<str>], counter: &mut Counter) {
        let counted: Vec<_> = rows.par_iter().filter_map(|row| self.codes_of_row(row)).collect();
        counted.into_iter().for_each(|codes| counter.observe(codes));
    }
}

impl Engine {
    /// Counts the document frequencies of all records and stores them; `None` if the collection uses no frequencies. O(records).
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn count_frequencies(&self, collection: &CollectionName) -> Result<Option<Arc<Frequencies>>> {
        let records = self.store.count(collection).await?;
        self.count_first(collection, records).await
    }

    /// Counts the document frequencies of the first `records` records and stores them; `None` if the collection uses no frequencies. The count is
    /// repeated if another count was stored meanwhile.
    pub(super) async fn count_first(
        &self,
        collection: &CollectionName,
        records: u64,
    ) -> Result<Option<Arc<Frequencies>>> {
        for _ in 0..COUNT_TRIES {
            let context = self.context(collection).await?;
            let Some(counted) = context.counted() else { return Ok(None) };
            let counter = self.counter(collection, &counted, records).await?;
            let version = context.state.frequencies + 1;
            if self.store.put_frequencies(collection, version, counter.encode(records)).await? {
                let frequencies = Arc::clone(&self.context(collection).await?.frequencies);
                tracing::info!(%collection, version, records, entries = frequencies.len(), "document frequencies are counted");
                return Ok(Some(frequencies));
            }
        }
        Ok(None)
    }

    /// Counts a sample of a collection's first `records` records in commit order. O(records); the sample is read twice.
    async fn counter(&self, collection: &CollectionName, counted: &CountedParts, records: u64) -> Result<Counter> {
        let mut sample = CountedSample::default();
        let mut last = Seq(0);
        let mut left = records as usize;
        while left > 0 {
            let piece = self.store.records(collection, last, PIECE.min(left)).await?;
            let Some(end) = piece.last() else { break };
            last = end.seq;
            left -= piece.len();
            for record in &piece {
                record.content.row().into_iter().for_each(|row| sample.add(row, record.seq));
            }
        }
        let mut counter = Counter::new(counted.kinds());
        for seqs in sample.into_places().chunks(PIECE) {
            let records = self.store.records_at(collection, seqs).await?;
            let by_seq: HashMap<Seq, &StoredRecord> = records.iter().map(|record| (record.seq, record)).collect();
            // A record that was deleted meanwhile does not count.
            let rows = seqs.iter().filter_map(|seq| by_seq.get(seq)?.content.row().cloned());
            let rows: Vec<Arc<str>> = rows.collect();
            let counted = counted.clone();
            counter = on_pool(pool()?, move || {
                counted.count(&rows, &mut counter);
                counter
            })
            .await?;
        }
        Ok(counter)
    }

    /// Returns the version and size of a collection's document frequencies.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn text_statistics(&self, collection: &CollectionName) -> Result<TextStatistics> {
        let context = self.context(collection).await?;
        let frequencies = &context.frequencies;
        Ok(TextStatistics {
            version: frequencies.version(),
            records: frequencies.records(),
            sampled: frequencies.sampled(),
            entries: frequencies.len(),
            bytes: frequencies.memory_usage(),
        })
    }

    /// Counts the document frequencies of a collection if a count is due; with `counts_all` also if not all records are counted. Returns the
    /// encoded frequencies that a new generation with `profile` keeps: the frequencies of the collection if they were counted over the same texts;
    /// otherwise frequencies that are counted only for the generation. `None` if the profile uses no frequencies.
    pub(super) async fn fresh_frequencies(
        &self,
        collection: &CollectionName,
        profile: &Arc<Profile>,
        counts_all: bool,
    ) -> Result<Option<Vec<u8>>> {
        let mut context = self.context(collection).await?;
        let records = self.store.count(collection).await?;
        let all = counted_of_batch(records);
        let lacks_records =
            counts_all && all > 0 && all != context.frequencies.records() && context.counted().is_some();
        if let Some(first) = context.due_count(records).max(lacks_records.then_some(all)) {
            self.count_first(collection, first).await?;
            context = self.context(collection).await?;
        }
        let Some(wanted) = CountedParts::of(profile, None) else { return Ok(None) };
        let live = context.counted().filter(|live| live.kinds().include(wanted.kinds()));
        if live.is_none() || context.profile.digest() != profile.digest() {
            let first = match counts_all {
                true => all,
                false => context.frequencies.records().max(counted_of(records)),
            };
            return Ok(Some(self.counter(collection, &wanted, first).await?.encode(first)));
        }
        Ok(self.store.frequencies(collection, context.state.frequencies).await?)
    }
}
