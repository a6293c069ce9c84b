//! Compares the names in one text with the names in many other texts. The other texts are not needed, because their
//! names are stored in a few words each.
//!
//! Where letters follow forms, hundreds of candidates share the form, and the names decide. The candidates of one
//! record contain mostly the same names (the roads of one town). So each name is compared with the record's names once,
//! and the result is found again by the key of the name.
//!
//! Layout of the names in a text, in 64-bit words:
//!
//! ```text
//! word 0   number of names
//! keys     one word for each name: hash (48 bits) · kind (4) · bytes before its ending (12)
//! names    for each name its length (16 bits) and its bytes, one after the other
//! ```
//!
//! Two names with the same hash are taken for one name. The probability for two given names is 2^-48.

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::contrast::{
    Contrast, NUMBERS, NamesInText, NumberComparison, Side, WeighedName, is_alike, is_name, telling_core, weigh_up,
};
use super::prefilter::{CharPairs, NameChars};
use super::sketch::Occupied;
use crate::schemes::frequencies::{Frequencies, name_code};
use crate::text::objects::{MAX_OBJECTS, NamedObject};
use crate::text::shingles;
use crate::verdict::ObjectKind;

/// Kinds by their number in a key.
const KINDS: [ObjectKind; 15] = [
    ObjectKind::District,
    ObjectKind::Road,
    ObjectKind::Place,
    ObjectKind::Water,
    ObjectKind::Organisation,
    ObjectKind::Plate,
    ObjectKind::Number,
    ObjectKind::Line,
    ObjectKind::Amount,
    ObjectKind::HouseNumber,
    ObjectKind::Building,
    ObjectKind::Unit,
    ObjectKind::Room,
    ObjectKind::Phase,
    ObjectKind::VillageGroup,
];
/// Numbers of bits in a key for the length before the ending, and for the kind.
const CORE_BITS: u32 = 12;
const KIND_BITS: u32 = 4;
/// Number of bytes of a name's length.
const LENGTH: usize = 2;

/// Returns the part of a key that is the same for the same name: 48 bits.
fn name_hash(name: &str) -> u64 {
    name_code(name) >> (CORE_BITS + KIND_BITS)
}

/// A name in one word, see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key(u64);

impl Key {
    /// Returns the key of a name; `None` if the name is too long.
    fn of(object: &NamedObject) -> Option<Self> {
        let kind = KINDS.iter().position(|kind| *kind == object.kind)? as u64;
        let core = u64::try_from(object.core).ok().filter(|core| core >> CORE_BITS == 0)?;
        Some(Self((name_hash(&object.name) << KIND_BITS | kind) << CORE_BITS | core))
    }

    fn kind(self) -> Option<ObjectKind> {
        KINDS.get((self.0 >> CORE_BITS) as usize & ((1 << KIND_BITS) - 1)).copied()
    }

    fn core(self) -> usize {
        self.0 as usize & ((1 << CORE_BITS) - 1)
    }

    /// Returns the name with these bytes, if they are a name. The name takes over `buffer`, so that most calls allocate
    /// nothing.
    fn object(self, bytes: &[u8], mut buffer: String) -> Option<NamedObject> {
        let name = std::str::from_utf8(bytes).ok()?;
        let core = self.core();
        buffer.clear();
        buffer.push_str(name);
        name.is_char_boundary(core).then_some(NamedObject { kind: self.kind()?, name: buffer, core })
    }
}

/// Encodes the names in words, at most [`MAX_OBJECTS`] of them. `None` if a name is too long: 4 KiB or more before its
/// ending.
pub(super) fn encode(objects: &[NamedObject]) -> Option<Vec<u64>> {
    let objects = &objects[..objects.len().min(MAX_OBJECTS)];
    let mut words = vec![objects.len() as u64];
    let mut bytes = Vec::with_capacity(objects.len() * 16);
    for object in objects {
        words.push(Key::of(object)?.0);
        bytes.extend_from_slice(&u16::try_from(object.name.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(object.name.as_bytes());
    }
    words.extend(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    Some(words)
}

/// Returns the keys of encoded names, and the words after the keys.
fn keys(words: &[u64]) -> Option<(&[u64], &[u64])> {
    let (count, rest) = words.split_first()?;
    rest.split_at_checked(usize::try_from(*count).ok()?)
}

/// Decodes the words that [`encode`] wrote. Of other words, as much as possible is read.
pub(super) fn decode(words: &[u64]) -> Vec<NamedObject> {
    let mut objects = Vec::new();
    each_name(words, &mut Vec::new(), |key, name| objects.extend(key.object(name, String::new())));
    objects
}

/// Calls `each` for every name in the words that [`encode`] wrote, with `bytes` as a buffer.
fn each_name(words: &[u64], bytes: &mut Vec<u8>, mut each: impl FnMut(Key, &[u8])) {
    let Some((keys, names)) = keys(words) else { return };
    bytes.clear();
    names.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let mut rest = &bytes[..];
    for &key in keys {
        let Some((length, behind)) = rest.split_first_chunk::<LENGTH>() else { return };
        let Some((name, behind)) = behind.split_at_checked(u16::from_le_bytes(*length).into()) else { return };
        each(Key(key), name);
        rest = behind;
    }
}

/// A name of the record, prepared for the search in sketched texts.
#[derive(Debug)]
struct Own {
    name: WeighedName,
    /// Shingles of the name and, if it identifies the object alone, of the part before the ending. A text may contain
    /// the name if it may contain all shingles of one of them. This is always true for a name that is shorter than a
    /// shingle.
    shingles: Vec<Box<[u64]>>,
}

/// The result of the comparison of another text's name with the record's names.
#[derive(Clone, Copy, Debug)]
struct Theirs {
    name: WeighedName,
    /// True if the record also contains the name. It has no meaning for numbers.
    shared: bool,
    /// A bit for each of the record's names that is similar.
    alike: u128,
}

/// The results that are collected while candidates are compared.
#[derive(Debug, Default)]
struct Worked {
    /// The names by key: at most [`MAX_OBJECTS`] for each candidate.
    names: HashMap<Key, Theirs>,
    occupied: Occupied,
    /// Buffer for the names of one candidate.
    bytes: Vec<u8>,
    /// Buffer for one name.
    buffer: String,
}

/// The names of a record, prepared for the comparison with the names of many others.
#[derive(Debug)]
pub struct NameFilter {
    named: NamesInText,
    /// The characters of each object of the record, numbers included, in order.
    chars: Vec<NameChars>,
    /// The pairs of the record's letters and digits.
    pairs: CharPairs,
    own: Vec<Own>,
    /// Keys of the record's numbers.
    numbers: Vec<Key>,
    worked: Mutex<Worked>,
}

/// Each name needs one bit.
const _: () = assert!(MAX_OBJECTS <= u128::BITS as usize);

impl NameFilter {
    /// Prepares the names of a text. The sketches have shingles of `width` characters. `frequencies` give the weights
    /// of names; without them, all names have the same weight.
    pub fn new(named: NamesInText, width: u8, frequencies: Option<&Frequencies>) -> Self {
        let objects = named.objects().iter().take(MAX_OBJECTS);
        let own: Vec<Own> = objects
            .clone()
            .filter(|object| is_name(object.kind))
            .map(|object| Own {
                name: WeighedName::of(object, frequencies),
                shingles: std::iter::once(&*object.name)
                    .chain(telling_core(object))
                    .map(|name| shingles_of_name(name, width))
                    .collect(),
            })
            .collect();
        let numbers = objects.filter(|object| NUMBERS.contains(&object.kind)).filter_map(Key::of).collect();
        let chars = named.objects().iter().map(NameChars::of).collect();
        let pairs = CharPairs::of(named.compact());
        Self { named, chars, pairs, own, numbers, worked: Mutex::default() }
    }

    /// Returns the text's objects.
    pub fn named(&self) -> &NamesInText {
        &self.named
    }

    /// Compares new names with this text's names. `names` are the [`names_in`](super::names_in) a sketch. `frequencies`
    /// must be the same as at the creation. O(new names × (own names + length of the text)).
    pub fn learn(&self, names: &[u64], frequencies: Option<&Frequencies>) {
        let mut worked = self.worked.lock();
        let Worked { names: known, bytes, buffer, .. } = &mut *worked;
        each_name(names, bytes, |key, name| {
            if !known.contains_key(&key)
                && let Some(object) = key.object(name, std::mem::take(buffer))
            {
                known.insert(key, self.work_out(&object, frequencies));
                *buffer = object.name;
            }
        });
    }

    /// Returns a bound of the contrast with a text of which only the sketch is known; `names` are its names. The two
    /// texts agree no more and differ no less than the result says. It is exact whether each text contains a name that
    /// the other lacks. `None` if some names are not [learned](Self::learn) yet. O(names of both).
    pub(super) fn contrast(&self, sketch: &[u64], names: &[u64]) -> Option<Contrast> {
        let (keys, _) = keys(names)?;
        let mut worked = self.worked.lock();
        let Worked { names: known, occupied, .. } = &mut *worked;
        let mut alike = 0;
        let mut theirs = Side::default();
        for key in keys.iter().map(|&key| Key(key)) {
            let kind = key.kind()?;
            let name = known.get(&key)?;
            alike |= name.alike;
            if !is_name(kind) {
                continue;
            }
            theirs.add(name.name, name.shared);
        }
        let mut ours = Side::default();
        occupied.set(sketch);
        for (number, own) in self.own.iter().enumerate() {
            let shared = alike >> number & 1 == 1
                || own.shingles.iter().any(|codes| codes.iter().all(|&code| occupied.holds(code)));
            ours.add(own.name, shared);
        }
        let our_line = keys_of_kind(ObjectKind::Line, self.numbers.iter().copied()).next();
        let their_line = keys_of_kind(ObjectKind::Line, keys.iter().map(|&key| Key(key))).next();
        Some(Contrast {
            subjects_differ: our_line.zip(their_line).is_some_and(|(ours, theirs)| ours != theirs),
            contacts_agree: f64::from(self.named.has_contacts()),
            problems_agree: f64::from(self.named.has_contacts()),
            ..weigh_up(ours, theirs, |kind| self.same_number(kind, keys))
        })
    }

    fn same_number(&self, kind: ObjectKind, keys: &[u64]) -> NumberComparison {
        let ours = keys_of_kind(kind, self.numbers.iter().copied()).count();
        let mut theirs = 0;
        let mut common = 0;
        for key in keys_of_kind(kind, keys.iter().map(|&key| Key(key))) {
            theirs += 1;
            common += usize::from(self.numbers.contains(&key));
        }
        NumberComparison::of(ours, theirs, common)
    }

    /// Compares a name with the record's names. The name is shared by the rule of [`NamesInText::names`]; quick tests come
    /// before the slow ones.
    fn work_out(&self, object: &NamedObject, frequencies: Option<&Frequencies>) -> Theirs {
        let chars = NameChars::of(object);
        let mut alike = 0;
        let mut is_like_any = false;
        let mut names = 0;
        for (own, &own_chars) in self.named.objects().iter().zip(&self.chars) {
            let is_like = chars.may_be_alike(own_chars) && is_alike(own, object);
            is_like_any |= is_like;
            if is_name(own.kind) && names < self.own.len() {
                alike |= u128::from(is_like) << names;
                names += 1;
            }
        }
        let shared = is_name(object.kind)
            && (is_like_any
                || self.is_held(&object.name)
                || telling_core(object)
                    .is_some_and(|core| self.pairs.may_contain(core) && self.named.holds_core(object, core)));
        Theirs { name: WeighedName::of(object, frequencies), shared, alike }
    }

    fn is_held(&self, name: &str) -> bool {
        self.pairs.may_contain(name) && self.named.holds(name)
    }
}

fn keys_of_kind(kind: ObjectKind, keys: impl Iterator<Item = Key>) -> impl Iterator<Item = Key> {
    keys.filter(move |key| key.kind() == Some(kind))
}

/// Returns the shingles of a name, none if it is shorter than one.
fn shingles_of_name(name: &str, width: u8) -> Box<[u64]> {
    if name.chars().count() < width.into() {
        return Box::default();
    }
    shingles::codes(name, width).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::{TextSettings, Verify};
    use crate::schemes::frequencies::Counter;
    use crate::similarity::sketch::{names_in, sketch};
    use crate::similarity::{Verifier, contrast};
    use crate::text::words::Words;

    /// Returns frequencies by which all records contain one road and one estate.
    fn frequencies() -> std::sync::Arc<Frequencies> {
        let mut counter = Counter::default();
        (0..2_000).for_each(|_| counter.observe(["雁坪路", "鹤鸣小区"].map(name_code)));
        std::sync::Arc::new(Frequencies::decode(1, &counter.encode(2_000)).unwrap())
    }

    const NAMING: &str = "(([雁松柳]?[坪岗]|青石桥)(一|二|十二|12|东|西|2|1)?路|坐2路|第[一二]小学|[鹤梧]鸣小区|[柳白]塘区|停水|联通|粤b7k3m[12]|工单2024056[12]|坐2[78]路|[34]00元|[一二三]){0,6}";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn by_the_sketch_texts_agree_no_less_and_differ_no_more_than_they_do(
            a in NAMING, others in prop::collection::vec(NAMING, 1..6), width in 1u8..5, weighing: bool,
        ) {
            let words = Words::new(&TextSettings::default());
            let frequencies = frequencies();
            let by = weighing.then_some(&*frequencies);
            let verifier = Verifier::new(Verify { shingle: width, ..Verify::default() }, frequencies.clone());
            let a = NamesInText::new(&a, words.objects(&a));
            let filter = NameFilter::new(a.clone(), width, by);
            // A result for one candidate must also be valid for the next.
            for b in &others {
                let sketched = sketch(&verifier.weigh(verifier.shingles(b)), Some(words.objects(b).as_slice()));
                let names = names_in(&sketched).unwrap();
                prop_assert_eq!(decode(names), words.objects(b));
                filter.learn(names, by);
                let exact = contrast(&a, &NamesInText::new(b, words.objects(b)), by);
                let bound = filter.contrast(&sketched, names).expect("they are learned");
                prop_assert!(bound.names_agree + 1e-9 >= exact.names_agree && bound.names_differ <= exact.names_differ + 1e-9);
                prop_assert!(exact.districts_differ || !bound.districts_differ);
                let [bound, exact] = [bound, exact].map(|found| {
                    let identifiers =
                        [found.identifiers_agree, found.identifiers_differ, found.subjects_differ, found.references_agree];
                    (identifiers, [found.numbers_differ, found.numbers_substituted])
                });
                prop_assert_eq!(bound, exact);
            }
        }

        #[test]
        fn names_are_shared_by_the_rule_that_compares_texts(a in NAMING, b in NAMING) {
            let words = Words::new(&TextSettings::default());
            let named = NamesInText::new(&a, words.objects(&a));
            let filter = NameFilter::new(named.clone(), 3, None);
            for object in words.objects(&b) {
                let theirs = filter.work_out(&object, None);
                prop_assert_eq!(theirs.shared, is_name(object.kind) && named.names(&object));
                let names = named.objects().iter().filter(|own| is_name(own.kind));
                let alike: Vec<u32> = names.zip(0..).filter(|(own, _)| is_alike(own, &object)).map(|(_, at)| at).collect();
                prop_assert_eq!(theirs.alike, alike.iter().map(|at| 1 << at).sum::<u128>());
            }
        }

        #[test]
        fn garbage_is_survived(count in 0u64..5, words in prop::collection::vec(0u64..1 << 40, 0..12), more: Vec<u64>) {
            let names = [&[count][..], &words, &more].concat();
            prop_assert!(decode(&names).len() <= count as usize);
            let filter = NameFilter::new(NamesInText::new("雁坪路", Vec::new()), 3, None);
            filter.learn(&names, None);
            let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
            let sketched = sketch(&verifier.weigh(verifier.shingles("松岗路的路灯不亮")), None);
            let found = filter.contrast(&sketched, &names);
            prop_assert!(found.is_none() || decode(&names).len() == count as usize);
        }
    }

    #[test]
    fn by_the_sketch_other_places_are_other_places() {
        let words = Words::new(&TextSettings::default());
        let texts = ["雁坪路", "松岗路"].map(|road| format!("{road}的路灯已经连续多日不亮"));
        let [ours, other] = [&texts[0], &texts[1]].map(|text| NamesInText::new(text, words.objects(text)));
        let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
        let sketched = sketch(&verifier.weigh(verifier.shingles(&texts[1])), Some(other.objects()));
        let filter = NameFilter::new(ours.clone(), 3, None);
        let names = names_in(&sketched).unwrap();
        assert_eq!(filter.contrast(&sketched, names), None, "nothing is learned");
        filter.learn(names, None);
        let exact = contrast(&ours, &other, None);
        assert!(exact.names_differ > 0.0);
        assert_eq!(
            filter.contrast(&sketched, names),
            Some(Contrast { differs: Vec::new(), only_names: Default::default(), ..exact })
        );
    }

    #[test]
    fn the_core_of_a_bridge_does_not_share_the_road_of_that_name() {
        let words = Words::new(&TextSettings::default());
        let text = "青石桥2路";
        let named = NamesInText::new(text, words.objects(text));
        let filter = NameFilter::new(named.clone(), 3, None);
        let objects = words.objects("青石桥路");
        let shared: Vec<bool> = objects.iter().map(|object| filter.work_out(object, None).shared).collect();
        let by_the_text: Vec<bool> = objects.iter().map(|object| named.names(object)).collect();
        assert_eq!((shared, by_the_text), (vec![false], vec![false]));
    }

    #[test]
    fn a_name_that_is_too_long_for_a_key_leaves_the_names_unknown() {
        let number = NamedObject { kind: ObjectKind::Number, name: "7".repeat(5_000), core: 5_000 };
        assert_eq!(encode(&[number]), None);
    }
}
