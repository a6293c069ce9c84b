//! Finds duplicates in a list of fingerprints: reads them, sorts them, joins them, and visits the groups.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use serde::Serialize;

use super::components::UnionFind;
use super::report::DedupSummary;
use super::spill::PairSpill;
use super::{DedupArgs, DedupFiles, GroupLine, JsonLinesFile, named_pairs};
use crate::line_report::{LinePlace, LineReport, RejectionReason};
use crate::progress::CommandProgress;
use doppel_core::index::groups::{CHAINED_DENSITY, CHAINED_SIZE, Group, GroupSet};
use doppel_core::index::join::{Distinct, NearPair, Sink, join};
use doppel_core::verdict::Fingerprint;
use doppel_findings::log::ByteLog;

/// The radius of the paper.
const RADIUS: u8 = 3;
const DIGITS: usize = 16;
/// Largest number of bytes of a line. An id has at most 256 bytes.
const MAX_LINE: u64 = 1 << 10;
/// Number of lines between two updates of the progress.
const SAY_EVERY: usize = 1 << 20;
/// Smallest number of bytes for the copies of the join, even if the fingerprints need all of `--memory`.
const LEAST_COPIES: usize = 64 << 20;

pub(super) fn run(
    args: &DedupArgs,
    file: &str,
    dir: &Path,
    files: &mut DedupFiles,
    report: &mut LineReport,
) -> anyhow::Result<DedupSummary> {
    let progress = Arc::clone(&report.progress);
    let mut summary = DedupSummary { unit: "fingerprints", ..DedupSummary::default() };
    let bytes = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
    progress.phase("reading", bytes);
    let FingerprintLines { fingerprints, names } = read(file, ByteLog::new(dir, args.memory / 4), report)?;
    summary.records = fingerprints.len() as u64;
    summary.seconds.push(("reading", progress.phase("sorting", None)));

    let distinct = Distinct::of(&fingerprints)?;
    drop(fingerprints);
    summary.seconds.push(("sorting", progress.phase("joining", None)));
    let left = args.memory.saturating_sub(distinct.memory_usage() + distinct.len() * size_of::<u32>());
    let mut pairs = near_pairs(&distinct, args.radius.unwrap_or(RADIUS), left / 2, dir, &progress)?;
    summary.pairs = pairs.len();
    summary.seconds.push(("joining", progress.phase("grouping", None)));

    NamedFingerprints { distinct: &distinct, names: &names }.write(&mut pairs, left / 4, files, &mut summary)?;
    summary.seconds.push(("grouping", progress.finish()));
    Ok(summary)
}

fn near_pairs(
    distinct: &Distinct,
    radius: u8,
    memory: usize,
    dir: &Path,
    progress: &CommandProgress,
) -> anyhow::Result<PairSpill> {
    let spill = Mutex::new((PairSpill::new(dir, memory / 2), None));
    let gather = PairCollector { spill, progress };
    // The join stops early only after an error, which is stored.
    let _ = join(distinct, radius, (memory / 2 * 3).max(LEAST_COPIES), &gather);
    let (spill, failed) = gather.spill.into_inner();
    match failed {
        Some(error) => Err(error).context("cannot keep pairs on disk"),
        None => Ok(spill),
    }
}

/// Receives the pairs of the join.
struct PairCollector<'a> {
    spill: Mutex<(PairSpill, Option<std::io::Error>)>,
    progress: &'a CommandProgress,
}

impl Sink for PairCollector<'_> {
    fn take(&self, pairs: &[NearPair]) -> ControlFlow<()> {
        let (spill, failed) = &mut *self.spill.lock();
        let put = pairs.iter().try_for_each(|pair| spill.push([pair.a, pair.b, pair.distance.into()]));
        match put {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                *failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn progress(&self, done: u64, total: u64) {
        self.progress.share(done, total);
    }
}

/// The lines of a file.
struct FingerprintLines {
    fingerprints: Vec<u64>,
    names: FingerprintNames,
}

struct FingerprintNames {
    /// The ids in the input; empty for a fingerprint without an id. The list ends at the last id.
    ids: ByteLog,
    /// Differences between line numbers and places: (first place, difference). A difference holds up to the next entry.
    shifts: Vec<(usize, u64)>,
}

impl FingerprintNames {
    fn get(&self, place: u32) -> anyhow::Result<String> {
        let place = place as usize;
        let id =
            if place < self.ids.count() { self.ids.get(place).context("cannot read an id back")? } else { Vec::new() };
        if !id.is_empty() {
            return String::from_utf8(id).context("a stored id is damaged");
        }
        let shift = self.shifts.partition_point(|&(from, _)| from <= place);
        let more = shift.checked_sub(1).map_or(0, |at| self.shifts[at].1);
        Ok((place as u64 + 1 + more).to_string())
    }
}

/// Reads all lines. Invalid lines are rejected.
fn read(file: &str, ids: ByteLog, report: &mut LineReport) -> anyhow::Result<FingerprintLines> {
    let input: Box<dyn Read> = match file {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(File::open(path).with_context(|| format!("cannot open {path}"))?),
    };
    let mut input = BufReader::with_capacity(1 << 20, input);
    let mut listed = FingerprintLines { fingerprints: Vec::new(), names: FingerprintNames { ids, shifts: Vec::new() } };
    let mut number = 0_u64;
    let mut bytes = 0_u64;
    let mut line = Vec::new();
    loop {
        let buffer = input.fill_buf().with_context(|| format!("cannot read {file} on"))?;
        // Almost all lines have this form. For them, there is no need to search the end or to copy.
        if buffer.get(DIGITS) == Some(&b'\n')
            && let Some(value) = parse(&buffer[..DIGITS])
        {
            input.consume(DIGITS + 1);
            bytes += DIGITS as u64 + 1;
            number += 1;
            listed.fingerprints.push(value);
        } else {
            line.clear();
            let length = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let length = length.with_context(|| format!("cannot read {file} on"))? as u64;
            if length == 0 {
                return Ok(listed);
            }
            bytes += length;
            number += 1;
            if let Err(detail) = listed.add(&line)? {
                let why = RejectionReason { code: "malformed_line", pointer: "", detail, text: None };
                report.reject(LinePlace { file: 0, line: number }, why)?;
                bytes += skip_rest(&mut input, &line)?;
            }
            listed.count_lines(number);
        }
        if listed.fingerprints.len().is_multiple_of(SAY_EVERY) {
            report.progress.at(bytes);
        }
    }
}

/// Reads to the end of a line that begins with `line`. Returns the number of bytes read.
fn skip_rest(input: &mut impl BufRead, line: &[u8]) -> std::io::Result<u64> {
    let mut skipped = 0;
    let mut ended = line.ends_with(b"\n");
    while !ended {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        ended = end.is_some() || length == 0;
        input.consume(length);
        skipped += length as u64;
    }
    Ok(skipped)
}

impl FingerprintLines {
    /// Adds a line. Returns the error of an invalid line. Skips an empty line.
    fn add(&mut self, line: &[u8]) -> anyhow::Result<Result<(), &'static str>> {
        if line.len() as u64 >= MAX_LINE && !line.ends_with(b"\n") {
            return Ok(Err("the line is longer than an id may be"));
        }
        let text = line.trim_ascii_end();
        if text.is_empty() {
            return Ok(Ok(()));
        }
        let (digits, id) = match text.iter().position(|&byte| byte == b'\t') {
            Some(tab) => (&text[..tab], &text[tab + 1..]),
            None => (text, &[][..]),
        };
        let (Some(value), Ok(id)) = (parse(digits), std::str::from_utf8(id)) else { return Ok(Err(WRONG)) };
        let place = self.fingerprints.len();
        if !id.is_empty() {
            while self.names.ids.count() < place {
                self.names.ids.push(&[])?;
            }
            self.names.ids.push(&[id.as_bytes()])?;
        }
        self.fingerprints.push(value);
        Ok(Ok(()))
    }

    /// Records that `lines` lines were read. From now on, line numbers differ from places by the difference.
    fn count_lines(&mut self, lines: u64) {
        let place = self.fingerprints.len();
        let shift = lines - place as u64;
        if shift != self.names.shifts.last().map_or(0, |last| last.1) {
            self.names.shifts.push((place, shift));
        }
    }
}

const WRONG: &str = "a line is a fingerprint of 16 lower-case hexadecimal digits, and perhaps a tab and an id in UTF-8";

/// Parses 16 lower-case hexadecimal digits.
fn parse(digits: &[u8]) -> Option<u64> {
    if digits.len() != DIGITS {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

/// A set of positions, with one bit for each.
struct PositionSet(Vec<u64>);

impl PositionSet {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn set(&mut self, position: u32) {
        self.0[position as usize / 64] |= 1 << (position % 64);
    }

    fn has(&self, position: u32) -> bool {
        self.0[position as usize / 64] >> (position % 64) & 1 == 1
    }
}

/// The fingerprints and their names, for writing.
struct NamedFingerprints<'a> {
    distinct: &'a Distinct,
    names: &'a FingerprintNames,
}

#[derive(Serialize)]
struct PairLine {
    a: String,
    b: String,
    distance: u32,
}

#[derive(Serialize)]
struct EqualLine {
    equal: Vec<String>,
    fingerprint: Fingerprint,
}

/// The weak links of a group, as places.
struct WeakLinks {
    /// Pairs that are the only link between two parts of the group.
    bridges: Vec<[u32; 2]>,
    /// Pairs that are the only link to another group.
    cut: Vec<[u32; 2]>,
}

impl NamedFingerprints<'_> {
    /// Writes pairs and groups, and counts them.
    fn write(
        &self,
        pairs: &mut PairSpill,
        memory: usize,
        files: &mut DedupFiles,
        summary: &mut DedupSummary,
    ) -> anyhow::Result<()> {
        let mut components = UnionFind::new(self.distinct.len());
        let mut near = PositionSet::new(self.distinct.len());
        pairs.each(|[a, b, distance]| {
            components.join(a, b);
            near.set(a);
            near.set(b);
            if files.pairs.wanted() { self.write_pair(a, b, distance, &mut files.pairs) } else { Ok(()) }
        })?;
        self.write_equal(&mut files.pairs, summary)?;
        components.each_group(
            pairs,
            memory,
            |position| self.copies(position),
            |group, set| self.write_group(group, set, &mut files.groups, summary),
        )?;
        self.write_equal_groups(&near, &mut files.groups, summary)
    }

    /// Returns the number of records with the fingerprint at a position.
    fn copies(&self, position: u64) -> usize {
        self.distinct.places(position as u32).len()
    }

    fn first_place(&self, position: u32) -> u32 {
        self.distinct.places(position)[0]
    }

    fn write_pair(&self, a: u32, b: u32, distance: u32, out: &mut JsonLinesFile) -> anyhow::Result<()> {
        let a = self.first_place(a);
        let b = self.first_place(b);
        let first = self.names.get(a.min(b))?;
        let second = self.names.get(a.max(b))?;
        out.put(&PairLine { a: first, b: second, distance })
    }

    fn names_of(&self, places: &[u32]) -> anyhow::Result<Vec<String>> {
        places.iter().map(|&place| self.names.get(place)).collect()
    }

    fn write_equal(&self, out: &mut JsonLinesFile, summary: &mut DedupSummary) -> anyhow::Result<()> {
        for position in self.distinct.positions() {
            let places = self.distinct.places(position);
            if places.len() > 1 {
                summary.exact += places.len() as u64;
                if out.wanted() {
                    let fingerprint = Fingerprint(self.distinct.value(position));
                    out.put(&EqualLine { equal: self.names_of(places)?, fingerprint })?;
                }
            }
        }
        Ok(())
    }

    /// Writes a group of different fingerprints, each with all its copies.
    fn write_group(
        &self,
        group: &Group,
        set: &GroupSet,
        out: &mut JsonLinesFile,
        summary: &mut DedupSummary,
    ) -> anyhow::Result<()> {
        let Group { members, pairs: _, density: _, bridges, cut, .. } = group;
        let mut places: Vec<u32> = members.iter().flat_map(|&at| self.distinct.places(at as u32)).copied().collect();
        places.sort_unstable();
        // A pair of fingerprints represents all pairs of their copies. It is a weak link only if there is just one such pair.
        let bridges = bridges.iter().filter(|(a, b)| self.copies(*a) == 1 && self.copies(*b) == 1);
        let mut pairs = 0;
        for &at in members {
            let copies = self.copies(at) as u64;
            pairs += copies * (copies - 1) / 2;
            let later = set.pairs_of(at).filter(|other| *other > at && members.binary_search(other).is_ok());
            pairs += later.map(|other| copies * self.copies(other) as u64).sum::<u64>();
        }
        let links = WeakLinks {
            bridges: bridges.map(|pair| self.first_places(*pair)).collect(),
            cut: cut.iter().map(|pair| self.first_places(*pair)).collect(),
        };
        self.put_group(&places, pairs, links, out, summary)
    }

    fn first_places(&self, pair: (u64, u64)) -> [u32; 2] {
        [self.first_place(pair.0 as u32), self.first_place(pair.1 as u32)]
    }

    /// Writes the groups of equal fingerprints that are near no other fingerprint.
    fn write_equal_groups(
        &self,
        near: &PositionSet,
        out: &mut JsonLinesFile,
        summary: &mut DedupSummary,
    ) -> anyhow::Result<()> {
        for position in self.distinct.positions() {
            let places = self.distinct.places(position);
            let size = places.len() as u64;
            if size > 1 && !near.has(position) {
                let bridges = if size == 2 { vec![[places[0], places[1]]] } else { Vec::new() };
                self.put_group(places, size * (size - 1) / 2, WeakLinks { bridges, cut: Vec::new() }, out, summary)?;
            }
        }
        Ok(())
    }

    /// Returns pairs of places by name, in order. `names` has the name of each of the `places`.
    fn named_pairs(
        &self,
        mut pairs: Vec<[u32; 2]>,
        places: &[u32],
        names: &[String],
    ) -> anyhow::Result<Vec<[String; 2]>> {
        pairs.iter_mut().for_each(|pair| pair.sort_unstable());
        pairs.sort_unstable();
        named_pairs(pairs, places, names, |place| self.names.get(place))
    }

    fn put_group(
        &self,
        places: &[u32],
        pairs: u64,
        links: WeakLinks,
        out: &mut JsonLinesFile,
        summary: &mut DedupSummary,
    ) -> anyhow::Result<()> {
        let size = places.len() as u64;
        let density = pairs as f64 / (size * (size - 1) / 2) as f64;
        let chained = places.len() >= CHAINED_SIZE && density < CHAINED_DENSITY;
        summary.group(size, chained);
        if !out.wanted() {
            return Ok(());
        }
        let members = self.names_of(places)?;
        let bridges = self.named_pairs(links.bridges, places, &members)?;
        let cut = self.named_pairs(links.cut, places, &members)?;
        let density = (density * 10_000.0).round() / 10_000.0;
        out.put(&GroupLine {
            group: &members[0],
            members: &members,
            size: members.len(),
            pairs,
            density,
            bridges,
            cut,
            chained,
            petitioners: None,
            from: None,
            to: None,
        })
    }
}
