//! Deletion of the records of a petitioner, and of records past an age.
//!
//! Each record is deleted in the ordinary way, with its entries in the index, in groups and in search, and all decisions about it; the
//! change feed reports the deletion. The store deletes only the version of a record that was read, and only while the retention that
//! requires the deletion is still the retention of the collection. A record that somebody changes meanwhile is read and tested again.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::boxed;
use crate::context::Context;
use crate::tasks::{Erase, ErasedRecords};
use crate::{Engine, Error, Result};
use doppel_core::collection::{CollectionName, MAX_RETENTION_DAYS, Retention, Role, Settings};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_core::text::Reader;
use doppel_core::violation::Violation;
use doppel_store::content::KeyedHash;
use doppel_store::{CollectionNumber, RemovalCondition, Seq, StoredRecord};

/// Number of records that are read at once: their rows are in memory together.
const PIECE: usize = 200;
/// Largest number of records that the report of a dry run names; it counts all records.
const NAMED: usize = 1_000;
/// Longest identity in a request, in characters: names, numbers and addresses of people are far shorter.
pub const MAX_IDENTITY_CHARS: usize = 256;
/// Largest number of times that one record is tested because somebody changed it between the test and the deletion. A record that changes
/// more often is left for the next run.
const LOOKS: usize = 8;
/// Hours of a day, without regard to daylight saving time.
const HOURS: i64 = 24;

/// The progress and the counts of a deletion.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ErasureProgress {
    /// Seq of the last record that was tested.
    after: Seq,
    /// Number of records that were tested.
    pub seen: u64,
    /// Number of records that meet the criteria.
    found: u64,
    /// Number of records that were deleted.
    deleted: u64,
    /// Number of records that could not be read and stay.
    unreadable: u64,
    /// For a dry run: ids of the first records that would be deleted.
    named: Vec<RecordId>,
}

/// The criteria for records to delete, for one collection.
pub struct ErasureCriteria {
    number: CollectionNumber,
    test: ErasureTest,
}

enum ErasureTest {
    By(String),
    /// A hashed identity, for a collection that keeps only hashes.
    ByHash(KeyedHash),
    StoredBefore(Timestamp),
}

impl Erase {
    /// Checks whether the request fits a collection with these settings.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no field names a petitioner, the value is empty or too long, or the age is out of range.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        match &self.which {
            ErasedRecords::Identity(value) => {
                let value = value.as_deref().unwrap_or_default();
                if !settings.fields.iter().any(|field| field.role == Role::Identity) {
                    let detail = "no field of this collection has the role identity, so no record names a petitioner";
                    return Err(invalid("/identity", ErrorCode::NoIdentityField, detail.into()));
                }
                let is_nobody = Reader::new(settings).identity(value).is_none();
                if is_nobody || value.chars().count() > MAX_IDENTITY_CHARS {
                    let detail = format!(
                        "give the petitioner's name or number, 1 to {MAX_IDENTITY_CHARS} characters, and no word that names nobody"
                    );
                    return Err(invalid("/identity", ErrorCode::InvalidValue, detail));
                }
            }
            ErasedRecords::OlderThanDays(days) if !(1..=MAX_RETENTION_DAYS).contains(days) => {
                let detail = format!("give 1 to {MAX_RETENTION_DAYS} days");
                return Err(invalid("/older_than_days", ErrorCode::OutOfRange, detail));
            }
            ErasedRecords::OlderThanDays(_) => {}
        }
        Ok(())
    }

    /// Returns the reason for the deletion, as a metric label with a few values.
    fn reason(&self) -> &'static str {
        match self.which {
            ErasedRecords::Identity(_) => "identity",
            ErasedRecords::OlderThanDays(_) if self.by_retention => "retention",
            ErasedRecords::OlderThanDays(_) => "age",
        }
    }
}

fn invalid(pointer: &str, code: ErrorCode, detail: String) -> Error {
    Error::Invalid(vec![Violation::new(pointer, code, detail)])
}

impl Erase {
    /// Returns the request in the form that is stored until it is done. In a collection that keeps no text, the identity is hashed like the
    /// identities of the records.
    pub(crate) fn into_kept(self, context: &Context) -> Result<Self> {
        let which = match self.which {
            ErasedRecords::Identity(Some(value)) if !context.state.settings.keeps_text() => {
                ErasedRecords::Identity(Some(context.hash_key()?.identity(&context.identity(&value)).into()))
            }
            which => which,
        };
        Ok(Self { which, ..self })
    }
}

impl ErasureProgress {
    /// Returns the result of the task. It contains no identity, and the id of no deleted record.
    pub fn report(&self, request: &Erase) -> Value {
        let days = match request.which {
            ErasedRecords::Identity(_) => None,
            ErasedRecords::OlderThanDays(days) => Some(days),
        };
        let mut report = json!({
            "dry_run": request.dry_run, "reason": request.reason(), "older_than_days": days, "looked_at": self.seen,
            "found": self.found, "deleted": self.deleted, "unreadable": self.unreadable,
        });
        if request.dry_run {
            report["records"] = json!(self.named);
            report["truncated"] = json!(self.found > self.named.len() as u64);
        }
        report
    }
}

impl ErasureCriteria {
    /// True if the record meets the criteria; `None` if the record cannot be read.
    fn is(&self, context: &Context, record: &StoredRecord) -> Option<bool> {
        match &self.test {
            ErasureTest::StoredBefore(end) => Some(record.stored_at.parse::<Timestamp>().ok()? < *end),
            ErasureTest::By(identity) => context.is_by(record, identity),
            ErasureTest::ByHash(identity) => Some(record.content.hashes()?.is_by(identity)),
        }
    }
}

impl Engine {
    /// Returns the criteria that `request` means in this collection at this moment.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Conflict`] if the stored request no longer contains the identity.
    #[boxed]
    pub async fn wanted(&self, collection: &CollectionName, request: &Erase) -> Result<ErasureCriteria> {
        let context = self.context(collection).await?;
        let test = match &request.which {
            ErasedRecords::Identity(None) => {
                return Err(Error::Conflict(
                    "the task does not contain the identity any more; create a new task".into(),
                ));
            }
            ErasedRecords::Identity(Some(hash)) if !context.state.settings.keeps_text() => {
                let read = KeyedHash::try_from(hash.clone()).map_err(|why| Error::Conflict(why.into()))?;
                ErasureTest::ByHash(read)
            }
            ErasedRecords::Identity(Some(value)) => ErasureTest::By(context.identity(value)),
            ErasedRecords::OlderThanDays(days) => {
                let now =
                    Timestamp::from_microsecond((self.options.micros)().cast_signed()).map_err(|_| Error::Crashed)?;
                let age = SignedDuration::from_hours(HOURS * i64::from(*days));
                // The age is before the earliest time, so that no record is old enough.
                ErasureTest::StoredBefore(now.checked_sub(age).unwrap_or(Timestamp::MIN))
            }
        };
        Ok(ErasureCriteria { number: context.state.number, test })
    }

    /// Reads the next records and deletes those records that meet the criteria. Returns false after the last record. Each deletion waits
    /// until it is synced, so that registrations can run in between.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; the errors of the store. The counts include the deletions before the error.
    #[boxed]
    pub async fn erase_some(
        &self,
        collection: &CollectionName,
        request: &Erase,
        wanted: &ErasureCriteria,
        erasing: &mut ErasureProgress,
    ) -> Result<bool> {
        let context = self.context(collection).await?;
        if context.state.number != wanted.number || !self.still_asks(request, context.state.settings.retention) {
            return Ok(false);
        }
        let piece = self.store.records(collection, erasing.after, PIECE).await?;
        let more = !piece.is_empty();
        for record in piece {
            match wanted.is(&context, &record) {
                None => erasing.unreadable += 1,
                Some(false) => {}
                Some(true) => {
                    if request.dry_run {
                        if erasing.named.len() < NAMED {
                            erasing.named.push(record.id.clone());
                        }
                    } else if self.erase_one(&context, request, wanted, &record).await? {
                        erasing.deleted += 1;
                        metrics::counter!("doppel_erased_records_total", "reason" => request.reason()).increment(1);
                    }
                    erasing.found += 1;
                }
            }
            erasing.after = record.seq;
            erasing.seen += 1;
        }
        Ok(more)
    }

    /// True unless the request comes from a retention of the collection that has been changed since.
    fn still_asks(&self, request: &Erase, now: Option<Retention>) -> bool {
        !request.by_retention || now.is_some_and(|now| request.which == ErasedRecords::OlderThanDays(now.days))
    }

    /// Deletes a record that meets the criteria; true if it was deleted. A record that was changed since `record` was read is read again,
    /// and stays if it does not meet the criteria any more.
    async fn erase_one(
        &self,
        context: &Context,
        request: &Erase,
        wanted: &ErasureCriteria,
        record: &StoredRecord,
    ) -> Result<bool> {
        let collection = &context.state.name;
        let mut current = record.clone();
        let retention = match request.which {
            ErasedRecords::OlderThanDays(days) if request.by_retention => Some(Retention { days }),
            ErasedRecords::OlderThanDays(_) | ErasedRecords::Identity(_) => None,
        };
        for _ in 0..LOOKS {
            let condition = RemovalCondition { retention, ..RemovalCondition::unchanged(wanted.number, &current) };
            if self.store.remove_if(collection, &current.id, condition).await? {
                self.record_ended(collection);
                self.refile_handling(collection, &current.id).await;
                return Ok(true);
            }
            let Some(now) = self.store.record(collection, &current.id).await? else { return Ok(false) };
            // A record with another seq is another record, which comes later in the walk. If the version is equal, the store refused for
            // another reason.
            let is_settled = now.seq != current.seq || now.version() == current.version();
            if is_settled || wanted.is(context, &now) != Some(true) {
                return Ok(false);
            }
            current = now;
        }
        Ok(false)
    }
}
