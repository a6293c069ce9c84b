//! Single MD5 (data cleaning with MD5, 2008): records with one digest are the same.
//!
//! The MD5 of the `text`, `whole` and `url` fields in settings order, each as `name U+001E value`, joined by U+001F; without
//! identity, time and id. Empty fields are left out. With `strip`, of the letters and digits of all values one after
//! the other, without names: a mark between two digits stays, so that 1.5 is not 15; addresses stay as they are.
//!
//! One key, the digest, and equal digests match: complete. Signing is O(length), comparing O(1).

use super::hash::Md5;
use super::reading::Reading;
use super::{Scheme, Signature};
use crate::collection::{Field, Md5Params, Role};
use crate::text::units::is_word_char;

/// The `md5` scheme of a collection.
#[derive(Clone, Debug)]
pub struct WholeMd5 {
    strip: bool,
    names: Vec<String>,
}

impl WholeMd5 {
    /// The scheme that `params` describe, for records with `fields`.
    pub fn new(params: &Md5Params, fields: &[Field]) -> Self {
        let &Md5Params { strip } = params;
        Self { strip, names: fields.iter().map(|field| field.name.clone()).collect() }
    }
}

impl Scheme for WholeMd5 {
    fn name(&self) -> &'static str {
        "md5"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let fields = reading.document().fields.iter();
        let content = if self.strip {
            fields
                .map(|field| if field.role == Role::Url { field.text.clone() } else { stripped(&field.text) })
                .collect()
        } else {
            let name = |position: u8| self.names.get(usize::from(position)).map_or("", String::as_str);
            let pairs = fields.map(|field| format!("{}\u{1E}{}", name(field.position), field.text));
            pairs.collect::<Vec<_>>().join("\u{1F}")
        };
        (!content.is_empty()).then(|| Signature::Digest(Md5::of(content)))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Digest(digest) = signature {
            keys.push(digest.key());
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        matches!((a, b), (Signature::Digest(a), Signature::Digest(b)) if a == b)
    }

    fn key_implies_match(&self) -> bool {
        true
    }
}

/// The letters and digits of `text`, and each mark that stands between two digits.
fn stripped(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars();
    let mut before = None;
    while let Some(c) = rest.next() {
        let digits = || before.is_some_and(char::is_numeric) && rest.clone().next().is_some_and(char::is_numeric);
        if is_word_char(c) || (!c.is_whitespace() && digits()) {
            kept.push(c);
        }
        before = Some(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::brute::{PAIRS, hold, texts};
    use super::super::tests::{document, reading};
    use super::*;

    fn scheme(strip: bool) -> WholeMd5 {
        let field = |name: &str| Field { name: name.into(), role: Role::Text, weight: None };
        WholeMd5::new(&Md5Params { strip }, &[field("t"), field("c")])
    }

    fn hex(strip: bool, fields: &[(Role, &str)]) -> Option<String> {
        let document = document(fields);
        let weights = vec![1; fields.len()];
        match scheme(strip).sign(&reading(&document, &PAIRS, &weights))? {
            Signature::Digest(Md5(bytes)) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
            _ => None,
        }
    }

    #[test]
    fn digests_are_those_of_another_implementation() {
        let fields = [(Role::Text, "夜市,1.5万元"), (Role::Url, "http://a.cn/1/2")];
        assert_eq!(hex(false, &fields).unwrap(), "31cb4d61e9606fb9d54ffb0668080b87");
        assert_eq!(hex(true, &fields).unwrap(), "c9411a428a6809e45a62152097205176");
    }

    #[test]
    fn marks_do_not_count_when_stripped_but_between_digits() {
        let strip = |text| hex(true, &[(Role::Text, text)]);
        assert_eq!(strip("夜市,噪音。"), strip("夜市 噪音"));
        assert_ne!(strip("1.5元"), strip("15元"));
        assert_eq!(strip("1 5元"), strip("15元"));
        assert_eq!(strip("2.元"), strip("2元"));
        assert_eq!(strip("。!"), None);
        assert_eq!(hex(false, &[]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn it_finds_exactly_the_equal_pairs(texts in texts()) {
            hold(&scheme(false), &texts, true, |a, b| a == b)?;
            let bare = |text: &str| {
                let text: Vec<char> = text.chars().collect();
                let digit = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|c| c.is_ascii_digit());
                let kept = (0..text.len()).filter(|&at| {
                    text[at].is_alphanumeric()
                        || (text[at] != ' ' && digit(at.checked_sub(1)) && digit(Some(at + 1)))
                });
                kept.map(|at| text[at]).collect::<String>()
            };
            hold(&scheme(true), &texts, true, |a, b| !bare(a).is_empty() && bare(a) == bare(b))?;
        }
    }
}
