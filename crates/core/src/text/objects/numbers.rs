//! Numbers that identify something without a label: numbers of orders and devices, and amounts of money. Dates, times
//! and measures are skipped, because people write them to describe and not to identify. Numbers with a shape (plates,
//! lines, buildings) are [facts](crate::facts).

use super::{NamedObject, lists};
use crate::verdict::ObjectKind;

/// Maximum number of digits of a bus line.
const MAX_LINE: usize = 3;
/// Minimum number of characters of a number that identifies something without a label.
const MIN_NUMBER: usize = 4;

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// Adds the numbers of a normalised text, in order.
pub(super) fn numbers(text: &str, add: &mut impl FnMut(NamedObject)) {
    let mut before = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if is_part(c) {
            let run = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
            rest = &rest[run.len()..];
            add_run(run, before, rest, add);
            before = run.chars().last();
        } else {
            before = Some(c);
            rest = &rest[c.len_utf8()..];
        }
    }
}

fn whole(kind: ObjectKind, name: String) -> NamedObject {
    let core = name.len();
    NamedObject { kind, name, core }
}

fn add_run(run: &str, before: Option<char>, after: &str, add: &mut impl FnMut(NamedObject)) {
    let digits = run.bytes().all(|b| b.is_ascii_digit());
    if !run.bytes().any(|b| b.is_ascii_digit()) {
        return;
    }
    let mut behind = after.trim_start().chars();
    let next = behind.next();
    if after.starts_with(['元', '块']) || after.starts_with("万元") {
        return add(whole(ObjectKind::Amount, format!("{run}{}", if after.starts_with('万') { "万元" } else { "元" })));
    }
    let measured = next.is_some_and(lists::is_unit);
    // The number is a bus line without a word that says so, or a road with a number in digits.
    if digits && run.len() <= MAX_LINE && next == Some('路') && !after.trim_start().starts_with("路段") {
        return add(whole(ObjectKind::Line, format!("{run}路")));
    }
    let year = digits && run.len() == 4 && (run.starts_with("19") || run.starts_with("20"));
    // A date, a time, a fraction or a chain of numbers.
    let mut around = before.into_iter().chain(after.chars().next());
    let is_joined = around.any(|c| matches!(c, '.' | ':' | '/' | '-' | '*' | '%' | '~'));
    let short_chain = run.len() < MIN_NUMBER + 2 && is_joined;
    let measure = measured && run.len() < MIN_NUMBER + 3 || lists::is_latin_measure(run);
    let names_nothing = run.len() < MIN_NUMBER || year || short_chain || measure;
    if !names_nothing {
        add(whole(ObjectKind::Number, run.to_owned()));
    }
}
