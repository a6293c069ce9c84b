//! Lists of places: items without an ending between names.

use std::ops::Range;

use super::canonical::canonical;
use super::chars::is_ideograph;
use super::{FactKind, FactSource, Found};

/// Minimum number of items in a list of places.
const MIN_ITEMS: usize = 4;
/// Maximum length of an item in a list of places, in characters.
const MAX_ITEM: usize = 10;

/// Adds the items without an ending in lists of places. For example, only some stops of a bus line have an ending, but
/// the other stops are also places.
pub(super) fn read(found: &mut Found<'_>) {
    let text = found.text;
    let mut spans: Vec<Range<usize>> = found
        .facts
        .iter()
        .filter(|fact| is_named(fact.kind))
        .map(|fact| fact.span.start as usize..fact.span.end as usize)
        .collect();
    spans.sort_by_key(|span| span.start);
    let mut items: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for at in 0..=text.len() {
        let c = text.at(at);
        if at < text.len() && (is_ideograph(c) || c.is_ascii_alphanumeric()) {
            continue;
        }
        let item = start..at;
        let fits =
            (2..=MAX_ITEM).contains(&item.len()) && text.as_slice()[item.clone()].iter().any(|&c| is_ideograph(c));
        let joined = matches!(c, '、' | '~' | '-' | '—' | '→' | '/' | '➝' | '>');
        if item.is_empty() && joined {
            start = at + 1;
            continue;
        }
        if fits {
            items.push(item);
        }
        if !joined || !fits {
            add_items(found, &items, &spans);
            items.clear();
        }
        start = at + 1;
    }
}

fn is_named(kind: FactKind) -> bool {
    use FactKind::{District, Estate, Organisation, PublicPlace, Road, School, Town, Village};
    matches!(kind, District | Town | Village | Road | Estate | PublicPlace | School | Organisation)
}

/// True if one of the sorted spans overlaps `item`.
fn contains_name(spans: &[Range<usize>], item: &Range<usize>) -> bool {
    let first = spans.partition_point(|span| span.end <= item.start);
    spans.get(first).is_some_and(|span| span.start < item.end)
}

/// Adds the items of one list if at least two in five contain a name.
fn add_items(found: &mut Found<'_>, items: &[Range<usize>], names: &[Range<usize>]) {
    let named = items.iter().filter(|item| contains_name(names, item)).count();
    if items.len() < MIN_ITEMS || named * 5 < items.len() * 2 {
        return;
    }
    // The first and the last item may contain words of the sentence around the list.
    for item in &items[1..items.len() - 1] {
        let chars = &found.text.as_slice()[item.clone()];
        if !contains_name(names, item) && chars.iter().all(|&c| is_ideograph(c)) {
            let name = canonical(FactKind::PublicPlace, chars);
            found.add_from(FactKind::PublicPlace, item.clone(), name, FactSource::List);
        }
    }
}
