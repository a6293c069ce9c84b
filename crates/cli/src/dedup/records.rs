//! Finds duplicates among records: reads all records, then signs, places and judges them in their order, and then visits the groups.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use rayon::prelude::*;
use serde::Serialize;

use super::components::UnionFind;
use super::copies::SharedPairs;
use super::given_back::GivenBack;
use super::report::DedupSummary;
use super::spill::PairSpill;
use super::stock::{KeptRecord, RecordStock};
use super::{DedupArgs, DedupFiles, GroupLine, JsonLinesFile, LeaveRule, named_pairs, survivors};
use crate::import::input::RecordInput;
use crate::import::lines::{CheckedLine, check, repeated_id};
use crate::line_report::LineReport;
use crate::progress::CommandProgress;
use crate::settings_file;
use doppel_config::Config;
use doppel_core::index::groups::Group;
use doppel_core::record::Row;
use doppel_core::schemes::statistics::Statistics;
use doppel_core::text::Document;
use doppel_core::verdict::{Difference, Match, Relation};
use doppel_engine::replay::{BatchMatches, PlacedRecord, Replay, SignedRecord};
use doppel_sources::UnreadableLine;
use doppel_store::Seq;

/// Number of records that are signed and judged together. With more records, one core waits longer while the other places them.
const BATCH: u32 = 1024;
/// Largest number of written pairs unless an option allows more, in total and per record. A larger number comes from texts that occur
/// thousands of times; the groups contain the same information in fewer bytes.
const MOST_PAIRS: u64 = 1_000_000;
const MOST_PAIRS_A_RECORD: u64 = 20;
/// The mark of a pair of exact duplicates.
const EXACT: u32 = 1;

/// Returns the shares of `--memory`: for rows and signatures; for pairs; for sketches during the comparison, and for groups after it.
fn shares(memory: usize) -> (usize, usize, usize) {
    (memory / 2, memory / 8, memory / 8 * 3)
}

pub(super) fn run(
    args: &DedupArgs,
    config: &Config,
    dir: &Path,
    files: &mut DedupFiles,
    report: &mut LineReport,
) -> anyhow::Result<DedupSummary> {
    let settings = settings_file::read_settings(args.settings.as_deref(), args.preset)?;
    let input = args.reading.input(&args.files, config)?;
    let mut input = RecordInput { keep_text: args.rejects.rejects_with_text, keep_rows: args.out.is_some(), ..input };
    input.check_names()?;
    let (for_rows, for_pairs, for_sketches_or_groups) = shares(args.memory);
    let progress = Arc::clone(&report.progress);
    report.names = input.names();
    input.plan(Some(&settings), |text| progress.say(text))?;
    let mut summary = DedupSummary { unit: "records", ..DedupSummary::default() };

    let mut back = args.out.as_ref().map(|_| GivenBack::new(&input, args, dir));

    progress.phase("reading", input.total_bytes());
    let mut replay = Replay::new(settings.clone(), None, for_sketches_or_groups)?;
    let mut stock = RecordStock::new(dir, for_rows);
    let mut columns = Vec::new();
    let words = read_all(input, &replay, (&mut stock, back.as_mut()), &mut columns, report)?;
    if let (Some(back), Some((form, _))) = (&back, &files.table) {
        back.fits(form)?;
    }
    report.columns(&columns, Some(&settings.fields));
    let text = count_text(&replay, &stock)?;
    if let Some(statistics) = statistics(words, text) {
        replay = Replay::new(settings, Some(statistics), for_sketches_or_groups)?;
    }
    for (scheme, reason) in replay.inactive_channels() {
        progress.say(&format!("the channel {scheme} does not run: {reason}"));
    }
    summary.records = stock.len() as u64;
    summary.seconds.push(("reading", progress.phase("comparing", Some(summary.records))));

    let mut outcome = ComparisonOutcome::new(&stock, PairSpill::new(dir, for_pairs));
    outcome.most_pairs = args.max_pairs.unwrap_or_else(|| most_pairs(summary.records));
    outcome.compare_all(&replay, (&mut stock, BATCH), (&mut files.pairs, back.as_mut()), &progress)?;
    drop(replay);
    summary.seconds.push(("comparing", progress.phase("grouping", None)));

    outcome.write(args, &stock, for_sketches_or_groups, files, &mut summary)?;
    summary.seconds.push(("grouping", progress.phase("writing", Some(summary.records))));
    if let (Some(back), Some((form, out))) = (back, files.table.take()) {
        files.written = Some(back.write(out, &form, dir, &progress)?);
    }
    progress.finish();
    Ok(summary)
}

/// Returns the largest number of written pairs for this number of records, unless an option sets it.
fn most_pairs(records: u64) -> u64 {
    MOST_PAIRS.max(records.saturating_mul(MOST_PAIRS_A_RECORD))
}

/// The document of a line. It is signed now if the signatures fit into memory until the comparison.
enum ReadDocument {
    Signed(SignedRecord),
    Unsigned(Document),
}

impl ReadDocument {
    fn of(replay: &Replay, document: Document, has_room: bool) -> Self {
        if has_room { Self::Signed(replay.sign_document(document)) } else { Self::Unsigned(document) }
    }

    fn get(&self) -> &Document {
        match self {
            Self::Signed(record) => record.document(),
            Self::Unsigned(document) => document,
        }
    }
}

/// Reads all lines into the stock and the resulting table, and the names of their columns into `columns`. Records refusals and warnings. Returns
/// the statistics of words if the profile needs them.
fn read_all(
    input: RecordInput,
    replay: &Replay,
    kept: (&mut RecordStock, Option<&mut GivenBack>),
    columns: &mut Vec<String>,
    report: &mut LineReport,
) -> anyhow::Result<Option<Statistics>> {
    let (stock, mut back) = kept;
    let mut statistics = replay.needs_statistics().then(Statistics::default);
    let mut batches = input.start();
    while let Some(batch) = batches.blocking_recv().transpose()? {
        columns.extend(batch.new_columns.iter().cloned());
        let has_room = stock.has_room();
        report.take_batch(
            &batch,
            |line| {
                let CheckedLine { row, id, document } = check(replay, line)?;
                Ok(CheckedLine { row, id, document: ReadDocument::of(replay, document, has_room) })
            },
            |line, read| {
                let kept = match read {
                    Ok(read) => keep(stock, read)?,
                    Err(refusal) => Err(refusal),
                };
                if let Some(back) = &mut back {
                    back.keep(line, kept.as_ref().err().map(|refusal| refusal.code))?;
                }
                Ok(kept.map(|document| {
                    if let Some(statistics) = &mut statistics {
                        replay.observe(document.get(), statistics);
                    }
                    let warnings = document.get().warnings.clone();
                    if let ReadDocument::Signed(record) = document {
                        stock.keep_signed(record);
                    }
                    warnings
                }))
            },
        )?;
        report.progress.at(batch.read_bytes);
    }
    stock.close();
    Ok(statistics)
}

/// Counts how common pieces of text are among the records, if the comparison needs this.
fn count_text(replay: &Replay, stock: &RecordStock) -> anyhow::Result<Option<Vec<u8>>> {
    replay.count_text(stock.len(), |at| Ok(stock.row(at as u32)?.into()), |at| stock.signed_at(at))
}

/// Combines the counts of words and text; `None` without counts.
pub(crate) fn statistics(words: Option<Statistics>, text: Option<Vec<u8>>) -> Option<Arc<Statistics>> {
    if words.is_none() && text.is_none() {
        return None;
    }
    let words = words.unwrap_or_default();
    Some(Arc::new(match text {
        Some(text) => words.with_text(&text),
        None => words,
    }))
}

/// Stores a record and returns its document, or returns a refusal if its id is taken.
fn keep(
    stock: &mut RecordStock,
    read: CheckedLine<ReadDocument>,
) -> anyhow::Result<Result<ReadDocument, UnreadableLine>> {
    let CheckedLine { row, id, document } = read;
    let Document { time, identity, .. } = document.get();
    let kept = KeptRecord { id: &id, row: row.json(), time: *time, petitioner: identity.as_deref() };
    Ok(if stock.add(&kept)? { Ok(document) } else { Err(repeated_id(row.json())) })
}

struct ComparisonOutcome {
    /// The pairs, except those of `shared`.
    pairs: PairSpill,
    /// The pairs of copies of mass letters.
    shared: SharedPairs,
    /// Records that are connected by any pairs.
    all: UnionFind,
    /// Records that are connected by exact duplicates.
    equal: UnionFind,
    exact: u64,
    truncated: u64,
    /// Largest number of written pairs.
    most_pairs: u64,
}

impl ComparisonOutcome {
    fn new(stock: &RecordStock, pairs: PairSpill) -> Self {
        let alone = UnionFind::new(stock.len());
        let shared = SharedPairs::default();
        Self { pairs, shared, equal: alone.clone(), all: alone, exact: 0, truncated: 0, most_pairs: u64::MAX }
    }

    /// Compares all records with the earlier records, `batch` records at a time.
    fn compare_all(
        &mut self,
        replay: &Replay,
        records: (&mut RecordStock, u32),
        outputs: (&mut JsonLinesFile, Option<&mut GivenBack>),
        progress: &CommandProgress,
    ) -> anyhow::Result<()> {
        let (stock, batch) = records;
        let (out, mut back) = outputs;
        let whole = replay.needs_signatures();
        let count = stock.len() as u32;
        let mut before = 0..0_u32;
        let mut placed = Vec::new();
        loop {
            let positions = before.end..count.min(before.end.saturating_add(batch));
            let known = positions.clone().map(|position| stock.take_signed(position)).collect();
            let signed = sign_all(replay, stock, positions.clone(), known)?;
            for subject in &signed {
                stock.sign(subject.signed(), whole)?;
                if let Some(back) = &mut back {
                    back.signed(subject.signed().too_short);
                }
            }
            // Only one thread can place records. The other threads judge the records that are already placed.
            let so_far = &*stock;
            let first = positions.start;
            let (judged, next): (Vec<anyhow::Result<BatchMatches>>, _) = rayon::join(
                || placed.into_par_iter().map(|placed| judge(replay, so_far, placed)).collect(),
                || place_all(replay, first, signed),
            );
            for (position, found) in before.clone().zip(judged) {
                let found = found?;
                if let Some(back) = &mut back {
                    back.found(position, &found);
                }
                self.take(stock, position, found, out)?;
            }
            progress.at(before.end.into());
            if positions.is_empty() {
                return Ok(());
            }
            (before, placed) = (positions, next?);
        }
    }

    /// Visits the groups, writes the wanted files, and counts.
    fn write(
        &mut self,
        args: &DedupArgs,
        stock: &RecordStock,
        memory: usize,
        files: &mut DedupFiles,
        summary: &mut DedupSummary,
    ) -> anyhow::Result<()> {
        (summary.pairs, summary.exact, summary.truncated) = (self.pair_count(), self.exact, self.truncated);
        let DedupFiles { groups, survivors, .. } = files;
        let mut near = (survivors.wanted() && args.drop == LeaveRule::Near).then(|| UnionFind::new(stock.len()));
        self.all.each_group_of_records(&mut self.pairs, &self.shared, memory, |group| {
            summary.group(group.members.len() as u64, group.chained);
            if let Some(near) = &mut near {
                group.members.iter().for_each(|&member| near.join(group.members[0] as u32, member as u32));
            }
            if groups.wanted() { write_group(stock, group, groups) } else { Ok(()) }
        })?;
        if survivors.wanted() {
            let sets = near.as_mut().unwrap_or(&mut self.equal);
            summary.survivors = Some(survivors::write(stock, sets, args.keep, survivors)?);
        }
        Ok(())
    }

    fn pair_count(&self) -> u64 {
        self.pairs.len() + self.shared.len()
    }

    fn take(
        &mut self,
        stock: &RecordStock,
        position: u32,
        found: BatchMatches,
        out: &mut JsonLinesFile,
    ) -> anyhow::Result<()> {
        self.truncated += u64::from(found.truncated);
        if !self.take_copy(position, &found) {
            for one in found.matches().iter() {
                let earlier = (one.seq.0 - 1) as u32;
                self.join(earlier, position, one.is_exact());
                self.exact += u64::from(one.is_exact());
                self.pairs.push([earlier, position, if one.is_exact() { EXACT } else { 0 }])?;
            }
        }
        if !out.wanted() {
            return Ok(());
        }
        let mut matches: Vec<Match> = found.into_matches();
        matches.sort_unstable_by_key(|found| found.seq);
        let id = if matches.is_empty() { String::new() } else { stock.id(position)? };
        for found in &matches {
            out.put(&PairLine::new(found, &id))?;
        }
        if self.pair_count() > self.most_pairs {
            anyhow::bail!(
                "--pairs: there are more than {} pairs, and the first {} of {} records are compared; write --groups instead, \
                 where many records with one text are one line, or give --max-pairs with a higher number",
                self.most_pairs,
                position + 1,
                stock.len()
            );
        }
        Ok(())
    }

    /// Adds the pairs of a record that shares its matches with others. Returns false if the pairs must be added one by one.
    fn take_copy(&mut self, position: u32, found: &BatchMatches) -> bool {
        if !found.is_shared() {
            return false;
        }
        let Some((letter, is_first)) = self.shared.add(found.matches(), position) else { return false };
        self.exact += letter.exact;
        // The first copy connects all records of the list; a later copy is connected with any of them.
        let connected = if is_first { letter.matches().len() } else { 1 };
        let pairs = letter.matches()[..connected].iter().map(|found| ((found.seq.0 - 1) as u32, found.is_exact()));
        let pairs: Vec<(u32, bool)> = pairs.chain(letter.exact_with.map(|exact| (exact, true))).collect();
        for (earlier, is_exact) in pairs {
            self.join(earlier, position, is_exact);
        }
        true
    }

    fn join(&mut self, earlier: u32, position: u32, is_exact: bool) {
        self.all.join(earlier, position);
        if is_exact {
            self.equal.join(earlier, position);
        }
    }
}

/// Signs the records at `positions` on all threads. `known` contains the records that were signed while they were read.
fn sign_all(
    replay: &Replay,
    stock: &RecordStock,
    positions: Range<u32>,
    known: Vec<Option<SignedRecord>>,
) -> anyhow::Result<Vec<SignedRecord>> {
    let records = positions.into_par_iter().zip(known);
    let signed = records.map(|(position, known)| match known {
        Some(record) => Ok(replay.sign_again(record)),
        None => {
            let row = Row::parse(stock.row(position)?.as_bytes()).context("a stored row is damaged")?;
            Ok(replay.sign(&row)?)
        }
    });
    signed.collect()
}

/// Places consecutive records, beginning at the position `first`.
fn place_all(replay: &Replay, first: u32, signed: Vec<SignedRecord>) -> anyhow::Result<Vec<PlacedRecord>> {
    let seqs = (u64::from(first) + 1..).map(Seq);
    seqs.zip(signed).map(|(seq, subject)| Ok(replay.place(seq, subject)?)).collect()
}

/// Compares one placed record.
fn judge(replay: &Replay, stock: &RecordStock, placed: PlacedRecord) -> anyhow::Result<BatchMatches> {
    replay.judge_sharing(placed, |seq| stock.earlier((seq.0 - 1) as u32))
}

/// A pair in the output.
#[derive(Serialize)]
struct PairLine<'a> {
    a: &'a str,
    b: &'a str,
    via: &'a [String],
    distance: Option<u8>,
    jaccard: Option<f64>,
    containment: Option<f64>,
    similarity: Option<f64>,
    probability: Option<f64>,
    relation: Option<Relation>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    differs: &'a [Difference],
}

impl<'a> PairLine<'a> {
    fn new(found: &'a Match, b: &'a str) -> Self {
        let Match {
            id,
            seq: _,
            via,
            distance,
            jaccard,
            containment,
            similarity,
            probability,
            relation,
            time: _,
            differs,
            template: _,
            handling: _,
            row: _,
        } = found;
        Self {
            a: id.as_str(),
            b,
            via,
            distance: *distance,
            jaccard: *jaccard,
            containment: *containment,
            similarity: *similarity,
            probability: *probability,
            relation: *relation,
            differs,
        }
    }
}

fn write_group(stock: &RecordStock, group: &Group, out: &mut JsonLinesFile) -> anyhow::Result<()> {
    let Group { members, pairs, density, bridges, cut, rejected: _, contested: _, chained } = group;
    let ids = members.iter().map(|&member| stock.id(member as u32)).collect::<anyhow::Result<Vec<_>>>()?;
    let (from, to) = stock.span(members);
    out.put(&GroupLine {
        group: &ids[0],
        members: &ids,
        size: ids.len(),
        pairs: *pairs as u64,
        density: (density * 10_000.0).round() / 10_000.0,
        bridges: named_pairs(bridges.iter().map(|&(a, b)| [a, b]), members, &ids, |member| stock.id(member as u32))?,
        cut: named_pairs(cut.iter().map(|&(a, b)| [a, b]), members, &ids, |member| stock.id(member as u32))?,
        chained: *chained,
        petitioners: Some(stock.petitioners(members)),
        from,
        to,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{Preset, Settings};

    /// Returns the pairs of `rows` when `batch` records are compared at a time.
    fn pairs(rows: &[Row], batch: u32) -> Vec<[u32; 3]> {
        let dir = tempfile::tempdir().expect("a folder");
        let replay = Replay::new(Settings::preset(Preset::Default), None, 1 << 20).expect("an index");
        let mut stock = RecordStock::new(dir.path(), 1 << 20);
        for row in rows {
            let kept = KeptRecord { id: row.id().expect("an id"), row: row.json(), time: None, petitioner: None };
            assert!(stock.add(&kept).expect("it is kept"));
        }
        stock.close();
        let mut outcome = ComparisonOutcome::new(&stock, PairSpill::new(dir.path(), 1 << 20));
        let progress = CommandProgress::new();
        outcome
            .compare_all(&replay, (&mut stock, batch), (&mut JsonLinesFile(None), None), &progress)
            .expect("compared");
        let mut pairs = Vec::new();
        let read = outcome.pairs.each(|pair| {
            pairs.push(pair);
            Ok::<_, std::io::Error>(())
        });
        read.expect("read back");
        pairs.sort_unstable();
        pairs
    }

    #[test]
    fn as_many_pairs_are_written_unasked_as_files_without_mass_letters_have() {
        assert_eq!([0, 40_000, 50_000, 10_000_000].map(most_pairs), [1_000_000, 1_000_000, 1_000_000, 200_000_000]);
    }

    fn row(number: usize) -> Row {
        let place = ["三号路", "七号路", "河口新区", "菜市场东门", "老电影院"][number / 2 % 5];
        let text = format!("{place}的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果，编号{}", number / 4);
        let json = format!(r#"{{"id":"r{number}","content":"{text}"}}"#);
        Row::parse(json.as_bytes()).expect("a row")
    }

    #[test]
    fn the_outcome_does_not_depend_on_how_many_are_compared_at_a_time() {
        let rows: Vec<Row> = (0..48).map(row).collect();
        let all = pairs(&rows, 1000);
        assert!(all.len() > rows.len() / 2, "{}", all.len());
        for batch in [1, 7, 16, 47, 48, 49] {
            assert_eq!(pairs(&rows, batch), all, "{batch} at a time");
        }
        assert!(pairs(&[], 16).is_empty());
    }
}
