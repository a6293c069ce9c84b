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
use crate::text::shingles::{codes, counts};

/// Least number of letters, digits and Han characters of a passage. A shorter run of a form's shingles also occurs in texts
/// that are not on the form.
pub const MIN_FORM_CHARS: usize = 6;

/// The shingles of all passages of the forms of a collection.
#[derive(Clone, Debug, Default)]
pub struct FormText {
    codes: HashSet<u64>,
    width: u8,
}

impl FormText {
    /// Returns the text of some forms, for shingles of `width` characters. O(length of the forms).
    pub fn new(forms: &[Form], width: u8) -> Self {
        // A collection may compare traditional characters or not, so that both versions of a passage are known.
        let normalisers = [true, false].map(Normaliser::new);
        let passages = forms.iter().flat_map(|form| &form.passages);
        let texts = passages.flat_map(|passage| normalisers.map(|normaliser| normaliser.normalise(passage)));
        Self::of_codes(texts.flat_map(|text| codes(&text, width)).collect(), width)
    }

    /// Returns the text of which these are the shingles of `width` characters.
    pub fn of_codes(codes: HashSet<u64>, width: u8) -> Self {
        Self { codes, width }
    }

    /// Returns `text` without the passages that are on a form. Each becomes a space. O(length).
    pub fn strip<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.codes.is_empty() {
            return Cow::Borrowed(text);
        }
        let passages = self.passages(text);
        if passages.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut own = String::with_capacity(text.len());
        let mut at = 0;
        for passage in passages {
            own.push_str(&text[at..passage.start]);
            own.push(' ');
            at = passage.end;
        }
        own.push_str(&text[at..]);
        Cow::Owned(own)
    }

    /// Returns the bytes of each passage of `text` that is on a form, ascending. A passage has at least [`MIN_FORM_CHARS`] characters that
    /// count. O(length).
    pub fn passages(&self, text: &str) -> Vec<Range<usize>> {
        let width = usize::from(self.width.max(1));
        let chars: Vec<Range<usize>> =
            text.char_indices().filter(|(_, char)| counts(*char)).map(|(at, char)| at..at + char.len_utf8()).collect();
        if chars.len() < width.max(MIN_FORM_CHARS) {
            return Vec::new();
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for (first, code) in codes(text, self.width).into_iter().enumerate() {
            if !self.codes.contains(&code) {
                continue;
            }
            match found.last_mut() {
                Some(last) if first <= last.end => last.end = first + width,
                _ => found.push(first..first + width),
            }
        }
        found.retain(|run| run.len() >= MIN_FORM_CHARS);
        found.into_iter().map(|run| chars[run.start].start..chars[run.end - 1].end).collect()
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
        FormText::new(&[Form { name: "invitation".into(), passages }], 3)
    }

    #[test]
    fn the_filling_of_a_form_remains() {
        let form = invitation_form();
        assert_eq!(form.strip(&invitation("周明远")), "请人员周明远 。");
        assert_eq!(form.strip("路灯不亮"), "路灯不亮");
        assert_eq!(FormText::default().strip("路灯不亮"), "路灯不亮");
    }

    #[test]
    fn punctuation_traditional_characters_and_numerals_do_not_hide_a_passage() {
        let written = "請到街道辦事處3樓會議室";
        let simplified = Normaliser::new(true).normalise(written);
        for text in [written, &simplified, "请到街道办事处，三楼会议室"] {
            let form = FormText::new(&[Form { name: "room".into(), passages: vec![written.into()] }], 3);
            assert_eq!(form.strip(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn a_few_characters_of_a_form_are_no_passage() {
        assert_eq!(invitation_form().strip("我在街道办事处门口等了很久"), "我在街道办事处门口等了很久");
    }
}
