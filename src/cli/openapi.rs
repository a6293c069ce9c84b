//! `doppel openapi`: prints the description of the HTTP API.

use std::process::ExitCode;

/// Options of `doppel openapi`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {}

/// Prints the description as YAML.
///
/// # Errors
/// When standard output is closed.
pub fn run(Args {}: Args) -> anyhow::Result<ExitCode> {
    let yaml = crate::http::openapi::yaml()?;
    super::answer(yaml)?;
    Ok(ExitCode::SUCCESS)
}
