//! `doppel reindex`: asks a running service to rebuild a collection's index, and follows it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::cli::key;
use crate::cli::progress::Progress;
use doppel_core::collection::{CollectionName, Preset};

/// How long the service may take to answer one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a followed task is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a service that does not answer is asked again: as long as it takes to start again with many records.
const PATIENCE: u32 = 300;

const EXAMPLES: &str = "\
Examples:
  doppel reindex --collection letters --follow                      (with the settings it has: after an upgrade, for statistics)
  doppel reindex --collection letters --settings new.json --follow
  doppel reindex --collection letters --settings new.json --no-activate --follow
      then look at GET /v1/collections/letters/generations/2/compare and, if it is better,
      POST /v1/collections/letters/generations/2/activate

The service goes on answering all the while. Without --follow the command ends when the task is begun; Ctrl-C while following
does not stop the task: POST /v1/tasks/ID/cancel does.
Key: from --key-file, else from the environment variable DOPPEL_KEY; its scope must include admin.
Exit codes: 0 done (or begun, without --follow), 1 failed or canceled, 2 wrong usage.";

/// Options of `doppel reindex`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The running service
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    to: String,
    /// Collection to rebuild
    #[arg(long, value_name = "C", value_parser = CollectionName::new)]
    collection: CollectionName,
    /// File that holds the key (only for a service that has keys)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// New settings: a JSON file as for PUT /v1/collections/C [default: those the collection has]
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    settings: Option<PathBuf>,
    /// New settings: a preset
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Keep the new generation beside the one that answers, for comparing
    #[arg(long)]
    no_activate: bool,
    /// Drop the generation that answered until then
    #[arg(long, conflicts_with = "no_activate")]
    drop_previous: bool,
    /// Most records a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    records_per_second: Option<u32>,
    /// Show progress until it is done
    #[arg(long)]
    follow: bool,
}

/// Begins a reindex.
///
/// # Errors
/// When the service does not answer or refuses; when following, also when the task fails.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let service = Service::new(&args.to, args.key_file.as_deref())?;
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
    say(&format!("task {id} begun: {}/v1/tasks/{id}", service.url));
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

fn settings(args: &Args) -> anyhow::Result<Option<Value>> {
    if let Some(path) = &args.settings {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let settings = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        return Ok(Some(settings));
    }
    Ok(args.preset.map(|preset| json!({ "preset": preset })))
}

/// Shows progress until the task has ended. A service that is away (it may be starting again, and go on with the task) is waited for.
fn follow(service: &Service, id: &str) -> anyhow::Result<Value> {
    let progress = Progress::new();
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
            Err(error) if failures >= PATIENCE || !error.is::<Away>() => return Err(error),
            Err(_) => failures += 1,
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn show(task: &Value, progress: &Progress) {
    let number = |key: &str| task[key].as_u64().unwrap_or(0);
    let (phase, done, total) = (task["phase"].as_str().unwrap_or(""), number("done"), number("total"));
    let left = task["eta_s"].as_u64().map_or_else(String::new, |eta| format!(", {eta} s left"));
    let rate = task["rate"].as_f64().unwrap_or(0.0);
    progress.total(total);
    progress.told(done, format!("{phase}: {done} of {total}, {rate:.0}/s{left}"));
}

/// The service does not answer.
#[derive(Debug, thiserror::Error)]
#[error("{0} does not answer: {1}")]
struct Away(String, String);

/// A running service.
struct Service {
    url: String,
    agent: ureq::Agent,
    authorization: Option<String>,
}

impl Service {
    fn new(url: &str, key_file: Option<&Path>) -> anyhow::Result<Self> {
        let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        let authorization = key(key_file)?.map(|key| format!("Bearer {key}"));
        Ok(Self { url: url.trim_end_matches('/').to_owned(), agent: agent.new_agent(), authorization })
    }

    fn get(&self, path: &str) -> anyhow::Result<Value> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        self.answer(request.call())
    }

    fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        self.answer(request.send_json(body))
    }

    fn answer(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> anyhow::Result<Value> {
        let mut answer = answer.map_err(|error| Away(self.url.clone(), error.to_string()))?;
        let status = answer.status().as_u16();
        let foreign = || format!("what answers at {} (status {status}) is not doppel", self.url);
        let body: Value = answer.body_mut().read_json().with_context(foreign)?;
        match status {
            200..300 => Ok(body),
            503 => Err(Away(self.url.clone(), refusal(&body)).into()),
            _ => bail!("{} refuses ({status}): {}", self.url, refusal(&body)),
        }
    }
}

/// What a problem says, with its places.
fn refusal(body: &Value) -> String {
    let places = body["errors"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let places =
        places.filter_map(|error| Some(format!("{}: {}", error["pointer"].as_str()?, error["detail"].as_str()?)));
    let places: Vec<String> = places.collect();
    match places.is_empty() {
        true => body["detail"].as_str().unwrap_or("no reason given").to_owned(),
        false => places.join("; "),
    }
}

#[expect(clippy::print_stderr, reason = "the command line's own voice")]
fn say(text: &str) {
    eprintln!("{text}");
}

#[expect(clippy::print_stdout, reason = "the answer of the command")]
fn print(result: &Value) {
    println!("{result:#}");
}
