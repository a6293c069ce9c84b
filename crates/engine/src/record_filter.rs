//! Conditions on the other values of the office in a record, and on its verdict. Lists use them.

use crate::context::Context;
use doppel_core::collection::{Role, Settings};
use doppel_core::handling::Handling;
use doppel_core::record::{Row, Value};
use doppel_core::text::normalise::Normaliser;
use doppel_core::verdict::VerdictKind;
use doppel_store::StoredRecord;

/// Largest number of records that are read for one page of a filtered list. Reading them takes some tenths of a second. The page then states where
/// the next page begins, although it may have fewer items than requested.
const MOST_FILTERED: usize = 10_000;
/// Bytes of rows after which a page of a filtered list ends in the same way.
const MOST_FILTERED_BYTES: usize = 64 << 20;

/// The records that a filtered page has passed without listing them.
#[derive(Default)]
pub(crate) struct PassedRecords {
    records: usize,
    bytes: usize,
}

impl PassedRecords {
    pub(crate) fn count(&mut self, record: &StoredRecord) {
        self.records += 1;
        self.bytes += record.content.bytes();
    }

    /// True if the page must end.
    pub(crate) fn are_enough(&self) -> bool {
        self.records >= MOST_FILTERED || self.bytes >= MOST_FILTERED_BYTES
    }
}

/// The selection of records. A condition that is `None` accepts every record. Values are compared after normalisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// The value of role `category`, or of any field of role `whole`.
    pub category: Option<String>,
    /// The value of role `status`.
    pub status: Option<String>,
    /// The value of role `unit`.
    pub unit: Option<String>,
    pub verdict: Option<VerdictKind>,
}

impl RecordFilter {
    /// True if there is no condition.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the filter for the records of a collection.
    pub(crate) fn prepared<'a>(&self, context: &'a Context) -> PreparedFilter<'a> {
        let settings = &context.state.settings;
        let normaliser = Normaliser::new(settings.text.simplify);
        let [category, status, unit] = [&self.category, &self.status, &self.unit]
            .map(|value| value.as_ref().map(|value| normaliser.normalise(value)));
        let wanted = Self { category, status, unit, verdict: self.verdict };
        PreparedFilter { wanted, settings, normaliser }
    }
}

/// A filter with normalised values and the settings by which it reads records.
pub(crate) struct PreparedFilter<'a> {
    wanted: RecordFilter,
    settings: &'a Settings,
    normaliser: Normaliser,
}

impl PreparedFilter<'_> {
    /// True if the record meets all conditions. A record whose row is not kept meets no condition on a value. O(bytes of the row).
    pub(crate) fn accepts(&self, record: &StoredRecord) -> bool {
        let RecordFilter { category, status, unit, verdict } = &self.wanted;
        if verdict.is_some_and(|wanted| wanted != record.verdict.kind) {
            return false;
        }
        if category.is_none() && status.is_none() && unit.is_none() {
            return true;
        }
        let Some(row) = record.content.read() else { return false };
        let role = |name: &str| self.settings.field(name).map(|field| field.role);
        let handling = Handling::of(role, &row).unwrap_or_default();
        self.is_value(status.as_deref(), handling.status.as_deref())
            && self.is_value(unit.as_deref(), handling.unit.as_deref())
            && (self.is_value(category.as_deref(), handling.category.as_deref())
                || self.has_whole_value(category.as_deref(), &row))
    }

    /// True if the filter wants no value, or if the value equals the wanted value.
    fn is_value(&self, wanted: Option<&str>, value: Option<&str>) -> bool {
        wanted.is_none_or(|wanted| value.is_some_and(|value| self.normaliser.normalise(value) == wanted))
    }

    /// True if a field of role `whole` has the wanted value.
    fn has_whole_value(&self, wanted: Option<&str>, row: &Row) -> bool {
        let mut wholes = self.settings.fields.iter().filter(|field| field.role == Role::Whole);
        wholes.any(|field| match row.value(&field.name) {
            Some(Value::Text(text) | Value::Literal(text)) => self.is_value(wanted, Some(text)),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IfDuplicate;
    use crate::groups::GroupSelection;
    use crate::lookup::{MatchFilter, SimilarSelection};
    use crate::testing::LetterDesk;
    use doppel_core::collection::Field;
    use doppel_core::record::RecordId;
    use doppel_store::Seq;

    const TEXT: &str = "河口新区三号路的路灯已经连续多日不亮，夜间出行很不安全，请尽快安排人员维修";

    async fn office() -> LetterDesk {
        let mut settings = Settings::default();
        settings.fields.push(Field::new("区域", Role::Whole));
        let desk = LetterDesk::with(&[]).await;
        desk.engine.put_collection(&desk.name, settings).await.unwrap();
        let rows = [
            ("a", "市政", "城管局", "已办结", "东区"),
            ("b", "交通", "城管局", "办理中", "西区"),
            ("c", "市政", "住建局", "办理中", "东区"),
        ];
        for (id, category, unit, status, area) in rows {
            let json = serde_json::json!({ "content": TEXT, "诉求类别": category, "承办单位": unit, "办理状态": status, "区域": area });
            let row = Row::parse(json.to_string().as_bytes()).unwrap();
            desk.engine.register(&desk.name, RecordId::new(id).ok(), row, IfDuplicate::Keep).await.unwrap();
        }
        desk
    }

    fn filter(category: &str, status: &str, unit: &str, verdict: Option<VerdictKind>) -> RecordFilter {
        let [category, status, unit] =
            [category, status, unit].map(|value| (!value.is_empty()).then(|| value.to_owned()));
        RecordFilter { category, status, unit, verdict }
    }

    #[tokio::test]
    async fn lists_show_the_records_that_meet_all_conditions() {
        let desk = office().await;
        let cases = [
            (filter("市政", "", "", None), vec!["a", "c"]),
            (filter("", " 办理中 ", "", None), vec!["b", "c"]),
            (filter("", "", "城管局", None), vec!["a", "b"]),
            (filter("东区", "办理中", "", None), vec!["c"]),
            (filter("", "", "", Some(VerdictKind::Original)), vec!["a"]),
            (filter("", "", "水务局", None), vec![]),
        ];
        for (filter, expected) in cases {
            let page = desk.engine.records(&desk.name, &filter, Seq(0), 10).await.unwrap();
            let listed: Vec<&str> = page.items.iter().map(|record| record.id.as_str()).collect();
            assert_eq!(listed, expected, "{filter:?}");
            let selection = SimilarSelection {
                filter: MatchFilter { record: filter.clone(), ..MatchFilter::default() },
                ..SimilarSelection::matches(10)
            };
            let row = Row::parse(serde_json::json!({ "content": TEXT }).to_string().as_bytes()).unwrap();
            let similar = desk.engine.similar(&desk.name, row, selection).await.unwrap().similar;
            let mut similar: Vec<&str> = similar.iter().map(|found| found.id.as_str()).collect();
            similar.sort_unstable();
            assert_eq!(similar, expected, "similar: {filter:?}");
            let selection = GroupSelection { record: filter.clone(), ..GroupSelection::default() };
            let (groups, next) = desk.engine.groups(&desk.name, &selection, None, 10).await.unwrap();
            assert_eq!((groups.len(), next), (usize::from(!expected.is_empty()), None), "groups: {filter:?}");
        }
    }

    #[tokio::test]
    async fn a_page_of_a_filtered_list_continues_where_it_ended() {
        let desk = office().await;
        let wanted = filter("市政", "", "", None);
        let first = desk.engine.records(&desk.name, &wanted, Seq(0), 1).await.unwrap();
        let rest = desk.engine.records(&desk.name, &wanted, first.next.unwrap(), 1).await.unwrap();
        assert_eq!((first.items[0].id.as_str(), rest.items[0].id.as_str()), ("a", "c"));
        assert!(rest.next.is_none());
    }
}
