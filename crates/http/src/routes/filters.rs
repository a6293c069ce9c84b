//! Query parameters that select records by the values that an office added to them.

use utoipa::IntoParams;

use crate::query::{QueryParameters, QueryReader};
use doppel_core::verdict::VerdictKind;
use doppel_engine::record_filter::RecordFilter;

/// Conditions on the values that an office wrote beside a record, and on its verdict.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FilterParams {
    /// Only records with this value in a field of role `whole` or `category`.
    #[param(value_type = Option<String>)]
    pub category: Option<String>,
    /// Only records with this value of role `status`.
    #[param(value_type = Option<String>)]
    pub status: Option<String>,
    /// Only records with this value of role `unit`.
    #[param(value_type = Option<String>)]
    pub unit: Option<String>,
    /// Only records with this verdict.
    #[param(value_type = Option<VerdictKind>)]
    pub verdict: Option<VerdictKind>,
}

impl QueryParameters for FilterParams {
    fn read(query: &mut QueryReader) -> Self {
        Self {
            category: value(query, "category"),
            status: value(query, "status"),
            unit: value(query, "unit"),
            verdict: verdict(query),
        }
    }
}

/// Reads a parameter. An empty value means the same as a missing parameter.
fn value(query: &mut QueryReader, name: &'static str) -> Option<String> {
    query.take(name).filter(|value| !value.trim().is_empty())
}

/// The verdicts and their names in a query.
pub const VERDICTS: [(VerdictKind, &str); 4] = [
    (VerdictKind::Original, "original"),
    (VerdictKind::ExactDuplicate, "exact_duplicate"),
    (VerdictKind::NearDuplicate, "near_duplicate"),
    (VerdictKind::TooShort, "too_short"),
];

/// Reads the parameter `verdict`.
pub fn verdict(query: &mut QueryReader) -> Option<VerdictKind> {
    query.choice("verdict", &VERDICTS)
}

impl From<FilterParams> for RecordFilter {
    fn from(params: FilterParams) -> Self {
        let FilterParams { category, status, unit, verdict } = params;
        Self { category, status, unit, verdict }
    }
}
