//! Makes a page of the change feed from the stored records and the logged changes that a store has read.

use std::collections::HashMap;

use crate::changes::{Change, ChangeKind, ChangePage, LoggedChange, LoggedKind};
use crate::{Result, Seq, StoreError, StoredRecord};
use doppel_core::collection::CollectionName;

/// Refuses a reader that would miss changes, because the log has forgotten changes above `after` (up to the number `forgotten`) or `after` is
/// above the `last` number.
///
/// # Errors
/// `ChangesForgotten`.
pub fn check_after(name: &CollectionName, after: Seq, forgotten: Seq, last: Seq) -> Result<()> {
    if after < forgotten || after > last {
        return Err(StoreError::ChangesForgotten { collection: name.clone(), after, last });
    }
    Ok(())
}

/// Returns the number from which to continue after the first `limit` logged changes. `last` is the last number.
pub fn after_logged(logged: &[LoggedChange], limit: usize, last: Seq) -> Seq {
    logged.last().filter(|_| logged.len() >= limit).map_or(last, |change| change.number)
}

/// Returns the seqs of the updated records, which [`page`] needs in addition.
pub fn updated(logged: &[LoggedChange]) -> Vec<Seq> {
    let seqs = logged.iter().filter_map(|change| match change.kind {
        LoggedKind::Updated { seq } => Some(seq),
        _ => None,
    });
    seqs.collect()
}

/// Makes the page after `after`. The input is the first `limit` records with a higher seq, the first `limit` logged changes with a higher
/// number, and the records that these changes updated. The store must have read all of them at the same instant, when `last` was the last
/// number. `limit` is at least 1.
pub fn page(
    after: Seq,
    last: Seq,
    limit: usize,
    records: Vec<StoredRecord>,
    logged: Vec<LoggedChange>,
    updated: Vec<StoredRecord>,
) -> ChangePage {
    // If a list has `limit` items, the changes after its last item are not known.
    let mut of_records = last;
    if records.len() >= limit {
        of_records = records.last().map_or(last, |record| record.seq);
    }
    let mut of_logged = last;
    if logged.len() >= limit {
        of_logged = logged.last().map_or(last, |change| change.number);
    }
    let mut next = of_records.min(of_logged).max(after);
    let updated: HashMap<Seq, StoredRecord> = updated.into_iter().map(|record| (record.seq, record)).collect();
    let mut stored: HashMap<Seq, ChangeKind> =
        records.into_iter().map(|record| (record.seq, ChangeKind::Created(record))).collect();
    let mut changes = Vec::with_capacity(stored.len() + logged.len());
    for LoggedChange { number, id, kind } in logged {
        let kind = match kind {
            // A record that was replaced again, or updated and then removed, is not listed here.
            LoggedKind::Replaced => match stored.remove(&number) {
                Some(ChangeKind::Created(record)) => ChangeKind::Replaced(record),
                _ => continue,
            },
            LoggedKind::Updated { seq } => match updated.get(&seq) {
                Some(record) => ChangeKind::Updated(record.clone()),
                None => continue,
            },
            LoggedKind::Removed => ChangeKind::Removed,
            LoggedKind::Decided { other, judgement } => ChangeKind::Decided { other, judgement },
        };
        changes.push(Change { number, id, kind });
    }
    changes.extend(stored.into_iter().filter_map(|(number, kind)| match &kind {
        ChangeKind::Created(record) => Some(Change { number, id: record.id.clone(), kind }),
        _ => None,
    }));
    changes.retain(|change| change.number <= next);
    changes.sort_unstable_by_key(|change| change.number);
    if changes.len() > limit {
        changes.truncate(limit);
        next = changes.last().map_or(next, |change| change.number);
    }
    ChangePage { changes, next, more: next < last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::RecordContent;
    use crate::{GenerationId, decisions::Judgement};
    use doppel_core::record::RecordId;
    use doppel_core::schemes::profile::Digest;
    use doppel_core::verdict::Verdict;

    fn id(name: &str) -> RecordId {
        RecordId::new(name).unwrap()
    }

    fn record(name: &str, seq: u64) -> StoredRecord {
        StoredRecord {
            id: id(name),
            seq: Seq(seq),
            content: RecordContent::Row("{}".into()),
            digest: Digest([0; 32]),
            digest_generation: GenerationId(1),
            verdict: Verdict::blank(),
            duplicate_of_seq: None,
            stored_at: String::new(),
        }
    }

    fn logged(name: &str, number: u64, kind: LoggedKind) -> LoggedChange {
        LoggedChange { number: Seq(number), id: id(name), kind }
    }

    /// Describes each change in one line.
    fn lines(page: &ChangePage) -> Vec<String> {
        let lines = page.changes.iter().map(|change| {
            let kind = match &change.kind {
                ChangeKind::Created(record) => format!("created at {}", record.seq),
                ChangeKind::Replaced(record) => format!("replaced at {}", record.seq),
                ChangeKind::Updated(record) => format!("updated at {}", record.seq),
                ChangeKind::Removed => "removed".into(),
                ChangeKind::Decided { other, .. } => format!("decided beside {}", other.as_str()),
            };
            format!("{} {} {kind}", change.number, change.id.as_str())
        });
        lines.collect()
    }

    fn history() -> (Vec<StoredRecord>, Vec<LoggedChange>) {
        let decided = LoggedKind::Decided { other: id("c"), judgement: Judgement::Same };
        let records = vec![record("a", 1), record("c", 4), record("b", 6)];
        let logged = vec![
            logged("c", 3, LoggedKind::Removed),
            logged("a", 5, LoggedKind::Updated { seq: Seq(1) }),
            logged("b", 6, LoggedKind::Replaced),
            logged("a", 8, decided),
        ];
        (records, logged)
    }

    #[test]
    fn records_and_logged_changes_form_one_ordered_list() {
        let (records, log) = history();
        assert_eq!(updated(&log), [Seq(1)]);
        let page = page(Seq(0), Seq(9), 10, records, log, vec![record("a", 1)]);
        let expected = [
            "1 a created at 1",
            "3 c removed",
            "4 c created at 4",
            "5 a updated at 1",
            "6 b replaced at 6",
            "8 a decided beside c",
        ];
        assert_eq!(lines(&page), expected);
        assert_eq!((page.next, page.more), (Seq(9), false), "unused numbers are skipped");
    }

    #[test]
    fn pages_of_any_size_give_the_same_list() {
        let (records, log) = history();
        let whole = lines(&page(Seq(0), Seq(9), 10, records.clone(), log.clone(), vec![record("a", 1)]));
        for limit in 1..=7 {
            let mut found = Vec::new();
            let mut after = Seq(0);
            let mut pages = 0;
            loop {
                let records = records.iter().filter(|record| record.seq > after).take(limit).cloned().collect();
                let log = log.iter().filter(|change| change.number > after).take(limit).cloned().collect();
                let page = page(after, Seq(9), limit, records, log, vec![record("a", 1)]);
                assert!(page.changes.len() <= limit && (page.next > after || !page.more));
                found.extend(lines(&page));
                (after, pages) = (page.next, pages + 1);
                if !page.more {
                    break;
                }
            }
            assert_eq!((&found, after), (&whole, Seq(9)), "{limit}");
            assert!(pages <= 9);
        }
    }

    #[test]
    fn changes_of_removed_records_are_left_out() {
        let log = vec![logged("a", 2, LoggedKind::Replaced), logged("b", 3, LoggedKind::Updated { seq: Seq(1) })];
        let page = page(Seq(0), Seq(5), 2, Vec::new(), log, Vec::new());
        assert!(page.changes.is_empty());
        assert_eq!((page.next, page.more), (Seq(3), true), "the reader continues");
    }

    #[test]
    fn a_reader_that_would_miss_changes_is_refused() {
        let name: CollectionName = CollectionName::new("letters").unwrap();
        for (after, forgotten, last, whole) in
            [(0, 0, 0, true), (0, 0, 9, true), (9, 9, 9, true), (8, 9, 12, false), (10, 0, 9, false)]
        {
            let checked = check_after(&name, Seq(after), Seq(forgotten), Seq(last));
            assert_eq!(checked.is_ok(), whole, "{after} {forgotten} {last}");
        }
    }
}
