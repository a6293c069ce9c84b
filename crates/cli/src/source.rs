//! `doppel source`: examines a database before it is read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use super::import::tables::pair;
use crate::import::database::DatabaseArgs;
use crate::{load_config, start_threads, usage, with_usage_shown};
use doppel_config::{self as config, Config};
use doppel_core::collection::{CollectionName, Settings};
use doppel_service::follow::check::{self, FindingSeverity, OptionNames, SourceFinding};
use doppel_sources::database::RowOrigin;
use doppel_texts as texts;

/// Options of `doppel source`.
#[derive(Clone, Debug, clap::Args)]
pub struct SourceArgs {
    #[command(subcommand)]
    command: SourceCommand,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum SourceCommand {
    /// Examine a source: its clocks, ids, watermark and index, and the fields of its columns; exits with 1 if rows would be missed
    Check(CheckArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct CheckArgs {
    /// The name of a source in the configuration
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    name: Option<String>,
    /// Configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    database: DatabaseArgs,
    /// With --from: the column with the time of the last change of a row
    #[arg(long, value_name = "COLUMN", requires = "from")]
    watermark: Option<String>,
    /// With --from: the column that holds the id
    #[arg(long, value_name = "COLUMN", requires = "from")]
    id_field: Option<String>,
    /// With --from: read the column COLUMN as FIELD; may be given several times
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = pair, requires = "from")]
    map: Vec<(String, String)>,
    /// Time zone of times that name none [default: the zone of the source, otherwise Asia/Shanghai]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Settings of the collection (JSON), if they differ from the preset default
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

/// Checks a source and prints the findings.
///
/// # Errors
/// There is no such source, or it cannot be read.
pub fn run(args: SourceArgs) -> anyhow::Result<ExitCode> {
    let SourceCommand::Check(args) = args.command;
    with_usage_shown("source check", look(&args))
}

fn look(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = load_config(args.config.as_deref())?.config;
    let mut source = match &args.name {
        Some(name) => named(&config, name)?,
        None => given(args)?,
    };
    if let Some(zone) = &args.time_zone {
        if jiff::tz::TimeZone::get(zone).is_err() {
            return Err(usage(format!("--time-zone {zone}: give an IANA name such as Asia/Shanghai")));
        }
        source.time_zone.clone_from(zone);
    }
    let settings = match &args.settings {
        Some(_) => super::settings_file::read_settings(args.settings.as_deref(), Default::default())?,
        None => Settings::default(),
    };
    let password = match &args.name {
        Some(_) => source.password()?,
        None => args.database.password()?,
    };
    let runtime = start_threads()?;
    let names = if args.name.is_some() { OptionNames::KEYS } else { OptionNames::OPTIONS };
    let findings = runtime.block_on(check::check(&source, password.as_deref(), &settings, &names));
    let findings = findings.with_context(|| match source.location() {
        Ok(location) => format!("cannot read {location}"),
        Err(_) => format!("cannot read the source {}", source.name),
    })?;
    super::answer(&texts::said(&said(&findings)))?;
    let wrong = findings.iter().any(|finding| finding.weight == FindingSeverity::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn named(config: &Config, name: &str) -> anyhow::Result<config::SourceConfig> {
    config.source.iter().find(|source| source.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = config.source.iter().map(|source| source.name.as_str()).collect();
        let names = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        usage(format!("the configuration has no [[source]] called {name}; {names}"))
    })
}

/// Makes a source from the options of the command line.
fn given(args: &CheckArgs) -> anyhow::Result<config::SourceConfig> {
    let Some((location, origin)) = args.database.place()? else { return Err(usage("name a source, or give --from")) };
    let (table, query) = match origin {
        RowOrigin::Table(table) => (table, String::new()),
        RowOrigin::Query(query) => (String::new(), query),
    };
    Ok(config::SourceConfig {
        name: "given".into(),
        url: location.full(),
        table,
        query,
        id: args.id_field.clone().unwrap_or_default(),
        map: args.map.iter().cloned().collect::<BTreeMap<_, _>>(),
        collection: CollectionName::new("given").map(|name| name.to_string()).unwrap_or_default(),
        watermark: args.watermark.clone().unwrap_or_default(),
        ..config::SourceConfig::default()
    })
}

fn said(findings: &[SourceFinding]) -> String {
    let lines = findings.iter().map(|SourceFinding { weight, text }| {
        let mark = match weight {
            FindingSeverity::Fine => "fine   ",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Wrong => "WRONG  ",
        };
        format!("{mark}  {text}\n")
    });
    lines.collect()
}
