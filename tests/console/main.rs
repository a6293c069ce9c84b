//! Tests the pages of the desk with requests like those of a browser.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod events;
mod files;
mod forms;
mod groups;
mod hostile_files;
mod inbox;
mod oidc;
mod pages;
mod people;
mod provider;
mod report;
mod sign_in;
mod start;
mod tasks;
mod work;
