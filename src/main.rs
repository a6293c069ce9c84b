//! The `doppel` program: parses the command line and hands over to [`doppel::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // Failpoints named in FAILPOINTS hold for the whole run.
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
    doppel::cli::main()
}
