//! The desk, looked at as a browser does.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod files;
mod forms;
mod groups;
mod hostile_files;
mod pages;
mod sign_in;
mod tasks;
mod work;
