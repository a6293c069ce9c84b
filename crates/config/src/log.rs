//! `[log]`: the content and the format of the log.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::errors::meant;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    pub format: LogFormat,
    /// A level, or filters such as `info,doppel_store=debug`. Lines of the storage engine below warnings do not help an operator.
    pub level: String,
    /// True to log a line for every request.
    pub requests: bool,
    /// The URL of an OpenTelemetry collector that accepts OTLP over HTTP, to which spans of requests are sent. If empty, no spans are sent.
    /// Only in builds with the feature `otlp`.
    pub otlp_endpoint: String,
    /// The share of requests whose spans are sent, 0 to 1, if the `traceparent` of the caller does not decide it.
    pub otlp_share: f64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            level: "info,fjall=warn,lsm_tree=warn".into(),
            requests: true,
            otlp_endpoint: String::new(),
            otlp_share: 1.0,
        }
    }
}

impl LogConfig {
    /// Returns the first mistake. The filter library accepts any word as the name of a module, so that `inof` would silence the log.
    pub(super) fn check(&self) -> Result<(), String> {
        for part in self.level.split(',').map(str::trim) {
            // Filters by span and field may contain commas; the parser below handles them.
            if self.level.contains(['[', '{']) {
                break;
            }
            let (module, level) =
                part.split_once('=').map_or(("", part), |(module, level)| (module.trim(), level.trim()));
            let is_module = module.is_empty() && (part.contains("::") || is_crate_of_ours(part));
            if !is_module && (level.is_empty() || level.parse::<LevelFilter>().is_err()) {
                let meant = meant(level, &LEVELS).map(|meant| format!(", did you mean {meant:?}?")).unwrap_or_default();
                let levels = LEVELS.join(", ");
                return Err(format!(
                    "log.level: {level:?} is no level{meant}; give {levels}, or MODULE=LEVEL for a module"
                ));
            }
        }
        self.level.parse::<EnvFilter>().map(drop).map_err(|error| format!("log.level: {error}"))?;
        self.check_otlp()
    }

    fn check_otlp(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.otlp_share) {
            return Err("log.otlp_share: give a share from 0 to 1".into());
        }
        if self.otlp_endpoint.is_empty() {
            return Ok(());
        }
        if !cfg!(feature = "otlp") {
            return Err(
                "log.otlp_endpoint: this program was built without OTLP; leave it empty, or build with --features otlp"
                    .into(),
            );
        }
        match self.otlp_endpoint.parse::<url::Url>() {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(()),
            _ => Err("log.otlp_endpoint: give the URL of a collector, such as http://127.0.0.1:4318".into()),
        }
    }
}

/// True for `doppel` and names that begin with `doppel_`.
fn is_crate_of_ours(name: &str) -> bool {
    let rest = name.strip_prefix("doppel");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused_with_a_suggestion() {
        for level in [
            "info",
            "WARN",
            "info,doppel_store_embedded=debug",
            "doppel_engine",
            "doppel_http",
            "warn,[request{key=a}]=trace",
            "off",
        ] {
            assert_eq!(check_level(level), Ok(()), "{level}");
        }
        assert!(LogConfig::default().check().is_ok());
        for (level, said) in [
            ("inof", "did you mean \"info\""),
            ("verbose", "off, error"),
            ("", "no level"),
            ("info,doppel=dbug", "\"debug\""),
            ("info,fjall", "MODULE=LEVEL"),
            ("info,,", "no level"),
        ] {
            let found = check_level(level).unwrap_err();
            assert!(found.starts_with("log.level: ") && found.contains(said), "{level}: {found}");
        }
    }

    fn check_level(level: &str) -> Result<(), String> {
        LogConfig { level: level.into(), ..LogConfig::default() }.check()
    }
}
