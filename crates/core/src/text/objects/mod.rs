//! Named objects: the places, roads, organisations, plates and numbers that a text is about.
//!
//! Two letters on the same form differ in little else. The names are the object facts of the text ([`crate::facts`]),
//! reduced to the kinds in which a difference is shown. Brands and numbers without a label are added. The result is
//! evidence and not certain: one name too many or too few must not decide alone.
//!
//! O(length): one pass over the words, one over the characters.

mod lists;
mod numbers;
pub mod numerals;

use std::ops::Range;

use hashbrown::HashSet;
use jieba_rs::{Jieba, Tag};

use super::segment::PIECE_BYTES;
use crate::facts::{Fact, FactKind, FactReader, WordSpan, core_bytes};
use crate::verdict::ObjectKind;

/// Maximum number of bytes of a text that are searched. A letter names its subject near its beginning, and the word
/// classes take memory.
pub(super) const MAX_TEXT_BYTES: usize = PIECE_BYTES;
/// Maximum number of objects of a text. A text with more objects contains a list, which is not its subject.
pub const MAX_OBJECTS: usize = 128;

/// An object that a text names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedObject {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The name in the normalised text, without white space.
    pub name: String,
    /// Number of bytes of the name before its ending: the part that people keep when they abbreviate. For numbers, the
    /// length of the name. If the first character of an ending distinguishes names, it belongs to this part: "east" of
    /// "east road".
    pub core: usize,
}

impl NamedObject {
    /// Returns the name without its ending.
    pub fn core(&self) -> &str {
        &self.name[..self.core]
    }
}

/// Returns the objects that a normalised text names, each once, in order: at most [`MAX_OBJECTS`].
pub fn objects(jieba: &Jieba, reader: &FactReader, text: &str) -> Vec<NamedObject> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let mut found = Found::default();
    found.read(&jieba.tag(text, false));
    found.finish(reader, text)
}

/// Returns the spans of the facts that a normalised text names, in characters, without contacts and noise.
pub fn fact_spans(jieba: &Jieba, reader: &FactReader, text: &str) -> Vec<Range<usize>> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let mut found = Found::default();
    found.read(&jieba.tag(text, false));
    let facts = reader.read(text, &found.words);
    let named = facts.iter().filter(|fact| !fact.kind.is_removed());
    named.map(|fact| fact.span.start as usize..fact.span.end as usize).collect()
}

/// The words of a text that is cut part by part.
#[derive(Debug, Default)]
pub(super) struct Found<'w> {
    words: Vec<WordSpan<'w>>,
    /// Number of characters of the parts so far, with one more between two parts.
    chars: u32,
}

impl<'w> Found<'w> {
    /// Takes all words of the next part of the text. One character separates two parts.
    pub(super) fn read(&mut self, tags: &[Tag<'w>]) {
        let start = self.chars;
        if start > 0 {
            // The character between two parts ends a clause.
            self.words.push(WordSpan { span: start - 1..start, tag: "x" });
        }
        self.words.extend(
            tags.iter().map(|tag| WordSpan { span: start + tag.start as u32..start + tag.end as u32, tag: tag.tag }),
        );
        self.chars = start + tags.last().map_or(0, |tag| tag.end as u32) + 1;
    }

    /// Returns all objects that the whole text names.
    pub(super) fn finish(self, reader: &FactReader, text: &str) -> Vec<NamedObject> {
        let facts = reader.read(text, &self.words);
        let mut objects: Vec<NamedObject> = Vec::new();
        let mut names = HashSet::new();
        let mut add = |object: NamedObject| {
            if objects.len() < MAX_OBJECTS && names.insert((object.kind, object.name.clone())) {
                objects.push(object);
            }
        };
        facts.iter().filter_map(object).for_each(&mut add);
        brands(text, &mut add);
        // At most as many facts as objects are read, so that a text full of facts does not take longer.
        let [plates, roads] = [FactKind::Plate, FactKind::Road]
            .map(|kind| facts.iter().filter(|fact| fact.kind == kind).take(MAX_OBJECTS).collect::<Vec<_>>());
        numbers::numbers(text, &mut |number| {
            let is_of_a_plate = plates.iter().any(|plate| plate.canonical.contains(&*number.name));
            let is_of_a_road =
                number.kind == ObjectKind::Line && roads.iter().any(|road| road.canonical.ends_with(&*number.name));
            if !is_of_a_plate && !is_of_a_road {
                add(number);
            }
        });
        objects
    }
}

fn brands(text: &str, add: &mut impl FnMut(NamedObject)) {
    for brand in text.char_indices().filter_map(|(at, _)| lists::brand(&text[at..])) {
        add(NamedObject { kind: ObjectKind::Organisation, name: brand.to_owned(), core: brand.len() });
    }
}

/// Returns the object of a fact; `None` for contacts and noise.
fn object(fact: &Fact) -> Option<NamedObject> {
    let name = &*fact.canonical;
    if let Some((kind, suffix)) = numbered_kind(fact.kind) {
        let name = if name.ends_with(suffix) { name.to_owned() } else { format!("{name}{suffix}") };
        return Some(NamedObject { kind, core: name.len(), name });
    }
    let kind = match fact.kind {
        FactKind::District | FactKind::Town => ObjectKind::District,
        FactKind::Road => ObjectKind::Road,
        FactKind::Village | FactKind::Estate | FactKind::PublicPlace => ObjectKind::Place,
        FactKind::School | FactKind::Organisation | FactKind::Product => ObjectKind::Organisation,
        _ => return None,
    };
    // The part before the ending of an authority is only its place: 海口市社保局.
    let is_authority =
        kind == ObjectKind::Organisation && name.ends_with(['局', '委', '办', '处', '所', '队', '厅', '部']);
    let core = if is_authority { name.len() } else { core_bytes(name) };
    Some(NamedObject { kind, core, name: name.to_owned() })
}

/// Returns the kind of object of a fact that is a number, and the word that follows the number.
fn numbered_kind(kind: FactKind) -> Option<(ObjectKind, &'static str)> {
    match kind {
        FactKind::Plate => Some((ObjectKind::Plate, "")),
        FactKind::TransitLine => Some((ObjectKind::Line, "路")),
        FactKind::HouseNumber => Some((ObjectKind::HouseNumber, "号")),
        FactKind::Building => Some((ObjectKind::Building, "号楼")),
        FactKind::Unit => Some((ObjectKind::Unit, "单元")),
        FactKind::Room => Some((ObjectKind::Room, "室")),
        FactKind::Phase => Some((ObjectKind::Phase, "")),
        FactKind::VillageGroup => Some((ObjectKind::VillageGroup, "组")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::TextSettings;
    use crate::text::words::Words;

    fn found(text: &str) -> Vec<(ObjectKind, String)> {
        let objects = Words::new(&TextSettings::default()).objects(text);
        objects.into_iter().map(|object| (object.kind, object.name)).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[(ObjectKind, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect();
        assert_eq!(found(text), expected, "{text}");
    }

    #[test]
    fn facts_become_objects_of_the_kinds_that_differences_are_shown_by() {
        use ObjectKind::{Amount, Building, Line, Number, Organisation, Place, Plate, Road};
        check("反映雁坪路的路灯不亮", &[(Road, "雁坪路")]);
        check("位于鹤鸣小区5号楼门口的垃圾", &[(Place, "鹤鸣小区"), (Building, "5号楼")]);
        check("投诉云帆建材有限公司拖欠工资", &[(Organisation, "云帆建材有限公司")]);
        check("车牌粤b·7k3m9挡住出口,粤b7k3m9", &[(Plate, "粤b7k3m9")]);
        check("坐27路等了40分钟", &[(Line, "27路")]);
        check("收费300元不退", &[(Amount, "300元")]);
        check("设备号20240561123未处理", &[(Number, "20240561123")]);
        check("水位已从80cm涨到160cm,宽带只有1000mbps", &[]);
        check("手机联通信号差", &[(Organisation, "联通")]);
        check("2018年1月5日22:30,2018.1.5,第3层12户", &[]);
    }

    #[test]
    fn an_authority_is_not_named_by_where_it_is() {
        let objects = Words::new(&TextSettings::default()).objects("柳塘区教育局电话打不通");
        let authority = objects.iter().find(|object| object.kind == ObjectKind::Organisation).unwrap();
        assert_eq!(authority.core(), authority.name);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_text_is_read_and_each_object_stands_once(text in "[东西路河区公司小区村 一二三粤a1-9·.,。元号\u{20000}]{0,60}") {
            let objects = Words::new(&TextSettings::default()).objects(&text);
            prop_assert!(objects.iter().all(|object| object.name.is_char_boundary(object.core)));
            let distinct: HashSet<_> = objects.iter().map(|object| (object.kind, &object.name)).collect();
            prop_assert_eq!(distinct.len(), objects.len());
        }
    }
}
