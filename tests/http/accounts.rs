//! Accounts of people are made, changed and removed over HTTP and by the command line.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::keyed::KeyedServer;
use crate::support::{
    TestResponse, TestServer, expect_members, expect_no_parts, expect_parts, expect_problem, run_with, shared_server,
    until,
};

const ACCOUNTS: &str = "/v1/admin/accounts";

fn send(keyed: &KeyedServer, method: &str, path: &str, body: &Value) -> TestResponse {
    keyed.send("office", method, &format!("{ACCOUNTS}{path}"), body)
}

/// Returns the names of all accounts.
fn names(keyed: &KeyedServer) -> Vec<String> {
    let list = send(keyed, "GET", "", &Value::Null).json();
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn an_account_is_made_listed_changed_and_removed_and_outlives_a_restart() {
    let keyed = KeyedServer::start(&[]);
    let body = json!({ "name": "zhang", "display_name": "张伟", "role": "clerk", "collections": ["letters"] });
    let made = send(&keyed, "POST", "", &body);
    assert_eq!((made.status, made.header("cache-control")), (201, Some("no-store")), "{}", made.text);
    assert_eq!(made.header("location"), Some("/v1/admin/accounts/zhang"));
    let password = made.json()["password"].as_str().expect("a random password").to_owned();
    let made_at = made.json()["changed_at"].clone();
    let chosen = json!({ "name": "li", "display_name": "李娜", "role": "viewer", "password": "a good password" });
    let made = send(&keyed, "POST", "", &chosen);
    assert_eq!((made.status, &made.json()["password"]), (201, &Value::Null), "{}", made.text);
    assert_eq!(names(&keyed), ["li", "zhang"]);

    let changed = send(&keyed, "PUT", "/zhang", &json!({ "display_name": "张伟", "role": "lead", "disabled": true }));
    let state = changed.json();
    assert_eq!(
        (changed.status, &state["role"], &state["disabled"], &state["collections"], &state["created_by"]),
        (200, &json!("lead"), &json!(true), &Value::Null, &json!("office"))
    );
    let mut stale = json!({ "display_name": "张伟", "role": "lead", "changed_at": made_at });
    expect_problem(&send(&keyed, "PUT", "/zhang", &stale), 409, "account_changed");
    stale["changed_at"] = state["changed_at"].clone();
    stale["disabled"] = json!(true);
    assert_eq!(send(&keyed, "PUT", "/zhang", &stale).status, 200);
    let reset = send(&keyed, "PUT", "/zhang/password", &json!({}));
    assert!(reset.status == 200 && reset.json()["password"] != password.as_str(), "{}", reset.text);
    let list = send(&keyed, "GET", "", &Value::Null).text;
    assert!(!list.contains("argon2") && !list.contains("password_hash"), "{list}");

    let data = keyed.data();
    let file = keyed.file();
    keyed.server.signal("TERM");
    keyed.server.wait();
    let again = TestServer::start_with(&data, &["--config", file.to_str().expect("a path")], &[]);
    let office = keyed.key("office");
    let list = again.get_as(office, ACCOUNTS).json();
    expect_members(&list, &json!({ "items/1/role": "lead", "items/1/disabled": true }));
    again.send_as(office, "DELETE", "/v1/admin/accounts/zhang", &Value::Null).expect_status(204);
    let gone = again.send_as(office, "DELETE", "/v1/admin/accounts/zhang", &Value::Null);
    expect_problem(&gone, 404, "unknown_account");
    let audited = ["account made", "account changed", "password set"];
    until("the audit log", || audited.iter().all(|what| keyed.server.log().contains(what)));
    for log in [keyed.server.log(), again.log()] {
        expect_no_parts(&log, &[&password, "a good password", "argon2"]);
    }
}

#[test]
fn a_wrong_account_is_refused_by_name() {
    let keyed = KeyedServer::start(&[]);
    let good = json!({ "name": "zhang", "display_name": "张伟", "role": "clerk", "password": "a good password" });
    for (member, value, code) in [
        ("name", json!("Zhang"), "invalid_name"),
        ("display_name", json!(" "), "invalid_display_name"),
        ("display_name", json!("名".repeat(65)), "invalid_display_name"),
        ("role", json!("chief"), "invalid_request"),
        ("role", Value::Null, "missing_role"),
        ("collections", json!([]), "invalid_collections"),
        ("disabled", json!("no"), "wrong_type"),
        ("password", json!("too short"), "invalid_password"),
        ("password", json!("a".repeat(513)), "invalid_password"),
        ("scopes", json!(["admin"]), "unknown_key"),
    ] {
        let mut body = good.clone();
        body[member] = value;
        expect_problem(&send(&keyed, "POST", "", &body), 422, code);
    }
    assert!(names(&keyed).is_empty());
    assert_eq!(send(&keyed, "POST", "", &good).status, 201);
    expect_problem(&send(&keyed, "POST", "", &good), 409, "account_exists");
    let mut taken = good;
    taken["name"] = json!("desk");
    expect_problem(&send(&keyed, "POST", "", &taken), 409, "key_exists");
    let key = json!({ "name": "zhang", "scopes": ["read"] });
    expect_problem(&keyed.send("office", "POST", "/v1/admin/keys", &key), 409, "account_exists");
    let refused = send(&keyed, "PUT", "/nobody", &json!({ "display_name": "a", "role": "lead" }));
    expect_problem(&refused, 404, "unknown_account");
    expect_problem(&send(&keyed, "PUT", "/A/password", &json!({})), 422, "invalid_name");
    for key in ["desk", "reader", "intake"] {
        expect_problem(&keyed.get(key, ACCOUNTS), 403, "missing_scope");
    }
}

#[test]
fn a_password_is_no_key_and_without_keys_there_are_no_accounts() {
    let keyed = KeyedServer::start(&[]);
    let body =
        json!({ "name": "zhang", "display_name": "张伟", "role": "administrator", "password": "a-good-password" });
    assert_eq!(send(&keyed, "POST", "", &body).status, 201);
    for token in ["dpl_zhang_a-good-password", "zhang:a-good-password", "a-good-password"] {
        expect_problem(&keyed.server.get_as(token, "/v1/collections"), 401, "invalid_key");
    }
    expect_problem(&shared_server().send("POST", ACCOUNTS, &body), 409, "no_configured_key");
}

/// Runs `doppel account` with the key of the office and `input` on standard input.
fn account(keyed: &KeyedServer, arguments: &[&str], input: &str) -> Output {
    let arguments = [&["account"], arguments, &["--to", keyed.server.url()]].concat();
    run_with(&arguments, input.as_bytes(), &[("DOPPEL_KEY", keyed.key("office"))])
}

#[track_caller]
fn done(output: Output) -> (String, String) {
    let [said, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    assert!(output.status.success(), "{said}{told}");
    (said, told)
}

#[test]
fn the_command_line_makes_the_first_account() {
    let keyed = KeyedServer::start(&[]);
    let add = ["add", "zhang", "--display-name", "张伟", "--role", "administrator"];
    let (said, told) = done(account(&keyed, &add, ""));
    let shown = told.lines().find(|line| line.split('-').count() == 4).expect("a password");
    expect_parts(&said, &["张伟"]);
    expect_no_parts(&said, &[shown]);
    let (said, told) =
        done(account(&keyed, &["add", "li", "--role", "clerk", "--password-stdin"], "a good password\n"));
    assert!(said.contains("\"display_name\": \"li\"") && told.is_empty(), "{said}{told}");
    let short = account(&keyed, &["password", "li", "--password-stdin"], "short\n");
    assert_eq!(short.status.code(), Some(1));
    assert_eq!(account(&keyed, &["password", "li", "--password-stdin"], "\n").status.code(), Some(2));
    done(account(&keyed, &["password", "li"], ""));
    done(account(&keyed, &["disable", "li"], ""));
    let (listed, _) = done(account(&keyed, &["list"], ""));
    assert!(listed.lines().any(|line| line.contains("li") && line.contains("disabled")), "{listed}");
    done(account(&keyed, &["enable", "li"], ""));
    done(account(&keyed, &["remove", "li"], ""));
    assert_eq!(names(&keyed), ["zhang"]);
}
