//! Measures the time from the start until the records of a directory are served. Also starts a real service for this measurement.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use parking_lot::Mutex;

use super::fill::{FilledDirectory, open};
use super::report::{BenchFigure, BetterDirection, RoundResult};
use super::{BenchSetup, files_below, tell};
use doppel_cli::output::{CleanupGuard, CommandOutputs};

/// Number of rounds. It is smaller than elsewhere, because a round takes seconds with a million records.
const ROUNDS: usize = 3;

pub(super) fn measure(setup: &BenchSetup, filled: &FilledDirectory) -> anyhow::Result<Vec<BenchFigure>> {
    let empty = setup.dir.path().join("empty");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    let mut opened = vec![];
    let mut read = vec![];
    let mut served = vec![];
    let mut bare = vec![];
    for round in 1..=ROUNDS {
        tell(&format!("  opening, round {round} of {ROUNDS}"));
        read.push(RoundResult::from(read_all(&filled.dir)?));
        let started = Instant::now();
        let (engine, _store) = open(&filled.dir)?;
        opened.push(RoundResult::from(started.elapsed().as_secs_f64()));
        runtime.block_on(engine.close())?;
        bare.push(RoundResult::from(ServiceProcess::start(&setup.outputs, &empty)?.seconds));
        served.push(RoundResult::from(ServiceProcess::start(&setup.outputs, &filled.dir)?.seconds));
    }
    let rates = record_rates(filled.records, &opened);
    let floor = record_rates(filled.records, &read);
    let seconds = ("s", BetterDirection::Lower);
    Ok(vec![
        BenchFigure::new("startup.open", seconds, &opened, ("reading the files", &read)),
        BenchFigure::new("startup.rate", ("records/s", BetterDirection::Higher), &rates, ("reading the files", &floor)),
        BenchFigure::new("startup.serve", seconds, &served, ("serve with nothing", &bare)),
    ])
}

/// Converts rounds that were measured in seconds into records per second.
fn record_rates(records: u64, seconds: &[RoundResult]) -> Vec<RoundResult> {
    seconds.iter().map(|round| RoundResult::from(records as f64 / round.value)).collect()
}

/// Returns the seconds for reading all files of a directory.
fn read_all(dir: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    let mut buffer = vec![0; 1 << 20];
    for path in files_below(dir)? {
        let mut file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(started.elapsed().as_secs_f64())
}

/// This program as a service in another process, on a free port of the loopback interface. It is killed when this value is dropped.
pub(super) struct ServiceProcess {
    /// The process; `None` before it is started.
    child: Arc<Mutex<Option<Child>>>,
    _stopped_with_us: CleanupGuard,
    /// Seconds from the start until the service listens.
    pub(super) seconds: f64,
}

impl ServiceProcess {
    /// Starts the service on `dir`, independent of the user's configuration.
    pub(super) fn start(outputs: &CommandOutputs, dir: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(dir).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let child = Arc::new(Mutex::new(None));
        // The cleanup is installed before the process exists, so that the cleanup also ends the process if a signal arrives directly after
        // its start.
        let stopped_with_us = outputs.when_stopped({
            let child = Arc::clone(&child);
            move || end(&child)
        });
        let mut service = Self { child, _stopped_with_us: stopped_with_us, seconds: 0.0 };
        let output = {
            let mut child = service.child.lock();
            child.insert(command.spawn().context("starting a service")?).stdout.take()
        };
        let output = output.context("reading what the service says")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        service.seconds = started.elapsed().as_secs_f64();
        anyhow::ensure!(line.starts_with("listening on"), "the service did not start");
        Ok(service)
    }

    /// Returns the memory of the process in bytes (Linux).
    pub(super) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let pid = self.child.lock().as_ref().map(Child::id).context("the service was not started")?;
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS is missing")?;
        let kilobytes = line.trim().trim_end_matches("kB").trim().parse::<u64>().context("reading VmRSS")?;
        Ok(kilobytes * 1024)
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        end(&self.child);
    }
}

/// Kills the process and waits for its end. After this, nothing is written to its folder.
fn end(child: &Mutex<Option<Child>>) {
    if let Some(child) = &mut *child.lock() {
        let _ = child.kill();
        let _ = child.wait();
    }
}
