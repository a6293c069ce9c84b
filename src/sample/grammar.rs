//! Templates and how they become text.
//!
//! `[a|b|]` is one of its alternatives (they nest), `{name}` a slot: a place or person of the story, a fresh date, number
//! or name, or one of the words of [`VARIANTS`](super::words::VARIANTS). One pass over the template, no failure:
//! an unknown slot is a mistake in this crate and is caught by a test over all templates.

use super::rng::Rng;
use super::words::{COMPANIES, DISTRICTS, ESTATES, FIRSTS, GIVEN, OFFICES, STEMS, SURNAMES, VARIANTS};

/// The names that stay the same throughout one story.
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
}

impl Scene {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut join =
            |firsts: &[&'static str], lasts: &[&'static str]| format!("{}{}", rng.pick(firsts), rng.pick(lasts));
        let school = join(STEMS, &["小学", "中学", "幼儿园", "职业学校", "实验学校", "一中", "镇中心校"]);
        let (estate, company) = (join(FIRSTS, ESTATES), join(FIRSTS, COMPANIES));
        let village = join(STEMS, &["村", "垅村", "冲村", "湾村", "岭村", "桥村", "社区"]);
        let road = join(STEMS, &["路", "大道", "街", "巷", "东路", "西路", "北路", "南路", "横街"]);
        let (town, subdistrict) = (join(STEMS, &["镇", "乡", "铺镇", "市镇"]), join(STEMS, &["街道", "路街道"]));
        let district = rng.pick(DISTRICTS);
        Self { district, subdistrict, estate, village, town, road, company, school, year: rng.between(2011, 2021) }
    }
}

/// Expands `template` into `out`.
pub(super) fn expand(template: &str, scene: &Scene, rng: &mut Rng, out: &mut String) {
    let mut rest = template;
    while let Some(at) = rest.find(['[', '{']) {
        out.push_str(&rest[..at]);
        let inner = &rest[at + 1..];
        if rest.as_bytes()[at] == b'{' {
            let end = inner.find('}').unwrap_or(inner.len());
            slot(&inner[..end], scene, rng, out);
            rest = inner.get(end + 1..).unwrap_or("");
        } else {
            let (alternatives, after) = alternatives(inner);
            expand(rng.pick(&alternatives), scene, rng, out);
            rest = after;
        }
    }
    out.push_str(rest);
}

/// The alternatives of a bracket that has just been opened, and what follows its end.
fn alternatives(inner: &str) -> (Vec<&str>, &str) {
    let (mut depth, mut from, mut found) = (0usize, 0, Vec::new());
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

fn slot(name: &str, scene: &Scene, rng: &mut Rng, out: &mut String) {
    // Two fifths of the mentions of the story's own place are paraphrased, as people do.
    let own = |out: &mut String, rng: &mut Rng, name: &str, short: &[&str]| {
        out.push_str(if rng.chance(60) { name } else { rng.pick(short) });
    };
    match name {
        "市区" => out.push_str(scene.district),
        "街道" => out.push_str(&scene.subdistrict),
        "小区" => own(out, rng, &scene.estate, &["我们小区", "本小区", "我们这里", "院子"]),
        "村" => own(out, rng, &scene.village, &["我们村", "本村", "村里"]),
        "镇" => out.push_str(&scene.town),
        "路" => own(out, rng, &scene.road, &["这条路", "门前的路", "那条街"]),
        "公司" => own(out, rng, &scene.company, &["这家公司", "该公司", "他们公司", "对方"]),
        "学校" => own(out, rng, &scene.school, &["这所学校", "学校", "校方"]),
        "部门" => out.push_str(rng.pick(OFFICES)),
        "姓" => out.push_str(rng.pick(SURNAMES)),
        "人" => person(rng, out),
        "日期" => date(scene, rng, out),
        "钟点" => clock_time(rng, out),
        "数" => {
            let number = if rng.chance(70) { rng.between(2, 12) } else { rng.between(13, 98) };
            out.push_str(&number.to_string());
        }
        "户" => out.push_str(&rng.between(14, 1900).to_string()),
        "钱" => money(rng, out),
        "单号" => out.push_str(&format!("{}{:07}", scene.year, rng.below(10_000_000))),
        variant => match VARIANTS.iter().find(|(key, _)| *key == variant) {
            Some((_, words)) => out.push_str(rng.pick(words)),
            None => out.push_str(&format!("{{{variant}}}")),
        },
    }
}

/// A person as petitions name them.
pub(super) fn person(rng: &mut Rng, out: &mut String) {
    out.push_str(rng.pick(SURNAMES));
    match rng.below(4) {
        0 => out.push('某'),
        1 => out.push_str(rng.pick(&["先生", "女士", "师傅", "阿姨", "大爷", "姐"])),
        _ => out.push_str(rng.pick(GIVEN)),
    }
}

fn date(scene: &Scene, rng: &mut Rng, out: &mut String) {
    let (year, month, day) = (scene.year - rng.below(4), rng.between(1, 12), rng.between(1, 28));
    out.push_str(&match rng.below(6) {
        0 => format!("{year}年{month}月"),
        1 => format!("{year}年{month}月{day}日"),
        2 => format!("{month}月{day}号"),
        3 => format!("今年{month}月{}旬", rng.pick(&["上", "中", "下"])),
        4 => format!("{year}.{month}.{day}"),
        _ => format!("去年{}", rng.pick(&["春天", "国庆", "年底", "端午前后", "入冬", "暑假", "清明"])),
    });
}

fn clock_time(rng: &mut Rng, out: &mut String) {
    let half = rng.pick(&["点", "点半", "点多", "点钟"]);
    let (part, hour) = match rng.below(4) {
        0 => ("凌晨", rng.between(1, 5)),
        1 => ("早上", rng.between(6, 9)),
        2 => ("下午", rng.between(2, 6)),
        _ => ("晚上", rng.between(7, 11)),
    };
    out.push_str(&format!("{part}{hour}{half}"));
}

fn money(rng: &mut Rng, out: &mut String) {
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
        let mut rng = Rng::of(&[seed]);
        let scene = Scene::new(&mut rng);
        let mut out = String::new();
        expand(template, &scene, &mut rng, &mut out);
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
        let generic = [generic::OPENINGS, generic::CHRONICLE, generic::REMARKS, generic::CLOSINGS];
        let around = [generic::PREFIXES, generic::SUFFIXES, generic::QUOTES];
        let topics =
            (0..story::topic_count()).map(story::topic).flat_map(|t| [t.titles, t.facts, t.effects, t.demands]);
        for template in generic.into_iter().chain(around).chain(topics).flatten() {
            assert_eq!(template.matches('[').count(), template.matches(']').count(), "{template}");
            for seed in 0..20 {
                let text = expanded(template, seed);
                assert!(!text.contains(['[', ']', '{', '}', '|']), "{template} gave {text}");
            }
        }
    }
}
