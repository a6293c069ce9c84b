//! The list of all routes.

use axum::Router;
use axum::http::Uri;
use axum::middleware;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::routes::{
    accounts, admin, arrivals, bulk, changes, collections, decisions, event_decisions, events, explain, forms,
    generations, groups, keys, learning, lookup, operations, places, records, rows, snapshots, sources, statistics,
    tasks, webhooks,
};
use crate::state::App;
use crate::{extract, observe, openapi, problem::Problem};
use doppel_core::error_code::ErrorCode;

/// Returns all routes with their descriptions.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(collections::list))
        .routes(routes!(collections::put, collections::get, collections::delete))
        .routes(routes!(records::post, records::list))
        .routes(routes!(bulk::bulk))
        .routes(routes!(rows::get_many))
        .routes(routes!(records::put, records::get, records::delete))
        .routes(routes!(arrivals::list))
        .routes(routes!(changes::list))
        .routes(routes!(lookup::check))
        .routes(routes!(lookup::similar, lookup::similar_to_fingerprint))
        .routes(routes!(lookup::similar_to))
        .merge(search_routes())
        .routes(routes!(explain::explain))
        .routes(routes!(events::list))
        .routes(routes!(events::get))
        .routes(routes!(event_decisions::merge))
        .routes(routes!(event_decisions::split))
        .routes(routes!(event_decisions::confirm))
        .routes(routes!(event_decisions::handle))
        .routes(routes!(groups::list))
        .routes(routes!(groups::get))
        .routes(routes!(groups::merge))
        .routes(routes!(groups::split))
        .routes(routes!(groups::choose_original, groups::clear_original))
        .routes(routes!(decisions::list))
        .routes(routes!(decisions::put, decisions::get, decisions::delete))
        .routes(routes!(learning::learn))
        .routes(routes!(learning::use_model))
        .routes(routes!(forms::of_group))
        .routes(routes!(forms::propose))
        .routes(routes!(forms::teach))
        .routes(routes!(forms::forget))
        .routes(routes!(places::list, places::replace))
        .routes(routes!(generations::list))
        .routes(routes!(generations::delete))
        .routes(routes!(generations::activate))
        .routes(routes!(generations::compare))
        .routes(routes!(statistics::get, statistics::count))
        .routes(routes!(admin::reindex))
        .routes(routes!(admin::purge))
        .routes(routes!(admin::erase))
        .routes(routes!(admin::host_aliases))
        .routes(routes!(snapshots::list, snapshots::begin))
        .routes(routes!(snapshots::cancel))
        .routes(routes!(snapshots::stream))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(accounts::create, accounts::list))
        .routes(routes!(accounts::change, accounts::remove))
        .routes(routes!(accounts::set_password))
        .routes(routes!(sources::list))
        .routes(routes!(webhooks::list))
        .routes(routes!(sources::import))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::get))
        .routes(routes!(tasks::cancel))
        .routes(routes!(tasks::events))
        .routes(routes!(operations::root))
        .routes(routes!(operations::livez))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
        .routes(routes!(operations::version))
        .routes(routes!(operations::openapi_yaml))
        .routes(routes!(operations::openapi_json))
}

#[cfg(feature = "search")]
fn search_routes() -> OpenApiRouter<App> {
    use crate::routes::{search, vectors};
    let router = OpenApiRouter::new().routes(routes!(search::related)).routes(routes!(search::related_to));
    router.routes(routes!(search::search)).routes(routes!(vectors::get, vectors::change))
}

/// This build has no search.
#[cfg(not(feature = "search"))]
fn search_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}

/// Creates the router of the service.
pub fn router(app: App) -> Router {
    let (router, _) = routes().split_for_parts();
    let cors = app.origins.cors();
    let pages = app.pages.clone().map_or_else(Router::new, |pages| pages.routes(&app));
    let router = router
        .merge(openapi::pages())
        .merge(pages)
        .fallback(fallback)
        .layer(middleware::from_fn_with_state(app.clone(), observe::around))
        .with_state(app);
    match cors {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

/// Answers a request to an unknown URL. Gives a hint if the URL looks like the URL of a record without the id.
async fn fallback(uri: Uri) -> Problem {
    if let ["", "v1", "collections", _, "records", ""] = uri.path().split('/').collect::<Vec<_>>().as_slice()
        && let Err(problem) = extract::record_id("id", "")
    {
        return problem;
    }
    let detail = "there is nothing at this URL; /openapi.yaml lists all URLs";
    Problem::unknown(ErrorCode::UnknownRoute, "/path", detail)
}
