//! Named objects: the places, roads, organisations, plates and numbers that a text is about.
//!
//! Two letters written by one form differ in little else. Names are recognised by rules and lists of our own over the words
//! and word classes of the dictionary: a word that *ends* like a name (road, estate, school, company, river …) is taken with
//! what stands before it, up to a word that cannot belong to it. Numbers are found by what stands around them. What is found
//! is evidence, not truth: a name too many or too few must not decide alone.
//!
//! O(length): one pass over the words, one over the characters.

mod lists;
mod numbers;

use std::collections::HashSet;

use jieba_rs::{Jieba, Tag};

use super::segment::PIECE_BYTES;
use super::shingles::counts;
use super::units::is_han;
use crate::verdict::ObjectKind;

/// Most characters that are added to an ending on its left.
const MAX_NAME_CHARS: usize = 8;
/// Letters and digits that may begin a name: "a2" of a district, no telephone number.
const MAX_CODE_CHARS: usize = 3;
/// Most digits of the number of a road.
const MAX_ROAD_DIGITS: usize = 2;
/// Bytes of a text that are looked through: what a letter is about stands near its beginning, and tagging takes memory.
pub(super) const MAX_TEXT_BYTES: usize = PIECE_BYTES;
/// Most objects taken of a text: more are a list, not what the letter is about.
pub const MAX_OBJECTS: usize = 128;

/// Something that a text names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedObject {
    /// What it is.
    pub kind: ObjectKind,
    /// The name as it stands in the normalised text, without white space.
    pub name: String,
    /// Bytes of the name before its ending: what is left of it when people abbreviate. All of it for numbers. A number or a side at
    /// the beginning of an ending ("east road") is of what stands before: it tells one from another.
    pub core: usize,
}

impl NamedObject {
    /// The name without its ending.
    pub fn core(&self) -> &str {
        &self.name[..self.core]
    }
}

/// The objects that a normalised text names, each once, in order: at most [`MAX_OBJECTS`].
pub fn objects(jieba: &Jieba, text: &str) -> Vec<NamedObject> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    tagged_objects(text, &jieba.tag(text, false))
}

/// The same of a text that was cut already.
fn tagged_objects(text: &str, tags: &[Tag<'_>]) -> Vec<NamedObject> {
    let mut found = Found::default();
    found.read(tags);
    found.finish(text)
}

/// What was found of a text so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    objects: Vec<NamedObject>,
    names: HashSet<String>,
}

impl Found {
    fn add(&mut self, object: NamedObject) {
        if self.objects.len() < MAX_OBJECTS && self.names.insert(object.name.clone()) {
            self.objects.push(object);
        }
    }

    /// Takes the names from the next part of the text, which was cut; no name lies in two parts.
    pub(super) fn read(&mut self, tags: &[Tag<'_>]) {
        for clause in tags.split(|tag| !tag.word.chars().any(counts)) {
            names(clause, &mut |object| self.add(object));
        }
    }

    /// Everything that the whole text names.
    pub(super) fn finish(mut self, text: &str) -> Vec<NamedObject> {
        brands(text, &mut |object| self.add(object));
        let roads =
            |name: &str| self.objects.iter().any(|road| road.kind == ObjectKind::Road && road.name.ends_with(name));
        let mut found = Vec::new();
        numbers::numbers(text, &mut |object| found.push(object));
        // "2路" of a road that is numbered so is no bus line.
        found.retain(|object| object.kind != ObjectKind::Line || !roads(&object.name));
        found.into_iter().for_each(|object| self.add(object));
        self.objects
    }
}

fn brands(text: &str, add: &mut impl FnMut(NamedObject)) {
    for brand in text.char_indices().filter_map(|(at, _)| lists::brand(&text[at..])) {
        add(NamedObject { kind: ObjectKind::Organisation, name: brand.to_owned(), core: brand.len() });
    }
}

/// The names among the words of a clause.
fn names(clause: &[Tag<'_>], add: &mut impl FnMut(NamedObject)) {
    // Words before this one belong to another name.
    let mut free = 0;
    for (at, tag) in clause.iter().enumerate() {
        let Some((ending, kind)) = lists::ending(tag.word).filter(|_| tag.word.chars().all(is_han)) else { continue };
        if lists::is_common_noun(tag.word) {
            continue;
        }
        // Not so where an ending comes twice: then the second begins the next word.
        let next = clause.get(at + 1).filter(|next| lists::is_side(next.word)).map_or(at + 1, |_| at + 2);
        if clause.get(next).is_some_and(|next| next.word != ending && lists::joins(next.word)) {
            continue;
        }
        if let Some(before) = name_before(&clause[free..at], tag, ending, kind) {
            let core = before.len() + lists::number_bytes(ending);
            add(NamedObject { kind, name: format!("{before}{ending}"), core });
            free = at + 1;
        }
    }
}

/// Word classes of the dictionary that are no part of a name when they are longer than a character.
fn is_no_name(class: &str) -> bool {
    class.starts_with(['v', 'd', 'a', 'c', 'p', 'r', 'm', 't', 'i', 'l', 'q'])
}

/// What stands before `ending` and belongs to the name, from the word itself and those before it; `None` if it names nothing.
fn name_before(before: &[Tag<'_>], word: &Tag<'_>, ending: &str, kind: ObjectKind) -> Option<String> {
    let core = &word.word[..word.word.len() - ending.len()];
    // Words that were added to the dictionary have no class.
    let proper = !core.is_empty()
        && (word.tag.is_empty() || ["ns", "nt", "nz", "nr"].iter().any(|class| word.tag.starts_with(class)));
    if proper && !lists::is_vague(core) {
        // The dictionary may know the end of a longer name only.
        let longer = before.last().filter(|tag| tag.word.chars().count() == 1 && tag.word.chars().all(is_han));
        let longer = longer.map_or("", |tag| if lists::is_boundary(tag.word) { "" } else { tag.word });
        return Some(format!("{longer}{core}"));
    }
    if !core.is_empty() && is_no_name(word.tag) {
        return None;
    }
    let prefix = prefix(before, core, kind);
    let number = &ending[..lists::number_bytes(ending)];
    let name = format!("{prefix}{core}");
    let chars = name.chars().count();
    let lone_core = prefix.is_empty() && (core.chars().count() < 2 || !word.tag.starts_with('n'));
    let nothing = name.is_empty()
        || lists::is_vague(&format!("{name}{number}"))
        || name.chars().all(|c| lists::COUNTING.contains(c))
        || lone_core
        || (chars == 1 && kind == ObjectKind::Organisation)
        || lists::is_ending(&name);
    (!nothing).then_some(name)
}

/// Whether a number behind these words is of the road that they name, not of a bus line: "songgang 2 road".
fn numbers_a_road(before: &[Tag<'_>], number: &str) -> bool {
    number.len() <= MAX_ROAD_DIGITS
        && number.bytes().all(|b| b.is_ascii_digit())
        && before.last().is_some_and(|tag| {
            let names = tag.word.chars().all(is_han) && (tag.word.chars().count() == 1 || !is_no_name(tag.tag));
            names && !lists::is_boundary(tag.word) && !lists::has_lines(tag.word)
        })
}

/// The words before a name's own that belong to it.
fn prefix(before: &[Tag<'_>], core: &str, kind: ObjectKind) -> String {
    let mut prefix = String::new();
    for (left, tag) in before.iter().enumerate().rev() {
        let (word, chars) = (tag.word, tag.word.chars().count());
        if prefix.chars().count() >= MAX_NAME_CHARS || lists::is_boundary(word) {
            break;
        }
        if word.chars().all(|c| c.is_ascii_alphanumeric()) {
            let begins = prefix.is_empty() && core.is_empty();
            let numbers = begins && kind == ObjectKind::Road && numbers_a_road(&before[..left], word);
            // "a2" of a district; a house number before a road is none of its name.
            let codes = (begins && kind != ObjectKind::Road) || kind == ObjectKind::District;
            if numbers || (codes && chars <= MAX_CODE_CHARS) {
                prefix.insert_str(0, word);
            }
            if numbers {
                continue;
            }
            break;
        }
        let opens_clause = left == 0 && chars <= 2;
        // "Number one" of schools and hospitals.
        let ordinal = kind == ObjectKind::Organisation && word.starts_with('第');
        if !word.chars().all(is_han) || (chars > 1 && is_no_name(tag.tag) && !opens_clause && !ordinal) {
            break;
        }
        prefix.insert_str(0, word);
    }
    prefix
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::TextSettings;
    use crate::text::words::Words;

    fn named(text: &str) -> Vec<(ObjectKind, String)> {
        let words = Words::new(&TextSettings::default());
        words.objects(text).into_iter().map(|object| (object.kind, object.name)).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(ObjectKind, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect();
        assert_eq!(named(text), expected, "{text}");
    }

    #[test]
    fn names_end_as_what_they_name_and_begin_behind_what_cannot_belong_to_them() {
        use ObjectKind::{District, Organisation, Place, Road, Water};
        check("反映柳塘区雁坪路的路灯不亮", &[(District, "柳塘区"), (Road, "雁坪路")]);
        check("南基路街道便民服务中心", &[(District, "南基路街道"), (Organisation, "便民服务中心")]);
        check("位于鹤鸣小区门口的垃圾", &[(Place, "鹤鸣小区")]);
        check("请问青石桥小学什么时候开学", &[(Organisation, "青石桥小学")]);
        check("砚溪河污染严重,沿河居民意见很大", &[(Water, "砚溪河")]);
        check("柳塘第一小学门口堵车", &[(Organisation, "柳塘第一小学")]);
        check("投诉云帆建材有限公司拖欠工资", &[(Organisation, "云帆建材有限公司")]);
    }

    #[test]
    fn numbers_and_sides_are_of_the_name_and_not_of_its_ending() {
        let found = |text: &str| {
            let objects = Words::new(&TextSettings::default()).objects(text);
            let names = objects
                .iter()
                .map(|object| format!("{:?} {}|{}", object.kind, object.core(), &object.name[object.core..]));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found("学府东路的路灯"), "Road 学府东|路");
        assert_eq!(found("青石桥北路的路灯"), "Road 青石桥北|路");
        assert_eq!(found("建设北路的路灯"), "Road 建设北|路", "with its side it names a road");
        assert_eq!(found("松岗一路与纬三路交汇处"), "Road 松岗一|路 Road 纬三|路");
        assert_eq!(found("松岗2路和学府12路"), "Road 松岗2|路 Road 学府12|路");
        assert_eq!(found("坐2路,公交3路,等了4路"), "Line 2路| Line 3路| Line 4路|");
        assert_eq!(found("松岗东村和鹤鸣南苑"), "Place 松岗东|村 Place 鹤鸣南|苑");
        assert_eq!(found("砚溪上村,砚溪东村"), "Place 砚溪上|村 Place 砚溪东|村", "not of the brook");
        assert_eq!(found("柳塘一中和柳塘一小"), "Organisation 柳塘一|中 Organisation 柳塘一|小");
        assert_eq!(found("坐二路车,一路上,沿二路走,在北路"), "");
    }

    #[test]
    fn what_names_nothing_is_no_name() {
        for text in ["我们小区的业主", "有关部门和有限公司", "三个小区", "回家路上", "该路段", "本市物业公司"]
        {
            check(text, &[]);
        }
    }

    #[test]
    fn plates_orders_lines_and_amounts_are_told_from_dates_times_and_measures() {
        use ObjectKind::{Amount, Line, Number, Plate};
        check("车牌粤b·7k3m9挡住出口,粤b7k3m9", &[(Plate, "粤b7k3m9")]);
        check("工单号20240561123未处理", &[(Number, "20240561123")]);
        check("坐27路等了40分钟", &[(Line, "27路")]);
        check("收费300元不退", &[(Amount, "300元")]);
        check("2018年1月5日22:30,2018.1.5,第3层12户", &[]);
    }

    #[test]
    fn brands_need_no_ending_and_user_words_are_names_as_a_whole() {
        check("手机联通信号差", &[(ObjectKind::Organisation, "联通")]);
        let settings = TextSettings { user_words: vec!["半月里花园".into()], ..TextSettings::default() };
        let found = Words::new(&settings).objects("半月里花园停水");
        assert!(found.iter().any(|object| object.name == "半月里花园"), "{found:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_text_is_read_and_names_stand_in_it(text in "[东西路河区公司小区村 一二三粤a1-9·.,。元号\u{20000}]{0,60}") {
            let words = Words::new(&TextSettings::default());
            let compact = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            for object in words.objects(&text) {
                prop_assert!(object.core <= object.name.len() && object.name.is_char_boundary(object.core));
                prop_assert!(object.kind == ObjectKind::Amount || compact(&text).contains(&object.name), "{object:?}");
            }
        }
    }
}
