//! Handlers that only parse a JSON body and answer, to measure the cost of any HTTP service. No route of the service uses them.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Json, Router};
use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Serialize;

use doppel_http::server::accept;

/// Makes bytes durable before it returns.
pub type Append = Arc<dyn Fn(Bytes) -> BoxFuture<'static, io::Result<()>> + Send + Sync>;

/// Serves all paths on `listener` forever. It parses the body, makes it durable if `append` is given, and answers with about 200 bytes of
/// JSON.
///
/// # Errors
/// The listener cannot be used.
pub async fn serve(listener: TcpListener, append: Option<Append>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let router = match append {
        None => Router::new().fallback(any(answer)),
        Some(append) => Router::new().fallback(any(keep)).with_state(append),
    };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let stream = TokioIo::new(accept(&listener).await);
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(http1::Builder::new().serve_connection(stream, service));
    }
}

#[derive(Serialize)]
struct Answer {
    verdict: &'static str,
    fields: usize,
    filler: &'static str,
}

impl Answer {
    fn to(row: &serde_json::Value) -> Json<Self> {
        const FILLER: &str = "what follows makes an answer of the usual length, about two hundred bytes, as a verdict with \
one similar record has, so that both write as much.........";
        Json(Self { verdict: "original", fields: row.as_object().map_or(0, |object| object.len()), filler: FILLER })
    }
}

async fn answer(Json(row): Json<serde_json::Value>) -> Json<Answer> {
    Answer::to(&row)
}

async fn keep(State(append): State<Append>, body: Bytes) -> Response {
    let Ok(row) = serde_json::from_slice(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    match append(body).await {
        Ok(()) => (StatusCode::CREATED, Answer::to(&row)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn an_answer_has_about_200_bytes() {
        let axum::Json(answer) = Answer::to(&serde_json::json!({}));
        let bytes = serde_json::to_vec(&answer).unwrap().len();
        assert!((180..=220).contains(&bytes), "{bytes}");
    }
}
