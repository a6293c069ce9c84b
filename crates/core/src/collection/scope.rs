//! The records that a record may match, whatever their texts say: an office may want matches only among recent, open matters of one category
//! or one unit.

use serde::{Deserialize, Serialize};

use super::{MAX_LEXICON_CHARS, Role, Settings};
use crate::error_code::ErrorCode;
use crate::handling::Handling;
use crate::record::Row;
use crate::text::normalise::Normaliser;
use crate::violation::Violation;

/// Largest [`MatchScope::days`]: a century.
const MAX_MATCH_DAYS: u32 = 36_500;
/// Largest number of values in [`MatchScope::closed`].
const MAX_CLOSED_VALUES: usize = 100;

const MICROSECONDS_PER_DAY: u64 = 86_400_000_000;

/// The conditions that a pair of records must meet to match. A pair that a person confirmed matches without them. A
/// record without a value meets every condition on this value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MatchScope {
    /// Largest difference between the times of the two records (fields of role `time`), in days of 24 hours; `null`
    /// for no limit.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 36_500))]
    pub days: Option<u32>,
    /// The roles whose values must be equal in both records. The values of the roles `category` and `unit` are
    /// normalised before the comparison.
    pub same: Vec<ScopeRole>,
    /// Values of role `status` that mean that a matter is closed, such as 已办结. A new record does not match an earlier
    /// record with one of these values. The status at the time of the registration or of the check counts. A reindex
    /// and `doppel dedup` do not apply this condition, because they know only the present status of a record.
    pub closed: Vec<String>,
}

/// A role for which `match.same` can require equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScopeRole {
    /// The category of the matter.
    Category,
    /// The unit that handles the matter.
    Unit,
}

/// The condition of `match` that a pair does not meet. `days`: the difference between the times is larger than
/// `match.days`. `category`, `unit`: the values differ. `closed`: the earlier record is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScopeExclusion {
    /// More time than `match.days` lies between the records.
    Days,
    /// The categories differ.
    Category,
    /// The units differ.
    Unit,
    /// The earlier record is closed.
    Closed,
}

/// The values of a record that a [`MatchScope`] compares, normalised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeValues {
    category: Option<String>,
    unit: Option<String>,
    status: Option<String>,
}

impl ScopeValues {
    /// Reads the values of a row.
    pub(crate) fn of(role_of_field: impl Fn(&str) -> Option<Role>, normaliser: Normaliser, row: &Row) -> Self {
        let Handling { category, status, unit, reply: _ } = Handling::of(role_of_field, row).unwrap_or_default();
        let [category, unit, status] =
            [category, unit, status].map(|value| value.map(|value| normaliser.normalise(&value)));
        Self { category, unit, status }
    }
}

/// A record as a [`MatchScope`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct ScopedRecord<'a> {
    /// The time of the record.
    pub time: Option<jiff::Timestamp>,
    /// The values that the office wrote.
    pub values: &'a ScopeValues,
}

impl MatchScope {
    /// True if the conditions read values that the office added to the record.
    pub(crate) fn reads_handling(&self) -> bool {
        !self.same.is_empty() || !self.closed.is_empty()
    }

    /// Returns the first condition that the pair does not meet; `None` if the records may match. `closed` must be normalised
    /// ([`MatchScope::normalised`]). O(number of closed values).
    pub fn exclusion(&self, record: ScopedRecord<'_>, earlier: ScopedRecord<'_>) -> Option<ScopeExclusion> {
        let apart = record.time.zip(earlier.time).map(|(a, b)| a.as_microsecond().abs_diff(b.as_microsecond()));
        let most = self.days.map(|days| u64::from(days) * MICROSECONDS_PER_DAY);
        if apart.zip(most).is_some_and(|(apart, most)| apart > most) {
            return Some(ScopeExclusion::Days);
        }
        for role in &self.same {
            let (ours, theirs, exclusion) = match role {
                ScopeRole::Category => (&record.values.category, &earlier.values.category, ScopeExclusion::Category),
                ScopeRole::Unit => (&record.values.unit, &earlier.values.unit, ScopeExclusion::Unit),
            };
            if ours.is_some() && theirs.is_some() && ours != theirs {
                return Some(exclusion);
            }
        }
        let closed = earlier.values.status.as_ref().is_some_and(|status| self.closed.contains(status));
        closed.then_some(ScopeExclusion::Closed)
    }

    /// Returns the same conditions, with normalised values.
    #[must_use]
    pub fn normalised(&self, normaliser: Normaliser) -> Self {
        let closed = self.closed.iter().map(|value| normaliser.normalise(value)).collect();
        Self { closed, ..self.clone() }
    }
}

/// Adds the violations of the conditions of `settings`.
pub(super) fn validate(settings: &Settings, found: &mut Vec<Violation>) {
    let MatchScope { days, same, closed } = &settings.scope;
    if let Some(days) = days {
        super::validate::within("/match/days", *days, 1, MAX_MATCH_DAYS, found);
    }
    for (index, role) in same.iter().enumerate() {
        if same[..index].contains(role) {
            found.push(Violation::new(
                format!("/match/same/{index}"),
                ErrorCode::DuplicateName,
                "the role is named twice",
            ));
        }
    }
    if closed.len() > MAX_CLOSED_VALUES {
        let detail = format!("at most {MAX_CLOSED_VALUES} values");
        found.push(Violation::new("/match/closed", ErrorCode::TooManyWords, detail));
    }
    for (index, value) in closed.iter().enumerate() {
        if value.trim().is_empty() || value.chars().count() > MAX_LEXICON_CHARS || value.contains('\0') {
            let detail = format!("a value has 1 to {MAX_LEXICON_CHARS} characters");
            found.push(Violation::new(format!("/match/closed/{index}"), ErrorCode::InvalidWord, detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::Settings;

    fn values(json: &str) -> ScopeValues {
        let settings = Settings::default();
        let row = Row::parse(json.as_bytes()).unwrap();
        ScopeValues::of(|name| settings.field(name).map(|field| field.role), Normaliser::new(true), &row)
    }

    fn exclusion(scope: &MatchScope, record: (&str, &str), earlier: (&str, &str)) -> Option<ScopeExclusion> {
        let scope = scope.normalised(Normaliser::new(true));
        let values = [values(record.1), values(earlier.1)];
        let record = ScopedRecord { time: record.0.parse().ok(), values: &values[0] };
        scope.exclusion(record, ScopedRecord { time: earlier.0.parse().ok(), values: &values[1] })
    }

    #[test]
    fn a_pair_is_excluded_by_the_first_condition_that_it_does_not_meet() {
        let scope = MatchScope {
            days: Some(30),
            same: vec![ScopeRole::Category, ScopeRole::Unit],
            closed: vec!["已辦結".into()],
        };
        let march = "2026-03-01T00:00:00Z";
        let open = r#"{"诉求类别":"市政","承办单位":"城管局","办理状态":"办理中"}"#;
        assert_eq!(exclusion(&scope, ("2026-03-31T00:00:00Z", open), (march, open)), None);
        assert_eq!(exclusion(&scope, ("2026-03-31T00:00:01Z", open), (march, open)), Some(ScopeExclusion::Days));
        assert_eq!(
            exclusion(&scope, (march, open), ("2026-03-31T00:00:01Z", open)),
            Some(ScopeExclusion::Days),
            "in both directions"
        );
        let other_category = r#"{"诉求类别":"交通","承办单位":"城管局"}"#;
        assert_eq!(exclusion(&scope, (march, open), (march, other_category)), Some(ScopeExclusion::Category));
        let other_unit = r#"{"诉求类别":" 市政 ","承办单位":"住建局"}"#;
        assert_eq!(exclusion(&scope, (march, open), (march, other_unit)), Some(ScopeExclusion::Unit));
        let closed = r#"{"办理状态":"已办结"}"#;
        assert_eq!(exclusion(&scope, (march, open), (march, closed)), Some(ScopeExclusion::Closed));
        assert_eq!(exclusion(&scope, (march, closed), (march, open)), None, "the new record may be closed");
        assert_eq!(exclusion(&scope, ("", "{}"), (march, open)), None, "a missing value excludes nothing");
        assert_eq!(exclusion(&MatchScope::default(), ("1990-01-01T00:00:00Z", open), (march, closed)), None);
    }
}
