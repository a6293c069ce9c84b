//! Webhooks with two instances on one database: one instance sends messages, and the other instance continues when the first is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::receiver::{Manner, Received, Receiver, configuration};
use crate::support::TestServer;

/// Number of matters. Each has one original and one repeat.
const MATTERS: usize = TEXTS.len();
const TEXTS: [&str; 8] = [
    "枫叶里小区南门外的路灯连续三晚没有亮，夜间行人看不清台阶，请尽快安排检修。",
    "石榴湾菜市场后面的垃圾堆了一个星期，气味难闻，苍蝇很多，没有人来清运。",
    "河口新区工地半夜还在打桩，附近居民无法入睡，希望有关部门制止夜间施工。",
    "桐树坪小学门口的斑马线磨得看不见了，家长接送孩子时车速很快，非常危险。",
    "我在锦江大厦的物业公司上班，已经四个月没有领到工资，请劳动部门帮助讨要。",
    "青石桥公交站的站牌被撞倒了，老人不知道几路车停靠，麻烦公交公司修好。",
    "白鹭公园的健身器材断了一根横杆，昨天有小孩摔伤，需要马上更换。",
    "云栖花园三期自来水发黄有铁锈味，烧开以后还有沉淀，不敢给孩子喝。",
];
/// Longest time until the other instance takes over: a lease of 90 seconds, and some time to notice its end.
const TAKEN_OVER: Duration = Duration::from_secs(150);

fn instance(uri: &str, database: &str, configuration: &str, folder: &Path) -> TestServer {
    let environment =
        [("DOPPEL_STORE__KIND", "mongodb"), ("DOPPEL_STORE__URI", uri), ("DOPPEL_STORE__DATABASE", database)];
    TestServer::start_with(folder, &["--config", configuration], &environment)
}

/// Registers a record under one id, in a collection that exists.
fn put(server: &TestServer, id: &str, matter: usize) {
    let answer =
        server.send("PUT", &format!("/v1/collections/letters/records/{id}"), &json!({ "content": TEXTS[matter] }));
    assert!(answer.status < 300, "{}", answer.text);
}

/// Returns the ids of the records of the messages about repeats, each with its messages.
fn told(received: &[Received]) -> BTreeMap<String, Vec<Received>> {
    let mut told: BTreeMap<String, Vec<Received>> = BTreeMap::new();
    for message in received {
        let body: Value = message.json();
        assert_eq!(body["type"], "record.repeat");
        told.entry(body["data"]["id"].as_str().expect("an id").to_owned()).or_default().push(message.clone());
    }
    told
}

fn wait_for(receiver: &Receiver, records: usize) -> BTreeMap<String, Vec<Received>> {
    let until = Instant::now() + TAKEN_OVER;
    loop {
        let told = told(&receiver.received.lock());
        if told.len() >= records {
            return told;
        }
        assert!(Instant::now() < until, "{} of {records} repeats were told", told.len());
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_repeat_is_reported_although_the_sending_instance_is_killed() {
    let mongo = crate::mongod::SharedMongod::start().await;
    let database = crate::mongod::database("webhooks");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let receiver = Receiver::start(0, Manner::Status(204));
    let file = configuration(folder.path(), &receiver.url(), "messages = [\"record.repeat\"]");
    let [one, other] = ["one", "other"].map(|name| instance(mongo.uri(), &database, &file, &folder.path().join(name)));

    // The instances take turns. The instance with the lease reports half of the repeats.
    for matter in 0..MATTERS / 2 {
        put(&one, &format!("first-{matter}"), matter);
        put(&other, &format!("again-{matter}"), matter);
    }
    let before = wait_for(&receiver, MATTERS / 2);
    assert!(before.values().all(|messages| messages.len() == 1), "two instances sent one message");

    // The first instance has the lease, because it was started first. Messages wait while nobody receives them.
    *receiver.manner.lock() = Manner::Status(503);
    for matter in MATTERS / 2..MATTERS {
        put(&one, &format!("first-{matter}"), matter);
        put(&other, &format!("again-{matter}"), matter);
    }
    std::thread::sleep(Duration::from_secs(2));
    one.kill();
    *receiver.manner.lock() = Manner::Status(204);
    let told = wait_for(&receiver, MATTERS);
    let expected: Vec<String> = (0..MATTERS).map(|matter| format!("again-{matter}")).collect();
    assert_eq!(told.keys().cloned().collect::<Vec<_>>(), {
        let mut sorted = expected;
        sorted.sort();
        sorted
    });
    for (record, messages) in &told {
        // A message may arrive twice if its sender is killed before it stores the answer. Both copies have the same id.
        assert!(messages.iter().all(|message| message.id == messages[0].id), "{record} has two ids");
    }
    other.stop();
    crate::mongod::drop_database(mongo.uri(), &database).await;
}
