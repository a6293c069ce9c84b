//! `doppel migrate`: updates the schema of a MongoDB database.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::{load_config, store};
use doppel_config::StoreKind;
use doppel_store_mongodb::{MongoStore, State, Status};
use doppel_texts as texts;

/// Options of `doppel migrate`.
#[derive(Clone, Debug, clap::Args)]
pub struct MigrateArgs {
    /// Configuration file (TOML); store.kind must be "mongodb"
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// List all migrations and their state, change nothing
    #[arg(long)]
    status: bool,
    /// Show the migrations that would be applied, change nothing
    #[arg(long, conflicts_with = "status")]
    dry_run: bool,
}

/// Applies the pending migrations and repairs differences from the schema that this version needs, or only lists both.
///
/// # Errors
/// The database cannot be reached, or a migration was changed or is unknown to this version.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let config = load_config(args.config.as_deref())?.config.store;
    anyhow::ensure!(
        config.kind == StoreKind::Mongodb,
        "the embedded store needs no migrations; set store.kind to \"mongodb\""
    );
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    runtime.block_on(async {
        let uri = config.mongodb_uri()?;
        let opening = MongoStore::inspect(uri.reveal(), &config.database, store::mongodb_options(&config));
        let schema = opening.await.context("cannot use the MongoDB database")?;
        let mut out = std::io::stdout().lock();
        if args.status || args.dry_run {
            for status in schema.status().await? {
                if args.status || is_pending(&status) {
                    writeln!(out, "{}", line(&status))?;
                }
            }
            for difference in schema.differences().await? {
                writeln!(out, "{}", texts::said(&format!("schema  {difference}")))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let applied = schema.apply().await?;
        for name in &applied {
            writeln!(out, "{}", texts::said(&format!("applied {name}")))?;
        }
        if applied.is_empty() {
            writeln!(out, "{}", texts::said("nothing to do"))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn is_pending(status: &Status) -> bool {
    matches!(status.state, State::Pending | State::ShardKeysPending)
}

fn line(Status { name, summary, state }: &Status) -> String {
    let state = match state {
        State::Applied(at) => format!("applied {at}"),
        State::Pending => "pending".into(),
        State::ShardKeysPending => "shard keys pending".into(),
        State::Edited => "EDITED after it was applied".into(),
        State::Unknown => "UNKNOWN to this version".into(),
    };
    format!("{name}  {state}  {summary}").trim_end().to_owned()
}
