//! Measures the bytes per record: in the indexes, in the process of a service, and on disk.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use anyhow::Context as _;

use super::fill::{FilledDirectory, open, petitions};
use super::report::{BenchFigure, BetterDirection, RoundResult};
use super::startup::ServiceProcess;
use super::{BenchSetup, files_below};
use doppel_core::collection::{Preset, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::profile::Profile;

/// Number of records that are signed to find the number of keys per record.
const SIGNED: u64 = 1000;
/// Number of rounds for the memory of the process. The counts of the indexes do not vary.
const ROUNDS: usize = 3;
/// Size of the unit of `st_blocks` in bytes.
const DISK_BLOCK_BYTES: u64 = 512;

pub(super) fn measure(setup: &BenchSetup, filled: &FilledDirectory) -> anyhow::Result<Vec<BenchFigure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    let (engine, store) = open(&filled.dir)?;
    let usage = runtime.block_on(store.usage())?;
    runtime.block_on(engine.close())?;
    drop((engine, store));
    let index = [per_record(usage.index_bytes, filled)];
    let keys = [RoundResult::from(bare_bytes(setup, filled)?)];

    // Each measurement starts a new process, because memory that this process has returned to its allocator would hide the difference.
    let empty = setup.dir.path().join("empty");
    let mut resident = Vec::new();
    for _ in 0..ROUNDS {
        let without = ServiceProcess::start(&setup.outputs, &empty)?.resident_bytes()?;
        let with = ServiceProcess::start(&setup.outputs, &filled.dir)?.resident_bytes()?;
        resident.push(per_record(with.saturating_sub(without), filled));
    }
    let mut disk = 0;
    for path in files_below(&filled.dir)? {
        disk += fs::metadata(&path).with_context(|| path.display().to_string())?.blocks() * DISK_BLOCK_BYTES;
    }
    let counted = [index[0]; ROUNDS];
    let disk = [per_record(disk, filled)];
    let rows = [per_record(filled.row_bytes, filled)];
    let unit = ("B/record", BetterDirection::Lower);
    Ok(vec![
        BenchFigure::new("memory.index", unit, &index, ("bare keys", &keys)),
        BenchFigure::new("memory.process", unit, &resident, ("index by its own count", &counted)),
        BenchFigure::new("memory.disk", unit, &disk, ("rows as JSON", &rows)),
    ])
}

fn per_record(bytes: u64, filled: &FilledDirectory) -> RoundResult {
    RoundResult::from(bytes as f64 / filled.records as f64)
}

/// Returns the number of indexed bytes of a record: its keys, the key of its digest and its fingerprint have 8 bytes each.
fn bare_bytes(setup: &BenchSetup, filled: &FilledDirectory) -> anyhow::Result<f64> {
    let profile = Profile::compile(&Settings::preset(Preset::Default), None);
    let sample = petitions(setup, 0);
    let count = SIGNED.min(filled.records);
    let mut numbers = 0;
    for at in 0..count {
        let record = sample.record(at * filled.records / count);
        let row = Row::parse(&serde_json::to_vec(&record)?)?;
        let document = profile.read(&row).map_err(|_| anyhow::anyhow!("a made-up petition is refused"))?;
        let signed = profile.sign(&document);
        numbers += 1 + signed.keys.len() + usize::from(signed.fingerprint().is_some());
    }
    Ok((numbers * 8) as f64 / count as f64)
}
