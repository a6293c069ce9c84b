//! `doppel completions`: prints the completion of commands and options for a shell.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use doppel_texts::help;

/// Options of `doppel completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Name of the shell. bash: doppel completions bash > ~/.local/share/bash-completion/completions/doppel
    shell: Shell,
}

/// Prints a script for the shell.
///
/// # Errors
/// Standard output is closed.
pub fn run(CompletionsArgs { shell }: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let mut command = help::in_language_of_process(super::CliArguments::command());
    clap_complete::generate(shell, &mut command, "doppel", &mut script);
    super::answer(&String::from_utf8(script)?)
}
