//! Templates, and their expansion into text.
//!
//! `[a|b|]` means one of its alternatives; alternatives can be nested. `{name}` is a slot: a place or person of the story, a new date,
//! number or name, a word of the topic, or a word of one of the lists of [`phrases`] or of [`VARIANTS`]. The expansion has no errors: an
//! unknown slot is a mistake in this crate, and a test of all templates finds it.

use super::phrases;
use super::rng::Rng;
use super::story::Vocabulary;
use super::words::{COMPANIES, DISTRICTS, ESTATES, FIRSTS, FORENAMES, GIVEN, OFFICES, STEMS, SURNAMES, VARIANTS};

/// The sources of the choices in a text.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    /// Chooses words. Texts that follow one model share this source.
    words: Rng,
    /// Chooses names, dates and numbers.
    details: Rng,
}

impl Voice {
    /// Creates the voice that chooses words by `words`, and everything else by `details`.
    pub(super) fn of(words: u64, details: u64) -> Self {
        Self { words: Rng::of(&[words, 4]), details: Rng::of(&[details, 5]) }
    }

    /// Returns one of `items`, which must not be empty, as a choice of words.
    pub(super) fn pick(&mut self, items: &[&'static str]) -> &'static str {
        self.words.pick(items)
    }
}

/// The names that do not change within one story.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) district: &'static str,
    subdistrict: String,
    estate: String,
    village: String,
    town: String,
    road: String,
    company: String,
    school: String,
    year: usize,
    vocabulary: &'static Vocabulary,
    /// The position in the lists of the topic where the words of this story begin. A story uses only a few things.
    focus: usize,
}

impl Scene {
    pub(super) fn new(vocabulary: &'static Vocabulary, focus: u64, rng: &mut Rng) -> Self {
        let mut join =
            |firsts: &[&'static str], lasts: &[&'static str]| format!("{}{}", rng.pick(firsts), rng.pick(lasts));
        let school = join(STEMS, &["小学", "中学", "幼儿园", "职业学校", "实验学校", "一中", "镇中心校"]);
        let estate = join(FIRSTS, ESTATES);
        let company = join(FIRSTS, COMPANIES);
        let village = join(STEMS, &["村", "垅村", "冲村", "湾村", "岭村", "桥村", "社区"]);
        let road = join(STEMS, &["路", "大道", "街", "巷", "东路", "西路", "北路", "南路", "横街"]);
        let town = join(STEMS, &["镇", "乡", "铺镇", "市镇"]);
        let subdistrict = join(STEMS, &["街道", "路街道"]);
        let district = rng.pick(DISTRICTS);
        let year = rng.between(2011, 2021);
        let focus = Rng::of(&[focus, 6]).below(1 << 20);
        Self { district, subdistrict, estate, village, town, road, company, school, year, vocabulary, focus }
    }
}

/// Expands `template` into `out`.
pub(super) fn expand(template: &str, scene: &Scene, voice: &mut Voice, out: &mut String) {
    let mut rest = template;
    while let Some(at) = rest.find(['[', '{']) {
        out.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        if rest.as_bytes()[at] == b'{' {
            let end = inner.find('}').unwrap_or(inner.len());
            slot(&inner[..end], scene, voice, out);
            rest = inner.get(end + 1..).unwrap_or("");
        } else {
            let (alternatives, after) = alternatives(inner);
            expand(voice.words.pick(&alternatives), scene, voice, out);
            rest = after;
        }
    }
    out.push_str(rest);
}

/// Returns the alternatives after an opening bracket, and the text after the closing bracket.
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

fn slot(name: &str, scene: &Scene, voice: &mut Voice, out: &mut String) {
    // Two fifths of the mentions of the story's place are paraphrased, as people do.
    let words = &mut voice.words;
    let mut own = |out: &mut String, name: &str, short: &[&str]| {
        out.push_str(if words.chance(60) { name } else { words.pick(short) });
    };
    let rng = &mut voice.details;
    match name {
        "市区" => out.push_str(scene.district),
        "街道" => out.push_str(&scene.subdistrict),
        "小区" => own(out, &scene.estate, &["我们小区", "本小区", "我们这里", "院子"]),
        "村" => own(out, &scene.village, &["我们村", "本村", "村里"]),
        "镇" => out.push_str(&scene.town),
        "路" => own(out, &scene.road, &["这条路", "门前的路", "那条街"]),
        "公司" => own(out, &scene.company, &["这家公司", "该公司", "他们公司", "对方"]),
        "学校" => own(out, &scene.school, &["这所学校", "学校", "校方"]),
        "部门" => office(scene, rng, out),
        "姓" => out.push_str(rng.pick(SURNAMES)),
        "人" => person(rng, out),
        "日期" => date(scene, rng, out),
        "钟点" => clock_time(rng, out),
        "数" => {
            let number = if rng.chance(70) { rng.between(2, 12) } else { rng.between(13, 98) };
            numeral(number, rng, out);
        }
        "几" => numeral(rng.between(3, 9), rng, out),
        "日" => out.push_str(&rng.between(1, 28).to_string()),
        "户" => out.push_str(&rng.between(14, 1900).to_string()),
        "钱" => money(rng, out),
        "单号" => out.push_str(&format!("{}{:07}", scene.year, rng.below(10_000_000))),
        word => expand_word(word, scene, voice, out),
    }
}

/// Expands a slot that represents a list of words. The words may contain slots.
fn expand_word(name: &str, scene: &Scene, voice: &mut Voice, out: &mut String) {
    let topical = |list: &'static [&'static str], few: usize, voice: &mut Voice| {
        list[(scene.focus + voice.words.below(few)) % list.len()]
    };
    let lists = scene.vocabulary;
    let chosen = match name {
        "处" => topical(&lists.places, 5, voice),
        "物" => topical(&lists.things, 7, voice),
        "障" => voice.words.pick(&lists.faults),
        "责" => topical(&lists.actors, 4, voice),
        "行" => voice.words.pick(&lists.acts),
        _ => match phrases::list(name) {
            Some(list) => voice.words.pick(list),
            None => match VARIANTS.iter().find(|(key, _)| *key == name) {
                Some((_, list)) => voice.words.pick(list),
                None => return out.push_str(&format!("{{{name}}}")),
            },
        },
    };
    expand(chosen, scene, voice, out);
}

/// Writes an office, mostly with the place for which it is responsible.
fn office(scene: &Scene, rng: &mut Rng, out: &mut String) {
    match rng.below(8) {
        0 => out.push_str(&scene.town),
        1 => out.push_str(&scene.subdistrict),
        2 => out.push_str(scene.district),
        3 => out.push_str(rng.pick(&["市", "省", "县", "区", "镇", "市里的", "县里的", "区里的"])),
        _ => {}
    }
    out.push_str(rng.pick(OFFICES));
}

/// Writes a number in figures. A small number may be written in words.
fn numeral(number: usize, rng: &mut Rng, out: &mut String) {
    match ["三", "四", "五", "六", "七", "八", "九", "十"].get(number.wrapping_sub(3)) {
        Some(word) if rng.chance(40) => out.push_str(word),
        _ => out.push_str(&number.to_string()),
    }
}

/// Writes the name of a person as petitions do.
pub(super) fn person(rng: &mut Rng, out: &mut String) {
    out.push_str(rng.pick(SURNAMES));
    match rng.below(7) {
        0 => out.push('某'),
        1 => out.push_str(rng.pick(&["先生", "女士", "师傅", "阿姨", "大爷", "姐"])),
        2..5 => {
            out.push_str(rng.pick(FORENAMES[0]));
            out.push_str(rng.pick(FORENAMES[1]));
        }
        _ => out.push_str(rng.pick(GIVEN)),
    }
}

fn date(scene: &Scene, rng: &mut Rng, out: &mut String) {
    let year = scene.year - rng.below(4);
    let month = rng.between(1, 12);
    let day = rng.between(1, 28);
    out.push_str(&match rng.below(6) {
        0 => format!("{year}年{month}月"),
        1 => format!("{year}年{month}月{day}日"),
        2 => format!("{month}月{day}号"),
        3 => format!("今年{month}月{}旬", rng.pick(&["上", "中", "下"])),
        4 => format!("{year}.{month}.{day}日"),
        _ => format!("去年{}", rng.pick(&["春天", "国庆", "年底", "端午前后", "入冬", "暑假", "清明"])),
    });
}

pub(super) fn clock_time(rng: &mut Rng, out: &mut String) {
    let half = rng.pick(&["点", "点半", "点多", "点钟"]);
    let (part, hour) = match rng.below(4) {
        0 => ("凌晨", rng.between(1, 5)),
        1 => ("早上", rng.between(6, 9)),
        2 => ("下午", rng.between(2, 6)),
        _ => ("晚上", rng.between(7, 11)),
    };
    out.push_str(&format!("{part}{hour}{half}"));
}

pub(super) fn money(rng: &mut Rng, out: &mut String) {
    out.push_str(&match rng.below(4) {
        0 => format!("{}", rng.between(3, 99) * 10),
        1 => format!("{}", rng.between(1000, 9999)),
        2 => format!("{}.{}万", rng.between(1, 60), rng.between(1, 9)),
        _ => format!("{}万", rng.between(2, 300)),
    });
}

#[cfg(test)]
mod tests {
    use super::super::{generic, story};
    use super::*;

    fn expanded(template: &str, seed: u64) -> String {
        let scene = Scene::new(story::vocabulary(seed as usize % story::topic_count()), seed, &mut Rng::of(&[seed]));
        let mut out = String::new();
        expand(template, &scene, &mut Voice::of(seed, seed), &mut out);
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
        let generic = [generic::OPENINGS, generic::CLOSINGS];
        let composed = [phrases::FACTS, phrases::CHRONICLE, phrases::REMARKS, phrases::DEMANDS, phrases::TITLES];
        let around = [generic::PREFIXES, generic::SUFFIXES, generic::QUOTES];
        let topics =
            (0..story::topic_count()).map(story::topic).flat_map(|t| [t.titles, t.facts, t.effects, t.demands]);
        let lists = phrases::PHRASES.iter().flat_map(|(_, words)| words.split('|'));
        let topical = (0..story::topic_count()).map(story::vocabulary);
        let topical = topical.flat_map(|v| [&v.places, &v.things, &v.faults, &v.actors, &v.acts]).flatten().copied();
        let words: Vec<&str> = lists.chain(topical).collect();
        for template in generic.into_iter().chain(composed).chain(around).chain(topics).flatten().chain(&words) {
            assert_eq!(template.matches('[').count(), template.matches(']').count(), "{template}");
            for seed in 0..20 {
                let text = expanded(template, seed);
                assert!(!text.contains(['[', ']', '{', '}', '|']), "{template} gave {text}");
            }
        }
    }
}
