//! Templates, and their expansion into text.
//!
//! `[a|b|]` stands for one of its alternatives; alternatives can be nested. `{name}` is a slot: a place or person of the story, a date, a
//! number, a sum of money, or a word of [`VARIANTS`]. The expansion has no errors: an unknown slot is a mistake in this crate, and a test
//! of all templates finds it.

use jiff::civil::Date;

use super::calendar::{day_before, month_before};
use super::rng::RandomStream;
use super::topics::TopicMatter;
use super::wording::{FoundWord, next_word};
use super::words::{DISTRICTS, ESTATES, FIRSTS, FORENAMES, GIVEN, SHOPS, STEMS, SURNAMES, VARIANTS};

/// The names that a text contains in full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NamedBefore {
    company: bool,
    school: bool,
}

/// The sources of the choices in a text.
#[derive(Clone, Debug)]
pub(super) struct TextChoices {
    /// Chooses words. Texts that follow one model share this source.
    words: RandomStream,
    /// Chooses names, dates and numbers.
    details: RandomStream,
    /// Number of days between the date in the sentence and the letter. Without it, the date is any recent date.
    pub(super) days_ago: Option<u64>,
    /// The names that the text contains in full, so that a short form is possible.
    pub(super) named: NamedBefore,
    /// True in titles: names are written in full.
    pub(super) formal: bool,
    /// True while a word is replaced, so that its replacement is not replaced.
    fixed: bool,
}

impl TextChoices {
    /// Creates the source that chooses words by the seed `words`, and everything else by the seed `details`.
    pub(super) fn of(words: u64, details: u64) -> Self {
        let words = RandomStream::of(&[words, 4]);
        Self {
            words,
            details: RandomStream::of(&[details, 5]),
            days_ago: None,
            named: NamedBefore::default(),
            formal: false,
            fixed: false,
        }
    }

    /// Returns one of `items`, which must not be empty, as a choice of words.
    pub(super) fn pick(&mut self, items: &[&'static str]) -> &'static str {
        self.words.pick(items)
    }
}

/// The names that do not change within one story.
#[derive(Clone, Debug)]
pub(super) struct StoryNames {
    pub(super) district: &'static str,
    subdistrict: String,
    estate: String,
    village: String,
    town: String,
    road: String,
    school: String,
    grade: &'static str,
    building: usize,
    unit: usize,
    line: usize,
    /// Number of months since the matter began.
    months: usize,
    /// The day of the letter.
    pub(super) today: Date,
    company: String,
    /// The last part of the name of the company.
    firm: &'static str,
    /// The official name and the usual name of the office that handles the matter.
    pub(super) office: (&'static str, &'static str),
    /// All offices of the matter, separated by `|`.
    offices: &'static str,
}

impl StoryNames {
    pub(super) fn new(matter: &'static TopicMatter, today: Date, rng: &mut RandomStream) -> Self {
        let mut join =
            |firsts: &[&'static str], lasts: &[&'static str]| format!("{}{}", rng.pick(firsts), rng.pick(lasts));
        let estate = join(FIRSTS, ESTATES);
        let village = join(STEMS, &["村", "村", "垅村", "冲村", "湾村", "岭村", "桥村"]);
        let road = join(STEMS, &["路", "路", "大道", "街", "东路", "西路", "北路", "南路"]);
        let town = join(STEMS, &["镇", "镇", "乡"]);
        let subdistrict = join(STEMS, &["街道"]);
        let (level, grades): (&str, &[&str]) = match rng.below(5) {
            0 | 1 => ("小学", &["二年级", "三年级", "四年级", "五年级"]),
            2 => ("实验学校", &["四年级", "五年级", "六年级", "七年级", "八年级"]),
            _ => ("中学", &["初一", "初二", "初三"]),
        };
        let school = format!("{}{level}", rng.pick(STEMS));
        let scene = Self {
            district: rng.pick(DISTRICTS),
            subdistrict,
            estate,
            village,
            town,
            road,
            school,
            grade: rng.pick(grades),
            building: rng.between(1, 28),
            unit: rng.between(1, 3),
            line: rng.between(2, 98),
            months: rng.between(2, 7),
            today,
            company: String::new(),
            firm: "",
            office: ("", ""),
            offices: "",
        };
        scene.about(matter, rng)
    }

    /// Returns the scene of another matter in the same place, with another company and office.
    pub(super) fn about(&self, matter: &'static TopicMatter, rng: &mut RandomStream) -> Self {
        let firm = rng.pick(&alternatives(matter.firm).0);
        let company = format!("{}{firm}", rng.pick(FIRSTS));
        let office = office_of(matter.offices, rng);
        Self { company, firm, office, offices: matter.offices, months: rng.between(2, 7), ..self.clone() }
    }

    /// Returns the same scene on another day.
    pub(super) fn on(&self, today: Date) -> Self {
        Self { today, ..self.clone() }
    }

    /// Returns the scene of a person who lives near and writes on the day `today`.
    pub(super) fn neighbour(&self, today: Date, rng: &mut RandomStream) -> Self {
        let estate = format!("{}{}", rng.pick(FIRSTS), rng.pick(ESTATES));
        Self { estate, building: rng.between(1, 28), today, ..self.clone() }
    }

    /// Returns the unit that handles the matter, with its district.
    pub(super) fn unit(&self) -> String {
        let (official, _) = self.office;
        match official {
            "人民政府" => format!("{}{}{official}", self.district, self.town),
            "街道办事处" => format!("{}{}办事处", self.district, self.subdistrict),
            _ => format!("{}{official}", self.district),
        }
    }

    /// Adds the names that `text` contains in full.
    pub(super) fn note_names(&self, text: &str, named: &mut NamedBefore) {
        named.company |= text.contains(&self.company);
        named.school |= text.contains(&self.school);
    }
}

/// Returns one office of a list: the official name and the usual name. The first office is the most frequent office.
fn office_of(offices: &'static str, rng: &mut RandomStream) -> (&'static str, &'static str) {
    let (all, _) = alternatives(offices);
    let chosen = all[if rng.chance(60) { 0 } else { rng.below(all.len()) }];
    chosen.split_once('/').unwrap_or((chosen, chosen))
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplatePart<'a> {
    /// Text that is written unchanged.
    Literal(&'a str),
    /// The name of a slot.
    Slot(&'a str),
    /// Alternatives, of which one is chosen. Each is a template.
    Choice(Vec<&'a str>),
}

/// Returns the parts of a template, in order.
pub(super) fn parts(template: &str) -> impl Iterator<Item = TemplatePart<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        let part = if let Some(inner) = rest.strip_prefix('{') {
            let (name, after) = inner.split_once('}').unwrap_or((inner, ""));
            rest = after;
            TemplatePart::Slot(name)
        } else if let Some(inner) = rest.strip_prefix('[') {
            let (choices, after) = alternatives(inner);
            rest = after;
            TemplatePart::Choice(choices)
        } else {
            let (literal, after) = rest.split_at(rest.find(['[', '{']).unwrap_or(rest.len()));
            rest = after;
            TemplatePart::Literal(literal)
        };
        (part != TemplatePart::Literal("")).then_some(part)
    })
}

/// Expands `template` into `out`.
pub(super) fn expand(template: &str, scene: &StoryNames, voice: &mut TextChoices, out: &mut String) {
    for part in parts(template) {
        match part {
            TemplatePart::Literal(text) => literal(text, scene, voice, out),
            TemplatePart::Slot(name) => slot(name, scene, voice, out),
            TemplatePart::Choice(choices) => expand(voice.words.pick(&choices), scene, voice, out),
        }
    }
}

/// Writes a part of a template without slots, with some words replaced.
fn literal(text: &str, scene: &StoryNames, voice: &mut TextChoices, out: &mut String) {
    if voice.fixed {
        return out.push_str(text);
    }
    let mut rest = text;
    while let Some(FoundWord { start, end, texts }) = next_word(rest, !voice.formal) {
        out.push_str(&rest[..start]);
        voice.fixed = true;
        expand(voice.words.pick(texts), scene, voice, out);
        voice.fixed = false;
        rest = &rest[end..];
    }
    out.push_str(rest);
}

/// Returns the alternatives after an opening bracket, and the text after the closing bracket. Without a closing bracket, the whole text is
/// a list of alternatives.
pub(super) fn alternatives(inner: &str) -> (Vec<&str>, &str) {
    let mut depth = 0usize;
    let mut from = 0;
    let mut found = Vec::new();
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b'|' if depth == 0 => {
                found.push(&inner[from..at]);
                from = at + 1;
            }
            b']' if depth == 0 => {
                found.push(&inner[from..at]);
                return (found, &inner[at + 1..]);
            }
            b']' => depth -= 1,
            _ => {}
        }
    }
    found.push(&inner[from..]);
    (found, "")
}

fn slot(name: &str, scene: &StoryNames, voice: &mut TextChoices, out: &mut String) {
    match name {
        "市区" | "区" => out.push_str(scene.district),
        "街道" => out.push_str(&scene.subdistrict),
        "镇" => out.push_str(&scene.town),
        "路" => out.push_str(&scene.road),
        "小区" | "村" => place(name, scene, voice, out),
        "公司" => {
            let short = voice.named.company && !voice.formal && voice.words.chance(45);
            out.push_str(&if short { format!("这家{}", scene.firm) } else { scene.company.clone() });
            voice.named.company = true;
        }
        "学校" => {
            let short = voice.named.school && !voice.formal && voice.words.chance(45);
            out.push_str(if short { "学校" } else { &scene.school });
            voice.named.school = true;
        }
        "年级" => out.push_str(scene.grade),
        "栋" => out.push_str(&format!("{}栋", scene.building)),
        "单元" => out.push_str(&format!("{}单元", scene.unit)),
        "组" => out.push_str(&format!("{}组", scene.building % 12 + 1)),
        "线路" => out.push_str(&format!("{}路", scene.line)),
        "部门" => department(scene, voice, out),
        "月数" => out.push_str(&count(scene.months, &mut voice.details)),
        "月前" => out.push_str(&format!("{}个月前", count(scene.months, &mut voice.details))),
        "上月" => out.push_str(&month_before(scene.today, scene.months as u64, &mut voice.details)),
        "日" => {
            let rng = &mut voice.details;
            let days = voice.days_ago.unwrap_or_else(|| rng.between(2, 24) as u64);
            out.push_str(&day_before(scene.today, days, rng));
        }
        "单号" => {
            let date = scene.today;
            let number = voice.details.below(100_000);
            out.push_str(&format!("{}{:02}{number:05}", date.year(), date.month()));
        }
        _ => match VARIANTS.iter().find(|(key, _)| *key == name) {
            Some((_, list)) => {
                let word = if voice.words.chance(60) { name } else { voice.words.pick(list) };
                literal(word, scene, voice, out);
            }
            None => detail(name, &mut voice.details, out),
        },
    }
}

fn place(name: &str, scene: &StoryNames, voice: &mut TextChoices, out: &mut String) {
    let short = !voice.formal && voice.words.chance(35);
    out.push_str(match (name, short) {
        ("村", true) => "我们村",
        ("村", false) => &scene.village,
        (_, true) => "我们小区",
        (_, false) => &scene.estate,
    });
}

/// Writes the office of the matter, or sometimes another office that is responsible for a part.
fn department(scene: &StoryNames, voice: &mut TextChoices, out: &mut String) {
    let rng = &mut voice.details;
    let (_, usual) = if rng.chance(75) { scene.office } else { office_of(scene.offices, rng) };
    if usual.starts_with('镇') {
        out.push_str(&scene.town);
        return out.push_str("政府");
    }
    let local = usual.ends_with('局') && !scene.district.ends_with("新区");
    if local && rng.chance(25) {
        out.push_str(if scene.district.ends_with('县') { "县" } else { "区" });
    }
    out.push_str(usual);
}

/// Writes a number of things from 2 to 9.
pub(super) fn count(number: usize, rng: &mut RandomStream) -> String {
    let word = ["两", "三", "四", "五", "六", "七", "八", "九"].get(number.wrapping_sub(2)).filter(|_| rng.chance(60));
    match word {
        Some(word) => (*word).to_owned(),
        None if number == 2 => "两".to_owned(),
        None => number.to_string(),
    }
}

/// Writes a number, an hour, a sum or a person that belongs to no name of the story.
pub(super) fn detail(name: &str, rng: &mut RandomStream, out: &mut String) {
    let tens = ["二", "三", "四", "五", "六", "七", "八"];
    let text = match name {
        "人" => return person(rng, out),
        "童岁" => rng.between(3, 12).to_string(),
        "高压" => rng.between(161, 198).to_string(),
        "号" => rng.between(2, 9).to_string(),
        "月" => rng.between(1, 12).to_string(),
        "月份" => format!("{}月", rng.between(1, 12)),
        "岁" => rng.between(22, 39).to_string(),
        "门牌" => format!("{}0{}室", rng.between(2, 17), rng.between(1, 4)),
        "工号" => rng.between(1001, 9899).to_string(),
        "早点" => hour(&[""], [6, 8], rng),
        "几时" => return clock_time(rng, out),
        "岁数" => rng.between(66, 93).to_string(),
        "姓" => rng.pick(SURNAMES).to_owned(),
        "路名" => format!("{}{}", rng.pick(STEMS), rng.pick(&["路", "街", "大道"])),
        "店名" => format!("{}{}", rng.pick(STEMS), rng.pick(SHOPS)),
        "几" => count(rng.between(3, 9), rng),
        "两三" => count(rng.between(2, 4), rng),
        "十几" if rng.chance(35) => "十几".into(),
        "十几" => rng.between(11, 19).to_string(),
        "几十" if rng.chance(30) => format!("{}十多", rng.pick(&tens)),
        "几十" => rng.between(21, 89).to_string(),
        "年头" => rng.pick(&["十几", "二十多", "三十多", "18", "22", "25"]).to_owned(),
        "几百" if rng.chance(30) => format!("{}百多", rng.pick(&tens).replace('二', "两")),
        "几百" => (rng.between(11, 89) * 10).to_string(),
        "小钱" => rng.between(15, 95).to_string(),
        "百钱" => (rng.between(12, 98) * 10).to_string(),
        "千钱" => (rng.between(11, 98) * 100).to_string(),
        "万钱" if rng.chance(50) => format!("{}.{}万", rng.between(1, 9), rng.between(1, 9)),
        "万钱" => format!("{}万", rng.between(2, 26)),
        "分贝" => rng.between(66, 84).to_string(),
        "楼层" => format!("{}楼", rng.between(9, 24)),
        "低楼" => format!("{}楼", rng.between(2, 6)),
        "清早" if rng.chance(10) => "天不亮".into(),
        "清早" => hour(&["早上", "清早", "大清早"], [5, 6], rng),
        "晚上点" => hour(&["晚上"], [7, 8], rng),
        "夜点" => hour(&["晚上", "夜里"], [10, 11], rng),
        "深夜" if rng.chance(10) => "后半夜".into(),
        "深夜" if rng.chance(50) => hour(&["夜里", "半夜", "深夜"], [11, 12], rng),
        "深夜" => hour(&["凌晨"], [1, 4], rng),
        other => format!("{{{other}}}"),
    };
    out.push_str(&text);
}

/// Writes the name of a person as petitions do.
pub(super) fn person(rng: &mut RandomStream, out: &mut String) {
    match rng.below(7) {
        0 => out.push_str(&format!("{}某", rng.pick(SURNAMES))),
        1 => out.push_str(&format!(
            "{}{}",
            rng.pick(SURNAMES),
            rng.pick(&["先生", "女士", "师傅", "阿姨", "大爷", "姐"])
        )),
        _ => out.push_str(&full_name(rng)),
    }
}

/// Returns a surname and a given name.
pub(super) fn full_name(rng: &mut RandomStream) -> String {
    let surname = rng.pick(SURNAMES);
    if rng.chance(60) {
        format!("{surname}{}{}", rng.pick(FORENAMES[0]), rng.pick(FORENAMES[1]))
    } else {
        format!("{surname}{}", rng.pick(GIVEN))
    }
}

/// Writes a time of day.
pub(super) fn clock_time(rng: &mut RandomStream, out: &mut String) {
    let (part, hours) = match rng.below(4) {
        0 => ("早上", [6, 9]),
        1 => ("上午", [9, 11]),
        2 => ("下午", [1, 6]),
        _ => ("晚上", [7, 10]),
    };
    out.push_str(&hour(&[part], hours, rng));
}

/// Returns an hour from the first to the second number, mostly with its minutes, after a part of the day.
fn hour(parts: &[&'static str], [least, most]: [usize; 2], rng: &mut RandomStream) -> String {
    let text = format!("{}{}点", rng.pick(parts), rng.between(least, most));
    match rng.below(6) {
        0 => text + rng.pick(&["", "多", "左右"]),
        1 => text + "半",
        _ => format!("{text}{}分", rng.between(2, 11) * 5),
    }
}

pub(super) fn money(rng: &mut RandomStream, out: &mut String) {
    detail(rng.pick(&["千钱", "千钱", "万钱"]), rng, out);
}

#[cfg(test)]
mod tests {
    use super::super::{calendar, hot, phrases, topics, wording};
    use super::*;

    fn expanded(template: &str, seed: u64) -> String {
        let matters: Vec<&TopicMatter> = topics::all().flat_map(|topic| topic.matters).collect();
        let scene =
            StoryNames::new(matters[seed as usize % matters.len()], calendar::UNTIL, &mut RandomStream::of(&[seed]));
        let mut out = String::new();
        expand(template, &scene, &mut TextChoices::of(seed, seed), &mut out);
        out
    }

    #[test]
    fn alternatives_nest_and_may_be_empty() {
        for seed in 0..50 {
            let text = expanded("甲[乙|丙[丁|]]戊", seed);
            assert!(["甲乙戊", "甲丙丁戊", "甲丙戊"].contains(&text.as_str()), "{text}");
        }
    }

    #[test]
    fn every_template_is_well_formed_and_names_only_known_slots() {
        let matters = topics::all().flat_map(|topic| topic.matters);
        let lists = matters.flat_map(|m| [m.titles, m.places, m.signs, m.causes, m.effects, m.asks]);
        let generic = [
            phrases::GREETINGS,
            phrases::PURPOSES,
            phrases::SINCE,
            phrases::LINKS,
            phrases::CLOSINGS,
            phrases::DETAILS,
        ];
        let planned = [phrases::ATTEMPTS, phrases::REQUESTS, phrases::EXCUSES, phrases::RESULTS];
        let whole = [phrases::PREFIXES, phrases::SUFFIXES, phrases::QUOTES].into_iter().flatten().copied();
        let all = lists.chain(generic).chain(planned).chain(whole).chain(hot::templates()).chain(wording::texts());
        for template in all.flat_map(|list| alternatives(list).0) {
            assert_eq!(template.matches('[').count(), template.matches(']').count(), "{template}");
            let planned = ["{甲}", "{乙}", "{丙}", "{丁}"];
            let template = planned.iter().fold(template.to_owned(), |text, slot| text.replace(slot, "某"));
            for seed in 0..20 {
                let text = expanded(&template, seed);
                assert!(!text.contains(['[', ']', '{', '}', '|']), "{template} gave {text}");
            }
        }
    }
}
