//! The report of a command about the lines that it reads: the uses of their columns, their warnings, the refused lines, and the progress. All
//! commands that read records write such a report. It contains no text of records, except in the rejects file if an option requests this.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;
use serde::{Serialize, Serializer};

use crate::columns::{ColumnNames, ColumnUses};
use crate::import::input::{InputLine, LineBatch, RecordInput};
use crate::output::{CommandOutputs, OutputFile, finish_all};
use crate::progress::CommandProgress;
use crate::warnings::{RecordWarning, WarningCounts};
use doppel_core::collection::Field;
use doppel_core::verdict::VerdictKind;
use doppel_core::violation::Violation;
use doppel_engine::answers::Outcome;
use doppel_sources::UnreadableLine;

/// Largest number of refused lines that are printed if there is no rejects file.
const SHOWN: u64 = 10;

/// The codes of rows that are no data.
const LEFT_OUT: [&str; 2] = ["repeated_header", "totals"];

/// The code of the service's own warning about unused columns.
const UNUSED_MEMBER: &str = "unused_member";

/// The place of a line in the input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinePlace {
    /// Index of the file.
    pub(crate) file: usize,
    pub(crate) line: u64,
}

/// The warnings about an accepted line, or the reason why the line is refused.
pub(crate) type KeptLine = Result<Vec<Violation>, UnreadableLine>;

/// The report about the lines of all files.
pub(crate) struct LineReport {
    /// The names of the files.
    pub(crate) names: Vec<String>,
    began: Instant,
    columns: ColumnNames,
    /// The uses of the columns, if they are known.
    pub(crate) uses: Option<ColumnUses>,
    /// For each file: the members whose columns have other names.
    pub(crate) renamed: Vec<HashMap<String, String>>,
    pub(crate) warned: WarningCounts,
    pub(crate) rejects: RejectsFile,
    pub(crate) progress: Arc<CommandProgress>,
}

impl LineReport {
    /// Creates the report about files with these names.
    pub(crate) fn new(names: Vec<String>, rejects: RejectsFile, progress: CommandProgress) -> Self {
        Self {
            names,
            began: Instant::now(),
            columns: ColumnNames::default(),
            uses: None,
            renamed: Vec::new(),
            warned: WarningCounts::default(),
            rejects,
            progress: Arc::new(progress),
        }
    }

    /// Creates the report about `input`, and begins the phase in which it is read.
    pub(crate) fn of_input(input: &RecordInput, rejects: RejectsFile, phase: &str) -> Self {
        let bytes = input.total_bytes();
        let progress = if bytes.is_some() { CommandProgress::new() } else { CommandProgress::of_bytes() };
        progress.phase(phase, bytes);
        Self::new(input.names(), rejects, progress)
    }

    /// Prints a message on standard error without disturbing the progress bar.
    pub(crate) fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// Returns the time since the beginning, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Records new columns, and warns of columns that are not in `fields`, if the fields are known.
    pub(crate) fn columns(&mut self, new: &[String], fields: Option<&[Field]>) {
        self.columns.note(new.iter().map(String::as_str));
        self.uses = fields.map(|fields| self.columns.uses(fields));
        if let Some(warning) = self.uses.as_ref().and_then(|uses| uses.warning(new)) {
            self.say(&warning);
        }
    }

    /// Checks the lines of a batch on all cores, and passes them to `keep` in their order with the result of the check. Reports the warnings
    /// and refusals that `keep` returns.
    ///
    /// # Errors
    /// `keep` fails, or the rejects file cannot be written.
    pub(crate) fn take_batch<C: Send>(
        &mut self,
        batch: &LineBatch,
        check: impl Fn(&InputLine) -> Result<C, UnreadableLine> + Send + Sync,
        mut keep: impl FnMut(&InputLine, Result<C, UnreadableLine>) -> anyhow::Result<KeptLine>,
    ) -> anyhow::Result<()> {
        let checked: Vec<_> = batch.lines.par_iter().map(check).collect();
        for (line, checked) in batch.lines.iter().zip(checked) {
            match keep(line, checked)? {
                Ok(warnings) => self.warn(line.place(), warnings.iter().map(RecordWarning::from)),
                Err(why) => self.reject(line.place(), (&why).into())?,
            }
        }
        Ok(())
    }

    /// Records the warnings about the record at `at`. A warning names the column of the file if the member has another name.
    pub(crate) fn warn<'w>(&mut self, at: LinePlace, warnings: impl Iterator<Item = RecordWarning<'w>>) {
        // If the fields are known, the command has already printed one warning about all columns.
        let is_known = self.uses.is_some();
        let columns = self.renamed.get(at.file);
        let named = warnings.filter(|warning| !(is_known && warning.code == UNUSED_MEMBER)).map(|warning| {
            let member = warning.pointer.strip_prefix('/');
            match columns.zip(member).and_then(|(columns, member)| columns.get(member)) {
                Some(column) => {
                    RecordWarning { detail: format!("column {column}: {}", warning.detail).into(), ..warning }
                }
                None => warning,
            }
        });
        self.warned.note((&self.names[at.file], at.line), named, |text| self.progress.say(text));
    }

    /// Records a refused line.
    ///
    /// # Errors
    /// The rejects file cannot be written.
    pub(crate) fn reject(&mut self, at: LinePlace, why: RejectionReason<'_>) -> anyhow::Result<()> {
        self.rejects.note((&self.names[at.file], at.line), why, |text| self.progress.say(text))
    }

    /// Returns the lines of the summary about the columns; empty if their uses are not known.
    pub(crate) fn column_lines(&self) -> String {
        let Some((used, unused)) = self.uses.as_ref().map(ColumnUses::lines) else { return String::new() };
        let unused = unused.map(|unused| format!("not used  {unused}\n")).unwrap_or_default();
        format!("columns   {used}\n{unused}")
    }

    /// Returns the lines of the summary about warnings.
    pub(crate) fn warning_lines(&self) -> String {
        self.warned.lines().map(|line| format!("warned    {line}\n")).collect()
    }
}

/// Numbers of verdicts or outcomes, with their names in the summary.
pub(crate) struct NamedCounts<K: 'static> {
    names: &'static [(K, &'static str)],
    counts: Vec<u64>,
}

const VERDICTS: [(VerdictKind, &str); 4] = [
    (VerdictKind::Original, "original"),
    (VerdictKind::ExactDuplicate, "exact_duplicate"),
    (VerdictKind::NearDuplicate, "near_duplicate"),
    (VerdictKind::TooShort, "too_short"),
];
/// The outcomes that a command can demand.
const OUTCOMES: [(Outcome, &str); 4] = [
    (Outcome::Created, "new"),
    (Outcome::Replaced, "replaced"),
    (Outcome::Updated, "updated"),
    (Outcome::Unchanged, "unchanged"),
];

impl NamedCounts<VerdictKind> {
    /// Creates the counts of verdicts.
    pub(crate) fn of_verdicts() -> Self {
        Self { names: &VERDICTS, counts: vec![0; VERDICTS.len()] }
    }
}

impl NamedCounts<Outcome> {
    /// Creates the counts of outcomes.
    pub(crate) fn of_outcomes() -> Self {
        Self { names: &OUTCOMES, counts: vec![0; OUTCOMES.len()] }
    }
}

impl<K: PartialEq> NamedCounts<K> {
    /// Counts one line of this kind.
    pub(crate) fn add(&mut self, kind: &K) {
        if let Some(at) = self.names.iter().position(|(named, _)| named == kind) {
            self.counts[at] += 1;
        }
    }
}

impl<K: PartialEq> NamedCounts<K> {
    /// Returns the number of lines of this kind.
    pub(crate) fn of(&self, kind: &K) -> u64 {
        self.names.iter().zip(&self.counts).find(|((named, _), _)| named == kind).map_or(0, |(_, count)| *count)
    }
}

impl<K> NamedCounts<K> {
    /// Returns the number of all kinds together.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.names.iter().zip(&self.counts).map(|((_, name), count)| (*name, *count))
    }
}

impl<K> fmt::Display for NamedCounts<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted: Vec<String> = self.named().map(|(name, count)| format!("{count} {name}")).collect();
        to.write_str(&counted.join(", "))
    }
}

impl<K> Serialize for NamedCounts<K> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.named().collect::<BTreeMap<_, _>>().serialize(to)
    }
}

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

/// The options about refused lines.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RejectsArgs {
    /// Write rejected lines to FILE, one JSON object a line: file, line, code, pointer, detail
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Also write the text of rejected lines (petitions are personal data)
    #[arg(long, requires = "rejects")]
    pub(crate) rejects_with_text: bool,
}

impl RejectsArgs {
    /// Creates the rejects file if an option names it. If an import is resumed, the file begins with its earlier content.
    pub(crate) fn open(&self, outputs: &CommandOutputs, resumed: bool) -> anyhow::Result<RejectsFile> {
        let mut file = self.rejects.as_deref().map(|path| outputs.create(path)).transpose()?;
        if let Some(file) = file.as_mut().filter(|_| resumed) {
            file.put_what_is_there()?;
        }
        Ok(RejectsFile { file, with_text: self.rejects_with_text, resumed, ..RejectsFile::default() })
    }
}

/// Returns counts by code for people; `None` if there are none.
pub(crate) fn counts(by_code: &BTreeMap<String, u64>) -> Option<String> {
    let counted: Vec<String> = by_code.iter().map(|(code, count)| format!("{count} {code}")).collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

/// The destination of refused lines.
#[derive(Default)]
pub(crate) struct RejectsFile {
    file: Option<OutputFile>,
    /// The path of the rejects file, after it is complete.
    pub(crate) at: Option<PathBuf>,
    with_text: bool,
    resumed: bool,
    /// Number of refused lines.
    pub(crate) count: u64,
    /// Number of rows that are no data, by code. They do not count as refused.
    pub(crate) left_out: BTreeMap<String, u64>,
}

impl RejectsFile {
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
        self.finish_with(Vec::new())
    }

    /// Completes the rejects file and the other output files of the command. The files get their names when all of them are complete.
    pub(crate) fn finish_with(&mut self, mut files: Vec<OutputFile>) -> anyhow::Result<()> {
        let file = self.file.take();
        self.at = file.as_ref().map(|file| file.path().to_owned());
        files.extend(file);
        finish_all(files)
    }

    /// Completes the rejects file of an import that ended early. The file contains whole lines, and a resumed import adds lines to it, so it gets
    /// its name. If it would replace the file of another import, it gets another name in the same folder, and the function returns this path.
    pub(crate) fn cut_short(&mut self) -> anyhow::Result<Option<&Path>> {
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
        counts(&self.left_out).map(|counts| format!("left out  {counts} (rows that are no data)\n")).unwrap_or_default()
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

impl<'a> From<&'a UnreadableLine> for RejectionReason<'a> {
    fn from(UnreadableLine { code, pointer, detail, text }: &'a UnreadableLine) -> Self {
        Self { code, pointer, detail, text: text.as_deref() }
    }
}
