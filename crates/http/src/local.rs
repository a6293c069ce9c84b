//! Answers requests without a connection. Commands that open a data directory themselves use it.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};
use parking_lot::Mutex;
use tower::ServiceExt;

use crate::router;
use crate::state::App;
use doppel_engine::runner::{SETTLING, TaskRunner};

/// The service without a network.
#[derive(Clone)]
pub struct LocalService {
    app: App,
    router: Router,
    /// The tasks of the service; `None` after the end.
    tasks: Arc<Mutex<Option<TaskRunner>>>,
}

/// The body of a response.
pub type LocalBody = Body;

impl LocalService {
    /// Creates the service for `app`.
    pub fn new(app: App) -> Self {
        let tasks = Arc::new(Mutex::new(Some(TaskRunner::start(&app.engine))));
        Self { router: router::router(app.clone()), app, tasks }
    }

    /// Answers one request, as if it had arrived on a connection.
    pub async fn call(&self, mut request: Request<Full<Bytes>>) -> Response<LocalBody> {
        request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
        let answer = self.router.clone().oneshot(request.map(Body::new)).await;
        answer.unwrap_or_else(|never| match never {})
    }

    pub fn engine(&self) -> &doppel_engine::Engine {
        &self.app.engine
    }

    /// Waits for writes and renewals in progress, and closes the store. The caller must not call anything afterwards. Returns false if a
    /// renewal took too long; the next process that opens the store then continues the renewal.
    ///
    /// # Errors
    /// The store cannot be closed.
    pub async fn close(&self) -> doppel_engine::Result<bool> {
        self.app.writes.close();
        self.app.writes.wait().await;
        let tasks = self.tasks.lock().take();
        let is_settled = match tasks {
            Some(tasks) => tasks.end(SETTLING).await,
            None => true,
        };
        self.app.engine.close().await?;
        Ok(is_settled)
    }
}
