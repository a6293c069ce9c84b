//! Named places where a test can make the store stop, fail or wait; without the feature `failpoints` they do nothing.
//!
//! `store::before_append`, `store::between_append_and_sync`, `store::before_publish` and `store::sweep` pause or stop;
//! `store::commit_error`, `store::sync_finds_no_room`, `store::disk_full`, `store::reopen_error` fail when set to `return`; `store::disk_low` leaves room for
//! removals only, `store::disk_short` for all but building generations; `store::worker_crash` lets the storage engine's own
//! threads seem to have failed, `store::reopening` pauses or stops; `store::short_patience` shortens the bound of the write
//! watchdog. `generation::announced`, `generation::filed`, `generation::completed`, `generation::before_load`,
//! `generation::before_swap`, `generation::after_swap`, `generation::dropped`, `salvage::copying`, `restore::filling` (between two keyspaces)
//! and `restore::moving` (before each file) pause or stop, each where its name says.
//! In production append and sync are one call into fjall (`disk`); `store::split_append_and_sync` set to `return` makes them two,
//! so that the point in between exists.

/// Pauses, stops or does nothing: the failpoint `name`.
pub(super) fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Whether the failpoint `name` is set to `return`.
pub(super) fn fails(name: &'static str) -> bool {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name, |_| true);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
    false
}
