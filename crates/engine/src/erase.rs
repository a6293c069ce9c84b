//! Deleting the records of a petitioner, and those past an age.
//!
//! Each record is deleted in the ordinary way: index, groups, change feed, search, and all decisions about the record follow. The
//! store deletes a record only in the version that was looked at, and only while the retention that asks for the deletion is still
//! that of the collection. A record that somebody changes meanwhile is looked at again.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::tasks::{Erase, Erased};
use crate::{Engine, Error, Result};
use doppel_core::collection::{CollectionName, MAX_RETENTION_DAYS, Retention, Role, Settings};
use doppel_core::record::RecordId;
use doppel_core::text::Reader;
use doppel_core::violation::Violation;
use doppel_store::content::KeyedHash;
use doppel_store::{CollectionNumber, RemovalCondition, Seq, StoredRecord};

/// Records read at once: their rows are in memory together.
const PIECE: usize = 200;
/// Most records that a report of a dry run names; it counts all.
const NAMED: usize = 1_000;
/// Longest identity asked for, in characters: names, numbers and addresses of people are far shorter.
pub const MAX_IDENTITY_CHARS: usize = 256;
/// Most times that one record is looked at, because somebody changed it between the look and the deletion. A record that changes more
/// often is left for the next run.
const LOOKS: usize = 8;
/// Hours of a day, whatever the clocks of a place do.
const HOURS: i64 = 24;

/// How far it is, and what came of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Erasing {
    /// The last record looked at.
    after: Seq,
    /// Records looked at.
    pub seen: u64,
    /// Records that are to go.
    found: u64,
    /// Records deleted.
    deleted: u64,
    /// Records that could not be read, and stay.
    unreadable: u64,
    /// Of a dry run, the first that would go.
    named: Vec<RecordId>,
}

/// Which records go, as one collection reads them.
pub struct Wanted {
    number: CollectionNumber,
    test: Test,
}

enum Test {
    By(String),
    /// The same where only hashes are kept.
    ByHash(KeyedHash),
    StoredBefore(Timestamp),
}

impl Erase {
    /// Whether it can be asked of a collection with these settings.
    ///
    /// # Errors
    /// [`Error::Invalid`]: no field names a petitioner, or the value is empty or too long; an age out of range.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        let wrong =
            |pointer: &str, code, detail: String| Err(Error::Invalid(vec![Violation::new(pointer, code, detail)]));
        match &self.which {
            Erased::Identity(value) => {
                let value = value.as_deref().unwrap_or_default();
                if !settings.fields.iter().any(|field| field.role == Role::Identity) {
                    let detail = "no field of this collection has the role identity, so no record names a petitioner";
                    return wrong("/identity", "no_identity_field", detail.into());
                }
                let is_nobody = Reader::new(settings).identity(value).is_none();
                if is_nobody || value.chars().count() > MAX_IDENTITY_CHARS {
                    let detail = format!(
                        "give the petitioner's name or number, 1 to {MAX_IDENTITY_CHARS} characters, and no word that names nobody"
                    );
                    return wrong("/identity", "invalid_value", detail);
                }
            }
            Erased::OlderThanDays(days) if !(1..=MAX_RETENTION_DAYS).contains(days) => {
                return wrong("/older_than_days", "out_of_range", format!("give 1 to {MAX_RETENTION_DAYS} days"));
            }
            Erased::OlderThanDays(_) => {}
        }
        Ok(())
    }

    /// Why, as a label of a number: few values.
    fn reason(&self) -> &'static str {
        match self.which {
            Erased::Identity(_) => "identity",
            Erased::OlderThanDays(_) if self.by_retention => "retention",
            Erased::OlderThanDays(_) => "age",
        }
    }
}

impl Erase {
    /// The same request as it is kept until it is done: whose records of a collection that keeps no text are erased is no more written
    /// down than the records say it.
    pub(crate) fn into_kept(self, context: &Context) -> Result<Self> {
        let which = match self.which {
            Erased::Identity(Some(value)) if !context.state.settings.keeps_text() => {
                Erased::Identity(Some(context.hash_key()?.identity(&context.identity(&value)).into()))
            }
            which => which,
        };
        Ok(Self { which, ..self })
    }
}

impl Erasing {
    /// The result of the task. Names no record that is deleted, and nobody.
    pub fn report(&self, request: &Erase) -> Value {
        let days = match request.which {
            Erased::Identity(_) => None,
            Erased::OlderThanDays(days) => Some(days),
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

impl Wanted {
    /// Whether the record goes; `None` where it cannot be read.
    fn is(&self, context: &Context, record: &StoredRecord) -> Option<bool> {
        match &self.test {
            Test::StoredBefore(end) => Some(record.stored_at.parse::<Timestamp>().ok()? < *end),
            Test::By(identity) => context.is_by(record, identity),
            Test::ByHash(identity) => Some(record.content.hashes()?.is_by(identity)),
        }
    }
}

impl Engine {
    /// What `request` means in this collection at this moment.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Conflict`] where the task no longer says whom it was about.
    pub async fn wanted(&self, collection: &CollectionName, request: &Erase) -> Result<Wanted> {
        let context = self.context(collection).await?;
        let test = match &request.which {
            Erased::Identity(None) => {
                return Err(Error::Conflict("the task does not say whose records; ask again".into()));
            }
            Erased::Identity(Some(hash)) if !context.state.settings.keeps_text() => {
                let read = KeyedHash::try_from(hash.clone()).map_err(|why| Error::Conflict(why.into()))?;
                Test::ByHash(read)
            }
            Erased::Identity(Some(value)) => Test::By(context.identity(value)),
            Erased::OlderThanDays(days) => {
                let now =
                    Timestamp::from_microsecond((self.options.micros)().cast_signed()).map_err(|_| Error::Crashed)?;
                let age = SignedDuration::from_hours(HOURS * i64::from(*days));
                // Before all time: nothing is that old.
                Test::StoredBefore(now.checked_sub(age).unwrap_or(Timestamp::MIN))
            }
        };
        Ok(Wanted { number: context.state.number, test })
    }

    /// Looks through the next records, and deletes those that are to go; whether there may be more. A deletion waits for its sync, so
    /// that registrations take turns with it.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; what the store gives. What was deleted until then is counted.
    pub async fn erase_some(
        &self,
        collection: &CollectionName,
        request: &Erase,
        wanted: &Wanted,
        erasing: &mut Erasing,
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
            (erasing.after, erasing.seen) = (record.seq, erasing.seen + 1);
        }
        Ok(more)
    }

    /// Whether nobody has changed the retention that asks for this.
    fn still_asks(&self, request: &Erase, now: Option<Retention>) -> bool {
        !request.by_retention || now.is_some_and(|now| request.which == Erased::OlderThanDays(now.days))
    }

    /// Deletes a record that was asked for; true if the record was deleted. A record that was changed since `record` was read is read
    /// again, and stays if it is not asked for any more.
    async fn erase_one(
        &self,
        context: &Context,
        request: &Erase,
        wanted: &Wanted,
        record: &StoredRecord,
    ) -> Result<bool> {
        let (collection, mut current) = (&context.state.name, record.clone());
        let retention = match request.which {
            Erased::OlderThanDays(days) if request.by_retention => Some(Retention { days }),
            Erased::OlderThanDays(_) | Erased::Identity(_) => None,
        };
        for _ in 0..LOOKS {
            let condition = RemovalCondition { retention, ..RemovalCondition::unchanged(wanted.number, &current) };
            if self.store.remove_if(collection, &current.id, condition).await? {
                return Ok(true);
            }
            let Some(now) = self.store.record(collection, &current.id).await? else { return Ok(false) };
            // Another seq is another record, which comes later in the walk. An equal version was refused for another reason.
            let is_settled = now.seq != current.seq || now.version() == current.version();
            if is_settled || wanted.is(context, &now) != Some(true) {
                return Ok(false);
            }
            current = now;
        }
        Ok(false)
    }
}
