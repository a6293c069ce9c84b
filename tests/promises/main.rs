//! Tests the promises of the service from outside: crashes, families of records, offices at work, reindexing, restarts.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/home.rs"]
mod home;
#[path = "../support/mongod.rs"]
mod mongod;
#[path = "../support/receiver.rs"]
mod receiver;
#[path = "../support/mod.rs"]
mod support;

mod campaign;
mod crash;
mod events;
mod families;
mod forms;
mod interruptions;
mod kept;
mod learning;
mod model;
mod mongodb;
mod mutations;
mod office;
mod one_answer;
mod places;
mod reindex;
mod restart;
mod snapshots;
mod templates;
mod webhooks;
