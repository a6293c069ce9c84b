//! The configuration file, and the lines of its keys.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use toml::Table;

/// Largest size of the configuration file in bytes. A file with thousands of API keys has this size.
const MOST_BYTES: u64 = 1 << 20;

/// The configuration file.
#[derive(Clone, Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    text: String,
    pub(super) values: Table,
}

impl ConfigFile {
    /// Reads the file.
    ///
    /// # Errors
    /// The file does not exist, or is not TOML. The error names the line.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let found = path.metadata();
        let found = found.map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow::anyhow!("the configuration file {shown} does not exist"),
            _ => anyhow::anyhow!("the configuration file {shown} cannot be read: {error}"),
        })?;
        anyhow::ensure!(!found.is_dir(), "the configuration {shown} is a directory; give the path of the file in it");
        anyhow::ensure!(found.is_file(), "the configuration {shown} is no file; give the path of a file");
        anyhow::ensure!(
            found.len() <= MOST_BYTES,
            "the configuration {shown} has more than {} KiB; give the path of a configuration file (TOML)",
            MOST_BYTES >> 10
        );
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(path, text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is not TOML. The error names the line.
    pub(super) fn parse(path: &Path, text: String) -> anyhow::Result<Self> {
        match toml::from_str(&text) {
            Ok(values) => Ok(Self { path: path.to_owned(), text, values }),
            Err(error) => {
                let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
                let line = before.matches('\n').count() + 1;
                let first = error.message().lines().next().unwrap_or_default();
                anyhow::bail!("configuration: {}, line {line}, is not TOML: {first}", path.display())
            }
        }
    }

    /// Returns the line, from 1, of the value or section at `path`, or of the innermost part of the path that the file contains.
    pub(super) fn line_of(&self, path: &[String]) -> Option<usize> {
        let mut header: Vec<String> = Vec::new();
        let mut tables = 0;
        let mut within = None;
        for (number, line) in self.text.lines().zip(1..).map(|(line, number)| (number, line.trim())) {
            let mut here = header.clone();
            if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.split("]]").next()) {
                let parts = parts(name);
                tables = if header.starts_with(&parts) { tables + 1 } else { 0 };
                header = [parts, vec![tables.to_string()]].concat();
                here = header.clone();
            } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                header = parts(name);
                here = header.clone();
            } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
                here.extend(parts(key));
            } else {
                continue;
            }
            if here == path {
                return Some(number);
            }
            if path.starts_with(&here) {
                within = Some(number);
            }
        }
        within
    }
}

/// Splits a dotted key into its parts.
pub(super) fn parts(key: &str) -> Vec<String> {
    key.split('.').map(|part| part.trim().trim_matches(['"', '\'']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_sections_lists_of_them_and_dotted_keys() {
        let text = "# [server]\nlog.level = \"info\"\n[server]\n listen = \"a=b\"\n[[auth.keys]]\nname = \"a\"\n[[auth.keys]]\n\
                    name = \"b\"\n[limits]\nmax_waiting = 1\n";
        let file = ConfigFile::parse(Path::new("x"), text.to_owned()).expect("TOML");
        let found =
            ["log.level", "server", "server.listen", "auth.keys.1.name", "auth.keys.1.sha256", "limits.max_waiting"];
        assert_eq!(found.map(|key| line_of_key(key, &file)), [Some(2), Some(3), Some(4), Some(8), Some(7), Some(10)]);
        assert_eq!(line_of_key("store.data", &file), None);
    }

    fn line_of_key(key: &str, file: &ConfigFile) -> Option<usize> {
        file.line_of(&parts(key))
    }
}
