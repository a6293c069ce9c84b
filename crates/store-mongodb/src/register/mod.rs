//! Registering: what to do before and after the transaction, and when the id is taken. `transaction` holds the five steps of
//! the module, `together` who goes through them with whom.

mod together;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use self::together::Together;

use self::transaction::Registering;
use super::Shared;
use super::admin::Known;
use super::documents::{Number, RecordDocument, SignatureDocument};
use super::latches::Latches;
use super::read::{Place, Pointer};
use super::retry::Deadline;
use doppel_core::collection::{Channel, CollectionName, Settings};
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Judge, Registered, Registration, Result, Seq, StoreError};

/// Radius and position of the `simhash` channel.
pub(super) fn simhash_channel(settings: &Settings) -> (u8, u8) {
    let found = settings.channels.iter().enumerate().find_map(|(position, channel)| match channel {
        Channel::Simhash(params) => Some((params.radius, position as u8)),
        _ => None,
    });
    found.unwrap_or((0, 0))
}

/// What stands under the id already.
pub(super) struct Old {
    seq: Seq,
    /// See [`RecordDocument::filed`].
    filed: Option<GenerationId>,
    /// In every generation that it is filed in.
    signatures: Vec<SignatureDocument>,
}

/// How an attempt ended.
enum Outcome {
    Done(Box<Registered>),
    /// The id is not as it was thought to be: taken, or taken by other content, or free.
    Otherwise,
}

/// A registration whose turn at its latches has come.
struct Entrant {
    known: Arc<Known>,
    registration: Arc<Registration>,
    judge: Arc<dyn Judge>,
    old: Option<Old>,
    latches: Latches,
    /// The seq to try first, for one of a series: they draw theirs in its order.
    first: Option<Seq>,
    /// Whether it was tried.
    tried: AtomicBool,
    deadline: Deadline,
}

impl Entrant {
    fn place(&self) -> Place {
        Place { number: self.known.number, generation: self.registration.generation }
    }

    /// The seq for the next attempt, drawn as late as can be: a reindex that has come past a seq would not see it any more.
    fn draw_seq(&self, shared: &Shared) -> Seq {
        let first = self.first.filter(|_| !self.tried.swap(true, Ordering::Relaxed));
        first.unwrap_or_else(|| shared.next_seq(0))
    }
}

impl Shared {
    pub(super) async fn register(
        self: &Arc<Self>,
        registration: Arc<Registration>,
        judge: Arc<dyn Judge>,
    ) -> Result<Registered> {
        let deadline = self.deadline();
        let known = self.current(&registration).await?;
        let place = Place { number: known.number, generation: registration.generation };
        let mut old = None;
        loop {
            let latches = latches_of(&known, &registration, old.as_ref());
            let mut turn = self.queue.join(place.number, &latches, &registration.id);
            turn.come(deadline).await?;
            let first = registration.sequenced.is_awaited().then(|| self.next_seq(0));
            self.tell_placed(place.number, &registration, deadline).await?;
            let entrant = Entrant {
                known: Arc::clone(&known),
                registration: Arc::clone(&registration),
                judge: Arc::clone(&judge),
                old,
                latches,
                first,
                tried: AtomicBool::new(false),
                deadline,
            };
            let outcome = self.enter(Arc::new(entrant)).await;
            drop(turn);
            match outcome {
                Ok(Outcome::Done(registered)) => {
                    if let Registered::Created(record) | Registered::Replaced(record) = &*registered
                        && self.seqs_last()
                    {
                        judge.stored(record.seq);
                    }
                    return Ok(*registered);
                }
                Ok(Outcome::Otherwise) => {}
                Err(error) => {
                    if matches!(error, StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_)) {
                        self.cache.forget(&registration.collection);
                    }
                    return Err(error);
                }
            }
            old = match self.read(deadline, || self.stored(place.number, &registration.id)).await? {
                None => None,
                Some(stored) => match self.look_at_old(&known, place, stored, &registration, deadline).await? {
                    Looked::Ended(registered) => return Ok(registered),
                    Looked::Gone => None,
                    Looked::Differs(old) => Some(old),
                },
            };
        }
    }

    /// One transaction, with others if that may be and works out, else alone.
    async fn enter(self: &Arc<Self>, entrant: Arc<Entrant>) -> Result<Outcome> {
        if let Some(outcome) = self.enter_together(&entrant).await {
            return outcome;
        }
        let mut work = Registering::of(self, vec![Arc::clone(&entrant)]);
        let outcomes = self.retry.transact(&self.client, entrant.deadline, &mut work).await?;
        outcomes.into_iter().next().ok_or_else(|| StoreError::Internal("a registration has no outcome".into()))
    }

    /// Lets the next of a series go ahead: what could match this one has a latch in common with it, and stands behind it in the
    /// queue until it has committed; what could not may commit first. Where the id is taken the next must wait for the end,
    /// for other latches are needed then.
    async fn tell_placed(&self, number: Number, registration: &Registration, deadline: Deadline) -> Result<()> {
        if registration.sequenced.is_awaited() {
            let ids = [registration.id.as_str()];
            if self.read(deadline, || self.taken(number, &ids)).await?.is_empty() {
                registration.sequenced.notify();
            }
        }
        Ok(())
    }

    /// What is to be done with the record under the id.
    async fn look_at_old(
        &self,
        known: &Known,
        place: Place,
        stored: RecordDocument,
        registration: &Registration,
        deadline: Deadline,
    ) -> Result<Looked> {
        registration.check_content(&stored.record.row)?;
        let as_live =
            stored.record.digest_generation == place.generation && stored.record.digest == registration.signed.digest;
        if as_live && registration.others.is_empty() {
            return self.keep(place, stored, registration, Vec::new(), deadline).await;
        }
        let generations = || known.generations().map(|(generation, _)| generation);
        let signatures = self.read(deadline, || self.filings(place.number, generations(), &registration.id)).await?;
        if !reads_the_same(&stored, &signatures, registration) {
            return Ok(Looked::Differs(Old { seq: stored.record.seq, filed: stored.filed, signatures }));
        }
        let filed = |generation: GenerationId| signatures.iter().any(|filed| filed.generation == generation);
        let missing = registration.generations().filter(|(generation, _)| !filed(*generation)).collect();
        self.keep(place, stored, registration, missing, deadline).await
    }

    /// The collection, if its generations are those that signed the record.
    async fn current(&self, registration: &Registration) -> Result<Arc<Known>> {
        let beside = registration.standby();
        let fits = |known: &Known| {
            let others = known.state.others.iter().map(|other| other.id);
            known.state.generation == registration.generation && others.eq(beside.iter().copied())
        };
        let known = self.known(&registration.collection).await?;
        if fits(&known) {
            return Ok(known);
        }
        self.cache.forget(&registration.collection);
        let known = self.known(&registration.collection).await?;
        if fits(&known) {
            return Ok(known);
        }
        Err(StoreError::StaleGeneration { given: registration.generation, live: known.state.generation })
    }

    /// Refuses when the collection is gone, or another generation is live, or others stand beside it than `beside` where
    /// that matters.
    pub(super) fn check_pointer<'a>(
        pointer: Option<&'a Pointer>,
        place: Place,
        beside: Option<&[GenerationId]>,
        name: &CollectionName,
    ) -> Result<&'a Pointer> {
        let Some(pointer) = pointer.filter(|pointer| pointer.number == place.number) else {
            return Err(StoreError::UnknownCollection(name.clone()));
        };
        if pointer.generation == place.generation && beside.is_none_or(|beside| beside == pointer.others) {
            return Ok(pointer);
        }
        Err(StoreError::StaleGeneration { given: place.generation, live: pointer.generation })
    }
}

/// Whether every generation that has the record filed reads the same text in it as before.
fn reads_the_same(stored: &RecordDocument, signatures: &[SignatureDocument], registration: &Registration) -> bool {
    let filed = |generation| signatures.iter().find(|filed| filed.generation == generation);
    let same =
        |filed: &SignatureDocument, signed: &Signed| filed.seq == stored.record.seq && filed.digest == signed.digest;
    filed(registration.generation).is_some_and(|live| same(live, &registration.signed))
        && registration.generations().all(|(generation, signed)| filed(generation).is_none_or(|it| same(it, signed)))
}

/// What came of looking at the record under the id.
pub(super) enum Looked {
    Ended(Registered),
    /// It changed meanwhile.
    Gone,
    /// Its content is another.
    Differs(Old),
}

/// The latches of all that a registration changes, in all generations, and of the decisions that it rests on.
fn latches_of(known: &Known, registration: &Registration, old: Option<&Old>) -> Latches {
    let radius_in = |generation| {
        let found = known.generations().find(|(known, _)| *known == generation);
        found.map_or(0, |(_, settings)| simhash_channel(settings).0)
    };
    let mut all = Latches::default();
    for (generation, signed) in registration.generations() {
        all.add(generation, radius_in(generation), signed);
    }
    for filed in old.iter().flat_map(|old| &old.signatures) {
        all.add_filed(radius_in(filed.generation), filed);
    }
    for id in &registration.confirmed {
        all.add_pair(&registration.id, id);
    }
    all
}
