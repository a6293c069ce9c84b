//! The duplicates among the orders, by the rules of the service.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context as _;
use rayon::prelude::*;

use crate::dedup::records::statistics;
use doppel_core::collection::Settings;
use doppel_core::record::{RecordId, Row};
use doppel_engine::replay::{EarlierRecord, Replay};
use doppel_store::Seq;

/// Number of records that are signed and judged together.
const BATCH: usize = 4096;
/// Bytes of memory for the sketches.
const SKETCH_BYTES: usize = 256 << 20;

/// An order that was read.
pub(super) struct StockRecord {
    pub(super) id: RecordId,
    pub(super) row: Arc<str>,
}

/// Returns the pairs of duplicates as positions in `records`.
pub(super) fn find_duplicates(
    records: &[StockRecord],
    settings: &Settings,
    progress: impl Fn(u64),
) -> anyhow::Result<Vec<[u32; 2]>> {
    let plain = Replay::new(settings.clone(), None, SKETCH_BYTES)?;
    let text = plain.count_text(records.len(), |at| anyhow::Ok(Arc::clone(&records[at].row)))?;
    let replay = Replay::new(settings.clone(), statistics(None, text), SKETCH_BYTES)?;
    let needs_signatures = replay.needs_signatures();
    let mut earlier: Vec<EarlierRecord> = Vec::with_capacity(records.len());
    let mut pairs = Vec::new();
    for batch in records.chunks(BATCH) {
        let first = earlier.len();
        let signed = batch
            .par_iter()
            .map(|record: &StockRecord| {
                let row = Row::parse(record.row.as_bytes()).context("a row came back damaged")?;
                Ok(replay.sign(&row)?)
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut placed = Vec::with_capacity(batch.len());
        for (record, subject) in batch.iter().zip(signed) {
            let signed = subject.signed();
            earlier.push(EarlierRecord {
                id: record.id.clone(),
                row: Arc::clone(&record.row),
                digest: signed.digest,
                signatures: if needs_signatures { signed.signatures.clone() } else { Vec::new() },
            });
            placed.push(replay.place(Seq(earlier.len() as u64), subject)?);
        }
        let so_far = &earlier;
        let judged = placed.into_par_iter().enumerate().map(|(number, record)| {
            let Ok(judged) = replay.judge(record, |seq| Ok::<_, Infallible>(so_far[seq.0 as usize - 1].clone()));
            let own = (first + number) as u32;
            judged.matches.iter().map(|found| [(found.seq.0 - 1) as u32, own]).collect::<Vec<_>>()
        });
        pairs.par_extend(judged.flatten_iter());
        progress(earlier.len() as u64);
    }
    Ok(pairs)
}
