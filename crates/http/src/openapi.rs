//! Makes the OpenAPI document from the routes, and adds the common parts.
//!
//! The possible errors of an operation follow from its properties: whether it has a body, needs a key, or writes. They are added by rules,
//! not at each handler.

mod particular;
mod refine;

use std::borrow::Cow;
use std::sync::OnceLock;

use axum::Router;
use serde_json::Value;
use utoipa::openapi::path::{HttpMethod, Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, HeaderBuilder, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi,
    OpenApiBuilder, Ref, RefOr, Response, ResponseBuilder, ServerBuilder, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::{MEDIA_TYPE, ProblemBody};
use crate::router;
use crate::state::App;
use doppel_core::violation::Violation;

/// The licences of the service, as an SPDX expression.
const LICENSE: &str = "MIT OR Apache-2.0";

/// The head of the OpenAPI document.
pub fn head() -> OpenApi {
    let description = "doppel finds, for each incoming petition, the earlier petitions about the same matter.\n\nThe body of a \
        request about a record is the row itself: a flat JSON object of its fields. Options are parameters of the \
        query string; unknown parameters are refused. Errors have the media type `application/problem+json` and a \
        stable `code`. `errors` lists every violation with its position: a JSON pointer into the body, `?name` for a \
        parameter, or `/path/name` for a part of the URL. `warnings` of a response lists in the same form each part \
        of a row that doppel could not read but accepted (for example a time in an unknown form). If `retryable` is \
        true, the same request may succeed later. A client may repeat every request safely, except a registration \
        without an id, which needs an `Idempotency-Key`.\n\nTexts for people (`title` and `detail` of errors, \
        `detail` of warnings) are in English, or in Chinese if `Accept-Language` prefers it. `Content-Language` \
        contains the language of such a response. All other names and values are the same in both languages.\n\nA \
        body may have `Content-Encoding: gzip` or `zstd`, also the body of `_bulk`; all limits apply to the \
        decompressed body. doppel compresses a complete response of 1 KiB or more if the client sends \
        `Accept-Encoding`. It does not compress streams of lines and events, so that each line or event arrives as \
        soon as doppel creates it.";
    let info = InfoBuilder::new()
        .title("doppel")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(description))
        .license(Some(LicenseBuilder::new().name(LICENSE).identifier(Some(LICENSE)).build()));
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("dpl_<name>_<secret>")
        .description(Some("required if the service has keys in its configuration"));
    let common = ERRORS.iter().map(|error| (error.name, error.response()));
    let components = ComponentsBuilder::new()
        .schema(ProblemBody::name(), ProblemBody::schema())
        .schema(Violation::name(), Violation::schema())
        .responses_from_iter(common)
        .security_scheme("key", SecurityScheme::Http(key.build()));
    let server = ServerBuilder::new().url("/").description(Some("the service that sent this document")).build();
    OpenApiBuilder::new().info(info).servers(Some([server])).components(Some(components.build())).build()
}

/// Returns the OpenAPI document.
pub fn document() -> Value {
    described().0
}

/// Returns the OpenAPI document, and the parts of `overlay.yaml` that fit nowhere. There are none, unless something was renamed.
fn described() -> (Value, Vec<String>) {
    let mut document = router::routes().into_openapi();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            complete(path, &method, operation);
        }
    }
    let mut document = serde_json::to_value(document).unwrap_or_default();
    refine::simplify(&mut document);
    refine::complete_bodies(&mut document);
    let lost = particular::apply(&mut document);
    refine::bound_integers(&mut document);
    refine::share_parameters(&mut document);
    refine::prune(&mut document);
    (document, lost)
}

/// Returns the OpenAPI document as YAML. It is made once.
///
/// # Errors
/// The document cannot be written as YAML. This does not happen with the result of [`document`].
pub fn yaml() -> anyhow::Result<&'static str> {
    static MADE: OnceLock<String> = OnceLock::new();
    if MADE.get().is_none() {
        let yaml = serde_norway::to_string(&document())?;
        let _ = MADE.set(yaml.lines().flat_map(|line| [quoted(line), "\n".into()]).collect());
    }
    Ok(MADE.get().map_or("", String::as_str))
}

/// Returns the OpenAPI document as JSON. It is made once.
pub fn json() -> &'static str {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(|| document().to_string())
}

/// Puts the value of a line in quotes if it is a time, because readers of YAML 1.1 would not read it as text.
fn quoted(line: &str) -> Cow<'_, str> {
    match line.split_once(": ").filter(|(_, value)| begins_with_date(value)) {
        Some((key, value)) => format!("{key}: '{value}'").into(),
        None => line.into(),
    }
}

fn begins_with_date(value: &str) -> bool {
    let digits =
        |from: usize, to: usize| value.get(from..to).is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()));
    digits(0, 4) && digits(5, 7) && digits(8, 10) && [value.get(4..5), value.get(7..8)] == [Some("-"); 2]
}

fn operations(item: &mut PathItem) -> Vec<(HttpMethod, &mut Operation)> {
    let PathItem { get, put, post, delete, .. } = item;
    let all = [(HttpMethod::Get, get), (HttpMethod::Put, put), (HttpMethod::Post, post), (HttpMethod::Delete, delete)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?))).collect()
}

/// An error that many operations have in common.
struct CommonError {
    status: &'static str,
    /// The name of the response in the components of the document.
    name: &'static str,
    meaning: &'static str,
    of: OperationKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperationKind {
    Any,
    /// Needs a key.
    WithKey,
    /// A call of the API: it answers with JSON, and waits for its turn if the service has much to do.
    Call,
    WithBody,
    InCollection,
    Changing,
}

use OperationKind::{Any, Call, Changing, InCollection, WithBody, WithKey};

impl CommonError {
    const fn new(status: &'static str, name: &'static str, meaning: &'static str, of: OperationKind) -> Self {
        Self { status, name, meaning, of }
    }

    fn response(&self) -> Response {
        let mut response = ResponseBuilder::new().description(self.meaning).build();
        finish(self.status, &mut response);
        response
    }
}

const ERRORS: &[CommonError] = &[
    CommonError::new("400", "BadRequest", "the request cannot be read", Any),
    CommonError::new(
        "401",
        "Unauthorized",
        "the key is missing or invalid; `WWW-Authenticate` contains the reason",
        WithKey,
    ),
    CommonError::new(
        "403",
        "Forbidden",
        "the request comes from a page of another web site, the key does not have the scope that `detail` names, or the key is limited to other collections",
        Any,
    ),
    CommonError::new(
        "404",
        "NotFound",
        "the collection or the record does not exist (`unknown_collection`, `unknown_record`)",
        InCollection,
    ),
    CommonError::new("406", "NotAcceptable", "the client does not accept JSON", Call),
    CommonError::new("408", "SlowBody", "the body arrived too slowly", WithBody),
    CommonError::new("409", "Conflict", "the state of the collection does not allow the request", Changing),
    CommonError::new("413", "LargeBody", "the body is larger than the limit", WithBody),
    CommonError::new(
        "415",
        "UnsupportedMediaType",
        "the body has another media type, or a compression other than gzip or zstd",
        WithBody,
    ),
    CommonError::new(
        "421",
        "MisdirectedRequest",
        "a service without keys accepts only requests to a loopback name, such as localhost or 127.0.0.1",
        Any,
    ),
    CommonError::new(
        "422",
        "Invalid",
        "the request can be read but not accepted; `errors` contains the positions and reasons",
        Any,
    ),
    CommonError::new(
        "429",
        "TooManyRequests",
        "the client sent more requests than the limit for its key; repeat the request after `Retry-After`",
        WithKey,
    ),
    CommonError::new("500", "Internal", "a bug in the service; the log contains the cause with the `request_id`", Any),
    CommonError::new(
        "503",
        "Unavailable",
        "the service cannot answer at present; repeat the request after `Retry-After`",
        Call,
    ),
    CommonError::new("507", "DiskFull", "the disk is full; requests that only read still work", Changing),
];

fn complete(path: &str, method: &HttpMethod, operation: &mut Operation) {
    let open = operation.security.is_some();
    if !open {
        operation.security = Some(vec![SecurityRequirement::new::<_, [&str; 0], &str>("key", [])]);
    }
    let asks = ["/check", "/similar", "/explain"].iter().any(|end| path.ends_with(end));
    let is_of = |kind| match kind {
        Any => true,
        WithKey => !open,
        Call => path.starts_with("/v1/") || path == "/readyz",
        WithBody => operation.request_body.is_some(),
        InCollection => path.contains("{collection}"),
        Changing => !asks && !matches!(method, HttpMethod::Get),
    };
    let responses = &mut operation.responses.responses;
    for (status, response) in responses.iter_mut() {
        if let RefOr::T(response) = response {
            finish(status, response);
        }
    }
    for error in ERRORS.iter().filter(|error| is_of(error.of)) {
        responses.entry(error.status.into()).or_insert_with(|| Ref::from_response_name(error.name).into());
    }
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        body.required = Some(utoipa::openapi::Required::True);
    }
}

/// Adds the headers of a status. The body of an error is a problem.
fn finish(status: &str, response: &mut Response) {
    const HEADERS: &[(&str, &str, &str)] = &[
        ("201", "Location", "the path of the created resource"),
        ("202", "Location", "the path that shows the progress"),
        ("401", "WWW-Authenticate", "the required authentication, and the error in the sent authentication"),
        ("429", "Retry-After", "time in seconds after which to repeat the request"),
        ("503", "Retry-After", "time in seconds after which to repeat the request"),
    ];
    for (_, name, description) in HEADERS.iter().filter(|(of, ..)| *of == status) {
        let kind = if *name == "Retry-After" { Type::Integer } else { Type::String };
        let schema = ObjectBuilder::new().schema_type(kind).build();
        let header = HeaderBuilder::new().schema(Some(schema)).description(Some(*description)).build();
        response.headers.insert((*name).to_owned(), header.into());
    }
    if status >= "400" {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        response.content.insert(MEDIA_TYPE.to_owned(), content.into());
    }
}

/// The routes of the documentation for people. Its files are part of the program, so that it needs no network.
#[cfg(feature = "docs")]
pub fn pages() -> Router<App> {
    utoipa_swagger_ui::SwaggerUi::new("/docs")
        .config(utoipa_swagger_ui::Config::from("/openapi.yaml").validator_url("none"))
        .into()
}

/// This build has no documentation for people. `/docs` leads to the description for programs.
#[cfg(not(feature = "docs"))]
pub fn pages() -> Router<App> {
    let description = || async { axum::response::Redirect::to("/openapi.yaml") };
    Router::new().route("/docs", axum::routing::get(description)).route("/docs/", axum::routing::get(description))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_in_the_overlay_has_its_place() {
        assert_eq!(described().1, [""; 0]);
    }

    #[test]
    fn times_are_in_quotes_and_nothing_else_changes() {
        assert_eq!(quoted("    at: 2024-03-09T02:00:00Z"), "    at: '2024-03-09T02:00:00Z'");
        for line in ["    id: 2024-001", "openapi: 3.1.0", "x: '2024-03-09'", "    A letter of 2024-03-09: lost", ""] {
            assert_eq!(quoted(line), line);
        }
        let read: Value = serde_norway::from_str(yaml().unwrap()).unwrap();
        assert_eq!(read, document());
    }

    #[test]
    fn parts_become_one_object_and_an_answer_with_its_time_takes_the_name() {
        let mut document = json!({ "components": { "schemas": {
            "Base": { "type": "object", "required": ["a"], "properties": { "a": { "type": "boolean" } } },
            "Seen": { "allOf": [{ "$ref": "#/components/schemas/Base", "description": "a part" },
                { "type": "object", "required": ["b"], "properties": { "b": { "$ref": "#/components/schemas/Name" } } }], "description": "what is seen" },
            "Timed_Seen": { "allOf": [{ "$ref": "#/components/schemas/Seen" },
                { "type": "object", "properties": { "took": { "type": "integer", "format": "int32" } } }] },
            "Name": { "type": "string", "pattern": "^a$" },
        } } });
        refine::simplify(&mut document);
        refine::bound_integers(&mut document);
        let seen = json!({ "type": "object", "description": "what is seen", "required": ["a", "b"], "properties": {
            "a": { "type": "boolean" }, "b": { "type": "string", "pattern": "^a$" },
            "took": { "type": "integer", "format": "int64", "minimum": 0, "maximum": u32::MAX } } });
        assert_eq!(document["components"]["schemas"]["Seen"], seen);
        assert!(document["components"]["schemas"]["Timed_Seen"].is_null() && !document.to_string().contains("Name"));
    }

    #[test]
    fn alternatives_with_a_tag_are_named_or_joined() {
        let mut document = json!({ "components": { "schemas": {
            "Piece": { "oneOf": [alternative_of_kind("left", "text"), alternative_of_kind("right", "text")] },
            "Shape": { "oneOf": [alternative_of_kind("a_square", "side"), alternative_of_kind("circle", "radius")] },
        } } });
        refine::simplify(&mut document);
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["Piece"]["properties"]["kind"]["enum"], json!(["left", "right"]));
        assert_eq!(schemas["Shape"]["discriminator"]["mapping"]["a_square"], "#/components/schemas/ASquareShape");
        assert!(schemas["ASquareShape"]["properties"]["side"].is_object());
    }

    fn alternative_of_kind(word: &str, more: &str) -> Value {
        json!({ "type": "object", "properties": { "kind": { "type": "string", "enum": [word] }, more: {} } })
    }
}
