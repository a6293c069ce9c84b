//! The original texts of two records, with the passages that both texts contain.
//!
//! [`Engine::explain`] measures normalised text, but a person reads the original text. This module returns each passage with its offsets in
//! the original texts (for HTML, in the text that a browser shows), in characters. No passage begins or ends inside a number or a name, so
//! that a page can mark what is different as people read it: 23号楼, not 3.

use std::ops::Range;

use crate::boxed;
use crate::context::Context;
use crate::judge::rounded;
use crate::lookup::WHY_TEXTS;
use crate::{Engine, Error, Result, Side, in_turn};
use doppel_core::collection::{CollectionName, Role, TextFormat};
use doppel_core::record::{Row, Value};
use doppel_core::similarity::{Piece, align, shared_passages};
use doppel_core::text::html::visible_text;
use doppel_core::text::normalise::Normaliser;

/// Number of characters of a record in which passages are searched: more than anybody reads.
const MAX_CHARS: usize = 50_000;
/// Length of the shortest aligned range, in characters. Single characters are equal by chance.
const LEAST_ALIGNED: usize = 2;
/// The characters that end a field, so that no passage continues in the next field: private characters, a different one for each record.
const ENDS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// The texts of two records.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// The texts of one record, in the order of the settings.
    pub a: Vec<SideText>,
    /// The texts of the other record.
    pub b: Vec<SideText>,
    /// The weight of each common passage, 0 to 1, by its number: 1 for text that hardly any record of the collection contains.
    pub weights: Vec<f64>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct SideText {
    pub field: String,
    pub text: String,
    /// Ranges of the passages that the other record contains, too, in characters, each with the number of the passage. Ascending.
    pub shared: Vec<(Range<usize>, usize)>,
    /// Ranges that the other text contains at the corresponding place, in characters, also short ranges. Ascending.
    pub aligned: Vec<Range<usize>>,
    /// Number of characters that were compared; the rest of a very long text is not compared.
    pub compared: usize,
}

impl Engine {
    /// Returns the texts of two records with the passages that both contain, longest passages first. O(length), outside the serving
    /// threads.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`]; [`Error::Side`] with [`Error::UnknownRecord`] for the side that causes the
    /// error.
    #[boxed]
    pub async fn side_by_side(&self, collection: &CollectionName, a: Side, b: Side) -> Result<SideBySide> {
        let context = self.context_with_text(collection, WHY_TEXTS).await?;
        let a = self.row_of(collection, a).await.map_err(|error| Error::Side("a", Box::new(error)))?;
        let b = self.row_of(collection, b).await.map_err(|error| Error::Side("b", Box::new(error)))?;
        in_turn(move || Ok(side_by_side(&context, &a, &b))).await
    }

    pub(crate) async fn row_of(&self, collection: &CollectionName, side: Side) -> Result<Row> {
        match side {
            Side::Given(row) => Ok(row),
            Side::Stored(id) => self.stored_row(collection, &id).await,
        }
    }
}

fn side_by_side(context: &Context, a: &Row, b: &Row) -> SideBySide {
    let normaliser = Normaliser::new(context.state.settings.text.simplify);
    let verifier = context.measuring();
    let mut a = texts(context, a);
    let mut b = texts(context, b);
    let passages = mark(&mut a, &mut b, normaliser, |text| context.profile.fact_spans(text));
    let whole: Vec<&str> = b.iter().map(|field| field.text.as_str()).collect();
    let forms = verifier.forms().on(&whole.join("\n"));
    let weights = passages.iter().map(|text| rounded(verifier.commonness(text, &forms).0)).collect();
    SideBySide { a, b, weights }
}

/// Returns the fields of a row that are read as text.
fn texts(context: &Context, row: &Row) -> Vec<SideText> {
    let mut texts = Vec::new();
    for field in &context.state.settings.fields {
        if !matches!(field.role, Role::Text | Role::Whole) {
            continue;
        }
        let Some(value) = row.value(&field.name) else { continue };
        let text = match (value, field.format) {
            (Value::Text(text), TextFormat::Html) => visible_text(text),
            (Value::Text(text) | Value::Literal(text), _) => text.clone(),
            (Value::Null | Value::Nested, _) => continue,
        };
        if !text.trim().is_empty() {
            texts.push(SideText {
                field: field.name.clone(),
                text,
                shared: Vec::new(),
                aligned: Vec::new(),
                compared: 0,
            });
        }
    }
    texts
}

/// Marks the passages that both texts contain. Returns the passages in normal form, by their numbers. `names` finds the spans of the
/// names in a normalised text.
fn mark(
    a: &mut [SideText],
    b: &mut [SideText],
    normaliser: Normaliser,
    names: impl Fn(&str) -> Vec<Range<usize>>,
) -> Vec<String> {
    let normal_a = NormalText::of(a, normaliser, ENDS[0], &names);
    let normal_b = NormalText::of(b, normaliser, ENDS[1], &names);
    let passages = shared_passages(&normal_a.chars, &normal_b.chars);
    for (number, passage) in passages.iter().enumerate() {
        normal_a.mark(a, passage.at_a, passage.chars, number);
        normal_b.mark(b, passage.at_b, passage.chars, number);
    }
    let mut at = [0, 0];
    for piece in align(&normal_a.chars, &normal_b.chars) {
        match piece {
            Piece::Equal(text) => {
                let chars = text.chars().count();
                if chars >= LEAST_ALIGNED {
                    normal_a.align(a, at[0], chars);
                    normal_b.align(b, at[1], chars);
                }
                at = at.map(|at| at + chars);
            }
            Piece::OnlyA(text) => at[0] += text.chars().count(),
            Piece::OnlyB(text) => at[1] += text.chars().count(),
        }
    }
    for text in a.iter_mut().chain(b) {
        text.shared.sort_by_key(|(range, _)| (range.start, range.end));
    }
    passages.iter().map(|passage| normal_a.chars[passage.at_a..passage.at_a + passage.chars].iter().collect()).collect()
}

/// Texts in normal form without white space, each character with its origin.
struct NormalText {
    chars: Vec<char>,
    /// For each character: the index of its field, and the range of characters in the field from which it was made.
    from: Vec<(usize, Range<usize>)>,
    /// For each character: true if it belongs to the same number, Latin word or name as the character before it.
    continues: Vec<bool>,
}

impl NormalText {
    fn of(
        texts: &mut [SideText],
        normaliser: Normaliser,
        end: char,
        names: impl Fn(&str) -> Vec<Range<usize>>,
    ) -> Self {
        let mut normal = Self { chars: Vec::new(), from: Vec::new(), continues: Vec::new() };
        for (field, text) in texts.iter_mut().enumerate() {
            let left = MAX_CHARS.saturating_sub(normal.chars.len());
            let read = text.text.char_indices().nth(left).map_or(text.text.as_str(), |(end, _)| &text.text[..end]);
            let compared = read.chars().count();
            let (read, made_of) = normaliser.normalise_mapped(read);
            text.compared = compared;
            let spans = names(&read);
            let mut last_name = None;
            let mut is_after_space = false;
            for (at, (c, range)) in read.chars().zip(made_of).enumerate() {
                if c.is_whitespace() {
                    is_after_space = true;
                } else if !ENDS.contains(&c) {
                    let next_span = spans.partition_point(|span| span.start <= at);
                    let name = next_span.checked_sub(1).filter(|name| spans[*name].contains(&at));
                    let is_in_name = name.is_some() && name == last_name;
                    let continues = is_in_name || (!is_after_space && normal.continues_number(c));
                    normal.push(c, (field, range), continues);
                    last_name = name;
                    is_after_space = false;
                }
            }
            normal.push(end, (field, 0..0), false);
        }
        normal
    }

    fn push(&mut self, c: char, from: (usize, Range<usize>), continues: bool) {
        self.chars.push(c);
        self.from.push(from);
        self.continues.push(continues);
    }

    /// True if a character continues the number or the Latin word at the end.
    fn continues_number(&self, c: char) -> bool {
        let is_of_number = |c: char| c.is_ascii_alphanumeric() || c == '.';
        self.chars.last().is_some_and(|last| is_of_number(*last)) && is_of_number(c)
    }

    fn mark(&self, texts: &mut [SideText], at: usize, chars: usize, number: usize) {
        if let Some((field, range)) = self.original(at, chars) {
            texts[field].shared.push((range, number));
        }
    }

    fn align(&self, texts: &mut [SideText], at: usize, chars: usize) {
        if let Some((field, range)) = self.original(at, chars) {
            texts[field].aligned.push(range);
        }
    }

    /// Returns the field and the original range of characters, without parts of numbers and names. `None` if nothing is left.
    fn original(&self, at: usize, chars: usize) -> Option<(usize, Range<usize>)> {
        let mut range = at..at + chars;
        while range.start < range.end && self.continues[range.start] {
            range.start += 1;
        }
        while range.start < range.end && self.continues.get(range.end) == Some(&true) {
            range.end -= 1;
        }
        if range.is_empty() {
            return None;
        }
        let (field, first) = &self.from[range.start];
        let (_, last) = &self.from[range.end - 1];
        Some((*field, first.start..last.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LETTER, LetterDesk, id};

    fn side(texts: &[&str]) -> Vec<SideText> {
        let texts = texts.iter();
        texts
            .map(|text| SideText {
                field: "text".into(),
                text: (*text).into(),
                shared: Vec::new(),
                aligned: Vec::new(),
                compared: 0,
            })
            .collect()
    }

    /// Returns the marked passages of the texts, each with its number.
    fn pieces(texts: &[SideText]) -> Vec<(usize, String)> {
        let mut pieces = Vec::new();
        for text in texts {
            for (range, number) in &text.shared {
                pieces.push((*number, text.text.chars().skip(range.start).take(range.len()).collect()));
            }
        }
        pieces
    }

    fn marked(a: &[&str], b: &[&str]) -> [Vec<(usize, String)>; 2] {
        let mut a = side(a);
        let mut b = side(b);
        let names = |text: &str| {
            let name = text.find("25号楼").map(|at| text[..at].chars().count());
            name.map(|at| at..at + 4).into_iter().collect()
        };
        mark(&mut a, &mut b, Normaliser::new(true), names);
        [pieces(&a), pieces(&b)]
    }

    #[test]
    fn passages_are_marked_in_the_original_texts() {
        let [a, b] = marked(&["標題", "三號路的 LED 路燈\n不亮了，很黑。"], &["请看：三号路的ｌｅｄ路灯不亮了！"]);
        assert_eq!(a, [(0, "三號路的 LED 路燈\n不亮了".to_owned())]);
        assert_eq!(b, [(0, "三号路的ｌｅｄ路灯不亮了".to_owned())]);
    }

    #[test]
    fn a_passage_does_not_end_inside_a_number_or_a_name() {
        let [a, b] = marked(&["我们小区这里的25号楼电梯又坏了请来修"], &["我们小区这里的26号楼电梯又坏了请来修"]);
        assert_eq!(a, [(1, "我们小区这里的".to_owned()), (0, "电梯又坏了请来修".to_owned())]);
        assert_eq!(b, [(1, "我们小区这里的".to_owned()), (0, "号楼电梯又坏了请来修".to_owned())], "no name here");
    }

    #[test]
    fn latin_text_is_marked_word_by_word() {
        let [a, _] = marked(&["The lamp at road 3 is broken again"], &["The lamp at road 4 is broken again"]);
        assert_eq!(a, [(0, "The lamp at road ".trim_end().to_owned()), (1, "is broken again".to_owned())]);
    }

    #[test]
    fn short_ranges_at_the_same_place_are_aligned() {
        let mut a = side(&["关于北湖路停水的问题"]);
        let mut b = side(&["关于南山路停电的问题"]);
        mark(&mut a, &mut b, Normaliser::new(true), |_| Vec::new());
        assert_eq!((a[0].aligned.as_slice(), a[0].shared.len()), ([0..2, 4..6, 7..10].as_slice(), 0));
        assert_eq!(a[0].aligned, b[0].aligned);
    }

    #[test]
    fn a_passage_does_not_continue_in_the_next_field() {
        let [a, _] = marked(&["三号路的路", "灯又不亮了呀"], &["三号路的路", "灯又不亮了呀"]);
        assert!(a.is_empty(), "both fields are shorter than a passage: {a:?}");
        let [a, b] =
            marked(&["三号路的路灯不亮了", "请尽快派人前来修理"], &["请尽快派人前来修理", "三号路的路灯不亮了"]);
        assert_eq!(a.len(), 2);
        assert_eq!(a.iter().rev().cloned().collect::<Vec<_>>(), b, "moved passages keep their numbers");
    }

    #[tokio::test]
    async fn the_texts_of_two_stored_records_are_shown_and_a_missing_record_is_an_error() {
        let desk = LetterDesk::with(&["a", "b"]).await;
        let stored = |name| Side::Stored(id(name));
        let both = desk.engine.side_by_side(&desk.name, stored("a"), stored("b")).await.unwrap();
        assert_eq!((both.a.len(), &both.a, both.weights.len()), (1, &both.b, 1));
        assert_eq!(both.a[0].shared, [(0..LETTER.chars().count(), 0)]);
        let missing = desk.engine.side_by_side(&desk.name, stored("a"), stored("c")).await;
        assert!(matches!(missing, Err(Error::Side("b", _))));
    }
}
