//! `doppel config`: shows and checks the configuration, and creates keys.

use std::process::ExitCode;

use crate::{serve, tell};
use doppel_config::auth::{self, KeyConfig, Scope};
use doppel_config::{self as config, print};
use doppel_http::tls::CertificatesInUse;
use doppel_texts as texts;

/// Options of `doppel config`.
#[derive(Clone, Debug, clap::Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Show every key with its value and its source; hashes of secrets are left out
    Print(serve::ServeArgs),
    /// Find mistakes: exits with 1 and names the key
    Check(serve::ServeArgs),
    /// Make a key: shows the key once, on standard error, and writes the section for the configuration, which holds no secret, to standard output
    NewKey {
        /// Name of the key, shown in logs: 1 to 64 of a-z, 0-9 and "-"
        name: String,
        /// Scopes of the key
        #[arg(long, value_enum, value_delimiter = ',', required = true)]
        scopes: Vec<Scope>,
    },
}

/// Runs one of the subcommands.
///
/// # Errors
/// The configuration is invalid.
pub fn run(args: ConfigArgs) -> anyhow::Result<ExitCode> {
    let text = match args.command {
        ConfigCommand::Print(flags) => print::print(&config::load(&flags.flags())?)?,
        ConfigCommand::Check(flags) => {
            let loaded = config::load(&flags.flags())?;
            let certificates = CertificatesInUse::open(&loaded.config.server.tls)?;
            for warning in certificates.iter().flat_map(|certificates| certificates.warnings()) {
                tell(&format!("warning: {warning}"));
            }
            format!("{}\n", texts::said("the configuration is fine"))
        }
        ConfigCommand::NewKey { name, scopes } => {
            let (key, section) = new_key(name, scopes)?;
            // The secret goes to standard error, so that the output that is pasted or redirected into a file does not contain it.
            tell(&format!(
                "the key, shown only now; its caller keeps it (--key-file FILE or DOPPEL_KEY for doppel's own commands):\n\n\
                 {key}\n\nthe section for the configuration, which holds no secret:\n"
            ));
            section
        }
    };
    super::answer(&text)
}

/// Creates a key. Returns the key and its section of the configuration.
fn new_key(name: String, scopes: Vec<Scope>) -> anyhow::Result<(String, String)> {
    let (key, sha256) = auth::new_key(&name)?;
    let listed = scopes.iter().map(|scope| format!("{:?}", scope.as_str())).collect::<Vec<_>>().join(", ");
    let section = format!("[[auth.keys]]\nname = {name:?}\nsha256 = \"{sha256}\"\nscopes = [{listed}]\n");
    config::AuthConfig { keys: vec![KeyConfig { name, sha256, scopes }] }.check().map_err(anyhow::Error::msg)?;
    Ok((key, section))
}
