//! Where characters of a record's text stand in its fields as they came.

use std::ops::Range;

use crate::answers::FieldRange;
use doppel_core::collection::{Role, Settings};
use doppel_core::record::{Row, Value};
use doppel_core::text::normalise::Normaliser;
use doppel_core::text::{Document, Removed, read_mapped};

/// Most characters whose places are known: each takes 32 bytes. Behind the field before which there would be more, nothing is.
const MOST_MAPPED: usize = 200_000;

/// Of each character of a document's joined text, where it came from: nowhere, for what stands between two fields.
pub(super) struct Original {
    fields: Vec<String>,
    from: Vec<Option<(usize, Range<usize>)>>,
}

impl Original {
    /// Of a row and what was read of it under `settings`, up to the field in which it reaches [`MOST_MAPPED`] characters. O(length).
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

    /// Where characters of the joined text stand: a range of each field that they are of, in order.
    pub(super) fn ranges(&self, chars: Range<usize>) -> Vec<FieldRange> {
        let chars = chars.start.min(self.from.len())..chars.end.min(self.from.len());
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        for (field, range) in self.from[chars].iter().flatten() {
            match found.last_mut().filter(|(last, _)| last == field) {
                Some((_, last)) => last.end = range.end,
                None => found.push((*field, range.clone())),
            }
        }
        let named = found.into_iter().map(|(field, Range { start, end })| (self.fields[field].clone(), start, end));
        named.map(|(field, start, end)| FieldRange { field, start, end }).collect()
    }
}

/// Of each character of a compared text where it came from, given the same of the whole value. O(length).
fn compared<T: Clone>(whole: Vec<Option<T>>, removed: Option<&Removed>) -> Vec<Option<T>> {
    let Some(removed) = removed else { return whole };
    let from = |(at, _): (u32, char)| whole.get(at as usize).cloned().flatten();
    removed.kept().into_iter().map(|kept| kept.and_then(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{Field, Preset, TextFormat};
    use doppel_core::text::Reader;

    fn original(row: &str) -> (Original, String) {
        let mut settings = Settings::preset(Preset::Default);
        settings.fields.push(Field { format: TextFormat::Html, ..Field::new("page", Role::Text) });
        let row = Row::parse(row.as_bytes()).unwrap();
        let document = Reader::new(&settings).read(&row).unwrap();
        (Original::of(&settings, &row, &document), document.joined())
    }

    #[test]
    fn ranges_are_those_of_the_fields_as_they_came() {
        let (original, joined) = original(
            r#"{"title":"  三號路 ","content":"ＬＥＤ  路燈，\n不亮","page":"<p>晚上<b>很&#40657;</b>,<!-- 草稿 -->请修","link":"http://a.cn"}"#,
        );
        assert_eq!(joined, "三号路\nled 路灯, 不亮\n晚上很黑,请修");
        let at = |text: &str| {
            let start = joined[..joined.find(text).unwrap()].chars().count();
            let ranges = original.ranges(start..start + text.chars().count());
            ranges.into_iter().map(|range| (range.field, range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(at("三号路"), [("title".to_owned(), 2, 5)]);
        assert_eq!(at("led 路灯"), [("content".to_owned(), 0, 7)]);
        assert_eq!(at("灯, 不"), [("content".to_owned(), 6, 10)]);
        assert_eq!(at("路\nled"), [("title".to_owned(), 4, 5), ("content".to_owned(), 0, 3)]);
        assert_eq!(at("很黑"), [("page".to_owned(), 8, 17)], "of a page with its markup, but for what is around");
        assert_eq!(at(",请修"), [("page".to_owned(), 21, 35)]);
        assert!(original.ranges(90..99).is_empty());
    }
}
