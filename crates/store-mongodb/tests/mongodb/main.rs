//! The promises of the MongoDB store, against real servers.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../../../../tests/support/cluster.rs"]
mod cluster_of_two;
#[path = "../../../../tests/support/mongod.rs"]
mod mongod;
#[path = "../../../../tests/support/pair.rs"]
mod pair;

mod cluster;
mod failures;
mod generations;
mod lookups;
mod protocol;
mod store;
mod together;
