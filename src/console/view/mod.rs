//! What pages show, in types: everything a template needs, nothing that it must work out.

pub mod chart;
pub mod csv;
pub mod graph;
pub mod marked;
pub mod numbers;
pub mod pair;
pub mod row;
pub mod time;

use doppel_core::verdict::VerdictKind;
use doppel_store::decisions::Judgement;

use crate::console::words::RecordWords;

/// What is said of a record wherever it is listed: what a person decided about it and the one that it repeats, and the verdict that it was
/// given when it came in, which no decision changes.
#[derive(Clone, Debug)]
pub struct Badge {
    /// The class by which what counts is coloured.
    pub class: &'static str,
    /// What counts.
    pub says: &'static str,
    /// The verdict when the record was registered, where something else counts.
    pub registered_as: Option<&'static str>,
}

impl Badge {
    /// Of a record with this verdict, about which this was decided and not taken back.
    pub fn new(words: &RecordWords, kind: VerdictKind, decided: Option<Judgement>) -> Self {
        let verdict = (words.verdict)(kind);
        let registered_as = Some(verdict);
        match decided {
            Some(Judgement::Same) => Self { class: "repeat", says: words.decided_same, registered_as },
            Some(Judgement::NotSame) => Self { class: "short", says: words.decided_not_same, registered_as },
            Some(Judgement::Withdrawn) | None => {
                Self { class: verdict_class(kind), says: verdict, registered_as: None }
            }
        }
    }
}

impl Badge {
    /// Of a member of a group whose place in the group is `kind`. A decision counts for more than the place. The verdict that the member was
    /// given when it was registered is shown beside the place if it was another one.
    pub fn in_group(
        words: &RecordWords,
        kind: VerdictKind,
        registered: VerdictKind,
        decided: Option<Judgement>,
    ) -> Self {
        if decided.is_some_and(|decided| decided != Judgement::Withdrawn) {
            return Self::new(words, registered, decided);
        }
        let registered_as = (kind != registered).then(|| (words.verdict)(registered));
        Self { class: verdict_class(kind), says: (words.verdict)(kind), registered_as }
    }
}

/// The class by which a verdict is coloured. What it says is always written, too.
pub fn verdict_class(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Original => "first",
        VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate => "repeat",
        VerdictKind::TooShort => "short",
    }
}
