//! The name, the version and the commit of the program, for callers.

use std::sync::OnceLock;

/// The name of the program.
pub const NAME: &str = "doppel";
/// The version of all packages of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

static COMMIT: OnceLock<&str> = OnceLock::new();

/// Sets the commit from which the program is built. Only the package of the program knows the commit, so that no other package is compiled
/// again for a new commit.
pub fn set_commit(commit: &'static str) {
    // A second call in one process has the same commit.
    _ = COMMIT.set(commit);
}

/// Returns the commit from which the program is built.
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or("unknown")
}
