//! The shape of the house: which module may know which, held by reading the source.
//!
//! A module's layer decides what it may name; everything points down. The rules are written out here rather than derived,
//! so that breaking one takes a decision and not an accident.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Top-level modules from the ground up. A module may use those of lower layers, and itself.
const LAYERS: &[&[&str]] = &[
    &["violation"],
    &["record", "collection"],
    &["verdict"],
    &["text"],
    &["schemes"],
    &["index", "similarity"],
    &["store"],
    &["engine"],
    &["sample", "sources", "config", "clock", "shutdown"],
    &["observe"],
    &["eval", "tasks"],
    &["http", "console"],
    &["cli"],
];

/// Crates that only these places may name.
const KEPT_TO: &[(&str, &[&str])] = &[
    ("mongodb", &["store/mongo"]),
    ("bson", &["store/mongo"]),
    ("fjall", &["store/embedded"]),
    ("axum", &["http", "console"]),
    ("axum_server", &["http"]),
    ("sqlx", &["sources/sql", "eval/baselines"]),
    ("jieba_rs", &["text"]),
    ("cityhasher", &["schemes/hash"]),
    ("murmur3", &["schemes/hash"]),
    ("md5", &["schemes/hash"]),
];

/// The pure core: no I/O, no async, no clock, no HTTP.
const PURE: &[&str] = &["text", "schemes", "similarity", "index", "record", "collection", "verdict", "violation"];
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::time::SystemTime",
    "std::time::Instant",
    "tokio",
    "async fn",
    "Timestamp::now",
    "Zoned::now",
    "now_v7",
];

struct Source {
    /// Path below `src`, with `/`.
    path: String,
    /// The code without comments and without the tests at its end.
    code: String,
}

impl Source {
    fn module(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    fn is_in(&self, place: &str) -> bool {
        self.path == format!("{place}.rs") || self.path.starts_with(&format!("{place}/"))
    }
}

fn sources() -> Vec<Source> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("src can be read") {
            let path = entry.expect("src can be read").path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("a source file can be read");
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let path = file.strip_prefix(&root).expect("below src").to_string_lossy().replace('\\', "/");
        Source { path, code }
    };
    let sources: Vec<Source> = files.into_iter().map(read).collect();
    assert!(sources.len() > 20, "found only {} source files", sources.len());
    sources
}

/// Names after `crate::` (also inside `crate::{a, b}`).
fn used_modules(code: &str) -> Vec<String> {
    let mut used = Vec::new();
    for rest in code.split("crate::").skip(1) {
        let group = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        let names: Vec<&str> = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
        for name in names {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            used.push(name);
        }
    }
    used
}

/// Whether `code` names `krate` as a crate: `krate::` at the start of a path.
fn names_crate(code: &str, krate: &str) -> bool {
    code.match_indices(&format!("{krate}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn arrows_point_down_only() {
    let layer: BTreeMap<&str, usize> =
        LAYERS.iter().enumerate().flat_map(|(level, names)| names.iter().map(move |name| (*name, level))).collect();
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !matches!(source.path.as_str(), "main.rs" | "lib.rs")) {
        let own = source.module();
        let Some(&own_layer) = layer.get(own) else {
            wrong.push(format!("{}: module {own} has no layer; give it one in tests/house.rs", source.path));
            continue;
        };
        for used in used_modules(&source.code) {
            let same_module = used == own || used.is_empty();
            if let Some(&used_layer) = layer.get(used.as_str())
                && !same_module
                && used_layer >= own_layer
            {
                wrong.push(format!("{}: {own} must not use {used}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn libraries_stay_behind_their_doors() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (krate, places) in KEPT_TO {
            let allowed = places.iter().any(|place| source.is_in(place));
            if !allowed && names_crate(&source.code, krate) {
                wrong.push(format!("{}: only {} may name {krate}", source.path, places.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_core_is_pure() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| PURE.contains(&source.module())) {
        for impure in IMPURE.iter().filter(|impure| source.code.contains(**impure)) {
            wrong.push(format!("{}: the core does no {impure}", source.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_config_reads_the_environment_and_only_clock_the_time() {
    let mut wrong = Vec::new();
    for source in sources() {
        let environment = ["env::var", "env::vars", "Env::prefixed"].iter().any(|name| source.code.contains(name));
        if environment && source.module() != "config" {
            wrong.push(format!("{}: only config reads the environment", source.path));
        }
        let time = ["SystemTime::now", "Timestamp::now", "Zoned::now", "now_v7"];
        if time.iter().any(|name| source.code.contains(name)) && source.module() != "clock" {
            wrong.push(format!("{}: only clock reads the time", source.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_write_files_through_one_door() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.module() == "cli") {
        // What is measured is in a folder of its own.
        let allowed = source.is_in("cli/output") || source.is_in("cli/bench");
        let writes =
            ["File::create", "fs::write", "File::options", "OpenOptions", "fs::rename", "fs::copy", "persist("];
        for name in writes.iter().filter(|name| !allowed && source.code.contains(**name)) {
            wrong.push(format!("{}: {name}; cli/output keeps inputs and earlier files from harm", source.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_engine_knows_no_status_code_and_http_no_store() {
    for source in sources() {
        let core = ["engine", "store"].contains(&source.module());
        assert!(!(core && source.code.contains("StatusCode")), "{} knows a status code", source.path);
    }
}

#[test]
fn unsafe_code_has_one_home() {
    let homes: Vec<String> =
        sources().into_iter().filter(|s| s.code.contains("allow(unsafe_code")).map(|s| s.path).collect();
    assert!(homes.len() <= 1, "unsafe code is allowed in {homes:?}; only the vectorised bit counting may have it");
}
