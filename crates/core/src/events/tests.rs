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

fn zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::get("Asia/Shanghai").unwrap()
}

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
fn event_ids(finder: &EventFinder) -> Vec<Vec<String>> {
    let collection = finder.collection();
    let events = finder
        .events()
        .map(|members| members.iter().map(|member| collection.record(*member).id.to_string()).collect::<Vec<_>>());
    let mut events: Vec<Vec<String>> = events.collect();
    events.sort();
    events
}

fn events_of(records: Vec<EventRecord>, links: impl Fn(&EventCollection) -> KnownLinks) -> Vec<Vec<String>> {
    let mut finder = EventFinder::of(records, EventModel::shipped(), |_, _| {});
    finder.set_links(links(finder.collection()));
    finder.refresh();
    event_ids(&finder)
}

fn no_links(_: &EventCollection) -> KnownLinks {
    KnownLinks::default()
}

fn joined(events: &[Vec<String>], a: &str, b: &str) -> bool {
    events.iter().any(|event| event.iter().any(|id| id == a) && event.iter().any(|id| id == b))
}

#[test]
fn two_problems_at_one_place_and_one_problem_at_two_places_are_separate_events() {
    let events = events_of(planted(&profile()), no_links);
    assert!(events.len() > PLACES * PROBLEMS_AT_A_PLACE * 3 / 4, "{} events", events.len());
    let mixed = events.iter().filter(|event| event.iter().any(|id| id[..5] != event[0][..5])).count();
    assert_eq!(mixed, 0, "{events:?}");
}

/// A generator of numbers that depend on a seed.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % most
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Links some records of the planted events as duplicates, and separates others, as far as they are in the collection.
fn some_links(collection: &EventCollection) -> KnownLinks {
    known_links(
        collection,
        &[
            ("r00-0-0", "r05-1-1", KnownLink::Same),
            ("r04-0-0", "r04-1-1", KnownLink::SameEvent),
            ("r02-0-0", "r02-0-1", KnownLink::NotSame),
            ("r00-0-0", "r03-1-1", KnownLink::Match),
            ("r03-1-1", "r07-1-2", KnownLink::Match),
        ],
    )
}

fn known_links(collection: &EventCollection, links: &[(&str, &str, KnownLink)]) -> KnownLinks {
    let known =
        links.iter().filter_map(|(a, b, kind)| Some(([collection.position(a)?, collection.position(b)?], *kind)));
    known.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn events_do_not_depend_on_the_order_of_arrival(seed: u64) {
        let profile = profile();
        let expected = events_of(planted(&profile), some_links);
        let mut records = planted(&profile);
        SeededNumbers(seed).shuffle(&mut records);
        prop_assert_eq!(events_of(records, some_links), expected);
    }

    #[test]
    fn records_that_come_and_go_leave_the_events_of_a_new_finder(seed: u64) {
        let profile = profile();
        let mut random = SeededNumbers(seed);
        let mut waiting = planted(&profile);
        random.shuffle(&mut waiting);
        let mut finder = EventFinder::new(EventRarities::count(&waiting), EventModel::shipped());
        let mut here: Vec<EventRecord> = Vec::new();
        while !waiting.is_empty() {
            let arriving = waiting.split_off(waiting.len().saturating_sub(1 + random.below(40)));
            here.extend(arriving.iter().cloned());
            finder.insert(arriving, |_, _| {});
            let leaving: Vec<EventRecord> = (0..random.below(6).min(here.len())).map(|_| here.swap_remove(random.below(here.len()))).collect();
            finder.remove(leaving.iter().map(|record| &*record.id));
            // One of them arrives again with the next records, another one replaces itself.
            waiting.extend(leaving.into_iter().take(1));
            finder.insert(here.iter().take(1).cloned().collect(), |_, _| {});
            if random.below(2) == 0 {
                finder.set_links(some_links(finder.collection()));
            }
            finder.refresh();
        }
        finder.set_links(some_links(finder.collection()));
        finder.refresh();
        let mut expected = EventFinder::new(EventRarities::count(&planted(&profile)), EventModel::shipped());
        expected.insert(here, |_, _| {});
        expected.set_links(some_links(expected.collection()));
        expected.refresh();
        prop_assert_eq!(event_ids(&finder), event_ids(&expected));
    }
}

#[test]
fn a_record_is_compared_as_if_it_was_in_the_collection() {
    let profile = profile();
    let finder = EventFinder::of(planted(&profile), EventModel::shipped(), |_, _| {});
    let rarities = EventRarities::count(&planted(&profile));
    for id in ["r00-0-0", "r31-1-2"] {
        let own = finder.collection().position(id).unwrap();
        let others: Vec<u32> = finder.collection().positions().filter(|other| *other != own).collect();
        let record = planted(&profile).into_iter().find(|record| &*record.id == id).unwrap();
        let expected: Vec<f64> =
            others.iter().map(|other| finder.model().log_odds(&finder.features(own, *other))).collect();
        assert_eq!(finder.log_odds(record.clone(), &others), expected, "a record of the collection");
        let mut without = EventFinder::new(rarities.clone(), EventModel::shipped());
        without.insert(planted(&profile), |_, _| {});
        without.remove([id]);
        assert_eq!(without.log_odds(record, &others), expected, "a new record");
    }
}

#[test]
fn decisions_win_over_matches_and_edges() {
    let profile = profile();
    let separated = [
        ("r00-0-0", "r00-0-1", KnownLink::NotSame),
        ("r01-0-0", "r01-0-1", KnownLink::NotSame),
        ("r01-0-0", "r01-0-1", KnownLink::Match),
    ];
    let events = events_of(planted(&profile), |collection| known_links(collection, &separated));
    assert!(!joined(&events, "r00-0-0", "r00-0-1") && !joined(&events, "r01-0-0", "r01-0-1"));
    for join in [KnownLink::Same, KnownLink::SameEvent] {
        let both = [("r00-0-0", "r05-1-0", join), ("r00-0-0", "r05-1-0", KnownLink::NotSame)];
        let events = events_of(planted(&profile), |collection| known_links(collection, &both));
        assert!(joined(&events, "r00-0-0", "r05-1-0"), "the decision to join wins");
        assert!(joined(&events, "r00-0-1", "r05-1-2"), "the events of both records are one");
    }
}

#[test]
fn matches_stay_together() {
    let matches = [("r00-0-0", "r03-1-1", KnownLink::Match), ("r03-1-1", "r07-1-2", KnownLink::Match)];
    let events = events_of(planted(&profile()), |collection| known_links(collection, &matches));
    assert!(joined(&events, "r00-0-0", "r07-1-2"));
}

#[test]
fn a_summary_names_the_agreed_place_and_problem_and_counts_reports_and_days() {
    let profile = profile();
    let collection = EventCollection::new(planted(&profile));
    let members: Vec<u32> = ["r02-0-0", "r02-0-1", "r02-0-2"].map(|id| collection.position(id).unwrap()).into();
    let summary = summarise(&collection, &members);
    assert!(summary.name.starts_with("鹤坪花园"), "{}", summary.name);
    let counts = EventCounts::of(&collection, &members, &[]);
    let (state, window) = counts.frequency(FrequencyRule::default(), &zone());
    assert_eq!((counts.reports, state, window.unwrap().reports), (3, FrequencyState::Frequent, 3));
    let citations = [Citation { record: members[1], cited: members[0], manner: CitationManner::Refers }];
    let counts = EventCounts::of(&collection, &members, &citations);
    let (state, _) = counts.frequency(FrequencyRule::default(), &zone());
    assert_eq!((counts.reports, state), (2, FrequencyState::NotReached), "a citation is no report");
    let back = Citation { record: members[0], cited: members[1], manner: CitationManner::Refers };
    let counts = EventCounts::of(&collection, &members, &[citations[0], back]);
    assert_eq!(counts.reports, 2, "two records that cite each other are one report");
}

#[test]
fn a_window_has_whole_local_days_and_without_times_nothing_is_said() {
    let profile = profile();
    assert_eq!(frequency_of(&profile, [Some(0), Some(30), Some(71)]), FrequencyState::Frequent);
    assert_eq!(frequency_of(&profile, [Some(0), Some(30), Some(72)]), FrequencyState::NotReached);
    assert_eq!(frequency_of(&profile, [Some(0), Some(30), None]), FrequencyState::NoDates);
    assert_eq!(frequency_of(&profile, [Some(0), Some(90), None]), FrequencyState::NotReached, "one more is not enough");
}

#[test]
fn the_days_of_a_window_begin_at_midnight_of_their_own_season() {
    let zone = jiff::tz::TimeZone::get("America/New_York").unwrap();
    let times = ["2026-07-01T00:30:00-04:00", "2026-07-01T23:30:00-04:00", "2026-12-01T23:30:00-05:00"];
    let times = times.map(|time| time.parse::<jiff::Timestamp>().unwrap().as_second()).to_vec();
    let counts = EventCounts { reports: 3, petitioners: 0, anonymous: 3, times, category: None };
    let (state, window) = counts.frequency(FrequencyRule { reports: 2, days: 1 }, &zone);
    assert_eq!((state, window.unwrap().reports), (FrequencyState::Frequent, 2));
}

/// Summarises three records that come some hours after the first day, or at an unknown time.
fn frequency_of(profile: &Profile, hours: [Option<i64>; 3]) -> FrequencyState {
    let records = ["a", "b", "c"].iter().zip(hours).map(|(id, hours)| {
        let mut record = record(profile, id, "云栖广场夜间施工噪音扰民", 0);
        record.time = hours.map(|hours| FIRST_DAY + hours * HOUR_S);
        record
    });
    let collection = EventCollection::new(records.collect());
    EventCounts::of(&collection, &[0, 1, 2], &[]).frequency(FrequencyRule::default(), &zone()).0
}

#[test]
fn members_that_name_different_values_are_shown() {
    let profile = profile();
    let records = vec![
        record(&profile, "a", "鹤鸣小区5号楼电梯困人", 0),
        record(&profile, "b", "鹤鸣小区6号楼电梯困人", 1),
        record(&profile, "c", "鹤鸣小区的电梯又坏了", 1),
    ];
    let compared = EventFacts::of(&EventCollection::new(records), &[0, 1, 2]);
    let contradicted: Vec<_> = compared.facts.iter().filter(|fact| fact.state == FactState::Contradicted).collect();
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
    let finder = EventFinder::of(records, EventModel::shipped(), |_, _| {});
    let collection = finder.collection();
    let found = collection.positions().flat_map(|at| finder.citations_by(at));
    let found: Vec<_> = found.map(|found| (found.record, found.cited, found.manner)).collect();
    assert_eq!(found, [(1, 0, CitationManner::AsksForResult), (2, 0, CitationManner::Withdraws)]);
}
