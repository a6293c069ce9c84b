//! The output of an import for people: progress, refused lines, warnings, and the summary. It contains no text of records, unless an option
//! demands this for the rejects file.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::deliver::LineResponses;
use super::input::LineBatch;
use super::target;
use crate::columns::{ColumnNames, ColumnUses};
use crate::output::{CommandOutputs, OutputFile};
use crate::progress::CommandProgress;
use crate::warnings::{RecordWarning, WarningCounts};
use doppel_core::collection::Field;
use doppel_core::verdict::VerdictKind;
use doppel_core::violation::Violation;
use doppel_engine::answers::Outcome;

/// Largest number of refused lines that are printed if there is no rejects file.
const SHOWN: u64 = 10;

/// The codes of rows that are no data.
const LEFT_OUT: [&str; 2] = ["repeated_header", "totals"];

/// The code of the service's own warning about unused columns.
const UNUSED_MEMBER: &str = "unused_member";

/// A refused line in the rejects file.
#[derive(Debug, Serialize)]
struct RejectedLine<'a> {
    file: &'a str,
    line: u64,
    code: &'a str,
    pointer: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

/// The destination of refused lines.
pub(crate) struct RejectsFile {
    file: Option<OutputFile>,
    /// The path of the rejects file, after it is complete.
    at: Option<PathBuf>,
    with_text: bool,
    resumed: bool,
    /// Number of refused lines.
    pub(crate) count: u64,
    /// Number of rows that are no data, by code. They do not count as refused.
    pub(crate) left_out: BTreeMap<String, u64>,
}

impl RejectsFile {
    /// Creates the rejects file. If an import is resumed, the file begins with its earlier content.
    pub(crate) fn open(
        outputs: &CommandOutputs,
        path: Option<&Path>,
        with_text: bool,
        resumed: bool,
    ) -> anyhow::Result<Self> {
        let mut file = path.map(|path| outputs.create(path)).transpose()?;
        if let Some(file) = file.as_mut().filter(|_| resumed) {
            file.put_what_is_there()?;
        }
        Ok(Self { file, at: None, with_text, resumed, count: 0, left_out: BTreeMap::new() })
    }

    /// Writes a refused line of the file `name`. Without a rejects file, prints the first few.
    pub(crate) fn note(&mut self, at: (&str, u64), why: RejectionReason<'_>, say: impl Fn(&str)) -> anyhow::Result<()> {
        let (name, line) = at;
        let RejectionReason { code, pointer, detail, text } = why;
        if LEFT_OUT.contains(&code) {
            *self.left_out.entry(code.to_owned()).or_default() += 1;
            return Ok(());
        }
        self.count += 1;
        let Some(out) = &mut self.file else {
            if self.count <= SHOWN {
                let at = if pointer.is_empty() { String::new() } else { format!(" at {pointer}") };
                say(&format!("{name}:{line}: {code}{at}: {detail}"));
            } else if self.count == SHOWN + 1 {
                say("more lines are rejected; --rejects FILE writes them all");
            }
            return Ok(());
        };
        let text = text.filter(|_| self.with_text);
        out.put_json(&RejectedLine { file: name, line, code, pointer, detail, text })
    }

    /// Passes buffered data to the system.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.file.as_mut().map_or(Ok(()), OutputFile::flush)
    }

    /// Completes the rejects file, which gets its name.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        self.at = Some(file.path().to_owned());
        file.finish()
    }

    /// Completes the rejects file of an import that ended early. The file contains whole lines, and a resumed import adds lines to it, so
    /// it gets its name. If this would replace the file of another import, the file stays next to it under another name, and this path is
    /// returned.
    fn cut_short(&mut self) -> anyhow::Result<Option<&Path>> {
        let replaces = self.file.as_ref().is_some_and(OutputFile::replaces) && !self.resumed;
        match self.file.take_if(|_| replaces || self.count == 0) {
            None => self.finish().map(|()| None),
            // The file is empty and can be dropped.
            Some(_) if self.count == 0 => Ok(None),
            Some(file) => {
                self.at = Some(file.keep_apart()?);
                Ok(self.at.as_deref())
            }
        }
    }

    /// Returns the line of the summary about rows that are no data; empty if there are none.
    pub(crate) fn left_out_line(&self) -> String {
        let counted: Vec<String> = self.left_out.iter().map(|(code, count)| format!("{count} {code}")).collect();
        if counted.is_empty() {
            String::new()
        } else {
            format!("left out  {} (rows that are no data)\n", counted.join(", "))
        }
    }

    /// Returns the note of the summary about the rejects file; empty if there are no refused lines.
    pub(crate) fn listed(&self) -> String {
        let file = self.at.as_ref().filter(|_| self.count > 0);
        file.map_or(String::new(), |path| format!(", listed in {}", path.display()))
    }
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectionReason<'a> {
    pub(crate) code: &'a str,
    pub(crate) pointer: &'a str,
    pub(crate) detail: &'a str,
    pub(crate) text: Option<&'a str>,
}

/// Counts, prints and writes the events of an import.
pub(super) struct ImportReport {
    names: Vec<String>,
    /// The last finished line of each file.
    done: Vec<u64>,
    began: Instant,
    lines: u64,
    verdicts: BTreeMap<&'static str, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    warned: WarningCounts,
    columns: ColumnNames,
    /// The uses of the columns, if they are known.
    uses: Option<ColumnUses>,
    /// For each file: the members whose columns have other names.
    renamed: Vec<HashMap<String, String>>,
    rejects: RejectsFile,
    progress: CommandProgress,
}

impl ImportReport {
    pub(super) fn new(names: Vec<String>, skipped: u64, rejects: RejectsFile, total_bytes: Option<u64>) -> Self {
        let mut done = vec![0; names.len()];
        if let Some(first) = done.first_mut() {
            *first = skipped;
        }
        let progress = if total_bytes.is_some() { CommandProgress::new() } else { CommandProgress::of_bytes() };
        progress.phase("", total_bytes);
        Self {
            names,
            done,
            began: Instant::now(),
            lines: 0,
            verdicts: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            warned: WarningCounts::default(),
            columns: ColumnNames::default(),
            uses: None,
            renamed: Vec::new(),
            rejects,
            progress,
        }
    }

    /// Sets the members whose columns have other names.
    pub(super) fn renamed(&mut self, renamed: Vec<HashMap<String, String>>) {
        self.renamed = renamed;
    }

    /// Records a line that would be sent, with its warnings.
    pub(super) fn would_send(&mut self, at: (usize, u64), warnings: &[Violation], read_bytes: u64) {
        *self.outcomes.entry(WOULD_SEND).or_default() += 1;
        let warnings: Vec<_> = warnings.iter().map(target::ValueWarning::from).collect();
        self.warn(at, &warnings);
        self.passed(at, read_bytes);
    }

    /// Records a line that would be rejected.
    pub(super) fn would_reject(
        &mut self,
        at: (usize, u64),
        why: RejectionReason<'_>,
        read_bytes: u64,
    ) -> anyhow::Result<()> {
        self.reject(at, why.code, why.pointer, why.detail, why.text)?;
        self.passed(at, read_bytes);
        Ok(())
    }

    fn passed(&mut self, at: (usize, u64), read_bytes: u64) {
        let (file, line) = at;
        self.lines += 1;
        self.done[file] = line;
        self.show(read_bytes);
    }

    /// Records new columns, and warns of columns that are not in `fields`, if the fields are known.
    pub(super) fn columns(&mut self, new: &[String], fields: Option<Vec<Field>>) {
        self.columns.note(new.iter().map(String::as_str));
        self.uses = fields.map(|fields| self.columns.uses(&fields));
        if let Some(warning) = self.uses.as_ref().and_then(|uses| uses.warning(new)) {
            self.say(&warning);
        }
    }

    /// Records the lines of `batch` up to the first line without an answer.
    pub(super) fn note(&mut self, batch: &LineBatch, answers: &LineResponses) -> anyhow::Result<()> {
        for (line, answer) in batch.lines.iter().zip(answers) {
            match (&line.content, answer) {
                (Ok(_), None) => break,
                (Err(why), _) => {
                    let pointer = why.pointer.as_str();
                    let text = why.text.as_deref();
                    self.reject((line.file, line.number), why.code, pointer, &why.detail, text)?;
                }
                (Ok(json), Some(answer)) => match (answer.outcome, answer.verdict) {
                    (Some(outcome), Some(verdict)) => {
                        self.stored(outcome, verdict);
                        self.warn((line.file, line.number), &answer.warnings);
                    }
                    _ => {
                        let refusal = &answer.refusal;
                        let pointer = refusal.errors.first().map_or("", |at| at.pointer.as_str());
                        self.reject((line.file, line.number), &refusal.code, pointer, &refusal.detail, Some(json))?;
                    }
                },
            }
            self.lines += 1;
            self.done[line.file] = line.number;
        }
        self.rejects.flush()?;
        self.show(batch.read_bytes);
        Ok(())
    }

    fn stored(&mut self, outcome: Outcome, verdict: VerdictKind) {
        *self.verdicts.entry(verdict_name(verdict)).or_default() += 1;
        *self.outcomes.entry(outcome_name(outcome)).or_default() += 1;
    }

    fn warn(&mut self, at: (usize, u64), warnings: &[target::ValueWarning]) {
        let (file, line) = at;
        // If the fields are known, one warning about all columns was printed before.
        let told = self.uses.is_some();
        let warnings = warnings.iter().filter(|warning| !(told && warning.code == UNUSED_MEMBER));
        // The warning names the column of the file if its name differs.
        let columns = self.renamed.get(file);
        let named: Vec<_> = warnings
            .map(|target::ValueWarning { pointer, code, detail }| {
                let column = columns.zip(pointer.strip_prefix('/')).and_then(|(columns, member)| columns.get(member));
                let detail = column.map_or(detail.clone(), |column| format!("column {column}: {detail}"));
                (code, pointer, detail)
            })
            .collect();
        let warnings = named.iter().map(|(code, pointer, detail)| RecordWarning { code, pointer, detail });
        self.warned.note((&self.names[file], line), warnings, |text| self.progress.say(text));
    }

    fn reject(
        &mut self,
        at: (usize, u64),
        code: &str,
        pointer: &str,
        detail: &str,
        text: Option<&str>,
    ) -> anyhow::Result<()> {
        let (file, line) = at;
        let reason = RejectionReason { code, pointer, detail, text };
        self.rejects.note((&self.names[file], line), reason, |text| self.progress.say(text))
    }

    fn show(&self, read_bytes: u64) {
        let text = format!("{} lines, {:.0} records/s, {} rejected", self.lines, self.rate(), self.rejects.count);
        self.progress.told(read_bytes, text);
    }

    fn rate(&self) -> f64 {
        let stored: u64 = self.verdicts.values().sum();
        stored as f64 / self.began.elapsed().as_secs_f64().max(0.001)
    }

    /// Prints a message on standard error without disturbing the progress bar.
    pub(super) fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// True if a line was finished.
    pub(super) fn any_done(&self) -> bool {
        self.lines > 0
    }

    /// True if a line was refused.
    pub(super) fn any_rejected(&self) -> bool {
        self.rejects.count > 0
    }

    /// Completes the rejects file. If the import ended early, keeps the lines so far and prints their path.
    pub(super) fn close_rejects(&mut self, done: bool) -> anyhow::Result<()> {
        if done {
            return self.rejects.finish();
        }
        if let Some(path) = self.rejects.cut_short()?.map(Path::to_owned) {
            let path = path.display();
            self.say(&format!(
                "lines rejected so far are in {path}, beside the file that was there before; to go on, give --rejects {path}"
            ));
        }
        Ok(())
    }

    /// Returns the summary for people. `dry` is true for a dry run.
    pub(super) fn sum(&self, dry: bool) -> String {
        self.progress.finish();
        let verdicts = VERDICTS.map(verdict_name);
        let outcomes = OUTCOMES.map(outcome_name);
        let rejected = self.rejects.count;
        let into = self.rejects.listed();
        let (used, unused) = self.uses.as_ref().map(ColumnUses::lines).unzip();
        let used = used.map(|used| format!("columns   {used}\n")).unwrap_or_default();
        let unused = unused.flatten().map(|unused| format!("not used  {unused}\n")).unwrap_or_default();
        let warned: String = self.warned.lines().map(|line| format!("warned    {line}\n")).collect();
        let done = match dry {
            true => format!("to send   {}; nothing was sent\n", self.outcomes.get(WOULD_SEND).unwrap_or(&0)),
            false => format!(
                "stored    {}\nof these  {}\n",
                counted(&verdicts, &self.verdicts),
                counted(&outcomes, &self.outcomes)
            ),
        };
        let rate = if dry { String::new() } else { format!(", {:.0} records/s", self.rate()) };
        format!(
            "read      {} lines in {:.1} s{rate}\n{used}{unused}{done}{warned}{}rejected  {rejected}{into}\n",
            self.lines,
            self.began.elapsed().as_secs_f64(),
            self.rejects.left_out_line(),
        )
    }

    /// Returns the summary as a JSON object.
    pub(super) fn json(&self, dry: bool) -> String {
        self.progress.finish();
        let summary = JsonSummary {
            dry_run: dry,
            lines: self.lines,
            seconds: self.began.elapsed().as_secs_f64(),
            to_send: dry.then(|| self.outcomes.get(WOULD_SEND).copied().unwrap_or(0)),
            verdicts: all(&VERDICTS.map(verdict_name), &self.verdicts),
            outcomes: all(&OUTCOMES.map(outcome_name), &self.outcomes),
            columns: self.uses.as_ref(),
            warned: &self.warned,
            left_out: &self.rejects.left_out,
            rejected: self.rejects.count,
            rejects: self.rejects.at.as_deref().filter(|_| self.rejects.count > 0),
        };
        serde_json::to_string_pretty(&summary).unwrap_or_default() + "\n"
    }

    /// Returns the progress of each file and the options for resuming an import that ended early.
    pub(super) fn resume(&self) -> String {
        let last = self.done.iter().rposition(|line| *line > 0);
        let mut text = String::new();
        for (index, (name, line)) in self.names.iter().zip(&self.done).enumerate() {
            let whole = last.is_some_and(|last| index < last);
            let line = if whole { "all".to_owned() } else { line.to_string() };
            text += &format!("{name}: {line} lines done\n");
        }
        match last {
            None => text + "nothing is done; run the same command again",
            Some(last) => {
                let rest = self.names[last..].join(" ");
                text + &format!("to go on from there, run it again with: --skip-lines {} {rest}", self.done[last])
            }
        }
    }
}

/// The key for the count of lines that would be sent.
const WOULD_SEND: &str = "to_send";

/// The summary for programs.
#[derive(Serialize)]
struct JsonSummary<'a> {
    dry_run: bool,
    lines: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_send: Option<u64>,
    verdicts: BTreeMap<&'static str, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<&'a ColumnUses>,
    warned: &'a WarningCounts,
    left_out: &'a BTreeMap<String, u64>,
    rejected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects: Option<&'a Path>,
}

/// Formats the counts of all these names; 0 for a missing count.
pub(crate) fn counted(names: &[&'static str], counts: &BTreeMap<&'static str, u64>) -> String {
    let said = names.iter().map(|name| format!("{} {name}", counts.get(name).unwrap_or(&0)));
    said.collect::<Vec<_>>().join(", ")
}

/// Returns the counts of all these names; 0 for a missing count.
pub(crate) fn all(names: &[&'static str], counts: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
    names.iter().map(|name| (*name, counts.get(name).copied().unwrap_or(0))).collect()
}

pub(crate) const VERDICTS: [VerdictKind; 4] =
    [VerdictKind::Original, VerdictKind::ExactDuplicate, VerdictKind::NearDuplicate, VerdictKind::TooShort];
pub(crate) const OUTCOMES: [Outcome; 4] = [Outcome::Created, Outcome::Replaced, Outcome::Updated, Outcome::Unchanged];

pub(crate) fn verdict_name(verdict: VerdictKind) -> &'static str {
    match verdict {
        VerdictKind::Original => "original",
        VerdictKind::ExactDuplicate => "exact_duplicate",
        VerdictKind::NearDuplicate => "near_duplicate",
        VerdictKind::TooShort => "too_short",
    }
}

pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => "new",
        Outcome::Replaced => "replaced",
        Outcome::Updated => "updated",
        Outcome::Unchanged => "unchanged",
        // An import never demands this outcome.
        Outcome::Skipped => "skipped",
    }
}
