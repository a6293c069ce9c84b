//! Accounts at the desk: signing in with a password, roles, the pages of administrators, and the ends of sessions.

use crate::support::awaited;
use serde_json::{Value, json};

use crate::browser::{KeyedServer, PageResponse, TestBrowser};

/// The password of all accounts of the tests.
const PASSWORD: &str = "a good password";
const ACCOUNTS: &str = "/v1/admin/accounts";
const ROLES: [&str; 4] = ["viewer", "clerk", "lead", "administrator"];

/// A service with two letters that repeat each other, and an account for each role with the name of the role.
fn office() -> KeyedServer {
    let keyed = KeyedServer::with(&["a", "b"]);
    for role in ROLES {
        make(&keyed, role, role, &Value::Null);
    }
    keyed
}

#[track_caller]
fn make(keyed: &KeyedServer, name: &str, role: &str, collections: &Value) {
    let body = json!({ "name": name, "display_name": format!("人员{name}"), "role": role, "password": PASSWORD,
        "collections": collections });
    keyed.send("office", "POST", ACCOUNTS, &body).expect_status(201);
}

/// Sends the form for a password.
fn try_password(browser: &mut TestBrowser<'_>, name: &str, password: &str) -> PageResponse {
    let form = browser.open("/console/sign-in").form("/console/sign-in");
    browser.post("/console/sign-in", &form, &[("name", name), ("password", password)])
}

#[track_caller]
fn signed_in<'k>(keyed: &'k KeyedServer, name: &str) -> TestBrowser<'k> {
    let mut browser = TestBrowser::new(&keyed.server);
    let led = try_password(&mut browser, name, PASSWORD);
    assert_eq!((led.status, led.header("location")), (303, "/console"), "{}", led.html);
    browser
}

/// Returns the token of the forms of a browser.
fn token(browser: &mut TestBrowser<'_>) -> Vec<(String, String)> {
    browser.open("/console/-/me").form("/console/sign-out")
}

#[test]
fn a_person_signs_in_with_a_password_and_decides_under_their_name() {
    let keyed = office();
    let mut clerk = signed_in(&keyed, "clerk");
    let case = clerk.open("/console/letters/case/b");
    case.has(&["<b>人员clerk</b>"]);
    let form = case.form("/console/letters/decide");
    clerk.post("/console/letters/decide", &form, &[("judgement", "same"), ("by", "someone else")]).expect_status(303);
    let decision = keyed.decision("a", "b");
    assert_eq!(decision["history"][0]["by"], "人员clerk (clerk)", "{decision}");
    let form = token(&mut clerk);
    let step = [("status", "assigned"), ("unit", "市政处"), ("by", "someone else")];
    clerk.post("/console/letters/events/a/handling", &form, &step).expect_status(303);
    assert!(clerk.open("/console/letters/events/a").html.contains("人员clerk (clerk)"));
    until_logged(&keyed, &["audit", "/console/letters/decide", "key=\"clerk\""]);
}

/// Waits until one line of the log has all these parts.
#[track_caller]
fn until_logged(keyed: &KeyedServer, parts: &[&str]) {
    awaited(
        "a line of the log",
        || keyed.server.log(),
        |log| log.lines().any(|line| parts.iter().all(|part| line.contains(part))),
    );
}

/// Every route of the desk, and the lowest role that may use it.
const ROUTES: [(&str, &str, &str); 57] = [
    ("GET", "/console", "viewer"),
    ("POST", "/console/-/collections", "administrator"),
    ("POST", "/console/-/demo", "administrator"),
    ("POST", "/console/-/files", "administrator"),
    ("GET", "/console/-/me", "viewer"),
    ("POST", "/console/-/me/password", "viewer"),
    ("POST", "/console/-/sessions/end", "viewer"),
    ("GET", "/console/-/people", "administrator"),
    ("POST", "/console/-/people", "administrator"),
    ("GET", "/console/-/people/{account}", "administrator"),
    ("POST", "/console/-/people/{account}", "administrator"),
    ("POST", "/console/-/people/{account}/password", "administrator"),
    ("POST", "/console/-/people/{account}/remove", "administrator"),
    ("GET", "/console/{collection}", "viewer"),
    ("GET", "/console/{collection}/inbox", "viewer"),
    ("GET", "/console/{collection}/inbox.csv", "viewer"),
    ("GET", "/console/{collection}/batch", "lead"),
    ("POST", "/console/{collection}/batch", "lead"),
    ("GET", "/console/{collection}/case/{id}", "viewer"),
    ("GET", "/console/{collection}/check", "viewer"),
    ("POST", "/console/{collection}/check", "viewer"),
    ("POST", "/console/{collection}/register", "clerk"),
    ("POST", "/console/{collection}/decide", "clerk"),
    ("GET", "/console/{collection}/files", "viewer"),
    ("POST", "/console/{collection}/files", "viewer"),
    ("GET", "/console/{collection}/files/{file}", "viewer"),
    ("POST", "/console/{collection}/files/{file}/sheet", "viewer"),
    ("POST", "/console/{collection}/files/{file}/start", "viewer"),
    ("POST", "/console/{collection}/files/{file}/stop", "viewer"),
    ("POST", "/console/{collection}/files/{file}/remove", "viewer"),
    ("GET", "/console/{collection}/files/{file}/result", "viewer"),
    ("GET", "/console/{collection}/search", "viewer"),
    ("GET", "/console/{collection}/search.csv", "viewer"),
    ("GET", "/console/{collection}/groups", "viewer"),
    ("GET", "/console/{collection}/groups.csv", "viewer"),
    ("GET", "/console/{collection}/groups/{id}", "viewer"),
    ("GET", "/console/{collection}/groups/{id}/members.csv", "viewer"),
    ("GET", "/console/{collection}/groups/{id}/cut", "lead"),
    ("POST", "/console/{collection}/groups/{id}/cut", "lead"),
    ("GET", "/console/{collection}/groups/{id}/join", "lead"),
    ("POST", "/console/{collection}/groups/{id}/join", "lead"),
    ("GET", "/console/{collection}/groups/{id}/merge", "lead"),
    ("POST", "/console/{collection}/groups/{id}/merge", "lead"),
    ("GET", "/console/{collection}/events", "viewer"),
    ("GET", "/console/{collection}/events.xlsx", "viewer"),
    ("GET", "/console/{collection}/events/{id}", "viewer"),
    ("POST", "/console/{collection}/events/{id}/confirm", "lead"),
    ("POST", "/console/{collection}/events/{id}/remove", "lead"),
    ("POST", "/console/{collection}/events/{id}/merge", "lead"),
    ("POST", "/console/{collection}/events/{id}/handling", "clerk"),
    ("POST", "/console/{collection}/undo", "lead"),
    ("GET", "/console/{collection}/statistics", "viewer"),
    ("GET", "/console/{collection}/report", "viewer"),
    ("GET", "/console/{collection}/report.xlsx", "viewer"),
    ("GET", "/console/{collection}/quality", "lead"),
    ("POST", "/console/{collection}/quality/try", "administrator"),
    ("GET", "/console/{collection}/work", "administrator"),
];

/// The routes of tasks and generations, which are for administrators.
const WORK_ROUTES: [(&str, &str); 6] = [
    ("GET", "/console/{collection}/work/now"),
    ("POST", "/console/{collection}/work/rebuild"),
    ("POST", "/console/{collection}/work/tasks/{task}/cancel"),
    ("GET", "/console/{collection}/work/generations/{generation}"),
    ("POST", "/console/{collection}/work/generations/{generation}/activate"),
    ("POST", "/console/{collection}/work/generations/{generation}/discard"),
];

/// The routes that are not for roles: signing in and out.
const OPEN_ROUTES: [(&str, &str); 6] = [
    ("GET", "/console/sign-in"),
    ("POST", "/console/sign-in"),
    ("POST", "/console/sign-in/oidc"),
    ("GET", "/console/sign-in/oidc/callback"),
    ("GET", "/console/sign-out"),
    ("POST", "/console/sign-out"),
];

/// Returns every route in the source of the desk.
fn declared_routes() -> Vec<(&'static str, String)> {
    let sources =
        [include_str!("../../crates/desk/src/pages/mod.rs"), include_str!("../../crates/desk/src/pages/files.rs")];
    let named = [("START_ROUTE", "/console/-/files"), ("ROUTE", "/console/{collection}/files")];
    let mut routes = Vec::new();
    for declared in sources.iter().flat_map(|source| source.split(".route(").skip(1)) {
        let (path, rest) = declared.split_once(',').expect("a path");
        let path = path.trim();
        let path = named.iter().find(|(name, _)| *name == path).map_or(path.trim_matches('"'), |(_, path)| path);
        let handlers = rest.split('\n').next().expect("a handler");
        for (call, method) in [("get(", "GET"), ("post(", "POST")] {
            if handlers.contains(call) {
                routes.push((method, path.to_owned()));
            }
        }
    }
    routes
}

#[test]
fn each_role_may_use_only_the_routes_of_the_table() {
    let keyed = office();
    let work = WORK_ROUTES.map(|(method, path)| (method, path, "administrator"));
    let table: Vec<_> = ROUTES.into_iter().chain(work).collect();
    let declared = declared_routes();
    assert!(declared.len() > 50, "{declared:?}");
    for (method, path) in &declared {
        let is_decided =
            table.iter().any(|(m, p, _)| m == method && p == path) || OPEN_ROUTES.contains(&(*method, path.as_str()));
        assert!(is_decided, "{method} {path}: decide which role it lets in");
    }
    for (rank, role) in ROLES.into_iter().enumerate() {
        let mut browser = signed_in(&keyed, role);
        let form = token(&mut browser);
        for (method, route, lowest) in &table {
            let path = filled(route);
            let answer = match *method {
                "GET" => browser.get(&path),
                _ => browser.post(&path, &form, &[]),
            };
            let is_let_in = ROLES.iter().position(|other| other == lowest).expect("a role") <= rank;
            let is_refused = answer.status == 403 && answer.html.contains("您的角色没有这项权限");
            assert_eq!(is_let_in, !is_refused, "{role} {method} {path}: {} {}", answer.status, answer.html);
        }
    }
}

/// Returns a path of the route. The names in it belong to nothing that the other requests need.
fn filled(route: &str) -> String {
    let parts = [
        ("{collection}", "letters"),
        ("{id}", "b"),
        ("{account}", "nobody"),
        ("{file}", "7"),
        ("{task}", "7"),
        ("{generation}", "7"),
    ];
    parts.iter().fold(route.to_owned(), |path, (part, value)| path.replace(part, value))
}

#[test]
fn each_role_sees_in_its_menu_what_it_may_open() {
    let keyed = office();
    for (role, quality, work, people) in [
        ("viewer", false, false, false),
        ("clerk", false, false, false),
        ("lead", true, false, false),
        ("administrator", true, true, true),
    ] {
        let mut browser = signed_in(&keyed, role);
        for page in ["/console", "/console/letters/inbox"] {
            let html = browser.open(page).html;
            for (path, is_shown) in [
                ("/console/letters/quality", quality),
                ("/console/letters/work", work),
                ("/console/-/people", people),
                ("/console/letters/search", true),
            ] {
                assert_eq!(html.contains(&format!("href=\"{path}\"")), is_shown, "{role} {page} {path}");
            }
        }
        let inbox = browser.open("/console/letters/inbox").html;
        assert_eq!(inbox.contains("/console/letters/batch"), quality, "{role}: batches");
        let case = browser.open("/console/letters/case/b");
        assert_eq!(case.has_form("/console/letters/decide"), role != "viewer", "{role}: decisions");
    }
}

#[test]
fn an_account_for_some_collections_sees_only_these_and_no_people() {
    let keyed = office();
    keyed.send("office", "PUT", "/v1/collections/hotline", &json!({})).expect_status(201);
    make(&keyed, "north", "administrator", &json!(["hotline"]));
    let mut browser = signed_in(&keyed, "north");
    let start = browser.open("/console").html;
    assert!(start.contains("hotline") && !start.contains("/console/letters") && !start.contains("/console/-/people"));
    for path in ["/console/letters/inbox", "/console/letters/work", "/console/-/people", "/console/-/people/lead"] {
        assert_eq!(browser.get(path).status, 403, "{path}");
    }
    let form = token(&mut browser);
    browser.post("/console/-/people/lead/remove", &form, &[]).expect_status(403);
    browser.get("/console/hotline/inbox").expect_status(200);
}

#[test]
fn an_administrator_makes_changes_and_removes_an_account() {
    let keyed = office();
    let mut administrator = signed_in(&keyed, "administrator");
    let form = administrator.open("/console/-/people").form("/console/-/people");
    let given = [("name", "zhang"), ("display_name", "张伟"), ("role", "clerk"), ("collections", "letters")];
    let made = administrator.post("/console/-/people", &form, &given);
    assert_eq!((made.status, made.header("cache-control")), (200, "no-store"), "{}", made.html);
    let password = made.html.split("<code>").nth(1).and_then(|rest| rest.split('<').next()).expect("a password");
    administrator.post("/console/-/people", &form, &given).expect_status(409).has(&["这个名称已被", "张伟"]);
    administrator
        .post("/console/-/people", &form, &[("name", "李"), ("role", "clerk")])
        .expect_status(422)
        .has(&["账号"]);

    let mut zhang = TestBrowser::new(&keyed.server);
    assert_eq!(try_password(&mut zhang, "Zhang", password).status, 303);
    let page = administrator.open("/console/-/people/zhang");
    assert!(page.html.contains("张伟 (zhang)"), "the session is listed: {}", page.html);
    let form = page.form("/console/-/people/zhang");
    let changed = [("display_name", "张伟"), ("role", "lead")];
    administrator.post("/console/-/people/zhang", &form, &changed).expect_status(303);
    assert_eq!(zhang.get("/console").status, 303, "another role ends the session");
    assert_eq!(try_password(&mut zhang, "zhang", password).status, 303);
    zhang.get("/console/letters/quality").expect_status(200);

    administrator
        .post("/console/-/people/zhang", &form, &[("display_name", "张三"), ("role", "clerk")])
        .expect_status(409)
        .has(&["刚被他人修改过"]);
    let form = administrator.open("/console/-/people/zhang").form("/console/-/people/zhang");
    let renamed = [("display_name", "张大伟"), ("role", "lead")];
    administrator.post("/console/-/people/zhang", &form, &renamed).expect_status(303);
    assert!(zhang.open("/console").html.contains("张大伟"), "another name ends nothing");
    administrator.post("/console/-/people/zhang/password", &form, &[]).expect_status(200).lacks(&[password]);
    assert_eq!(zhang.get("/console").status, 303, "another password ends the session");
    assert_eq!(try_password(&mut zhang, "zhang", password).status, 403);
    administrator.post("/console/-/people/zhang/remove", &form, &[]).expect_status(303);
    assert!(!administrator.open("/console/-/people").html.contains("/console/-/people/zhang"));
    administrator.get("/console/-/people/zhang").expect_status(404);
}

#[test]
fn an_administrator_cannot_lock_themselves_out() {
    let keyed = office();
    let mut administrator = signed_in(&keyed, "administrator");
    let form = token(&mut administrator);
    let path = "/console/-/people/administrator";
    assert!(!administrator.open(path).has_form(&format!("{path}/remove")));
    let viewer = [("display_name", "a"), ("role", "viewer")];
    for (action, fields) in [("", &viewer[..]), ("/password", &[]), ("/remove", &[])] {
        assert_eq!(administrator.post(&format!("{path}{action}"), &form, fields).status, 409, "{action}");
    }
    administrator.get("/console/-/people").expect_status(200);
}

#[test]
fn a_disabled_account_opens_nothing_and_its_sessions_end() {
    let keyed = office();
    let mut clerk = signed_in(&keyed, "clerk");
    let body = json!({ "display_name": "人员clerk", "role": "clerk", "disabled": true });
    let path = format!("{ACCOUNTS}/clerk");
    keyed.send("office", "PUT", &path, &body).expect_status(200);
    clerk.get("/console").expect_status(303);
    let refused = try_password(&mut clerk, "clerk", PASSWORD);
    let wrong = try_password(&mut TestBrowser::new(&keyed.server), "nobody", PASSWORD);
    assert_eq!((refused.status, wrong.status), (403, 403));
    assert_eq!(alert(&refused), alert(&wrong), "the page does not tell which accounts exist");
    keyed.send("office", "DELETE", &path, &Value::Null).expect_status(204);
    assert_eq!(try_password(&mut clerk, "clerk", PASSWORD).status, 403);
}

#[test]
fn a_session_that_ended_does_not_begin_again_when_the_change_is_taken_back() {
    let keyed = office();
    let path = format!("{ACCOUNTS}/clerk");
    let first = json!({ "display_name": "人员clerk", "role": "clerk" });
    for (member, value) in
        [("disabled", json!(true)), ("role", json!("lead")), ("collections", json!(["letters", "hotline"]))]
    {
        let mut asking = signed_in(&keyed, "clerk");
        let mut silent = signed_in(&keyed, "clerk");
        let mut changed = first.clone();
        changed[member] = value;
        keyed.send("office", "PUT", &path, &changed).expect_status(200);
        assert_eq!(asking.get("/console").status, 303, "{member}");
        keyed.send("office", "PUT", &path, &first).expect_status(200);
        assert_eq!(asking.get("/console").status, 303, "{member}: it asked meanwhile");
        assert_eq!(silent.get("/console").status, 303, "{member}: it did not ask meanwhile");
    }
    signed_in(&keyed, "clerk").get("/console").expect_status(200);
}

#[test]
fn a_form_that_is_older_than_a_change_does_not_enable_an_account_again() {
    let keyed = office();
    let mut administrator = signed_in(&keyed, "administrator");
    let page = "/console/-/people/clerk";
    let form = administrator.open(page).form(page);
    let path = format!("{ACCOUNTS}/clerk");
    let body = json!({ "display_name": "人员clerk", "role": "clerk", "disabled": true });
    keyed.send("office", "PUT", &path, &body).expect_status(200);
    let fields = [("display_name", "人员"), ("role", "clerk")];
    let refused = administrator.post(page, &form, &fields);
    assert!(refused.status == 409 && alert(&refused).contains("刚被他人修改过"), "{}", refused.html);
    let without: Vec<_> = form.iter().filter(|(name, _)| name != "changed_at").cloned().collect();
    assert_eq!(administrator.post(page, &without, &fields).status, 409, "without the time of the last change");
    let again = refused.form(page);
    administrator
        .post(page, &again, &[("display_name", "人员"), ("role", "clerk"), ("disabled", "1")])
        .expect_status(303);
    assert_eq!(try_password(&mut TestBrowser::new(&keyed.server), "clerk", PASSWORD).status, 403);
}

/// Returns the message of a page.
fn alert(page: &PageResponse) -> &str {
    let rest = page.html.split("role=\"alert\"").nth(1).expect("a message");
    rest.split("</p>").next().expect("its end")
}

#[test]
fn a_person_changes_their_password_and_keeps_only_this_session() {
    let keyed = office();
    let mut here = signed_in(&keyed, "clerk");
    let mut there = signed_in(&keyed, "clerk");
    let form = here.open("/console/-/me").form("/console/-/me/password");
    let new = "another good password";
    for (present, wanted, again, status) in
        [("wrong password", new, new, 403), (PASSWORD, new, "something else", 403), (PASSWORD, "short", "short", 403)]
    {
        let fields = [("present", present), ("wanted", wanted), ("again", again)];
        assert_eq!(here.post("/console/-/me/password", &form, &fields).status, status, "{present} {wanted}");
    }
    there.get("/console").expect_status(200);
    let before = here.jar.clone();
    let fields = [("present", PASSWORD), ("wanted", new), ("again", new)];
    let changed = here.post("/console/-/me/password", &form, &fields);
    assert_eq!((changed.status, changed.header("location")), (303, "/console/-/me"), "{}", changed.html);
    assert_eq!((here.get("/console").status, there.get("/console").status), (200, 303));
    let mut old = TestBrowser::new(&keyed.server);
    old.jar = before;
    assert_eq!(old.get("/console").status, 303, "the token is new");
    assert_eq!(try_password(&mut there, "clerk", PASSWORD).status, 403);
    assert_eq!(try_password(&mut there, "clerk", new).status, 303);
    let log = keyed.server.log();
    assert!(!log.contains(new) && !log.contains(PASSWORD), "no password is in the log");
}

#[test]
fn sessions_are_ended_by_their_owner_and_by_administrators() {
    let keyed = office();
    let mut clerk = signed_in(&keyed, "clerk");
    let mut viewer = signed_in(&keyed, "viewer");
    let mut second = signed_in(&keyed, "viewer").with("user-agent", "another browser");
    let own = viewer.open("/console/-/me");
    assert_eq!(own.html.matches("name=\"session\"").count(), 2, "only own sessions: {}", own.html);
    own.has(&["127.0.0.1", "本次登录"]);
    let of_viewer = session_after("本次登录", &own);
    let form = token(&mut clerk);
    assert_eq!(end(&mut clerk, &form, &of_viewer), 404, "the session of another person");
    viewer.get("/console").expect_status(200);
    let form = token(&mut viewer);
    assert_eq!(end(&mut viewer, &form, &of_viewer), 303);
    assert_eq!((viewer.get("/console").status, second.get("/console").status), (303, 200));
    let mut administrator = signed_in(&keyed, "administrator");
    let all = administrator.open("/console/-/people");
    let of_clerk = session_after("人员clerk (clerk)</th>", &all);
    let form = token(&mut administrator);
    assert_eq!(end(&mut administrator, &form, &of_clerk), 303);
    clerk.get("/console").expect_status(303);
    assert_eq!(end(&mut administrator, &form, "none"), 404);
}

/// Returns the number of the first session behind a text of a page.
fn session_after(text: &str, page: &PageResponse) -> String {
    let rest = page.html.split(text).nth(1).expect("the session");
    let value = rest.split("name=\"session\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    value.expect("a number").to_owned()
}

/// Sends the form that ends a session. Returns the status.
fn end(browser: &mut TestBrowser<'_>, form: &[(String, String)], id: &str) -> u16 {
    browser.post("/console/-/sessions/end", form, &[("session", id), ("back", "/console/-/me")]).status
}

#[test]
fn a_cookie_that_somebody_planted_is_never_the_session_of_a_person() {
    let keyed = office();
    let planted = "ab".repeat(32);
    let mut victim = TestBrowser::new(&keyed.server);
    victim.jar.insert("doppel_desk".into(), planted.clone());
    assert_eq!(try_password(&mut victim, "clerk", PASSWORD).status, 303);
    assert_ne!(victim.jar["doppel_desk"], planted);
    let mut attacker = TestBrowser::new(&keyed.server);
    attacker.jar.insert("doppel_desk".into(), planted);
    attacker.get("/console").expect_status(303);
    // A form of another browser, or a form without a token, changes nothing.
    let foreign = token(&mut victim);
    let mut administrator = signed_in(&keyed, "administrator");
    for fields in [&foreign[..], &[]] {
        administrator.post("/console/-/people/clerk/remove", fields, &[]).expect_status(403);
    }
    let mut without = TestBrowser::new(&keyed.server);
    let refused = without.post("/console/sign-in", &[], &[("name", "clerk"), ("password", PASSWORD)]);
    assert_eq!(refused.status, 403, "nobody is signed in by a form of another site");
}

#[test]
fn guessing_is_slowed_for_known_and_unknown_names() {
    let keyed = office();
    let mut guesser = TestBrowser::new(&keyed.server);
    let form = guesser.open("/console/sign-in").form("/console/sign-in");
    for name in ["clerk", "nobody"] {
        let mut statuses = Vec::new();
        for number in 0..12 {
            let password = format!("wrong password {number}");
            let fields = [("name", name), ("password", password.as_str())];
            statuses.push(guesser.post("/console/sign-in", &form, &fields).status);
        }
        assert_eq!(statuses[..10], [403; 10], "{name}");
        assert_eq!(statuses[10..], [429; 2], "{name}");
    }
    let right = guesser.post("/console/sign-in", &form, &[("name", "clerk"), ("password", PASSWORD)]);
    assert_eq!(right.status, 429, "a guess that is right counts, too");
    assert_eq!(try_password(&mut guesser, "lead", PASSWORD).status, 303, "others can sign in");
    until_logged(&keyed, &["audit", "/console/sign-in", "key=\"clerk\"", "403"]);
    assert!(!keyed.server.log().contains("nobody"), "an unknown name may be a password");
}
