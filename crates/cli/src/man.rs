//! `doppel man`: prints the pages of the manual, which are made from the descriptions of commands and options.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use doppel_texts::help;

/// Options of `doppel man`.
#[derive(Clone, Debug, clap::Args)]
pub struct ManArgs {
    /// List the names of all pages, one a line
    #[arg(long, conflicts_with = "page")]
    list: bool,
    /// Name of the page [default: doppel]
    #[arg(value_name = "PAGE")]
    page: Option<String>,
}

/// Prints a page (`doppel man doppel-import | man -l -`), or their names.
///
/// # Errors
/// The page does not exist, or standard output is closed.
pub fn run(ManArgs { list, page }: ManArgs) -> anyhow::Result<ExitCode> {
    // `doppel help import` does the same as `doppel import --help` and needs no page.
    let mut root = help::in_language_of_process(super::CliArguments::command().disable_help_subcommand(true));
    root.build();
    let mut pages = Vec::new();
    collect(&root, &mut pages);
    if list {
        let names: String = pages.iter().map(|(name, _)| format!("{name}\n")).collect();
        return super::answer(&names);
    }
    let wanted = page.as_deref().unwrap_or("doppel");
    let Some((_, command)) = pages.into_iter().find(|(name, _)| name == wanted) else {
        return Err(super::usage(format!("there is no page {wanted:?}; doppel man --list names them")));
    };
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    super::answer(&String::from_utf8(text)?)
}

/// Collects the command and all commands below it, with the names of their pages.
fn collect<'a>(command: &'a Command, pages: &mut Vec<(String, &'a Command)>) {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push((name.to_owned(), command));
    command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| collect(below, pages));
}
