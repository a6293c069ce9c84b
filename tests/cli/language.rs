//! Help and messages of the command line are in the language that the caller chose.

use crate::support::run_to_exit;

/// Environment variables and their values.
type EnvironmentVariables<'a> = &'a [(&'a str, &'a str)];

#[test]
fn help_is_chinese_by_the_option_or_the_environment() {
    let chosen: [(&[&str], EnvironmentVariables<'_>); 4] = [
        (&["--lang", "zh-CN", "import", "--help"], &[]),
        (&["import", "--help", "--lang=zh-CN"], &[]),
        (&["import", "--help"], &[("DOPPEL_LANG", "zh-CN")]),
        (&["import", "--help"], &[("DOPPEL_LANG", ""), ("LC_ALL", ""), ("LC_MESSAGES", ""), ("LANG", "zh_CN.UTF-8")]),
    ];
    for (arguments, environment) in chosen {
        let [help, _] = run_to_exit(arguments, environment, 0);
        assert!(help.contains("用法：doppel import [选项]") && help.contains("登记文件或数据库中的信访件"), "{help}");
        assert!(help.contains("选项：") && help.contains("--collection") && !help.contains("Options:"), "{help}");
        for english in ["Exit codes", "possible values", "[default", "Print help"] {
            assert!(!help.contains(english), "{english}: {help}");
        }
    }
    let [help, _] = run_to_exit(&["import", "--help", "--lang", "en"], &[("DOPPEL_LANG", "zh-CN")], 0);
    assert!(help.contains("Usage: doppel import") && help.contains("Exit codes"), "{help}");
}

#[test]
fn the_commands_are_listed_in_chinese() {
    let [help, _] = run_to_exit(&["--help", "--lang", "zh-CN"], &[], 0);
    assert!(
        help.contains("命令：") && help.contains("运行 HTTP 服务（默认）") && !help.contains("Commands:"),
        "{help}"
    );
}

#[test]
fn wrong_usage_and_errors_are_reported_in_chinese() {
    let chinese: EnvironmentVariables<'_> = &[("DOPPEL_LANG", "zh-CN")];
    let table: [(&[&str], i32, &str); 6] = [
        (&["import", "--nonsense"], 2, "没有参数 --nonsense"),
        (&["import"], 2, "缺少必需的参数"),
        (&["nonsense"], 2, "nonsense"),
        (&["sample", "--records", "x"], 2, "的值 \"x\" 无效"),
        (&["snapshot", "list", "--format", "x"], 2, "--format"),
        (&["config", "check", "--config", "missing.toml"], 1, "配置文件 missing.toml 不存在"),
    ];
    for (arguments, code, expected) in table {
        let [_, said] = run_to_exit(arguments, chinese, code);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("error:") && !said.contains("For more information"), "{arguments:?}: {said}");
    }
    for (arguments, help) in
        [(&["import"][..], "import"), (&["snapshot", "prune"], "snapshot prune"), (&["nonsense"], "")]
    {
        let [_, said] = run_to_exit(arguments, chinese, 2);
        assert!(said.contains(format!("更多说明见 'doppel {help} --help'").replace("  ", " ").as_str()), "{said}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let settings = crate::support::put_file(&folder, "settings.json", "{bad");
    let [_, json] = run_to_exit(&["eval", "set", "--settings", &settings], chinese, 1);
    assert!(json.contains(&format!("{settings}：请求正文不是有效的 JSON")), "{json}");
    let [_, url] = run_to_exit(&["snapshot", "create", "--from", "here"], chinese, 2);
    assert!(url.contains("无效：不是完整的网址"), "{url}");
    let [_, missing] = run_to_exit(&["import", "--to"], chinese, 2);
    assert!(!missing.contains("可选值"), "{missing}");
    let [_, refused] = run_to_exit(&["import", "--lang", "fr"], &[], 2);
    assert!(refused.contains("give zh-CN or en"), "{refused}");
}
