//! Decisions about records that do not exist. Earlier versions left them if a record was deleted while a person decided about it. They are
//! harmful: a later record with the same id would inherit the decision.

use doppel_core::collection::CollectionName;
use doppel_store::decisions::{RecordPair, orphaned_decisions};
use doppel_store::{ExaminationReport, Store};

/// Decisions about missing records, with their collections.
pub(super) type OrphanedDecisions = Vec<(CollectionName, RecordPair)>;

/// Finds the decisions of all collections about records that do not exist, and adds each to the faults.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn find(store: &dyn Store, report: &mut ExaminationReport) -> anyhow::Result<OrphanedDecisions> {
    let mut orphans = OrphanedDecisions::new();
    for state in store.collections().await? {
        for (pair, missing) in orphaned_decisions(store, &state.name).await? {
            let other = pair.other(&missing).map_or_else(String::new, ToString::to_string);
            let fault = format!(
                "a decision names this id and {other}, but no record has this id; delete the decision with doppel doctor --repair"
            );
            report.faults.push((state.name.to_string(), missing.to_string(), fault));
            orphans.push((state.name.clone(), pair));
        }
    }
    Ok(orphans)
}

/// Deletes these decisions, unless their records exist by now. Returns the number of deleted decisions.
///
/// # Errors
/// The store refuses the change.
pub(super) async fn drop_all(store: &dyn Store, orphans: &OrphanedDecisions) -> anyhow::Result<u64> {
    let mut dropped = 0;
    for (collection, pair) in orphans {
        dropped += u64::from(store.drop_orphaned_decision(collection, pair).await?);
    }
    Ok(dropped)
}
