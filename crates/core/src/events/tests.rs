use proptest::prelude::*;

use super::*;
use crate::collection::Settings;
use crate::record::Row;
use crate::schemes::profile::Profile;

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
/// 2024-03-01 in China, at midnight.
const FIRST_DAY: i64 = 1_709_222_400;

/// Characters of invented names of places. Two places with one ending differ in both characters, because one other
/// character may be a typing error.
const FIRST_CHARACTERS: [&str; 12] = ["雁", "松", "鹤", "梧", "砚", "柳", "望", "桂", "白", "青", "云", "芦"];
const SECOND_CHARACTERS: [&str; 12] = ["坪", "岗", "鸣", "桐", "溪", "荫", "岭", "塘", "崖", "栖", "汀", "泽"];
const ENDINGS: [&str; 6] = ["路", "小区", "花园", "大道", "新村", "广场"];
const PLACES: usize = FIRST_CHARACTERS.len() * ENDINGS.len();
/// Number of problems at each place.
const PROBLEMS_AT_A_PLACE: usize = 2;
/// Invented problems, each in three wordings.
const PROBLEMS: [[&str; 3]; 6] = [
    ["的路灯连续多日不亮，晚上漆黑一片", "照明全部坏了，夜里看不见路", "整条都没有灯光，路灯没人修"],
    ["垃圾堆放多日无人清运，苍蝇乱飞", "垃圾桶满了没人清理，卫生很差", "到处是建筑垃圾，环境脏乱差"],
    ["夜间施工到凌晨，噪音严重扰民", "工地半夜还在打桩，吵得睡不着", "通宵施工，声音很大，居民无法休息"],
    ["路面坑洼不平，电动车摔倒", "道路破损严重，到处是坑", "路面塌陷没有修复，行人绊倒"],
    ["已经停水三天，水压也一直不够", "自来水断水多日，老人没水做饭", "供水管爆管以后一直没水"],
    ["污水直排，河水黑臭", "水质污染，死鱼漂在上面", "排污口往里面排废水，臭味很重"],
];

/// The ends of the titles of the problems.
const TITLES: [[&str; 3]; 6] = [
    ["路灯不亮", "路灯坏了", "没有路灯"],
    ["垃圾没人清运", "垃圾成堆", "垃圾脏乱"],
    ["夜间施工噪音", "半夜施工扰民", "通宵施工噪音"],
    ["路面坑洼", "道路破损", "路面塌陷"],
    ["停水", "断水多日", "停水没人管"],
    ["污水直排", "河水污染", "排污臭味"],
];

fn profile() -> Profile {
    Profile::compile(&Settings::default(), None)
}

/// Makes a record. The text may begin with a title in a line of its own.
fn record(profile: &Profile, id: &str, text: &str, day: i64) -> EventRecord {
    let row = match text.split_once('\n') {
        Some((title, content)) => serde_json::json!({"id": id, "title": title, "content": content}),
        None => serde_json::json!({"id": id, "content": text}),
    };
    let row = Row::parse(row.to_string().as_bytes()).unwrap();
    let document = profile.read(&row).unwrap();
    let mut record = EventRecord::of(id, profile, &document, None);
    record.time = Some(FIRST_DAY + day * DAY_S + HOUR_S);
    record
}

fn place(number: usize) -> String {
    let row = number / ENDINGS.len();
    let column = number % ENDINGS.len();
    let first = FIRST_CHARACTERS[(row + column) % FIRST_CHARACTERS.len()];
    format!("{first}{}{}", SECOND_CHARACTERS[row], ENDINGS[column])
}

/// Returns three reports in other words of each of two problems at each place. The problems of a place are some months
/// apart.
fn planted(profile: &Profile) -> Vec<EventRecord> {
    let openings = ["市民来电反映：", "", "您好，我想投诉，"];
    let endings = ["，请尽快处理。", "，希望有关部门来看一看", "，一直没有人管。"];
    let mut records = Vec::new();
    for place_number in 0..PLACES {
        for turn in 0..PROBLEMS_AT_A_PLACE {
            let problem_number = (place_number + turn * 3) % PROBLEMS.len();
            for (number, words) in PROBLEMS[problem_number].iter().enumerate() {
                let ending = endings[(number + place_number) % endings.len()];
                let place = place(place_number);
                let text =
                    format!("{place}{}\n{}{place}{words}{ending}", TITLES[problem_number][number], openings[number]);
                let id = format!("r{place_number:02}-{turn}-{number}");
                let day = (place_number % 30 + turn * 90 + number) as i64;
                records.push(record(profile, &id, &text, day));
            }
        }
    }
    records
}

/// Returns the ids of the members of each event.
fn event_ids(collection: &EventCollection, found: &FoundEvents) -> Vec<Vec<String>> {
    let events = found.events.iter();
    events.map(|members| members.iter().map(|member| collection.record(*member).id.to_string()).collect()).collect()
}

fn events_of(records: Vec<EventRecord>, links: impl Fn(&EventCollection) -> KnownLinks) -> Vec<Vec<String>> {
    let collection = EventCollection::new(records);
    let links = links(&collection);
    event_ids(&collection, &find_events(&collection, &links, &EventModel::shipped(), |_, _| {}))
}

fn no_links(_: &EventCollection) -> KnownLinks {
    KnownLinks::default()
}

fn joined(events: &[Vec<String>], a: &str, b: &str) -> bool {
    events.iter().any(|event| event.iter().any(|id| id == a) && event.iter().any(|id| id == b))
}

fn pair(collection: &EventCollection, a: &str, b: &str) -> RecordPair {
    [collection.position(a).unwrap(), collection.position(b).unwrap()]
}

#[test]
fn two_problems_at_one_place_and_one_problem_at_two_places_are_separate_events() {
    let events = events_of(planted(&profile()), no_links);
    assert!(events.len() > PLACES * PROBLEMS_AT_A_PLACE * 3 / 4, "{} events", events.len());
    let mixed = events.iter().filter(|event| event.iter().any(|id| id[..5] != event[0][..5])).count();
    assert_eq!(mixed, 0, "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn events_depend_neither_on_the_order_of_arrival_nor_on_removed_records(seed: u64) {
        let profile = profile();
        let expected = events_of(planted(&profile), no_links);
        let mut records = planted(&profile);
        // Records that were removed and arrived again are at another place.
        let mut state = seed;
        for at in (1..records.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            records.swap(at, (state >> 33) as usize % (at + 1));
        }
        prop_assert_eq!(events_of(records, no_links), expected);
    }
}

#[test]
fn decisions_win_over_matches_and_edges() {
    let profile = profile();
    let events = events_of(planted(&profile), |collection| KnownLinks {
        not_same: vec![pair(collection, "r00-0-0", "r00-0-1"), pair(collection, "r01-0-0", "r01-0-1")],
        matches: vec![pair(collection, "r01-0-0", "r01-0-1")],
        ..KnownLinks::default()
    });
    assert!(!joined(&events, "r00-0-0", "r00-0-1") && !joined(&events, "r01-0-0", "r01-0-1"));
    let events = events_of(planted(&profile), |collection| KnownLinks {
        same: vec![pair(collection, "r00-0-0", "r05-1-1")],
        not_same: vec![pair(collection, "r00-0-0", "r05-1-1")],
        ..KnownLinks::default()
    });
    assert!(joined(&events, "r00-0-0", "r05-1-1"), "the decision to join wins");
}

#[test]
fn matches_stay_together() {
    let events = events_of(planted(&profile()), |collection| KnownLinks {
        matches: vec![pair(collection, "r00-0-0", "r03-1-1"), pair(collection, "r03-1-1", "r07-1-2")],
        ..KnownLinks::default()
    });
    assert!(joined(&events, "r00-0-0", "r07-1-2"));
}

#[test]
fn a_summary_names_the_agreed_place_and_problem_and_counts_reports_and_days() {
    let profile = profile();
    let collection = EventCollection::new(planted(&profile));
    let members: Vec<u32> = ["r02-0-0", "r02-0-1", "r02-0-2"].map(|id| collection.position(id).unwrap()).into();
    let summary = summarise(&collection, &members, &[], FrequencyRule::default());
    assert!(summary.name.starts_with("鹤坪花园"), "{}", summary.name);
    assert_eq!((summary.reports, summary.frequency), (3, FrequencyState::Frequent));
    assert_eq!(summary.window.unwrap().reports, 3);
    let citations = [Citation { record: members[1], cited: members[0], manner: CitationManner::Refers }];
    let summary = summarise(&collection, &members, &citations, FrequencyRule::default());
    assert_eq!((summary.reports, summary.frequency), (2, FrequencyState::NotReached), "a citation is no report");
}

#[test]
fn a_window_has_whole_local_days_and_without_times_nothing_is_said() {
    let profile = profile();
    assert_eq!(frequency_of(&profile, [Some(0), Some(30), Some(71)]), FrequencyState::Frequent);
    assert_eq!(frequency_of(&profile, [Some(0), Some(30), Some(72)]), FrequencyState::NotReached);
    assert_eq!(frequency_of(&profile, [Some(0), Some(30), None]), FrequencyState::NoDates);
}

/// Summarises three records that come some hours after the first day, or at an unknown time.
fn frequency_of(profile: &Profile, hours: [Option<i64>; 3]) -> FrequencyState {
    let records = ["a", "b", "c"].iter().zip(hours).map(|(id, hours)| {
        let mut record = record(profile, id, "云栖广场夜间施工噪音扰民", 0);
        record.time = hours.map(|hours| FIRST_DAY + hours * HOUR_S);
        record
    });
    let collection = EventCollection::new(records.collect());
    summarise(&collection, &[0, 1, 2], &[], FrequencyRule::default()).frequency
}

#[test]
fn members_that_name_different_values_are_shown() {
    let profile = profile();
    let records = vec![
        record(&profile, "a", "鹤鸣小区5号楼电梯困人", 0),
        record(&profile, "b", "鹤鸣小区6号楼电梯困人", 1),
        record(&profile, "c", "鹤鸣小区的电梯又坏了", 1),
    ];
    let summary = summarise(&EventCollection::new(records), &[0, 1, 2], &[], FrequencyRule::default());
    let contradicted: Vec<_> = summary.facts.iter().filter(|fact| fact.state == FactState::Contradicted).collect();
    assert_eq!(
        contradicted.iter().map(|fact| (fact.value.as_str(), &*fact.members)).collect::<Vec<_>>(),
        [("5号楼", &[0][..]), ("6号楼", &[1][..])]
    );
}

#[test]
fn an_order_that_cites_another_one_is_linked_to_it() {
    let profile = profile();
    let records = vec![
        record(&profile, "20240301123456", "雁坪路的路灯连续多日不亮", 0),
        record(&profile, "x2", "市民催办工单20240301123456，查询办理结果", 4),
        record(&profile, "x3", "市民来电要求撤销工单20240301123456", 5),
        record(&profile, "x4", "松岗路的路灯不亮，已经反映三次", 5),
    ];
    let collection = EventCollection::new(records);
    let found: Vec<_> =
        citations(&collection, &[]).iter().map(|found| (found.record, found.cited, found.manner)).collect();
    assert_eq!(found, [(1, 0, CitationManner::AsksForResult), (2, 0, CitationManner::Withdraws)]);
}
