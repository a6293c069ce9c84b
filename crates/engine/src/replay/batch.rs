//! All duplicates of a batch of records that is in memory.

use std::convert::Infallible;
use std::sync::Arc;

use rayon::prelude::*;

use super::{EarlierRecord, Replay, SignedRecord};
use crate::{Error, Result};
use doppel_core::collection::Settings;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::statistics::Statistics;
use doppel_store::Seq;

/// Number of records that are signed and judged together.
const AT_ONCE: usize = 4096;

#[derive(Clone, Debug)]
pub struct BatchRecord {
    pub id: RecordId,
    /// The row of the record as JSON.
    pub row: Arc<str>,
}

/// Returns the pairs of records that match, as positions in `records` with the earlier record first, as if the records were registered in
/// their order. A record that a collection with these settings refuses is in no pair. `progress` receives the number of records that are
/// done. Uses all cores. The memory is that of the index, of the signatures and of `sketch_bytes` bytes of sketches.
///
/// # Errors
/// [`Error::Invalid`] for invalid settings; an error when the index is full, at 2^31 records.
pub fn find_duplicates(
    settings: &Settings,
    records: &[BatchRecord],
    sketch_bytes: usize,
    progress: impl Fn(u64),
) -> Result<Vec<[u32; 2]>> {
    let statistics = count(&Replay::new(settings.clone(), None, sketch_bytes)?, records)?;
    let replay = Replay::new(settings.clone(), statistics, sketch_bytes)?;
    let mut earlier: Vec<EarlierRecord> = Vec::with_capacity(records.len());
    // The position of each earlier record.
    let mut positions: Vec<u32> = Vec::with_capacity(records.len());
    let mut pairs = Vec::new();
    for (number, piece) in records.chunks(AT_ONCE).enumerate() {
        let signed: Vec<Option<SignedRecord>> =
            piece.par_iter().map(|record: &BatchRecord| replay.sign(&parsed(record)?).ok()).collect();
        let mut placed = Vec::with_capacity(piece.len());
        for (position, signed) in (number * AT_ONCE..).zip(signed) {
            let Some(subject) = signed else { continue };
            let signed = subject.signed();
            let BatchRecord { id, row } = records[position].clone();
            let signatures = if replay.needs_signatures() { signed.signatures.clone() } else { Vec::new() };
            earlier.push(EarlierRecord { id, row, digest: signed.digest, signatures });
            positions.push(position as u32);
            placed.push(replay.place(Seq(earlier.len() as u64), subject)?);
        }
        let first = earlier.len() - placed.len();
        let judged = placed.into_par_iter().enumerate().map(|(number, record)| {
            let Ok(judged) = replay.judge(record, |seq| Ok::<_, Infallible>(earlier[index_of(seq)].clone()));
            let own = positions[first + number];
            judged.matches.iter().map(|found| [positions[index_of(found.seq)], own]).collect::<Vec<_>>()
        });
        pairs.par_extend(judged.flatten_iter());
        progress((number * AT_ONCE + piece.len()) as u64);
    }
    Ok(pairs)
}

/// Counts the words and the text of the records, as far as the settings use them.
fn count(replay: &Replay, records: &[BatchRecord]) -> Result<Option<Arc<Statistics>>> {
    let mut words = replay.needs_statistics().then(Statistics::default);
    if let Some(words) = &mut words {
        let documents = records.iter().filter_map(|record| replay.read(&parsed(record)?).ok());
        documents.for_each(|document| replay.observe(&document, words));
    }
    let text = replay.count_text(records.len(), |at| Ok::<_, Error>(Arc::clone(&records[at].row)), |_| None)?;
    let counted = match text {
        Some(text) => Some(words.unwrap_or_default().with_text(&text)),
        None => words,
    };
    Ok(counted.map(Arc::new))
}

fn parsed(record: &BatchRecord) -> Option<Row> {
    Row::parse(record.row.as_bytes()).ok()
}

fn index_of(seq: Seq) -> usize {
    seq.0 as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAMPS: &str = "枫叶里小区南门外的路灯连续三晚没有亮,夜间行人看不清台阶,请尽快安排检修";

    fn record(number: usize, row: &serde_json::Value) -> BatchRecord {
        BatchRecord { id: RecordId::new(&number.to_string()).unwrap(), row: row.to_string().into() }
    }

    #[test]
    fn pairs_have_the_positions_of_the_records_and_refused_records_are_in_none() {
        let rows = [
            serde_json::json!({ "content": LAMPS }),
            // Refused: it has no text.
            serde_json::json!({ "title": "" }),
            serde_json::json!({ "content": "石榴湾小区西门的垃圾堆了一个星期,气味难闻,无人清运" }),
            serde_json::json!({ "content": format!("{LAMPS},谢谢") }),
        ];
        let records: Vec<BatchRecord> = rows.iter().enumerate().map(|(at, row)| record(at, row)).collect();
        let done = std::cell::Cell::new(0);
        let pairs = find_duplicates(&Settings::default(), &records, 1 << 20, |records| done.set(records)).unwrap();
        assert_eq!((pairs, done.get()), (vec![[0, 3]], 4));
    }

    #[test]
    fn pairs_reach_over_the_pieces_of_a_batch() {
        let texts = (0..AT_ONCE + 2).map(|at| match at {
            7 | AT_ONCE | 4097 => serde_json::json!({ "content": LAMPS }),
            _ => serde_json::json!({ "content": format!("第{at}号信件{}", at * 7919 % 10_007) }),
        });
        let records: Vec<BatchRecord> = texts.enumerate().map(|(at, row)| record(at, &row)).collect();
        let pairs = find_duplicates(&Settings::default(), &records, 1 << 20, |_| ()).unwrap();
        let lamps: Vec<_> = pairs.into_iter().filter(|pair| pair.contains(&7) || pair.contains(&4096)).collect();
        assert_eq!(lamps, [[7, 4096], [7, 4097], [4096, 4097]]);
    }
}
