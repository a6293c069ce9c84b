//! Long work on a whole collection: asked for here, looked at under `/v1/tasks`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use crate::http::auth::{AdministratorIn, Reach};
use crate::http::extract::JsonBytes;
use crate::http::problem::Problem;
use crate::http::query::{Nothing, Params};
use crate::http::routes::input::Input;
use crate::http::routes::settings::{self, SettingsInput};
use crate::http::routes::{accepted, segment};
use crate::http::state::App;
use doppel_core::collection::{CollectionName, MAX_RETENTION_DAYS, Settings};
use doppel_core::violation::Violation;
use doppel_engine::hosts::HostAliases;
use doppel_engine::tasks::{Erase, Erased, Purge, Reindex, Survivor, Task, Work};

/// What to rebuild.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct ReindexInput {
    /// The collection.
    collection: CollectionName,
    /// New settings; those it has unless given.
    settings: Option<SettingsInput>,
    /// Whether the new generation answers as soon as it is complete; otherwise it can be compared first.
    #[schema(default = true)]
    activate: Option<bool>,
    /// Whether the generation that answered until then is kept beside the new one, so that one can go back to it.
    #[schema(default = true)]
    keep_previous: Option<bool>,
    /// Most records a second; as many as go unless given.
    #[schema(minimum = 1)]
    records_per_second: Option<u32>,
}

/// What to purge.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct PurgeInput {
    /// The collection.
    collection: CollectionName,
    /// Which record of a group of duplicates stays.
    #[schema(default = "latest")]
    keep: Option<Survivor>,
    /// Also near duplicates: all of a group but one are deleted, unless the group is contested or chained.
    #[schema(default = false)]
    near: Option<bool>,
    /// Delete nothing, only say what would be deleted.
    #[schema(default = true)]
    dry_run: Option<bool>,
    /// Look only for duplicates of records whose time is not before this one, wherever in the collection they are: of each set
    /// that such a record is in, the survivor of the whole set stays. A date or time in any form that records may have, in the
    /// collection's time zone.
    #[schema(min_length = 1, max_length = 64)]
    from: Option<String>,
    /// ... and is before this one.
    #[schema(min_length = 1, max_length = 64)]
    to: Option<String>,
}

/// Whose records to delete, or how old ones.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct EraseInput {
    /// The collection.
    collection: CollectionName,
    /// Records one of whose fields of role `identity` has this value, as the collection normalises it. Not kept once the task has
    /// ended.
    #[schema(min_length = 1, max_length = 256)]
    identity: Option<String>,
    /// Records whose content was stored (`stored_at`) more than so many days, of 24 hours, ago.
    #[schema(minimum = 1, maximum = 36_500)]
    older_than_days: Option<u32>,
    /// Delete nothing, only say what would be deleted.
    #[schema(default = true)]
    dry_run: Option<bool>,
}

/// Records whose hosts are compared, at most and usually: some seconds and a fraction of one.
const MOST_COMPARED: u64 = 100_000;
const USUALLY_COMPARED: u64 = 10_000;

/// Whose hosts to compare.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct HostAliasesInput {
    /// The collection.
    collection: CollectionName,
    /// How many of its records are read, the earliest.
    #[schema(minimum = 1, maximum = 100_000, default = 10_000)]
    records: Option<u32>,
}

/// Rebuild the whole index of a collection
///
/// Signs every record anew, beside the index that answers, then switches. Requests are served all the while. One task a
/// collection at a time (409). The generation that answered before is kept, older ones are dropped.
#[utoipa::path(post, path = "/v1/admin/reindex", operation_id = "startReindex", tag = "admin", request_body = ReindexInput,
    responses((status = 202, description = "asked for; `Location` is the task", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn reindex(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: Params<Nothing>,
    JsonBytes(body): JsonBytes,
) -> Result<Response, Problem> {
    let mut input = Input::parse(&body)?;
    let collection = collection(&mut input, administrator.reach());
    let given = input.take("settings");
    let activate = input.truth("activate").unwrap_or(true);
    let keep_previous = input.truth("keep_previous").unwrap_or(true);
    let records_per_second = input.number("records_per_second", 1, u64::from(u32::MAX));
    input.finish()?;
    let collection = collection?;
    let given = given.map(|given| settings::from_value(given).map_err(|problem| problem.below("/settings")));
    let settings: Option<Settings> = given.transpose()?;
    let records_per_second = records_per_second.and_then(|most| u32::try_from(most).ok());
    let work = Work::Reindex(Reindex { settings: settings.map(Box::new), activate, keep_previous, records_per_second });
    begin(&app, collection, work).await
}

/// Delete superfluous duplicates
///
/// Of each group of exact duplicates one record stays. A dry run unless `dry_run` is `false`: the task's result then says what
/// would be deleted. A record that a person said is another matter than any of its group is left alone, and each is looked at
/// again before it goes: it stays if it, or the one that makes it superfluous, has changed meanwhile.
#[utoipa::path(post, path = "/v1/admin/purge", operation_id = "startPurge", tag = "admin", request_body = PurgeInput,
    responses((status = 202, description = "asked for; `Location` is the task", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn purge(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: Params<Nothing>,
    JsonBytes(body): JsonBytes,
) -> Result<Response, Problem> {
    let mut input = Input::parse(&body)?;
    let collection = collection(&mut input, administrator.reach());
    let keep = input.word("keep", "latest, earliest or first").unwrap_or_default();
    let near = input.truth("near").unwrap_or(false);
    let dry_run = input.truth("dry_run").unwrap_or(true);
    let (from, to) = (input.text("from"), input.text("to"));
    input.finish()?;
    let collection = collection?;
    let window = app.engine.window(&collection, from.as_deref(), to.as_deref()).await?;
    begin(&app, collection, Work::Purge(Purge { keep, near, dry_run, window })).await
}

/// Delete the records of a petitioner, or those past an age
///
/// Give `identity` or `older_than_days`. A dry run unless `dry_run` is `false`: the task's result then counts what would be deleted
/// and names the first 1,000. What was decided about a deleted record goes with it. Records that cannot be read by the collection's
/// settings stay, and are counted as `unreadable`. Text that other records quote, backups, exports and logs of other systems are not
/// looked at.
#[utoipa::path(post, path = "/v1/admin/erase", operation_id = "startErase", tag = "admin", request_body = EraseInput,
    responses((status = 202, description = "asked for; `Location` is the task", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn erase(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: Params<Nothing>,
    JsonBytes(body): JsonBytes,
) -> Result<Response, Problem> {
    let mut input = Input::parse(&body)?;
    let collection = collection(&mut input, administrator.reach());
    let identity = input.text("identity");
    let days = input.number("older_than_days", 1, u64::from(MAX_RETENTION_DAYS));
    let dry_run = input.truth("dry_run").unwrap_or(true);
    input.finish()?;
    let collection = collection?;
    let which = match (identity, days.and_then(|days| u32::try_from(days).ok())) {
        (Some(identity), None) => Erased::Identity(Some(identity)),
        (None, Some(days)) => Erased::OlderThanDays(days),
        _ => {
            let detail = "give either identity or older_than_days";
            return Err(Problem::invalid(vec![Violation::new("", "one_of", detail)]));
        }
    };
    begin(&app, collection, Work::Erase(Erase { which, dry_run, by_retention: false })).await
}

/// Propose names of hosts that mean one web site
///
/// Compares pages of the same path that stored records name under different hosts (fields of role `url`): two names whose pages
/// mostly say the same are proposed. Fetches nothing, changes nothing: what is right goes into `host_aliases` of the
/// collection's settings, which takes a reindex. Names that are aliases already count as one.
#[utoipa::path(post, path = "/v1/admin/host-aliases", operation_id = "proposeHostAlias", tag = "admin", request_body = HostAliasesInput,
    responses((status = 200, description = "the proposals", body = HostAliases),
        (status = 404, description = "the collection does not exist")))]
pub async fn host_aliases(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: Params<Nothing>,
    JsonBytes(body): JsonBytes,
) -> Result<Json<HostAliases>, Problem> {
    let mut input = Input::parse(&body)?;
    let collection = collection(&mut input, administrator.reach());
    let records = input.number("records", 1, MOST_COMPARED).unwrap_or(USUALLY_COMPARED);
    input.finish()?;
    Ok(Json(app.engine.host_aliases(&collection?, records as usize).await?))
}

/// The collection that the body names, which must be one that the caller's key is for.
fn collection(input: &mut Input, reach: &Reach) -> Result<CollectionName, Problem> {
    let refused = |code, detail: String| Problem::invalid(vec![Violation::new("/collection", code, detail)]);
    let name = input.text("collection");
    let name = name.ok_or_else(|| refused("missing_key", "name the collection".into()))?;
    let name = CollectionName::new(&name).map_err(|reason| refused("invalid_collection", reason))?;
    reach.check(&name).map(|()| name)
}

/// Asks for the work; 202 with the task.
pub(super) async fn begin(app: &App, collection: CollectionName, work: Work) -> Result<Response, Problem> {
    let engine = app.engine.clone();
    let task = app.detached(async move { engine.begin_task(&collection, work).await }).await?;
    Ok(accepted(&format!("/v1/tasks/{}", segment(&task.id)), task))
}
