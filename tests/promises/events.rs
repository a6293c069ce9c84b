//! Events follow the records and decisions, and a service that was killed finds the same events again.

use std::collections::BTreeSet;

use crate::home::StoreHome;
use crate::mongod::SharedMongod;
use crate::support::{TestRandom, TestServer, ids, setting};
use crate::templates;
use serde_json::{Value, json};

/// Made-up problems, each in three wordings.
const PROBLEMS: [[&str; 3]; 4] = [
    ["的路灯连续多日不亮，晚上漆黑一片。", "照明全部坏了，夜里看不见路。", "整条都没有灯光，路灯没人修。"],
    ["垃圾堆放多日无人清运，苍蝇乱飞。", "垃圾桶满了没人清理，卫生很差。", "到处是建筑垃圾，环境脏乱差。"],
    ["夜间施工到凌晨，噪音严重扰民。", "工地半夜还在打桩，噪音吵得睡不着。", "通宵施工，噪音很大，居民无法休息。"],
    ["路面坑洼不平，电动车摔倒。", "道路破损严重，到处是坑。", "路面塌陷没有修复，行人绊倒。"],
];
/// Number of changes between two kills.
const CHANGES: u64 = 30;
const COLLECTION: &str = "/v1/collections/c";

/// An office that adds, replaces and deletes letters all the time.
struct RestlessOffice {
    rng: TestRandom,
    places: Vec<String>,
    ids: Vec<String>,
    count: u64,
}

impl RestlessOffice {
    fn new(seed: u64) -> Self {
        let mut rng = TestRandom::new(seed);
        let places = (0..24).map(|_| templates::name(&mut rng, "路")).collect();
        Self { rng, places, ids: Vec::new(), count: 0 }
    }

    fn letter(&mut self) -> Value {
        let place = self.rng.below(self.places.len() as u64) as usize;
        // Two problems at each place.
        let problem = (place + self.rng.below(2) as usize) % PROBLEMS.len();
        let words = PROBLEMS[problem][self.rng.below(3) as usize];
        let day = 1 + self.rng.below(28);
        json!({"content": format!("市民反映{}{words}", self.places[place]), "time": format!("2024-03-{day:02} 08:00")})
    }

    fn known(&mut self) -> String {
        let at = self.rng.below(self.ids.len() as u64) as usize;
        self.ids[at].clone()
    }

    /// Registers, replaces or deletes a record, or decides about two records.
    fn change(&mut self, server: &TestServer) {
        let kind = self.rng.below(10);
        if self.ids.len() < 3 || kind < 6 {
            let id = format!("r{:04}", self.count);
            self.count += 1;
            let answer = server.send("PUT", &format!("{COLLECTION}/records/{id}"), &self.letter());
            assert_eq!(answer.status, 201, "{}", answer.text);
            self.ids.push(id);
            return;
        }
        let id = self.known();
        let other = self.known();
        match kind {
            6 => {
                let letter = self.letter();
                let answer = server.send("PUT", &format!("{COLLECTION}/records/{id}"), &letter);
                assert_eq!(answer.status, 200, "{}", answer.text);
            }
            7 => {
                let answer = server.send("DELETE", &format!("{COLLECTION}/records/{id}"), &Value::Null);
                assert_eq!(answer.status, 204, "{}", answer.text);
                self.ids.retain(|known| *known != id);
            }
            _ if id != other => {
                let judgement = if kind == 8 { "same" } else { "not_same" };
                let path = format!("{COLLECTION}/decisions/{id}/{other}");
                let answer = server.send("PUT", &path, &json!({ "judgement": judgement }));
                assert!([200, 201].contains(&answer.status), "{}", answer.text);
            }
            _ => {}
        }
    }
}

/// Returns the members of all events.
fn events(server: &TestServer) -> BTreeSet<Vec<String>> {
    let path = format!("{COLLECTION}/events?limit=200");
    let mut page = server.send("GET", &path, &Value::Null);
    for _ in 0..10 {
        if page.status != 503 {
            break;
        }
        // A slow machine needs more than one request to read all records after a start.
        page = server.send("GET", &path, &Value::Null);
    }
    assert_eq!(page.status, 200, "{}", page.text);
    let page = page.json();
    assert_eq!(page["next"], Value::Null, "all events are on one page");
    let members = ids(&page["items"]).into_iter().map(|id| {
        let event = server.send("GET", &format!("{COLLECTION}/events/{id}"), &Value::Null).json();
        ids(&event["members"]).into_iter().map(str::to_owned).collect()
    });
    members.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_service_finds_the_events_that_it_had_followed() {
    let rounds = setting("DOPPEL_TEST_EVENT_ROUNDS", 6);
    let mongo = SharedMongod::start().await;
    for home in [StoreHome::folder(), StoreHome::database(mongo.uri())] {
        let mut office = RestlessOffice::new(setting("DOPPEL_TEST_SEED", 11));
        let mut server = home.start(&[]);
        let mut found = 0;
        for round in 0..rounds {
            for _ in 0..CHANGES {
                office.change(&server);
                if office.rng.below(5) == 0 {
                    events(&server);
                }
            }
            server.settle();
            let followed = events(&server);
            found += followed.len();
            server.kill();
            server = home.start(&[]);
            server.settle();
            assert_eq!(events(&server), followed, "{}: round {round}", home.name());
        }
        assert!(found > 20, "{found} events");
        server.stop();
        home.forget().await;
    }
}
