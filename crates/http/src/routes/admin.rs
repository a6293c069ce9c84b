//! Starts long work on a whole collection. Its progress is shown under `/v1/tasks`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use crate::auth::{AdministratorIn, CollectionReach};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::input::ObjectReader;
use crate::routes::settings::{self, SettingsInput};
use crate::routes::{accepted, segment};
use crate::state::App;
use doppel_core::collection::{CollectionName, MAX_RETENTION_DAYS, Settings};
use doppel_core::error_code::ErrorCode;
use doppel_engine::hosts::HostAliases;
use doppel_engine::tasks::{Erase, ErasedRecords, Purge, Reindex, Survivor, Task, Work};

/// The request to rebuild an index.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct ReindexInput {
    /// The name of the collection.
    collection: CollectionName,
    /// The new settings. The default is the present settings of the collection.
    settings: Option<SettingsInput>,
    /// True to make the new generation live as soon as it is complete; otherwise it can be compared first. The default is false.
    #[schema(default = true)]
    activate: Option<bool>,
    /// True to keep the previous live generation, so that it can be activated again. The default is true.
    #[schema(default = true)]
    keep_previous: Option<bool>,
    /// Largest number of records per second. The default is no limit.
    #[schema(minimum = 1)]
    records_per_second: Option<u32>,
}

/// The request to delete duplicates.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct PurgeInput {
    /// The name of the collection.
    collection: CollectionName,
    /// The record of each group of duplicates that is kept. The default is `latest`.
    #[schema(default = "latest")]
    keep: Option<Survivor>,
    /// True to also delete near duplicates, so that only one record of each group is kept. Contested and chained groups are excluded. The default
    /// is false.
    #[schema(default = false)]
    near: Option<bool>,
    /// True to delete nothing and only report the records that would be deleted. The default is true.
    #[schema(default = true)]
    dry_run: Option<bool>,
    /// Only sets of duplicates with a record whose time is at or after this time. The record that is kept may be any record of the set. The value
    /// is a date or a time in one of the forms that records may have, in the time zone of the collection.
    #[schema(min_length = 1, max_length = 64)]
    from: Option<String>,
    /// Only sets of duplicates with a record whose time is before this time. With `from`, the same record must meet both conditions.
    #[schema(min_length = 1, max_length = 64)]
    to: Option<String>,
}

/// The request to delete the records of a petitioner, or old records.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct EraseInput {
    /// The name of the collection.
    collection: CollectionName,
    /// Delete the records that have this value in a field of role `identity`. Values are compared after normalization by the rules of the
    /// collection. The service removes the value from the stored task when the task ends.
    #[schema(min_length = 1, max_length = 256)]
    identity: Option<String>,
    /// Delete the records whose content was stored (`stored_at`) more than this number of days ago. A day has 24 hours.
    #[schema(minimum = 1, maximum = 36_500)]
    older_than_days: Option<u32>,
    /// True to delete nothing and only report the records that would be deleted. The default is true.
    #[schema(default = true)]
    dry_run: Option<bool>,
}

/// The largest number of records whose hosts are compared. It takes some seconds.
const MOST_COMPARED: u64 = 100_000;
/// The default number of records whose hosts are compared. It takes less than a second.
const USUALLY_COMPARED: u64 = 10_000;

/// The request to compare the hosts of a collection.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct HostAliasesInput {
    /// The name of the collection.
    collection: CollectionName,
    /// Number of records to read, beginning with the earliest.
    #[schema(minimum = 1, maximum = 100_000, default = 10_000)]
    records: Option<u32>,
}

/// Rebuild the whole index of a collection
///
/// Computes the signatures of all records again and builds a new index. The service answers requests with the previous index until the new one is
/// complete. A collection can have only one unfinished task (409 `task_running`). If the new generation becomes live, the text statistics of all
/// records are counted first, the previous live generation is kept and older generations are deleted. With `keep_previous` false, the previous live
/// generation is deleted.
#[utoipa::path(post, path = "/v1/admin/reindex", operation_id = "startReindex", tag = "admin", request_body = ReindexInput,
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn reindex(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let collection = collection(&mut input, administrator.reach());
    let given = input.take("settings");
    let activate = input.truth("activate").unwrap_or(true);
    let keep_previous = input.truth("keep_previous").unwrap_or(true);
    let records_per_second = input.number("records_per_second", 1, u64::from(u32::MAX));
    input.finish()?;
    let collection = collection?;
    let given = given.map(|given| settings::from_value(given).map_err(|problem| problem.below("/settings")));
    let mut settings: Option<Settings> = given.transpose()?;
    if let Some(settings) = &mut settings {
        app.engine.keep_taught(&collection, settings).await?;
    }
    let records_per_second = records_per_second.and_then(|most| u32::try_from(most).ok());
    let work = Work::Reindex(Reindex {
        settings: settings.map(Box::new),
        activate,
        keep_previous,
        records_per_second,
        counts_all: true,
    });
    begin(&app, collection, work).await
}

/// Delete superfluous duplicates
///
/// One record of each group of exact duplicates is kept. Unless `dry_run` is `false`, nothing is deleted, and the result of the task lists the
/// records that would be deleted. A record is kept if a person has decided that it differs from a member of its group. Each record is checked again
/// before it is deleted, and is kept if it or the record that makes it superfluous has changed.
#[utoipa::path(post, path = "/v1/admin/purge", operation_id = "startPurge", tag = "admin", request_body = PurgeInput,
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn purge(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let collection = collection(&mut input, administrator.reach());
    let keep = input.word("keep", "latest, earliest or first").unwrap_or_default();
    let near = input.truth("near").unwrap_or(false);
    let dry_run = input.truth("dry_run").unwrap_or(true);
    let from = input.text("from");
    let to = input.text("to");
    input.finish()?;
    let collection = collection?;
    let window = app.engine.window(&collection, from.as_deref(), to.as_deref()).await?;
    begin(&app, collection, Work::Purge(Purge { keep, near, dry_run, window })).await
}

/// Delete the records of a petitioner, or old records
///
/// Give either `identity` or `older_than_days`. Unless `dry_run` is `false`, nothing is deleted, and the result of the task contains the number of
/// records that would be deleted and the first 1,000 of their ids. The decisions about a deleted record are also deleted. Records that cannot be
/// read with the settings of the collection are not deleted; the result counts them as `unreadable`. Quotations of the deleted text in other
/// records, backups, exports and the logs of other systems do not change.
#[utoipa::path(post, path = "/v1/admin/erase", operation_id = "startErase", tag = "admin", request_body = EraseInput,
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn erase(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let collection = collection(&mut input, administrator.reach());
    let identity = input.text("identity");
    let days = input.number("older_than_days", 1, u64::from(MAX_RETENTION_DAYS));
    let dry_run = input.truth("dry_run").unwrap_or(true);
    input.finish()?;
    let collection = collection?;
    let which = match (identity, days.and_then(|days| u32::try_from(days).ok())) {
        (Some(identity), None) => ErasedRecords::Identity(Some(identity)),
        (None, Some(days)) => ErasedRecords::OlderThanDays(days),
        _ => {
            let detail = "give either identity or older_than_days";
            return Err(Problem::invalid_at("", ErrorCode::OneOf, detail));
        }
    };
    begin(&app, collection, Work::Erase(Erase { which, dry_run, by_retention: false })).await
}

/// Propose host names of the same web site
///
/// Compares stored records that contain the same path under different host names (fields of role `url`). Two host names are proposed if at least
/// half of these records have equal texts. The request loads no web pages and changes nothing. Add correct proposals to `host_aliases` in the
/// settings of the collection; this change requires a reindex. Host names that are already aliases of each other count as one name.
#[utoipa::path(post, path = "/v1/admin/host-aliases", operation_id = "proposeHostAlias", tag = "admin", request_body = HostAliasesInput,
    responses((status = 200, description = "the proposals", body = HostAliases),
        (status = 404, description = "the collection does not exist")))]
pub async fn host_aliases(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<HostAliases>, Problem> {
    let collection = collection(&mut input, administrator.reach());
    let records = input.number("records", 1, MOST_COMPARED).unwrap_or(USUALLY_COMPARED);
    input.finish()?;
    Ok(Json(app.engine.host_aliases(&collection?, records as usize).await?))
}

/// Reads the name of the collection. The key of the caller must be valid for it.
pub(super) fn collection(input: &mut ObjectReader, reach: &CollectionReach) -> Result<CollectionName, Problem> {
    let name = input.text("collection");
    let name = name.ok_or_else(|| refused_collection(ErrorCode::MissingKey, "name the collection".into()))?;
    let name = CollectionName::new(&name).map_err(|reason| refused_collection(ErrorCode::InvalidCollection, reason))?;
    reach.check(&name).map(|()| name)
}

fn refused_collection(code: ErrorCode, detail: String) -> Problem {
    Problem::invalid_at("/collection", code, detail)
}

/// Starts a task. The answer is 202 with the task.
pub(super) async fn begin(app: &App, collection: CollectionName, work: Work) -> Result<Response, Problem> {
    Ok(started(app.with_engine(|engine| async move { engine.begin_task(&collection, work).await }).await?))
}

/// Returns the answer 202 with a task.
pub(super) fn started(task: Task) -> Response {
    accepted(&task_path(&task), task)
}

/// Returns the path of a task.
pub(super) fn task_path(task: &Task) -> String {
    format!("/v1/tasks/{}", segment(&task.id))
}
