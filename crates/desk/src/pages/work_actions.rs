//! The actions of the page of tasks: rebuilding the index, cancelling a task, activating a generation, and discarding a generation.
//!
//! Each action needs the scope `admin`, as in the API, and redirects to the page. The page shows the outcome, also if the current state
//! forbids the action.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::page::{self, DeskSection, SeeOther};
use crate::visitor::AdminVisitor;
use crate::words::WorkDone;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_engine::tasks::{Activate, Reindex, Task, Work};
use doppel_http::extract::{InCollection, InGeneration, InTask};
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_store::tasks::TaskStatus;

/// Rebuilds the index with the current settings.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn rebuild(
    _: AdminVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: FormFields,
) -> Result<Response, Problem> {
    let work = Work::Reindex(Reindex {
        settings: None,
        activate: true,
        keep_previous: true,
        records_per_second: None,
        counts_all: true,
    });
    begin(&app, &collection, work, WorkDone::Rebuilding).await
}

/// Activates a generation.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn activate(
    _: AdminVisitor,
    State(app): State<App>,
    InGeneration(collection, generation): InGeneration,
    _: FormFields,
) -> Result<Response, Problem> {
    begin(&app, &collection, Work::Activate(Activate { generation }), WorkDone::Activating).await
}

/// Removes a generation that is not live.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn discard(
    _: AdminVisitor,
    State(app): State<App>,
    InGeneration(collection, generation): InGeneration,
    _: FormFields,
) -> Result<Response, Problem> {
    let name = collection.clone();
    let dropped = app.with_engine(|engine| async move { engine.drop_generation(&name, generation).await }).await;
    told(&collection, dropped.map(|()| WorkDone::Dropped(generation.0)))
}

/// Cancels a task of the collection.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn cancel(
    _: AdminVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    InTask(task): InTask,
    _: FormFields,
) -> Result<Response, Problem> {
    app.engine.settings(&collection).await?;
    let done = match app.engine.task(&task).await {
        Ok(before) if before.collection != collection => Ok(WorkDone::Gone),
        Ok(before) if before.status.is_finished() => Ok(WorkDone::EndedBefore),
        Ok(_) => {
            app.with_engine(|engine| async move { engine.cancel_task(&task).await }).await.map(|task| stopped(&task))
        }
        Err(error) => Err(error.into()),
    };
    told(&collection, done)
}

fn stopped(task: &Task) -> WorkDone {
    match task.status {
        TaskStatus::Canceled => WorkDone::Canceled,
        TaskStatus::Enqueued | TaskStatus::Processing => WorkDone::Stopping,
        TaskStatus::Succeeded | TaskStatus::Failed => WorkDone::EndedBefore,
    }
}

/// Starts a task and redirects to the page.
pub(super) async fn begin(
    app: &App,
    collection: &CollectionName,
    work: Work,
    done: WorkDone,
) -> Result<Response, Problem> {
    let name = collection.clone();
    let begun = app.with_engine(|engine| async move { engine.begin_task(&name, work).await }).await;
    told(collection, begun.map(|_| done))
}

fn told(collection: &CollectionName, done: Result<WorkDone, Problem>) -> Result<Response, Problem> {
    let done = done.or_else(|problem| refused(problem.code()).ok_or(problem))?;
    let place = page::below(collection, DeskSection::Work.path());
    Ok(SeeOther::to(place).telling(&FlashMessage::Work(done)).into_response())
}

/// Returns the outcome for a refusal that is caused by the current state and not by the form.
fn refused(code: ErrorCode) -> Option<WorkDone> {
    match code {
        ErrorCode::TaskRunning => Some(WorkDone::Busy),
        ErrorCode::TooManyGenerations => Some(WorkDone::NoRoom),
        ErrorCode::GenerationBuilding => Some(WorkDone::Building),
        ErrorCode::GenerationLive => Some(WorkDone::Live),
        ErrorCode::UnknownGeneration | ErrorCode::UnknownTask => Some(WorkDone::Gone),
        _ => None,
    }
}
