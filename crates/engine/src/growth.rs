//! The growth of a collection up to the number of records at which it is renewed, that is, counted and indexed again (see `renewal`).
//!
//! A small collection is renewed before its next registration, so that each record is judged by the frequencies of its place in the commit order. A
//! registration reserves its place first. It may take the place if the collection has at most this number of records afterwards, even if all
//! registrations in progress succeed. Otherwise it waits until the others have ended, and for the renewal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::renewal::RenewalCause;
use doppel_core::schemes::frequencies::next_count;

/// Number of records up to which registrations wait for a renewal: it takes about a second. A larger collection takes registrations
/// meanwhile.
pub(super) const WAITED_FOR: u64 = 4_096;
/// Longest time that registrations wait for one renewal, counted from its beginning: other tasks may delay it.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The growth of a collection, as far as this process knows it.
#[derive(Debug)]
pub(super) struct CollectionGrowth {
    state: Mutex<GrowthState>,
    /// Notified when a registration or a renewal ends.
    ended: Notify,
    /// True if the collection was empty and no record has been registered.
    empty: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct GrowthState {
    /// The number of records. Records that were deleted, or registered by another instance, are noted at the next renewal.
    records: u64,
    /// The number of registrations that may take a place.
    under_way: u64,
    /// The number of records with which the collection is renewed; `None` if it is never renewed.
    due: Option<u64>,
    /// True while the collection is renewed.
    renewing: bool,
    /// The renewal that follows the present one.
    follower: Option<RenewalCause>,
    /// True while the present renewal has not begun because records arrive in bulk.
    postponed: bool,
    /// The time until which registrations wait for the present renewal.
    held_until: Option<Instant>,
    /// The number of renewals that have ended.
    renewals: u64,
}

impl GrowthState {
    /// True if a renewal runs, or will run as soon as the postponed renewal has ended.
    fn is_running(&self) -> bool {
        self.renewing && !(self.postponed && self.follower.is_none())
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= self.records) && !self.renewing
    }

    /// True if a registration must wait: the collection is renewed, or may become due before the registration takes its place.
    fn must_wait(&self) -> bool {
        let Some(due) = self.due.filter(|due| *due <= WAITED_FOR) else { return false };
        match self.renewing {
            true => self.held_until.is_some_and(|until| Instant::now() < until),
            false => self.records + self.under_way >= due,
        }
    }

    /// Begins a renewal if it is `wanted`, for which registrations wait at most `longest`. Returns `wanted`.
    fn renew_if(&mut self, wanted: bool, longest: Duration) -> bool {
        if wanted {
            self.renewing = true;
            self.held_until = Some(Instant::now() + longest);
        }
        wanted
    }
}

/// The answer to a registration that wants to take a place.
pub(super) enum GrowthStep {
    /// The registration may take a place; it returns the place when it is dropped.
    Place(ReservedPlace),
    /// The caller renews the collection first, because nobody does so yet.
    Renew,
}

/// The permission to take a place in commit order.
pub(super) struct ReservedPlace {
    growth: Arc<CollectionGrowth>,
    /// The number of renewals before it.
    pub(super) renewals: u64,
}

impl Drop for ReservedPlace {
    fn drop(&mut self) {
        self.growth.state.lock().under_way -= 1;
        self.growth.ended.notify_waiters();
    }
}

impl CollectionGrowth {
    /// Makes the growth of a collection of `records` records.
    pub(super) fn of(records: u64) -> Self {
        let state = GrowthState { records, ..GrowthState::default() };
        Self { state: Mutex::new(state), ended: Notify::new(), empty: AtomicBool::new(records == 0) }
    }

    /// Sets the number of records that were counted; `None` if nothing is counted.
    pub(super) fn set_counted(&self, counted: Option<u64>) {
        self.state.lock().due = counted.map(next_count);
    }

    /// Returns the number of renewals that have ended.
    pub(super) fn renewals(&self) -> u64 {
        self.state.lock().renewals
    }

    /// True if the record that was just registered is the first record of the collection, as far as this process knows. True only once.
    pub(super) fn is_first(&self) -> bool {
        self.empty.load(Ordering::Relaxed) && self.empty.swap(false, Ordering::Relaxed)
    }

    /// Waits until a registration may take a place, at most `longest`.
    pub(super) async fn place(self: &Arc<Self>, longest: Duration) -> GrowthStep {
        let end = Instant::now() + longest;
        loop {
            let ended = self.ended.notified();
            let until = {
                let mut state = self.state.lock();
                if end <= Instant::now() || !state.must_wait() {
                    state.under_way += 1;
                    return GrowthStep::Place(ReservedPlace { growth: Arc::clone(self), renewals: state.renewals });
                }
                let is_next = state.under_way == 0 && state.is_due();
                if state.renew_if(is_next, longest) {
                    return GrowthStep::Renew;
                }
                state.held_until.map_or(end, |held| held.min(end))
            };
            // After the time, the state is looked at again.
            let _ = tokio::time::timeout_at(until.into(), ended).await;
        }
    }

    /// Adds `records` new records. True if the caller should renew the collection, because it is due and nobody does so yet.
    pub(super) fn grow_by(&self, records: u64) -> bool {
        let mut state = self.state.lock();
        state.records += records;
        let is_due = state.is_due();
        state.renew_if(is_due, LONGEST_WAIT)
    }

    /// Begins a renewal that is not due. False if the collection is being renewed: this renewal follows then ([`Self::begin_follower`]).
    pub(super) fn begin_or_follow(&self, cause: RenewalCause) -> bool {
        let mut state = self.state.lock();
        let is_idle = !state.renewing;
        if !is_idle {
            state.follower = state.follower.max(Some(cause));
        }
        state.renew_if(is_idle, LONGEST_WAIT)
    }

    /// Begins the renewal that was requested during the last renewal, unless another renewal has begun. Returns its cause.
    pub(super) fn begin_follower(&self) -> Option<RenewalCause> {
        let mut state = self.state.lock();
        if state.renewing {
            return None;
        }
        let follower = state.follower.take();
        state.renew_if(follower.is_some(), LONGEST_WAIT);
        follower
    }

    /// Notes whether the present renewal waits for the end of a bulk of records. Returns true if another renewal is to follow it.
    pub(super) fn set_postponed(&self, postponed: bool) -> bool {
        let mut state = self.state.lock();
        state.postponed = postponed;
        let is_followed = state.follower.is_some();
        drop(state);
        self.ended.notify_waiters();
        is_followed
    }

    /// Lets registrations continue, because another task is in the way of the renewal.
    pub(super) fn give_way(&self) {
        self.state.lock().held_until = None;
        self.ended.notify_waiters();
    }

    /// Ends a renewal of a collection that has `records` records; `None` for a failed renewal. After a failure the next renewal follows when the
    /// collection has grown to the next number.
    pub(super) fn renewed(&self, records: Option<u64>) {
        let mut state = self.state.lock();
        state.renewing = false;
        state.postponed = false;
        state.held_until = None;
        state.renewals += 1;
        match records {
            Some(records) => state.records = records,
            None => {
                let next = next_count(state.records);
                state.due = state.due.map(|due| due.max(next));
            }
        }
        drop(state);
        self.ended.notify_waiters();
    }

    /// Waits until no renewal runs, at most `longest`. Returns false if a renewal still runs then. A postponed renewal does not run.
    pub(super) async fn settled(&self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        loop {
            let ended = self.ended.notified();
            if !self.state.lock().is_running() {
                return true;
            }
            if tokio::time::timeout_at(end.into(), ended).await.is_err() {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(records: u64, counted: u64) -> Arc<CollectionGrowth> {
        let growth = CollectionGrowth::of(records);
        growth.set_counted(Some(counted));
        Arc::new(growth)
    }

    async fn place(growth: &Arc<CollectionGrowth>) -> ReservedPlace {
        match growth.place(LONGEST_WAIT).await {
            GrowthStep::Place(place) => place,
            GrowthStep::Renew => panic!("nothing is due"),
        }
    }

    async fn waits(growth: &Arc<CollectionGrowth>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), growth.place(LONGEST_WAIT)).await.is_err()
    }

    #[test]
    fn the_first_record_of_an_empty_collection_is_known_once() {
        assert!(!CollectionGrowth::of(3).is_first());
        let empty = CollectionGrowth::of(0);
        assert!(empty.is_first() && !empty.is_first());
    }

    #[tokio::test]
    async fn a_registration_waits_for_those_that_may_reach_the_number_and_for_the_renewal() {
        let growth = growth(62, 0);
        let one = place(&growth).await;
        let two = place(&growth).await;
        assert!(waits(&growth).await, "the others may become records 63 and 64");
        drop(one);
        let three = place(&growth).await;
        assert!(!growth.grow_by(1));
        drop(two);
        assert!(growth.grow_by(1), "the record with the number begins the renewal");
        drop(three);
        assert!(waits(&growth).await && !growth.grow_by(0));
        growth.set_counted(Some(64));
        growth.renewed(Some(64));
        assert_eq!(place(&growth).await.renewals, 1);
    }

    #[tokio::test]
    async fn a_registration_renews_a_collection_that_was_due_at_a_start() {
        let growth = growth(300, 64);
        assert!(matches!(growth.place(LONGEST_WAIT).await, GrowthStep::Renew));
        assert!(waits(&growth).await);
        growth.renewed(None);
        assert_eq!(place(&growth).await.renewals, 1, "after a failure the next number counts");
        assert!(!growth.grow_by(723) && growth.grow_by(1));
        growth.renewed(Some(1_000));
        assert!(!growth.grow_by(23) && growth.grow_by(1), "24 records were deleted");
    }

    #[tokio::test]
    async fn a_large_collection_and_one_without_counts_take_registrations_always() {
        let large = growth(16_383, 4_096);
        let _one = place(&large).await;
        assert!(large.grow_by(1) && !large.grow_by(1));
        let _two = place(&large).await;
        let never = Arc::new(CollectionGrowth::of(64));
        never.set_counted(None);
        let _three = place(&never).await;
        assert!(!never.grow_by(1));
    }

    #[test]
    fn a_renewal_that_is_asked_for_during_another_one_follows_it() {
        let growth = growth(10, 0);
        assert!(growth.begin_or_follow(RenewalCause::BatchEnd));
        assert_eq!(growth.begin_follower(), None, "a renewal runs");
        assert!(!growth.begin_or_follow(RenewalCause::Recount) && !growth.begin_or_follow(RenewalCause::BatchEnd));
        growth.renewed(Some(10));
        assert_eq!(growth.begin_follower(), Some(RenewalCause::Recount));
        assert!(!growth.begin_or_follow(RenewalCause::BatchEnd), "the one that followed runs");
        growth.renewed(None);
        assert_eq!([growth.begin_follower(), growth.begin_follower()], [Some(RenewalCause::BatchEnd), None]);
    }

    #[tokio::test]
    async fn a_postponed_renewal_does_not_run_until_another_one_follows_it() {
        let growth = growth(16_383, 4_096);
        assert!(growth.grow_by(1) && !growth.settled(Duration::ZERO).await);
        assert!(!growth.set_postponed(true) && growth.settled(Duration::ZERO).await);
        assert!(!growth.grow_by(1), "it is not begun twice");
        assert!(!growth.begin_or_follow(RenewalCause::BatchEnd) && !growth.settled(Duration::ZERO).await);
        assert!(growth.set_postponed(false));
        growth.renewed(Some(16_385));
        assert_eq!(growth.begin_follower(), Some(RenewalCause::BatchEnd));
    }

    #[tokio::test]
    async fn a_registration_does_not_wait_for_ever() {
        let growth = growth(64, 0);
        assert!(matches!(growth.place(Duration::from_millis(20)).await, GrowthStep::Renew));
        assert!(matches!(growth.place(LONGEST_WAIT).await, GrowthStep::Place(_)), "the time counts from the beginning");
        growth.renewed(None);
        assert!(growth.begin_or_follow(RenewalCause::Recount) && waits(&growth).await);
        growth.give_way();
        assert!(!waits(&growth).await, "another task is in the way");
    }
}
