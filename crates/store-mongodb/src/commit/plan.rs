//! What is to be done with a record, from what stands under its id: the same in every store.

use super::{Change, Member};
use crate::documents::{RecordDocument, SignatureDocument};
use crate::read::Pointer;
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Registered, Registration, Result, StoreError};

/// What stands under an id already.
#[derive(Clone, Debug)]
pub(super) struct Old {
    pub(super) record: RecordDocument,
    /// In every generation that it is filed in.
    pub(super) signatures: Vec<SignatureDocument>,
}

/// What is to be done for one member.
pub(super) enum Plan<'a> {
    /// Nothing more: this is its outcome.
    Settled(Result<super::Changed>),
    /// A new record, judged; in the place of another if there is one.
    Put(&'a Registration, Option<Old>),
    /// New content of a record that reads as before, to be filed in the generations that have not got it yet.
    Update(&'a Registration, Old, Vec<GenerationId>),
    Remove(Old),
}

impl<'a> Plan<'a> {
    /// `pointer` is what the collection's document says, `old` what stands under the id.
    pub(super) fn of(member: &'a Member, pointer: &Pointer, old: Option<Old>) -> Self {
        match &member.change {
            Change::Register { registration, .. } => {
                Self::of_registration(registration, pointer, old).unwrap_or_else(|error| Self::Settled(Err(error)))
            }
            Change::Remove { only, .. } => match old {
                Some(old) if only.is_none_or(|seq| seq == old.record.record.seq) => Self::Remove(old),
                _ => Self::Settled(Ok(super::Changed::Removed(false))),
            },
        }
    }

    fn of_registration(registration: &'a Registration, pointer: &Pointer, old: Option<Old>) -> Result<Self> {
        if pointer.generation != registration.generation || pointer.others != registration.standby() {
            return Err(StoreError::StaleGeneration { given: registration.generation, live: pointer.generation });
        }
        if registration.decisions_as_of.is_some_and(|known| known < pointer.decided) {
            // Somebody decided meanwhile, and it may be about this record.
            return Err(StoreError::StaleGeneration { given: registration.generation, live: pointer.generation });
        }
        let Some(old) = old else { return Ok(Self::Put(registration, None)) };
        let stored = &old.record.record;
        registration.check_content(&stored.row)?;
        if !reads_the_same(&old, registration) {
            return Ok(Self::Put(registration, Some(old)));
        }
        if registration.is_of(&stored.row) {
            let unchanged = Registered::Unchanged(old.record.record);
            return Ok(Self::Settled(Ok(super::Changed::Registered(Box::new(unchanged)))));
        }
        let filed = |generation: GenerationId| old.signatures.iter().any(|filed| filed.generation == generation);
        let missing = registration.generations().map(|(generation, _)| generation);
        let missing = missing.filter(|generation| !filed(*generation)).collect();
        Ok(Self::Update(registration, old, missing))
    }
}

/// Whether every generation that has the record filed reads the same text in it as before.
fn reads_the_same(old: &Old, registration: &Registration) -> bool {
    let filed = |generation| old.signatures.iter().find(|filed| filed.generation == generation);
    let same = |filed: &SignatureDocument, signed: &Signed| {
        filed.seq == old.record.record.seq && filed.digest == signed.digest
    };
    filed(registration.generation).is_some_and(|live| same(live, &registration.signed))
        && registration.generations().all(|(generation, signed)| filed(generation).is_none_or(|it| same(it, signed)))
}
