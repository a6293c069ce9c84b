//! The command line. Each command has a file with its `Args` and a function `run` that returns the exit code.
//!
//! The exit codes are the same for every command: 0 done, 1 failed, 2 wrong usage, 3 partly done (some input was rejected), 130 stopped
//! early by a signal. `serve`, `import` and `check` end in order after a signal, with 0, 1 and 1. Results go to standard output, and all
//! messages go to standard error. Files are written through [`output`].

pub mod accounts;
pub mod check;
pub mod client;
mod columns;
pub mod completions;
pub mod config;
pub mod dedup;
pub mod doctor;
#[cfg(feature = "search")]
pub mod eval;
pub mod events;
pub mod healthcheck;
pub mod import;
pub mod keys;
mod line_report;
pub mod man;
#[cfg(feature = "mongodb")]
pub mod migrate;
mod notify;
pub mod openapi;
pub mod output;
pub mod progress;
pub mod reindex;
mod reload;
#[cfg(feature = "search")]
pub mod sample;
mod scratch;
#[cfg(feature = "search")]
mod search_folder;
pub mod serve;
pub mod settings_file;
pub mod snapshot;
pub mod source;
mod spool;
pub mod store;
pub mod table;
pub mod transfer;
mod warnings;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tokio::runtime::Runtime;

use self::output::CommandOutputs;
use doppel_config::{ConfigFlags, LoadedConfig};
use doppel_service::shutdown::{Shutdown, Signals};
use doppel_sources::tables::guard::child;
use doppel_texts::arguments::CommandLine;
use doppel_texts::{self as texts, Language};

/// Exit code if some of the input was processed and some was rejected.
pub const PARTLY: u8 = 3;
/// Exit code for wrong usage.
pub const USAGE: u8 = 2;

/// Finds for each incoming petition the earlier petitions about the same matter.
///
/// Without a command, doppel runs the service: "doppel" is "doppel serve".
#[derive(Debug, Parser)]
#[command(name = "doppel", version, args_conflicts_with_subcommands = true)]
pub struct CliArguments {
    #[command(subcommand)]
    command: Option<CliCommand>,
    #[command(flatten)]
    serve: serve::ServeArgs,
    /// Language of help and messages, zh-CN or en; the default comes from DOPPEL_LANG, otherwise from the locale
    #[arg(long, global = true, value_name = "LANG", value_parser = texts::arguments::parse)]
    lang: Option<Language>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the HTTP service (the default)
    Serve(serve::ServeArgs),
    /// Register the records of files or of a database
    Import(import::ImportArgs),
    /// Examine a database before doppel reads it
    Source(source::SourceArgs),
    /// Compare the rows of files with a collection, and write them with the finding for each row
    Check(check::RowCheckArgs),
    /// Find all pairs and groups of duplicates in files, without a service
    Dedup(dedup::DedupArgs),
    /// Find the events that the records of files report, without a service
    Events(events::EventsArgs),
    /// Write a collection to a file that another store can import
    Export(transfer::ExportArgs),
    /// Take backups while the service runs, list, verify and restore them
    Snapshot(snapshot::SnapshotArgs),
    /// Rebuild the whole index of a collection of a running service
    Reindex(reindex::ReindexArgs),
    /// Print the description of the HTTP API (OpenAPI, YAML)
    Openapi(openapi::OpenapiArgs),
    /// Show and check the configuration, make keys
    Config(config::ConfigArgs),
    /// Make, list, change and remove accounts of people of a running service
    Account(accounts::AccountArgs),
    /// Make, list and revoke keys of a running service
    Keys(keys::KeysArgs),
    /// Ask a running service whether it is ready
    Healthcheck(healthcheck::HealthcheckArgs),
    /// Bring the schema of a MongoDB database up to date
    #[cfg(feature = "mongodb")]
    Migrate(migrate::MigrateArgs),
    /// Check that every record has its index entry and every index entry its record
    Doctor(doctor::DoctorArgs),
    /// Measure recall and precision on a labelled set
    #[cfg(feature = "search")]
    Eval(eval::EvalArgs),
    /// Write invented letters and orders with known duplicates, for trials and measurements
    #[cfg(feature = "search")]
    Sample(sample::SampleArgs),
    /// Print a script with which a shell completes the commands of doppel
    Completions(completions::CompletionsArgs),
    /// Print a page of the manual, for man
    Man(man::ManArgs),
}

impl CliArguments {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self.command.unwrap_or(CliCommand::Serve(self.serve)) {
            CliCommand::Serve(args) => serve::run(args),
            CliCommand::Import(args) => import::run(args),
            CliCommand::Source(args) => source::run(args),
            CliCommand::Check(args) => check::run(args),
            CliCommand::Dedup(args) => dedup::run(args),
            CliCommand::Events(args) => events::run(args),
            CliCommand::Export(args) => transfer::run(args),
            CliCommand::Snapshot(args) => snapshot::run(args),
            CliCommand::Reindex(args) => reindex::run(args),
            CliCommand::Openapi(args) => openapi::run(args),
            CliCommand::Config(args) => config::run(args),
            CliCommand::Account(args) => accounts::run(args),
            CliCommand::Keys(args) => keys::run(args),
            CliCommand::Healthcheck(args) => healthcheck::run(args),
            #[cfg(feature = "mongodb")]
            CliCommand::Migrate(args) => migrate::run(args),
            CliCommand::Doctor(args) => doctor::run(args),
            #[cfg(feature = "search")]
            CliCommand::Eval(args) => eval::run(args),
            #[cfg(feature = "search")]
            CliCommand::Sample(args) => sample::run(args),
            CliCommand::Completions(args) => completions::run(args),
            CliCommand::Man(args) => man::run(args),
        }
    }
}

/// Parses the command line, runs the command, and prints the reason of a failure on standard error. `commit` is the commit that the program
/// is built from.
pub fn main(commit: &'static str) -> ExitCode {
    doppel_http::build::set_commit(commit);
    // The child process that reads one workbook is handled first: it needs no other part of the program.
    if std::env::args_os().nth(1).is_some_and(|command| command == child::COMMAND) {
        return child::main();
    }
    if let Some(program) = own_program() {
        child::read_by(program);
    }
    let line = CommandLine::new(std::env::args_os());
    texts::language::set_of_process(line.language.unwrap_or_else(doppel_config::command_language));
    // Wrong usage ends the process here with exit code 2.
    exit_code(parse(line.arguments).run())
}

/// Returns the exit code of a command, and prints the reason of a failure on standard error.
pub fn exit_code(ended: anyhow::Result<ExitCode>) -> ExitCode {
    match ended {
        Ok(code) => code,
        // The reader of the output has closed the pipe, for example in `doppel openapi | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            if error.is::<UsageError>() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
        }
    }
}

/// Parses the arguments. For help, the version and wrong usage, the process ends here.
fn parse(arguments: Vec<OsString>) -> CliArguments {
    if texts::language::of_process() == Language::English {
        return CliArguments::parse_from(arguments);
    }
    let matches = texts::help::in_chinese(CliArguments::command()).try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| CliArguments::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| match texts::mistakes::in_chinese(&error) {
        Some(text) => {
            complain_of_usage(&anyhow::Error::msg(text), &command_of(&arguments));
            std::process::exit(i32::from(USAGE))
        }
        None => error.exit(),
    })
}

/// Returns the names of the command and its subcommand at the beginning of the arguments; an empty text if there are none.
fn command_of(arguments: &[OsString]) -> String {
    let commands = CliArguments::command();
    let mut command = &commands;
    let mut names = Vec::new();
    for argument in arguments.iter().skip(1) {
        let Some(found) = command.find_subcommand(argument) else { break };
        names.push(found.get_name());
        command = found;
    }
    names.join(" ")
}

/// Returns the path of the running program. On Linux, this is the link of the kernel, which means this version even while another version
/// is installed.
fn own_program() -> Option<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { Some(link) } else { std::env::current_exe().ok() }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Writes the result of a command to standard output. Returns the exit code for success.
///
/// # Errors
/// Standard output is closed.
pub fn answer(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a message of a command on standard error.
fn tell(text: &str) {
    print_error(&texts::said(text));
}

/// Prints a line on standard error. If nobody reads standard error any more, for example after the end of a remote session, the work continues.
fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Reads the configuration of a command whose only flag about it is `--config`.
fn load_config(file: Option<&Path>) -> anyhow::Result<LoadedConfig> {
    doppel_config::load(&ConfigFlags { file: file.map(Path::to_owned), ..ConfigFlags::default() })
}

/// Starts the threads of a command that waits for a store, a service or a database.
fn start_threads() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")
}

/// Returns the folder of `--dir` for data that does not fit in memory; without the option, the system's folder for temporary files.
fn scratch_folder(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = dir.map_or_else(std::env::temp_dir, Path::to_owned);
    if dir.is_dir() { Ok(dir) } else { Err(usage(format!("--dir {}: is not a folder", dir.display()))) }
}

/// Runs `work` on `runtime` to its end. The first signal asks the work to stop. The second signal removes incomplete `outputs` and ends the
/// process.
///
/// # Errors
/// The errors of `work`; signals cannot be received.
fn run_until_signal<T>(
    runtime: Runtime,
    outputs: &CommandOutputs,
    work: impl AsyncFnOnce(&Shutdown) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let ended = runtime.block_on(async {
        let stop = Shutdown::default();
        let signals = Signals::new().context("cannot receive signals")?;
        let asked = stop.clone();
        let outputs = outputs.clone();
        let signals =
            tokio::spawn(async move { asked.on_signal(signals, Duration::ZERO, move || outputs.abandon()).await });
        let ended = work(&stop).await;
        signals.abort();
        ended
    });
    // The reading thread may wait for standard input for ever. No other work is in progress.
    runtime.shutdown_background();
    ended
}

/// Returns the key for a service: from `file`, otherwise from the environment.
fn key(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let Some(file) = file else { return Ok(doppel_config::client_key()) };
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    match text.trim() {
        "" => Err(usage(format!("{} is empty; doppel config new-key makes a key", file.display()))),
        key => Ok(Some(key.to_owned())),
    }
}

fn complain(error: &anyhow::Error) {
    print_error(&format!("doppel: {}", texts::reason(error)));
}

/// The error that the arguments are wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

/// Returns the error that the arguments are wrong.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    UsageError(text.into()).into()
}

/// Returns the result of a command, and prints the error if the arguments were wrong.
fn with_usage_shown(command: &str, ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match ended {
        Err(error) if error.is::<UsageError>() => {
            complain_of_usage(&error, command);
            Ok(ExitCode::from(USAGE))
        }
        ended => ended,
    }
}

fn complain_of_usage(error: &anyhow::Error, command: &str) {
    let command = format!("{command} --help");
    let more = format!("for more, try 'doppel {}'", command.trim_start());
    print_error(&format!("doppel: {}\n{}", texts::reason(error), texts::said(&more)));
}

#[cfg(test)]
mod translation_tests;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::CliArguments::command().debug_assert();
    }
}
