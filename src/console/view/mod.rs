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

/// The class by which a verdict is coloured. What it says is always written, too.
pub fn verdict_class(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Original => "first",
        VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate => "repeat",
        VerdictKind::TooShort => "short",
    }
}
