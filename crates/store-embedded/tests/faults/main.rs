//! The embedded store under faults that failpoints make.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]
#![cfg(feature = "failpoints")]

#[path = "../../../../tests/support/faults.rs"]
mod faults;

mod commits;
mod generations;
mod snapshots;
mod waits;
