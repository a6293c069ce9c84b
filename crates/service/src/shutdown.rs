//! The stop of the service: a signal, a grace period without readiness, a drain period, and the end.
//!
//! The first SIGTERM or SIGINT starts an orderly stop; a second signal ends the process at once with status 130. In both cases no
//! acknowledged data is lost, because only durable data is acknowledged. SIGHUP stops commands in the same way as SIGTERM; the service
//! handles it separately ([`HangUps`]) and reads its configuration again.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// A phase of the stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No stop was requested.
    Serving,
    /// The service is not ready, but still accepts all requests.
    Grace,
    /// No new work is accepted; running work may finish.
    Draining,
}

/// The current phase, with functions to wait for phases. A clone is cheap.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    asked: CancellationToken,
    grace: CancellationToken,
    draining: CancellationToken,
}

impl Shutdown {
    /// Returns the current phase.
    pub fn phase(&self) -> Phase {
        if self.draining.is_cancelled() {
            Phase::Draining
        } else if self.grace.is_cancelled() {
            Phase::Grace
        } else {
            Phase::Serving
        }
    }

    /// Enters `phase`. A later phase is never left.
    pub fn enter(&self, phase: Phase) {
        if phase >= Phase::Draining {
            self.draining.cancel();
        }
        if phase >= Phase::Grace {
            self.grace.cancel();
        }
    }

    /// Waits until `phase` is reached.
    pub async fn reached(&self, phase: Phase) {
        match phase {
            Phase::Serving => {}
            Phase::Grace => self.grace.cancelled().await,
            Phase::Draining => self.draining.cancelled().await,
        }
    }

    /// Returns the token that is cancelled when no new work is accepted ([`Phase::Draining`]).
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Requests an orderly stop, in the same way as a signal.
    pub fn ask(&self) {
        self.asked.cancel();
    }

    /// Waits for a signal or a request, and then enters the phases, with the pause `grace` after the first. A second signal runs
    /// `before_exit` and ends the process.
    pub async fn on_signal(&self, mut signals: Signals, grace: Duration, before_exit: impl FnOnce() + Send + 'static) {
        tokio::select! {
            () = signals.next() => {}
            () = self.asked.cancelled() => {}
        }
        tracing::info!(grace_ms = grace.as_millis() as u64, "stopping; a second signal exits at once");
        self.enter(Phase::Grace);
        tokio::spawn(async move {
            signals.next().await;
            tracing::warn!("second signal, exiting at once");
            before_exit();
            std::process::exit(130);
        });
        tokio::time::sleep(grace).await;
        self.enter(Phase::Draining);
    }
}

/// Runs `before` on another thread after a signal, and ends the process with status 130. This is for commands that can be stopped at any
/// point.
///
/// # Errors
/// Signals cannot be received.
pub fn exit_on_signal(before: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    on_signals(|runtime, mut signals| {
        runtime.block_on(signals.next());
        before();
        std::process::exit(130);
    })
}

/// Sets `stop` after the first signal. A second signal ends the process at once with status 130. This is for commands that clean up before
/// they end.
///
/// # Errors
/// Signals cannot be received.
pub fn stop_on_signal(stop: Arc<AtomicBool>) -> std::io::Result<()> {
    on_signals(move |runtime, mut signals| {
        runtime.block_on(signals.next());
        stop.store(true, Ordering::Relaxed);
        runtime.block_on(signals.next());
        std::process::exit(130);
    })
}

/// Runs `wait` on another thread, with the signals and a runtime for waiting.
fn on_signals(wait: impl FnOnce(Runtime, Signals) + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || wait(runtime, signals)).map(drop)
}

/// The receiver of SIGHUP signals.
pub struct HangUps {
    signal: Option<tokio::signal::unix::Signal>,
    had: [bool; 3],
}

/// Returns which of the standard streams are terminals. A stream may be redirected (`2>doppel.log`).
fn terminals() -> [bool; 3] {
    [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()]
}

/// True if some streams were terminals and no stream is a terminal now.
fn is_gone(had: [bool; 3], are: [bool; 3]) -> bool {
    had.contains(&true) && !had.into_iter().zip(are).any(|(had, is)| had && is)
}

impl HangUps {
    /// Starts to receive the signal. This must run in a runtime. An ignored signal stays ignored (`nohup`).
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { signal: hang_up()?, had: terminals() })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        received(self.signal.as_mut()).await;
    }

    /// True if the service was started from a terminal that is closed now. Closing a terminal also sends SIGHUP.
    pub fn terminal_is_gone(&self) -> bool {
        is_gone(self.had, terminals())
    }
}

fn hang_up() -> std::io::Result<Option<tokio::signal::unix::Signal>> {
    use tokio::signal::unix::{SignalKind, signal};
    if hang_up_is_ignored() { Ok(None) } else { signal(SignalKind::hangup()).map(Some) }
}

async fn received(signal: Option<&mut tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// The receiver of SIGTERM, SIGINT and SIGHUP; SIGHUP is left out if it is ignored (`nohup`) or handled separately. Before this value is
/// created, these signals end the process at once.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Starts to receive the signals. This must run in a runtime.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { hang_up: hang_up()?, ..Self::without_hang_up()? })
    }

    /// Does the same as [`Signals::new`] without SIGHUP.
    ///
    /// # Errors
    /// The errors of [`Signals::new`].
    pub fn without_hang_up() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hang_up: None })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
            () = received(self.hang_up.as_mut()) => (),
        }
    }
}

/// True if the parent process has set SIGHUP to be ignored. False if this is not known.
fn hang_up_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_gone_when_no_stream_that_was_one_is_any_more() {
        assert!(is_gone([true, true, false], [false; 3]), "2>doppel.log");
        assert!(is_gone([false, false, true], [false; 3]));
        assert!(!is_gone([true, false, true], [true, false, true]));
        assert!(!is_gone([false; 3], [false; 3]), "started by another program");
    }

    #[tokio::test]
    async fn phases_only_go_forward_and_wake_those_who_wait() {
        let shutdown = Shutdown::default();
        let waiting = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.reached(Phase::Grace).await }
        });
        shutdown.enter(Phase::Draining);
        waiting.await.unwrap();
        shutdown.enter(Phase::Grace);
        assert_eq!(shutdown.phase(), Phase::Draining);
    }
}
