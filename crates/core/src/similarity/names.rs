//! What a text names in a few words, and how far that says what it is about: who compares it with many others need not read it.

use super::contrast::Naming;
use super::sketch::Occupied;
use crate::text::objects::NamedObject;
use crate::text::shingles;
use crate::verdict::ObjectKind;

/// Kinds by their number in [`encode`].
const KINDS: [ObjectKind; 9] = [
    ObjectKind::District,
    ObjectKind::Road,
    ObjectKind::Place,
    ObjectKind::Water,
    ObjectKind::Organisation,
    ObjectKind::Plate,
    ObjectKind::Number,
    ObjectKind::Line,
    ObjectKind::Amount,
];
/// Bytes before a name: its kind, then its length and that of what stands before its ending, 16 bits each.
const HEAD: usize = 5;

/// Named things in words: the number of bytes, then these. Names of 64 KiB and more are left out with all behind them.
pub fn encode(objects: &[NamedObject]) -> Vec<u64> {
    let mut bytes = Vec::with_capacity(objects.len() * 16);
    for object in objects {
        let kind = KINDS.iter().position(|kind| *kind == object.kind).unwrap_or_default() as u8;
        let (Ok(length), Ok(core)) = (u16::try_from(object.name.len()), u16::try_from(object.core)) else { break };
        bytes.push(kind);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&core.to_le_bytes());
        bytes.extend_from_slice(object.name.as_bytes());
    }
    let mut words = vec![bytes.len() as u64];
    words.extend(bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    }));
    words
}

/// What [`encode`] wrote.
pub fn decode(words: &[u64]) -> Vec<NamedObject> {
    let bytes: Vec<u8> = words.iter().skip(1).flat_map(|word| word.to_le_bytes()).collect();
    let length = words.first().map_or(0, |length| *length as usize).min(bytes.len());
    let (mut rest, mut objects) = (&bytes[..length], Vec::new());
    while let Some((&[kind, a, b, c, d], behind)) = rest.split_first_chunk::<HEAD>() {
        let (length, core) = (u16::from_le_bytes([a, b]).into(), u16::from_le_bytes([c, d]).into());
        let Some((name, behind)) = behind.split_at_checked(length) else { break };
        let (Ok(name), Some(&kind)) = (std::str::from_utf8(name), KINDS.get(usize::from(kind))) else { break };
        objects.push(NamedObject { kind, name: name.to_owned(), core });
        rest = behind;
    }
    objects
}

/// A text of which only the sketch and what it names are at hand. It may seem to hold what it does not, never the reverse.
pub struct Outline {
    objects: Vec<NamedObject>,
    occupied: Occupied,
    /// Characters of the sketched shingles.
    width: u8,
}

impl Outline {
    /// Of a text with these shingles of `width` characters, which names these things.
    pub fn new(objects: Vec<NamedObject>, occupied: Occupied, width: u8) -> Self {
        Self { objects, occupied, width }
    }
}

impl Naming for Outline {
    fn objects(&self) -> &[NamedObject] {
        &self.objects
    }

    fn holds(&self, name: &str) -> bool {
        name.chars().count() < self.width.into()
            || shingles::codes(name, self.width).into_iter().all(|code| self.occupied.holds(code))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::collection::{TextSettings, Verify};
    use crate::schemes::frequencies::Frequencies;
    use crate::similarity::{Named, Verifier, contrast, sketch};
    use crate::text::words::Words;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn an_outline_agrees_no_less_and_differs_no_more_than_the_text(
            a in "([雁松柳]?[坪岗]路|[鹤梧]鸣小区|停水|联通|粤b7k3m[12]|工单2024056[12]|[一二三]){0,6}",
            b in "([雁松柳]?[坪岗]路|[鹤梧]鸣小区|停水|联通|粤b7k3m[12]|工单2024056[12]|[一二三]){0,6}",
            width in 1u8..5,
        ) {
            let words = Words::new(&TextSettings::default());
            let named = |text: &str| Named::new(text, words.objects(text));
            let verifier = Verifier::new(Verify { shingle: width, ..Verify::default() }, Frequencies::built_in());
            let sketched = sketch(&verifier.weigh(verifier.shingles(&b)));
            let objects = decode(&encode(&words.objects(&b)));
            prop_assert_eq!(&objects, &words.objects(&b));
            let outline = Outline::new(objects, Occupied::of(&sketched).unwrap(), width);
            let frequencies = Arc::clone(&Frequencies::built_in());
            let (exact, bound) = (
                contrast(&named(&a), &named(&b), Some(&frequencies)), contrast(&named(&a), &outline, Some(&frequencies)),
            );
            prop_assert!(bound.agreeing + 1e-9 >= exact.agreeing && bound.differing <= exact.differing + 1e-9);
            prop_assert!((bound.same_place || !exact.same_place) && bound.other_names == exact.other_names);
        }

        #[test]
        fn garbage_is_no_names(words: Vec<u64>) {
            prop_assert!(decode(&words).len() <= words.len() * 8);
        }
    }
}
