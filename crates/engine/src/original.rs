//! Offsets of a record's text in the original fields.

use std::ops::Range;

use crate::answers::FieldRange;
use doppel_core::collection::{Role, Settings};
use doppel_core::record::{Row, Value};
use doppel_core::text::normalise::Normaliser;
use doppel_core::text::{Document, RemovedNoise, read_mapped};

/// Largest number of characters whose offsets are stored: each takes 32 bytes. The field with which the number would be exceeded, and all
/// later fields, have no offsets.
const MOST_MAPPED: usize = 200_000;

/// The origin of each character of a document's joined text. A character between two fields has no origin.
pub(super) struct OriginalOffsets {
    fields: Vec<String>,
    from: Vec<Option<(usize, Range<usize>)>>,
}

impl OriginalOffsets {
    /// Maps a document to the row that it was read from under `settings`, up to the field with which it would exceed [`MOST_MAPPED`]
    /// characters. O(length).
    pub(super) fn of(settings: &Settings, row: &Row, document: &Document) -> Self {
        let normaliser = Normaliser::new(settings.text.simplify);
        let mut original = Self { fields: Vec::new(), from: Vec::new() };
        for read in document.fields.iter().filter(|field| field.role != Role::Url) {
            if original.from.len() + read.text.chars().count() > MOST_MAPPED {
                break;
            }
            let field = &settings.fields[usize::from(read.position)];
            if !original.fields.is_empty() {
                original.from.push(None);
            }
            let (normal, made_of) = match row.value(&field.name) {
                Some(Value::Text(text) | Value::Literal(text)) => read_mapped(normaliser, field.format, text),
                _ => Default::default(),
            };
            let number = original.fields.len();
            original.fields.push(field.name.clone());
            if normal == read.whole() {
                let whole: Vec<_> = made_of.into_iter().map(|range| Some((number, range))).collect();
                original.from.extend(compared(whole, read.removed.as_deref()));
            } else {
                original.from.extend(read.text.chars().map(|_| None));
            }
        }
        original
    }

    /// Returns the ranges of the original fields for a range of characters of the joined text: one range for each field, in order.
    pub(super) fn ranges(&self, chars: Range<usize>) -> Vec<FieldRange> {
        let chars = chars.start.min(self.from.len())..chars.end.min(self.from.len());
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        for (field, range) in self.from[chars].iter().flatten() {
            match found.last_mut().filter(|(last, _)| last == field) {
                Some((_, last)) => last.end = range.end,
                None => found.push((*field, range.clone())),
            }
        }
        let mut ranges = Vec::with_capacity(found.len());
        for (field, Range { start, end }) in found {
            ranges.push(FieldRange { field: self.fields[field].clone(), start, end });
        }
        ranges
    }
}

/// Returns the origin of each character of a compared text, from the origins of the whole value. O(length).
fn compared<T: Clone>(whole: Vec<Option<T>>, removed: Option<&RemovedNoise>) -> Vec<Option<T>> {
    let Some(removed) = removed else { return whole };
    let kept = removed.kept().into_iter();
    kept.map(|kept| kept.and_then(|(at, _)| whole.get(at as usize).cloned().flatten())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{Field, Preset, TextFormat};
    use doppel_core::text::Reader;

    fn original(row: &str) -> (OriginalOffsets, String) {
        let mut settings = Settings::preset(Preset::Default);
        settings.fields.push(Field { format: TextFormat::Html, ..Field::new("page", Role::Text) });
        let row = Row::parse(row.as_bytes()).unwrap();
        let document = Reader::new(&settings).read(&row).unwrap();
        (OriginalOffsets::of(&settings, &row, &document), document.joined())
    }

    /// Returns the ranges of a part of the joined text.
    fn ranges_of(original: &OriginalOffsets, joined: &str, part: &str) -> Vec<(String, usize, usize)> {
        let start = joined[..joined.find(part).unwrap()].chars().count();
        let ranges = original.ranges(start..start + part.chars().count());
        ranges.into_iter().map(|range| (range.field, range.start, range.end)).collect()
    }

    #[test]
    fn ranges_are_ranges_of_the_original_fields() {
        let (original, joined) = original(
            r#"{"title":"  三號路 ","content":"ＬＥＤ  路燈，\n不亮","page":"<p>晚上<b>很&#40657;</b>,<!-- 草稿 -->请修","link":"http://a.cn"}"#,
        );
        assert_eq!(joined, "三号路\nled 路灯, 不亮\n晚上很黑,请修");
        assert_eq!(ranges_of(&original, &joined, "三号路"), [("title".to_owned(), 2, 5)]);
        assert_eq!(ranges_of(&original, &joined, "led 路灯"), [("content".to_owned(), 0, 7)]);
        assert_eq!(ranges_of(&original, &joined, "灯, 不"), [("content".to_owned(), 6, 10)]);
        assert_eq!(
            ranges_of(&original, &joined, "路\nled"),
            [("title".to_owned(), 4, 5), ("content".to_owned(), 0, 3)]
        );
        assert_eq!(
            ranges_of(&original, &joined, "很黑"),
            [("page".to_owned(), 8, 17)],
            "with the markup inside, without the markup around"
        );
        assert_eq!(ranges_of(&original, &joined, ",请修"), [("page".to_owned(), 21, 35)]);
        assert!(original.ranges(90..99).is_empty());
    }
}
