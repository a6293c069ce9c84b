//! Reads facts from the rows of records, by the roles of the fields.

use std::borrow::Cow;

use doppel_core::collection::{Field, Role, Settings, TextFormat};
use doppel_core::handling::Handling;
use doppel_core::record::{RecordId, Row, Value};
use doppel_core::text::html::visible_text;
use doppel_core::text::time;
use doppel_engine::answers::RecordView;
use jiff::tz::TimeZone;

use crate::view::marked::beginning;
use crate::view::time::ZonedClock;
use crate::words::RecordWords;

/// Largest length of a title that is made from a text, in characters.
const TITLE_CHARS: usize = 36;
/// Largest length of an excerpt, in characters.
const EXCERPT_CHARS: usize = 120;

/// The settings of a collection that are needed for showing its rows.
#[derive(Clone, Debug)]
pub struct RowReader {
    fields: Vec<(Field, bool)>,
    zone: TimeZone,
    /// Formats times of the collection.
    pub clock: ZonedClock,
}

#[derive(Clone, Debug, Default)]
pub struct RowFacts {
    /// The title, or the beginning of the text; empty if the row has neither.
    pub title: String,
    /// The beginning of the text.
    pub excerpt: String,
    /// The time of the submission, in the time zone of the collection.
    pub time: Option<String>,
    pub petitioner: Option<String>,
    /// The values that the office added to the record.
    pub handling: Handling,
}

impl RowFacts {
    /// Returns the category, status and unit that the office wrote, each with its name.
    pub fn handled(&self, words: &RecordWords) -> Vec<(&'static str, &str)> {
        let Handling { category, status, unit, reply: _ } = &self.handling;
        let values = [(Role::Category, category), (Role::Status, status), (Role::Unit, unit)];
        values.into_iter().filter_map(|(role, value)| Some(((words.role)(role), value.as_deref()?))).collect()
    }
}

/// A field of a form for a row.
#[derive(Clone, Debug)]
pub struct FormField {
    /// The name of the field in the row.
    pub name: String,
    pub role: Role,
    /// True if the field is for running text.
    pub is_long: bool,
    /// True if the field is for the text of the letter.
    pub is_main: bool,
    /// The filled-in value.
    pub value: String,
}

impl RowReader {
    /// Creates a reader for the rows of a collection with these settings.
    pub fn of(settings: &Settings) -> Self {
        let fields = settings.fields.iter().cloned().zip(settings.titles()).collect();
        let zone = TimeZone::get(&settings.time_zone).unwrap_or(TimeZone::UTC);
        Self { fields, zone, clock: ZonedClock::of(&settings.time_zone) }
    }

    /// True if a field has this role.
    pub fn has(&self, role: Role) -> bool {
        self.fields.iter().any(|(field, _)| field.role == role)
    }

    fn role_of_field(&self, name: &str) -> Option<Role> {
        self.fields.iter().find(|(field, _)| field.name == name).map(|(field, _)| field.role)
    }

    /// Returns the facts of a record; only its id and time if no text is kept.
    pub fn facts_of(&self, record: &RecordView) -> RowFacts {
        match (record.read(), &record.row) {
            (Some(row), _) => self.facts(&row),
            (None, None) => self.without_text(&record.id, record.time.as_deref()),
            (None, Some(_)) => RowFacts::default(),
        }
    }

    /// Returns the facts of a record whose text is not kept.
    pub fn without_text(&self, id: &RecordId, time: Option<&str>) -> RowFacts {
        RowFacts { title: id.to_string(), time: time.map(|time| self.time(time)), ..RowFacts::default() }
    }

    pub fn facts(&self, row: &Row) -> RowFacts {
        let content = |title: bool| {
            let fields = self
                .fields
                .iter()
                .filter(move |(field, is_title)| *is_title == title && matches!(field.role, Role::Text | Role::Whole));
            fields.filter_map(|(field, _)| shown(row, field)).find(|text| !text.trim().is_empty())
        };
        let titled = content(true);
        let running = content(false);
        let title = titled.as_ref().or(running.as_ref()).map(|text| beginning(text.trim(), TITLE_CHARS));
        let excerpt = running.or(titled).map(|text| beginning(text.trim(), EXCERPT_CHARS));
        RowFacts {
            title: title.unwrap_or_default(),
            excerpt: excerpt.unwrap_or_default(),
            time: self.of_role(row, Role::Time).map(|text| self.time(text)),
            petitioner: self.of_role(row, Role::Identity).map(str::to_owned),
            handling: Handling::of(|name| self.role_of_field(name), row).unwrap_or_default(),
        }
    }

    /// Returns the first value of the fields with this role.
    pub fn of_role<'r>(&self, row: &'r Row, role: Role) -> Option<&'r str> {
        let fields = self.fields.iter().filter(|(field, _)| field.role == role);
        fields.filter_map(|(field, _)| text(row, &field.name)).map(str::trim).find(|text| !text.is_empty())
    }

    /// Returns the texts of a row with the names of their fields. For HTML, the text is what a browser shows.
    pub fn texts(&self, row: &Row) -> Vec<(String, String)> {
        let fields = self.fields.iter().filter(|(field, _)| matches!(field.role, Role::Text | Role::Whole));
        let texts = fields.filter_map(|(field, _)| Some((field.name.clone(), shown(row, field)?.into_owned())));
        texts.filter(|(_, text)| !text.trim().is_empty()).collect()
    }

    /// Returns the values of all other fields, without lists and objects.
    pub fn others(&self, row: &Row) -> Vec<(String, String)> {
        let names = row.names().filter(|name| !matches!(self.role_of_field(name), Some(Role::Text | Role::Whole)));
        names.filter_map(|name| Some((name.to_owned(), text(row, name)?.to_owned()))).collect()
    }

    /// Returns the fields of a form for a row: the fields with a role for which one of `rows` has a value. Without values, these are the
    /// first fields of each role.
    pub fn form_fields(&self, rows: &[Row]) -> Vec<FormField> {
        let is_filled =
            |field: &Field| rows.iter().any(|row| text(row, &field.name).is_some_and(|text| !text.trim().is_empty()));
        let with_role = self.fields.iter().filter(|(field, _)| field.role != Role::Ignore);
        let mut wanted: Vec<&(Field, bool)> = with_role.clone().filter(|(field, _)| is_filled(field)).collect();
        if wanted.is_empty() {
            let mut seen = Vec::new();
            wanted = with_role
                .filter(|(field, title)| {
                    let kind = (field.role, *title);
                    !seen.contains(&kind) && {
                        seen.push(kind);
                        true
                    }
                })
                .collect();
        }
        let main = wanted
            .iter()
            .find(|(field, title): &&&(Field, bool)| field.role == Role::Text && !title)
            .or(wanted.iter().find(|(field, _)| field.role == Role::Text));
        let main = main.map(|(field, _)| field.name.clone());
        wanted
            .into_iter()
            .map(|(field, title): &(Field, bool)| FormField {
                name: field.name.clone(),
                role: field.role,
                is_long: field.role == Role::Text && !title,
                is_main: main.as_ref() == Some(&field.name),
                value: String::new(),
            })
            .collect()
    }

    fn time(&self, text: &str) -> String {
        time::parse(text, &self.zone).map_or_else(|| text.to_owned(), |time| self.clock.show(time))
    }
}

/// Returns the visible text of a field.
fn shown<'r>(row: &'r Row, field: &Field) -> Option<Cow<'r, str>> {
    let text = text(row, &field.name)?;
    Some(match field.format {
        TextFormat::Html => visible_text(text).into(),
        TextFormat::Plain => text.into(),
    })
}

fn text<'r>(row: &'r Row, name: &str) -> Option<&'r str> {
    match row.value(name)? {
        Value::Text(text) | Value::Literal(text) => Some(text),
        Value::Null | Value::Nested => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(json: &str) -> RowFacts {
        RowReader::of(&Settings::default()).facts(&Row::parse(json.as_bytes()).unwrap())
    }

    #[test]
    fn a_row_is_read_by_the_roles_of_its_fields() {
        let letter = facts(
            r#"{"title": " 路灯 ", "content": "三号路的路灯不亮", "user": "甲", "time": "2024-03-01T01:30:00Z", "no": 7}"#,
        );
        assert_eq!((letter.title.as_str(), letter.excerpt.as_str()), ("路灯", "三号路的路灯不亮"));
        assert_eq!((letter.petitioner.as_deref(), letter.time.as_deref()), (Some("甲"), Some("2024-03-01 09:30")));
    }

    #[test]
    fn what_the_office_wrote_is_read_with_its_names() {
        let letter =
            facts(r#"{"content": "路灯不亮", "办理状态": "已办结", "承办单位": "城管局", "答复内容": "已修好"}"#);
        let words = &crate::words::of(doppel_texts::Language::Chinese).record;
        assert_eq!(letter.handled(words), [("办理状态", "已办结"), ("承办单位", "城管局")]);
        assert_eq!(letter.handling.reply.as_deref(), Some("已修好"));
    }

    #[test]
    fn of_a_page_what_a_browser_shows_is_read() {
        let fields = vec![Field { format: TextFormat::Html, ..Field::new("page", Role::Text) }];
        let settings = Settings { fields, ..Settings::default() };
        let row =
            Row::parse(r#"{"page": "<p>三号路的<b>路灯</b>&lt;3&gt;</p><script>x</script>"}"#.as_bytes()).unwrap();
        let reader = RowReader::of(&settings);
        assert_eq!(reader.facts(&row).title, "三号路的路灯<3>");
        assert_eq!(reader.texts(&row), [("page".to_owned(), "三号路的路灯<3>".to_owned())]);
    }

    #[test]
    fn a_form_has_the_fields_that_records_fill() {
        let reader = RowReader::of(&Settings::default());
        let used =
            field_names(&[r#"{"标题": "路灯", "内容": "不亮", "no": 7}"#, r#"{"姓名": "甲", "user": " "}"#], &reader);
        assert_eq!(used, (vec!["标题".to_owned(), "内容".into(), "姓名".into()], "内容".into()));
        assert_eq!(
            field_names(&[], &reader),
            (vec!["title".to_owned(), "content".into(), "user".into(), "time".into()], "content".into())
        );
        let row =
            Row::parse(r#"{"id": "1", "content": "不亮", "no": 7, "nested": [], "none": null}"#.as_bytes()).unwrap();
        assert_eq!(reader.others(&row), [("no".to_owned(), "7".to_owned())]);
        assert_eq!(reader.texts(&row), [("content".to_owned(), "不亮".to_owned())]);
    }

    fn field_names(rows: &[&str], reader: &RowReader) -> (Vec<String>, String) {
        let rows: Vec<Row> = rows.iter().map(|row| Row::parse(row.as_bytes()).unwrap()).collect();
        let fields = reader.form_fields(&rows);
        let main = fields.iter().find(|field| field.is_main).map(|field| field.name.clone());
        (fields.into_iter().map(|field| field.name).collect::<Vec<_>>(), main.unwrap_or_default())
    }

    #[test]
    fn a_letter_without_a_title_is_called_by_its_beginning() {
        let long = "三号路的路灯不亮".repeat(20);
        let letter = facts(&format!(r#"{{"title": "", "content": "{long}", "time": "some day"}}"#));
        assert!(letter.title.ends_with('…') && letter.title.chars().count() == TITLE_CHARS + 1);
        assert_eq!((letter.petitioner, letter.time.as_deref()), (None, Some("some day")));
        assert_eq!(facts("{}").title, "");
    }
}
