//! Warnings about accepted records: their number by code, and the places of the first ones.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::import::target::ValueWarning;
use doppel_core::violation::Violation;

/// Largest number of places per code.
const PLACES: usize = 5;

/// Counts records with warnings. The struct contains no text of records and needs constant memory, because there are few codes.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct WarningCounts(BTreeMap<String, WarningKind>);

/// The records with warnings of one code.
#[derive(Debug, Default, Serialize)]
struct WarningKind {
    records: u64,
    /// The first records as `FILE:LINE`.
    first: Vec<String>,
}

/// A warning from any source.
#[derive(Clone, Debug)]
pub(super) struct RecordWarning<'a> {
    pub(super) code: &'a str,
    pub(super) pointer: &'a str,
    pub(super) detail: Cow<'a, str>,
}

impl<'a> From<&'a Violation> for RecordWarning<'a> {
    fn from(Violation { pointer, code, detail }: &'a Violation) -> Self {
        Self { code: code.as_str(), pointer, detail: detail.into() }
    }
}

impl<'a> From<&'a ValueWarning> for RecordWarning<'a> {
    fn from(ValueWarning { pointer, code, detail }: &'a ValueWarning) -> Self {
        Self { code, pointer, detail: detail.into() }
    }
}

impl WarningCounts {
    /// Records the warnings about the record at a line of the file `name`. Prints the first warning of each code.
    pub(super) fn note<'a>(
        &mut self,
        at: (&str, u64),
        warnings: impl IntoIterator<Item = RecordWarning<'a>>,
        say: impl Fn(&str),
    ) {
        let (name, line) = at;
        let mut codes: Vec<&str> = Vec::new();
        for RecordWarning { code, pointer, detail } in warnings {
            // A record counts once, even if the warning applies to several fields.
            if codes.contains(&code) {
                continue;
            }
            codes.push(code);
            let kind = self.0.entry(code.to_owned()).or_default();
            kind.records += 1;
            if kind.records == 1 {
                say(&format!("{name}:{line}: warning: {code} at {pointer}: {detail}"));
            }
            if kind.first.len() < PLACES {
                kind.first.push(format!("{name}:{line}"));
            }
        }
    }

    /// True if there were no warnings.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lines of the summary: one for each code, without a line end.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(code, WarningKind { records, first })| {
            let more = if *records > first.len() as u64 { " …" } else { "" };
            format!("{records} {code} ({}{more})", first.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_by_code_with_the_first_places_and_one_explanation() {
        let said = std::cell::RefCell::new(Vec::new());
        let mut warned = WarningCounts::default();
        assert!(warned.is_empty());
        for line in 1..=7 {
            let both = ["/time", "/at"].map(|pointer| RecordWarning {
                code: "unreadable_time",
                pointer,
                detail: "why".into(),
            });
            warned.note(("a.csv", line), both, |text| said.borrow_mut().push(text.to_owned()));
        }
        warned.note(("b.csv", 9), [], |_| panic!("there is nothing to say"));
        assert_eq!(*said.borrow(), ["a.csv:1: warning: unreadable_time at /time: why"]);
        let expected = "7 unreadable_time (a.csv:1, a.csv:2, a.csv:3, a.csv:4, a.csv:5 …)";
        assert_eq!(warned.lines().collect::<Vec<_>>(), [expected]);
        let json = serde_json::to_value(&warned).unwrap();
        assert_eq!(
            (&json["unreadable_time"]["records"], &json["unreadable_time"]["first"][4]),
            (&7.into(), &"a.csv:5".into())
        );
    }
}
