//! Tests of the embedded store with faults from failpoints.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]
#![cfg(feature = "failpoints")]

#[path = "../../../../tests/support/faults.rs"]
mod faults;

mod commits;
mod generations;
mod snapshots;
mod waits;
