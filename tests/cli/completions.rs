//! The completions for shells and the manual pages name every command.

use std::collections::BTreeSet;

use crate::support::run;

/// Returns the standard output of `doppel`.
#[track_caller]
fn said(arguments: &[&str]) -> String {
    let output = run(arguments, &[]);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the commands that `doppel --help` lists.
fn commands() -> BTreeSet<String> {
    let help = said(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A long description continues on the next line, which begins with more spaces.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let names: BTreeSet<String> = names.filter(|name| *name != "help").map(ToOwned::to_owned).collect();
    assert!(names.len() >= 15 && names.contains("serve") && names.contains("man"), "{names:?}");
    names
}

#[test]
fn every_shell_completes_every_command() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} knows no {command}");
        }
        assert!(script.contains("listen") && script.contains("dry-run"), "{shell} knows no options");
    }
}

#[test]
fn bash_takes_the_completions_and_completes_by_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("doppel");
    std::fs::write(&file, said(&["completions", "bash"])).expect("a file");
    let ask =
        "source \"$1\"; COMP_WORDS=(doppel doc); COMP_CWORD=1; _doppel doppel doc doppel; echo \"${COMPREPLY[@]}\"";
    let output = std::process::Command::new("bash").args(["-c", ask, "bash"]).arg(&file).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "doctor", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let list = said(&["man", "--list"]);
    let pages: Vec<&str> = list.lines().collect();
    assert_eq!(pages[0], "doppel");
    let first = said(&["man"]);
    assert_eq!(first, said(&["man", "doppel"]));
    for command in commands() {
        let page = format!("doppel-{command}");
        assert!(pages.contains(&&*page), "{page} is not listed");
        // In roff, a backslash precedes a hyphen that must stay a hyphen.
        assert!(first.contains(&page.replace('-', "\\-")), "the first page does not name {page}");
        let text = said(&["man", &page]);
        assert!(text.contains(&format!(".TH {page} 1")) && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    assert!(pages.contains(&"doppel-config-new-key"), "commands below commands have pages, too");
    let output = run(&["man", "doppel-nothing"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("doppel man --list"));
}
