//! Shows the progress of a command on standard error: a bar on a terminal, otherwise a line from time to time.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use doppel_texts as texts;

/// Interval between two lines of progress if there is no terminal.
const EVERY: Duration = Duration::from_secs(5);
/// Interval between two updates of a bar, so that a long step does not look stuck.
const TICK: Duration = Duration::from_millis(200);

/// The template of a line on the terminal. The text comes last, so that it can be cut.
const LINE: &str = "{bar:12} {percent:>3}% {eta:>4} {wide_msg}";
/// The template for progress without a known end.
const WITHOUT_END: &str = "{spinner} {bytes:>10} {wide_msg}";

/// The progress of a command, one phase after the other.
pub struct CommandProgress {
    /// The progress bar. It counts even if it is hidden because the output is no terminal.
    bar: ProgressBar,
    at: Mutex<ProgressPhase>,
}

struct ProgressPhase {
    /// Name of the phase; empty between phases.
    phase: String,
    began: Instant,
    /// The time of the last line.
    said: Instant,
}

impl Default for CommandProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandProgress {
    /// Makes the progress of phases whose number of items is usually known.
    pub fn new() -> Self {
        Self::with(LINE)
    }

    /// Makes the progress of an unknown number of bytes.
    pub fn of_bytes() -> Self {
        Self::with(WITHOUT_END)
    }

    fn with(template: &str) -> Self {
        let now = Instant::now();
        let bar = ProgressBar::new(0).with_style(style(template));
        Self { bar, at: Mutex::new(ProgressPhase { phase: String::new(), began: now, said: now }) }
    }

    /// Begins a phase of `total` steps, if their number is known. Returns the seconds of the phase before.
    pub fn phase(&self, phase: &str, total: Option<u64>) -> f64 {
        self.begin(&mut self.at.lock(), phase, total)
    }

    fn begin(&self, at: &mut ProgressPhase, phase: &str, total: Option<u64>) -> f64 {
        let seconds = at.began.elapsed().as_secs_f64();
        (at.phase, at.began) = (phase.to_owned(), Instant::now());
        self.bar.reset();
        self.bar.set_length(total.unwrap_or(0));
        self.bar.set_message(texts::said(&at.phase).into_owned());
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(TICK);
        }
        seconds
    }

    /// Sets the number of finished steps.
    pub fn at(&self, done: u64) {
        self.bar.set_position(done);
        self.now_and_then(|phase| {
            let total = self.bar.length().unwrap_or(0).max(1);
            format!("{phase}: {:.0} %", 100.0 * done as f64 / total as f64)
        });
    }

    /// Sets the number of all steps.
    pub fn total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Sets the numbers of finished and of all steps.
    pub fn share(&self, done: u64, total: u64) {
        self.total(total);
        self.at(done);
    }

    /// Sets the numbers of finished and of all steps of the phase `what`. Begins the phase if it is not the current phase; without a terminal,
    /// prints its name.
    pub fn step(&self, what: &str, done: u64, total: u64) {
        let mut at = self.at.lock();
        if at.phase != what {
            self.begin(&mut at, what, Some(total));
            if self.bar.is_hidden() {
                self.say(what);
            }
        }
        drop(at);
        self.share(done, total);
    }

    /// Sets the number of finished steps, and the text of the command.
    pub fn told(&self, done: u64, words: String) {
        self.bar.set_position(done);
        match self.bar.is_hidden() {
            true => self.now_and_then(|_| words),
            false => self.bar.set_message(texts::said(&words).into_owned()),
        }
    }

    /// Without a terminal, prints `words` if nothing was printed for a while.
    fn now_and_then(&self, words: impl FnOnce(&str) -> String) {
        if !self.bar.is_hidden() {
            return;
        }
        let mut at = self.at.lock();
        if at.said.elapsed() >= EVERY {
            at.said = Instant::now();
            self.say(&words(&at.phase));
        }
    }

    /// Prints a message on standard error without disturbing the progress bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| crate::print_error(&texts::said(text)));
    }

    /// Ends the last phase. Returns its seconds.
    pub fn finish(&self) -> f64 {
        self.bar.finish_and_clear();
        let mut at = self.at.lock();
        at.phase.clear();
        at.began.elapsed().as_secs_f64()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use indicatif::{ProgressDrawTarget, TermLike};

    use super::*;

    /// A terminal of this width that records its output.
    #[derive(Clone, Debug)]
    struct TestTerminal(u16, Arc<Mutex<Vec<String>>>);

    impl TermLike for TestTerminal {
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
    fn a_phase_begins_anew_after_the_end_and_tells_how_long_the_one_before_took() {
        let progress = CommandProgress::new();
        progress.step("reading", 3, 10);
        progress.step("reading", 4, 20);
        assert_eq!((progress.bar.position(), progress.bar.length()), (4, Some(20)));
        std::thread::sleep(Duration::from_millis(5));
        assert!(progress.phase("sorting", None) >= 0.005);
        assert_eq!((progress.bar.position(), progress.bar.length()), (0, Some(0)));
        assert!(progress.finish() >= 0.0 && progress.bar.is_finished());
        progress.step("sorting", 1, 2);
        assert!(!progress.bar.is_finished(), "the same phase again is shown again");
    }

    #[test]
    fn progress_fits_the_width_of_the_terminal() {
        let said = "1,234,567 lines, 12,345 records/s, 123,456 rejected, and what else there is to say";
        for (template, width) in [(LINE, 40), (LINE, 80), (LINE, 200), (WITHOUT_END, 40), (WITHOUT_END, 80)] {
            let terminal = TestTerminal(width, Arc::default());
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
