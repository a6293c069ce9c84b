//! The `doppel-lab` program, which runs [`doppel_lab::main`].

use std::process::ExitCode;

/// The allocator of `doppel`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    doppel_lab::main()
}
