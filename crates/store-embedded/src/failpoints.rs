//! Failpoints: named places at which a test can stop, pause or fail the store. Without the feature `failpoints`, they have no
//! effect.
//!
//! `store::before_append`, `store::between_append_and_sync`, `store::before_publish` and `store::sweep` pause or stop.
//! `store::commit_error`, `store::sync_finds_no_room`, `store::disk_full`, `store::reopen_error` fail when set to `return`.
//! `store::disk_low` leaves space for removals only, `store::disk_short` for all changes except building generations.
//! `store::worker_crash` simulates a failure of the threads of the storage engine, `store::reopening` pauses or stops.
//! `store::short_patience` shortens the time limit of the write watchdog. `generation::announced`, `generation::filed`,
//! `generation::completed`, `generation::before_load`, `generation::before_swap`, `generation::after_swap`, `generation::dropped`,
//! `salvage::copying`, `restore::filling` (between two keyspaces) and `restore::moving` (before each file) pause or stop at the
//! place in their name.
//! In production, append and sync are one call of fjall (`disk`); `store::split_append_and_sync` set to `return` makes two calls,
//! so that the place between them exists.

/// Reaches the failpoint `name`, which may pause or stop.
pub(super) fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// True if the failpoint `name` is set to `return`.
pub(super) fn fails(name: &'static str) -> bool {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name, |_| true);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
    false
}
