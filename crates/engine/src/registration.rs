//! Registers records.

use std::sync::Arc;

use crate::answers::Registration;
use crate::context::{Context, SignedRow, SigningTimes};
use crate::decisions::RecordRulings;
use crate::idempotency::RegistrationId;
use crate::judge::RecordJudge;
use crate::stages::StageRecorder;
use crate::unused::{overlooked_members, unused_members};
use crate::{Engine, Error, Position, Result, in_turn};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Signed;
use doppel_core::violation::Violation;
use doppel_store::request::{one_request, uncounted};
use doppel_store::stages::RegistrationStage;
use doppel_store::{GenerationId, RegisterOutcome, RegistrationMode, Seq, StoreError};

/// Largest number of repetitions of a call whose live generation changed between its read and its write. Each repetition means that another
/// reindex finished in this moment.
pub(crate) const GENERATION_RETRIES: usize = 3;
/// Largest number of repetitions of a write whose collection was dropped between its look-up and its write. Each repetition means that
/// another request dropped the collection in this moment.
pub(crate) const DROP_RETRIES: usize = 16;
/// Size of a row in bytes above which the row is signed outside the threads that serve requests: 16 KiB take about a millisecond.
const INLINE_ROW_BYTES: usize = 16 << 10;

/// The action when a registration finds a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfDuplicate {
    /// Store the record nevertheless: the office keeps every record.
    #[default]
    Keep,
    /// Store nothing, and name the record that the row duplicates.
    Skip,
}

/// The id under which a row is registered.
pub(crate) struct ResolvedId {
    pub(crate) id: RecordId,
    /// True if the request or the row contains the id.
    pub(crate) is_given: bool,
    /// True if the id may be used for this content only.
    write_once: bool,
}

impl ResolvedId {
    /// Returns an id that the request or the row contains.
    fn given(id: RecordId) -> Self {
        Self { id, is_given: true, write_once: false }
    }
}

impl Engine {
    /// Registers `row` under `id`; without an id, under the row's own id or a new UUIDv7. Creates an unknown collection if
    /// [`auto_create`](crate::Options) is set.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an id or a row that is not acceptable; [`Error::UnknownCollection`], or [`Error::TooManyCollections`] if the
    /// collection would be created; [`Error::Store`] with `IdTaken` if an idempotency key was used for other content, with
    /// `StaleGeneration` if generations change too fast, with `IndexFull`.
    pub async fn register(
        &self,
        collection: &CollectionName,
        under: impl Into<RegistrationId>,
        row: Row,
        if_duplicate: IfDuplicate,
    ) -> Result<Registration> {
        self.register_at(collection, under.into(), row, if_duplicate, Position::default()).await
    }

    /// Registers a row as [`Engine::register`] does, at a position in a series: the registration takes its place in commit order after the previous
    /// registration of the series has taken its place. The signing times of both do not change this order.
    ///
    /// # Errors
    /// The errors of [`Engine::register`]. After an error, the next registration of the series can take its place, too.
    pub async fn register_in_series(
        &self,
        collection: &CollectionName,
        under: impl Into<RegistrationId>,
        row: Row,
        if_duplicate: IfDuplicate,
        position: Position,
    ) -> Result<Registration> {
        let _counted = self.in_series.begin();
        self.register_at(collection, under.into(), row, if_duplicate, position).await
    }

    /// True while records are registered in series: work that can wait should leave the cores to them.
    pub fn is_taking_series(&self) -> bool {
        self.in_series.count() > 0
    }

    async fn register_at(
        &self,
        collection: &CollectionName,
        under: RegistrationId,
        row: Row,
        if_duplicate: IfDuplicate,
        mut position: Position,
    ) -> Result<Registration> {
        let registering = self.register_after(collection, under, row, if_duplicate, &mut position);
        let result = one_request(registering).await;
        position.pass().await;
        result
    }

    async fn register_after(
        &self,
        collection: &CollectionName,
        under: RegistrationId,
        row: Row,
        if_duplicate: IfDuplicate,
        position: &mut Position,
    ) -> Result<Registration> {
        let named = self.name(collection, under, &row)?;
        let mode = match if_duplicate {
            IfDuplicate::Keep => RegistrationMode::Put,
            IfDuplicate::Skip => RegistrationMode::SkipDuplicate,
        };
        let mut stale = 0;
        let mut drops = 0;
        let (registered, warnings) = loop {
            let context = self.context_or_create(collection, &row).await?;
            match self.register_in(context, &named, &row, mode, position).await {
                Err(Error::Store(StoreError::StaleGeneration { .. })) if stale < GENERATION_RETRIES => stale += 1,
                // The collection was dropped between look-up and write: the next attempt creates it again, if this is allowed.
                Err(Error::UnknownCollection(_)) if drops < DROP_RETRIES => drops += 1,
                other => break other?,
            }
        };
        self.answer(collection, named, registered, warnings).await
    }

    /// Makes one attempt to register the row, signed for the generations that `context` knows. Also returns the warnings about the row.
    async fn register_in(
        &self,
        context: Arc<Context>,
        named: &ResolvedId,
        row: &Row,
        mode: RegistrationMode,
        position: &mut Position,
    ) -> Result<(RegisterOutcome, Vec<Violation>)> {
        let id = &named.id;
        let collection = &context.state.name;
        context.check_members(row)?;
        let renewals = context.growth.renewals();
        let mut subject = self.subject(&context, row.clone()).await?;
        let mut warnings = std::mem::take(&mut subject.document.warnings);
        let others = self.sign_for_standby(&context, id, row).await?;
        let decisions_as_of = self.store.decisions_as_of(collection).await?;
        let rulings = match decisions_as_of {
            Some(Seq(0)) => RecordRulings::default(),
            _ => self.rulings(collection, Some(id)).await?,
        };
        let registration = doppel_store::Registration {
            collection: collection.clone(),
            generation: context.state.generation,
            id: id.clone(),
            content: context.content(row, &subject.document)?,
            signed: subject.signed.clone(),
            mode,
            write_once: named.write_once,
            now: (self.options.now)(),
            others,
            confirmed: rulings.that_are(true),
            refused: rulings.that_are(false),
            decisions_as_of,
            sequenced: position.sequenced(),
        };
        let judge = Arc::new(self.judge(Arc::clone(&context), subject, rulings).await?);
        uncounted(position.wait()).await;
        let place = self.place(&context, renewals).await?;
        let registered = self.store.register(registration, judge).await?;
        if matches!(registered, RegisterOutcome::Replaced(_)) {
            self.record_ended(collection);
        }
        self.sketches_used(&context);
        if matches!(registered, RegisterOutcome::Created(_) | RegisterOutcome::Replaced(_)) {
            let settings = &context.state.settings;
            warnings.extend(match context.growth.is_first() {
                true => unused_members(settings, row),
                false => overlooked_members(settings, row),
            });
            self.grown(&context, u64::from(matches!(registered, RegisterOutcome::Created(_)))).await;
        }
        drop(place);
        Ok((registered, warnings))
    }

    fn name(&self, collection: &CollectionName, under: RegistrationId, row: &Row) -> Result<ResolvedId> {
        match (under, row.id()) {
            (RegistrationId::Id(given) | RegistrationId::Unused(given), Some(own)) if given != *own => {
                let detail = "the row's id differs from the id in the path; leave one out or make them equal";
                Err(Error::Invalid(vec![Violation::new("/id", ErrorCode::IdMismatch, detail)]))
            }
            (RegistrationId::Id(id), _) => Ok(ResolvedId::given(id)),
            (RegistrationId::Unused(id), _) => Ok(ResolvedId { id, is_given: true, write_once: true }),
            (_, Some(own)) => Ok(ResolvedId::given(own.clone())),
            (RegistrationId::Key(key), None) => {
                let id = key.id(collection).ok_or(Error::Crashed)?;
                Ok(ResolvedId { id, is_given: false, write_once: true })
            }
            (RegistrationId::Own, None) => {
                let id = RecordId::new(&(self.options.new_id)()).map_err(|_| Error::Crashed)?;
                Ok(ResolvedId { id, is_given: false, write_once: false })
            }
        }
    }

    /// Signs a row for the standby generations; a long row is signed outside the serving threads.
    async fn sign_for_standby(
        &self,
        context: &Arc<Context>,
        id: &RecordId,
        row: &Row,
    ) -> Result<Vec<(GenerationId, Arc<Signed>)>> {
        if context.others.is_empty() {
            return Ok(Vec::new());
        }
        if row.json().len() <= INLINE_ROW_BYTES {
            return Ok(context.sign_for_standby(id, row));
        }
        let context = Arc::clone(context);
        let id = id.clone();
        let row = row.clone();
        in_turn(move || Ok(context.sign_for_standby(&id, &row))).await
    }

    /// Reads and signs a row; a long row is processed outside the serving threads.
    pub(crate) async fn subject(&self, context: &Arc<Context>, row: Row) -> Result<SignedRow> {
        let (subject, SigningTimes { read, sign }) = if row.json().len() <= INLINE_ROW_BYTES {
            context.timed_subject(&row)?
        } else {
            let context = context.clone();
            in_turn(move || context.timed_subject(&row)).await?
        };
        let noted = StageRecorder::new(&context.stages);
        noted.note(RegistrationStage::Read, read);
        noted.note(RegistrationStage::Sign, sign);
        Ok(subject)
    }

    /// Returns the judge of the candidates for `subject`. For a long text, this function also computes the data for comparisons, outside
    /// the serving threads.
    pub(crate) async fn judge(
        &self,
        context: Arc<Context>,
        subject: SignedRow,
        rulings: RecordRulings,
    ) -> Result<RecordJudge> {
        let noted = StageRecorder::new(&context.stages);
        let judge = RecordJudge::new(context, subject, rulings).with_recorder(noted);
        if judge.is_of_short_text() {
            return Ok(judge);
        }
        in_turn(move || {
            judge.prepare();
            Ok(judge)
        })
        .await
    }
}
