//! Tests every route with a key that is limited to collections. The test fails for a route that is missing in `DECISIONS`.

use serde_json::{Value, json};

use crate::support::keyed::{KeyedServer, LAMPS};
use crate::support::{TestResponse, TestServer, expect_problem};

/// The effect of a route for a key that is limited to the collection `letters`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KeyDecision {
    /// The path names a collection: the route answers for `letters` and refuses for other collections.
    ByPath,
    /// The body names a collection: the route answers for `letters` and refuses for other collections.
    ByBody,
    /// The route is about a task: it answers if the task works on `letters`, otherwise the answer is the same as for an unknown task.
    ByTask,
    /// The route lists items of several collections, and leaves out the items of other collections.
    Shortened,
    /// The route is about no collection and refuses.
    Refused,
    /// The route is open to everyone without a key.
    Open,
}

use KeyDecision::{ByBody, ByPath, ByTask, Open, Refused, Shortened};

const DECISIONS: [(&str, &str, KeyDecision); 83] = [
    ("get", "/", Open),
    ("get", "/livez", Open),
    ("get", "/readyz", Open),
    ("get", "/version", Open),
    ("get", "/openapi.yaml", Open),
    ("get", "/openapi.json", Open),
    ("get", "/metrics", Refused),
    ("get", "/v1/admin/keys", Refused),
    ("post", "/v1/admin/keys", Refused),
    ("delete", "/v1/admin/keys/{key}", Refused),
    ("get", "/v1/admin/accounts", Refused),
    ("post", "/v1/admin/accounts", Refused),
    ("put", "/v1/admin/accounts/{account}", Refused),
    ("delete", "/v1/admin/accounts/{account}", Refused),
    ("put", "/v1/admin/accounts/{account}/password", Refused),
    ("get", "/v1/admin/snapshots", Refused),
    ("post", "/v1/admin/snapshots", Refused),
    ("post", "/v1/admin/snapshots/cancel", Refused),
    ("get", "/v1/admin/snapshots/stream", Refused),
    ("get", "/v1/admin/sources", Refused),
    ("get", "/v1/admin/webhooks", Refused),
    ("post", "/v1/admin/import", Refused),
    ("get", "/v1/collections", Shortened),
    ("get", "/v1/tasks", Shortened),
    ("get", "/v1/tasks/{task}", ByTask),
    ("post", "/v1/tasks/{task}/cancel", ByTask),
    ("get", "/v1/tasks/{task}/events", ByTask),
    ("post", "/v1/admin/reindex", ByBody),
    ("post", "/v1/admin/purge", ByBody),
    ("post", "/v1/admin/erase", ByBody),
    ("post", "/v1/admin/host-aliases", ByBody),
    ("post", "/v1/admin/forms", ByBody),
    ("post", "/v1/admin/evidence", ByBody),
    ("put", "/v1/collections/{collection}/model", ByPath),
    ("put", "/v1/collections/{collection}/forms/{form}", ByPath),
    ("delete", "/v1/collections/{collection}/forms/{form}", ByPath),
    ("get", "/v1/collections/{collection}/places", ByPath),
    ("put", "/v1/collections/{collection}/places", ByPath),
    ("get", "/v1/collections/{collection}/groups/{id}/form", ByPath),
    ("put", "/v1/collections/{collection}", ByPath),
    ("get", "/v1/collections/{collection}", ByPath),
    ("delete", "/v1/collections/{collection}", ByPath),
    ("post", "/v1/collections/{collection}/records", ByPath),
    ("get", "/v1/collections/{collection}/records", ByPath),
    ("post", "/v1/collections/{collection}/records/_bulk", ByPath),
    ("post", "/v1/collections/{collection}/records/_get", ByPath),
    ("put", "/v1/collections/{collection}/records/{id}", ByPath),
    ("get", "/v1/collections/{collection}/records/{id}", ByPath),
    ("delete", "/v1/collections/{collection}/records/{id}", ByPath),
    ("get", "/v1/collections/{collection}/arrivals", ByPath),
    ("post", "/v1/collections/{collection}/groups/_merge", ByPath),
    ("post", "/v1/collections/{collection}/groups/{id}/_split", ByPath),
    ("put", "/v1/collections/{collection}/groups/{id}/original", ByPath),
    ("delete", "/v1/collections/{collection}/groups/{id}/original", ByPath),
    ("get", "/v1/collections/{collection}/changes", ByPath),
    ("post", "/v1/collections/{collection}/check", ByPath),
    ("post", "/v1/collections/{collection}/similar", ByPath),
    ("get", "/v1/collections/{collection}/similar", ByPath),
    ("get", "/v1/collections/{collection}/records/{id}/similar", ByPath),
    ("post", "/v1/collections/{collection}/related", ByPath),
    ("get", "/v1/collections/{collection}/records/{id}/related", ByPath),
    ("get", "/v1/collections/{collection}/search", ByPath),
    ("get", "/v1/collections/{collection}/vectors", ByPath),
    ("post", "/v1/collections/{collection}/vectors", ByPath),
    ("post", "/v1/collections/{collection}/explain", ByPath),
    ("get", "/v1/collections/{collection}/groups", ByPath),
    ("get", "/v1/collections/{collection}/groups/{id}", ByPath),
    ("get", "/v1/collections/{collection}/events", ByPath),
    ("get", "/v1/collections/{collection}/events/{id}", ByPath),
    ("post", "/v1/collections/{collection}/events/_merge", ByPath),
    ("post", "/v1/collections/{collection}/events/{id}/_split", ByPath),
    ("post", "/v1/collections/{collection}/events/{id}/_confirm", ByPath),
    ("post", "/v1/collections/{collection}/events/{id}/handling", ByPath),
    ("get", "/v1/collections/{collection}/decisions", ByPath),
    ("put", "/v1/collections/{collection}/decisions/{a}/{b}", ByPath),
    ("get", "/v1/collections/{collection}/decisions/{a}/{b}", ByPath),
    ("delete", "/v1/collections/{collection}/decisions/{a}/{b}", ByPath),
    ("get", "/v1/collections/{collection}/generations", ByPath),
    ("delete", "/v1/collections/{collection}/generations/{generation}", ByPath),
    ("post", "/v1/collections/{collection}/generations/{generation}/activate", ByPath),
    ("get", "/v1/collections/{collection}/generations/{generation}/compare", ByPath),
    ("get", "/v1/collections/{collection}/statistics", ByPath),
    ("post", "/v1/collections/{collection}/statistics", ByPath),
];

/// A service with two collections, and a key that has all permissions for one collection.
struct LimitedKey {
    keyed: KeyedServer,
    key: String,
    /// One task of each collection.
    tasks: [String; 2],
}

impl LimitedKey {
    fn start() -> Self {
        let keyed = KeyedServer::start(&[]);
        let office = keyed.key("office").to_owned();
        for collection in ["letters", "hotline"] {
            for id in ["a", "b"] {
                let path = format!("/v1/collections/{collection}/records/{id}");
                send_as_office("PUT", &path, &json!({ "content": LAMPS }), &office, &keyed.server).expect_status(201);
            }
        }
        let tasks = [begin_task("letters", &office, &keyed.server), begin_task("hotline", &office, &keyed.server)];
        let body = json!({ "name": "limited", "scopes": ["read", "write", "admin"], "collections": ["letters"] });
        let made = send_as_office("POST", "/v1/admin/keys", &body, &office, &keyed.server);
        let key = made.json()["key"].as_str().expect("the key").to_owned();
        Self { keyed, key, tasks }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        self.keyed.server.send_as(&self.key, method, path, body)
    }
}

fn send_as_office(method: &str, path: &str, body: &Value, office: &str, server: &TestServer) -> TestResponse {
    server.send_as(office, method, path, body)
}

fn begin_task(collection: &str, office: &str, server: &TestServer) -> String {
    let body = json!({ "collection": collection });
    let begun = send_as_office("POST", "/v1/admin/purge", &body, office, server).expect_status(202);
    begun.json()["id"].as_str().expect("an id").to_owned()
}

/// Returns a problem without the parts that differ between requests.
fn without_request(problem: &TestResponse) -> Value {
    let mut said = problem.json();
    let members = said.as_object_mut().expect("an object");
    members.retain(|name, _| !matches!(name.as_str(), "request_id" | "instance"));
    said
}

/// Returns every method and path in the description of the API.
fn routes(description: &str) -> Vec<(String, String)> {
    let description: serde_norway::Value = serde_norway::from_str(description).expect("YAML");
    let paths = description["paths"].as_mapping().expect("paths");
    let mut routes = Vec::new();
    for (path, methods) in paths {
        for method in methods.as_mapping().expect("methods").keys().filter_map(serde_norway::Value::as_str) {
            if ["get", "put", "post", "delete", "patch", "head", "options"].contains(&method) {
                routes.push((method.to_owned(), path.as_str().expect("a path").to_owned()));
            }
        }
    }
    routes
}

#[test]
fn a_limited_key_asks_about_its_collections_and_sees_nothing_of_others() {
    let limited = LimitedKey::start();
    let description = limited.keyed.server.get("/openapi.yaml").text;
    let routes = routes(&description);
    assert!(routes.len() > 40, "{routes:?}");
    for (method, route) in routes {
        let decision = DECISIONS.iter().find(|(m, path, _)| *m == method && *path == route);
        let (_, _, decision) =
            decision.unwrap_or_else(|| panic!("{method} {route}: decide what a key that is limited may do there"));
        let method = method.to_uppercase();
        let [own, other] = &limited.tasks;
        match decision {
            Open => assert_let_in(&limited.keyed.server.send(&method, &route, &Value::Null), &method, &route),
            Refused => assert_refused(&limited.send(&method, &path_of_route("letters", own, &route), &json!({}))),
            ByTask => {
                let foreign = limited.send(&method, &path_of_route("letters", other, &route), &Value::Null);
                let unknown = limited.send(
                    &method,
                    &path_of_route("letters", "019a0000-0000-7000-8000-000000000000", &route),
                    &Value::Null,
                );
                expect_problem(&foreign, 404, "unknown_task");
                assert_eq!(without_request(&foreign), without_request(&unknown), "{method} {route}");
                assert_let_in(
                    &limited.send(&method, &path_of_route("letters", own, &route), &Value::Null),
                    &method,
                    &route,
                );
            }
            ByBody => {
                assert_refused(&limited.send(&method, &route, &json!({ "collection": "hotline" })));
                assert_refused(&limited.send(&method, &route, &json!({ "collection": "nowhere" })));
                assert_let_in(&limited.send(&method, &route, &json!({ "collection": "letters" })), &method, &route);
            }
            // The collection is deleted at the end, below.
            ByPath if method == "DELETE" && route == "/v1/collections/{collection}" => {
                assert_refused(&limited.send(&method, &path_of_route("hotline", own, &route), &Value::Null));
            }
            ByPath => {
                // The service refuses before it reads the body, and the answer does not show whether the collection exists.
                for collection in ["hotline", "nowhere", "hot%6Cine", "letters2"] {
                    assert_refused(&limited.send(&method, &path_of_route(collection, own, &route), &json!({})));
                }
                assert_let_in(
                    &limited.send(&method, &path_of_route("letters", own, &route), &json!({})),
                    &method,
                    &route,
                );
            }
            Shortened => {
                let list = limited.send(&method, &route, &Value::Null);
                assert_let_in(&list, &method, &route);
                assert!(list.text.contains("letters") && !list.text.contains("hotline"), "{}", list.text);
            }
        }
    }
    limited.send("DELETE", "/v1/collections/letters", &Value::Null).expect_status(204);
    assert_eq!(limited.send("PUT", "/v1/collections/letters", &json!({})).status, 201, "it may be made again");
}

fn path_of_route(collection: &str, task: &str, route: &str) -> String {
    let path = route.replace("{collection}", collection).replace("{task}", task);
    ["{id}", "{a}", "{b}", "{generation}", "{key}", "{account}"].iter().fold(path, |path, part| path.replace(part, "7"))
}

/// The request may be wrong for another reason, but not because of the key.
fn assert_let_in(answer: &TestResponse, method: &str, route: &str) {
    assert!(answer.status != 401 && answer.status != 403, "{method} {route}: {}", answer.text);
}

fn assert_refused(answer: &TestResponse) {
    expect_problem(answer, 403, "not_this_collection");
    assert!(!answer.text.contains("hotline"), "{}", answer.text);
}

#[test]
fn a_page_of_the_list_is_full_whatever_is_left_out() {
    let limited = LimitedKey::start();
    let list = limited.send("GET", "/v1/collections?limit=1", &Value::Null).json();
    assert_eq!((list["items"][0]["name"].as_str(), &list["next"]), (Some("letters"), &Value::Null), "{list}");
}
