//! Tests that need a failpoint, which affects the whole process.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]
#![cfg(feature = "failpoints")]

#[path = "../support/faults.rs"]
mod faults;

mod hang_up;
mod stop;
