//! Records on the same form are not duplicates: orders that operators write with a form are different from calls about one matter, and a
//! growing collection learns its common phrases.

use std::time::{Duration, Instant};

use crate::support::{TestDesk, TestRandom, TestServer, ids};
use serde_json::{Value, json};

/// Longest wait until groups follow a change. The promise is one minute.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(60);
const SYLLABLES: &str = "鹤鸣梧桐雁坪松岗砚溪柳塘栖霞竹影听涛望云锦绣翠微桃源清漪澜岸枫桥兰亭杏林榆荫槐安棠湖荷塘菱角";

pub(crate) fn name(rng: &mut TestRandom, ending: &str) -> String {
    let syllables: Vec<char> = SYLLABLES.chars().collect();
    // The name has four syllables out of more than forty. Two names that differ in only one character could count as misspellings, but they
    // are hardly ever drawn.
    format!(
        "{}{}{}{}{ending}",
        random_syllable(rng, &syllables),
        random_syllable(rng, &syllables),
        random_syllable(rng, &syllables),
        random_syllable(rng, &syllables)
    )
}

fn random_syllable(rng: &mut TestRandom, syllables: &[char]) -> char {
    syllables[rng.below(syllables.len() as u64) as usize]
}

pub(crate) fn order(road: &str, estate: &str) -> Value {
    json!({
        "title": format!("关于{road}{estate}门口路灯损坏的问题"),
        "content": format!(
            "市民来电反映：{road}{estate}门口的路灯已经损坏，夜间通行存在安全隐患，请主管单位在规定时间内派人到现场核实维修，\
             并将处理结果回复市民。（请承办单位及时联系市民并按时反馈）"
        ),
    })
}

pub(crate) fn again(road: &str, estate: &str) -> Value {
    json!({
        "title": format!("再次反映{road}{estate}路灯"),
        "content": format!("来电人称{road}{estate}门口路灯损坏以后一直没有人维修，老人夜间出门摔倒，要求尽快处理并答复。"),
    })
}

/// Registers many orders on one form, each about another place. Returns the places.
fn with_orders(name_of: &str, count: usize) -> (TestDesk, Vec<(String, String)>) {
    let desk = TestDesk::new(name_of);
    let mut rng = TestRandom::new(7);
    let places: Vec<_> = (0..count).map(|_| (name(&mut rng, "路"), name(&mut rng, "小区"))).collect();
    for (number, (road, estate)) in places.iter().enumerate() {
        desk.register(&format!("o{number}"), &order(road, estate));
    }
    (desk, places)
}

#[test]
fn orders_of_one_form_about_other_places_are_no_duplicates_and_a_call_about_the_same_place_is() {
    let (desk, places) = with_orders("orders", 150);
    let counted = desk.ask("POST", "/statistics", &Value::Null);
    assert!(counted["version"].as_u64() >= Some(1) && counted["records"] == 150, "{counted}");
    for number in [3, 77, 149] {
        let (road, estate) = &places[number];
        let found = desk.ask("POST", "/similar", &again(road, estate));
        assert_eq!(ids(&found["similar"]), [format!("o{number}")], "{found}");
        let same = desk.ask("POST", "/similar", &order(road, estate));
        assert_eq!(ids(&same["similar"]), [format!("o{number}")]);
    }
    let mut rng = TestRandom::new(1_000);
    let road = name(&mut rng, "路");
    let estate = name(&mut rng, "小区");
    let verdict = desk.register("new", &order(&road, &estate));
    assert_eq!((&verdict["verdict"], &verdict["statistics"]), (&json!("original"), &counted["version"]), "{verdict}");
    // The names are random, and some are similar: a few orders may look like one matter, but never a large number.
    let groups = desk.ask("GET", "/groups", &Value::Null);
    let sizes = groups["items"].as_array().expect("a list").iter().filter_map(|group| group["size"].as_u64());
    assert!(sizes.max().unwrap_or(0) <= 15, "{groups}");
}

#[test]
fn orders_about_numbered_roads_are_distinguished_without_counted_statistics() {
    let desk = TestDesk::new("numbered");
    let roads = ["松岗", "学府", "青石桥", "梧桐湾"]
        .map(|base| "一二三四五六七八九十".chars().map(move |n| format!("{base}{n}路")));
    let roads: Vec<String> = roads.into_iter().flatten().collect();
    for (number, road) in roads.iter().enumerate() {
        let verdict = desk.register(&format!("n{number}"), &order_about(road));
        assert_eq!((&verdict["verdict"], &verdict["statistics"]), (&json!("original"), &json!(0)), "{road} {verdict}");
    }
    let again = desk.register("again", &order_about("学府三路"));
    assert_eq!(again["duplicate_of"], "n12", "{again}");
    desk.ask("POST", "/statistics", &Value::Null);
    let unrecognised = desk.register("unrecognised", &order_about("我家楼上"));
    assert_eq!(unrecognised["verdict"], "original", "{unrecognised}");
    let groups = desk.ask("GET", "/groups", &Value::Null);
    assert_eq!(
        groups["items"].as_array().map(|groups| (groups.len(), &groups[0]["size"])),
        Some((1, &json!(2))),
        "{groups}"
    );
}

fn order_about(what: &str) -> Value {
    json!({"content": format!(
        "市民来电反映{what}自来水从三月五日起水压不足，五楼以上住户只能等到半夜接水，水厂答复说管网改造，没有给出恢复时间，\
         请相关单位尽快核实处理并答复市民。"
    )})
}

#[test]
fn templates_are_listed_when_asked_for_with_what_differs() {
    let (desk, places) = with_orders("templates", 40);
    desk.ask("POST", "/statistics", &Value::Null);
    let (road, estate) = &places[5];
    let plain = desk.ask("GET", "/records/o5/similar", &Value::Null);
    assert_eq!(plain["similar"], json!([]));
    let listed = desk.ask("GET", "/records/o5/similar?templates=true&limit=256", &Value::Null);
    let templates = listed["similar"].as_array().expect("a list");
    assert!(templates.len() >= 30 && templates.iter().all(|m| m["template"] == true), "{listed}");
    let first = &templates[0]["differs"];
    assert!(names_road("a", road, estate, first) && !names_road("b", road, estate, first), "{first}");
    // Matches come before templates and are not marked as templates.
    let both = desk.ask("POST", "/similar?templates=true&limit=256", &again(road, estate));
    assert_eq!((&both["similar"][0]["id"], both["similar"][0].get("template")), (&json!("o5"), None));
    let wrong = desk.send("GET", "/records/o5/similar?templates=2", &Value::Null);
    assert_eq!((wrong.status, &wrong.json()["errors"][0]["pointer"]), (422, &json!("?templates")));
}

fn names_road(side: &str, road: &str, estate: &str, first: &Value) -> bool {
    first
        .as_array()
        .expect("a list")
        .iter()
        .any(|d| d[side].as_str().is_some_and(|name| name == road || name == estate))
}

#[test]
fn explain_shows_how_common_a_passage_is_and_the_differences() {
    let (desk, places) = with_orders("explained", 80);
    desk.ask("POST", "/statistics", &Value::Null);
    let template = desk.ask("POST", "/explain", &json!({"a": order_reference(1), "b": order_reference(2)}));
    assert_eq!(template["matches"], false);
    let form = &template["passages"][0];
    assert!(form["weight"].as_f64() < Some(0.2) && form["common"].as_f64() > Some(0.05), "{form}");
    assert_eq!(template["differs"][0]["a"].as_str().map(|name| places[1].0 == name || places[1].1 == name), Some(true));
    let (road, estate) = &places[1];
    let match_of = desk.ask("POST", "/explain", &json!({"a": order_reference(1), "b": {"row": again(road, estate)}}));
    assert_eq!((&match_of["matches"], &match_of["differs"]), (&json!(true), &json!([])), "{match_of}");
    let rare = match_of["passages"].as_array().expect("a list").iter().find(|passage| passage["common"].is_null());
    assert!(rare.is_some_and(|passage| passage["weight"].as_f64() > Some(0.5)), "{match_of}");
}

fn order_reference(number: usize) -> Value {
    json!({"id": format!("o{number}")})
}

#[test]
fn pairs_that_statistics_refuse_leave_their_groups_and_what_a_person_decided_stays() {
    // Different questions on the same form contain no names, so that only the frequency of their passages distinguishes them.
    let mut rng = TestRandom::new(5);
    let mut rare = || char::from_u32(0x4e00 + rng.below(6_000) as u32).expect("a character");
    let mut question = || (0..16).map(|_| rare()).collect::<String>();
    let questions: Vec<String> = (0..5).map(|_| question()).collect();
    let row = |text: &str| json!({"content": format!("来电人咨询事项如下，{text}，请有权答复的承办单位在三个工作日以内电话告知来电人并在系统中填写办理情况")});
    let desk = TestDesk::new("questions");
    for (number, question) in questions.iter().enumerate() {
        desk.register(&format!("q{number}"), &row(question));
    }
    assert_eq!(group_sizes(&desk), [5], "before anything is counted the form looks like one matter");
    let decided = desk.send("PUT", "/decisions/q0/q1", &json!({"judgement": "same", "by": "desk 1"}));
    assert!(matches!(decided.status, 200 | 201), "{}", decided.text);
    for number in 0..300 {
        desk.register(&format!("r{number}"), &row(&question()));
    }
    desk.ask("POST", "/statistics", &Value::Null);
    let begun = Instant::now();
    loop {
        let groups = desk.ask("GET", "/groups?limit=1", &Value::Null);
        if group_sizes(&desk).iter().all(|size| *size == 2) {
            assert_eq!(groups["items"][0]["id"], "q0");
            break;
        }
        assert!(begun.elapsed() < FOLLOWS_WITHIN, "groups are {:?}", group_sizes(&desk));
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn group_sizes(desk: &TestDesk) -> Vec<u64> {
    let groups = desk.ask("GET", "/groups", &Value::Null);
    groups["items"].as_array().expect("a list").iter().map(|group| group["size"].as_u64().unwrap_or(0)).collect()
}

#[test]
fn statistics_survive_a_restart_and_a_reindex_takes_keys_from_what_is_rare() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    let mut rng = TestRandom::new(11);
    let places: Vec<_> = (0..120).map(|_| (name(&mut rng, "路"), name(&mut rng, "小区"))).collect();
    for (number, (road, estate)) in places.iter().enumerate() {
        let put = server.send("PUT", &format!("/v1/collections/kept/records/o{number}"), &order(road, estate));
        assert_eq!(put.status, 201, "{}", put.text);
    }
    let counted = server.send("POST", "/v1/collections/kept/statistics", &Value::Null);
    assert_eq!(counted.status, 200, "{}", counted.text);
    let before = ask_about_place(&server, &places);
    assert_eq!(before.0, ["o60"]);
    server.stop();
    let server = TestServer::start_in(folder.path());
    let now = server.send("GET", "/v1/collections/kept/statistics", &Value::Null);
    assert_eq!(now.json(), counted.json());
    assert_eq!(ask_about_place(&server, &places), before);
    let settings = server.send("GET", "/v1/collections/kept", &Value::Null).json()["settings"].clone();
    let mut other = settings;
    other["min_features"] = json!(3);
    let task = server.send("POST", "/v1/admin/reindex", &json!({"collection": "kept", "settings": other}));
    assert_eq!(task.status, 202, "{}", task.text);
    let location = task.header("location").expect("a task").to_owned();
    let begun = Instant::now();
    while server.send("GET", &location, &Value::Null).json()["status"] != "succeeded" {
        assert!(begun.elapsed() < FOLLOWS_WITHIN, "{}", server.send("GET", &location, &Value::Null).text);
        std::thread::sleep(Duration::from_millis(100));
    }
    let after = ask_about_place(&server, &places);
    assert_eq!(after.0, ["o60"]);
    assert!(server.send("GET", "/v1/collections/kept/statistics", &Value::Null).json()["version"].as_u64() >= Some(2));
}

fn ask_about_place(server: &TestServer, places: &[(String, String)]) -> (Vec<String>, Value) {
    let (road, estate) = &places[60];
    let found = server.send("POST", "/v1/collections/kept/similar", &again(road, estate)).json();
    (ids(&found["similar"]).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), found["similar"].clone())
}

#[test]
fn a_hot_form_is_learnt_and_keys_lie_on_particular_text() {
    // There are so many orders that each key of the form proposes only the earliest orders, and none of the others.
    let (desk, places) = with_orders("hot", 1_100);
    let begun = Instant::now();
    while desk.ask("GET", "/statistics", &Value::Null)["records"] != 1_024 {
        assert!(begun.elapsed() < FOLLOWS_WITHIN, "{}", desk.ask("GET", "/statistics", &Value::Null));
        std::thread::sleep(Duration::from_millis(100));
    }
    for number in [5, 400, 700, 1_099] {
        let (road, estate) = &places[number];
        let found = desk.ask("POST", "/similar", &again(road, estate));
        assert_eq!(ids(&found["similar"]), [format!("o{number}")], "{found}");
    }
    let verdict = desk.register("again", &again(&places[900].0, &places[900].1));
    assert_eq!(
        (&verdict["duplicate_of"], &verdict["generation"]),
        (&json!("o900"), &live_generation(&desk)),
        "{verdict}"
    );
}

fn live_generation(desk: &TestDesk) -> Value {
    desk.ask("GET", "", &Value::Null)["generation"].clone()
}

#[test]
fn the_comparison_of_names_does_not_depend_on_the_order_of_the_letters() {
    let one = "反映订单20240561一直没有退款，商家态度恶劣，联系电话03776543210，盼望早日解决此事";
    let other = "反映订单20240561一直没有退款，打了四次客服电话都是叫人等待，现在连柜台也搬走了，盼望早日解决此事";
    assert_eq!(judge_pair("one-way", one, other, &content_row), judge_pair("other-way", other, one, &content_row));
}

fn content_row(text: &str) -> Value {
    json!({ "content": text })
}

fn judge_pair(name: &str, first: &str, second: &str, row: &impl Fn(&str) -> Value) -> Value {
    let desk = TestDesk::new(name);
    desk.register("first", &row(first));
    let found = desk.ask("POST", "/similar", &row(second))["similar"][0].clone();
    let explained = desk.ask("POST", "/explain", &json!({"a": {"row": row(second)}, "b": {"id": "first"}}));
    assert_eq!((&found["similarity"], &found["differs"]), (&explained["similarity"], &Value::Null));
    assert_eq!(explained["differs"], json!([]), "one says more, and nothing else");
    found["similarity"].clone()
}

#[test]
fn settings_that_go_by_what_was_not_counted_have_it_counted() {
    let (desk, _) = with_orders("recounted", 70);
    let before = desk.ask("POST", "/statistics", &Value::Null)["version"].as_u64();
    let mut settings = desk.ask("GET", "", &Value::Null)["settings"].clone();
    settings["verify"]["shingle"] = json!(4);
    assert_eq!(desk.send("PUT", "", &settings).status, 200);
    let begun = Instant::now();
    while desk.ask("GET", "/statistics", &Value::Null)["version"].as_u64() <= before {
        assert!(begun.elapsed() < FOLLOWS_WITHIN / 6, "{}", desk.ask("GET", "/statistics", &Value::Null));
        std::thread::sleep(Duration::from_millis(100));
    }
    // The form has been recognised; otherwise the order would match nearly all orders.
    let mut rng = TestRandom::new(2_000);
    let found = desk.ask("POST", "/similar", &order(&name(&mut rng, "路"), &name(&mut rng, "小区")));
    assert!(ids(&found["similar"]).len() <= 2, "{found}");
}

#[test]
fn copies_of_one_letter_match_however_common_they_are_and_whatever_each_adds() {
    let mut rng = TestRandom::new(3);
    let mut han = |count: u64| -> String {
        (0..count).map(|_| char::from_u32(0x4e00 + rng.below(6_000) as u32).expect("a character")).collect()
    };
    let letter = han(130);
    let desk = TestDesk::new("copies");
    for number in 0..60 {
        desk.register(&format!("c{number}"), &json!({"content": format!("{letter}。补充：{}。", han(30))}));
    }
    let task = desk.server.send("POST", "/v1/admin/reindex", &json!({"collection": "copies"}));
    let location = task.header("location").expect("a task").to_owned();
    let begun = Instant::now();
    while desk.server.send("GET", &location, &Value::Null).json()["status"] != "succeeded" {
        assert!(begun.elapsed() < FOLLOWS_WITHIN, "{}", desk.server.send("GET", &location, &Value::Null).text);
        std::thread::sleep(Duration::from_millis(100));
    }
    let found =
        desk.ask("POST", "/similar", &json!({"content": format!("{letter}。补充：{}。", han(30)), "limit": 100}));
    let found = if found["similar"].is_array() { found } else { panic!("{found}") };
    assert!(ids(&found["similar"]).len() >= 10, "{found}");
    let groups = desk.ask("GET", "/groups", &Value::Null);
    assert_eq!(groups["items"][0]["size"], 60, "{groups}");
}
