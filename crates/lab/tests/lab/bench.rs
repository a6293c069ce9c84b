//! `doppel-lab bench` measures every part at a small size and reports the figures in a stable form. The tests do not check speed.

use std::collections::BTreeSet;
use std::fs;

use assert_cmd::Command;
use serde_json::Value;

/// All figures, by part.
const FIGURES: &[(&str, &[&str])] = &[
    ("sign", &["sign.default", "sign.default_from_json", "sign.paper"]),
    (
        "lookup",
        &[
            "lookup.popular.radius_11",
            "lookup.popular.radius_15",
            "lookup.popular.radius_3",
            "lookup.popular.radius_7",
            "lookup.popular.record",
            "lookup.uniform.radius_11",
            "lookup.uniform.radius_15",
            "lookup.uniform.radius_3",
            "lookup.uniform.radius_7",
            "lookup.uniform.record",
        ],
    ),
    ("join", &["join.memory", "join.popular.500", "join.uniform.500"]),
    ("store", &["store.register.1", "store.register.64"]),
    ("memory", &["memory.disk", "memory.index", "memory.process"]),
    ("startup", &["startup.open", "startup.rate", "startup.serve"]),
    ("http", &["http.check.1", "http.check.64", "http.check_whole.64", "http.put.1", "http.put.64"]),
];

fn bench(arguments: &[&str]) -> (Value, String) {
    let mut command = Command::cargo_bin("doppel-lab").expect("the binary is built");
    let output = command.arg("bench").args(arguments).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    (serde_json::from_slice(&output.stdout).expect("the answer is JSON"), errors)
}

fn positive(value: &Value, what: &str) {
    assert!(value.as_f64().is_some_and(|number| number > 0.0), "{what} is {value}");
}

/// Checks that minimum, median and maximum are in order.
fn spread(value: &Value, what: &str) {
    for key in ["median", "min", "max"] {
        positive(&value[key], &format!("{what}.{key}"));
    }
    assert!(
        number_of("min", value) <= number_of("median", value) && number_of("median", value) <= number_of("max", value),
        "{what}: {value}"
    );
}

fn number_of(key: &str, value: &Value) -> f64 {
    value[key].as_f64().unwrap_or_default()
}

fn figure(figure: &Value) {
    let name = figure["name"].as_str().expect("a name");
    assert!(figure["unit"].is_string() && figure["baseline"]["name"].is_string(), "{figure}");
    assert!(matches!(figure["better"].as_str(), Some("higher" | "lower")), "{figure}");
    spread(&figure["baseline"]["value"], name);
    // With few records, the memory of a process says nothing.
    if !["memory.process", "join.memory"].contains(&name) {
        spread(&figure["value"], name);
        spread(&figure["ratio"], name);
    }
    let timed = ["lookup", "store", "http"].iter().any(|part| name.starts_with(part));
    for latency in [&figure["latency"], &figure["baseline"]["latency"]].into_iter().filter(|_| timed) {
        positive(&latency["p50"], name);
        positive(&latency["p99"], name);
        assert!(matches!(latency["unit"].as_str(), Some("us" | "ns")), "{figure}");
    }
}

#[test]
fn every_part_is_measured_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("a plain path");
    let (report, said) =
        bench(&["--records", "500", "--seconds", "1", "--seed", "7", "--dir", dir, "--format", "json"]);
    assert_eq!((&report["records"], &report["seed"], &report["seconds"]), (&500.into(), &7.into(), &1.0.into()));
    positive(&report["cores"], "cores");
    assert!(report["version"].is_string() && report["optimised"].is_boolean());
    let parts = report["parts"].as_array().expect("a list of parts");
    assert_eq!(parts.len(), FIGURES.len());
    for (part, (name, figures)) in parts.iter().zip(FIGURES) {
        assert_eq!(part["part"], *name);
        let found = part["figures"].as_array().expect("a list of figures");
        found.iter().for_each(figure);
        let names: BTreeSet<&str> = found.iter().filter_map(|figure| figure["name"].as_str()).collect();
        assert_eq!(names, figures.iter().copied().collect());
        assert!(said.contains(&format!("measuring {name}")), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder is there").count(), 0, "files are left");
}

#[test]
fn one_part_can_be_measured_alone_and_shown_as_a_table() {
    let mut command = Command::cargo_bin("doppel-lab").expect("the binary is built");
    let output = command.args(["bench", "--records", "100", "--seconds", "0.1", "--only", "sign"]).output();
    let output = output.expect("it runs");
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && table.contains("sign.default") && table.contains("beside cutting alone"));
    assert!(!table.contains("lookup"), "{table}");
}

#[test]
fn a_part_that_does_not_exist_is_wrong_usage() {
    let mut command = Command::cargo_bin("doppel-lab").expect("the binary is built");
    command.args(["bench", "--only", "luck"]).assert().code(2);
}

#[test]
fn a_stopped_benchmark_leaves_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel-lab"));
    command.args(["bench", "--records", "1000000", "--only", "memory", "--dir"]).arg(folder.path());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("it runs");
    let begin = std::time::Instant::now();
    while entry_count(&folder) == 0 {
        assert!(begin.elapsed().as_secs() < 30, "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert_eq!(entry_count(&folder), 0, "files are left");
}

fn entry_count(folder: &tempfile::TempDir) -> usize {
    fs::read_dir(folder.path()).expect("the folder is there").count()
}

/// Returns the running child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[test]
fn the_service_that_it_measures_ends_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doppel-lab"));
    command.args(["bench", "--records", "2000", "--only", "startup", "--dir"]).arg(folder.path());
    let child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn();
    let mut child = child.expect("it runs");
    let begin = std::time::Instant::now();
    let service = loop {
        assert!(begin.elapsed().as_secs() < 60, "it starts no service");
        if let Some(service) = children(child.id()).first() {
            break *service;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let begin = std::time::Instant::now();
    while is_process_left(service) {
        assert!(begin.elapsed().as_secs() < 10, "the service goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder is there").count(), 0, "files are left");
}

fn is_process_left(service: u32) -> bool {
    fs::read_to_string(format!("/proc/{service}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
