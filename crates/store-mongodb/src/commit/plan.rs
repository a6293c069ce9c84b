//! Plans for the members of a batch, which depend on the records that are stored under their ids.

use super::{BatchMember, RecordChange};
use crate::documents::{RecordDocument, SignatureDocument};
use doppel_core::schemes::profile::Signed;
use doppel_store::rules::plan::{self as rules, CollectionMoment, FiledDigest, FiledText, StandingRecord};
use doppel_store::{GenerationId, RegisterOutcome, Registration, Result, StoredRecord};

/// The record that is stored under an id.
#[derive(Clone, Debug)]
pub(super) struct StoredVersion {
    pub(super) record: RecordDocument,
    /// The signatures in all generations that contain the record.
    pub(super) signatures: Vec<SignatureDocument>,
}

/// The steps for one member.
pub(super) enum MemberPlan<'a> {
    /// No step remains; the outcome is known.
    Settled(Result<super::ChangeOutcome>),
    /// Judge and store a new record. It replaces the old record, if an old record exists.
    Put(&'a Registration, Option<StoredVersion>),
    /// Store new content of a record whose text is unchanged, and add the record to the generations that do not contain it yet.
    Update(&'a Registration, StoredVersion, Vec<GenerationId>),
    Remove(StoredVersion),
}

impl<'a> MemberPlan<'a> {
    /// Returns the plan. `now` is the state in the document of the collection, `old` is the record that is stored under the id.
    /// `is_forbidden` is true if a condition of the removal, apart from the version of the record, does not hold any more.
    pub(super) fn of(
        member: &'a BatchMember,
        now: CollectionMoment<'_>,
        old: Option<StoredVersion>,
        is_forbidden: bool,
    ) -> Self {
        match &member.change {
            RecordChange::Register { registration, .. } => {
                Self::of_registration(registration, now, old).unwrap_or_else(|error| Self::Settled(Err(error)))
            }
            RecordChange::Remove { condition, .. } => {
                let old = old.filter(|old| {
                    !is_forbidden
                        && condition.as_ref().is_none_or(|condition| old.record.record.version() == condition.version)
                });
                old.map_or_else(|| Self::Settled(Ok(super::ChangeOutcome::Removed(false))), Self::Remove)
            }
        }
    }

    /// Returns the signatures of the record if it must be judged.
    pub(super) fn to_be_judged(&self) -> Option<&'a Signed> {
        match self {
            Self::Put(registration, _) => Some(&registration.signed),
            Self::Settled(_) | Self::Update(..) | Self::Remove(_) => None,
        }
    }

    fn of_registration(
        registration: &'a Registration,
        now: CollectionMoment<'_>,
        old: Option<StoredVersion>,
    ) -> Result<Self> {
        Ok(match rules::plan(registration, now, old)? {
            rules::RegistrationPlan::Create => Self::Put(registration, None),
            rules::RegistrationPlan::Replace(old) => Self::Put(registration, Some(old)),
            rules::RegistrationPlan::Unchanged(old) => {
                let unchanged = RegisterOutcome::Unchanged(old.record.record);
                Self::Settled(Ok(super::ChangeOutcome::Registered(Box::new(unchanged))))
            }
            rules::RegistrationPlan::Update(old, missing) => Self::Update(registration, old, missing),
        })
    }
}

impl StandingRecord for StoredVersion {
    fn record(&self) -> &StoredRecord {
        &self.record.record
    }

    fn text_in(&self, generation: GenerationId) -> Option<FiledText> {
        let filed = self.signatures.iter().find(|filed| filed.generation == generation)?;
        Some(FiledText { seq: filed.seq, digest: FiledDigest::Whole(filed.digest) })
    }
}
