//! `doppel doctor`: checks that every record and every index entry belong together, and mends what does not.
//!
//! MongoDB: pages, signatures, keys and records are compared with each other. The embedded store rebuilds its index from what
//! is filed whenever it is opened, so there it is enough that every record is found by its own signatures, and that each
//! generation has filed the records there are and no others.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;

use crate::cli::store;
use crate::config::{self, Flags, StoreKind};
use crate::index::Via;
use crate::record::{RecordId, Row};
use crate::schemes::profile::{Profile, Signed};
use crate::schemes::statistics::Statistics;
use crate::store::generations::Phase;
use crate::store::mongo::Report;
use crate::store::{Candidate, CollectionState, GenerationId, Judge, Query, Seq, Store, Until};
use crate::verdict::{Facts, Match, Verdict};

/// Records read at a time.
const PAGE: usize = 1000;
/// Faults listed; the rest is counted.
const LISTED: usize = 100;

/// Options of `doppel doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the embedded store [default: ./doppel-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Mend what is found (MongoDB)
    #[arg(long)]
    repair: bool,
}

/// Examines the store; exits with 1 when something is wrong and was not mended.
///
/// # Errors
/// When the store cannot be opened or read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = config::load(&Flags { file: args.config, data: args.data, ..Flags::default() })?.config.store;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let report = runtime.block_on(async {
        match config.kind {
            StoreKind::Mongodb => {
                let store = store::mongodb(&config).await?;
                anyhow::Ok(store.examine(args.repair, true).await?)
            }
            StoreKind::Embedded => examine(&store::open(&config).await?).await,
        }
    })?;
    let mut out = std::io::stdout().lock();
    for (collection, id, fault) in report.faults.iter().take(LISTED) {
        writeln!(out, "{collection}/{id}: {fault}")?;
    }
    let (faults, mended) = (report.faults.len(), report.mended);
    writeln!(out, "{} records, {} entries, {faults} faults, {mended} mended", report.records, report.entries)?;
    Ok(if faults == 0 || mended > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Looks every record up by its own signatures, and compares each generation with the records.
async fn examine(store: &Arc<dyn Store>) -> anyhow::Result<Report> {
    let mut report = Report::default();
    for state in store.collections().await? {
        for generation in state.others.iter().map(|other| other.id).chain([state.generation]) {
            examine_generation(store, &state, generation, &mut report).await?;
        }
        let statistics = store.statistics(&state.name, state.generation).await?;
        let statistics = statistics.as_deref().and_then(Statistics::decode).map(Arc::new);
        let profile = Profile::compile(&state.settings, statistics);
        anyhow::ensure!(
            profile.digest() == state.profile,
            "collection {} was signed with another dictionary; reindex it first",
            state.name
        );
        let seen = examine_records(store, &state, &profile, &mut report).await?;
        let counted = store.count(&state.name).await?;
        if counted != seen {
            let fault = format!("the collection counts {counted} records, {seen} are there; restore it from a backup");
            report.faults.push((state.name.to_string(), "*".to_owned(), fault));
        }
    }
    Ok(report)
}

/// Looks every record of a collection up by its own signatures; how many there are.
async fn examine_records(
    store: &Arc<dyn Store>,
    state: &CollectionState,
    profile: &Profile,
    report: &mut Report,
) -> anyhow::Result<u64> {
    let radius = state.settings.simhash_radius().unwrap_or(0);
    let (mut after, mut seen) = (0, 0);
    loop {
        let records = store.records(&state.name, after, PAGE).await?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in records {
            seen += 1;
            let signed = Row::parse(record.row.as_bytes()).ok().and_then(|row| profile.read(&row).ok());
            let fault = match signed.map(|document| profile.sign(&document)) {
                None => Some("the stored row cannot be read"),
                Some(signed) if signed.digest != record.digest => Some("the digest is not that of the row"),
                Some(signed) => {
                    let query = query_of(state, radius, profile, signed);
                    let judge = Arc::new(Itself(record.id.clone()));
                    let found = store.find(query, judge, Until::Exhausted).await?;
                    // A cut list need not reach a late record.
                    let lost = found.matches.is_empty() && !found.truncated;
                    lost.then_some("the index does not find the record")
                }
            };
            let fault = fault.map(|fault| (state.name.to_string(), record.id.to_string(), fault.to_owned()));
            report.faults.extend(fault);
        }
    }
    report.records += seen;
    Ok(seen)
}

/// Compares what a generation has filed with the records there are, a page at a time. One that is being built may lack some.
async fn examine_generation(
    store: &Arc<dyn Store>,
    state: &CollectionState,
    generation: GenerationId,
    report: &mut Report,
) -> anyhow::Result<()> {
    let beside = state.others.iter().find(|other| other.id == generation);
    let complete = beside.is_none_or(|other| other.phase == Phase::Ready);
    let mut fault = |id: String, what: &str| {
        report.faults.push((state.name.to_string(), id, format!("{what} in generation {generation}")));
    };
    let mut after = 0;
    loop {
        let records = store.records(&state.name, after, PAGE).await?;
        let end = records.last().map_or(Seq::MAX, |last| last.seq);
        let mut filed = filed_up_to(store, state, generation, (after, end)).await?;
        report.entries += filed.len() as u64;
        for record in &records {
            if !filed.remove(&record.seq) && complete {
                fault(record.id.to_string(), "the record is not filed");
            }
        }
        filed.into_iter().for_each(|seq| fault(format!("seq {seq}"), "what is filed has no record"));
        if records.is_empty() {
            return Ok(());
        }
        after = end;
    }
}

/// The seqs that a generation has filed after one seq and up to another.
async fn filed_up_to(
    store: &Arc<dyn Store>,
    state: &CollectionState,
    generation: GenerationId,
    (mut after, end): (Seq, Seq),
) -> anyhow::Result<BTreeSet<Seq>> {
    let mut seqs = BTreeSet::new();
    loop {
        let page = store.filed(&state.name, generation, after, PAGE).await?;
        seqs.extend(page.iter().map(|filed| filed.seq).take_while(|seq| *seq <= end));
        match page.last() {
            Some(last) if last.seq < end => after = last.seq,
            _ => return Ok(seqs),
        }
    }
}

fn query_of(state: &CollectionState, radius: u8, profile: &Profile, signed: Signed) -> Query {
    let channel = profile.schemes().iter().position(|scheme| scheme.name() == "simhash").unwrap_or(0) as u8;
    Query {
        collection: state.name.clone(),
        generation: state.generation,
        digest: Some(signed.digest),
        fingerprint: signed.fingerprint().map(|fingerprint| (fingerprint, radius, channel)),
        signed: Some(Arc::new(signed)),
        except: None,
        confirmed: Vec::new(),
    }
}

/// Accepts one record, when the exact stage proposes it.
struct Itself(RecordId);

impl Judge for Itself {
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match> {
        let found = candidate.record.id == self.0 && candidate.via.contains(Via::EXACT);
        found.then(|| Match::unmeasured(self.0.clone(), candidate.record.seq))
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(matches, Facts { too_short: false, fingerprint: None, generation: 0, truncated })
    }
}
