//! The `doppel` program, which runs [`doppel::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // The failpoints in the variable FAILPOINTS are active for the whole run.
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
    doppel::cli::main()
}
