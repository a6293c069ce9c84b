//! Tests the commands of `doppel-lab` in the way in which a developer runs them.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../../../../tests/support/mariadb.rs"]
mod mariadb;
#[path = "../../../../tests/support/mongod.rs"]
mod mongod;

mod bench;
mod experiment;
mod experiment_servers;
