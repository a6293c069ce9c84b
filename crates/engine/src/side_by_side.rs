//! Two records beside each other: their texts as they came, with the passages that stand in both.
//!
//! [`Engine::explain`] measures normalised text; a person reads the original. Here every passage is given where it stands in the
//! texts as they were received (of HTML, in what a browser shows), in characters.

use std::ops::Range;

use crate::context::Context;
use crate::judge::rounded;
use crate::lookup::WHY_TEXTS;
use crate::{Engine, Error, Result, Side, in_turn};
use doppel_core::collection::{CollectionName, Role, TextFormat};
use doppel_core::record::{Row, Value};
use doppel_core::similarity::shared_passages;
use doppel_core::text::html::visible_text;
use doppel_core::text::normalise::Normaliser;

/// Most characters of a record in which passages are looked for: more than anybody reads.
const MAX_CHARS: usize = 50_000;
/// What ends a field: a passage does not go from one into the next. Private characters, and another on either side.
const ENDS: [char; 2] = ['\u{e000}', '\u{e001}'];

/// Two records' texts.
#[derive(Clone, Debug, PartialEq)]
pub struct SideBySide {
    /// Those of the one, in the order of the settings.
    pub a: Vec<SideText>,
    /// Those of the other.
    pub b: Vec<SideText>,
    /// What each shared passage counts for, 0 to 1, by its number: 1 for text that hardly any record of the collection holds.
    pub weights: Vec<f64>,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct SideText {
    /// Its name.
    pub field: String,
    /// Its text.
    pub text: String,
    /// Where passages stand that the other record holds, too: characters, and the number of the passage. Ascending.
    pub shared: Vec<(Range<usize>, usize)>,
}

impl Engine {
    /// Two records' texts with the passages that both hold, longest passages first. O(length) on a thread of its own.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::TextNotKept`]; [`Error::Side`] with [`Error::UnknownRecord`] for the side that has it.
    pub async fn side_by_side(&self, collection: &CollectionName, a: Side, b: Side) -> Result<SideBySide> {
        let context = self.context_with_text(collection, WHY_TEXTS).await?;
        let of = |side| move |error| Error::Side(side, Box::new(error));
        let a = self.row_of(collection, a).await.map_err(of("a"))?;
        let b = self.row_of(collection, b).await.map_err(of("b"))?;
        in_turn(move || Ok(side_by_side(&context, &a, &b))).await
    }

    /// The row of a side.
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
    let (mut a, mut b) = (texts(context, a), texts(context, b));
    let passages = mark(&mut a, &mut b, normaliser);
    SideBySide { a, b, weights: passages.iter().map(|text| rounded(verifier.commonness(text).0)).collect() }
}

/// The fields of a row that are read as text.
fn texts(context: &Context, row: &Row) -> Vec<SideText> {
    let fields = context.state.settings.fields.iter().filter(|field| matches!(field.role, Role::Text | Role::Whole));
    let text = |value: &Value, format| match (value, format) {
        (Value::Text(text), TextFormat::Html) => Some(visible_text(text)),
        (Value::Text(text) | Value::Literal(text), _) => Some(text.clone()),
        (Value::Null | Value::Nested, _) => None,
    };
    let found = fields.filter_map(|field| Some((field.name.clone(), text(row.value(&field.name)?, field.format)?)));
    let shown = found.filter(|(_, text)| !text.trim().is_empty());
    shown.map(|(field, text)| SideText { field, text, shared: Vec::new() }).collect()
}

/// Marks what both hold; the passages, by their numbers, in normal form.
fn mark(a: &mut [SideText], b: &mut [SideText], normaliser: Normaliser) -> Vec<String> {
    let (normal_a, normal_b) = (Normal::of(a, normaliser, ENDS[0]), Normal::of(b, normaliser, ENDS[1]));
    let passages = shared_passages(&normal_a.chars, &normal_b.chars);
    for (number, passage) in passages.iter().enumerate() {
        normal_a.mark(a, passage.at_a, passage.chars, number);
        normal_b.mark(b, passage.at_b, passage.chars, number);
    }
    for text in a.iter_mut().chain(b) {
        text.shared.sort_by_key(|(range, _)| (range.start, range.end));
    }
    passages.iter().map(|passage| normal_a.chars[passage.at_a..passage.at_a + passage.chars].iter().collect()).collect()
}

/// Texts in normal form without white space, each character with where it came from.
struct Normal {
    chars: Vec<char>,
    /// Of each, the field and the characters in it that it was made of.
    from: Vec<(usize, Range<usize>)>,
}

impl Normal {
    fn of(texts: &[SideText], normaliser: Normaliser, end: char) -> Self {
        let (mut chars, mut from) = (Vec::new(), Vec::new());
        for (field, text) in texts.iter().enumerate() {
            let left = MAX_CHARS.saturating_sub(chars.len());
            let read = text.text.char_indices().nth(left).map_or(text.text.as_str(), |(end, _)| &text.text[..end]);
            let (normal, made_of) = normaliser.normalise_mapped(read);
            for (c, range) in normal.chars().zip(made_of) {
                if !c.is_whitespace() && !ENDS.contains(&c) {
                    chars.push(c);
                    from.push((field, range));
                }
            }
            chars.push(end);
            from.push((field, 0..0));
        }
        Self { chars, from }
    }

    fn mark(&self, texts: &mut [SideText], at: usize, chars: usize, number: usize) {
        let ((field, first), (_, last)) = (&self.from[at], &self.from[at + chars - 1]);
        texts[*field].shared.push((first.start..last.end, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Desk, LETTER, id};

    fn marked(a: &[&str], b: &[&str]) -> [Vec<(usize, String)>; 2] {
        let side = |texts: &[&str]| -> Vec<SideText> {
            let text = |text: &&str| SideText { field: "text".into(), text: (*text).into(), shared: Vec::new() };
            texts.iter().map(text).collect()
        };
        let (mut a, mut b) = (side(a), side(b));
        mark(&mut a, &mut b, Normaliser::new(true));
        [a, b].map(|texts| {
            let piece = |text: &SideText, range: &Range<usize>| {
                text.text.chars().skip(range.start).take(range.len()).collect::<String>()
            };
            texts.iter().flat_map(|text| text.shared.iter().map(|(at, number)| (*number, piece(text, at)))).collect()
        })
    }

    #[test]
    fn passages_are_marked_in_the_texts_as_they_came() {
        let [a, b] = marked(&["標題", "三號路的 LED 路燈\n不亮了，很黑。"], &["请看：三号路的ｌｅｄ路灯不亮了！"]);
        assert_eq!(a, [(0, "三號路的 LED 路燈\n不亮了".to_owned())]);
        assert_eq!(b, [(0, "三号路的ｌｅｄ路灯不亮了".to_owned())]);
    }

    #[test]
    fn a_passage_does_not_go_from_one_field_into_the_next() {
        let [a, _] = marked(&["三号路的路", "灯又不亮了呀"], &["三号路的路", "灯又不亮了呀"]);
        assert!(a.is_empty(), "both fields are shorter than a passage: {a:?}");
        let [a, b] =
            marked(&["三号路的路灯不亮了", "请尽快派人前来修理"], &["请尽快派人前来修理", "三号路的路灯不亮了"]);
        assert_eq!(a.len(), 2);
        assert_eq!(a.iter().rev().cloned().collect::<Vec<_>>(), b, "moved passages keep their numbers");
    }

    #[tokio::test]
    async fn stored_records_stand_beside_each_other_and_a_missing_one_is_named() {
        let desk = Desk::with(&["a", "b"]).await;
        let ask = |b: &str| desk.engine.side_by_side(&desk.name, Side::Stored(id("a")), Side::Stored(id(b)));
        let both = ask("b").await.unwrap();
        assert_eq!((both.a.len(), &both.a, both.weights.len()), (1, &both.b, 1));
        assert_eq!(both.a[0].shared, [(0..LETTER.chars().count(), 0)]);
        assert!(matches!(ask("c").await, Err(Error::Side("b", _))));
    }
}
