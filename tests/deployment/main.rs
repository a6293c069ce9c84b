//! Tests the files that deploy the service, and its dependencies.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

mod dependencies;
mod files;
mod limits;
mod monitoring;
mod release;

#[path = "../support/mod.rs"]
mod support;
