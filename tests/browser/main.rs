//! The pages in a real browser: Debian's Chromium, installed by `scripts/get-chromium` where it is missing.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod driver;
mod foreign;
mod keyboard;
mod letters;
mod plain;
mod reading;
mod tab;
mod walk;
