//! An administrator and a clerk use accounts, in both languages, on a desk screen, on a telephone, enlarged, and without scripts.

use crate::letters;
use crate::reading::{assert_asked_only, assert_kept_to, read};
use crate::support::keyed::KeyedServer;
use crate::tab::{BrowserTab, SIGNED_IN, ViewportSize};
use serde_json::json;

const PASSWORD: &str = "a good password";

fn office() -> KeyedServer {
    let keyed = KeyedServer::start(&[]);
    letters::put(
        &keyed,
        "2024-03-001",
        &json!({ "title": "路灯不亮", "content": "三号路的路灯连续多日不亮，请派人修理。" }),
    );
    for (name, role) in [("zhao", "administrator"), ("qian", "clerk")] {
        let body = json!({ "name": name, "display_name": "人员", "role": role, "password": PASSWORD });
        let made = keyed.server.send_as(keyed.key("office"), "POST", "/v1/admin/accounts", &body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    keyed
}

/// Opens a page, and checks it.
fn look(tab: &BrowserTab, keyed: &KeyedServer, path: &str, name: &str) {
    tab.go(&format!("{}{path}", keyed.server.url()));
    tab.has("main h1");
    read(tab, name);
}

fn sign_in(tab: &BrowserTab, name: &str, password: &str) {
    tab.fill("#name", name);
    tab.fill("#password", password);
    tab.press("form button.main");
}

/// Makes the account `sun`. Returns its password.
fn make_account(tab: &BrowserTab) -> String {
    tab.fill("#name", "sun");
    tab.fill("#display-name", "孙小雨");
    tab.press("input[value=lead]");
    tab.press("form[action='/console/-/people'] button.main");
    tab.has("#password");
    tab.text_of("#password")
}

/// Names the pictures of a walk.
struct PictureName<'a> {
    language: &'a str,
    size: &'a ViewportSize,
}

impl PictureName<'_> {
    fn of(&self, page: &str) -> String {
        format!("{page}-{}-{}", self.language, self.size.name)
    }
}

fn manage(language: &str, size: ViewportSize) {
    let keyed = office();
    let tab = BrowserTab::open(language, size);
    let picture = PictureName { language, size: &size };
    look(&tab, &keyed, "/console/sign-in", &picture.of("sign-in-account"));
    sign_in(&tab, "zhao", "a wrong password");
    tab.has("p.error");
    read(&tab, &picture.of("sign-in-wrong-password"));
    sign_in(&tab, "zhao", PASSWORD);
    tab.has(SIGNED_IN);
    look(&tab, &keyed, "/console/-/people", &picture.of("people"));
    let password = make_account(&tab);
    read(&tab, &picture.of("new-password"));
    look(&tab, &keyed, "/console/-/people/sun", &picture.of("person"));
    look(&tab, &keyed, "/console/-/people/zhao", &picture.of("person-own"));
    look(&tab, &keyed, "/console/-/me", &picture.of("me"));
    tab.press("header form button");
    tab.has("#name");
    sign_in(&tab, "sun", &password);
    tab.has(SIGNED_IN);
    look(&tab, &keyed, "/console/-/people", &picture.of("error-role"));
    assert_kept_to(&tab, keyed.server.url());
}

#[test]
fn accounts_are_managed_in_chinese_at_a_desk() {
    manage("zh-CN", ViewportSize::WIDE);
}

#[test]
fn accounts_are_managed_in_chinese_on_a_telephone() {
    manage("zh-CN", ViewportSize::NARROW);
}

#[test]
fn accounts_are_managed_in_english_with_everything_twice_as_large() {
    manage("en", ViewportSize::ZOOMED);
}

#[test]
fn a_person_gets_an_account_and_changes_the_password_without_scripts() {
    let keyed = office();
    let tab = BrowserTab::open("zh-CN", ViewportSize::WIDE);
    tab.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    tab.go(&format!("{}/console/-/people", keyed.server.url()));
    sign_in(&tab, "zhao", PASSWORD);
    tab.has("#display-name");
    let password = make_account(&tab);
    tab.press("header form button");
    tab.sees("已退出登录");
    sign_in(&tab, "sun", &password);
    tab.press("header .who a b");
    tab.has("#present");
    tab.fill("#present", &password);
    tab.fill("#wanted", "another good password");
    tab.fill("#again", "another good password");
    tab.press("form[action='/console/-/me/password'] button");
    tab.sees("密码已修改");
    tab.sees("孙小雨 (sun)");
    assert_asked_only(&tab, keyed.server.url());
}
