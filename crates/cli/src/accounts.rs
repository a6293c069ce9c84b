//! `doppel account`: accounts of people of a running service.

use std::io::{BufRead, IsTerminal};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::client::{ServiceArgs, ServiceClient, ServiceListArgs};
use crate::keys::{listed, name, text};
use crate::table::words;
use crate::{tell, usage};
use doppel_config::auth::PersonRole;
use doppel_core::collection::CollectionName;
use doppel_texts as texts;

const EXAMPLES: &str = "\
Examples:
  doppel account add zhang --display-name 张伟 --role clerk
  doppel account add li --display-name 李娜 --role administrator --password-stdin <password.txt
  doppel account list
  doppel account disable zhang

People sign in to the desk with an account; programs use keys. The service must have a key with the scope admin in its configuration
(doppel config new-key). These commands send this key: from --key-file, otherwise from the environment variable DOPPEL_KEY.
Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// Options of `doppel account`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AccountArgs {
    #[command(subcommand)]
    command: AccountCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum AccountCommand {
    /// Make an account: the command reads its password from standard input, or makes one and shows it once on standard error
    Add(AddAccountArgs),
    /// List the accounts
    List(ServiceListArgs),
    /// Disable an account: its sessions end, and it cannot sign in
    Disable(NamedAccount),
    /// Enable a disabled account
    Enable(NamedAccount),
    /// Set a new password: the command reads it from standard input, or makes one and shows it once on standard error
    Password {
        #[command(flatten)]
        account: NamedAccount,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Remove an account: decisions keep the name of the person
    Remove(NamedAccount),
}

#[derive(Clone, Debug, clap::Args)]
struct NamedAccount {
    /// Name of the account
    #[arg(value_parser = name)]
    name: String,
    #[command(flatten)]
    calling: ServiceArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct AddAccountArgs {
    #[command(flatten)]
    account: NamedAccount,
    /// Name that pages and decisions show [default: the name of the account]
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Role of the person
    #[arg(long, value_enum)]
    role: PersonRole,
    /// The only collections that the person may use [default: all]
    #[arg(long, value_name = "C", value_delimiter = ',', value_parser = CollectionName::new)]
    collections: Vec<CollectionName>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    password_stdin: bool,
}

/// Runs one of the subcommands.
///
/// # Errors
/// The service does not answer or refuses the request, or standard input has no password.
pub fn run(args: AccountArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        AccountCommand::Add(add) => return make(&add),
        AccountCommand::List(list) => {
            let columns = ["name", "person", "role", "collections", "state", "changed"];
            return list.print("/v1/admin/accounts", "the service answers without accounts", &columns.map(words), row);
        }
        AccountCommand::Password { account, password_stdin } => return set_password(&account, password_stdin),
        AccountCommand::Disable(account) => {
            set_disabled(&account, &json!(true))?;
            tell(&format!("the account {} cannot sign in any more", account.name));
        }
        AccountCommand::Enable(account) => {
            set_disabled(&account, &json!(false))?;
            tell(&format!("the account {} can sign in again", account.name));
        }
        AccountCommand::Remove(account) => {
            ServiceClient::open(&account.calling)?.delete(&path(&account))?;
            tell(&format!("the account {} is removed", account.name));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn path(account: &NamedAccount) -> String {
    format!("/v1/admin/accounts/{}", account.name)
}

fn make(add: &AddAccountArgs) -> anyhow::Result<ExitCode> {
    let AddAccountArgs { account, display_name, role, collections, password_stdin } = add;
    let display_name = display_name.as_ref().unwrap_or(&account.name);
    let mut request = json!({ "name": account.name, "display_name": display_name, "role": role.as_str() });
    if !collections.is_empty() {
        request["collections"] = json!(collections);
    }
    if *password_stdin {
        request["password"] = json!(typed_password()?);
    }
    show(ServiceClient::open(&account.calling)?.post("/v1/admin/accounts", &request)?)
}

fn set_password(account: &NamedAccount, from_stdin: bool) -> anyhow::Result<ExitCode> {
    let request = if from_stdin { json!({ "password": typed_password()? }) } else { json!({}) };
    show(ServiceClient::open(&account.calling)?.put(&format!("{}/password", path(account)), &request)?)
}

/// Reads the first line of standard input.
fn typed_password() -> anyhow::Result<String> {
    let input = std::io::stdin();
    if input.is_terminal() {
        tell("type the password and press Enter; it is visible here:");
    }
    let mut line = String::new();
    input.lock().read_line(&mut line).context("reading the password from standard input")?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() { Err(usage("standard input has no password")) } else { Ok(password.to_owned()) }
}

/// Prints an account. A password that the service made goes to standard error, so that output that is redirected into a file does not
/// contain it.
fn show(mut answer: Value) -> anyhow::Result<ExitCode> {
    let password = answer.as_object_mut().and_then(|answer| answer.remove("password"));
    if let Some(password) = password.as_ref().and_then(Value::as_str) {
        tell(&format!("the password, shown only now; the person changes it at the desk:\n\n{password}\n"));
    }
    super::answer(&format!("{answer:#}\n"))
}

fn set_disabled(account: &NamedAccount, disabled: &Value) -> anyhow::Result<()> {
    let service = ServiceClient::open(&account.calling)?;
    let all = service.get("/v1/admin/accounts")?;
    let found = all["items"].as_array().and_then(|items| items.iter().find(|item| item["name"] == *account.name));
    let Some(found) = found else {
        anyhow::bail!("there is no account called {}; doppel account list shows the accounts", account.name)
    };
    // With `changed_at` the service refuses the request if somebody changed the account meanwhile.
    let mut request = json!({ "disabled": disabled });
    for kept in ["display_name", "role", "collections", "changed_at"] {
        request[kept] = found[kept].clone();
    }
    service.put(&path(account), &request)?;
    Ok(())
}

fn row(account: &Value) -> Vec<String> {
    let state = if account["disabled"] == json!(true) { "disabled" } else { "" };
    vec![
        text(&account["name"], ""),
        text(&account["display_name"], ""),
        text(&account["role"], ""),
        listed(&account["collections"], &texts::said("all")),
        state.to_owned(),
        text(&account["changed_at"], ""),
    ]
}
