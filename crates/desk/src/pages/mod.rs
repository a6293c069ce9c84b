//! The pages of the desk, one file per page.

pub mod batch;
pub mod case;
pub mod check;
pub mod compare;
pub mod decide;
pub mod event;
pub mod event_actions;
pub mod events;
pub mod events_file;
pub mod files;
pub mod group;
pub mod groups;
pub mod inbox;
pub mod inbox_file;
mod inbox_place;
pub mod me;
pub mod oidc;
pub mod pair;
pub mod people;
pub mod quality;
pub mod regroup;
pub mod regroup_plan;
pub mod related;
pub mod report;
pub mod report_file;
pub mod search;
pub mod sign_in;
pub mod start;
pub mod statistics;
pub mod work;
pub mod work_actions;

use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};

use crate::files::START_ROUTE;
use crate::pages::event_actions::EventActionKind;
use crate::pages::regroup_plan::GroupActionKind;
use doppel_http::state::App;

/// Returns the routes of all pages and actions. The fallback of the whole router answers requests for other paths.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/console", get(start::show))
        .merge(starting())
        .merge(people_routes())
        .route("/console/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/console/sign-in/oidc", post(oidc::begin))
        .route("/console/sign-in/oidc/callback", get(oidc::finish))
        .route("/console/sign-out", get(sign_in::namesake).post(sign_in::sign_out))
        .route("/console/{collection}", get(inbox::first))
        .route("/console/{collection}/inbox", get(inbox::show))
        .route("/console/{collection}/inbox.csv", get(inbox_file::export))
        .route("/console/{collection}/batch", get(batch::preview).post(batch::decide))
        .route("/console/{collection}/case/{id}", get(case::show))
        .route("/console/{collection}/check", get(check::show).post(check::check))
        .route("/console/{collection}/register", post(check::register))
        .merge(files::routes())
        .route("/console/{collection}/decide", post(decide::decide))
        .route("/console/{collection}/search", get(search::show))
        .route("/console/{collection}/search.csv", get(search::export))
        .route("/console/{collection}/groups", get(groups::show))
        .route("/console/{collection}/groups.csv", get(groups::export))
        .route("/console/{collection}/groups/{id}", get(group::show))
        .route("/console/{collection}/groups/{id}/members.csv", get(group::export))
        .route("/console/{collection}/groups/{id}/cut", group_action(GroupActionKind::Cut))
        .route("/console/{collection}/groups/{id}/join", group_action(GroupActionKind::Join))
        .route("/console/{collection}/groups/{id}/merge", group_action(GroupActionKind::Merge))
        .route("/console/{collection}/events", get(events::show))
        .route("/console/{collection}/events.xlsx", get(events_file::export))
        .route("/console/{collection}/events/{id}", get(event::show))
        .route("/console/{collection}/events/{id}/confirm", event_action(EventActionKind::Confirm))
        .route("/console/{collection}/events/{id}/remove", event_action(EventActionKind::Remove))
        .route("/console/{collection}/events/{id}/merge", event_action(EventActionKind::Merge))
        .route("/console/{collection}/events/{id}/handling", post(event_actions::handle))
        .route("/console/{collection}/undo", post(regroup::undo))
        .route("/console/{collection}/statistics", get(statistics::show))
        .route("/console/{collection}/report", get(report::show))
        .route("/console/{collection}/report.xlsx", get(report_file::export))
        .route("/console/{collection}/quality", get(quality::show))
        .route("/console/{collection}/quality/try", post(quality::try_out))
        .merge(work())
}

/// Returns the preview of an action on a group, and the action.
fn group_action(kind: GroupActionKind) -> MethodRouter<App> {
    get(regroup::show).post(regroup::act).layer(Extension(kind))
}

fn event_action(kind: EventActionKind) -> MethodRouter<App> {
    post(event_actions::act).layer(Extension(kind))
}

/// Returns the routes that begin a collection. No collection has the name `-`, so that the routes hide no collection.
fn starting() -> Router<App> {
    Router::new()
        .route("/console/-/collections", post(start::create))
        .route("/console/-/demo", post(start::load_demo))
        // The upload has its own limit: it is streamed, never held in memory.
        .route(START_ROUTE, post(start::upload).layer(DefaultBodyLimit::disable()))
}

/// Returns the routes of accounts and sessions. No collection has the name `-`.
fn people_routes() -> Router<App> {
    Router::new()
        .route("/console/-/me", get(me::show))
        .route("/console/-/me/password", post(me::change_password))
        .route("/console/-/sessions/end", post(me::end_session))
        .route("/console/-/people", get(people::show).post(people::create))
        .route("/console/-/people/{account}", get(people::person).post(people::change))
        .route("/console/-/people/{account}/password", post(people::reset_password))
        .route("/console/-/people/{account}/remove", post(people::remove))
}

/// Returns the routes of tasks and generations.
fn work() -> Router<App> {
    Router::new()
        .route("/console/{collection}/work", get(work::show))
        .route("/console/{collection}/work/now", get(work::now))
        .route("/console/{collection}/work/rebuild", post(work_actions::rebuild))
        .route("/console/{collection}/work/tasks/{task}/cancel", post(work_actions::cancel))
        .route("/console/{collection}/work/generations/{generation}", get(compare::show))
        .route("/console/{collection}/work/generations/{generation}/activate", post(work_actions::activate))
        .route("/console/{collection}/work/generations/{generation}/discard", post(work_actions::discard))
}
