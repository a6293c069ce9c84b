//! The name, the version and the commit of the program, for callers.

use std::sync::OnceLock;

/// The name of the program.
pub const NAME: &str = "doppel";
/// The version of all packages of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

static COMMIT: OnceLock<&str> = OnceLock::new();

/// Sets the commit that the program is built from. Only its package knows the commit, so that a new commit compiles no other package again.
pub fn set_commit(commit: &'static str) {
    // A second call in one process has the same commit.
    _ = COMMIT.set(commit);
}

/// Returns the commit that the program is built from.
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or("unknown")
}
