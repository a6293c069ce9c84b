//! Signing in at an identity provider.

use crate::support::expect_members;
use serde_json::{Value, json};

use crate::browser::{KeyedServer, PageResponse, TestBrowser};
use crate::provider::{CLIENT, SECRET, TestProvider};

const CALLBACK: &str = "/console/sign-in/oidc/callback";

/// A service whose people sign in at a provider, and the provider.
struct ProvidedOffice {
    keyed: KeyedServer,
    provider: TestProvider,
    _folder: tempfile::TempDir,
}

impl ProvidedOffice {
    fn start(more: &[(&str, &str)]) -> Self {
        let provider = TestProvider::start();
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, format!("{SECRET}\n")).expect("a file");
        let mut settings = vec![
            ("DOPPEL_CONSOLE__OIDC__ISSUER", provider.issuer()),
            ("DOPPEL_CONSOLE__OIDC__CLIENT_ID", CLIENT),
            ("DOPPEL_CONSOLE__OIDC__CLIENT_SECRET_FILE", secret.to_str().expect("a plain path")),
            ("DOPPEL_CONSOLE__OIDC__DESK_URL", "https://desk.example"),
        ];
        settings.extend(more);
        let keyed = KeyedServer::start(&settings);
        Self { keyed, provider, _folder: folder }
    }

    fn with_roles() -> Self {
        Self::start(&[("DOPPEL_CONSOLE__OIDC__ROLE_CLAIM", "groups")])
    }

    /// Begins a sign-in. Returns the address at the provider.
    #[track_caller]
    fn begin(&self, browser: &mut TestBrowser<'_>) -> String {
        let form = browser.open("/console/sign-in?next=%2Fconsole%2F-%2Fme").form("/console/sign-in/oidc");
        let led = browser.post("/console/sign-in/oidc", &form, &[]).expect_status(200);
        let addresses = led.values("href");
        addresses.into_iter().next().expect("an address")
    }

    /// Signs in with these claims.
    fn sign_in(&self, browser: &mut TestBrowser<'_>, claims: &Value) -> PageResponse {
        let address = self.begin(browser);
        let query = self.provider.sign_in(&address, "code-1", claims);
        browser.get(&format!("{CALLBACK}?{query}"))
    }

    fn accounts(&self) -> Value {
        let office = self.keyed.key("office");
        self.keyed.server.get_as(office, "/v1/admin/accounts").json()["items"].clone()
    }
}

#[test]
fn the_provider_gives_name_and_role_and_each_sign_in_follows_it() {
    let office = ProvidedOffice::with_roles();
    let mut browser = TestBrowser::new(&office.keyed.server);
    let claims = json!({ "preferred_username": "zhang", "name": "张伟", "groups": ["staff", "clerk"] });
    let led = office.sign_in(&mut browser, &claims);
    assert_eq!((led.status, led.header("location")), (303, "/console/-/me"), "{}", led.html);
    assert!(browser.open("/console/-/me").html.contains("张伟 (zhang)"));
    let made = &office.accounts()[0];
    expect_members(made, &json!({ "name": "zhang", "role": "clerk", "created_by": "(oidc)", "has_password": false }));
    let mut other = TestBrowser::new(&office.keyed.server);
    let claims = json!({ "preferred_username": "zhang", "name": "张伟", "groups": ["lead", "viewer"] });
    assert_eq!(office.sign_in(&mut other, &claims).status, 303);
    assert_eq!(office.accounts()[0]["role"], "lead");
    assert_eq!(browser.get("/console").status, 303, "the session with the earlier role has ended");
    let without = json!({ "preferred_username": "zhang", "groups": ["staff"] });
    assert_eq!(office.sign_in(&mut browser, &without).status, 403);
    let no_name = json!({ "preferred_username": "Zhang Wei", "groups": ["lead"] });
    assert_eq!(office.sign_in(&mut browser, &no_name).status, 403);
    let key_name = json!({ "preferred_username": "office", "groups": ["administrator"] });
    assert_eq!(office.sign_in(&mut browser, &key_name).status, 409, "a key has this name");
    assert_eq!(office.accounts().as_array().map(Vec::len), Some(1));
}

#[test]
fn a_sign_in_at_the_provider_does_not_enable_a_disabled_account() {
    let office = ProvidedOffice::with_roles();
    let mut browser = TestBrowser::new(&office.keyed.server);
    let clerk = json!({ "preferred_username": "zhang", "name": "张伟", "groups": ["clerk"] });
    assert_eq!(office.sign_in(&mut browser, &clerk).status, 303);
    let disabled = json!({ "display_name": "张伟", "role": "clerk", "disabled": true });
    let key = office.keyed.key("office");
    office.keyed.server.send_as(key, "PUT", "/v1/admin/accounts/zhang", &disabled).expect_status(200);
    let lead = json!({ "preferred_username": "zhang", "name": "张伟", "groups": ["lead"] });
    assert_eq!(office.sign_in(&mut browser, &lead).status, 403);
    assert_eq!(office.accounts()[0]["disabled"], true);
}

#[test]
fn without_roles_an_administrator_makes_the_account() {
    let office = ProvidedOffice::start(&[]);
    let claims = json!({ "preferred_username": "zhang", "name": "张伟", "groups": ["administrator"] });
    let mut browser = TestBrowser::new(&office.keyed.server);
    let refused = office.sign_in(&mut browser, &claims);
    assert!(refused.status == 403 && refused.html.contains("请联系系统管理员"), "{}", refused.html);
    let body = json!({ "name": "zhang", "display_name": "张伟", "role": "viewer" });
    let key = office.keyed.key("office").to_owned();
    office.keyed.server.send_as(&key, "POST", "/v1/admin/accounts", &body).expect_status(201);
    assert_eq!(office.sign_in(&mut browser, &claims).status, 303);
    assert_eq!(office.accounts()[0]["role"], "viewer");
    let disabled = json!({ "display_name": "张伟", "role": "viewer", "disabled": true });
    office.keyed.server.send_as(&key, "PUT", "/v1/admin/accounts/zhang", &disabled);
    browser.get("/console").expect_status(303);
    assert_eq!(office.sign_in(&mut browser, &claims).status, 403);
}

#[test]
fn a_code_is_good_for_one_sign_in_of_one_browser() {
    let office = ProvidedOffice::with_roles();
    let claims = json!({ "preferred_username": "zhang", "groups": ["clerk"] });
    let server = &office.keyed.server;
    let mut browser = TestBrowser::new(server);
    let address = office.begin(&mut browser);
    let query = office.provider.sign_in(&address, "code-1", &claims);
    let back = format!("{CALLBACK}?{query}");
    // The answer for one browser is sent by another browser. In this way an attacker could sign a victim in under the attacker's name.
    let mut victim = TestBrowser::new(server);
    victim.open("/console/sign-in");
    victim.get(&back).expect_status(403).has(&["已过期"]);
    assert_eq!(office.provider.asked(), 0, "the code is not even shown to the provider");
    assert_eq!(browser.get(&back).status, 403, "the state was used");

    let address = office.begin(&mut browser);
    let query = office.provider.sign_in(&address, "code-2", &claims);
    let before = browser.jar.clone();
    browser.get(&format!("{CALLBACK}?{query}")).expect_status(303);
    assert_ne!(browser.jar["doppel_desk"], before["doppel_desk"], "a new token");
    let mut old = TestBrowser::new(server);
    old.jar = before;
    assert_eq!(old.get("/console").status, 303, "the token from before is no session");
    assert_eq!(old.get(&format!("{CALLBACK}?{query}")).status, 403, "the code again");

    // The code of one sign-in is sent with the state of another sign-in, so that the provider gets another verifier.
    let first = office.begin(&mut old);
    office.provider.sign_in(&first, "code-3", &claims);
    let second = office.begin(&mut old);
    let query = office.provider.sign_in(&second, "code-4", &claims);
    let mixed = query.replace("code-4", "code-3");
    old.get(&format!("{CALLBACK}?{mixed}")).expect_status(403);
    old.get(&format!("{CALLBACK}?code=code-4&state=none")).expect_status(403);
    let denied = office.begin(&mut old);
    let state = denied.split("state=").nth(1).and_then(|rest| rest.split('&').next()).expect("a state").to_owned();
    old.get(&format!("{CALLBACK}?error=access_denied&state={state}")).expect_status(403);
    let log = server.log();
    assert!(!log.contains("code-2") && !log.contains(SECRET), "no code and no secret is in the log: {log}");
}

#[test]
fn a_token_with_another_nonce_or_audience_signs_nobody_in() {
    let office = ProvidedOffice::with_roles();
    let mut browser = TestBrowser::new(&office.keyed.server);
    for (claim, value) in [
        ("nonce", json!("of another sign-in")),
        ("aud", json!("another client")),
        ("iss", json!("https://another.example")),
        ("exp", json!(1_700_000_000)),
    ] {
        let mut claims = json!({ "preferred_username": "zhang", "groups": ["administrator"] });
        claims[claim] = value;
        let refused = office.sign_in(&mut browser, &claims);
        assert_eq!(refused.status, 403, "{claim}: {}", refused.html);
    }
    assert_eq!(office.accounts(), json!([]));
    browser.get("/console").expect_status(303);
}

#[test]
fn only_a_form_of_the_desk_begins_a_sign_in_and_a_provider_that_is_away_is_named() {
    let office = ProvidedOffice::start(&[("DOPPEL_CONSOLE__OIDC__ISSUER", "http://127.0.0.1:9/away")]);
    let mut browser = TestBrowser::new(&office.keyed.server);
    let form = browser.open("/console/sign-in").form("/console/sign-in/oidc");
    browser.post("/console/sign-in/oidc", &[], &[]).expect_status(403);
    browser.get("/console/sign-in/oidc").expect_status(405);
    browser.post("/console/sign-in/oidc", &form, &[]).expect_status(503);
    browser.sign_in(office.keyed.key("desk"));
    let plain = KeyedServer::start(&[]);
    let mut browser = TestBrowser::new(&plain.server);
    let page = browser.open("/console/sign-in");
    page.lacks(&["/console/sign-in/oidc"]);
    browser.post("/console/sign-in/oidc", &page.form("/console/sign-in"), &[]).expect_status(404);
}
