//! How far a command is.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::import::report::say_beside;

/// Between two lines of progress where there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

/// A line that fits the terminal: what it says comes last, and is cut.
const LINE: &str = "{bar:12} {percent:>3}% {eta:>4} {wide_msg}";
/// The same where the end is not known.
const WITHOUT_END: &str = "{spinner} {bytes:>10} {wide_msg}";

/// A bar that ends at `total` on a terminal; hidden elsewhere.
pub(super) fn bar(total: u64) -> ProgressBar {
    shown(ProgressBar::new(total), LINE)
}

/// A spinner that counts bytes on a terminal; hidden elsewhere.
pub(super) fn spinner() -> ProgressBar {
    shown(ProgressBar::new_spinner(), WITHOUT_END)
}

fn shown(bar: ProgressBar, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    bar.with_style(style(template))
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A bar on a terminal, a line now and then elsewhere. One phase at a time.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    phase: &'static str,
    total: u64,
    began: Instant,
    said: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(0));
        let now = Instant::now();
        Self { bar, phase: "", total: 0, began: now, said: now }
    }

    /// Begins a phase of so many steps, if that is known; returns how long the one before took, in seconds.
    pub(super) fn phase(&mut self, phase: &'static str, total: Option<u64>) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        (self.phase, self.total, self.began) = (phase, total.unwrap_or(0), Instant::now());
        if let Some(bar) = &self.bar {
            bar.set_length(self.total);
            bar.set_position(0);
            bar.set_message(phase);
            bar.reset_eta();
        }
        seconds
    }

    /// So many steps of the phase are done.
    pub(super) fn at(&mut self, done: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.said.elapsed() >= EVERY => {
                self.said = Instant::now();
                let share = if self.total == 0 { 0.0 } else { 100.0 * done as f64 / self.total as f64 };
                self.say(&format!("{}: {share:.0} %", self.phase));
            }
            None => (),
        }
    }

    /// So much of the phase is done.
    pub(super) fn share(&mut self, done: u64, total: u64) {
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
        self.at(done);
    }

    /// Says something on standard error.
    pub(super) fn say(&self, text: &str) {
        say_beside(self.bar.as_ref(), text);
    }

    /// The last phase is over; how long it took, in seconds.
    pub(super) fn finish(&mut self) -> f64 {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.began.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};
    use parking_lot::Mutex;

    use super::*;

    /// A terminal of this width that keeps what is written.
    #[derive(Clone, Debug)]
    struct Terminal(u16, Arc<Mutex<Vec<String>>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            self.0
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.1.lock().push(text.to_owned());
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_fits_the_width_of_the_terminal() {
        let said = "1,234,567 lines, 12,345 records/s, 123,456 rejected, and what else there is to say";
        for (template, width) in [(LINE, 40), (LINE, 80), (LINE, 200), (WITHOUT_END, 40), (WITHOUT_END, 80)] {
            let terminal = Terminal(width, Arc::default());
            let bar = ProgressBar::new(5_000_000_000).with_style(style(template));
            bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
            bar.set_position(2_000_000_000);
            bar.set_message(said);
            bar.tick();
            let written = terminal.1.lock();
            let widest = written.iter().map(|text| text.chars().count()).max();
            assert!(widest.is_some_and(|most| most <= usize::from(width)), "{width}: {written:?}");
            assert!(written.iter().any(|text| text.contains("1,234,567")), "{written:?}");
        }
    }
}
