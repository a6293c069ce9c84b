//! Every crate we build on has a licence that `deny.toml` allows, comes from the registry, and what changes a fingerprint
//! is pinned exactly.

use std::process::Command;

use serde_json::Value;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn allowed() -> Vec<String> {
    let deny: toml::Table = include_str!("../../deny.toml").parse().expect("deny.toml is TOML");
    let list = deny["licenses"]["allow"].as_array().expect("licenses.allow is a list");
    list.iter().map(|licence| licence.as_str().expect("a licence is a string").to_owned()).collect()
}

/// Whether an SPDX expression of ANDs, ORs and parentheses can be satisfied with `allowed`. AND binds tighter than OR.
fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let (value, rest) = either(&tokens, allowed);
    assert!(rest.is_empty(), "cannot read the licence expression {expression:?}");
    value
}

fn either<'a>(tokens: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    let (mut value, mut rest) = both(tokens, allowed);
    while let ["OR", after @ ..] = rest {
        let (next, after) = both(after, allowed);
        (value, rest) = (value | next, after);
    }
    (value, rest)
}

fn both<'a>(tokens: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    let (mut value, mut rest) = one(tokens, allowed);
    while let ["AND", after @ ..] = rest {
        let (next, after) = one(after, allowed);
        (value, rest) = (value & next, after);
    }
    (value, rest)
}

fn one<'a>(tokens: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    match tokens {
        ["(", inner @ ..] => {
            let (value, rest) = either(inner, allowed);
            (value, rest.strip_prefix(&[")"]).expect("a closing parenthesis"))
        }
        [licence, "WITH", exception, rest @ ..] => {
            (allowed.contains(&format!("{licence} WITH {exception}")) || allowed.contains(&(*licence).to_owned()), rest)
        }
        [licence, rest @ ..] => (allowed.contains(&(*licence).to_owned()), rest),
        [] => panic!("the licence expression ends too early"),
    }
}

#[test]
fn every_licence_is_one_we_allow() {
    let (metadata, allowed) = (metadata(), allowed());
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() > 100, "only {} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !satisfied(package["license"].as_str().unwrap_or("none"), &allowed))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licences outside deny.toml:\n{}", refused.join("\n"));
}

#[test]
fn every_crate_comes_from_the_registry() {
    for package in metadata()["packages"].as_array().expect("a list of packages") {
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source.starts_with("registry+")), "{}: {source:?}", package["name"]);
    }
}

#[test]
fn what_changes_a_fingerprint_is_pinned() {
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("Cargo.toml is TOML");
    for name in ["jieba-rs", "unicode-normalization", "fast2s", "html5gum", "cityhasher", "murmur3"] {
        let dependency = &manifest["dependencies"][name];
        let version = dependency.as_str().or_else(|| dependency["version"].as_str()).expect("a version");
        assert!(version.starts_with('='), "{name} {version} is not pinned with =");
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed = ["MIT".to_owned(), "Unicode-3.0".to_owned()];
    assert!(satisfied("(MIT OR Apache-2.0) AND Unicode-3.0", &allowed));
    assert!(satisfied("GPL-3.0 OR MIT AND Unicode-3.0", &allowed));
    assert!(!satisfied("MIT AND GPL-3.0", &allowed));
    assert!(!satisfied("GPL-3.0", &allowed));
}
