//! Measures durable registrations in this process, with appending the same bytes with group commit as the baseline.
//!
//! The records are invented and no two of them match, so that only the store is measured: sequencing, indexing, committing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;

use super::floor::GroupCommitFile;
use super::report::{BenchFigure, BetterDirection, LatencyPercentiles, RoundResult};
use super::synthetic::{KEYS, entry};
use super::{BenchSetup, ROUNDS};
use doppel_core::collection::{CollectionName, Preset, Settings};
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Digest, Signed};
use doppel_core::verdict::{Match, Verdict, VerdictInputs};
use doppel_store::content::RecordContent;
use doppel_store::{
    CandidateJudge, CandidateRecord, CollectionSpec, GenerationId, Registration, RegistrationMode, Store,
};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};

const CALLERS: [usize; 2] = [1, 64];
const ROW_BYTES: usize = 1000;
const BASELINE: &str = "append, group commit";

pub(super) fn measure(setup: &BenchSetup) -> anyhow::Result<Vec<BenchFigure>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let (appender, writer) = GroupCommitFile::create(&setup.dir.path().join("floor")).context("creating a file")?;
    let store =
        EmbeddedStore::open(setup.dir.path().join("store"), EmbeddedOptions::default()).context("opening a store")?;
    let name = CollectionName::new("bench").map_err(anyhow::Error::msg)?;
    let store: Arc<dyn Store> = Arc::new(store);
    let spec = CollectionSpec {
        name: name.clone(),
        settings: Settings::preset(Preset::Default),
        profile: "bench".into(),
        hash_key: None,
        now: doppel_service::clock::now(),
    };
    runtime.block_on(store.create_collection(spec))?;

    let append = {
        let appender = appender.clone();
        move |n| {
            let appender = appender.clone();
            async move { Ok(appender.append(bytes(n)).await?) }
        }
    };
    let register = {
        let store = Arc::clone(&store);
        move |n| {
            let store = Arc::clone(&store);
            let name = name.clone();
            async move {
                store.register(registration(&name, n)?, Arc::new(RejectingJudge)).await?;
                Ok(())
            }
        }
    };
    let mut figures = Vec::new();
    let mut next = 0;
    for callers in CALLERS {
        let slice = setup.slice(2);
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..ROUNDS {
            theirs.push(runtime.block_on(calls(slice, callers, &mut next, append.clone()))?);
            ours.push(runtime.block_on(calls(slice, callers, &mut next, register.clone()))?);
        }
        let unit = ("records/s", BetterDirection::Higher);
        figures.push(BenchFigure::new(format!("store.register.{callers}"), unit, &ours, (BASELINE, &theirs)));
    }
    drop(append);
    runtime.block_on(store.close())?;
    drop(appender);
    anyhow::ensure!(writer.join().is_ok(), "the writer thread panicked");
    Ok(figures)
}

/// Runs `call` in `callers` tasks until the time is over. Each call gets a number from `next`, and no number is used twice.
async fn calls<F>(
    slice: Duration,
    callers: usize,
    next: &mut u64,
    call: impl Fn(u64) -> F + Clone + Send + 'static,
) -> anyhow::Result<RoundResult>
where
    F: Future<Output = anyhow::Result<()>> + Send,
{
    let numbers = Arc::new(AtomicU64::new(*next));
    let started = Instant::now();
    let tasks = (0..callers).map(|_| {
        let numbers = Arc::clone(&numbers);
        let call = call.clone();
        tokio::spawn(async move {
            let mut each = Vec::new();
            while each.is_empty() || started.elapsed() < slice {
                let began = Instant::now();
                call(numbers.fetch_add(1, Ordering::Relaxed)).await?;
                each.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            anyhow::Ok(each)
        })
    });
    let mut each = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        each.extend(task.await.context("a caller panicked")??);
    }
    let value = each.len() as f64 / started.elapsed().as_secs_f64();
    *next = numbers.load(Ordering::Relaxed);
    Ok(RoundResult { value, latency: Some(LatencyPercentiles::of(&mut each, "us")) })
}

fn row(n: u64) -> String {
    format!(r#"{{"title":"{n}","content":"{}"}}"#, "x".repeat(ROW_BYTES - 40))
}

/// Returns the smallest form of a record on disk: its row, its fingerprint, its keys and its digest.
fn bytes(n: u64) -> Bytes {
    let mut bytes = row(n).into_bytes();
    let entry = entry(n, 0, KEYS);
    bytes.extend(entry.keys.iter().flat_map(|key| key.key.to_le_bytes()));
    bytes.extend([0; 40]);
    bytes.into()
}

fn registration(name: &CollectionName, n: u64) -> anyhow::Result<Registration> {
    let entry = entry(n, 0, KEYS);
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&entry.digest_key.to_le_bytes());
    let hashes = entry.keys.iter().map(|key| key.key).collect();
    let signed = Signed {
        digest: Digest(digest),
        features: 100,
        too_short: false,
        signatures: vec![entry.fingerprint.map(Signature::Fingerprint), Some(Signature::Hashes(hashes))],
        keys: entry.keys,
    };
    Ok(Registration {
        collection: name.clone(),
        generation: GenerationId(1),
        id: RecordId::new(&format!("b{n}")).map_err(anyhow::Error::msg)?,
        content: RecordContent::from(&Row::parse(row(n).as_bytes())?),
        signed: Arc::new(signed),
        mode: RegistrationMode::Put,
        write_once: false,
        now: doppel_service::clock::now(),
        others: Vec::new(),
        confirmed: Vec::new(),
        refused: Vec::new(),
        decisions_as_of: None,
        sequenced: doppel_store::SequencedNotifier::default(),
    })
}

/// A verifier that accepts no candidate.
struct RejectingJudge;

impl CandidateJudge for RejectingJudge {
    fn judge(&self, _: &CandidateRecord<'_>) -> Option<Match> {
        None
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(1),
                statistics: 0,
                truncated,
            },
        )
    }
}
