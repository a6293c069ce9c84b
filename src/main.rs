//! The `doppel` program: parses the command line and hands over to [`doppel::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    doppel::cli::main()
}
