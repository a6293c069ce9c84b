//! What is to be done for a member, from what stands under its id.

use super::{Change, Member};
use crate::documents::{RecordDocument, SignatureDocument};
use doppel_core::schemes::profile::Signed;
use doppel_store::rules::plan::{self as rules, FiledDigest, FiledText, Moment, Standing};
use doppel_store::{GenerationId, Registered, Registration, Result, StoredRecord};

/// What stands under an id already.
#[derive(Clone, Debug)]
pub(super) struct StoredVersion {
    pub(super) record: RecordDocument,
    /// In every generation that it is filed in.
    pub(super) signatures: Vec<SignatureDocument>,
}

/// What is to be done for one member.
pub(super) enum Plan<'a> {
    /// Nothing more: this is its outcome.
    Settled(Result<super::Changed>),
    /// A new record, judged; in the place of another if there is one.
    Put(&'a Registration, Option<StoredVersion>),
    /// New content of a record that reads as before, to be filed in the generations that have not got it yet.
    Update(&'a Registration, StoredVersion, Vec<GenerationId>),
    Remove(StoredVersion),
}

impl<'a> Plan<'a> {
    /// `now` is what the collection's document says, `old` is what is stored under the id. `is_forbidden` says whether what a removal
    /// rests on, apart from the version of its record, holds no more.
    pub(super) fn of(member: &'a Member, now: Moment<'_>, old: Option<StoredVersion>, is_forbidden: bool) -> Self {
        match &member.change {
            Change::Register { registration, .. } => {
                Self::of_registration(registration, now, old).unwrap_or_else(|error| Self::Settled(Err(error)))
            }
            Change::Remove { condition, .. } => {
                let is_meant = |old: &StoredVersion| {
                    !is_forbidden
                        && condition.as_ref().is_none_or(|condition| old.record.record.version() == condition.version)
                };
                let old = old.filter(is_meant);
                old.map_or_else(|| Self::Settled(Ok(super::Changed::Removed(false))), Self::Remove)
            }
        }
    }

    /// What a record is signed with that is to be judged.
    pub(super) fn to_be_judged(&self) -> Option<&'a Signed> {
        match self {
            Self::Put(registration, _) => Some(&registration.signed),
            Self::Settled(_) | Self::Update(..) | Self::Remove(_) => None,
        }
    }

    fn of_registration(registration: &'a Registration, now: Moment<'_>, old: Option<StoredVersion>) -> Result<Self> {
        Ok(match rules::plan(registration, now, old)? {
            rules::Plan::Create => Self::Put(registration, None),
            rules::Plan::Replace(old) => Self::Put(registration, Some(old)),
            rules::Plan::Unchanged(old) => {
                let unchanged = Registered::Unchanged(old.record.record);
                Self::Settled(Ok(super::Changed::Registered(Box::new(unchanged))))
            }
            rules::Plan::Update(old, missing) => Self::Update(registration, old, missing),
        })
    }
}

impl Standing for StoredVersion {
    fn record(&self) -> &StoredRecord {
        &self.record.record
    }

    fn text_in(&self, generation: GenerationId) -> Option<FiledText> {
        let filed = self.signatures.iter().find(|filed| filed.generation == generation)?;
        Some(FiledText { seq: filed.seq, digest: FiledDigest::Whole(filed.digest) })
    }
}
