//! Tests of the embedded store: conformance, order, damage, small volumes, snapshots.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../../../../tests/support/faults.rs"]
mod faults;

mod conformance;
mod damage;
mod order;
mod small_volume;
mod snapshots;
