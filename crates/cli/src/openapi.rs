//! `doppel openapi`: prints the OpenAPI document of the HTTP API.

use std::process::ExitCode;

/// Options of `doppel openapi`.
#[derive(Clone, Debug, clap::Args)]
pub struct OpenapiArgs {}

/// Prints the OpenAPI document as YAML.
///
/// # Errors
/// Standard output is closed.
pub fn run(OpenapiArgs {}: OpenapiArgs) -> anyhow::Result<ExitCode> {
    super::answer(doppel_http::openapi::yaml()?)
}
