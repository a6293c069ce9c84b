//! All errors that an HTTP client can see: RFC 9457 `application/problem+json`, made in one place.
//!
//! The status of an error:
//! * **The request cannot be parsed** (not JSON, not UTF-8, a broken URL): 400.
//! * **The request is not valid** (a wrong value, an unknown parameter or key): 422. `errors` lists every violation with a JSON pointer,
//!   `?name` for a query parameter, or `/path/name` for a part of the URL.
//! * **The caller is not allowed**: 401 for a missing or wrong key, 403 if the key lacks a scope, which the error names.
//! * **The resource is not available**: 404 it does not exist, 405 it does not support the method (`Allow` lists the supported methods),
//!   409 its state does not allow the request, 410 it is no longer kept.
//! * **The transfer failed**: 406, 408 for a slow body, 413 above a limit, which the error names (a line of a bulk body has
//!   `line_too_large`), 415.
//! * **The service cannot do it now**: 429 above the rate of the key, 503, 507 for a full disk; the first two have `Retry-After`.
//!   `retryable` is true: the same request may succeed later. After a 507 nothing was written. After a 503 `outcome_unknown` the request
//!   was executed completely or not at all, and a repeated request shows which (the disk became full during the write, or the database did
//!   not confirm it).
//! * **There is a bug**: 500, and only then. The cause is logged under the request id and never sent to the client.
//!
//! A handler returns a [`Problem`]. It is in the extensions of the response until [`finish`] writes the body, because only `finish` knows
//! the request id, and because `finish` also converts the rejections of axum.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use doppel_engine::Error as EngineError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::wording;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RowError;
use doppel_core::violation::Violation;
use doppel_texts::{self as texts, Language};

use doppel_store::{Seq, StoreError};

/// Seconds after which a request for events may succeed whose records are being read.
const EVENTS_RETRY_S: u32 = 5;

pub const MEDIA_TYPE: &str = "application/problem+json";

/// Largest number of mistakes in one answer, so that the answer is small. A client that corrects these mistakes gets the remaining mistakes
/// with its next request.
pub const MOST_VIOLATIONS: usize = 20;

/// An error of a request.
#[derive(Clone, Debug)]
pub struct Problem(Box<ProblemFacts>);

#[derive(Clone, Debug)]
struct ProblemFacts {
    status: StatusCode,
    code: ErrorCode,
    detail: String,
    errors: Vec<Violation>,
    retry_after_s: Option<u32>,
    retryable: bool,
    cause: Option<String>,
    header: Option<(HeaderName, HeaderValue)>,
    begin_at: Option<Seq>,
    language: Language,
}

/// The body of every error (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// Always `about:blank`. Programs should use `code`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The HTTP status in words.
    pub title: &'static str,
    /// The HTTP status code.
    pub status: u16,
    /// The reason of the error, for programs. It does not change between versions.
    pub code: ErrorCode,
    /// The error and a way to correct it, for people.
    pub detail: &'a str,
    /// The id of this request in the log of the service; absent if it has none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub request_id: &'a str,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// The violations of the request; absent if there are none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<Violation>)]
    pub errors: &'a [Violation],
    /// Only for `changes_forgotten`: the value of `since` with which a client can continue after it has read all records and decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub begin_at: Option<Seq>,
}

impl Problem {
    /// Creates a problem with `status`. The problem is retryable for the statuses 408, 429, 503 and 507.
    pub fn new(status: StatusCode, code: ErrorCode, detail: impl Into<String>) -> Self {
        let retryable = matches!(status.as_u16(), 408 | 429 | 503 | 507);
        let retry_after_s = matches!(status.as_u16(), 429 | 503).then_some(1);
        let detail = detail.into();
        Self(Box::new(ProblemFacts {
            status,
            code,
            detail,
            errors: Vec::new(),
            retry_after_s,
            retryable,
            cause: None,
            header: None,
            begin_at: None,
            language: Language::English,
        }))
    }

    /// Creates a problem at one place of the request.
    pub fn at(
        status: StatusCode,
        code: ErrorCode,
        pointer: impl Into<String>,
        detail: impl Into<String> + Clone,
    ) -> Self {
        let mut problem = Self::new(status, code, detail.clone());
        problem.0.errors.push(Violation::new(pointer, code, detail));
        problem
    }

    /// Creates the 409 for a request that the state of the service forbids.
    pub fn conflict(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// Creates the 404 for a part of the request that names an unknown object.
    pub fn unknown(code: ErrorCode, pointer: impl Into<String>, detail: impl Into<String> + Clone) -> Self {
        Self::at(StatusCode::NOT_FOUND, code, pointer, detail)
    }

    /// Creates the 503 for a request that the service cannot answer now.
    pub fn unavailable(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
    }

    /// Creates the 400 for a request that the service cannot read.
    pub fn malformed(code: ErrorCode, detail: impl Into<String> + Clone) -> Self {
        Self::at(StatusCode::BAD_REQUEST, code, "", detail)
    }

    /// Creates the 422 for one value.
    pub fn invalid_at(pointer: impl Into<String>, code: ErrorCode, detail: impl Into<String>) -> Self {
        Self::invalid(vec![Violation::new(pointer, code, detail)])
    }

    /// Makes a 422 for `errors`. It shows at most [`MOST_VIOLATIONS`] of them. If all have the same code, it is the code of the problem;
    /// otherwise the code is `invalid_request`.
    pub fn invalid(mut errors: Vec<Violation>) -> Self {
        let code = match errors.as_slice() {
            [first, rest @ ..] if rest.iter().all(|other| other.code == first.code) => first.code,
            _ => ErrorCode::InvalidRequest,
        };
        let detail = match errors.as_slice() {
            [only] => only.detail.clone(),
            all if all.len() > MOST_VIOLATIONS => {
                format!("the request has more than the {MOST_VIOLATIONS} errors in errors")
            }
            _ => format!("the request has {} errors, see errors", errors.len()),
        };
        errors.truncate(MOST_VIOLATIONS);
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail);
        problem.0.errors = errors;
        problem
    }

    /// Makes a 500. The cause is only logged.
    pub fn internal(cause: impl Into<String>) -> Self {
        let detail = "the service failed; its log has the cause under this request_id";
        let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, detail);
        problem.0.cause = Some(cause.into());
        problem
    }

    /// Creates the 503 of a service that is stopping.
    pub fn shutting_down() -> Self {
        Self::unavailable(ErrorCode::ShuttingDown, "the service is stopping; send it again in a moment")
    }

    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.retry_after_s = Some(seconds.max(1));
        self
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// Moves all pointers below `prefix`, for a value that is a part of a larger body.
    #[must_use]
    pub fn below(mut self, prefix: &str) -> Self {
        for error in &mut self.0.errors {
            error.pointer.insert_str(0, prefix);
        }
        self
    }

    /// Translates the texts for people.
    #[must_use]
    pub fn in_language(mut self, language: Language) -> Self {
        self.0.detail = texts::in_language(language, &self.0.detail).into_owned();
        wording::translate_into(language, &mut self.0.errors);
        self.0.language = language;
        self
    }

    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Returns the stable code of the reason.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// Returns the error and its remedy.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the violations of the request.
    pub fn errors(&self) -> &[Violation] {
        &self.0.errors
    }

    /// Returns the cause, which is only logged.
    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// Returns the body of the response with the request id.
    pub fn body<'a>(&'a self, request_id: &'a str) -> ProblemBody<'a> {
        let ProblemFacts {
            status,
            code,
            detail,
            errors,
            retry_after_s: _,
            retryable,
            cause: _,
            header: _,
            begin_at,
            language,
        } = &*self.0;
        ProblemBody {
            kind: "about:blank",
            title: wording::title(*language, status.canonical_reason().unwrap_or("Error")),
            status: status.as_u16(),
            code: *code,
            detail,
            request_id,
            retryable: *retryable,
            errors,
            begin_at: *begin_at,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.0.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Writes the body of a problem in `language`, also for rejections of axum. Responses with a status below 400 stay unchanged.
pub fn finish(mut response: Response, request_id: &str, language: Language) -> Response {
    if let Some(problem) = take(&mut response).map(|problem| problem.in_language(language)) {
        let body = serde_json::to_vec(&problem.body(request_id)).unwrap_or_default();
        write(&mut response, &problem, HeaderValue::from_static(MEDIA_TYPE), Body::from(body));
        wording::name(response.headers_mut(), language);
    }
    response
}

/// Removes and returns the problem of a response, also a problem that axum made; `None` for a status below 400.
pub fn take(response: &mut Response) -> Option<Problem> {
    response.extensions_mut().remove::<Problem>().or_else(|| foreign(response))
}

/// Sets `body` as the body of the response with `problem`.
pub fn write(response: &mut Response, problem: &Problem, content_type: HeaderValue, body: Body) {
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, content_type);
    if let Some(seconds) = problem.0.retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some((name, value)) = &problem.0.header {
        headers.insert(name, value.clone());
    }
    *response.body_mut() = body;
}

/// Returns the problem for an error that no handler of this service made.
fn foreign(response: &Response) -> Option<Problem> {
    let status = response.status();
    let (code, detail) = match status.as_u16() {
        0..400 => return None,
        404 => (ErrorCode::UnknownRoute, "there is nothing at this URL; /openapi.yaml lists all URLs"),
        405 => (ErrorCode::MethodNotAllowed, "the URL does not accept this method; the Allow header lists its methods"),
        413 => (ErrorCode::BodyTooLarge, "the body is too large"),
        415 => (ErrorCode::UnsupportedMediaType, "send application/json"),
        400..500 => (ErrorCode::MalformedRequest, "the request cannot be read"),
        _ => return Some(Problem::internal(format!("foreign response with status {status}"))),
    };
    Some(Problem::new(status, code, detail))
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let detail = error.to_string();
        match error {
            EngineError::UnknownCollection(_) => unknown_collection(detail),
            EngineError::UnknownRecord(..) => Self::unknown(ErrorCode::UnknownRecord, "/path/id", detail),
            EngineError::Invalid(errors) => Self::invalid(errors),
            EngineError::Side(side, error) => match *error {
                EngineError::UnknownRecord(..) => {
                    Self::unknown(ErrorCode::UnknownRecord, format!("/{side}/id"), detail)
                }
                EngineError::Invalid(errors) => Self::invalid(errors).below(&format!("/{side}/row")),
                other => other.into(),
            },
            EngineError::UnknownGeneration(..) => unknown_generation(detail),
            EngineError::OutdatedGeneration(..) => Self::conflict(ErrorCode::OutdatedGeneration, detail),
            EngineError::UnknownForm(_) => Self::new(StatusCode::NOT_FOUND, ErrorCode::UnknownForm, detail),
            EngineError::UnknownDecision(_) => Self::new(StatusCode::NOT_FOUND, ErrorCode::UnknownDecision, detail),
            EngineError::RejectedPair(..) => Self::conflict(ErrorCode::RejectedPair, detail),
            EngineError::TooManyLinks(_) => Self::conflict(ErrorCode::TooManyLinks, detail),
            EngineError::Ungrouped(_) => Self::unknown(ErrorCode::Ungrouped, "/path/id", detail),
            EngineError::HandlingChanged(_) => Self::conflict(ErrorCode::HandlingChanged, detail),
            EngineError::TooManySteps(_) => Self::conflict(ErrorCode::TooManySteps, detail),
            EngineError::NotCompared(_) => Self::conflict(ErrorCode::NotCompared, detail),
            EngineError::NoEvent(_) => Self::unknown(ErrorCode::NoEvent, "/path/id", detail),
            EngineError::EventsNotReady { .. } => {
                Self::unavailable(ErrorCode::EventsNotReady, detail).retry_after(EVENTS_RETRY_S)
            }
            EngineError::UnknownTask => Self::unknown(ErrorCode::UnknownTask, "/path/task", detail),
            EngineError::TaskRunning(..) => Self::conflict(ErrorCode::TaskRunning, detail),
            EngineError::TooManyCollections(..) => Self::conflict(ErrorCode::TooManyCollections, detail),
            EngineError::KeyExists(_) => Self::conflict(ErrorCode::KeyExists, detail),
            EngineError::UnknownKey(_) => Self::unknown(ErrorCode::UnknownKey, "/path/key", detail),
            EngineError::TooManyKeys => Self::conflict(ErrorCode::TooManyKeys, detail),
            EngineError::AccountExists(_) => Self::at(StatusCode::CONFLICT, ErrorCode::AccountExists, "/name", detail),
            EngineError::UnknownAccount(_) => Self::unknown(ErrorCode::UnknownAccount, "/path/account", detail),
            EngineError::AccountChanged(_) => Self::conflict(ErrorCode::AccountChanged, detail),
            EngineError::TooManyAccounts => Self::conflict(ErrorCode::TooManyAccounts, detail),
            EngineError::RowsTooLarge => Self::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::RowsTooLarge, detail),
            EngineError::Conflict(_) => Self::conflict(ErrorCode::Conflict, detail),
            EngineError::TextNotKept(..) => Self::conflict(ErrorCode::TextNotKept, detail),
            EngineError::Store(error) => error.into(),
            EngineError::Crashed => Self::internal(detail),
        }
    }
}

fn unknown_collection(detail: String) -> Problem {
    Problem::unknown(ErrorCode::UnknownCollection, "/path/collection", detail)
}

fn unknown_generation(detail: String) -> Problem {
    Problem::unknown(ErrorCode::UnknownGeneration, "/path/generation", detail)
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::UnknownCollection(_) => unknown_collection(detail),
            StoreError::CollectionExists(_) => Self::conflict(ErrorCode::CollectionExists, detail),
            StoreError::UnknownRecord(_) => Self::unknown(ErrorCode::UnknownRecord, "/path/id", detail),
            StoreError::IdTaken(_) => {
                let detail = "this idempotency key was used for another record; a new record needs a key of its own";
                Self::conflict(ErrorCode::IdempotencyKeyReused, detail)
            }
            StoreError::KeepConflict { .. } => Self::at(StatusCode::CONFLICT, ErrorCode::KeepConflict, "/keep", detail),
            StoreError::ProfileConflict(_) => Self::conflict(ErrorCode::ProfileConflict, detail),
            StoreError::StaleGeneration { .. } => {
                Self::unavailable(ErrorCode::GenerationChanged, "the index changed; send it again")
            }
            StoreError::DiskFull { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, ErrorCode::DiskFull, detail),
            StoreError::Unavailable { retry_after_s, .. } => {
                Self::unavailable(ErrorCode::StoreUnavailable, detail).retry_after(retry_after_s)
            }
            StoreError::Unknown(_) => Self::unavailable(ErrorCode::OutcomeUnknown, detail),
            StoreError::UnknownGeneration { .. } => unknown_generation(detail),
            StoreError::GenerationLive(_) => Self::conflict(ErrorCode::GenerationLive, detail),
            StoreError::GenerationBuilding(_) => Self::conflict(ErrorCode::GenerationBuilding, detail),
            StoreError::TooManyGenerations { .. } => Self::conflict(ErrorCode::TooManyGenerations, detail),
            StoreError::TooManyRulings { .. } => Self::conflict(ErrorCode::TooManyRulings, detail),
            StoreError::ChangesForgotten { last, .. } => {
                let mut problem = Self::new(StatusCode::GONE, ErrorCode::ChangesForgotten, detail);
                problem.0.begin_at = Some(last);
                problem
            }
            StoreError::IndexFull(_) => Self::conflict(ErrorCode::IndexFull, detail),
            StoreError::NotEmpty(_) => Self::conflict(ErrorCode::CollectionNotEmpty, detail),
            StoreError::Unsupported(_) => Self::conflict(ErrorCode::NotSupported, detail),
            // A request cannot cause this error, because the engine stops counting at the limit.
            StoreError::FrequenciesTooLarge { .. } | StoreError::Internal(_) => Self::internal(detail),
        }
    }
}

impl From<RowError> for Problem {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Malformed { detail } => Self::malformed(ErrorCode::MalformedBody, detail),
            RowError::Invalid(violation) => Self::invalid(vec![violation]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::GenerationId;

    #[test]
    fn several_violations_of_one_kind_keep_their_code() {
        assert_eq!(
            Problem::invalid(vec![violation_at("/a", ErrorCode::OneOf), violation_at("/b", ErrorCode::OneOf)]).code(),
            ErrorCode::OneOf
        );
        assert_eq!(
            Problem::invalid(vec![violation_at("/a", ErrorCode::OneOf), violation_at("/b", ErrorCode::TooLong)]).code(),
            ErrorCode::InvalidRequest
        );
    }

    fn violation_at(pointer: &str, code: ErrorCode) -> Violation {
        Violation::new(pointer, code, "detail")
    }

    #[test]
    fn a_problem_lists_the_first_violations_and_states_that_more_exist() {
        let many = |count: usize| {
            (0..count).map(|n| Violation::new(format!("/{n}"), ErrorCode::OneOf, "detail")).collect::<Vec<_>>()
        };
        let all = Problem::invalid(many(MOST_VIOLATIONS));
        let cut = Problem::invalid(many(MOST_VIOLATIONS + 1));
        assert_eq!((all.body("").errors.len(), cut.body("").errors.len()), (MOST_VIOLATIONS, MOST_VIOLATIONS));
        assert!(
            cut.body("").detail.starts_with("the request has more than")
                && !all.body("").detail.starts_with("the request has more than")
        );
    }

    #[test]
    fn the_cause_of_a_bug_is_not_shown() {
        let problem = Problem::internal("secret path");
        let body = serde_json::to_string(&problem.body("r-1")).unwrap();
        assert!(!body.contains("secret path") && body.contains("r-1"), "{body}");
        assert_eq!(problem.cause(), Some("secret path"));
    }

    #[test]
    fn every_refusal_of_a_store_has_its_own_code() {
        let id = doppel_core::record::RecordId::new("a").unwrap();
        let refusals = [
            (StoreError::UnknownCollection(collection_name()), 404, "unknown_collection"),
            (
                StoreError::UnknownGeneration { collection: collection_name(), generation: GenerationId(7) },
                404,
                "unknown_generation",
            ),
            (StoreError::CollectionExists(collection_name()), 409, "collection_exists"),
            (
                StoreError::ChangesForgotten { collection: collection_name(), after: Seq(1), last: Seq(9) },
                410,
                "changes_forgotten",
            ),
            (StoreError::UnknownRecord(id.clone()), 404, "unknown_record"),
            (StoreError::IdTaken(id), 409, "idempotency_key_reused"),
            (StoreError::ProfileConflict(collection_name()), 409, "profile_conflict"),
            (StoreError::GenerationLive(GenerationId(7)), 409, "generation_live"),
            (StoreError::GenerationBuilding(GenerationId(7)), 409, "generation_building"),
            (StoreError::TooManyGenerations { most: 3 }, 409, "too_many_generations"),
            (StoreError::TooManyRulings { most: 1000 }, 409, "too_many_rulings"),
            (StoreError::IndexFull(doppel_core::index::IndexFull), 409, "index_full"),
            (StoreError::NotEmpty(collection_name()), 409, "collection_not_empty"),
            (StoreError::Unsupported("not here"), 409, "not_supported"),
            (StoreError::FrequenciesTooLarge { given: 2, most: 1 }, 500, "internal"),
            (StoreError::Internal("a bug".into()), 500, "internal"),
            (StoreError::Unavailable { reason: "away".into(), retry_after_s: 2 }, 503, "store_unavailable"),
            (StoreError::StaleGeneration { given: GenerationId(1), live: GenerationId(2) }, 503, "generation_changed"),
            (StoreError::Unknown("the sync failed".into()), 503, "outcome_unknown"),
            (StoreError::DiskFull { free: 1, needed: 2 }, 507, "disk_full"),
        ];
        for (refusal, status, code) in refusals {
            let through_engine =
                matches!(refusal, StoreError::UnknownCollection(_) | StoreError::UnknownGeneration { .. });
            let problem = match through_engine {
                true => Problem::from(doppel_engine::Error::from(refusal)),
                false => Problem::from(refusal),
            };
            assert_eq!((problem.status().as_u16(), problem.code().as_str()), (status, code));
        }
    }

    fn collection_name() -> doppel_core::collection::CollectionName {
        doppel_core::collection::CollectionName::new("letters").unwrap()
    }

    #[test]
    fn only_not_now_is_retryable() {
        for (status, retryable) in [(400, false), (409, false), (422, false), (429, true), (503, true), (507, true)] {
            let problem = Problem::new(StatusCode::from_u16(status).unwrap(), ErrorCode::Conflict, "y");
            assert_eq!(problem.body("").retryable, retryable, "{status}");
        }
    }
}
