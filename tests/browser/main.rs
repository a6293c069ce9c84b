//! Tests the pages in a real browser: Chromium of Debian, which `scripts/get-chromium` installs if it is missing.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/mod.rs"]
mod support;

mod attacks;
mod driver;
mod foreign;
mod keyboard;
mod letters;
mod people;
mod plain;
mod print;
mod reading;
mod tab;
mod walk;
