//! `doppel healthcheck`: asks a running service whether it is ready; for containers without curl.

use std::process::ExitCode;
use std::time::Duration;

/// How long the service may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Options of `doppel healthcheck`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// What to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/readyz")]
    pub url: String,
}

/// Exits with 0 when the service answers 200.
///
/// # Errors
/// When it answers otherwise, or not at all.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
    let answer = agent.new_agent().get(&args.url).call();
    let answer = answer.map_err(|error| anyhow::anyhow!("{} does not answer: {error}", args.url))?;
    anyhow::ensure!(answer.status() == 200, "{} answers {}", args.url, answer.status());
    Ok(ExitCode::SUCCESS)
}
