//! The configuration: defaults < file < environment < command line.
//!
//! One struct per concern. Unknown keys are errors that name the key, wherever they come from. Nothing outside this module
//! reads the environment: `DOPPEL_SECTION__KEY` sets `key` of `[section]`, `DOPPEL_CONFIG` names the file.

pub mod auth;
pub mod limits;
pub mod print;
pub mod store;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};

pub use auth::Auth;
pub use limits::Limits;
pub use store::{Store, StoreKind};

/// `[server]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address to listen on. Other than loopback only with keys.
    pub listen: SocketAddr,
    /// Origins besides its own whose web pages may call (`https://desk.example`).
    pub origins: Vec<String>,
    /// After a signal to stop, how long to go on serving with `readyz` at 503, so that a load balancer looks elsewhere.
    pub shutdown_grace_ms: u64,
    /// After that, how long requests under way may take to finish.
    pub shutdown_drain_ms: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            origins: Vec::new(),
            shutdown_grace_ms: 500,
            shutdown_drain_ms: 30_000,
        }
    }
}

/// `[collections]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collections {
    /// Whether a write to an unknown collection creates it with preset `default`.
    pub auto_create: bool,
    /// ... unless there are so many collections. Each takes half a megabyte of memory, so that names made up by mistake would fill
    /// it; who may administer creates more.
    pub max_auto_created: usize,
    /// Whether a collection is reindexed by itself when its keys lie on text that has turned out to be common.
    pub automatic_reindex: bool,
}

impl Default for Collections {
    fn default() -> Self {
        Self { auto_create: true, max_auto_created: 200, automatic_reindex: true }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How lines look.
    pub format: LogFormat,
    /// What is logged: a level, or filters such as `info,doppel::store=debug`. The storage engine's own lines below
    /// warnings mean nothing to an operator.
    pub level: String,
    /// Whether every request gets a line.
    pub requests: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info,fjall=warn,lsm_tree=warn".into(), requests: true }
    }
}

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where and how long to serve.
    pub server: Server,
    /// Where records are kept.
    pub store: Store,
    /// Rules for all collections.
    pub collections: Collections,
    /// Who may call.
    pub auth: Auth,
    /// How much at once.
    pub limits: Limits,
    /// What is logged.
    pub log: Log,
}

/// What the command line says of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The file.
    pub file: Option<PathBuf>,
    /// `server.listen`.
    pub listen: Option<SocketAddr>,
    /// `store.data`.
    pub data: Option<PathBuf>,
}

/// Names of environment variables that begin like ours but set no key: the file, the key of commands that call a service,
/// and what the project's own tests read.
const NOT_KEYS: [&str; 3] = ["CONFIG", "KEY", "TEST_"];

/// The configuration and where each of its values came from.
#[derive(Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    pub(super) figment: Figment,
}

/// Loads the configuration and checks it.
///
/// # Errors
/// Names the key that is unknown or wrong, and where it was set.
pub fn load(flags: &Flags) -> anyhow::Result<Loaded> {
    let mut figment = Figment::from(Serialized::defaults(Config::default()));
    let file = flags.file.clone().or_else(|| std::env::var_os("DOPPEL_CONFIG").map(PathBuf::from));
    if let Some(file) = &file {
        anyhow::ensure!(file.is_file(), "the configuration file {} does not exist", file.display());
        figment = figment.merge(Toml::file_exact(file));
    }
    check_environment(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
    figment = figment.merge(Env::prefixed("DOPPEL_").filter(|key| key.as_str().contains("__")).split("__"));
    if let Some(listen) = flags.listen {
        figment = figment.merge(Serialized::default("server.listen", listen));
    }
    if let Some(data) = &flags.data {
        figment = figment.merge(Serialized::default("store.data", data));
    }
    let config: Config = figment.extract().map_err(|error| anyhow::anyhow!("{error}")).context("configuration")?;
    check(&config).map_err(anyhow::Error::msg).context("configuration")?;
    Ok(Loaded { config, file, figment })
}

/// The key with which commands call a service, from `DOPPEL_KEY`.
pub fn client_key() -> Option<String> {
    std::env::var("DOPPEL_KEY").ok().filter(|key| !key.is_empty())
}

/// A variable such as `DOPPEL_LISTEN`, without a section, would otherwise be ignored in silence.
fn check_environment(names: impl Iterator<Item = String>) -> anyhow::Result<()> {
    for name in names {
        let Some(rest) = name.strip_prefix("DOPPEL_") else { continue };
        let [file, key, tests] = NOT_KEYS;
        let known = rest == file || rest == key || rest.starts_with(tests) || rest.contains("__");
        anyhow::ensure!(known, "the environment variable {name} sets nothing; keys are DOPPEL_SECTION__KEY");
    }
    Ok(())
}

fn check(config: &Config) -> Result<(), String> {
    let Config { server, store, collections: _, auth, limits, log } = config;
    auth.check()?;
    limits.check()?;
    store.check()?;
    if let Err(error) = log.level.parse::<tracing_subscriber::EnvFilter>() {
        return Err(format!("log.level: {error}"));
    }
    if server.origins.iter().any(|origin| !is_origin(origin)) {
        return Err(
            "server.origins: an origin is http:// or https://, a host and perhaps a port, nothing behind it".into()
        );
    }
    if !server.listen.ip().is_loopback() && auth.keys.is_empty() {
        return Err(format!(
            "{} can be reached from other machines, and no keys are configured, so that anyone could read and delete \
             every record; configure keys (doppel config new-key makes one) or listen on 127.0.0.1",
            server.listen
        ));
    }
    Ok(())
}

/// Whether a text is an origin as browsers write it.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    host.is_some_and(|host| !host.is_empty() && host.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> anyhow::Result<Config> {
        let figment = Figment::from(Serialized::defaults(Config::default())).merge(Toml::string(text));
        let config = figment.extract::<Config>().map_err(|error| anyhow::anyhow!("{error}"))?;
        check(&config).map_err(anyhow::Error::msg)?;
        Ok(config)
    }

    #[test]
    fn the_example_file_says_the_defaults() {
        let text = include_str!("../../config/doppel.example.toml");
        assert_eq!(toml(text).unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_it() {
        for (text, key) in [("[limits]\nmax_bodies = 3", "max_bodies"), ("[lmits]\nx = 1", "lmits")] {
            let error = toml(text).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn origins_are_those_that_browsers_send() {
        assert!(toml("[server]\norigins = [\"https://desk.example\", \"http://10.0.0.1:8081\"]").is_ok());
        for wrong in ["desk.example", "https://desk.example/", "https://", "file://x", "https://a@b", "*"] {
            let error = toml(&format!("[server]\norigins = [\"{wrong}\"]")).unwrap_err().to_string();
            assert!(error.contains("server.origins"), "{wrong}: {error}");
        }
    }

    #[test]
    fn an_open_address_without_keys_is_refused_and_the_remedy_named() {
        let error = toml("[server]\nlisten = \"0.0.0.0:8080\"").unwrap_err().to_string();
        assert!(error.contains("doppel config new-key") && error.contains("127.0.0.1"), "{error}");
        let key = format!("[[auth.keys]]\nname = \"a\"\nsha256 = \"{}\"\nscopes = [\"read\"]", "0".repeat(64));
        assert!(toml(&format!("[server]\nlisten = \"0.0.0.0:8080\"\n{key}")).is_ok());
    }

    #[test]
    fn a_variable_without_a_section_is_refused() {
        let check = |name: &str| check_environment([name.to_owned()].into_iter());
        assert!(check("DOPPEL_LISTEN").unwrap_err().to_string().contains("DOPPEL_LISTEN"));
        for fine in ["DOPPEL_SERVER__LISTEN", "DOPPEL_CONFIG", "DOPPEL_KEY", "DOPPEL_TEST_MONGODB_URI", "PATH"] {
            assert!(check(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn a_limit_of_zero_is_refused_by_name() {
        let error = toml("[limits]\nmax_body_bytes = 0").unwrap_err().to_string();
        assert!(error.contains("limits.max_body_bytes"), "{error}");
    }
}
