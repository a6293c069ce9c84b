//! Tests the commands in the way in which a user runs them.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/mongod.rs"]
mod mongod;
#[path = "../support/mod.rs"]
mod support;

mod checked_files;
mod completions;
mod config;
mod dedup;
mod doctor;
mod eval;
mod events;
mod export;
mod files;
mod hostile_files;
mod import;
mod import_https;
mod language;
mod office_files;
mod office_registers;
mod office_same_rows;
mod sample;
mod snapshot;
mod unfinished;

/// Returns a command for `doppel` that every signal can stop. Under `nohup`, `doppel` would inherit an ignored signal.
fn stoppable() -> std::process::Command {
    let mut command = std::process::Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_doppel")]);
    command
}

/// Returns a text in UTF-16 with a byte order mark.
fn utf16(text: &str) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}
