//! Stopping: a signal, a grace in which readiness is withdrawn, a drain, the end.
//!
//! The first SIGTERM or SIGINT begins an orderly stop; a second one exits at once with status 130. Nothing acknowledged is
//! lost either way, because an answer is only given for what is durable. SIGHUP stops commands as SIGTERM does; the service takes it
//! apart ([`HangUps`]) and reads its configuration again.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// How far the stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No stop was asked for.
    Serving,
    /// Readiness is withdrawn, everything is still served.
    Grace,
    /// No new work; what is under way may finish.
    Draining,
}

/// Tells how far the stop has come, and lets others wait for it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    asked: CancellationToken,
    grace: CancellationToken,
    draining: CancellationToken,
}

impl Shutdown {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        if self.draining.is_cancelled() {
            Phase::Draining
        } else if self.grace.is_cancelled() {
            Phase::Grace
        } else {
            Phase::Serving
        }
    }

    /// Enters `phase`; never goes back.
    pub fn enter(&self, phase: Phase) {
        if phase >= Phase::Draining {
            self.draining.cancel();
        }
        if phase >= Phase::Grace {
            self.grace.cancel();
        }
    }

    /// Returns when `phase` is reached.
    pub async fn reached(&self, phase: Phase) {
        match phase {
            Phase::Serving => {}
            Phase::Grace => self.grace.cancelled().await,
            Phase::Draining => self.draining.cancelled().await,
        }
    }

    /// Cancelled when no new work is to be begun ([`Phase::Draining`]).
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Asks for an orderly stop, as a signal does.
    pub fn ask(&self) {
        self.asked.cancel();
    }

    /// Waits for a signal, then walks through the phases, staying `grace` in the first. A second signal exits.
    pub async fn on_signal(&self, mut signals: Signals, grace: Duration) {
        tokio::select! {
            () = signals.next() => {}
            () = self.asked.cancelled() => {}
        }
        tracing::info!(grace_ms = grace.as_millis() as u64, "stopping; a second signal exits at once");
        self.enter(Phase::Grace);
        tokio::spawn(async move {
            signals.next().await;
            tracing::warn!("second signal, exiting at once");
            std::process::exit(130);
        });
        tokio::time::sleep(grace).await;
        self.enter(Phase::Draining);
    }
}

/// For commands that can be stopped at any point: on a signal runs `before` on a thread of its own and exits with status 130.
///
/// # Errors
/// When signals cannot be received.
pub fn exit_on_signal(before: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    on_signals(|runtime, mut signals| {
        runtime.block_on(signals.next());
        before();
        std::process::exit(130);
    })
}

/// For commands that clean up when they stop: the first signal sets `stop`, a second one exits at once with status 130.
///
/// # Errors
/// When signals cannot be received.
pub fn stop_on_signal(stop: Arc<AtomicBool>) -> std::io::Result<()> {
    on_signals(move |runtime, mut signals| {
        runtime.block_on(signals.next());
        stop.store(true, Ordering::Relaxed);
        runtime.block_on(signals.next());
        std::process::exit(130);
    })
}

/// Runs `wait` on a thread of its own, with the signals and what to wait for them on.
fn on_signals(wait: impl FnOnce(Runtime, Signals) + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || wait(runtime, signals)).map(drop)
}

/// SIGHUP, received apart.
pub struct HangUps {
    signal: Option<tokio::signal::unix::Signal>,
    had: [bool; 3],
}

/// Which of the standard streams are a terminal: any of them may lead elsewhere (`2>doppel.log`).
fn terminals() -> [bool; 3] {
    [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()]
}

/// Whether there was one, and none of those is there any more.
fn is_gone(had: [bool; 3], are: [bool; 3]) -> bool {
    had.contains(&true) && !had.into_iter().zip(are).any(|(had, is)| had && is)
}

impl HangUps {
    /// Begins to receive it, within a runtime; where it is ignored (`nohup`) it stays so.
    ///
    /// # Errors
    /// When signals cannot be received.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { signal: hang_up()?, had: terminals() })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        received(self.signal.as_mut()).await;
    }

    /// Whether the service was started from a terminal that is not there any more: closing it sends SIGHUP, too.
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

/// SIGTERM, SIGINT and, unless it is ignored (`nohup`) or received apart, SIGHUP, received from the moment this is made on: before
/// that, they end the process at once.
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Begins to receive them, within a runtime.
    ///
    /// # Errors
    /// When signals cannot be received.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { hang_up: hang_up()?, ..Self::without_hang_up()? })
    }

    /// As [`Signals::new`], without SIGHUP.
    ///
    /// # Errors
    /// As [`Signals::new`].
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

/// Whether whoever started us asked that the end of the terminal be ignored. Where that cannot be known it is not.
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
