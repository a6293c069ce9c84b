//! The configuration: defaults < file < environment < command line.
//!
//! There is one struct for each section. The error for a mistake names its place, the key and a suggestion. Only this crate reads the
//! environment: `DOPPEL_SECTION__KEY` sets `key` of `[section]`, and `DOPPEL_CONFIG` names the file.

#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]

pub mod address;
pub mod auth;
mod console;
pub mod embedder;
mod errors;
mod extract;
mod file;
mod layers;
pub mod limits;
pub mod log;
pub mod oidc;
pub mod print;
mod search;
pub mod snapshots;
pub mod sources;
pub mod store;
pub mod tls;
mod webhooks;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Deserializer, Serialize};

pub use auth::AuthConfig;
pub use console::ConsoleConfig;
pub use embedder::EmbedderConfig;
pub use limits::{LeastPace, LimitsConfig};
pub use log::{LogConfig, LogFormat};
pub use search::SearchConfig;
pub use snapshots::SnapshotsConfig;
pub use sources::{SourceConfig, WriteBack};
pub use store::{StoreConfig, StoreKind};
pub use tls::TlsConfig;
pub use webhooks::{MessageKind, WebhookConfig};

use doppel_texts::Language;
use file::ConfigFile;
use layers::ConfigLayers;

/// `[server]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSection {
    /// The address to listen on. An address other than loopback requires keys.
    #[serde(deserialize_with = "listen")]
    pub listen: SocketAddr,
    /// Other origins whose web pages may call the service (`https://desk.example`).
    pub origins: Vec<String>,
    /// Time after a stop signal in milliseconds. During this time the service still accepts requests and `readyz` returns 503, so that a
    /// load balancer chooses another instance.
    pub shutdown_grace_ms: u64,
    /// Time after the grace period in milliseconds, in which running requests may finish.
    pub shutdown_drain_ms: u64,
    /// The settings for TLS.
    pub tls: TlsConfig,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            origins: Vec::new(),
            shutdown_grace_ms: 500,
            shutdown_drain_ms: 30_000,
            tls: TlsConfig::default(),
        }
    }
}

fn listen<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_listen(&text).map_err(|reason| serde::de::Error::custom(format!("listen: {reason}")))
}

/// Parses an address to listen on: `ADDRESS:PORT`, or `localhost:PORT` for 127.0.0.1.
///
/// # Errors
/// A description of the required form.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    match (host, port.parse::<u16>()) {
        (host, Ok(port)) if host.eq_ignore_ascii_case("localhost") => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        ("", Ok(port)) => Err(format!("an address and a port are needed; did you mean 127.0.0.1:{port}?")),
        (_, Ok(port)) => Err(format!(
            "names of hosts other than localhost are not looked up; give the address, such as 127.0.0.1:{port}"
        )),
        (_, Err(_)) => Err("give ADDRESS:PORT, such as 127.0.0.1:8080 or localhost:8080".into()),
    }
}

/// `[collections]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CollectionsConfig {
    /// True if a write to an unknown collection creates the collection with preset `default`.
    pub auto_create: bool,
    /// Number of collections from which writes no longer create collections. Each takes up to half a megabyte of memory, so that wrong
    /// names would fill the memory. An administrator can create more.
    pub max_auto_created: usize,
    /// True to count and reindex a collection automatically when it has 64, 256, 1,024, … records, and at the end of an import.
    pub automatic_reindex: bool,
    /// Number of the latest numbers of the change feed for which each collection keeps removals, replacements, updates and decisions. A
    /// follower may be behind by this number. A million takes at most about 100 MB of disk; the collection of an office reaches it in half
    /// a year.
    pub changes_kept: u64,
}

impl Default for CollectionsConfig {
    fn default() -> Self {
        Self { auto_create: true, max_auto_created: 200, automatic_reindex: true, changes_kept: 1_000_000 }
    }
}

/// The whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub server: ServerSection,
    pub store: StoreConfig,
    pub snapshots: SnapshotsConfig,
    pub collections: CollectionsConfig,
    pub auth: AuthConfig,
    pub limits: LimitsConfig,
    pub log: LogConfig,
    pub search: SearchConfig,
    pub console: ConsoleConfig,
    /// The databases from which collections are filled.
    pub source: Vec<SourceConfig>,
    /// The addresses to which the service reports repeats and events.
    pub webhook: Vec<WebhookConfig>,
}

/// The parts of the configuration that the command line can set.
#[derive(Clone, Debug, Default)]
pub struct ConfigFlags {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// `server.listen`.
    pub listen: Option<SocketAddr>,
    /// `store.data`.
    pub data: Option<PathBuf>,
}

/// The environment variables `DOPPEL_…` that set no configuration key: the configuration file, the API key of commands, the database
/// password of commands, the language of commands, and the variables of the tests.
const NOT_KEYS: [&str; 5] = ["CONFIG", "KEY", "DATABASE_PASSWORD", "LANG", "TEST_"];

/// The configuration with the sources of its values.
#[derive(Debug)]
pub struct LoadedConfig {
    pub config: Config,
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    layers: ConfigLayers,
}

/// Loads and checks the configuration.
///
/// # Errors
/// The unknown or wrong key, and the place at which it was set.
pub fn load(flags: &ConfigFlags) -> anyhow::Result<LoadedConfig> {
    let path = flags.file.clone().or_else(environment_file);
    let mut layers = ConfigLayers::new(path.as_deref().map(ConfigFile::read).transpose()?);
    check_environment(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()))?;
    layers.add_environment(std::env::vars_os())?;
    if let Some(listen) = flags.listen {
        layers.set_listen(listen);
    }
    if let Some(data) = &flags.data {
        layers.set_data(data)?;
    }
    let config = read(&layers).context("configuration")?;
    Ok(LoadedConfig { config, file: path, layers })
}

/// Returns the file that `DOPPEL_CONFIG` names; an empty value names none.
fn environment_file() -> Option<PathBuf> {
    std::env::var_os("DOPPEL_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Reads and checks the values of all layers.
fn read(layers: &ConfigLayers) -> anyhow::Result<Config> {
    let config = extract::extract(layers.merged());
    let config: Config = config.map_err(|mistake| anyhow::anyhow!(errors::explain(&mistake, layers)))?;
    check(&config).map_err(|said| anyhow::anyhow!(errors::explain_check(&said, layers)))?;
    Ok(config)
}

/// Returns the API key with which commands call a service, from `DOPPEL_KEY`.
pub fn client_key() -> Option<String> {
    std::env::var("DOPPEL_KEY").ok().filter(|key| !key.is_empty())
}

/// Returns the language of the command line, from `DOPPEL_LANG` or the locale.
pub fn command_language() -> Language {
    Language::of_environment(|name| std::env::var_os(name))
}

/// Returns the socket of the service manager that started this process, from `NOTIFY_SOCKET`.
pub fn notify_socket() -> Option<std::ffi::OsString> {
    std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty())
}

/// Returns the password with which commands read a database, from `DOPPEL_DATABASE_PASSWORD`.
pub fn database_password() -> Option<String> {
    std::env::var("DOPPEL_DATABASE_PASSWORD").ok().filter(|password| !password.is_empty())
}

/// Refuses a variable without a section, such as `DOPPEL_LISTEN`, which would otherwise be ignored silently.
fn check_environment(names: impl Iterator<Item = String>) -> anyhow::Result<()> {
    for name in names {
        let Some(rest) = name.strip_prefix("DOPPEL_") else { continue };
        let [file, key, password, language, tests] = NOT_KEYS;
        let known = [file, key, password, language].contains(&rest) || rest.starts_with(tests) || rest.contains("__");
        anyhow::ensure!(known, "the environment variable {name} sets nothing; keys are DOPPEL_SECTION__KEY");
    }
    Ok(())
}

fn check(config: &Config) -> Result<(), String> {
    let Config { server, store, snapshots, collections: _, auth, limits, log, search, console, source, webhook } =
        config;
    auth.check()?;
    limits.check()?;
    store.check()?;
    snapshots.check(store)?;
    log.check()?;
    search.check()?;
    server.tls.check()?;
    sources::check(source)?;
    console.check()?;
    webhooks::check(webhook)?;
    if server.origins.iter().any(|origin| !is_origin(origin)) {
        return Err(
            "server.origins: an origin is http:// or https://, a host and perhaps a port, nothing behind it".into()
        );
    }
    check_open_address(server.listen, auth)
}

/// Refuses an address that other machines can reach if the configuration has no keys. Keys that are created while the service runs do not
/// count: creating them requires a first key, and a service that has lost its store must not be open to everyone.
///
/// # Errors
/// A description with the remedy.
pub fn check_open_address(listen: SocketAddr, auth: &AuthConfig) -> Result<(), String> {
    if !listen.ip().is_loopback() && auth.keys.is_empty() {
        return Err(format!(
            "server.listen {listen} can be reached from other machines, and no keys are configured, so that anyone could read and delete \
             every record; configure keys (doppel config new-key makes one) or listen on 127.0.0.1"
        ));
    }
    Ok(())
}

/// True if a text is an origin in the form that browsers send.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty() && host.chars().all(|c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> anyhow::Result<Config> {
        read(&ConfigLayers::new(Some(ConfigFile::parse("doppel.toml".as_ref(), text.to_owned())?)))
    }

    #[test]
    fn the_example_file_contains_the_defaults() {
        let text = include_str!("../../../config/doppel.example.toml");
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
    fn origins_must_have_the_form_that_browsers_send() {
        assert!(toml("[server]\norigins = [\"https://desk.example\", \"http://10.0.0.1:8081\"]").is_ok());
        for wrong in ["desk.example", "https://desk.example/", "https://", "file://x", "https://a@b", "*"] {
            let error = toml(&format!("[server]\norigins = [\"{wrong}\"]")).unwrap_err().to_string();
            assert!(error.contains("server.origins"), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_error_for_a_mistake_in_a_file_names_the_line_the_section_and_a_suggestion() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doppel.toml");
        for (text, place, meant) in [
            (
                "[server]\n# where\nlisen = \"127.0.0.1:1\"\n",
                ", line 3, [server]: ",
                "no key \"lisen\" here; did you mean \"listen\"?",
            ),
            (
                "[log]\nlevel = \"info\"\n[lmits]\nmax_waiting = 1\n",
                ", line 3: ",
                "no section [lmits]; did you mean [limits]?",
            ),
            ("listen = \"127.0.0.1:1\"\n", ", line 1: ", "\"listen\" belongs to [server]"),
            ("lsten = 1\n", ", line 1: ", "did you mean \"listen\" in [server]?"),
            (
                "[[auth.keys]]\nname = \"a\"\nsha256 = \"\"\nscopes = [\"reed\"]\n",
                ", line 4, [auth]: ",
                "scopes is \"read\" or \"write\" or \"admin\"; did you mean \"read\"?",
            ),
            ("[limits]\nmax_waiting = \"secret\"\n", ", line 2, [limits]: ", "max_waiting must be a whole number"),
            ("[limits]\n\nmax_in_flight = 0\n", ", line 3, [limits]: ", "limits.max_in_flight is 0"),
            ("[log]\nlevel = \"inof\"\n", ", line 2, [log]: ", "did you mean \"info\"?"),
            ("[store]\nkind = \"mongo\"\n", ", line 2, [store]: ", "\"embedded\" or \"mongodb\""),
            ("[server]\nlisten = \"localhost\"\n", ", line 2, [server]: ", "localhost:8080"),
            ("[server]\nlisten = 8080\n", ", line 2, [server]: ", "listen must be a text in quotes"),
            (
                "[[auth.keys]]\nname = \"a\"\nsha256 = \"secret\"\nscopes = []\n",
                ", line 3, [auth]: ",
                "auth.keys[0].sha256 must be 64",
            ),
            ("[store]\nuri = secret://x\n", ", line 2, is not TOML", ""),
        ] {
            std::fs::write(&path, text).unwrap();
            let error =
                format!("{:#}", load(&ConfigFlags { file: Some(path.clone()), ..ConfigFlags::default() }).unwrap_err());
            assert!(error.contains(&format!("{}{place}", path.display())) && error.contains(meant), "{text}: {error}");
            assert!(error.starts_with("configuration: ") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_address_needs_a_port_and_localhost_means_this_machine() {
        assert_eq!(parse_listen("localhost:8081"), Ok(SocketAddr::from(([127, 0, 0, 1], 8081))));
        assert_eq!(parse_listen("[::1]:80").map(|address| address.port()), Ok(80));
        assert!(parse_listen(":8080").unwrap_err().contains("127.0.0.1:8080"));
        assert!(parse_listen("8080").unwrap_err().contains("127.0.0.1:8080"));
        assert!(parse_listen("example.org:80").unwrap_err().contains("other than localhost"));
        assert!(parse_listen("localhost").is_err());
        assert_eq!(toml("[server]\nlisten = \"localhost:8081\"").unwrap().server.listen.to_string(), "127.0.0.1:8081");
    }

    #[test]
    fn an_open_address_without_keys_is_refused_with_the_remedy() {
        let error = toml("[server]\nlisten = \"0.0.0.0:8080\"").unwrap_err().to_string();
        assert!(error.contains("doppel config new-key") && error.contains("127.0.0.1"), "{error}");
        let key = format!("[[auth.keys]]\nname = \"a\"\nsha256 = \"{}\"\nscopes = [\"read\"]", "0".repeat(64));
        assert!(toml(&format!("[server]\nlisten = \"0.0.0.0:8080\"\n{key}")).is_ok());
    }

    #[test]
    fn a_variable_without_a_section_is_refused() {
        assert!(check_variable("DOPPEL_LISTEN").unwrap_err().to_string().contains("DOPPEL_LISTEN"));
        for fine in ["DOPPEL_SERVER__LISTEN", "DOPPEL_CONFIG", "DOPPEL_KEY", "DOPPEL_TEST_MONGODB_URI", "PATH"] {
            assert!(check_variable(fine).is_ok(), "{fine}");
        }
    }

    fn check_variable(name: &str) -> Result<(), anyhow::Error> {
        check_environment([name.to_owned()].into_iter())
    }

    #[test]
    fn a_limit_of_zero_is_refused_by_name() {
        let error = toml("[limits]\nmax_body_bytes = 0").unwrap_err().to_string();
        assert!(error.contains("limits.max_body_bytes"), "{error}");
    }
}
