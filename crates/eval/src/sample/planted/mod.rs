//! Planted events: problems at places that several people report within a few days, each in other words.
//!
//! The reports of an event share the place and the kind of problem, and mostly little text. One place in seven has a second event with
//! another problem, and each problem occurs at many places. The name of a place may lose its ending, and a report may have no title. The
//! records of a sample do not contain these events; they are further records behind it.

mod places;
mod problems;

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, ToSpan as _};
use serde::Serialize;

use super::GeneratedRecord;
use super::calendar::DAYS;
use super::grammar::{TemplatePart, clock_time, full_name, parts};
use super::rng::RandomStream;
use super::words::DISTRICTS;
use places::PlantedPlace;
use problems::{PROBLEMS, PlantedProblem};

/// Smallest and largest number of reports of an event.
const REPORTS: [usize; 2] = [2, 8];
/// Number of days within which an event is reported.
const EVENT_DAYS: i64 = 3;
/// One place in this number has a second event.
const SECOND_EVENT: u64 = 7;
/// Percentage of reports without a title, and with the words of an operator before the text.
const UNTITLED: usize = 20;
const BY_OPERATOR: usize = 40;

/// The reports of one planted event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlantedEvent {
    pub event: String,
    /// The ids of its records.
    pub members: Vec<String>,
    /// The whole name of the place.
    pub object: String,
    /// The kind of problem.
    pub problem: &'static str,
}

/// The planted events of a sample. Each event is a pure function of the parameters and its number.
#[derive(Clone, Copy, Debug)]
pub struct PlantedEvents {
    pub events: u64,
    pub seed: u64,
    /// The last day on which records are received.
    pub until: Date,
}

impl PlantedEvents {
    /// Returns all events, each with its records.
    pub fn all(&self) -> impl Iterator<Item = (PlantedEvent, Vec<GeneratedRecord>)> + '_ {
        (0..self.events).map(|number| self.event(number))
    }

    fn event(&self, number: u64) -> (PlantedEvent, Vec<GeneratedRecord>) {
        // The first event of a pair at one place decides the place.
        let is_second = number % SECOND_EVENT == 1;
        let first = number - u64::from(is_second);
        let mut of_place = RandomStream::of(&[self.seed, first, 80]);
        let first_problem = of_place.below(PROBLEMS.len());
        let kinds = PROBLEMS[first_problem].places;
        let kind = kinds[of_place.below(kinds.len())];
        let place = PlantedPlace::new(kind, &mut of_place);
        let district = of_place.pick(DISTRICTS).to_owned();
        let mut of_event = RandomStream::of(&[self.seed, number, 81]);
        let others: Vec<usize> =
            (0..PROBLEMS.len()).filter(|at| *at != first_problem && PROBLEMS[*at].places.contains(&kind)).collect();
        let problem = &PROBLEMS[if is_second { others[of_event.below(others.len())] } else { first_problem }];
        let days = of_event.between(EVENT_DAYS as usize, DAYS as usize - 1) as i64;
        let begun = self.until.saturating_sub(days.days());
        let reports: Vec<GeneratedRecord> = (0..of_event.between(REPORTS[0], REPORTS[1]) as u64)
            .map(|report| {
                self.report(&PlantedMatter { number, place: &place, district: &district, problem, begun }, report)
            })
            .collect();
        let event = PlantedEvent {
            event: format!("p{:06}", number + 1),
            members: reports.iter().map(|report| report.id.clone()).collect(),
            object: place.name,
            problem: problem.name,
        };
        (event, reports)
    }

    fn report(&self, matter: &PlantedMatter<'_>, report: u64) -> GeneratedRecord {
        let mut rng = RandomStream::of(&[self.seed, matter.number, report, 82]);
        let time = daytime(matter.begun, &mut rng);
        let problem = matter.problem;
        let mut title = String::new();
        if !rng.chance(UNTITLED) {
            let template = rng.pick(problem.titles);
            matter.expand(template, time.date(), &mut rng, &mut title);
        }
        let mut content = String::new();
        if rng.chance(BY_OPERATOR) {
            let place = [matter.district, ""][rng.below(2)];
            content.push_str(rng.pick(&["市民来电反映：", "来电人称，", "群众反映，", "诉求人来电："]));
            content.push_str(place);
        }
        let template = rng.pick(problem.texts);
        matter.expand(template, time.date(), &mut rng, &mut content);
        GeneratedRecord {
            id: format!("e{:06}-{}", matter.number + 1, report + 1),
            title,
            content,
            user: if rng.chance(70) { full_name(&mut rng) } else { String::new() },
            phone: String::new(),
            time: time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            category: problem.category.to_owned(),
            district: matter.district.to_owned(),
            unit: format!("{}{}", matter.district, problem.unit),
            status: "办理中".to_owned(),
            label: None,
        }
    }
}

/// A problem at a place.
struct PlantedMatter<'a> {
    number: u64,
    place: &'a PlantedPlace,
    district: &'a str,
    problem: &'static PlantedProblem,
    /// The first day on which it may be reported.
    begun: Date,
}

impl PlantedMatter<'_> {
    /// Writes a template as one person words it on a day.
    fn expand(&self, template: &str, today: Date, rng: &mut RandomStream, out: &mut String) {
        for part in parts(template) {
            match part {
                TemplatePart::Literal(text) => out.push_str(text),
                TemplatePart::Slot(name) => self.slot(name, today, rng, out),
                TemplatePart::Choice(choices) => self.expand(rng.pick(&choices), today, rng, out),
            }
        }
    }

    fn slot(&self, name: &str, today: Date, rng: &mut RandomStream, out: &mut String) {
        let text = match name {
            "地" => self.place.mention(rng).to_owned(),
            "钟点" => return clock_time(rng, out),
            "深夜" => format!("{}{}点", rng.pick(&["夜里", "晚上", "半夜"]), rng.between(10, 12)),
            "前日" => {
                let day = self.begun.saturating_sub((rng.between(0, 1) as i64).days()).min(today);
                format!("{}月{}日", day.month(), day.day())
            }
            "天" => rng.between(2, 9).to_string(),
            "几" => rng.between(2, 6).to_string(),
            "户" => (rng.between(3, 90) * 10).to_string(),
            "元" => (rng.between(2, 90) * 10).to_string(),
            _ => rng.between(11, 95).to_string(),
        };
        out.push_str(&text);
    }
}

/// Returns a time between 7 and 22 o'clock on one of the days of an event.
fn daytime(begun: Date, rng: &mut RandomStream) -> DateTime {
    let day = begun.saturating_add((rng.below(EVENT_DAYS as usize) as i64).days());
    let seconds = rng.between(7 * 3600, 22 * 3600) as i64;
    day.at(0, 0, 0, 0).saturating_add(SignedDuration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::UNTIL;
    use super::*;

    fn planted() -> Vec<(PlantedEvent, Vec<GeneratedRecord>)> {
        PlantedEvents { events: 300, seed: 5, until: UNTIL }.all().collect()
    }

    #[test]
    fn the_same_options_give_the_same_events() {
        assert_eq!(planted(), planted());
        let other = PlantedEvents { events: 300, seed: 6, until: UNTIL };
        assert_ne!(planted(), other.all().collect::<Vec<_>>());
    }

    #[test]
    fn every_report_names_the_place_and_has_no_open_template() {
        for (event, reports) in planted() {
            assert!((REPORTS[0]..=REPORTS[1]).contains(&reports.len()));
            let stem: String = event.object.chars().take(2).collect();
            for report in reports {
                assert!(report.content.contains(&stem), "{event:?}: {}", report.content);
                let marks = ['[', ']', '{', '}', '|'];
                assert!(!report.content.contains(marks) && !report.title.contains(marks), "{report:?}");
            }
        }
    }

    #[test]
    fn an_event_is_reported_within_three_days_of_the_period() {
        for (_, reports) in planted() {
            let days: BTreeSet<Date> =
                reports.iter().map(|report| report.time[..10].parse().expect("a date")).collect();
            let [first, last] = [*days.first().expect("a report"), *days.last().expect("a report")];
            assert!((last - first).get_days() < EVENT_DAYS as i32 && last <= UNTIL);
        }
    }

    #[test]
    fn one_place_in_seven_has_two_events_and_each_problem_many_places() {
        let mut problems_of: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut places_of: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (event, _) in planted() {
            problems_of.entry(event.object.clone()).or_default().insert(event.problem);
            places_of.entry(event.problem).or_default().insert(event.object);
        }
        let shared = problems_of.values().filter(|problems| problems.len() > 1).count();
        assert!((40..=50).contains(&shared), "{shared}");
        assert!(places_of.len() == PROBLEMS.len() && places_of.values().all(|places| places.len() > 4));
    }
}
