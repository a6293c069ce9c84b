//! Quick tests that are made before the slower comparisons of names. The result `false` is certain; after `true` the
//! slower comparison is needed.

use super::sketch::{place, set_bit};
use crate::text::objects::NamedObject;
use crate::text::objects::numerals::is_numeral;
use crate::text::shingles::digit_form;

/// Number of bits of a position in a set of characters. The set is one word of 64 bits.
const CHAR_BITS: u32 = 6;
/// Number of bits of a position in a map of pairs of characters, which has 512 bytes. An ordinary letter fills a tenth
/// of the map. A text of many thousand characters fills most of it, and then the test excludes less.
const PAIR_BITS: u32 = 12;

/// The characters of a name and of the part before its ending. Each set has 64 bits. All numerals share one bit,
/// because a number may be written in several ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameChars {
    name: u64,
    core: u64,
}

impl NameChars {
    pub(super) fn of(object: &NamedObject) -> Self {
        Self { name: set_of_chars(&object.name), core: set_of_chars(object.core()) }
    }

    /// True if two names may be [alike](super::contrast::is_alike). Of two alike names, one is part of the other, or
    /// occurs in the other in the same order, or both have the same characters, or all but one.
    pub(super) fn may_be_alike(self, other: Self) -> bool {
        let they_lack = count_missing(self.name, other.name);
        let we_lack = count_missing(other.name, self.name);
        they_lack.min(we_lack) == 0
            || they_lack.max(we_lack) == 1
            || count_missing(self.core, other.core) == 0
            || count_missing(other.core, self.core) == 0
    }
}

/// Returns a set with a bit for each character. All numerals have one bit.
fn set_of_chars(text: &str) -> u64 {
    let chars = text.chars().map(|c| if is_numeral(c) { '0' } else { c });
    chars.fold(0, |set, c| set | 1 << place(u64::from(c), CHAR_BITS))
}

/// Returns the number of characters that `from` lacks.
fn count_missing(chars: u64, from: u64) -> u32 {
    (chars & !from).count_ones()
}

/// The pairs of neighbouring characters in a text.
#[derive(Debug)]
pub(super) struct CharPairs {
    map: Box<[u64; (1 << PAIR_BITS) / 64]>,
}

/// Returns the positions of the pairs of a text, with numerals in the [`digit_form`].
fn pairs(text: &str) -> impl Iterator<Item = usize> {
    let seconds = text.chars().skip(1).map(digit_form);
    text.chars()
        .map(digit_form)
        .zip(seconds)
        .map(|(first, second)| place(u64::from(first) << 32 | u64::from(second), PAIR_BITS))
}

impl CharPairs {
    /// Collects the pairs of a text. O(length).
    pub(super) fn of(text: &str) -> Self {
        let mut map = Box::new([0; (1 << PAIR_BITS) / 64]);
        pairs(text).for_each(|place| set_bit(&mut *map, place));
        Self { map }
    }

    /// True if the text may contain the other text.
    pub(super) fn may_contain(&self, text: &str) -> bool {
        pairs(text).all(|place| self.map[place / 64] >> (place % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::contrast::is_alike;
    use super::*;
    use crate::verdict::ObjectKind;

    prop_compose! {
        fn object()(core in "[雁松柳坪岗鹤鸣1a一二十东西]{0,5}", ending in "(路|小区|集团|)", number: bool) -> NamedObject {
            let kind = if number { ObjectKind::Number } else { ObjectKind::Organisation };
            NamedObject { kind, core: core.len(), name: core + &ending }
        }
    }

    /// Returns a name as people change it: one character is replaced, added or left out, some are swapped, or only some
    /// are kept.
    fn variant(of: &NamedObject, how: usize, at: usize, other: char) -> NamedObject {
        let mut chars: Vec<char> = of.name.chars().collect();
        let at = at % (chars.len() + 1);
        match how {
            0 => chars.insert(at, other),
            1 => chars.rotate_left(at),
            2 => chars.truncate(at),
            3 if at < chars.len() => chars[at] = other,
            4 if at < chars.len() => _ = chars.remove(at),
            5 => chars.splice(0..at, []).for_each(drop),
            _ => {}
        }
        let name: String = chars.into_iter().collect();
        let core = if name.is_char_boundary(of.core.min(name.len())) { of.core.min(name.len()) } else { name.len() };
        NamedObject { kind: of.kind, name, core }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3_000))]
        #[test]
        fn what_is_alike_is_never_told_apart(
            a in object(), unlike in object(), how in 0usize..7, at in 0usize..8, other in prop::sample::select(vec!['岗', '梧', '一', '2', '西']),
        ) {
            for b in [variant(&a, how, at, other), unlike] {
                prop_assert_eq!(is_alike(&a, &b), is_alike(&b, &a));
                prop_assert!(!is_alike(&a, &b) || NameChars::of(&a).may_be_alike(NameChars::of(&b)));
            }
        }

        #[test]
        fn what_is_contained_is_never_denied(before in "[雁松路a1]{0,9}", text in "[雁松路a1]{0,4}", behind in ".{0,9}") {
            prop_assert!(CharPairs::of(&[&before, &*text, &behind].concat()).may_contain(&text));
        }
    }

    #[test]
    fn most_others_are_told_apart() {
        let names = ["雁坪", "松岗", "鹤鸣", "梧桐", "砚溪", "云帆", "白石", "柳塘"].map(|name| {
            let core = name.len();
            NameChars::of(&NamedObject { kind: ObjectKind::Road, core, name: format!("{name}路") })
        });
        let pairs = names.iter().enumerate().flat_map(|(at, a)| names[at + 1..].iter().map(move |b| (a, b)));
        let (apart, all) = pairs.fold((0, 0), |(apart, all), (a, b)| (apart + i32::from(!a.may_be_alike(*b)), all + 1));
        assert!(apart * 10 > all * 8, "{apart} of {all}");
        let text = CharPairs::of("反映雁坪路的路灯已经连续多日不亮");
        assert!(!text.may_contain("松岗路") && !text.may_contain("鹤鸣小区"));
    }
}
