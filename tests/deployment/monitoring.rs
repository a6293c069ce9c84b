//! The alerts and the dashboard use only existing metrics: each metric, label and value is in the `/metrics` of a service that has done
//! some work, and each alert has a section that describes the actions of the operator.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{Expr, LabelModifier, VectorSelector, parse};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _};

use crate::support::TestServer;

/// Metrics and labels that Prometheus itself adds.
const PROMETHEUS_METRICS: [&str; 1] = ["up"];
const PROMETHEUS_LABELS: [&str; 3] = ["instance", "job", "le"];

/// Longest wait for the first round of a source and the comparison after it, on a busy machine.
const A_ROUND: Duration = Duration::from_secs(60);

/// The content of `/metrics`: for each metric, the values of each of its labels.
type MetricSeries = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The place of an expression, and the expression.
type LocatedExpression = (String, String);

fn alerts() -> Vec<serde_norway::Value> {
    let file: serde_norway::Value =
        serde_norway::from_str(include_str!("../../ops/prometheus/alerts.yml")).expect("alerts.yml is YAML");
    let groups = file["groups"].as_sequence().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_sequence().expect("rules").clone()).collect()
}

fn text<'a>(value: &'a serde_norway::Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} of {value:?}"))
}

fn alert_expressions() -> Vec<LocatedExpression> {
    alerts().iter().map(|alert| (text(alert, "alert").to_owned(), text(alert, "expr").to_owned())).collect()
}

/// Returns the expressions of all panels. A plausible value replaces the variable that Grafana fills in.
fn dashboard_expressions() -> Vec<LocatedExpression> {
    let file: Value =
        serde_json::from_str(include_str!("../../ops/grafana/doppel.json")).expect("the dashboard is JSON");
    let mut found = Vec::new();
    for panel in file["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression").replace("$__rate_interval", "5m");
            found.push((panel["title"].as_str().expect("a title").to_owned(), expression));
        }
    }
    found
}

/// Reads the text exposition format.
fn series(text: &str) -> MetricSeries {
    let mut series = MetricSeries::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
        let labels = series.entry(name.to_owned()).or_default();
        let inside = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')).map_or("", |(inside, _)| inside);
        // No label value of doppel contains a quote. Routes never contain commas and often braces.
        for pair in inside.split("\",").filter(|pair| !pair.is_empty()) {
            let (label, value) = pair.trim_end_matches('"').split_once("=\"").expect("a label");
            labels.entry(label.to_owned()).or_default().insert(value.to_owned());
        }
    }
    series
}

/// Collects the faults of one expression.
struct ExpressionCheck<'a> {
    series: &'a MetricSeries,
    wrong: Vec<String>,
}

impl ExpressionCheck<'_> {
    fn selector(&mut self, selector: &VectorSelector) {
        let Some(name) = &selector.name else { return self.wrong.push("a selector without a name".into()) };
        if PROMETHEUS_METRICS.contains(&name.as_str()) {
            return;
        }
        let Some(labels) = self.series.get(name) else { return self.wrong.push(format!("there is no metric {name}")) };
        for matcher in &selector.matchers.matchers {
            if PROMETHEUS_LABELS.contains(&matcher.name.as_str()) {
                continue;
            }
            match labels.get(&matcher.name) {
                None => self.wrong.push(format!("{name} has no label {}", matcher.name)),
                Some(values) => self.wrong.extend(unknown_values(name, matcher, values)),
            }
        }
    }

    /// Checks that the labels of an aggregation are labels of some metric.
    fn grouping(&mut self, modifier: &LabelModifier) {
        let (LabelModifier::Include(labels) | LabelModifier::Exclude(labels)) = modifier;
        for label in &labels.labels {
            let known = PROMETHEUS_LABELS.contains(&label.as_str())
                || self.series.values().any(|labels| labels.contains_key(label));
            if !known {
                self.wrong.push(format!("nothing has a label {label}"));
            }
        }
    }
}

/// Returns the faults of a matcher: values that no metric has. A status that did not occur (`500`, `5..`) is accepted, because a working
/// service cannot show it.
fn unknown_values(name: &str, matcher: &Matcher, values: &BTreeSet<String>) -> Vec<String> {
    let wanted: Vec<&str> = match &matcher.op {
        _ if matcher.name == "status" => Vec::new(),
        MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').filter(|part| *part != ".*").collect(),
        MatchOp::Equal | MatchOp::NotEqual => vec![&matcher.value],
    };
    let missing = wanted.into_iter().filter(|wanted| !wanted.starts_with('$') && !values.contains(*wanted));
    missing.map(|wanted| format!("{name} has no {}=\"{wanted}\", but {values:?}", matcher.name)).collect()
}

impl ExprVisitor for ExpressionCheck<'_> {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Self::Error> {
        match expression {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(aggregate) => aggregate.modifier.iter().for_each(|modifier| self.grouping(modifier)),
            _ => {}
        }
        Ok(true)
    }
}

/// Returns the faults of the expressions in words.
fn faults(series: &MetricSeries, expressions: &[LocatedExpression]) -> Vec<String> {
    let mut faults = Vec::new();
    for (place, expression) in expressions {
        let mut check = ExpressionCheck { series, wrong: Vec::new() };
        match parse(expression) {
            Ok(parsed) => drop(walk_expr(&mut check, &parsed)),
            Err(error) => check.wrong.push(error),
        }
        faults.extend(check.wrong.into_iter().map(|wrong| format!("{place}: {wrong}")));
    }
    faults
}

/// Creates a database with a letter. Returns the file of a configuration that follows it.
fn followed(folder: &Path) -> String {
    let office = folder.join("office.db");
    let options = SqliteConnectOptions::new().filename(&office).create_if_missing(true);
    tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let mut database = options.connect().await.expect("a database");
        let letters = "CREATE TABLE letters (id TEXT PRIMARY KEY, content TEXT, changed TEXT);
                       INSERT INTO letters VALUES ('1', '三号路的路灯坏了', '2024-03-01 09:12:00')";
        database.execute(letters).await.expect("a table");
    });
    let text = format!(
        "[[source]]\nname = \"office\"\nurl = \"sqlite:{}\"\ntable = \"letters\"\nid = \"id\"\ncollection = \"office\"\n\
         watermark = \"changed\"\nfollow = true\n",
        office.display()
    );
    let path = folder.join("doppel.toml");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("a plain path").to_owned()
}

/// Returns the metrics of a service that has stored, refused and followed records.
fn measured() -> MetricSeries {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kept = folder.path().join("kept");
    let snapshots =
        [("DOPPEL_SNAPSHOTS__DIR", kept.to_str().expect("a plain path")), ("DOPPEL_SNAPSHOTS__EVERY_HOURS", "24")];
    let config = followed(folder.path());
    let server = TestServer::start_with(folder.path().join("data"), &["--config", &config], &snapshots);
    let row = json!({ "content": "桥头的路灯坏了半个月，晚上行人看不清台阶" });
    let records = "/v1/collections/letters/records";
    assert_eq!(server.send("PUT", &format!("{records}/1"), &row).status, 201);
    assert_eq!(server.send("PUT", &format!("{records}/2"), &row).status, 201);
    assert_eq!(server.send("POST", "/v1/collections/letters/check", &row).status, 200);
    assert_eq!(server.send("GET", "/v1/collections/letters/search?q=%E8%B7%AF%E7%81%AF", &Value::Null).status, 200);
    assert_eq!(server.send("GET", "/v1/collections/letters/records/1/related", &Value::Null).status, 200);
    let line = json!({ "id": "3", "content": "桥头的路灯坏了半个月" }).to_string();
    assert_eq!(server.send_text("POST", &format!("{records}/_bulk"), "application/x-ndjson", &line).status, 200);
    let begin = Instant::now();
    loop {
        let measured = series(&server.send("GET", "/metrics", &Value::Null).text);
        let beside = ["doppel_source_sweep_differences", "doppel_snapshot_last_success_seconds"];
        if beside.iter().all(|metric| measured.contains_key(*metric)) {
            return measured;
        }
        assert!(
            begin.elapsed() < A_ROUND,
            "no comparison of a source's ids, or no look at snapshots: {}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
    let series = measured();
    let alerts = alert_expressions();
    let panels = dashboard_expressions();
    assert!(alerts.len() >= 10 && panels.len() >= 10, "{} alerts, {} panels' expressions", alerts.len(), panels.len());
    let found = faults(&series, &[alerts, panels].concat());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_stage_is_measured_for_the_collection_it_was_in() {
    let series = measured();
    let labels = &series["doppel_stage_seconds_count"];
    assert_eq!(labels["stage"], ["commit", "propose", "read", "sign", "verify", "wait"].map(str::to_owned).into());
    assert_eq!(labels["collection"], BTreeSet::from(["letters", "office"].map(str::to_owned)));
}

#[test]
fn a_metric_a_label_or_a_value_that_is_not_there_is_found() {
    let series = measured();
    for (expression, said) in [
        ("rate(doppel_verdict_total[5m]) > 0", "no metric doppel_verdict_total"),
        ("sum by (reasons) (doppel_records)", "nothing has a label reasons"),
        ("doppel_verdicts_total{kind=\"original\"}", "no label kind"),
        ("doppel_verdicts_total{verdict=~\"original|near\"}", "no verdict=\"near\""),
        ("sum(doppel_records", ""),
    ] {
        let found = faults(&series, &[("here".into(), expression.into())]);
        assert!(found.len() == 1 && found[0].contains(said), "{expression}: {found:?}");
    }
}

#[test]
fn every_alert_has_its_section_that_says_what_to_do() {
    let manual = include_str!("../../docs/operations.md");
    let sections: BTreeSet<&str> = manual.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut names = BTreeSet::new();
    for alert in &alerts() {
        let name = text(alert, "alert");
        assert!(names.insert(name.to_owned()), "{name} stands twice");
        assert!(["page", "ticket"].contains(&text(&alert["labels"], "severity")), "{name}");
        assert!(!text(&alert["annotations"], "summary").is_empty(), "{name}");
        let runbook = format!("docs/operations.md#{}", name.to_lowercase());
        assert_eq!(text(&alert["annotations"], "runbook"), runbook);
        assert!(sections.contains(name), "docs/operations.md has no section {name}");
    }
    let described: BTreeSet<String> =
        sections.into_iter().filter(|name| name.starts_with("Doppel")).map(str::to_owned).collect();
    assert_eq!(described, names, "a section without an alert");
}

#[test]
fn the_configuration_of_prometheus_names_the_alerts_and_the_metrics() {
    let text = include_str!("../../ops/prometheus/prometheus.yml");
    let file: serde_norway::Value = serde_norway::from_str(text).expect("YAML");
    let rules = file["rule_files"].as_sequence().expect("rule files");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ops/prometheus");
    for rule in rules {
        let path = folder.join(rule.as_str().expect("a path"));
        assert!(path.is_file(), "{}", path.display());
    }
    let job = &file["scrape_configs"][0];
    assert_eq!(job["job_name"], "doppel", "alerts ask for up{{job=\"doppel\"}}");
    assert!(job["metrics_path"].is_null() || job["metrics_path"] == "/metrics");
}
