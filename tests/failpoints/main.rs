//! What needs a failpoint, and so a process of its own.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]
#![cfg(feature = "failpoints")]

#[path = "../support/faults.rs"]
mod faults;

mod hang_up;
mod stop;
