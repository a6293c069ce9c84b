//! `doppel reindex`: starts a reindex in a running service, and follows it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::client::{ServiceArgs, ServiceClient, ServiceUnavailable};
use crate::progress::CommandProgress;
use crate::tell;
use doppel_core::collection::{CollectionName, Preset};

/// Interval at which a followed task is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Number of attempts to reach a service that does not answer: it may need this time to restart with many records.
const PATIENCE: u32 = 300;

const EXAMPLES: &str = "\
Examples:
  doppel reindex --collection letters --follow                      (with its present settings: after an upgrade, or for new statistics)
  doppel reindex --collection letters --settings new.json --follow
  doppel reindex --collection letters --settings new.json --no-activate --follow
      then look at GET /v1/collections/letters/generations/2/compare and, if it is better,
      POST /v1/collections/letters/generations/2/activate

The service answers requests during the reindex. Without --follow the command ends when the task has begun. Ctrl-C ends --follow and
not the task: POST /v1/tasks/ID/cancel stops the task.
Key: from --key-file, otherwise from the environment variable DOPPEL_KEY; its scope must include admin.
Exit codes: 0 done (or begun, without --follow), 1 failed or canceled, 2 wrong usage.";

/// Options of `doppel reindex`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReindexArgs {
    #[command(flatten)]
    calling: ServiceArgs,
    /// Collection to rebuild
    #[arg(long, value_name = "C", value_parser = CollectionName::new)]
    collection: CollectionName,
    /// New settings: a JSON file as for PUT /v1/collections/C [default: the present settings of the collection]
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    settings: Option<PathBuf>,
    /// New settings: a preset
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Keep the new generation beside the live one, to compare both
    #[arg(long)]
    no_activate: bool,
    /// Drop the generation that was live before
    #[arg(long, conflicts_with = "no_activate")]
    drop_previous: bool,
    /// Largest number of records a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    records_per_second: Option<u32>,
    /// Show progress until the task ends
    #[arg(long)]
    follow: bool,
}

/// Runs the command.
///
/// # Errors
/// The service does not answer or refuses the request; with `--follow`, also if the task fails.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: ReindexArgs) -> anyhow::Result<ExitCode> {
    let service = ServiceClient::open(&args.calling)?;
    let mut request = json!({ "collection": args.collection.as_str(), "activate": !args.no_activate });
    if let Some(settings) = settings(&args)? {
        request["settings"] = settings;
    }
    if args.drop_previous {
        request["keep_previous"] = false.into();
    }
    if let Some(most) = args.records_per_second {
        request["records_per_second"] = most.into();
    }
    let task = service.post("/v1/admin/reindex", &request)?;
    let id = task["id"].as_str().context("the service answers without a task")?.to_owned();
    tell(&format!("task {id} begun: {}/v1/tasks/{id}", service.url()));
    if !args.follow {
        return Ok(ExitCode::SUCCESS);
    }
    let task = follow(&service, &id)?;
    match task["status"].as_str() {
        Some("succeeded") => {
            print(&task["result"]);
            Ok(ExitCode::SUCCESS)
        }
        Some("failed") => bail!("the task failed: {}", task["error"].as_str().unwrap_or("no reason given")),
        _ => bail!("the task was canceled"),
    }
}

fn settings(args: &ReindexArgs) -> anyhow::Result<Option<Value>> {
    if let Some(path) = &args.settings {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let settings = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        return Ok(Some(settings));
    }
    Ok(args.preset.map(|preset| json!({ "preset": preset })))
}

/// Shows the progress until the task has ended. If the service does not answer, the command waits: the service may be restarting and then
/// continues the task.
fn follow(service: &ServiceClient, id: &str) -> anyhow::Result<Value> {
    let progress = CommandProgress::new();
    let mut failures = 0;
    loop {
        match service.get(&format!("/v1/tasks/{id}")) {
            Ok(task) => {
                failures = 0;
                show(&task, &progress);
                if matches!(task["status"].as_str(), Some("succeeded" | "failed" | "canceled")) {
                    return Ok(task);
                }
            }
            Err(error) if failures >= PATIENCE || !error.is::<ServiceUnavailable>() => return Err(error),
            Err(_) => failures += 1,
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn show(task: &Value, progress: &CommandProgress) {
    let phase = task["phase"].as_str().unwrap_or("");
    let done = task["done"].as_u64().unwrap_or(0);
    let total = task["total"].as_u64().unwrap_or(0);
    let left = task["eta_s"].as_u64().map_or_else(String::new, |eta| format!(", {eta} s left"));
    let rate = task["rate"].as_f64().unwrap_or(0.0);
    progress.total(total);
    progress.told(done, format!("{phase}: {done} of {total}, {rate:.0}/s{left}"));
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn print(result: &Value) {
    println!("{result:#}");
}
