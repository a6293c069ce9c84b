//! A service that is killed or stopped at any moment keeps records, decisions, the change feed, search and groups, and they agree.
//!
//! In each round, writers put, replace and delete records, and decide about pairs of them, while a reindex or an erasure may run. The
//! service gets SIGKILL or SIGTERM at a random moment. The next service finishes the task. Then the test compares everything that the
//! service shows with the log of acknowledged calls. A call without an answer may be done or not, but never in part.
//!
//! The texts belong to families: records of one family are copies, records of two families have nothing in common. The groups therefore
//! follow from the records and the decisions.
//!
//! `DOPPEL_TEST_INTERRUPTIONS` sets the number of rounds on the embedded store, and `DOPPEL_TEST_INTERRUPTIONS_MONGODB` on MongoDB, where
//! the next service waits half a minute for the lease of a task of a killed service. `DOPPEL_TEST_SEED` repeats a run.

#![allow(clippy::print_stdout, reason = "a test says what size and seed it ran with")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::home::StoreHome;
use crate::support::{TestRandom, TestResponse, TestServer, setting};
use serde_json::{Value, json};

const COLLECTION: &str = "/v1/collections/whole";
const WRITERS: u64 = 8;
const RECORDS_PER_WRITER: u64 = 50;
const FAMILIES: u64 = 60;
/// Longest wait for tasks, for the search index, and for groups.
const PATIENCE: Duration = Duration::from_secs(120);

/// The ids of two records, the lower id first.
type IdPair = (String, String);

/// The logged state of a record (`T` is its row) or of a pair (`T` is the judgement).
#[derive(Clone, Debug)]
struct LoggedState<T> {
    /// The state after the last acknowledged call; `None` if there is no such record or judgement.
    acknowledged: Option<T>,
    /// The states that later calls without an answer may have left.
    unanswered: Vec<Option<T>>,
}

impl<T> Default for LoggedState<T> {
    fn default() -> Self {
        Self { acknowledged: None, unanswered: Vec::new() }
    }
}

impl<T: PartialEq> LoggedState<T> {
    fn is_possible(&self, found: Option<&T>) -> bool {
        std::iter::once(&self.acknowledged).chain(&self.unanswered).any(|state| state.as_ref() == found)
    }
}

/// The log of all calls.
#[derive(Debug, Default)]
struct CallLog {
    records: BTreeMap<String, LoggedState<Value>>,
    judgements: BTreeMap<IdPair, LoggedState<String>>,
    /// Petitioners whose erasure was acknowledged. No writer uses their names again.
    erased: BTreeSet<String>,
    acknowledged: u64,
}

impl CallLog {
    fn judgements_about(&mut self, id: &str) -> impl Iterator<Item = &mut LoggedState<String>> {
        self.judgements.iter_mut().filter(move |(pair, _)| pair.0 == id || pair.1 == id).map(|(_, expected)| expected)
    }

    /// Records a call about a record. The removal of a record removes the decisions about it.
    fn note_record(&mut self, id: &str, row: Option<Value>, answered: bool) {
        let is_removal = row.is_none();
        let record = self.records.entry(id.to_owned()).or_default();
        if answered {
            *record = LoggedState { acknowledged: row, unanswered: Vec::new() };
        } else {
            record.unanswered.push(row);
        }
        for judgement in self.judgements_about(id).filter(|_| is_removal) {
            if answered {
                *judgement = LoggedState::default();
            } else {
                judgement.unanswered.push(None);
            }
        }
    }

    /// Records a decision, or with `None` the withdrawal of a decision.
    fn note_judgement(&mut self, pair: IdPair, judgement: Option<&str>, answered: bool) {
        // An erasure that is running also removes decisions about its records.
        let records = [&pair.0, &pair.1].into_iter().filter_map(|id| self.records.get(id));
        let may_be_erased = records.into_iter().any(|record| record.unanswered.contains(&None));
        let expected = self.judgements.entry(pair).or_default();
        let judgement = judgement.map(str::to_owned);
        if answered {
            let unanswered = if may_be_erased { vec![None] } else { Vec::new() };
            *expected = LoggedState { acknowledged: judgement, unanswered };
        } else {
            expected.unanswered.push(judgement);
        }
    }

    /// Records that the records of a petitioner may be erased from now on.
    fn note_erasure(&mut self, petitioner: &str) {
        let hit: Vec<String> = self
            .records
            .iter()
            .filter(|(_, expected)| {
                is_by_petitioner(expected.acknowledged.as_ref(), petitioner)
                    || expected.unanswered.iter().any(|row| is_by_petitioner(row.as_ref(), petitioner))
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in hit {
            self.note_record(&id, None, false);
        }
    }
}

fn is_by_petitioner(row: Option<&Value>, petitioner: &str) -> bool {
    row.is_some_and(|row| row["user"] == petitioner)
}

/// Returns the text of a family. Two families share no run of characters, except by chance.
fn text_of(family: u64) -> String {
    let mut random = TestRandom::new(family + 1);
    (0..40).map(|_| char::from_u32(0x4e00 + random.below(2_500) as u32).expect("a character")).collect()
}

/// The calls of one writer. A writer uses only its own ids, so that the order of the calls is known.
struct LetterWriter<'a> {
    server: &'a TestServer,
    log: &'a Mutex<CallLog>,
    random: TestRandom,
    number: u64,
    petitioner: &'a str,
}

impl LetterWriter<'_> {
    fn id(&mut self) -> String {
        format!("w{}-{}", self.number, self.random.below(RECORDS_PER_WRITER))
    }

    fn pair(&mut self) -> Option<IdPair> {
        let one = self.id();
        let other = self.id();
        (one != other).then(|| if one < other { (one, other) } else { (other, one) })
    }

    /// Sends calls until a call gets no answer.
    fn write(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let answered = match self.random.below(100) {
                0..60 => self.put(),
                60..72 => self.delete(),
                72..92 => self.decide(),
                _ => self.withdraw(),
            };
            if !answered {
                return;
            }
        }
    }

    /// Returns true if the call was answered, and asserts that the status is one of `fine`.
    fn send(&self, method: &str, path: &str, body: &Value, fine: &[u16]) -> Option<TestResponse> {
        let response = self.server.try_send(method, &format!("{COLLECTION}{path}"), body)?;
        // A service that stops refuses calls.
        if response.status == 503 {
            return None;
        }
        assert!(fine.contains(&response.status), "{method} {path}: {} {}", response.status, response.text);
        self.log.lock().expect("no writer panicked").acknowledged += 1;
        Some(response)
    }

    fn put(&mut self) -> bool {
        let id = self.id();
        let mut row = json!({ "content": text_of(self.random.below(FAMILIES)) });
        if self.random.below(4) == 0 {
            row["user"] = self.petitioner.into();
        }
        let answer = self.send("PUT", &format!("/records/{id}"), &row, &[200, 201]);
        self.log.lock().expect("no writer panicked").note_record(&id, Some(row), answer.is_some());
        answer.is_some()
    }

    fn delete(&mut self) -> bool {
        let id = self.id();
        let answer = self.send("DELETE", &format!("/records/{id}"), &Value::Null, &[204, 404]);
        self.log.lock().expect("no writer panicked").note_record(&id, None, answer.is_some());
        answer.is_some()
    }

    fn decide(&mut self) -> bool {
        let Some(pair) = self.pair() else { return true };
        let judgement = ["same", "not_same"][self.random.below(2) as usize];
        let path = format!("/decisions/{}/{}", pair.0, pair.1);
        let answer = self.send("PUT", &path, &json!({ "judgement": judgement }), &[200, 201, 404]);
        if answer.as_ref().is_none_or(|answer| answer.status != 404) {
            self.log.lock().expect("no writer panicked").note_judgement(pair, Some(judgement), answer.is_some());
        }
        answer.is_some()
    }

    fn withdraw(&mut self) -> bool {
        let Some(pair) = self.pair() else { return true };
        let path = format!("/decisions/{}/{}", pair.0, pair.1);
        let answer = self.send("DELETE", &path, &Value::Null, &[200, 204, 404]);
        self.log.lock().expect("no writer panicked").note_judgement(pair, None, answer.is_some());
        answer.is_some()
    }
}

/// Runs the writers and a task, and interrupts the service after at most `longest_ms` and 50 milliseconds.
fn write_until_interrupted(
    server: &TestServer,
    log: &Mutex<CallLog>,
    round: u64,
    longest_ms: u64,
    random: &mut TestRandom,
) {
    let seed = random.next();
    let millis = random.below(longest_ms) + 50;
    let signal = ["KILL", "TERM"][random.below(2) as usize];
    let petitioner = format!("信访人{round}");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let stop = &stop;
            let petitioner = &petitioner;
            let mut writer = LetterWriter { server, log, random: TestRandom::new(seed ^ number), number, petitioner };
            scope.spawn(move || writer.write(stop));
        }
        std::thread::sleep(Duration::from_millis(millis / 2));
        match random.below(3) {
            0 => begin_reindex(server),
            1 if round > 0 => begin_erasure(server, log, &format!("信访人{}", round - 1)),
            _ => (),
        }
        std::thread::sleep(Duration::from_millis(millis / 2));
        server.signal(signal);
        server.wait();
        stop.store(true, Ordering::Relaxed);
    });
}

fn begin_reindex(server: &TestServer) {
    let asked = json!({ "collection": "whole", "keep_previous": false, "records_per_second": 400 });
    let answer = server.send("POST", "/v1/admin/reindex", &asked);
    assert!(matches!(answer.status, 202 | 404 | 409 | 503), "{}", answer.text);
}

fn begin_erasure(server: &TestServer, log: &Mutex<CallLog>, petitioner: &str) {
    log.lock().expect("no writer panicked").note_erasure(petitioner);
    let asked = json!({ "collection": "whole", "identity": petitioner, "dry_run": false });
    let answer = server.send("POST", "/v1/admin/erase", &asked);
    match answer.status {
        202 => drop(log.lock().expect("no writer panicked").erased.insert(petitioner.to_owned())),
        status => assert!(matches!(status, 404 | 409 | 503), "{}", answer.text),
    }
}

/// Reads all pages of a list below the collection. Returns nothing if the collection does not exist.
fn list(server: &TestServer, path: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.send("GET", &format!("{COLLECTION}{path}?limit=1000{cursor}"), &Value::Null);
        if page.status == 404 {
            return items;
        }
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        let page = page.json();
        items.extend(page["items"].as_array().expect("a list").iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

/// Reads the whole change feed, and asserts that its numbers ascend.
fn changes(server: &TestServer) -> Vec<Value> {
    let mut all = Vec::new();
    let mut since = 0;
    loop {
        let page = server.send("GET", &format!("{COLLECTION}/changes?since={since}&limit=1000"), &Value::Null);
        if page.status == 404 {
            return all;
        }
        assert_eq!(page.status, 200, "{}", page.text);
        let page = page.json();
        all.extend(page["items"].as_array().expect("a list").iter().cloned());
        since = page["next_since"].as_u64().expect("a number");
        if page["more"] == false {
            let numbers: Vec<u64> = all.iter().map(|change| change["number"].as_u64().expect("a number")).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "the numbers of the feed ascend");
            return all;
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Calls `look` until it returns a value.
fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(begun.elapsed() < PATIENCE, "{what}: {why}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Adds a set of records, and merges it with the sets that have a record in common with it.
fn join(groups: &mut Vec<BTreeSet<String>>, mut added: BTreeSet<String>) {
    groups.retain(|group| {
        let is_apart = group.is_disjoint(&added);
        if !is_apart {
            added.extend(group.iter().cloned());
        }
        is_apart
    });
    groups.push(added);
}

fn is_ended(task: &Value) -> bool {
    matches!(task["status"].as_str(), Some("succeeded" | "failed" | "canceled"))
}

/// Everything that the service shows of the collection.
struct ShownState {
    records: BTreeMap<String, Value>,
    judgements: BTreeMap<IdPair, String>,
}

impl ShownState {
    /// Waits for the end of all tasks and reads records and decisions.
    fn read(server: &TestServer) -> Self {
        until("tasks", || {
            let tasks = server.send("GET", "/v1/tasks?limit=100", &Value::Null).json();
            let tasks = tasks["items"].as_array().expect("a list").clone();
            match tasks.iter().find(|task| !is_ended(task)) {
                None => Ok(()),
                Some(task) => Err(task.to_string()),
            }
        });
        let records = list(server, "/records").into_iter().map(|item| (text(&item["id"]), item["row"].clone()));
        let mut shown = Self { records: records.collect(), judgements: BTreeMap::new() };
        for item in list(server, "/decisions") {
            let judgement = text(&item["judgement"]);
            if judgement != "withdrawn" {
                shown.judgements.insert((text(&item["a"]), text(&item["b"])), judgement);
            }
        }
        shown
    }

    fn compare_with_log(&self, log: &CallLog) {
        for (id, expected) in &log.records {
            let found = self.records.get(id);
            assert!(expected.is_possible(found), "{id}: the log says {expected:?}, the service has {found:?}");
        }
        for (pair, expected) in &log.judgements {
            let found = self.judgements.get(pair);
            assert!(expected.is_possible(found), "{pair:?}: the log says {expected:?}, the service has {found:?}");
        }
        for (id, row) in &self.records {
            assert!(log.records.contains_key(id), "{id} was never written");
            let writer = row["user"].as_str().unwrap_or_default();
            assert!(!log.erased.contains(writer), "{id} was not erased");
        }
        for pair in self.judgements.keys() {
            assert!(log.judgements.contains_key(pair), "nobody decided about {pair:?}");
            let both = self.records.contains_key(&pair.0) && self.records.contains_key(&pair.1);
            assert!(both, "the decision about {pair:?} has outlived a record");
        }
    }

    /// Asserts that the last change of each record and of each pair agrees with the present state.
    fn compare_with_feed(&self, server: &TestServer) {
        let mut records = BTreeMap::new();
        let mut judgements = BTreeMap::new();
        for change in changes(server) {
            let id = text(&change["id"]);
            match change["kind"].as_str().expect("a kind") {
                "decided" => drop(judgements.insert((id, text(&change["other"])), text(&change["judgement"]))),
                kind => drop(records.insert(id, kind != "removed")),
            }
        }
        let present: BTreeSet<&String> = records.iter().filter(|(_, is_there)| **is_there).map(|(id, _)| id).collect();
        assert!(present.iter().copied().eq(self.records.keys()), "the feed has other records: {present:?}");
        for (pair, judgement) in &self.judgements {
            assert_eq!(judgements.get(pair), Some(judgement), "the last decision about {pair:?} in the feed");
        }
    }

    /// Returns the groups that follow from the records and decisions: copies are linked unless a person decided otherwise.
    fn expected_groups(&self) -> BTreeSet<Vec<String>> {
        let ids: Vec<&String> = self.records.keys().collect();
        let mut group_of: Vec<usize> = (0..ids.len()).collect();
        for (b, other) in ids.iter().enumerate() {
            for (a, one) in ids[..b].iter().enumerate() {
                let are_copies = self.records[*one]["content"] == self.records[*other]["content"];
                let judgement = self.judgements.get(&((*one).clone(), (*other).clone()));
                let is_linked = judgement.map_or(are_copies, |judgement| judgement == "same");
                let kept = group_of[a];
                let merged = group_of[b];
                if is_linked && kept != merged {
                    group_of.iter_mut().filter(|group| **group == merged).for_each(|group| *group = kept);
                }
            }
        }
        let mut groups: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (group, id) in group_of.into_iter().zip(ids) {
            groups.entry(group).or_default().push(id.clone());
        }
        groups.into_values().filter(|members| members.len() > 1).collect()
    }

    /// Compares the groups. If a cut pair is the only link between two parts, the parts are first merged again.
    fn compare_groups(&self, server: &TestServer) {
        let expected = self.expected_groups();
        until("groups", || {
            let mut found: Vec<BTreeSet<String>> = Vec::new();
            for group in list(server, "/groups") {
                let detail = server.send("GET", &format!("{COLLECTION}/groups/{}", text(&group["id"])), &Value::Null);
                assert_eq!(detail.status, 200, "{}", detail.text);
                let detail = detail.json();
                join(&mut found, detail["members"].as_array().expect("a list").iter().map(text).collect());
                for pair in detail["cut"].as_array().expect("a list") {
                    join(&mut found, BTreeSet::from([text(&pair["earlier"]), text(&pair["later"])]));
                }
            }
            let found: BTreeSet<Vec<String>> = found.into_iter().map(|group| group.into_iter().collect()).collect();
            if found == expected {
                return Ok(());
            }
            let shown = found.difference(&expected).collect::<Vec<_>>();
            Err(format!("shown {shown:?}, expected {:?}", expected.difference(&found).collect::<Vec<_>>()))
        });
    }

    /// Compares the search for a passage of each tenth family with the texts.
    fn compare_search(&self, server: &TestServer) {
        for family in (0..FAMILIES).step_by(10) {
            let passage: String = text_of(family).chars().take(6).collect();
            let expected: BTreeSet<String> = self
                .records
                .iter()
                .filter(|(_, row)| row["content"].as_str().is_some_and(|content| content.starts_with(&passage)))
                .map(|(id, _)| id.clone())
                .collect();
            let quoted = percent_encoding::utf8_percent_encode(&passage, percent_encoding::NON_ALPHANUMERIC);
            let path = format!("{COLLECTION}/search?q=%22{quoted}%22&limit=100");
            until("search", || {
                let answer = server.send("GET", &path, &Value::Null);
                if answer.status == 503 || answer.json()["as_of"]["behind"] != 0 {
                    return Err(answer.text);
                }
                let found: BTreeSet<String> =
                    answer.json()["items"].as_array().expect("a list").iter().map(|item| text(&item["id"])).collect();
                assert!(found == expected, "{:?}", found.symmetric_difference(&expected).collect::<Vec<_>>());
                Ok(())
            });
        }
    }
}

fn verify(server: &TestServer, log: &CallLog) -> usize {
    let shown = ShownState::read(server);
    shown.compare_with_log(log);
    if !shown.records.is_empty() {
        shown.compare_with_feed(server);
        shown.compare_groups(server);
        shown.compare_search(server);
    }
    shown.expected_groups().len()
}

fn interrupt(home: &StoreHome, rounds: u64, longest_ms: u64) {
    let seed = setting("DOPPEL_TEST_SEED", 20_261_128);
    println!("{}: rounds {rounds}, seed {seed}", home.name());
    let mut random = TestRandom::new(seed);
    let log = Mutex::new(CallLog::default());
    let mut groups = 0;
    for round in 0..rounds {
        let server = home.start(&[]);
        groups += verify(&server, &log.lock().expect("no writer panicked"));
        write_until_interrupted(&server, &log, round, longest_ms, &mut random);
    }
    let server = home.start(&[]);
    let log = log.into_inner().expect("no writer panicked");
    groups += verify(&server, &log);
    server.stop();
    home.doctor();
    println!("{} acknowledged calls, {} erasures, {groups} groups compared", log.acknowledged, log.erased.len());
    assert!(log.acknowledged > rounds * 20 && groups > 0, "too few calls were acknowledged: the rounds prove nothing");
}

#[test]
fn interruptions_lose_nothing_and_records_decisions_feed_search_and_groups_agree() {
    interrupt(&StoreHome::folder(), setting("DOPPEL_TEST_INTERRUPTIONS", 6), 700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_mongodb_interruptions_lose_nothing_and_all_parts_agree() {
    let mongo = crate::mongod::SharedMongod::start().await;
    let home = StoreHome::database(mongo.uri());
    // A call takes longer than with the embedded store.
    interrupt(&home, setting("DOPPEL_TEST_INTERRUPTIONS_MONGODB", 2), 3_000);
    home.forget().await;
}
