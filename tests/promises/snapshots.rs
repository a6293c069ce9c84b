//! A snapshot that is taken while eight writers write shows one moment: it contains all writes that were acknowledged before the snapshot
//! was requested, no write that was sent after the request was answered, and a prefix of each writer's changes. A restored snapshot opens,
//! and the doctor finds no fault.
//!
//! Writers put, replace and delete records of related texts and decide about pairs. Snapshots are taken at fixed intervals, alternately
//! into a directory and as streams. Afterwards each snapshot is restored and compared with the log of acknowledged writes.
//!
//! `DOPPEL_TEST_SNAPSHOTS` sets the number of snapshots and `DOPPEL_TEST_SNAPSHOTS_EVERY_MS` the interval (12 and 5,000 for acceptance).
//! `DOPPEL_TEST_SEED` repeats a run.

#![allow(clippy::print_stdout, reason = "a test says what size and seed it ran with")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{TestRandom, TestServer, run, setting};
use serde_json::{Value, json};

const WRITERS: usize = 8;
/// Number of ids of each writer.
const IDS: u64 = 60;
/// Longest wait for a snapshot.
const PATIENCE: Duration = Duration::from_secs(120);

/// A change by a writer: the new row of the id (`None`: deleted), and the ticks of the common clock before the call and after the answer.
#[derive(Clone, Debug)]
struct LoggedWrite {
    id: String,
    row: Option<Value>,
    called: u64,
    answered: u64,
}

/// A snapshot, and the ticks before the request and after the answer. The moment of the snapshot is between these ticks.
#[derive(Debug)]
struct TickedSnapshot {
    at: PathBuf,
    id: Option<String>,
    asked: u64,
    answered: u64,
}

/// A clock that all threads share.
#[derive(Default)]
struct SharedClock(AtomicU64);

impl SharedClock {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

#[test]
fn each_snapshot_under_eight_writers_is_one_moment_and_restores_to_it() {
    let count = setting("DOPPEL_TEST_SNAPSHOTS", 3);
    let every = setting("DOPPEL_TEST_SNAPSHOTS_EVERY_MS", 300);
    let seed = setting("DOPPEL_TEST_SEED", 20_261_124);
    println!("{count} snapshots, one every {every} ms, seed {seed}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let kept = folder.path().join("kept");
    let dir = kept.to_str().expect("a path").to_owned();
    let server = TestServer::start_with(&data, &[], &[("DOPPEL_SNAPSHOTS__DIR", &dir)]);
    let clock = SharedClock::default();
    let stop = AtomicBool::new(false);
    let (logs, taken) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let server = &server;
                let clock = &clock;
                let stop = &stop;
                scope.spawn(move || write(server, clock, stop, writer, seed))
            })
            .collect();
        let taken: Vec<TickedSnapshot> = (0..count)
            .map(|number| {
                std::thread::sleep(Duration::from_millis(every));
                match number % 3 {
                    2 => stream(&server, &clock, folder.path(), number),
                    _ => keep(&server, &clock, &kept),
                }
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        let logs: Vec<Vec<LoggedWrite>> =
            writers.into_iter().map(|writer| writer.join().expect("no writer fails")).collect();
        (logs, taken)
    });
    server.stop();
    let verified = run(&["snapshot", "verify", &dir], &[]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    for (number, snapshot) in taken.iter().enumerate() {
        let to = folder.path().join(format!("restored-{number}"));
        restore(snapshot, &to);
        compare(&to, snapshot, &logs);
        std::fs::remove_dir_all(&to).expect("it can be removed");
    }
    let writes: usize = logs.iter().map(Vec::len).sum();
    println!("{writes} acknowledged writes, {} snapshots", taken.len());
    assert!(writes > 50, "only {writes} writes were acknowledged: this proves nothing");
}

/// Puts, replaces and deletes records of this writer, one after another.
fn write(server: &TestServer, clock: &SharedClock, stop: &AtomicBool, writer: usize, seed: u64) -> Vec<LoggedWrite> {
    let mut random = TestRandom::new(seed ^ writer as u64);
    let mut log: Vec<LoggedWrite> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let id = format!("w{writer}-{}", random.below(IDS));
        let row = (random.below(6) > 0).then(|| row(&mut random));
        let path = format!("/v1/collections/letters/records/{id}");
        let called = clock.tick();
        let answer = match &row {
            Some(row) => server.send("PUT", &path, row),
            None => server.send("DELETE", &path, &Value::Null),
        };
        let fine = matches!(answer.status, 200 | 201 | 204) || row.is_none() && answer.status == 404;
        assert!(fine, "{path}: {} {}", answer.status, answer.text);
        log.push(LoggedWrite { id, row, called, answered: clock.tick() });
        if let Some(last) = log.len().checked_sub(2).map(|last| log[last].id.clone())
            && random.below(10) == 0
        {
            let pair = format!("/v1/collections/letters/decisions/{}/{last}", log[log.len() - 1].id);
            // The call may fail: one of the records may be deleted, or both ids may be the same.
            server.send("PUT", &pair, &json!({ "judgement": "not_same", "by": "a test" }));
        }
    }
    log
}

/// Returns an invented complaint. It has so few parts that many records match one another.
fn row(random: &mut TestRandom) -> Value {
    let place = ["城东", "城西", "河口", "新桥", "石门", "柳林"][random.below(6) as usize];
    let what = [
        "公交站台的顶棚破了,下雨天乘客没有地方躲,盼望修补",
        "河边栏杆断了一截,孩子经常在那里玩耍,十分危险",
        "菜市场门口占道经营,早上车辆无法通行,请求整治",
    ][random.below(3) as usize];
    json!({ "title": format!("{place}来信"), "content": format!("{place}片区{what}。第{}次反映。", random.below(1_000_000)) })
}

/// Takes a snapshot into the directory.
fn keep(server: &TestServer, clock: &SharedClock, kept: &Path) -> TickedSnapshot {
    let asked = clock.tick();
    let begun = server.send("POST", "/v1/admin/snapshots", &Value::Null);
    let answered = clock.tick();
    assert_eq!(begun.status, 202, "{}", begun.text);
    let given_up = Instant::now() + PATIENCE;
    loop {
        let run = server.send("GET", "/v1/admin/snapshots", &Value::Null).json()["run"].take();
        match run["status"].as_str() {
            Some("succeeded") => {
                let id = run["id"].as_str().map(ToOwned::to_owned);
                return TickedSnapshot { at: kept.to_owned(), id, asked, answered };
            }
            Some("processing") => assert!(Instant::now() < given_up, "{run}"),
            _ => panic!("{run}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes a snapshot as a file.
fn stream(server: &TestServer, clock: &SharedClock, folder: &Path, number: u64) -> TickedSnapshot {
    let at = folder.join(format!("{number}.snapshot"));
    let asked = clock.tick();
    let created = run(&["snapshot", "create", "--from", server.url(), "--out", at.to_str().expect("a path")], &[]);
    let answered = clock.tick();
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    TickedSnapshot { at, id: None, asked, answered }
}

fn restore(snapshot: &TickedSnapshot, to: &Path) {
    let mut arguments = vec!["snapshot", "restore", snapshot.at.to_str().expect("a path")];
    arguments.extend(["--data", to.to_str().expect("a path")]);
    arguments.extend(snapshot.id.iter().flat_map(|id| ["--id", id]));
    let restored = run(&arguments, &[]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let doctor = run(&["doctor", "--data", to.to_str().expect("a path")], &[]);
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.status.success() && said.contains(" 0 faults"), "{said}");
}

/// Compares the restored records with the changes that each writer had made by then.
fn compare(restored: &Path, snapshot: &TickedSnapshot, logs: &[Vec<LoggedWrite>]) {
    let server = TestServer::start_in(restored);
    let mut stored = list(&server);
    for (writer, log) in logs.iter().enumerate() {
        let held: BTreeMap<String, Value> = {
            let prefix = format!("w{writer}-");
            let ids: Vec<String> = stored.keys().filter(|id| id.starts_with(&prefix)).cloned().collect();
            ids.into_iter().filter_map(|id| stored.remove_entry(&id)).collect()
        };
        // A write that was answered before the request is in the snapshot; a write that was called after the answer is not; a write between
        // them may be.
        let least = log.iter().take_while(|write| write.answered < snapshot.asked).count();
        let most = log.iter().take_while(|write| write.called < snapshot.answered).count();
        let fits = (least..=most).any(|count| state(&log[..count]) == held);
        assert!(fits, "{snapshot:?}: writer {writer} had done {least} to {most} of {} changes", log.len());
    }
    assert!(stored.is_empty(), "never written: {:?}", stored.keys().collect::<Vec<_>>());
}

/// Returns the records after these changes.
fn state(log: &[LoggedWrite]) -> BTreeMap<String, Value> {
    let mut state = BTreeMap::new();
    for LoggedWrite { id, row, .. } in log {
        match row {
            Some(row) => state.insert(id.clone(), row.clone()),
            None => state.remove(id),
        };
    }
    state
}

fn list(server: &TestServer) -> BTreeMap<String, Value> {
    let mut stored = BTreeMap::new();
    let mut next = String::new();
    loop {
        let page = server.send("GET", &format!("/v1/collections/letters/records?limit=1000{next}"), &Value::Null);
        if page.status == 404 {
            return stored;
        }
        let page = page.json();
        for item in page["items"].as_array().expect("a list") {
            stored.insert(item["id"].as_str().expect("an id").to_owned(), item["row"].clone());
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return stored,
        }
    }
}

#[test]
fn a_service_killed_while_it_takes_a_snapshot_leaves_the_earlier_ones_whole_and_none_half_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let kept = folder.path().join("kept");
    let dir = kept.to_str().expect("a path").to_owned();
    let clock = SharedClock::default();
    let server = start_with_failpoints("", &data, &dir);
    let mut random = TestRandom::new(setting("DOPPEL_TEST_SEED", 20_261_124));
    put_letters(&server, &mut random);
    let first = keep(&server, &clock, &kept);
    let before = list(&server);
    server.stop();
    for point in [
        "snapshot::chunk=1*off->sleep(60000)",
        "snapshot::chunk=3*off->sleep(60000)",
        "snapshot::manifest=sleep(60000)",
    ] {
        let server = start_with_failpoints(point, &data, &dir);
        put_letters(&server, &mut random);
        assert_eq!(server.send("POST", "/v1/admin/snapshots", &Value::Null).status, 202);
        // The snapshot may or may not have reached the failpoint, but it does not end.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(server.send("POST", "/v1/admin/snapshots", &Value::Null).status, 409, "there is one");
        server.kill();
        let listed = run(&["snapshot", "list", &dir], &[]);
        assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 2, "the heads and the first one");
        let verified = run(&["snapshot", "verify", &dir], &[]);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    }
    let to = folder.path().join("restored");
    restore(&first, &to);
    let restored = TestServer::start_in(&to);
    assert_eq!(list(&restored), before);
    restored.stop();
    // Chunks of the killed snapshots are used or removed.
    let server = start_with_failpoints("", &data, &dir);
    keep(&server, &clock, &kept);
    server.stop();
    let pruned = run(&["snapshot", "prune", &dir, "--keep", "1"], &[]);
    assert!(pruned.status.success(), "{}", String::from_utf8_lossy(&pruned.stderr));
    let verified = run(&["snapshot", "verify", &dir], &[]);
    let said = String::from_utf8_lossy(&verified.stdout);
    assert!(verified.status.success() && said.lines().count() == 1, "{said}");
}

fn start_with_failpoints(failpoints: &str, data: &Path, dir: &str) -> TestServer {
    TestServer::start_with(data, &[], &[("DOPPEL_SNAPSHOTS__DIR", dir), ("FAILPOINTS", failpoints)])
}

fn put_letters(server: &TestServer, random: &mut TestRandom) {
    for number in 0..20 {
        let path = format!("/v1/collections/letters/records/{number}");
        assert!(server.send("PUT", &path, &row(random)).status < 300);
    }
}
