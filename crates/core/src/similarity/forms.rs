//! The text of forms.
//!
//! A form is text that an office's own records share because somebody fills it in: an invitation that differs only in the name of
//! the person, an order that a system writes. A person says of a group that it is a form; the settings then contain its passages
//! ([`Form`]). Verification compares two records by what fills the form: the text of its passages is taken out of both before
//! anything is counted, so that it is evidence neither for nor against a match.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use crate::collection::Form;
use crate::text::normalise::Normaliser;
use crate::text::shingles::{codes, counted, counts};

/// Least number of letters, digits and Han characters of a passage. A shorter run of a form's shingles also occurs in texts
/// that are not on the form.
pub const MIN_FORM_CHARS: usize = 6;
/// Number of characters of the shingles by which passages are recognised, whatever the width of verification is.
const WIDTH: u8 = 3;
/// Smallest share of a form that a text on the form contains. Other texts may contain one of its passages by chance.
const MIN_SHARE_OF_FORM: f64 = 0.5;

/// The text of the forms of a collection.
#[derive(Clone, Debug, Default)]
pub struct FormText {
    forms: Vec<FormShingles>,
}

/// The shingles of a form.
#[derive(Clone, Debug)]
struct FormShingles {
    codes: HashSet<u64>,
    /// Number of characters of the form that count.
    length: usize,
}

impl FormText {
    /// Returns the text of some forms. O(length of the forms).
    pub fn new(forms: &[Form]) -> Self {
        Self { forms: forms.iter().map(FormShingles::new).collect() }
    }

    /// Returns the text of one form of which these are the shingles, see [`FormText::codes`].
    pub fn of_codes(codes: HashSet<u64>) -> Self {
        Self { forms: vec![FormShingles { codes, length: 0 }] }
    }

    /// Returns the shingles by which passages of a text are recognised, in order.
    pub fn codes(text: &str) -> Vec<u64> {
        codes(text, WIDTH)
    }

    /// True if there are no forms.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Returns the forms that `text` is on. A part of the text is on them although it has less than half of a form. O(forms × length).
    #[must_use]
    pub fn on(&self, text: &str) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        let codes = Self::codes(text);
        let forms = self.forms.iter().filter(|form| form.is_in(&codes));
        Self { forms: forms.map(|form| FormShingles { codes: form.codes.clone(), length: 0 }).collect() }
    }

    /// Returns `text` without the passages of the forms that it is on. Each passage becomes a space. O(forms × length).
    pub fn strip<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match *self.parts(text) {
            [whole] => Cow::Borrowed(whole),
            ref parts => Cow::Owned(parts.join(" ")),
        }
    }

    /// Returns the parts of `text` between the passages of the forms that it is on. O(forms × length).
    pub fn parts<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let mut parts = Vec::new();
        let mut at = 0;
        for passage in self.passages(text) {
            parts.push(&text[at..passage.start]);
            at = passage.end;
        }
        parts.push(&text[at..]);
        parts
    }

    /// Returns the bytes of each passage of `text` that is on a form, ascending. A passage has at least [`MIN_FORM_CHARS`] characters that
    /// count, and the text has at least half of the form. O(forms × length).
    pub fn passages(&self, text: &str) -> Vec<Range<usize>> {
        if self.forms.is_empty() {
            return Vec::new();
        }
        let chars: Vec<Range<usize>> =
            text.char_indices().filter(|(_, char)| counts(*char)).map(|(at, char)| at..at + char.len_utf8()).collect();
        if chars.len() < MIN_FORM_CHARS {
            return Vec::new();
        }
        let codes = Self::codes(text);
        let mut on_forms = vec![false; chars.len()];
        for form in &self.forms {
            if form.is_in(&codes) {
                form.runs(&codes).into_iter().for_each(|run| on_forms[run].fill(true));
            }
        }
        let mut passages: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for run in on_forms.chunk_by(|a, b| a == b) {
            if run[0] {
                passages.push(chars[at].start..chars[at + run.len() - 1].end);
            }
            at += run.len();
        }
        passages
    }
}

impl FormShingles {
    fn new(form: &Form) -> Self {
        // A collection may compare traditional characters or simplified ones, so that the form has the shingles of both.
        let normalisers = [true, false].map(Normaliser::new);
        let texts =
            form.passages.iter().flat_map(|passage| normalisers.map(|normaliser| normaliser.normalise(passage)));
        let length = form.passages.iter().map(|passage| counted(passage)).sum();
        Self { codes: texts.flat_map(|text| FormText::codes(&text)).collect(), length }
    }

    /// True if the text with these shingles has enough of the form.
    fn is_in(&self, codes: &[u64]) -> bool {
        let found: usize = self.runs(codes).iter().map(Range::len).sum();
        found as f64 >= MIN_SHARE_OF_FORM * self.length as f64
    }

    /// Returns the runs of characters whose consecutive shingles are all on the form.
    fn runs(&self, codes: &[u64]) -> Vec<Range<usize>> {
        let width = usize::from(WIDTH);
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (first, code) in codes.iter().enumerate() {
            if !self.codes.contains(code) {
                continue;
            }
            match runs.last_mut() {
                Some(last) if first + width == last.end + 1 => last.end += 1,
                _ => runs.push(first..first + width),
            }
        }
        runs.retain(|run| run.len() >= MIN_FORM_CHARS);
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation(name: &str) -> String {
        format!("请人员{name}于本周五上午到街道办事处三楼会议室参加座谈，并携带本人身份证件。")
    }

    fn invitation_form() -> FormText {
        let passages = vec!["于本周五上午到街道办事处三楼会议室参加座谈，并携带本人身份证件。".into()];
        FormText::new(&[Form { name: "invitation".into(), passages }])
    }

    #[test]
    fn the_filling_of_a_form_remains() {
        let form = invitation_form();
        assert_eq!(form.strip(&invitation("周明远")), "请人员周明远 。");
        assert_eq!(form.strip("路灯不亮"), "路灯不亮");
        assert_eq!(FormText::default().strip("路灯不亮"), "路灯不亮");
    }

    #[test]
    fn a_part_of_a_text_on_a_form_is_on_the_form() {
        let form = invitation_form();
        let part = "于本周五上午到街道";
        assert_eq!(form.strip(part), part, "alone it has too little of the form");
        assert_eq!(form.on(&invitation("周明远")).strip(part).trim(), "");
        assert!(form.on("路灯不亮").is_empty());
    }

    #[test]
    fn punctuation_traditional_characters_and_numerals_do_not_hide_a_passage() {
        let written = "請到街道辦事處3樓會議室";
        let simplified = Normaliser::new(true).normalise(written);
        for text in [written, &simplified, "请到街道办事处，三楼会议室"] {
            let form = FormText::new(&[Form { name: "room".into(), passages: vec![written.into()] }]);
            assert_eq!(form.strip(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_on_the_form_stays_whole() {
        for text in ["我在街道办事处门口等了很久", "街道办事处三楼会议室漏水三天没有人来修"]
        {
            assert_eq!(invitation_form().strip(text), text);
        }
    }

    #[test]
    fn the_parts_are_the_text_between_the_passages() {
        let text = invitation("周明远");
        assert_eq!(invitation_form().parts(&text), ["请人员周明远", "。"]);
        assert_eq!(FormText::default().parts(&text), [text.as_str()]);
    }
}
