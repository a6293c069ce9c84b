//! `doppel keys`: creates, lists and revokes keys of a running service.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::client::{ServiceArgs, ServiceClient, ServiceListArgs};
use crate::output::CommandOutputs;
use crate::table::words;
use crate::tell;
use doppel_config::auth::{MAX_NAME_BYTES, Scope, is_name};
use doppel_core::collection::CollectionName;
use doppel_texts as texts;

const EXAMPLES: &str = "\
Examples:
  doppel keys create intake --scopes read,write --collections letters,hotline --expires-in-days 365 --secret-file intake.key
  doppel keys list
  doppel keys revoke intake

Such a key is valid at once, without a restart, for all instances that share the store. The service must have a key with the scope
admin in its configuration (doppel config new-key). These commands send this key: from --key-file, otherwise from the environment
variable DOPPEL_KEY. They neither list nor revoke the keys of the configuration.
Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// Options of `doppel keys`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum KeysCommand {
    /// Make a key: the stored data of the key goes to standard output, the key itself to a file or, once, to standard error
    Create(CreateKeyArgs),
    /// List the keys that were made while the service runs: their scopes, and when they were last used
    List(ServiceListArgs),
    /// Revoke a key: it is no longer valid
    Revoke {
        /// Name of the key
        #[arg(value_parser = name)]
        name: String,
        #[command(flatten)]
        calling: ServiceArgs,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct CreateKeyArgs {
    /// Name of the key, shown in logs: 1 to 64 of a-z, 0-9 and "-"
    #[arg(value_parser = name)]
    name: String,
    /// Scopes of the key
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    scopes: Vec<Scope>,
    /// The only collections that the key may use [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',', value_parser = CollectionName::new)]
    collections: Vec<CollectionName>,
    /// Number of days after which the key is invalid [default: never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    expires_in_days: Option<u32>,
    /// Time from which the key is invalid, such as 2027-01-31T17:00:00+08:00
    #[arg(long, value_name = "TIME", conflicts_with = "expires_in_days")]
    expires_at: Option<String>,
    /// Write the key to this new file, which only its owner may read, instead of showing it
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    calling: ServiceArgs,
}

pub(super) fn name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("a name is 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\"")),
    }
}

/// Runs one of the subcommands.
///
/// # Errors
/// The service does not answer or refuses the request, or the file cannot be written.
pub fn run(args: KeysArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        KeysCommand::Create(create) => make(&create),
        KeysCommand::List(list) => {
            let columns = ["name", "scopes", "collections", "created", "expires", "last used"];
            list.print("/v1/admin/keys", "the service answers without keys", &columns.map(words), row)
        }
        KeysCommand::Revoke { name, calling } => {
            ServiceClient::open(&calling)?.delete(&format!("/v1/admin/keys/{name}"))?;
            tell(&format!("the key {name} is revoked"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn make(create: &CreateKeyArgs) -> anyhow::Result<ExitCode> {
    let CreateKeyArgs { name, scopes, collections, expires_in_days, expires_at, secret_file, calling } = create;
    let service = ServiceClient::open(calling)?;
    // The file is created before the key: a key that cannot be stored would have to be revoked.
    let file = secret_file.as_deref().map(|path| CommandOutputs::new().create_private(path)).transpose()?;
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let mut request = json!({ "name": name, "scopes": scopes });
    if !collections.is_empty() {
        request["collections"] = json!(collections);
    }
    if let Some(days) = expires_in_days {
        request["expires_in_days"] = json!(days);
    }
    if let Some(at) = expires_at {
        request["expires_at"] = json!(at);
    }
    let mut answer = service.post("/v1/admin/keys", &request)?;
    let secret = answer.as_object_mut().and_then(|answer| answer.remove("key"));
    let secret = secret.as_ref().and_then(Value::as_str).context("the service answers without a key")?;
    match (file, secret_file) {
        (Some(mut file), Some(path)) => {
            let written = file.put(format!("{secret}\n").as_bytes()).and_then(|()| file.finish());
            written.with_context(|| revoke_it(name, path))?;
            tell(&format!("the key is in {}, which only its owner may read", path.display()));
        }
        // The secret goes to standard error, so that output that is redirected into a file does not contain it.
        _ => tell(&format!(
            "the key, shown only now; its caller keeps it (--key-file FILE or DOPPEL_KEY for doppel's own commands):\n\n{secret}\n"
        )),
    }
    super::answer(&format!("{answer:#}\n"))
}

fn revoke_it(name: &str, path: &Path) -> String {
    format!("the key {name} was made, but could not be written to {}; doppel keys revoke {name}", path.display())
}

fn row(key: &Value) -> Vec<String> {
    let mut expires = text(&key["expires_at"], &texts::said("never"));
    if key["expired"] == json!(true) {
        expires.push_str(" (has expired)");
    }
    vec![
        text(&key["name"], ""),
        listed(&key["scopes"], ""),
        listed(&key["collections"], &texts::said("all")),
        text(&key["created_at"], ""),
        expires,
        text(&key["last_used_at"], &texts::said("never")),
    ]
}

pub(super) fn text(value: &Value, otherwise: &str) -> String {
    value.as_str().unwrap_or(otherwise).to_owned()
}

pub(super) fn listed(value: &Value, otherwise: &str) -> String {
    match value.as_array() {
        Some(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        None => otherwise.to_owned(),
    }
}
