//! Passes the commit of the source code to the program: the value of `GIT_COMMIT`, otherwise the answer of git, otherwise `unknown`.

#![allow(clippy::disallowed_methods, reason = "a build script has no other place to ask")]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=GIT_COMMIT");
    // A new commit or another branch changes this file. Without git there is no file to watch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let given = std::env::var("GIT_COMMIT").ok().filter(|commit| is_name(commit));
    let commit =
        given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]).filter(|commit| is_ours() && is_name(commit)));
    println!("cargo:rustc-env=BUILT_FROM_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// True if the repository is the repository of doppel, and not another repository in which the sources were unpacked.
fn is_ours() -> bool {
    let real = |path: String| Path::new(&path).canonicalize().ok();
    let top = git(&["rev-parse", "--show-toplevel"]).and_then(real);
    top.is_some() && top == std::env::var("CARGO_MANIFEST_DIR").ok().and_then(real)
}

/// Returns the output of git, if git is installed and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// True for one short word.
fn is_name(commit: &str) -> bool {
    (1..=64).contains(&commit.len())
        && commit.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
