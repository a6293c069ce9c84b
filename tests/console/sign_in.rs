//! Signing in: the pages that need it, the properties of the cookie, and the events that make the cookie invalid.

use crate::browser::{KeyedServer, PageResponse, TestBrowser};
use crate::support::awaited;

const BROWSER: &str = "doppel_desk";

fn session(browser: &TestBrowser<'_>) -> String {
    browser.jar.get(BROWSER).expect("a cookie").clone()
}

#[test]
fn a_visitor_is_sent_to_the_sign_in_form_and_then_to_the_page() {
    let keyed = KeyedServer::with(&["a"]);
    let mut browser = TestBrowser::new(&keyed.server);
    for path in [
        "/console",
        "/console/letters/inbox",
        "/console/letters/search?q=a%20b&order=newest",
        "/console/letters/case/a",
    ] {
        let led = browser.get(path);
        assert_eq!(led.status, 303, "{path}");
        assert!(!led.html.contains("河口") && led.header("location").starts_with("/console/sign-in?next="), "{led:?}");
        let form = browser.open(led.header("location"));
        assert!(form.form("/console/sign-in").contains(&("next".into(), path.into())), "{path}: {}", form.html);
    }
    let form = browser.open("/console/sign-in?next=%2Fconsole%2Fletters%2Fcase%2Fa").form("/console/sign-in");
    let led = browser.post("/console/sign-in", &form, &[("key", keyed.key("reader"))]);
    assert_eq!((led.status, led.header("location")), (303, "/console/letters/case/a"));
    browser.open("/console/letters/case/a").has(&["河口", "<b>reader</b>"]);
    let again = browser.get("/console/sign-in");
    assert_eq!((again.status, again.header("location")), (303, "/console"), "who is signed in need not");
}

#[test]
fn a_managed_key_signs_in_for_its_collections_and_its_session_ends_when_it_is_revoked() {
    let keyed = KeyedServer::with(&["a"]);
    let office = keyed.key("office").to_owned();
    keyed.server.send_as(&office, "PUT", "/v1/collections/hotline", &serde_json::json!({})).expect_status(201);
    let body = serde_json::json!({ "name": "clerk", "scopes": ["read"], "collections": ["letters"] });
    let made = keyed.server.send_as(&office, "POST", "/v1/admin/keys", &body).json();
    let mut browser = TestBrowser::new(&keyed.server);
    let form = browser.open("/console/sign-in").form("/console/sign-in");
    let led = browser.post("/console/sign-in", &form, &[("key", made["key"].as_str().expect("the key"))]);
    assert_eq!(led.status, 303, "{led:?}");
    browser.open("/console").has(&["/console/letters"]).lacks(&["hotline"]);
    assert!(browser.open("/console/letters/case/a").html.contains("河口"));
    for path in
        ["/console/hotline/inbox", "/console/nowhere/inbox", "/console/hotline/search?q=a", "/console/hotline/work"]
    {
        let refused = browser.get(path);
        assert_eq!(refused.status, 403, "{path}: {}", refused.html);
    }
    keyed.server.send_as(&office, "DELETE", "/v1/admin/keys/clerk", &serde_json::Value::Null).expect_status(204);
    let led = browser.get("/console/letters/case/a");
    assert!(led.status == 303 && led.header("location").starts_with("/console/sign-in"), "{led:?}");
}

#[test]
fn the_form_leads_to_no_other_site() {
    let keyed = KeyedServer::start(&[]);
    for next in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2Fv1%2Fcollections"] {
        let mut browser = TestBrowser::new(&keyed.server);
        let mut form = browser.open(&format!("/console/sign-in?next={next}")).form("/console/sign-in");
        assert!(form.contains(&("next".into(), "/console".into())), "{form:?}");
        form.retain(|(name, _)| name != "next");
        let led = browser.post("/console/sign-in", &form, &[("key", keyed.key("desk")), ("next", "//evil.example")]);
        assert_eq!(led.header("location"), "/console");
    }
}

#[test]
fn the_cookie_is_for_our_pages_alone_and_secure_behind_tls() {
    let keyed = KeyedServer::start(&[]);
    let plain = sign_in_at_desk(&mut TestBrowser::new(&keyed.server), &keyed);
    let [cookie] = plain.cookies()[..] else { panic!("{plain:?}") };
    assert!(cookie.ends_with("; Path=/console; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(cookie.strip_prefix("doppel_desk=").is_some_and(|rest| rest.split(';').next().map(str::len) == Some(64)));
    let secure = sign_in_at_desk(&mut TestBrowser::new(&keyed.server).with("x-forwarded-proto", "https"), &keyed);
    assert!(secure.cookies()[0].ends_with("; Secure"), "{secure:?}");
}

fn sign_in_at_desk(browser: &mut TestBrowser<'_>, keyed: &KeyedServer) -> PageResponse {
    let form = browser.open("/console/sign-in").form("/console/sign-in");
    browser.post("/console/sign-in", &form, &[("key", keyed.key("desk"))])
}

#[test]
fn a_cookie_that_somebody_had_before_is_never_the_session() {
    let keyed = KeyedServer::start(&[]);
    let mut victim = TestBrowser::new(&keyed.server);
    // An attacker planted this cookie and has opened a page with it.
    let planted = "ab".repeat(32);
    victim.jar.insert(BROWSER.into(), planted.clone());
    victim.sign_in(keyed.key("desk"));
    assert_ne!(session(&victim), planted);
    let mut attacker = TestBrowser::new(&keyed.server);
    attacker.jar.insert(BROWSER.into(), planted);
    attacker.get("/console").expect_status(303);
    // A new sign-in ends the earlier session.
    let before = session(&victim);
    let out = victim.open("/console").form("/console/sign-out");
    victim.post("/console/sign-out", &out, &[]).expect_status(303);
    victim.sign_in(keyed.key("desk"));
    let mut old = TestBrowser::new(&keyed.server);
    old.jar.insert(BROWSER.into(), before.clone());
    old.get("/console").expect_status(303);
    assert_ne!(session(&victim), before);
}

#[test]
fn signing_out_ends_the_session_for_everyone_with_its_cookie() {
    let keyed = KeyedServer::start(&[]);
    let mut browser = keyed.signed_in("reader");
    let stolen = session(&browser);
    let form = browser.open("/console").form("/console/sign-out");
    let out = browser.post("/console/sign-out", &form, &[]);
    assert_eq!((out.status, out.header("location")), (303, "/console/sign-in"));
    assert!(browser.open("/console/sign-in").html.contains("已退出登录"));
    assert!(!browser.open("/console/sign-in").html.contains("已退出登录"), "told once");
    let mut thief = TestBrowser::new(&keyed.server);
    thief.jar.insert(BROWSER.into(), stolen);
    thief.get("/console").expect_status(303);
}

#[test]
fn every_wrong_key_gets_the_same_answer_and_attempts_are_limited() {
    let keyed = KeyedServer::start(&[]);
    let mut browser = TestBrowser::new(&keyed.server);
    let form = browser.open("/console/sign-in").form("/console/sign-in");
    let reader = keyed.key("reader").to_owned();
    let wrong = [format!("{reader}0"), reader.replace("reader", "nobody"), "secret".into(), String::new()];
    let told: Vec<(u16, String)> = wrong
        .iter()
        .map(|key| browser.post("/console/sign-in", &form, &[("key", key)]))
        .map(|page| (page.status, page.html))
        .collect();
    assert!(told.iter().all(|page| *page == told[0] && page.0 == 403), "{told:?}");
    assert!(!told[0].1.contains("secret") && !keyed.server.log().contains(&reader), "no key is repeated or logged");
    let last = (0..20).map(|_| browser.post("/console/sign-in", &form, &[("key", "secret")]).status).last();
    assert_eq!(last, Some(429));
    browser.sign_in(&reader);
}

#[test]
fn a_script_is_led_to_the_sign_in_page_as_a_whole() {
    let keyed = KeyedServer::start(&[]);
    let answer = TestBrowser::new(&keyed.server).with("hx-request", "true").get("/console/letters/inbox");
    let back = "/console/sign-in?next=%2Fconsole%2Fletters%2Finbox";
    assert_eq!((answer.status, answer.header("hx-redirect")), (200, back));
}

#[test]
fn the_log_names_the_key_of_the_signed_in_person() {
    let keyed = KeyedServer::start(&[]);
    keyed.signed_in("reader").open("/console");
    // The service writes the line after it has sent the answer, and another thread reads the line.
    awaited(
        "a line of the log",
        || keyed.server.log(),
        |log| log.contains("route=\"/console\" status=200") && log.contains("key=\"reader\""),
    );
}

#[test]
fn a_link_on_another_site_ends_no_session() {
    let keyed = KeyedServer::with(&["a"]);
    let mut clerk = keyed.signed_in("desk");
    let session = clerk.jar.clone();
    // The browser does not send its cookies, because the request comes from another site.
    let led = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    clerk.jar.clear();
    let once_more = clerk.send("GET", "/console/letters/case/a", None, &led).expect_status(200);
    assert!(once_more.cookies().is_empty(), "{:?}", once_more.headers);
    once_more.has(&["content=\"0;url=/console/letters/case/a\""]);
    clerk.jar = session;
    clerk.open("/console/letters/case/a");
}
