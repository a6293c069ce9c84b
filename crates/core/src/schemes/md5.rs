//! Single MD5 (data cleaning with MD5, 2008): records with equal digests match.
//!
//! The digest is the MD5 of the `text`, `whole` and `url` fields in the order of the settings, each as `name U+001E value`, joined by
//! U+001F. Identity, time and id do not count. Empty fields are left out. With `strip`, only the letters and digits of a value count. The
//! first mark between two digits stays, or a space if there is only white space, so that 1.5 and 3. 5 differ from 15 and 35, and 第1 2号
//! differs from 第12号. Addresses are not stripped.
//!
//! The only key is the digest, and equal digests match, so that the keys are complete. Signing is O(length), comparing O(1).

use std::borrow::Cow;

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
    /// Makes the scheme with these parameters, for records with these fields.
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
        let pairs = reading.document().fields.iter().filter_map(|field| {
            let value = match self.strip && field.role != Role::Url {
                true => Cow::Owned(stripped(&field.text)),
                false => Cow::Borrowed(field.text.as_str()),
            };
            let name = self.names.get(usize::from(field.position)).map_or("", String::as_str);
            (!value.is_empty()).then(|| format!("{name}\u{1E}{value}"))
        });
        let content = pairs.collect::<Vec<_>>().join("\u{1F}");
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

/// Returns the letters and digits of `text`, and one mark or space between two digits that are separated.
fn stripped(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut before = None;
    let mut between = None;
    for c in text.chars() {
        if is_word_char(c) {
            let mark = between.take().filter(|_| before.is_some_and(char::is_numeric) && c.is_numeric());
            kept.extend(mark.into_iter().chain([c]));
            before = Some(c);
        } else if between.is_none_or(|mark| mark == ' ') {
            between = Some(if c.is_whitespace() { ' ' } else { c });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, hold, texts};
    use super::super::tests::{document, reading};
    use super::*;

    fn scheme(strip: bool) -> WholeMd5 {
        WholeMd5::new(&Md5Params { strip }, &["t", "c"].map(|name| Field::new(name, Role::Text)))
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
    fn digests_equal_those_of_another_implementation() {
        let fields = [(Role::Text, "夜市,1.5万元"), (Role::Url, "http://a.cn/1/2")];
        assert_eq!(hex(false, &fields).unwrap(), "31cb4d61e9606fb9d54ffb0668080b87");
        assert_eq!(hex(true, &fields).unwrap(), "c805e4699fd6735175ce9338ddd67116");
    }

    #[test]
    fn stripping_removes_all_marks_except_between_digits() {
        assert_eq!(strip("夜市,噪音。"), strip("夜市 噪音"));
        assert_ne!(strip("1.5元"), strip("15元"));
        assert_ne!(strip("3. 5元"), strip("35元"));
        assert_eq!(strip("3. 5元"), strip("3.5元"));
        assert_ne!(strip("3-5元"), strip("3.5元"), "from three to five is not three and a half");
        assert_ne!(strip("第1 2号"), strip("第12号"));
        assert_eq!(strip("第 12 号"), strip("第12号"));
        assert_eq!(strip("2.元"), strip("2元"));
        assert_eq!(strip("。!"), None);
        assert_eq!(hex(false, &[]), None);
    }

    fn strip(text: &str) -> Option<String> {
        hex(true, &[(Role::Text, text)])
    }

    #[test]
    fn text_that_moves_to_another_field_changes_the_stripped_digest() {
        let digests = [
            hex(true, &[(Role::Text, "夜市1"), (Role::Text, "2噪音")]),
            hex(true, &[(Role::Text, "夜市12"), (Role::Text, "噪音")]),
            hex(true, &[(Role::Text, "夜市12噪音")]),
            hex(true, &[(Role::Text, "。"), (Role::Text, "夜市12噪音")]),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().flatten().collect();
        assert_eq!(distinct.len(), digests.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn it_finds_exactly_the_equal_pairs(texts in texts()) {
            hold(&scheme(false), &texts, true, |a, b| !a.is_empty() && a == b)?;
            hold(&scheme(true), &texts, true, |a, b| !bare(a).is_empty() && bare(a) == bare(b))?;
        }
    }

    /// Strips a text by the definition.
    fn bare(text: &str) -> String {
        let text: Vec<char> = text.chars().collect();
        let mut kept = String::new();
        for at in 0..text.len() {
            let gap = text[at..].iter().take_while(|c| !c.is_alphanumeric()).count();
            let neighbours = [at.checked_sub(1).and_then(|before| text.get(before)), text.get(at + gap)];
            let begins = gap > 0 && neighbours.iter().all(|c| c.is_some_and(char::is_ascii_digit));
            let marks: String = text[at..at + gap].iter().filter(|_| begins).collect();
            match text[at] {
                c if c.is_alphanumeric() => kept.push(c),
                _ if begins => kept.push(marks.trim().chars().next().unwrap_or(' ')),
                _ => {}
            }
        }
        kept
    }
}
