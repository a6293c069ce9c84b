//! `doppel serve`: runs the HTTP service until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `doppel serve`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// Configuration file (TOML); `doppel config print` shows every key
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080]; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Directory of the records, created if missing [default: ./doppel-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// Runs the service.
///
/// # Errors
/// When the configuration is wrong, the address taken or the store cannot be opened.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("the service is not part of this build yet")
}
