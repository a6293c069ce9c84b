//! Chinese help of all commands.

use clap::builder::StyledStr;
use clap::{Arg, Command};

use crate::{Language, in_language, language};

/// Returns the command with its help in the language of the command line.
pub fn in_language_of_process(command: Command) -> Command {
    match language::of_process() {
        Language::English => command,
        Language::Chinese => in_chinese(command),
    }
}

/// Returns the command and all its subcommands with Chinese help.
pub fn in_chinese(mut command: Command) -> Command {
    command.build();
    translated(command)
}

/// Returns the layout of a help page. It is the usual layout with Chinese headings.
fn layout(command: &Command) -> String {
    let mut layout = "{before-help}{about-with-newline}\n用法：{usage}".to_owned();
    let parts = [
        (command.has_subcommands(), "\n\n命令：\n{subcommands}"),
        (command.get_positionals().next().is_some(), "\n\n参数：\n{positionals}"),
        (true, "\n\n选项：\n{options}"),
    ];
    layout.extend(parts.into_iter().filter_map(|(is_there, part)| is_there.then_some(part)));
    layout + "{after-help}"
}

fn translated(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().replace("[OPTIONS]", "[选项]").replace("[COMMAND]", "[命令]");
    let usage = usage.replace("<COMMAND>", "<命令>");
    type TextSetter = fn(Command, StyledStr) -> Command;
    let texts: [(Option<&StyledStr>, TextSetter); 6] = [
        (command.get_about(), |command, text| command.about(text)),
        (command.get_long_about(), |command, text| command.long_about(text)),
        (command.get_before_help(), |command, text| command.before_help(text)),
        (command.get_before_long_help(), |command, text| command.before_long_help(text)),
        (command.get_after_help(), |command, text| command.after_help(text)),
        (command.get_after_long_help(), |command, text| command.after_long_help(text)),
    ];
    let found: Vec<(String, TextSetter)> =
        texts.into_iter().filter_map(|(text, set)| Some((of(text?)?, set))).collect();
    for (text, set) in found {
        command = set(command, text.into());
    }
    let layout = layout(&command);
    command.help_template(layout).override_usage(usage).mut_args(translated_argument).mut_subcommands(translated)
}

/// Returns the Chinese translation of a help text, or of the paragraphs that the tables contain.
fn of(text: &StyledStr) -> Option<String> {
    let text = text.to_string();
    let paragraphs = text.split("\n\n").map(|paragraph| in_language(Language::Chinese, paragraph));
    Some(paragraphs.collect::<Vec<_>>().join("\n\n")).filter(|translated| *translated != text)
}

fn translated_argument(argument: Arg) -> Arg {
    let short = argument.get_help().map(|text| of(text).unwrap_or_else(|| text.to_string())).unwrap_or_default();
    let long = argument.get_long_help().map(|text| of(text).unwrap_or_else(|| text.to_string()));
    let values = ArgumentValues::of(&argument);
    let short_text = [short.clone(), values.in_a_line()].into_iter().filter(|part| !part.is_empty());
    let long_text = [long.unwrap_or(short), values.in_lines()].into_iter().filter(|part| !part.is_empty());
    let (short_text, long_text) =
        (short_text.collect::<Vec<_>>().join(" "), long_text.collect::<Vec<_>>().join("\n\n"));
    argument.hide_default_value(true).hide_possible_values(true).help(short_text).long_help(long_text)
}

/// The default and the possible values of an argument, which are a part of its help.
struct ArgumentValues {
    default: String,
    /// The names with their Chinese help.
    possible: Vec<(String, String)>,
}

impl ArgumentValues {
    fn of(argument: &Arg) -> Self {
        let shows_default = !argument.is_hide_default_value_set() && argument.get_action().takes_values();
        let default = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>();
        let default = if shows_default { default.join(" ") } else { String::new() };
        let shown = !argument.is_hide_possible_values_set() && argument.get_action().takes_values();
        let values = argument.get_possible_values().into_iter().filter(|value| shown && !value.is_hide_set());
        let possible = values.map(|value| {
            let help = value.get_help().map(|text| of(text).unwrap_or_else(|| text.to_string())).unwrap_or_default();
            (value.get_name().to_owned(), help)
        });
        Self { default, possible: possible.collect() }
    }

    fn in_a_line(&self) -> String {
        let mut parts = Vec::new();
        if !self.default.is_empty() {
            parts.push(format!("[默认值：{}]", self.default));
        }
        if !self.possible.is_empty() {
            let names: Vec<_> = self.possible.iter().map(|(name, _)| name.as_str()).collect();
            parts.push(format!("[可选值：{}]", names.join(", ")));
        }
        parts.join(" ")
    }

    fn in_lines(&self) -> String {
        if self.possible.iter().all(|(_, help)| help.is_empty()) {
            return self.in_a_line();
        }
        let listed = self.possible.iter().map(|(name, help)| match help.as_str() {
            "" => format!("- {name}"),
            help => format!("- {name}：{help}"),
        });
        let mut text = format!("可选值：\n{}", listed.collect::<Vec<_>>().join("\n"));
        if !self.default.is_empty() {
            text += &format!("\n\n[默认值：{}]", self.default);
        }
        text
    }
}

/// Returns every text of the help of the command and its subcommands, each once. The test uses it to check that all texts have a
/// translation.
#[cfg(feature = "testkit")]
pub fn texts(command: &mut Command) -> Vec<String> {
    command.build();
    let mut found = std::collections::BTreeSet::new();
    collect(command, &mut found);
    found.into_iter().collect()
}

#[cfg(feature = "testkit")]
fn collect(command: &Command, found: &mut std::collections::BTreeSet<String>) {
    let own = [
        command.get_about(),
        command.get_long_about(),
        command.get_before_help(),
        command.get_before_long_help(),
        command.get_after_help(),
        command.get_after_long_help(),
    ];
    found.extend(own.into_iter().flatten().map(ToString::to_string));
    for argument in command.get_arguments() {
        found.extend([argument.get_help(), argument.get_long_help()].into_iter().flatten().map(ToString::to_string));
        found.extend(argument.get_help_heading().map(str::to_owned));
        for value in argument.get_possible_values() {
            found.extend(value.get_help().map(ToString::to_string));
        }
    }
    command.get_subcommands().for_each(|subcommand| collect(subcommand, found));
}
