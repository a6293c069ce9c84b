//! Brings texts that read alike into one form.
//!
//! The steps are, in this order: format characters (zero-width, bidirectional marks, variation selectors, soft hyphen,
//! BOM) are removed; control characters become spaces; NFKC; lower case (character by character, and so without regard
//! to position); NFKC again, because a character in lower case may decompose (U+0130 does); traditional → simplified,
//! if requested; each run of white space becomes one U+0020, and the ends are trimmed.
//!
//! A second normalisation changes nothing. The result has at most [`MAX_GROWTH`] times the bytes of the input, so that
//! the limit on a request's body also bounds the result.
//!
//! O(length). Ordinary text takes one pass over a table of the basic plane. Only a text with a combining character, or
//! with another character whose form depends on its neighbours, is processed by the full definition.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::convert;

/// Maximum number of bytes of output for one byte of input: U+FDFA has three bytes and becomes 33 bytes.
pub const MAX_GROWTH: usize = 11;

/// Brings texts into the normal form. It is cheap to copy; the process has one copy of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normaliser {
    simplify: bool,
}

impl Normaliser {
    /// Creates a normaliser, with or without traditional → simplified.
    pub fn new(simplify: bool) -> Self {
        Self { simplify }
    }

    /// Returns the normal form of `text`; an empty text if `text` has no visible characters.
    pub fn normalise(self, text: &str) -> String {
        let table = if self.simplify { &*SIMPLIFYING } else { &*PLAIN };
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match table.form(c) {
                Form::One(' ') => push_space(&mut out),
                Form::One(mapped) => out.push(mapped),
                Form::Dropped => {}
                Form::Many(mapped) => mapped.chars().for_each(|c| push(&mut out, c)),
                Form::Contextual => return self.normalise_fully(text),
            }
        }
        trim_end(&mut out);
        out
    }

    /// Returns the normal form of `text`, and for each of its characters the range of characters of `text` that
    /// produced it. The range has several characters if they combine. Ascending. O(length).
    pub fn normalise_mapped(self, text: &str) -> (String, Vec<Range<usize>>) {
        let table = if self.simplify { &*SIMPLIFYING } else { &*PLAIN };
        let mut out = String::with_capacity(text.len());
        let mut made_of = Vec::with_capacity(text.len());
        let chars: Vec<char> = text.chars().collect();
        let mut start = 0;
        while start < chars.len() {
            // No character combines with the one before it if its form does not depend on its neighbours.
            let mut behind = chars[start + 1..].iter();
            let next = behind.position(|c| matches!(table.form(*c), Form::One(_) | Form::Many(_)));
            let end = next.map_or(chars.len(), |at| start + 1 + at);
            let part: String = chars[start..end].iter().collect();
            for c in self.characters(&part).chars() {
                let length = out.len();
                push(&mut out, c);
                if out.len() > length {
                    made_of.push(start..end);
                }
            }
            start = end;
        }
        if out.ends_with(' ') {
            out.pop();
            made_of.pop();
        }
        (out, made_of)
    }

    /// Normalises step by step, as the definition says. [`Normaliser::normalise`] uses this function for texts with
    /// contextual characters.
    fn normalise_fully(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.characters(text).chars().for_each(|c| push(&mut out, c));
        trim_end(&mut out);
        out
    }

    /// Returns the characters of the normal form, before white space is merged.
    fn characters(self, text: &str) -> String {
        let kept = text.chars().filter(|&c| !is_dropped(c)).map(|c| if c.is_control() { ' ' } else { c });
        let lower = kept.nfkc().flat_map(char::to_lowercase).collect::<String>();
        lower.nfkc().map(|c| if self.simplify { convert::simplify(c) } else { c }).collect()
    }
}

fn push(out: &mut String, c: char) {
    if c.is_whitespace() { push_space(out) } else { out.push(c) }
}

fn push_space(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

fn trim_end(out: &mut String) {
    if out.ends_with(' ') {
        out.pop();
    }
}

/// True for characters that are invisible and only make equal texts differ.
fn is_dropped(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}' | '\u{E0100}'..='\u{E01EF}')
}

/// The form of a character that does not depend on its position.
enum Form<'a> {
    /// One character; U+0020 for all white space.
    One(char),
    /// No character.
    Dropped,
    /// Several characters, or one character outside the basic plane.
    Many(Cow<'a, str>),
    /// The form depends on the neighbours.
    Contextual,
}

static PLAIN: LazyLock<Table> = LazyLock::new(|| Table::build(Normaliser::new(false)));
static SIMPLIFYING: LazyLock<Table> = LazyLock::new(|| Table::build(Normaliser::new(true)));

/// Codes of table entries that are no character. They are surrogates, which are no characters either.
const CONTEXTUAL: u16 = 0xD800;
const DROPPED: u16 = 0xD801;
/// The first code of an expansion. The codes from here to the last surrogate number the expansions.
const FIRST_EXPANSION: u16 = 0xD802;
const LAST_EXPANSION: u16 = 0xDFFF;

/// The forms of all characters of the basic plane (128 KiB), and the expansions.
struct Table {
    normaliser: Normaliser,
    codes: Box<[u16]>,
    expansions: Vec<String>,
}

impl Table {
    fn build(normaliser: Normaliser) -> Self {
        let mut table = Self { normaliser, codes: vec![CONTEXTUAL; 0x1_0000].into(), expansions: Vec::new() };
        for c in (0..=0xFFFF_u32).filter_map(char::from_u32) {
            table.codes[c as usize] = match derive(normaliser, c) {
                Form::One(mapped) => mapped as u16,
                Form::Dropped => DROPPED,
                // There are more expansions than codes: the other characters take the slow path, which has the same
                // result.
                Form::Many(_) if table.expansions.len() > usize::from(LAST_EXPANSION - FIRST_EXPANSION) => CONTEXTUAL,
                Form::Many(mapped) => {
                    table.expansions.push(mapped.into_owned());
                    FIRST_EXPANSION + (table.expansions.len() - 1) as u16
                }
                Form::Contextual => CONTEXTUAL,
            };
        }
        table
    }

    #[inline]
    fn form(&self, c: char) -> Form<'_> {
        let Some(&code) = self.codes.get(c as usize) else { return derive(self.normaliser, c) };
        match char::from_u32(u32::from(code)) {
            Some(mapped) => Form::One(mapped),
            None => self.special(code),
        }
    }

    #[cold]
    fn special(&self, code: u16) -> Form<'_> {
        match code {
            CONTEXTUAL => Form::Contextual,
            DROPPED => Form::Dropped,
            _ => Form::Many(Cow::Borrowed(&self.expansions[usize::from(code - FIRST_EXPANSION)])),
        }
    }
}

/// Returns the form of `c` by the full definition, if no step produces a character that may combine with a neighbour.
/// If a text has only such characters, each of them can be normalised separately (Unicode Annex 15, quick check).
fn derive(normaliser: Normaliser, c: char) -> Form<'static> {
    if is_dropped(c) {
        return Form::Dropped;
    }
    if c.is_whitespace() || c.is_control() {
        return Form::One(' ');
    }
    let first: String = std::iter::once(c).nfkc().collect();
    let lower: String = first.chars().flat_map(char::to_lowercase).collect();
    let second: String = lower.nfkc().collect();
    if ![&first, &lower, &second].into_iter().all(|text| text.chars().all(stands_alone)) {
        return Form::Contextual;
    }
    let mapped: String = second.chars().map(|c| if normaliser.simplify { convert::simplify(c) } else { c }).collect();
    let mut chars = mapped.chars();
    match (chars.next(), chars.next()) {
        (Some(only), None) if (only as u32) < 0x1_0000 && !only.is_whitespace() => Form::One(only),
        _ => Form::Many(Cow::Owned(mapped)),
    }
}

fn stands_alone(c: char) -> bool {
    canonical_combining_class(c) == 0 && is_nfc_quick(std::iter::once(c)) == IsNormalized::Yes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: [Normaliser; 2] = [Normaliser { simplify: false }, Normaliser { simplify: true }];

    #[test]
    fn texts_that_read_alike_become_the_same() {
        let table = [
            ("  Ｈｅｌｌｏ，\t世界！\r\n", "hello, 世界!"),
            ("A市\u{200B}B区\u{FEFF}", "a市b区"),
            ("第１２号\u{3000}\u{3000}楼", "第12号 楼"),
            ("３㎡……①", "3m2......1"),
            ("關於噪音擾民的問題", "关于噪音扰民的问题"),
            ("Cafe\u{301} CAFÉ", "café café"),
            ("İ", "i\u{307}"),
            ("e\u{200D}\u{301}", "é"),
            ("\u{0}\u{7}\n", ""),
            ("好的👍\u{FE0F}。", "好的👍。"),
        ];
        for (input, expected) in table {
            assert_eq!(Normaliser::new(true).normalise(input), expected, "{input:?}");
        }
        assert_eq!(Normaliser::new(false).normalise("關於Ａ"), "關於a");
    }

    #[test]
    fn every_character_has_a_fixed_point_by_both_ways_and_grows_no_more_than_stated() {
        for normaliser in BOTH {
            for c in (0..=0x10_FFFF_u32).filter_map(char::from_u32) {
                let text = c.to_string();
                let once = normaliser.normalise(&text);
                assert_eq!(once, normaliser.normalise_fully(&text), "U+{:04X}", c as u32);
                assert_eq!(once, normaliser.normalise_fully(&once), "U+{:04X}", c as u32);
                assert!(once.len() <= MAX_GROWTH * text.len(), "U+{:04X}", c as u32);
            }
        }
    }

    #[test]
    fn ordinary_chinese_text_never_takes_the_slow_way() {
        let text =
            "尊敬的领导：您好！我是A市“幸福里”小区（３栋）业主，2019年…反映——噪音问题；谢谢～①、℃％㎡《》【】＂＇";
        for normaliser in BOTH {
            assert!(text.chars().all(|c| !matches!(derive(normaliser, c), Form::Contextual)));
        }
    }

    /// Generates characters that often combine in difficult ways: bases and marks, jamo, compatibility forms, format
    /// characters.
    fn awkward() -> impl Strategy<Value = String> {
        let chars = prop_oneof![
            any::<char>(),
            prop::char::range('\u{0}', '\u{24F}'),
            prop::char::range('\u{300}', '\u{345}'),
            prop::char::range('\u{1100}', '\u{11FF}'),
            prop::char::range('\u{AC00}', '\u{AC40}'),
            prop::char::range('\u{2000}', '\u{206F}'),
            prop::char::range('\u{3000}', '\u{30FF}'),
            prop::char::range('\u{4E00}', '\u{9FFF}'),
            prop::char::range('\u{F900}', '\u{FFEF}'),
            prop::sample::select(vec!['Σ', 'İ', 'ẛ', '\u{323}', '\u{3099}', '\u{FDFA}', ' ', '\n', 'ⅷ', '\u{0DDC}']),
        ];
        prop::collection::vec(chars, 0..12).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn normalising_again_changes_nothing_and_the_fast_way_is_the_definition(text in awkward()) {
            for normaliser in BOTH {
                let once = normaliser.normalise(&text);
                prop_assert_eq!(&once, &normaliser.normalise_fully(&text));
                prop_assert_eq!(&once, &normaliser.normalise(&once));
                prop_assert!(once.len() <= MAX_GROWTH * text.len());
            }
        }

        #[test]
        fn each_character_says_what_it_was_made_of(text in awkward()) {
            for normaliser in BOTH {
                let (normal, made_of) = normaliser.normalise_mapped(&text);
                prop_assert_eq!(&normal, &normaliser.normalise(&text));
                prop_assert_eq!(normal.chars().count(), made_of.len());
                prop_assert!(made_of.windows(2).all(|two| two[0] == two[1] || two[0].end <= two[1].start));
                let chars: Vec<char> = text.chars().collect();
                for (c, from) in normal.chars().zip(&made_of) {
                    let from: String = chars[from.clone()].iter().collect();
                    prop_assert!(c == ' ' || normaliser.normalise(&from).contains(c));
                }
            }
        }
    }

    #[test]
    fn what_a_character_was_made_of_is_as_little_as_can_be() {
        let (normal, made_of) = Normaliser::new(true).normalise_mapped(" 第㎡e\u{301}\r\n號…");
        assert_eq!(normal, "第m2é 号...");
        let expected = [1..2, 2..3, 2..3, 3..5, 5..6, 7..8, 8..9, 8..9, 8..9];
        assert_eq!(made_of, expected);
    }
}
