//! Reads rows by the settings of a collection.

use std::ops::Range;

use jiff::tz::TimeZone;

use super::html::{visible_text, visible_text_mapped};
use super::identity::identity_form;
use super::normalise::Normaliser;
use super::shingles::counts;
use super::url::Addresses;
use super::{Document, DocumentField, RemovedNoise, time};
use crate::collection::{
    Channel, Field, MatchScope, Role, ScopeExclusion, ScopeValues, ScopedRecord, Settings, TextFormat,
};
use crate::error_code::ErrorCode;
use crate::facts::{FactReader, contact_and_noise_spans, contact_codes};
use crate::record::{Row, Value};
use crate::violation::{Violation, child};

/// The separator of the values of several `identity` fields. A normalised text never contains it.
pub(super) const SEPARATOR: char = '\u{1F}';

/// The normal form of a field has at most this number of times the bytes of its value, plus [`ROOM_TO_GROW`].
const MOST_GROWTH: usize = 4;
/// Number of bytes that a normal form may have in addition. Ordinary text grows by a few per cent. A text that is made
/// to grow costs the reader many times as much as the sender.
const ROOM_TO_GROW: usize = 4 << 10;

/// Turns rows into documents. A reader never changes and can be shared.
#[derive(Clone, Debug)]
pub struct Reader {
    fields: Vec<Field>,
    normaliser: Normaliser,
    addresses: Addresses,
    zone: TimeZone,
    /// Values of identity fields that name no person, in addition to the built-in ones.
    placeholders: Vec<String>,
    with_lines: bool,
    /// The conditions for matches, with normalised values.
    scope: MatchScope,
    /// Finds contacts and noise; `None` if the settings keep them.
    facts: Option<&'static FactReader>,
}

impl Reader {
    /// Creates a reader for validated `settings`. A time zone that does not exist would be read as UTC.
    pub fn new(settings: &Settings) -> Self {
        let normaliser = Normaliser::new(settings.text.simplify);
        Self {
            fields: settings.fields.clone(),
            normaliser,
            addresses: Addresses::new(&settings.host_aliases),
            zone: TimeZone::get(&settings.time_zone).unwrap_or(TimeZone::UTC),
            placeholders: settings.placeholders.iter().map(|text| normaliser.normalise(text)).collect(),
            with_lines: settings.channels.iter().any(Channel::reads_lines),
            scope: settings.scope.normalised(normaliser),
            facts: settings.text.remove_noise.then(FactReader::without_places),
        }
    }

    /// Returns the form in which a value of an identity field is compared; `None` for a value that names no person.
    pub fn identity(&self, value: &str) -> Option<String> {
        identity_form(&self.normaliser.normalise(value), &self.placeholders)
    }

    /// Returns the condition of the settings' `match` that a record and an earlier one do not meet; `None` if the two may match.
    pub fn scope_exclusion(&self, record: ScopedRecord<'_>, earlier: ScopedRecord<'_>) -> Option<ScopeExclusion> {
        self.scope.exclusion(record, earlier)
    }

    /// Returns the normaliser of texts.
    pub fn normaliser(&self) -> Normaliser {
        self.normaliser
    }

    /// Reads the fields that have a role. NULL, absent and empty are the same. Numbers and booleans count as their JSON
    /// text. If there are several `time` fields, the first one that can be read counts. A time that cannot be read
    /// becomes one of the document's warnings (`unreadable_time`). O(bytes of the row).
    ///
    /// # Errors
    /// All errors of the row: `nested_value` for an array or object in a field with a role, `grows_too_much` for a text
    /// whose normal form is many times as long.
    pub fn read(&self, row: &Row) -> Result<Document, Vec<Violation>> {
        let mut document = Document::default();
        let mut identity: Vec<String> = Vec::new();
        let mut found = Vec::new();
        for (position, field) in self.fields.iter().enumerate() {
            let Field { name, role, weight: _, format } = field;
            let text = match row.value(name) {
                None | Some(Value::Null) => continue,
                Some(_) if role.is_only_shown() => continue,
                Some(Value::Text(text) | Value::Literal(text)) => text,
                Some(Value::Nested) => {
                    let detail = "an array or object cannot be compared; give text, or take the field's role away";
                    found.push(Violation::new(child("", name), ErrorCode::NestedValue, detail));
                    continue;
                }
            };
            let raw = text.len();
            let shown = (*format == TextFormat::Html).then(|| visible_text(text));
            let text = shown.as_deref().unwrap_or(text);
            let (text, line_ends) = match role {
                Role::Url => (self.addresses.normalise(text), Vec::new()),
                Role::Text | Role::Whole if self.with_lines => lines(self.normaliser, text),
                _ => (self.normaliser.normalise(text), Vec::new()),
            };
            if text.is_empty() {
                continue;
            }
            if text.len() > MOST_GROWTH * raw + ROOM_TO_GROW {
                let detail = "its normal form is many times as long as the text: the text consists of characters that \
                    stand for whole phrases";
                found.push(Violation::new(child("", name), ErrorCode::GrowsTooMuch, detail));
                continue;
            }
            // Positions fit into a byte, because settings name at most 128 fields.
            let position = position as u8;
            if field.is_column() {
                document.columns.push(document_field(position, *role, text.clone(), Vec::new()));
            }
            match role {
                // Lines are read of the whole value.
                Role::Text | Role::Whole if !self.with_lines => {
                    let read = document_field(position, *role, text, line_ends);
                    document.fields.push(self.without_noise(read, &mut document.contacts));
                }
                Role::Text | Role::Whole | Role::Url => {
                    document.fields.push(document_field(position, *role, text, line_ends));
                }
                Role::Identity => identity.extend(identity_form(&text, &self.placeholders)),
                Role::Time => match time::parse(&text, &self.zone) {
                    Some(instant) => document.time = document.time.or(Some(instant)),
                    None => document.warnings.push(Violation::new(child("", name), time::UNREADABLE, time::ACCEPTED)),
                },
                Role::Ignore | Role::Category | Role::Status | Role::Unit | Role::Reply => {}
            }
        }
        if self.scope.reads_handling() {
            document.scope = ScopeValues::of(|name| self.role_of(name), self.normaliser, row);
        }
        document.identity = (!identity.is_empty()).then(|| identity.join(&SEPARATOR.to_string()));
        if found.is_empty() { Ok(document) } else { Err(found) }
    }

    fn role_of(&self, name: &str) -> Option<Role> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.role)
    }
}

fn document_field(position: u8, role: Role, text: String, line_ends: Vec<u32>) -> DocumentField {
    DocumentField { position, role, text, removed: None, merged: None, line_ends }
}

impl Reader {
    /// Removes contacts and noise from a field, unless nothing that counts would be left, and adds the contacts to
    /// `contacts`. O(length).
    fn without_noise(&self, field: DocumentField, contacts: &mut Vec<u64>) -> DocumentField {
        let Some(reader) = self.facts else { return field };
        let facts = reader.shapes(&field.text);
        contacts.extend(contact_codes(&facts));
        let spans = contact_and_noise_spans(&facts);
        if spans.is_empty() {
            return field;
        }
        let removed = RemovedNoise { whole: field.text.clone(), spans };
        let text: String = removed.kept().into_iter().map(|kept| kept.map_or(' ', |(_, c)| c)).collect();
        if !text.chars().any(counts) {
            return field;
        }
        DocumentField { text, removed: Some(Box::new(removed)), ..field }
    }
}

/// Returns the normal form of a field's value, and for each character of the normal form the range of characters of the
/// value that produced it. The range has several characters if characters combine, or if markup is between them.
/// Ascending. O(length).
pub fn read_mapped(normaliser: Normaliser, format: TextFormat, value: &str) -> (String, Vec<Range<usize>>) {
    if format != TextFormat::Html {
        return normaliser.normalise_mapped(value);
    }
    let (shown, from) = visible_text_mapped(value);
    let (normal, mut made_of) = normaliser.normalise_mapped(&shown);
    for range in &mut made_of {
        *range = from[range.start].start..from[range.end - 1].end;
    }
    (normal, made_of)
}

/// Returns the normal form of `text`, and the ends of its lines. Each line is normalised, empty lines are left out, and
/// the lines are joined by a space. The result is the normal form of the whole text, because no rule of the normal form
/// extends over a line break.
fn lines(normaliser: Normaliser, text: &str) -> (String, Vec<u32>) {
    let mut whole = String::with_capacity(text.len());
    let mut ends = Vec::new();
    for line in text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        let line = normaliser.normalise(line);
        if line.is_empty() {
            continue;
        }
        if !whole.is_empty() {
            ends.push(whole.len() as u32);
            whole.push(' ');
        }
        whole.push_str(&line);
    }
    (whole, ends)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::{Preset, SegmentsParams, Split};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn lines_joined_are_the_normal_form_of_the_whole(
            text in "[a1市 。\u{301}\u{308}\u{338}\u{200B}\u{1100}\u{1161}\u{FB01}\u{130}Σ\u{3099}か\n\r\u{2028}\u{B4}]{0,12}",
            simplify: bool,
        ) {
            let normaliser = Normaliser::new(simplify);
            let (whole, ends) = lines(normaliser, &text);
            prop_assert_eq!(&whole, &normaliser.normalise(&text), "{:?}", text);
            prop_assert!(ends.iter().all(|end| whole.as_bytes()[*end as usize] == b' '));
        }
    }

    /// Generates pages of text, tags, comments and character references.
    fn page() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[路燈不亮ＬＥＤAb3，。 ]{1,6}",
            1 => prop::sample::select(vec!["\r\n", "\n  ", "&", "<", "< 3", "&nope;", "&#", "</", "]]>"]).prop_map(str::to_owned),
            2 => prop::sample::select(vec!["&nbsp;", "&amp;", "&lt;", "&lt", "&#65;", "&#65", "&#x8DEF;", "&semi;", "&hearts;"])
                .prop_map(str::to_owned),
            2 => "<(/?(b|p|br|td|div|span))( title=\"[a>&路]{0,3}\")?>",
            1 => prop::sample::select(vec!["<!-- 草稿 <p> -->", "<!DOCTYPE html>", "<div hidden>乙<div>&lt;</div></div>", "<?php 甲 ?>",
                "<script>if (a < b) go('<p>');</script>", "<style>p{}</style>"]).prop_map(str::to_owned),
        ];
        prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_page_cut_where_a_passage_stands_reads_as_the_passage(html in page(), from: prop::sample::Index, to: prop::sample::Index) {
            let normaliser = Normaliser::new(true);
            let (normal, made_of) = read_mapped(normaliser, TextFormat::Html, &html);
            prop_assert_eq!(&normal, &normaliser.normalise(&visible_text(&html)));
            prop_assert_eq!(normal.chars().count(), made_of.len());
            if !made_of.is_empty() {
                let mut ends = [from, to].map(|index| index.index(made_of.len()));
                ends.sort_unstable();
                let [from, to] = ends;
                let passage: String = normal.chars().skip(from).take(to + 1 - from).collect();
                let cut: String =
                    html.chars().skip(made_of[from].start).take(made_of[to].end - made_of[from].start).collect();
                let (read, _) = read_mapped(normaliser, TextFormat::Html, &cut);
                prop_assert_eq!(read.as_str(), passage.trim(), "{:?} of {:?}", cut, html);
            }
        }
    }

    fn read(json: &str) -> Result<Document, Vec<Violation>> {
        let fields = vec![
            Field::new("标题", Role::Whole),
            Field::new("内容", Role::Text),
            Field::new("link", Role::Url),
            Field::new("name", Role::Identity),
            Field::new("phone", Role::Identity),
            Field::new("time", Role::Time),
            Field::new("at", Role::Time),
            Field::new("note", Role::Ignore),
        ];
        Reader::new(&Settings { fields, ..Settings::default() }).read(&Row::parse(json.as_bytes()).unwrap())
    }

    #[test]
    fn fields_are_read_by_role_in_settings_order() {
        let document = read(
            r#"{"内容":"夜市　噪音","标题":"噪音","link":" HTTP://A.cn/X","name":"李Ａ","phone":123,
                "time":"2019/3/5 8:01","note":[1],"other":{"a":[]}}"#,
        )
        .unwrap();
        let fields: Vec<_> = document.fields.iter().map(|f| (f.position, f.role, f.text.as_str())).collect();
        let expected = [(0, Role::Whole, "噪音"), (1, Role::Text, "夜市 噪音"), (2, Role::Url, "http://a.cn/X")];
        assert_eq!(fields, expected);
        assert_eq!(document.identity.as_deref(), Some("李a\u{1F}123"));
        assert_eq!(document.time.unwrap().to_string(), "2019-03-05T00:01:00Z");
        assert_eq!(document.joined(), "噪音\n夜市 噪音");
    }

    #[test]
    fn of_html_the_text_that_is_shown_is_read_and_its_lines() {
        let lines = SegmentsParams { split: Split::Lines(1), ..SegmentsParams::default() };
        let settings = Settings {
            fields: vec![Field { format: TextFormat::Html, ..Field::new("page", Role::Text) }],
            channels: vec![Channel::Segments(lines)],
            ..Settings::default()
        };
        let pages = ["<p>夜市\n噪音</p>\n<p>请<b>管</b>一管</p><script>1</script>", "<script>1</script>"];
        let [document, empty] = pages.map(|page| {
            let row = Row::parse(serde_json::json!({ "page": page }).to_string().as_bytes()).unwrap();
            Reader::new(&settings).read(&row).unwrap()
        });
        assert_eq!(
            (document.fields[0].text.as_str(), &document.fields[0].line_ends[..]),
            ("夜市 噪音 请管一管", &[13][..])
        );
        assert!(empty.is_empty());
    }

    #[test]
    fn a_column_with_a_weight_is_read_beside_its_role() {
        let mut settings = Settings::preset(Preset::Paper);
        settings.time_zone = "UTC".into();
        let row = r#"{"title":"夜市","content":"噪音","user":"李Ａ","time":"2019-03-05"}"#;
        let document = Reader::new(&settings).read(&Row::parse(row.as_bytes()).unwrap()).unwrap();
        let columns: Vec<_> = document.columns.iter().map(|column| column.text.as_str()).collect();
        assert_eq!((columns, document.fields.len()), (vec!["李a", "2019-03-05"], 2));
        assert_eq!((document.identity.as_deref(), document.time.is_some()), (Some("李a"), true));
        assert_eq!(document.joined(), "夜市\n噪音");
    }

    #[test]
    fn a_petitioner_who_gives_no_name_is_nobody() {
        let document = read(r#"{"内容":"夜市噪音","name":"匿名","phone":"+86 139-0000-1234"}"#).unwrap();
        assert_eq!(document.identity.as_deref(), Some("13900001234"));
        assert_eq!(read(r#"{"内容":"夜市噪音","name":"某女士","phone":"***"}"#).unwrap().identity, None);
    }

    #[test]
    fn null_absent_and_invisible_values_are_the_same() {
        let empty = read("{}").unwrap();
        assert_eq!(empty, Document::default());
        assert_eq!(read(r#"{"标题":null,"内容":" \u200b\n","name":"","time":" ","link":""}"#).unwrap(), empty);
    }

    #[test]
    fn numbers_and_booleans_count_as_their_json_text() {
        let document = read(r#"{"标题":true,"内容":1.50}"#).unwrap();
        assert_eq!(document.joined(), "true\n1.50");
    }

    #[test]
    fn all_that_is_wrong_is_named_at_once_and_without_the_values() {
        let found = read(r#"{"标题":["secret"],"内容":{"a":"secret"},"time":["secret"],"at":5}"#).unwrap_err();
        let named: Vec<_> = found.iter().map(|v| (v.pointer.as_str(), v.code.as_str())).collect();
        let expected = [("/标题", "nested_value"), ("/内容", "nested_value"), ("/time", "nested_value")];
        assert_eq!(named, expected);
        assert!(found.iter().all(|violation| !violation.detail.contains("secret")));
    }

    #[test]
    fn a_text_that_is_made_to_grow_is_refused() {
        let phrase = "\u{FDFA}";
        assert!(read(&format!("{{\"内容\":\"{}\"}}", phrase.repeat(100))).is_ok());
        let found = read(&format!("{{\"内容\":\"{}\"}}", phrase.repeat(10_000))).unwrap_err();
        assert_eq!((found[0].pointer.as_str(), found[0].code), ("/内容", ErrorCode::GrowsTooMuch));
        assert!(read(&format!("{{\"内容\":\"{}\"}}", "㍿㈱½".repeat(20_000))).is_ok(), "written text never does");
    }

    #[test]
    fn the_first_time_that_can_be_read_counts() {
        let document = read(r#"{"at":"2020-01-01T00:00:00Z","time":"2019-01-01T00:00:00Z"}"#).unwrap();
        assert_eq!(document.time.unwrap().to_string(), "2019-01-01T00:00:00Z");
        assert_eq!(document.warnings, []);
        let document = read(r#"{"at":20200101,"time":"secret"}"#).unwrap();
        assert_eq!(document.time.unwrap().to_string(), "2019-12-31T16:00:00Z");
        assert_eq!(document.warnings.len(), 1);
    }

    #[test]
    fn a_time_that_cannot_be_read_is_none_with_a_warning_that_does_not_repeat_it() {
        let document = read(r#"{"内容":"夜市噪音","name":"李","time":"secret","at":1551744060}"#).unwrap();
        assert_eq!(
            (document.time, document.identity.as_deref(), document.joined().as_str()),
            (None, Some("李"), "夜市噪音")
        );
        let named: Vec<_> = document.warnings.iter().map(|v| (v.pointer.as_str(), v.code.as_str())).collect();
        assert_eq!(named, [("/time", "unreadable_time"), ("/at", "unreadable_time")]);
        assert!(document.warnings.iter().all(|warning| !warning.detail.contains("secret")));
    }
}
