//! Promises of `doppel eval` on the command line: labelled pairs, several sets, JSON with stable names, a chart.

use crate::support::{expect_members, expect_parts, put_file, run, send_signal, until};
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

/// Two calls about one matter, one call with the same form about another place, and one call about something else.
const RECORDS: &str = r#"{"id":"a","content":"来电人称枫叶里小区南门外的路灯连续三晚没有亮,夜间行人看不清台阶,请尽快安排检修"}
{"id":"b","content":"来电人称枫叶里小区南门外的路灯连续三晚没有亮,夜间行人看不清台阶,盼回电"}
{"id":"c","content":"来电人称石榴湾小区西门外的路灯连续三晚没有亮,夜间行人看不清台阶,请尽快安排检修"}
{"id":"d","content":"咨询图书馆周末闭馆时间以及借书证挂失怎样补办,是否收费"}
"#;
const GROUPS: &str = "{\"members\":[\"a\",\"b\"]}\n";
const PAIRS: &str = r#"{"a":"a","b":"b","label":"same"}
{"a":"a","b":"d","label":"unsure"}
{"a":"c","b":"a","label":"template","signs":["place"]}
"#;

fn eval(arguments: &[&str]) -> Output {
    run(&[&["eval"], arguments].concat(), &[])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    let output = eval(&[arguments, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one object")
}

/// Writes a set into a new folder, and returns the path of the folder.
fn set(folder: &Path, name: &str, with_pairs: bool) -> String {
    let set = folder.join(name);
    fs::create_dir(&set).expect("a folder");
    let files = [("records.jsonl", RECORDS), ("groups.jsonl", GROUPS), ("pairs.jsonl", PAIRS)];
    for (file, content) in files.into_iter().take(if with_pairs { 3 } else { 2 }) {
        fs::write(set.join(file), content).expect("a file");
    }
    set.to_str().expect("a plain path").to_owned()
}

#[test]
fn labelled_pairs_are_counted_by_label_band_and_sign_beside_the_figures_of_one_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = set(folder.path(), "set", true);
    let [records, groups, pairs] = ["records", "groups", "pairs"].map(|name| format!("{set}/{name}.jsonl"));
    let plain = json(&["--records", &records, "--groups", &groups]);
    assert!(plain["recall"] == 1.0 && plain["pairs_true"] == 1 && plain["curve"].is_array(), "{plain}");
    assert!(plain.get("labelled").is_none());
    let found = &plain["pairs_found"];
    let groups_found = &plain["groups_found"];
    let largest = &plain["largest_group"];
    assert!(found.as_u64() >= Some(1) && groups_found == 1 && largest.as_u64() >= Some(2), "{plain}");

    let report = json(&["--records", &records, "--groups", &groups, "--pairs", &pairs]);
    let labelled = &report["labelled"];
    assert_eq!(pairs_of_label(&labelled["labels"], "same"), (1.into(), 1.into()));
    assert_eq!(pairs_of_label(&labelled["labels"], "unsure"), (1.into(), 0.into()));
    assert_eq!(labelled["labels"]["template"]["pairs"], 1);
    assert_eq!(labelled["by_sign"]["place"]["template"], labelled["labels"]["template"]);
    assert_eq!(labelled["recall"], 1.0);
    assert!(labelled["precision"].is_number() && labelled["template_share"].is_number(), "{labelled}");
    let bands = labelled["by_jaccard"].as_array().expect("bands");
    assert!(bands.len() == 10 && bands[9]["to"] == 1.0, "{labelled}");
    assert!(
        bands_of_label("unsure", bands)[0]["from"] == 0.0
            && bands_of_label("same", bands)[0]["from"].as_f64() > Some(0.5),
        "{labelled}"
    );
}

fn pairs_of_label(labels: &Value, label: &str) -> (Value, Value) {
    (labels[label]["pairs"].clone(), labels[label]["found"].clone())
}

fn bands_of_label<'a>(label: &str, bands: &'a [Value]) -> Vec<&'a Value> {
    bands.iter().filter(|band| band["labels"].get(label).is_some()).collect::<Vec<_>>()
}

#[test]
fn settings_that_keep_no_text_are_measured_by_what_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = set(folder.path(), "set", true);
    let kept = json(&[&set, "--preset", "signatures"]);
    let report = &kept["sets"][0];
    assert!(report["recall"] == 1.0 && report["labelled"]["labels"]["unsure"]["found"] == 0, "{kept}");
    assert!(report["curve"].is_array() && report["records"] == 4, "{kept}");
    let channels = report["by_channel"].as_object().expect("channels");
    assert!(channels.keys().all(|channel| channel == "simhash" || channel == "shingle"), "{kept}");
}

#[test]
fn related_records_are_measured_by_judgements_beside_plain_rankings_and_weights_are_fitted() {
    const JUDGED: &str = concat!(
        r#"{"query":"a","id":"c","rel":2}"#,
        "\n",
        r#"{"query":"a","id":"d","rel":0}"#,
        "\n",
        r#"{"query":"b","id":"c","rel":1}"#,
        "\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let set = set(folder.path(), "set", false);
    let [records, groups, judged, weights] =
        ["records.jsonl", "groups.jsonl", "judged.jsonl", "weights.json"].map(|name| format!("{set}/{name}"));
    fs::write(&judged, JUDGED).expect("a file");
    fs::write(&weights, r#"{"objects": 0}"#).expect("a file");
    let base = ["--records", &records, "--groups", &groups, "--related", &judged];
    let report = json(&[&base[..], &["--fit"]].concat());
    // The duplicate among the four results is left out, so that the judged result comes first.
    expect_members(&report, &serde_json::json!({ "recall_at_10": 1.0, "mrr": 1.0, "ndcg_at_10": 1.0 }));
    expect_members(&report, &serde_json::json!({ "queries": 2, "same": 1, "records": 4 }));
    assert!(report["words"]["mrr"] == 1.0 && report["pairs"]["mrr"] == 1.0, "{report}");
    assert!(report["fitted"]["held_out"]["mrr"] == 1.0 && report["fitted"]["weights"]["objects"].is_number());
    assert!(json(&[&base[..], &["--weights", &weights]].concat()).get("fitted").is_none());

    let (code, said) = refusal_of("{\"query\":\"a\",\"id\":\"z\",\"rel\":2}\n", &[], &judged, &base);
    assert!(code == Some(1) && said.contains("judged.jsonl line 1: the record z is not among the records"), "{said}");
    let (code, said) = refusal_of("{\"query\":\"a\",\"id\":\"c\",\"rel\":0}\n", &[], &judged, &base);
    assert!(code == Some(1) && said.contains("nothing can be measured"), "{said}");
    let (code, said) = refusal_of(JUDGED, &["--all"], &judged, &base);
    assert!(code == Some(2) && said.contains("--all"), "{said}");
}

fn refusal_of(content: &str, arguments: &[&str], judged: &str, base: &[&str; 6]) -> (Option<i32>, String) {
    fs::write(judged, content).expect("a file");
    let output = eval(&[&base[..], arguments].concat());
    (output.status.code(), text(&output.stderr))
}

/// Returns a collection in the form of `doppel export` in which only the time shows that records belong together. It has `pairs` pairs with
/// different words that people decided to be the same matter, one pair whose texts show that it is the same matter, one pair that people
/// decided to be different matters, one pair whose decision was withdrawn, and one pair with a deleted record.
fn exported(pairs: usize) -> String {
    const WORDS: [&str; 24] = [
        "路灯", "井盖", "噪音", "垃圾", "停水", "停电", "学校", "医院", "公交", "地铁", "施工", "物业", "电梯", "暖气",
        "积水", "占道", "油烟", "拖欠", "工资", "户口", "社保", "占用", "绿化", "拆迁",
    ];
    let mut state = 7_u64;
    let mut text = || {
        let mut words = String::new();
        for _ in 0..9 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            words += WORDS[(state >> 33) as usize % WORDS.len()];
            words += ",";
        }
        words
    };
    let mut rows: Vec<(String, Value)> = Vec::new();
    for matter in 0..pairs {
        for side in ["x", "y"] {
            let time = format!("{}-{:02}-01", 1980 + matter / 2, 1 + 6 * (matter % 2));
            rows.push((format!("{matter}{side}"), serde_json::json!({ "content": text(), "time": time })));
        }
    }
    for (id, text) in ["a", "b", "c"].into_iter().zip(RECORDS.lines()) {
        rows.push((id.into(), serde_json::from_str(text).expect("a row")));
    }
    let settings = serde_json::to_value(doppel_core::collection::Settings::default()).expect("settings");
    let mut decisions: Vec<(String, String, &str)> =
        (0..pairs).map(|matter| (format!("{matter}x"), format!("{matter}y"), "same")).collect();
    let more = [("a", "b", "same"), ("a", "c", "not_same"), ("b", "c", "withdrawn"), ("a", "gone", "same")];
    decisions.extend(more.map(|(a, b, judgement)| (a.into(), b.into(), judgement)));
    let header = serde_json::json!({ "doppel_export": { "version": 1, "collection": "letters", "settings": settings,
        "records": rows.len(), "exported_at": "2026-01-01T00:00:00Z" } });
    let end = serde_json::json!({ "end": { "records": rows.len(), "decisions": decisions.len() } });
    let decisions = decisions.into_iter().map(|(a, b, judgement)| {
        let rulings = serde_json::json!([
            { "judgement": "not_same", "by": null, "note": null, "at": "2026-01-01T00:00:00Z" },
            { "judgement": judgement, "by": null, "note": null, "at": "2026-01-02T00:00:00Z" }
        ]);
        serde_json::json!({ "decision": { "a": a, "b": b, "rulings": rulings } })
    });
    let records = rows.into_iter().map(|(id, row)| serde_json::json!({ "record": { "id": id, "row": row } }));
    let lines = std::iter::once(header).chain(decisions).chain(records).chain([end]);
    lines.map(|line| line.to_string() + "\n").collect()
}

#[test]
fn decisions_fit_weights_on_one_half_and_measure_them_on_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let many = put_file(&folder, "many.jsonl", exported(40));
    let timeless = put_file(&folder, "timeless.json", r#"{"time": 0}"#);
    let base = ["--exported", &many, "--weights", &timeless];
    let report = json(&[&base[..], &["--fit"]].concat());
    let used = serde_json::json!({ "same": 40, "found_by_text": 1, "not_same": 1, "gone": 1 });
    assert_eq!((&report["decisions"], &report["same"]), (&used, &80.into()), "{report}");
    let halves = &report["halves"];
    assert_eq!((&halves["same"], &halves["is_better"]), (&40.into(), &true.into()), "{report}");
    assert!(
        mrr_of("fitted", halves) > 2.0 * mrr_of("given", halves) && halves["weights"]["time"].as_f64() > Some(0.0),
        "{report}"
    );
    assert!(report.get("fitted").is_none() && json(&base).get("halves").is_none());

    let table = text(&eval(&[&base[..], &["--fit"]].concat()).stdout);
    expect_parts(&table, &["related, on one half", "decided: 40 pairs"]);
    let section = &table[table.find("[search.weights]\n").expect("a section")..];
    let config = put_file(&folder, "doppel.toml", section);
    let checked = run(&["config", "check", "--config", &config], &[]);
    assert!(checked.status.success(), "{section}{}", text(&checked.stderr));

    let few = put_file(&folder, "few.jsonl", exported(29));
    let output = eval(&["--exported", &few, "--fit"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("29 pairs") && said.contains("at least 15"), "{said}");
    assert!(eval(&["--exported", &few]).status.success(), "measuring takes fewer");
    let cut = put_file(&folder, "cut.jsonl", exported(3).rsplit_once("{\"end").expect("an end").0);
    expect_parts(&text(&eval(&["--exported", &cut]).stderr), &["ends early"]);
    assert_eq!(eval(&["--exported", &many, "--preset", "paper"]).status.code(), Some(2));
}

fn mrr_of(weights: &str, halves: &Value) -> f64 {
    halves[weights]["mrr"].as_f64().expect("a number")
}

#[test]
fn several_sets_make_one_table_one_object_and_one_chart() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = set(folder.path(), "first", true);
    let second = set(folder.path(), "second", false);
    let report = json(&[&first, &second]);
    let sets = report["sets"].as_array().expect("sets");
    assert_eq!(sets.iter().map(|set| &set["name"]).collect::<Vec<_>>(), ["first", "second"]);
    assert!(sets.iter().all(|set| set["recall"] == 1.0 && set["records"] == 4), "{report}");
    assert!(sets[0].get("labelled").is_some() && sets[1].get("labelled").is_none(), "{report}");

    let svg = folder.path().join("curve.svg");
    let output = eval(&[&first, &second, "--svg", svg.to_str().expect("a plain path")]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.starts_with("set "), "{table}");
    assert!(
        table.contains("templates accepted") && table.contains("== first\nrecall") && table.contains("== second\n")
    );
    let chart = fs::read_to_string(svg).expect("the chart");
    assert!(chart.matches("<polyline").count() == 2 && chart.matches("<circle").count() == 2, "{chart}");
    assert!(chart.contains(">first</text>") && chart.contains(">precision</text>"), "{chart}");
}

#[test]
fn a_set_with_labelled_pairs_alone_is_measured_by_its_labels() {
    let folder = tempfile::tempdir().expect("a folder");
    let pairs_alone = set(folder.path(), "labels", true);
    fs::remove_file(Path::new(&pairs_alone).join("groups.jsonl")).expect("a file");
    let report = &json(&[&pairs_alone])["sets"][0];
    assert!(report.get("b_cubed").is_none() && report["labelled"]["labels"]["same"]["found"] == 1, "{report}");
    let table = text(&eval(&[&pairs_alone]).stdout);
    assert!(table.contains("1 of 1") && !table.contains("false pairs"), "{table}");

    fs::remove_file(Path::new(&pairs_alone).join("pairs.jsonl")).expect("a file");
    let refused = eval(&[&pairs_alone]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("no groups.jsonl and no pairs.jsonl"));
}

#[test]
fn each_set_is_measured_by_a_model_that_is_fitted_to_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let sets = ["first", "second"].map(|name| set(folder.path(), name, true));
    let [first, second] = &sets;
    let plain = json(&[first, second, "--leave-one-out"]);
    assert!(plain.get("perturbed").is_none() && plain["sets"][1]["name"] == "second", "{plain}");
    let report = json(&[first, second, "--leave-one-out", "--perturb"]);
    assert_eq!(report["sets"], plain["sets"], "the fit is deterministic");
    let figures = &report["sets"][0];
    assert!(figures["same"] == serde_json::json!([1, 1]) && figures["templates"][1] == 1, "{figures}");
    assert!(figures["calibration_error"].is_number() && figures["b_cubed"]["recall"] == 1.0, "{figures}");
    let perturbed = report["perturbed"].as_array().expect("changes");
    assert_eq!(perturbed.iter().filter(|change| change["name"] == "first").count(), 19);
    let removed = ["phone", "link", "radicals", "traditional characters", "punctuation", "full width", "greeting"];
    for change in perturbed.iter().filter(|change| removed.iter().any(|name| change["change"] == *name)) {
        assert_eq!((&change["same"], &change["precision"]), (&figures["same"], &figures["precision"]), "{change}");
    }

    let svg = folder.path().join("reliability.svg");
    let output = eval(&[first, second, "--leave-one-out", "--perturb", "--svg", svg.to_str().expect("a plain path")]);
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("1 of 1") && table.contains("another name"), "{table}");
    expect_parts(&fs::read_to_string(svg).expect("the diagram"), &[">calibrated</text>", ">observed</text>"]);

    let alone = eval(&[first, "--leave-one-out"]);
    assert!(!alone.status.success() && text(&alone.stderr).contains("at least 2 sets"));
    assert_eq!(eval(&[first, second, "--perturb"]).status.code(), Some(2));
}

#[test]
fn sets_with_one_name_are_distinguished_by_their_paths() {
    let folder = tempfile::tempdir().expect("a folder");
    let sets = ["x", "y"].map(|name| {
        let outer = folder.path().join(name);
        fs::create_dir(&outer).expect("a folder");
        set(&outer, "set", false)
    });
    let report = json(&[&sets[0], &sets[1]]);
    assert_eq!([&report["sets"][0]["name"], &report["sets"][1]["name"]], [&sets[0], &sets[1]]);
}

#[test]
fn contradicting_options_are_wrong_usage_and_a_bad_line_is_a_failure_that_names_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = set(folder.path(), "set", true);
    let records = format!("{set}/records.jsonl");
    assert_eq!(eval(&[]).status.code(), Some(2));
    assert_eq!(eval(&[&set, "--records", &records]).status.code(), Some(2));
    assert_eq!(eval(&[&set, "--all"]).status.code(), Some(2));
    fs::write(format!("{set}/pairs.jsonl"), r#"{"a":"a","b":"nobody","label":"same"}"#).expect("a file");
    let output = eval(&[&set]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("line 1: the record nobody is not among"), "{said}");
}

#[cfg(feature = "failpoints")]
#[test]
fn a_stopped_evaluation_leaves_no_store_and_reports_the_signal() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let set = set(folder.path(), "set", false);
    for signal in ["INT", "TERM", "HUP"] {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let mut command = crate::stoppable();
        command
            .args(["eval", &set])
            .env("TMPDIR", temporary.path())
            .env("FAILPOINTS", "store::before_append=sleep(60000)");
        let child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn();
        let child = child.expect("doppel runs");
        until("it begins", || entry_count(&temporary) > 0);
        send_signal(child.id(), signal);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(130) && said.contains("stopped by a signal"), "{said}");
        assert_eq!(entry_count(&temporary), 0, "{signal}");
    }
}

fn entry_count(temporary: &tempfile::TempDir) -> usize {
    fs::read_dir(temporary.path()).expect("a listing").count()
}

#[test]
fn pairs_alone_are_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = set(folder.path(), "set", true);
    let [records, pairs] = ["records", "pairs"].map(|name| format!("{set}/{name}.jsonl"));
    let measured = json(&["--records", &records, "--pairs", &pairs]);
    assert!(measured["labelled"].is_object() && measured.get("b_cubed").is_none_or(Value::is_null), "{measured}");
    let said = text(&eval(&["--records", &records]).stderr);
    expect_parts(&said, &["--groups <FILE>", "--pairs <FILE>"]);
}

#[test]
fn unknown_labels_are_refused_and_there_is_no_recall_over_no_pairs() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let records = put_file(dir, "records.jsonl", RECORDS);
    let unknown = put_file(dir, "unknown.jsonl", PAIRS.replace("unsure", "equal"));
    let refused = eval(&["--records", &records, "--pairs", &unknown]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    expect_parts(
        &said,
        &["unknown.jsonl line 2: the label is not known; give one of same, same_event, same_issue, template"],
    );

    let none = put_file(dir, "none.jsonl", "\n");
    let refused = eval(&["--records", &records, "--pairs", &none]);
    assert_eq!(refused.status.code(), Some(1));
    expect_parts(&text(&refused.stderr), &["none.jsonl has no labelled pairs"]);

    let unsure = put_file(dir, "unsure.jsonl", PAIRS.lines().nth(1).expect("three lines"));
    let arguments = ["--records", &records, "--pairs", &unsure];
    assert!(json(&arguments)["labelled"]["recall"].is_null());
    expect_parts(&text(&eval(&arguments).stdout), &["labelled pairs: recall - (no pair has the label same)"]);
}

#[test]
fn a_chart_that_cannot_be_written_is_found_before_anything_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let [records, chart] =
        ["no/records.jsonl", "no/chart.svg"].map(|name| folder.path().join(name).display().to_string());
    let output = eval(&["--records", &records, "--groups", &records, "--svg", &chart]);
    assert_eq!(output.status.code(), Some(1));
    expect_parts(&text(&output.stderr), &[&format!("cannot write {chart}")]);
}

#[test]
fn each_mistake_in_settings_is_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let set = set(dir, "set", false);
    let field = r#"{"name":"","role":"text"}"#;
    for (settings, mistake, times) in [
        ("{bad".to_owned(), "not valid JSON", 1),
        (format!("{{\"fields\":[{field}]}}"), "/fields/0/name: a field name is not empty", 1),
        (format!("{{\"fields\":[{field},{field}]}}"), "a field name is not empty", 2),
    ] {
        let file = put_file(dir, "settings.json", settings);
        let said = text(&eval(&[&set, "--settings", &file]).stderr);
        assert_eq!(said.matches(mistake).count(), times, "{said}");
    }
}
