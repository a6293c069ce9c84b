//! Members of rows that no setting uses: a column under another name than the settings know is never compared, and nobody
//! would notice. Said with the first record of a collection, when mending it is cheap.

use doppel_core::collection::Settings;
use doppel_core::record::Row;
use doppel_core::violation::{Violation, child};

/// Most members named in one answer.
const MOST: usize = 20;
const CODE: &str = "unused_member";
const DETAIL: &str = "no field of the collection's settings names this: it is stored, and never compared; to have it used, name it \
                      in fields (before there are records, PUT the collection; later, POST /v1/admin/reindex)";

/// A warning for each member of `row` but `id` that has no role under `settings`. Names only.
pub(super) fn unused_members(settings: &Settings, row: &Row) -> Vec<Violation> {
    let is_unused = |name: &&str| settings.role_of(name).is_none();
    let mut unused = row.names().filter(is_unused);
    let mut found: Vec<_> =
        unused.by_ref().take(MOST).map(|name| Violation::new(child("", name), CODE, DETAIL)).collect();
    let more = unused.count();
    if more > 0 {
        found.push(Violation::new("", CODE, format!("and {more} more members that no field of the settings names")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_no_field_names_are_told_by_name_and_not_by_value() {
        let row = |json: &str| Row::parse(json.as_bytes()).unwrap();
        let found =
            unused_members(&Settings::default(), &row(r#"{"id":"1","content":"x","来电人":"secret","a/b":null}"#));
        let pointers: Vec<_> = found.iter().map(|one| (one.pointer.as_str(), one.code)).collect();
        assert_eq!(pointers, [("/来电人", CODE), ("/a~1b", CODE)]);
        assert!(found.iter().all(|one| !one.detail.contains("secret")));
        let many: Vec<_> = (0..30).map(|n| format!("\"n{n}\":1")).collect();
        let found = unused_members(&Settings::default(), &row(&format!("{{{}}}", many.join(","))));
        assert_eq!((found.len(), found[MOST].detail.starts_with("and 10 more")), (MOST + 1, true));
    }
}
