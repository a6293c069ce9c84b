//! `doppel-lab experiment` at small sizes: the tables add up, the files exist, and known duplicates are found. The tests do not check speed. T5
//! needs servers and is tested in `experiment_servers.rs`.

use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

fn experiment(arguments: &[&str]) -> Output {
    Command::cargo_bin("doppel-lab")
        .expect("the binary is built")
        .arg("experiment")
        .args(arguments)
        .output()
        .expect("it runs")
}

/// Runs one experiment at a small size. Returns its report, which is also in the folder.
fn run(name: &str, more: &[&str]) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("a plain path");
    let output = experiment(&[&[name, "--scale", "0.01", "--out", out], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let written = fs::read_to_string(folder.path().join(format!("{name}.md"))).expect("a report");
    let tables: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(tables.iter().all(|line| written.contains(line)) && written.contains(&format!("({name}")), "{written}");
    pictures(&written, folder.path());
    (text, folder)
}

/// Checks that every picture in the text exists and is an SVG picture.
fn pictures(text: &str, folder: &Path) {
    let named: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("![")?.split_once("]("))
        .map(|(_, at)| at.trim_end_matches(')'))
        .collect();
    assert!(!named.is_empty(), "{text}");
    for file in named {
        let svg = fs::read_to_string(folder.join(file)).expect(file);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{file}");
    }
}

/// Returns the rows of the table below `caption` without the head, with trimmed cells.
fn table(text: &str, caption: &str) -> Vec<Vec<String>> {
    let at = text.find(caption).unwrap_or_else(|| panic!("no table {caption:?} in {text}"));
    let rows = text[at..].lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    rows.skip(2)
        .map(|line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

fn number(cell: &str) -> f64 {
    let digits = cell.trim_end_matches(" %").replace(',', "");
    digits.parse().unwrap_or_else(|error| panic!("{error}: {cell:?}"))
}

#[test]
fn t2_times_grow_with_the_number_of_records_and_unknown_figures_are_called_so() {
    let (text, _) = run("t2", &[]);
    for caption in ["Only hashing", "All steps"] {
        let rows = table(&text, caption);
        let (document, sizes) = rows.split_last().expect("rows");
        assert_eq!(sizes.len(), 6);
        assert!(document[0] == "document" && document.iter().any(|cell| cell == "unknown (fastest)"), "{document:?}");
        for column in 0..sizes[0].len() {
            let values: Vec<f64> = sizes.iter().map(|row| number(&row[column])).collect();
            assert!(values.is_sorted() && values[0] > 0.0, "{caption} {values:?}");
        }
        assert_eq!(number(&sizes[5][0]), 300.0);
    }
    // For this experiment the document gives only an order and no figures.
    assert!(!text.contains("ms there"));
}

#[test]
fn t3_counts_of_each_topic_add_up() {
    let (text, _) = run("t3", &[]);
    let rows = table(&text, "Records that each algorithm detects among records of other topics");
    assert_eq!(rows.len(), 12, "three topics and four algorithms: {text}");
    let same_topic = table(&text, "Records that each algorithm detects among other records of the same topic");
    assert_eq!(same_topic.len(), 12);
    assert!(text.contains(" similar + 50 of other topics; ") && text.contains("limit"), "{text}");
    for row in rows.iter().chain(&same_topic) {
        let [_, _, detected, correct, recall, precision, ..] = &row[..] else { panic!("{row:?}") };
        let detected = number(detected);
        let correct = number(correct);
        assert!(correct <= detected && correct <= 10.0, "{row:?}");
        assert!((number(recall) - correct * 10.0).abs() < 0.06 || number(recall) > correct * 10.0, "{row:?}");
        assert!(detected == 0.0 || (number(precision) - correct / detected * 100.0).abs() < 0.06, "{row:?}");
    }
    for topic in ["教育", "城市管理", "城乡建设"] {
        assert!(
            number(&row_of_topic("doppel's default", &rows, topic)[3])
                >= number(&row_of_topic("improved Simhash", &rows, topic)[3]),
            "{text}"
        );
        assert!(
            number(&row_of_topic("doppel's default", &rows, topic)[4]) >= 80.0,
            "planted duplicates of {topic} are found: {text}"
        );
        assert_eq!(row_of_topic("improved Simhash", &rows, topic)[6], "about 90 %");
        assert_eq!(row_of_topic("I-Match", &rows, topic)[6], "unknown");
    }
}

fn row_of_topic<'a>(name: &str, rows: &'a [Vec<String>], topic: &str) -> &'a [String] {
    rows.iter().find(|row| row[0] == topic && row[1] == name).expect("a row")
}

#[test]
fn t4_single_pass_never_finds_more_than_blocks_and_leaves_large_sizes_out() {
    let (text, _) = run("t4", &[]);
    let rows = table(&text, "Time to find all");
    assert_eq!(rows.iter().map(|row| number(&row[0])).collect::<Vec<_>>(), [30.0, 100.0, 300.0, 1000.0, 3000.0]);
    for row in &rows[..4] {
        let (records, comparisons, pairs, parted) =
            (number(&row[0]), number(&row[2]), number(&row[5]), number(&row[6]));
        assert!(comparisons <= records * (records - 1.0) / 2.0 && parted <= pairs, "{row:?}");
    }
    assert!(number(&rows[3][5]) >= 10.0, "one in ten repeats another, many of them to the letter: {text}");
    assert!(rows[4][1] == "–" && rows[4][6] == "–" && number(&rows[4][5]) >= number(&rows[3][5]), "{text}");
}

#[test]
fn notices_are_refused_where_nothing_would_be_written_or_a_report_stands() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, notices, out) in
        [("t3", "n.jsonl", "o"), ("md5", "o/md5.md", "o"), ("md5", "o", "o"), ("md5", "o/md5/x", "o")]
    {
        let output = experiment(&[
            name,
            "--scale",
            "0.01",
            "--notices",
            &path_in(notices, &folder),
            "--out",
            &path_in(out, &folder),
        ]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("--notices"), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a listing").count(), 0, "nothing was written");
}

fn path_in(name: &str, folder: &tempfile::TempDir) -> String {
    folder.path().join(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn md5_is_compared_with_the_figures_of_the_paper() {
    let folder = tempfile::tempdir().expect("a folder");
    let notices = folder.path().join("notices.jsonl");
    let (text, _) = run("md5", &["--seed", "5", "--notices", notices.to_str().expect("a plain path")]);
    let written = fs::read_to_string(notices).expect("the notices");
    let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.len() >= 200 && lines.iter().all(|line| line["matter"].is_u64() && line["phone"].is_string()));
    let rows = table(&text, "Deleted records");
    let [hybrid, single, multiple] = &rows[..] else { panic!("{text}") };
    let ([hybrid_deleted, _, hybrid_union, hybrid_truth], [single_deleted, precision, _, single_truth]) =
        (numbers_of(hybrid), numbers_of(single));
    assert_eq!(precision, 100.0, "equal texts are the same matter in a made-up crawl");
    assert!(hybrid_deleted > single_deleted && hybrid_truth > single_truth, "{text}");
    // 84 of 100 repeats have exactly the same text, but a matter has no exact repeat if all repeats of its first record are changed.
    assert!((70.0..95.0).contains(&single_truth) && hybrid_union > 99.0 && numbers_of(multiple)[3] > 80.0, "{text}");
    assert_eq!(single[6..], ["98.7 %", "89.5 %", "34,994,843"]);
}

fn numbers_of(row: &[String]) -> [f64; 4] {
    [1, 2, 3, 4].map(|at| number(&row[at]))
}

#[test]
fn tianwang_is_as_strict_as_its_definitions_say() {
    let (text, _) = run("tianwang", &[]);
    let rows = table(&text, "The five algorithms");
    assert_eq!(
        rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
        (1..=5).map(|n| format!("tianwang{n}")).collect::<Vec<_>>()
    );
    let pairs: Vec<f64> = rows.iter().map(|row| number(&row[5])).collect();
    assert!(pairs[2] <= pairs[1] && pairs[1] <= pairs[4] && pairs[3] <= pairs[4] && pairs[0] > 0.0, "{pairs:?}");
    assert_eq!(text.matches("0 pairs of tianwang").count(), 3, "{text}");
    assert_eq!(table(&text, "by the number of keywords").len(), 5);
}

#[test]
fn files_of_ones_own_are_taken_and_the_same_seed_gives_the_same_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sample = Command::cargo_bin("doppel-lab").expect("the binary is built");
    sample
        .args([
            "sample",
            "--records",
            "400",
            "--seed",
            "9",
            "--duplicates",
            "0.3",
            "--labels",
            "--out",
            &path_below("s", &folder),
        ])
        .assert()
        .success();
    let files =
        ["--records", &path_below("s/records.jsonl", &folder), "--groups", &path_below("s/groups.jsonl", &folder)]
            .map(str::to_owned);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    for name in ["t2", "t3", "t4", "md5", "tianwang"] {
        let (text, _) = run(name, &files);
        assert!(text.contains("labelled records from files: 400 records"), "{text}");
    }
    assert_eq!(detected_counts(&run("t3", &files).0), detected_counts(&run("t3", &files).0));
}

fn path_below(name: &str, folder: &tempfile::TempDir) -> String {
    folder.path().join(name).to_str().expect("a plain path").to_owned()
}

fn detected_counts(text: &str) -> Vec<String> {
    table(text, "Records that each algorithm detects").iter().map(|row| row[..4].join(" ")).collect::<Vec<_>>()
}

#[test]
fn an_experiment_that_cannot_run_is_refused_before_any_measurement() {
    let (status, said) = code_and_message(&["all"]);
    assert!(
        status == Some(2) && said.contains("--mysql URL") && said.contains("scripts/acceptance experiments"),
        "{said}"
    );
    assert_eq!(code_and_message(&["t9"]).0, Some(2));
    assert_eq!(code_and_message(&["t2", "--scale", "0"]).0, Some(2));
    assert_eq!(code_and_message(&["t2", "--records", "only.jsonl"]).0, Some(2));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        file_path("r", &folder),
        "{\"id\":\"a\",\"content\":\"夜市噪音扰民\"}\n{\"id\":\"b\",\"content\":\"夜市噪音\"}\n",
    )
    .expect("a file");
    fs::write(file_path("g", &folder), "{\"members\":[\"a\",\"b\"]}\n").expect("a file");
    let (status, said) = code_and_message(&[
        "t3",
        "--records",
        &file_path("r", &folder),
        "--groups",
        &file_path("g", &folder),
        "--out",
        &file_path("o", &folder),
    ]);
    assert!(status == Some(1) && said.contains("\"label\""), "{said}");
}

fn code_and_message(arguments: &[&str]) -> (Option<i32>, String) {
    let output = experiment(arguments);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn file_path(name: &str, folder: &tempfile::TempDir) -> String {
    folder.path().join(name).to_str().expect("a plain path").to_owned()
}

#[test]
fn a_stopped_experiment_ends_with_the_status_of_a_signal_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel-lab"));
    command.args(["experiment", "md5", "--out"]).arg(folder.path().join("o")).stderr(std::process::Stdio::piped());
    let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("it runs");
    let mut said = std::io::BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).expect("it says what it does");
    assert_eq!(line, "signing\n");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(!folder.path().join("o").exists());
}

#[test]
fn no_experiment_writes_over_what_it_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("records.jsonl");
    let groups = folder.path().join("groups.jsonl");
    fs::write(&records, "{\"id\": \"1\", \"content\": \"路灯不亮\"}\n").expect("written");
    fs::write(&groups, "[\"1\"]\n").expect("written");
    // The report would be the same file as the records.
    fs::hard_link(&records, folder.path().join("t2.md")).expect("a link");
    for (option, file) in [("--write", groups.as_path()), ("--out", folder.path())] {
        let mut command = Command::cargo_bin("doppel-lab").expect("the binary is built");
        command.args(["experiment", "t2", "--scale", "0.001", "--records"]).arg(&records).arg("--groups").arg(&groups);
        let output = command.arg(option).arg(file).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("is in use and would be overwritten"), "{said}");
    }
    assert_eq!(fs::read_to_string(&groups).expect("readable"), "[\"1\"]\n");
}
