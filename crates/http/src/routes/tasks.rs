//! Reads, follows and cancels tasks.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{AdministratorIn, CollectionReach, ReaderIn, ShownKey};
use crate::cursor::CursorList;
use crate::extract::InTask;
use crate::permits::watcher_place;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::state::App;
use doppel_config::auth::Scope;
use doppel_engine::tasks::Task;
use doppel_service::shutdown::Phase;

/// Interval at which a followed task is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval at which a follower gets a message even if nothing has changed.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// A list shows only the plain members of a result that is longer than this, in bytes of JSON. Otherwise a thousand results with ten
/// thousand records each would be half a gigabyte.
const LISTED_RESULT_BYTES: usize = 4 << 10;

/// The default and the largest number of tasks in one answer.
const MOST_LISTED: u64 = 1000;

/// One page of the list of tasks.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TaskList {
    /// The tasks, newest first. The last 1,000 tasks that have ended are kept. If a result is longer than 4 KiB, the list shows it without members
    /// that are lists or objects, and with `abridged`. Read the task to get the whole result.
    pub items: Vec<Task>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// The part of the list to return.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Largest number of tasks in the response, 1 to 1000. The default is 1000.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of an earlier response, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<(String, String)>,
}

impl QueryParameters for ListParams {
    fn read(query: &mut QueryReader) -> Self {
        let limit = query.number("limit", 1, MOST_LISTED).unwrap_or(MOST_LISTED) as usize;
        let cursor = query.cursor(|text| CursorList::Tasks.decode_texts(text));
        Self { limit, cursor }
    }
}

/// List tasks
#[utoipa::path(get, path = "/v1/tasks", operation_id = "listTasks", tag = "admin", params(ListParams),
    responses((status = 200, description = "one page of the stored tasks, newest first", body = TaskList)))]
pub async fn list(
    reader: ReaderIn,
    State(app): State<App>,
    CheckedParameters(params): CheckedParameters<ListParams>,
) -> Result<Json<TaskList>, Problem> {
    let mut tasks = app.engine.tasks().await?;
    tasks.retain(|task| reader.reach().includes(&task.collection));
    tasks.retain(|task| params.cursor.as_ref().is_none_or(|after| place(task) < *after));
    let more = tasks.len() > params.limit;
    tasks.truncate(params.limit);
    let next = tasks.last().filter(|_| more).map(|last| CursorList::Tasks.encode_texts(&last.created_at, &last.id));
    Ok(Json(TaskList { items: tasks.into_iter().map(abridged).collect(), next }))
}

/// Returns the position of a task in the list.
fn place(task: &Task) -> (String, String) {
    (task.created_at.clone(), task.id.clone())
}

/// Removes lists and objects from a long result.
fn abridged(mut task: Task) -> Task {
    if task.result.to_string().len() > LISTED_RESULT_BYTES
        && let Some(members) = task.result.as_object_mut()
    {
        members.retain(|_, member| !member.is_array() && !member.is_object());
        members.insert("abridged".into(), true.into());
    }
    task
}

/// Read a task: its status, its progress and its result
#[utoipa::path(get, path = "/v1/tasks/{task}", operation_id = "getTask", tag = "admin", params(("task" = String, Path)),
    responses((status = 200, description = "the task", body = Task),
        (status = 404, description = "no task has this id")))]
pub async fn get(
    reader: ReaderIn,
    State(app): State<App>,
    InTask(task): InTask,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<Task>, Problem> {
    Ok(Json(task_within(&app, reader.reach(), &task).await?))
}

/// Reads a task of a collection in `reach`. A task of another collection is answered like a task that does not exist.
///
/// # Errors
/// 404 `unknown_task`.
async fn task_within(app: &App, reach: &CollectionReach, id: &str) -> Result<Task, Problem> {
    let task = app.engine.task(id).await?;
    if reach.includes(&task.collection) { Ok(task) } else { Err(doppel_engine::Error::UnknownTask.into()) }
}

/// Request the cancellation of a task
///
/// If the task is building a generation, the generation is deleted. A task that has ended does not change. If the generation of the task is already
/// complete or is becoming live, the task continues to its end.
#[utoipa::path(post, path = "/v1/tasks/{task}/cancel", operation_id = "cancelTask", tag = "admin", params(("task" = String, Path)),
    responses((status = 200, description = "the task; `cancel_requested` is true while the task has not stopped yet", body = Task),
        (status = 404, description = "no task has this id")))]
pub async fn cancel(
    administrator: AdministratorIn,
    State(app): State<App>,
    InTask(task): InTask,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<Task>, Problem> {
    if !administrator.reach().is_everything() {
        task_within(&app, administrator.reach(), &task).await?;
    }
    Ok(Json(app.with_engine(|engine| async move { engine.cancel_task(&task).await }).await?))
}

/// Follow a task
///
/// Sends server-sent events named `task` with the task as JSON: one event at once, and one after each change, until the task has ended. The stream
/// may end earlier if too many clients wait (`limits.max_watchers`); repeat the request to continue.
#[utoipa::path(get, path = "/v1/tasks/{task}/events", operation_id = "followTask", tag = "admin", params(("task" = String, Path)),
    responses((status = 200, description = "a stream of events", body = String, content_type = "text/event-stream"),
        (status = 404, description = "no task has this id")))]
pub async fn events(
    reader: ReaderIn,
    State(app): State<App>,
    InTask(id): InTask,
    _: CheckedParameters<NoParameters>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let first = task_within(&app, reader.reach(), &id).await?;
    let place = watcher_place(&app, &reader.0);
    let caller = reader.0.key;
    let held = place.clone().drop_guard();
    let stream = stream::unfold(Some((app, first, None, (place, held), caller)), |state| async move {
        let (app, task, shown, (place, held), caller) = state?;
        // Another caller took the place. The client sees the end of the stream and follows the task again.
        let task = tokio::select! {
            biased;
            task = changed(&app, task, shown, caller.as_ref()) => task?,
            () = place.cancelled() => return None,
        };
        let event = Event::default().event("task").json_data(&task).ok()?;
        let ended = task.status.is_finished();
        let shown = task.version;
        Some((Ok(event), (!ended).then_some((app, task, Some(shown), (place, held), caller))))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE_EVERY)))
}

/// Waits until the task has another version than `shown`, and returns it. `None` if the service stops, if the task cannot be read, or if
/// the key of the caller is no longer valid.
async fn changed(app: &App, mut task: Task, shown: Option<u64>, caller: Option<&ShownKey>) -> Option<Task> {
    while shown == Some(task.version) {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = app.shutdown.reached(Phase::Grace) => return None,
        }
        if !app.keys.still_allows(caller, Scope::Read) {
            return None;
        }
        task = app.engine.task(&task.id).await.ok()?;
    }
    Some(task)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use doppel_core::collection::CollectionName;
    use doppel_store::tasks::TaskStatus;

    fn with(result: Value) -> Task {
        Task {
            id: "1".into(),
            collection: CollectionName::new("letters").unwrap(),
            kind: "purge".into(),
            status: TaskStatus::Succeeded,
            phase: "delete".into(),
            done: 0,
            total: 0,
            rate: 0.0,
            eta_s: None,
            cancel_requested: false,
            request: Value::Null,
            result,
            error: None,
            created_at: String::new(),
            started_at: None,
            finished_at: None,
            version: 3,
        }
    }

    #[test]
    fn a_list_shows_the_counts_of_a_long_result_and_all_of_a_short_one() {
        let short = json!({ "deleted": 1, "records": [{ "id": "a", "kept": "b" }] });
        assert_eq!(abridged(with(short.clone())).result, short);
        let long = json!({ "deleted": 900, "keep": "latest", "records": vec![json!({ "id": "a", "kept": "b" }); 900] });
        let shown = json!({ "deleted": 900, "keep": "latest", "abridged": true });
        assert_eq!(abridged(with(long)).result, shown);
        assert_eq!(abridged(with(Value::Null)).result, Value::Null);
    }
}
