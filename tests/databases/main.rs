//! Tests databases as sources, with real servers and with the real program that reads them.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test makes its own time, files and settings, and says where it killed"
)]

#[path = "../support/mariadb.rs"]
mod mariadb;
#[path = "../support/mongod.rs"]
mod mongod;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/mod.rs"]
mod support;

mod follow;
mod import;
mod office;
mod outage;
mod tls;
mod trouble;
