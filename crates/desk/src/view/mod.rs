//! View models: types with all the data that a template needs, so that templates compute nothing.

pub mod chart;
pub mod counts;
pub mod csv;
pub mod event;
pub mod evidence;
pub mod graph;
pub mod marked;
pub mod numbers;
pub mod pair;
pub mod period;
pub mod row;
pub mod session;
pub mod time;

use doppel_core::verdict::VerdictKind;
use doppel_store::decisions::Judgement;

use crate::words::RecordWords;

/// The label of a record in lists: the decision about the record and the record that it repeats, and the verdict at its registration, which
/// no decision changes.
#[derive(Clone, Debug)]
pub struct VerdictBadge {
    /// The CSS class for the colour.
    pub class: &'static str,
    /// The text: the decision or the verdict.
    pub says: &'static str,
    /// The verdict at the registration, if it differs from the shown text.
    pub registered_as: Option<&'static str>,
}

impl VerdictBadge {
    /// Creates the label of a record with this verdict. `decided` is the decision about the record that holds.
    pub fn new(words: &RecordWords, kind: VerdictKind, decided: Option<Judgement>) -> Self {
        let verdict = words.finding.verdict(kind);
        let registered_as = Some(verdict);
        match decided {
            Some(Judgement::Same) => Self { class: "repeat", says: words.decided_same, registered_as },
            Some(Judgement::SameEvent) => Self { class: "short", says: words.decided_same_event, registered_as },
            Some(Judgement::NotSame) => Self { class: "short", says: words.decided_not_same, registered_as },
            Some(Judgement::Withdrawn) | None => {
                Self { class: verdict_class(kind), says: verdict, registered_as: None }
            }
        }
    }
}

impl VerdictBadge {
    /// Creates the label of a member of a group. `kind` is the role of the member in the group. A decision takes precedence over the role.
    /// The label also contains the verdict at the registration if it differs from the role.
    pub fn in_group(
        words: &RecordWords,
        kind: VerdictKind,
        registered: VerdictKind,
        decided: Option<Judgement>,
    ) -> Self {
        if decided.is_some_and(|decided| decided != Judgement::Withdrawn) {
            return Self::new(words, registered, decided);
        }
        let registered_as = (kind != registered).then(|| words.finding.verdict(registered));
        Self { class: verdict_class(kind), says: words.finding.verdict(kind), registered_as }
    }
}

/// Returns the CSS class of a verdict. Pages always show the verdict in text, too.
pub fn verdict_class(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Original => "first",
        VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate => "repeat",
        VerdictKind::TooShort => "short",
    }
}
