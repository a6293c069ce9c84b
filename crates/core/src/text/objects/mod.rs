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
pub mod numerals;

use std::collections::HashSet;

use jieba_rs::{Jieba, Tag};

use self::numerals::is_numeral;
use super::segment::PIECE_BYTES;
use super::shingles::counts;
use super::units::is_han;
use crate::verdict::ObjectKind;

/// Most characters that are added to an ending on its left.
const MAX_NAME_CHARS: usize = 8;
/// Letters and digits that may begin a name: "a2" of a district, no telephone number.
const MAX_CODE_CHARS: usize = 3;
/// Most characters of the number of a road or village, in digits (longer ones are of bus lines) and in words.
const MAX_DIGITS: usize = 2;
const MAX_NUMERALS: usize = 3;
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
    /// Bytes of the name before its ending: what is left of it when people abbreviate. All of it for numbers. Of some endings the first
    /// character is of what stands before, since it tells it from others: "east" of "east road".
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

    /// Whether a road is named whose number and ending are these.
    fn names_road_numbered(&self, line: &str) -> bool {
        let base = |road: &NamedObject| road.name.strip_suffix(line).map(|base| !base.ends_with(is_numeral));
        self.objects.iter().any(|object| object.kind == ObjectKind::Road && base(object) == Some(true))
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
        numbers::numbers(text, &mut |object| {
            // "2路" of a road that is numbered so is no bus line.
            if object.kind != ObjectKind::Line || !self.names_road_numbered(&object.name) {
                self.add(object);
            }
        });
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
    for at in 0..clause.len() {
        if let Some(name) = name_at(clause, free, at) {
            add(name);
            free = at + 1;
        }
    }
}

/// The name that ends with the word at `at` and begins at `free` at the earliest, if one does.
fn name_at(clause: &[Tag<'_>], free: usize, at: usize) -> Option<NamedObject> {
    let word = clause[at].word;
    let (ending, kind) = lists::ending(word).filter(|_| word.chars().all(is_han))?;
    // Behind a name the "road" is that of a street lamp.
    let lamp = begins_other_word(&clause[at..]) && at > free && lists::ending(clause[at - 1].word).is_some();
    if lists::is_common_noun(word) || lamp {
        return None;
    }
    let behind = &clause[at + 1..];
    let next = behind.first().map_or("", |next| next.word);
    // Not so where an ending comes twice: then the second begins the next word, as does the "road" of a street lamp.
    let is_joined = lists::joins(next) && next != ending && !begins_other_word(behind);
    let goes_on = || {
        let landmark = kind == ObjectKind::Water || lists::is_landmark(ending);
        let words = if landmark { words_to_thing(behind) } else { None };
        words.is_some_and(|words| {
            !begins_other_word(&behind[words - 1..]) && name_at(clause, free, at + words).is_some()
        })
    };
    if is_joined || goes_on() {
        return None;
    }
    let before = name_before(&clause[free..at], &clause[at], ending, kind, behind.first())?;
    let core = before.len() + lists::telling_bytes(ending);
    Some(NamedObject { kind, name: format!("{before}{ending}"), core })
}

/// Whether the first of these words is a "road" with which another word begins that the dictionary cut in two: "street lamp".
fn begins_other_word(words: &[Tag<'_>]) -> bool {
    matches!(words, [first, next, ..] if first.word == "路" && lists::follows_road(next.word))
}

/// Words from a landmark to the end of what is named for it and told from others by a number or side: 1 for "east village", 2 for
/// "upper" and "village".
fn words_to_thing(behind: &[Tag<'_>]) -> Option<usize> {
    let rest = behind.first()?.word.trim_start_matches(|c| lists::is_side(c) || is_numeral(c));
    let (words, last) = if rest.is_empty() { (2, behind.get(1)?.word) } else { (1, rest) };
    lists::is_numbered(last).then_some(words)
}

/// Word classes of the dictionary that are no part of a name when they are longer than a character.
fn is_no_name(class: &str) -> bool {
    class.starts_with(['v', 'd', 'a', 'c', 'p', 'r', 'm', 't', 'i', 'l', 'q'])
}

/// What stands before `ending` and belongs to the name, from the word itself and those before it, where `next` is the word behind;
/// `None` if it names nothing.
fn name_before(
    before: &[Tag<'_>],
    word: &Tag<'_>,
    ending: &str,
    kind: ObjectKind,
    next: Option<&Tag<'_>>,
) -> Option<String> {
    let core = &word.word[..word.word.len() - ending.len()];
    if lists::is_numbered(ending)
        && !next.is_some_and(|next| lists::follows_line(next.word))
        && let Some(name) = numbered_name(before, core, kind)
    {
        return Some(name);
    }
    // Words that were added to the dictionary have no class.
    let proper = !core.is_empty() && is_proper(word.tag);
    // An east village is that of the name before.
    let east = matches!(kind, ObjectKind::Road | ObjectKind::Place) && lists::is_direction(core);
    let is_road_of = |word: &str| kind == ObjectKind::Road && lists::is_namesake(kind, word);
    if proper && !east && !(is_road_of(core) && lists::is_vague(core)) {
        // The dictionary may know the end of a longer name only.
        let longer = before.last().filter(|tag| tag.word.chars().count() == 1 && tag.word.chars().all(is_han));
        let longer = longer.map_or("", |tag| if lists::is_boundary(tag.word) { "" } else { tag.word });
        return (!lists::is_vague(core)).then(|| format!("{longer}{core}"));
    }
    if !core.is_empty() && is_no_name(word.tag) {
        return None;
    }
    let prefix = prefix(before, core, kind);
    let name = format!("{prefix}{core}");
    let chars = name.chars().count();
    let lone_core = prefix.is_empty() && (core.chars().count() < 2 || !word.tag.starts_with('n'));
    let nothing = name.is_empty()
        || (lists::is_vague(&format!("{name}{}", &ending[..lists::telling_bytes(ending)])) && !is_road_of(&name))
        || name.chars().all(|c| lists::COUNTING.contains(c))
        || lone_core
        || (chars == 1 && kind == ObjectKind::Organisation)
        || lists::is_ending(&name);
    (!nothing).then_some(name)
}

/// Whether the dictionary has words of this class as names.
fn is_proper(class: &str) -> bool {
    class.is_empty() || ["ns", "nt", "nz", "nr"].iter().any(|proper| class.starts_with(proper))
}

/// A name and the number behind it, up to an ending before which `core` stands: "songgang 2" of "songgang 2 road". `None` if there is
/// no number, or nothing that names a thing before it: then it may be the number of a bus line, or a word ("all the way").
fn numbered_name(before: &[Tag<'_>], core: &str, kind: ObjectKind) -> Option<String> {
    if !core.chars().all(is_numeral) {
        return None;
    }
    let words = before.iter().rev().take_while(|tag| tag.word.chars().all(is_numeral)).count();
    let (base, number) = before.split_at(before.len() - words);
    let number = number.iter().map(|tag| tag.word).chain([core]).collect::<String>();
    let last = base.last()?;
    let is_name = match last.word.chars().count() {
        // "一路" is "all the way", too.
        _ if number == "一" && base.iter().any(|tag| lists::begins_way(tag.word)) => false,
        1 if number == "一" => {
            let unknown =
                base.iter().rev().take_while(|tag| tag.word.chars().count() == 1 && !is_no_name(tag.tag)).count() > 1;
            unknown || lists::is_grid(last.word) || lists::is_landmark(last.word)
        }
        1 => !is_no_name(last.tag),
        _ => {
            let landmark = lists::ending(last.word).is_some_and(|(ending, _)| lists::is_landmark(ending));
            let names = is_proper(last.tag) || lists::is_namesake(kind, last.word) || landmark;
            names || (kind != ObjectKind::Road && !is_no_name(last.tag))
        }
    };
    let name = is_name.then(|| prefix(base, "", kind)).filter(|name| !name.is_empty())?;
    let most = if number.bytes().all(|b| b.is_ascii_digit()) { MAX_DIGITS } else { MAX_NUMERALS };
    (1..=most).contains(&number.chars().count()).then(|| name + &number)
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
            // "a2" of a district; a house number before a road is none of its name.
            let begins = prefix.is_empty() && core.is_empty() && kind != ObjectKind::Road;
            if (begins || kind == ObjectKind::District) && chars <= MAX_CODE_CHARS {
                prefix.insert_str(0, word);
            }
            break;
        }
        let opens_clause = left == 0 && chars <= 2;
        // "Number one" of schools and hospitals.
        let ordinal = kind == ObjectKind::Organisation && word.starts_with('第');
        // "Liberation Road", "Experimental School", whatever the dictionary takes the words for.
        let namesake = prefix.is_empty() && core.is_empty() && lists::is_namesake(kind, word);
        let is_name = chars == 1 || !is_no_name(tag.tag) || opens_clause || ordinal || namesake;
        if !word.chars().all(is_han) || !is_name {
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

    /// Names as `core|ending`.
    fn cores(text: &str) -> String {
        let objects = Words::new(&TextSettings::default()).objects(text);
        let core =
            |object: &NamedObject| format!("{:?} {}|{}", object.kind, object.core(), &object.name[object.core..]);
        objects.iter().map(core).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_number_or_side_is_of_the_name_and_not_of_its_ending() {
        assert_eq!(cores("学府东路的路灯"), "Road 学府东|路");
        assert_eq!(cores("青石桥北路的路灯"), "Road 青石桥北|路");
        assert_eq!(cores("反映建设北路的路灯,位于解放一路"), "Road 建设北|路 Road 解放一|路", "verbs, but for that");
        assert_eq!(cores("反映人民路停水,要求教育路限速"), "Road 人民|路 Road 教育|路");
        assert_eq!(
            cores("松岗东路路灯不亮,松岗东村路灯不亮,雁坪路灯不亮"),
            "Road 松岗东|路 Place 松岗东|村 Road 雁坪|路"
        );
        assert_eq!(cores("凤城一路,软件园二路"), "Road 凤城一|路 Road 软件园二|路");
        assert_eq!(cores("投诉第一实验小学,投诉柳塘四中"), "Organisation 第一实验|小学 Organisation 柳塘四|中");
        assert_eq!(cores("松岗一路与松岗十二路交汇处"), "Road 松岗一|路 Road 松岗十二|路");
        assert_eq!(cores("青石桥一路与梧桐湾2路,雁坪一路"), "Road 青石桥一|路 Road 梧桐湾2|路 Road 雁坪一|路");
        assert_eq!(cores("松岗2路和学府12路"), "Road 松岗2|路 Road 学府12|路");
        assert_eq!(cores("沿经三路,北二路停水"), "Road 经三|路 Road 北二|路");
        assert_eq!(
            cores("松岗东村,砚溪上村,砚溪东村"),
            "Place 松岗东|村 Place 砚溪上|村 Place 砚溪东|村",
            "not of the brook"
        );
        assert_eq!(cores("柳塘一中和柳塘一小"), "Organisation 柳塘一|中 Organisation 柳塘一|小");
    }

    #[test]
    fn bus_lines_adverbs_and_what_is_beside_a_place_are_no_part_of_names() {
        assert_eq!(cores("坐2路,公交3路,转4路,换乘5路,火车站6路"), "Line 2路| Line 3路| Line 4路| Line 5路| Line 6路|");
        assert_eq!(cores("长沙2路公交车不停站,长沙2路晚点"), "Line 2路|");
        assert_eq!(cores("青石桥下路灯不亮,反映建设路路灯不亮"), "Road 青石|桥 Road 建设|路");
        assert_eq!(cores("坐2路到松岗12路下车"), "Road 松岗12|路 Line 2路|");
        assert_eq!(cores("梧桐湾2路公交车,青石桥二路车"), "Place 梧桐|湾 Road 青石|桥 Line 2路|");
        for text in [
            "坐二路车",
            "渣土车一路抛洒",
            "司机一路走",
            "一路上",
            "兵分三路",
            "一带一路",
            "沿二路走",
            "在北路",
            "从松岗一路堵到学府",
        ] {
            assert_eq!(cores(text), "", "{text}");
        }
        assert_eq!(cores("户口在柳塘区上小学"), "District 柳塘|区");
        assert_eq!(cores("鹤鸣小区东区停水,鹤鸣小区后街脏乱"), "Place 鹤鸣|小区");
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
