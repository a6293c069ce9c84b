//! Walks like a clerk through every page and every action of the desk: in both languages, on a desk screen, on a telephone, and enlarged to
//! 200 %. Chinese pages have light colours, English pages dark colours.

use crate::letters::{self, COLLECTION, EVERYWHERE, LAMPS_AT_THE_DESK, LAMPS_EARLIER, LAMPS_LATER, PAGES};
use crate::reading::{assert_kept_to, read};
use crate::support::keyed::KeyedServer;
use crate::tab::{BrowserTab, SIGNED_IN, ViewportSize};
use serde_json::{Value, json};

/// The texts of the pages in one language.
struct PageTexts {
    tag: &'static str,
    colours: &'static str,
    other_language: &'static str,
    sign_in: &'static str,
    wrong_key: &'static str,
    sign_out: &'static str,
    signed_out: &'static str,
    start: &'static str,
    inbox: &'static str,
    check: &'static str,
    files: &'static str,
    file_content: &'static str,
    file_done: &'static str,
    file_row: &'static str,
    search: &'static str,
    found: &'static str,
    next_page: &'static str,
    first_page: &'static str,
    nothing_found: &'static str,
    bad_question: &'static str,
    repeat: &'static str,
    register: &'static str,
    registered: &'static str,
    done_same: &'static str,
    done_not_same: &'static str,
    undone: &'static str,
    meanwhile: &'static str,
    all: &'static str,
    wrong_since: &'static str,
    next: &'static str,
    petitioner: &'static str,
    related: &'static str,
    unknown_page: &'static str,
    unknown_record: &'static str,
}

const ZH: PageTexts = PageTexts {
    tag: "zh-CN",
    colours: "light",
    other_language: "English",
    sign_in: "登录",
    wrong_key: "密钥不正确",
    sign_out: "退出",
    signed_out: "已退出登录",
    start: "工作台",
    inbox: "筛重",
    check: "查重",
    files: "批量查重",
    file_content: "每一列是什么",
    file_done: "下载结果文件",
    file_row: "本文件第 3 行",
    search: "检索",
    found: "共 31 件",
    next_page: "下一页",
    first_page: "回到第一页",
    nothing_found: "没有找到",
    bad_question: "信访时间从",
    repeat: "重件：已有内容相近的信访件",
    register: "登记此件",
    registered: "已登记",
    done_same: "已认定为同一事项",
    done_not_same: "已认定为不是同一事项",
    undone: "已撤销认定，恢复系统判断",
    meanwhile: "已由他人认定",
    all: "全部来件",
    wrong_since: "时间请写成",
    next: "下一件",
    petitioner: "同人",
    related: "相关信访事项",
    unknown_page: "没有这个页面",
    unknown_record: "没有这件信访件",
};

const EN: PageTexts = PageTexts {
    tag: "en",
    colours: "dark",
    other_language: "中文",
    sign_in: "Sign in",
    wrong_key: "not a valid key",
    sign_out: "Sign out",
    signed_out: "You are signed out",
    start: "Start",
    inbox: "Inbox",
    check: "Check",
    files: "Check a file",
    file_content: "Which column is what",
    file_done: "Download the result",
    file_row: "row 3 of this file",
    search: "Search",
    found: "31 found",
    next_page: "Next page",
    first_page: "Back to the first page",
    nothing_found: "Nothing was found",
    bad_question: "Submitted from",
    repeat: "A repeat: an earlier record is about the same matter",
    register: "Register it",
    registered: "Registered",
    done_same: "Decided: the same matter",
    done_not_same: "Decided: not the same matter",
    undone: "The decision was taken back",
    meanwhile: "Somebody decided about these two",
    all: "All records",
    wrong_since: "Give a time such as",
    next: "Next",
    petitioner: "Same petitioner",
    related: "Related",
    unknown_page: "There is no such page",
    unknown_record: "There is no such record",
};

/// A clerk who walks through the pages.
struct ClerkWalk<'a> {
    keyed: &'a KeyedServer,
    tab: BrowserTab,
    said: &'static PageTexts,
    size: ViewportSize,
}

fn walk(said: &'static PageTexts, size: ViewportSize) {
    let keyed = KeyedServer::start(&[]);
    letters::fill(&keyed);
    let tab = BrowserTab::open(said.tag, size);
    let colours = json!({"features": [{"name": "prefers-color-scheme", "value": said.colours}]});
    tab.devtools("Emulation.setEmulatedMedia", &colours);
    let walk = ClerkWalk { keyed: &keyed, tab, said, size };
    walk.signs_in();
    walk.chooses_a_collection_and_a_language();
    walk.reads_every_page();
    walk.searches();
    walk.screens_the_inbox();
    walk.reads_a_case_and_decides();
    walk.checks_and_registers();
    walk.checks_a_file();
    walk.goes_wrong();
    walk.signs_out();
    let asked = assert_kept_to(&walk.tab, keyed.server.url());
    assert!(asked > 50, "the browser's requests were seen: {asked}");
}

#[test]
fn a_clerk_works_in_chinese_at_a_desk() {
    walk(&ZH, ViewportSize::WIDE);
}

#[test]
fn a_clerk_works_in_chinese_on_a_telephone() {
    walk(&ZH, ViewportSize::NARROW);
}

#[test]
fn a_clerk_works_in_chinese_with_everything_twice_as_large() {
    walk(&ZH, ViewportSize::ZOOMED);
}

#[test]
fn a_clerk_works_in_english_at_a_desk() {
    walk(&EN, ViewportSize::WIDE);
}

#[test]
fn a_clerk_works_in_english_on_a_telephone() {
    walk(&EN, ViewportSize::NARROW);
}

#[test]
fn a_clerk_works_in_english_with_everything_twice_as_large() {
    walk(&EN, ViewportSize::ZOOMED);
}

impl ClerkWalk<'_> {
    #[track_caller]
    fn go(&self, path: &str) {
        self.tab.go(&format!("{}{path}", self.keyed.server.url()));
    }

    /// Checks the page. `name` is the name of its picture.
    #[track_caller]
    fn read(&self, name: &str) {
        read(&self.tab, &format!("{name}-{}-{}", self.said.tag, self.size.name));
    }

    /// Opens a part of the collection with its link at the top.
    #[track_caller]
    fn section(&self, name: &str) {
        self.tab.press(&format!("//nav[@class='sections']/a[.='{name}']"));
        self.tab.until(name, || {
            let current = "return document.querySelector('.sections [aria-current]')?.textContent ?? ''";
            (self.tab.run(current, &json!([])) == name).then_some(())
        });
    }

    fn decision(&self, a: &str, b: &str) -> Value {
        self.keyed.decision(a, b)
    }

    fn signs_in(&self) {
        let Self { tab, said, .. } = self;
        self.go("/console");
        tab.sees(said.sign_in);
        assert_eq!(tab.run("return document.documentElement.lang", &json!([])), said.tag);
        self.read("sign-in");
        tab.fill("#key", "dpl_desk_wrong");
        tab.press("form button.main");
        tab.sees(said.wrong_key);
        self.read("sign-in-wrong");
        tab.fill("#key", self.keyed.key("office"));
        tab.press("form button.main");
        tab.has(SIGNED_IN);
    }

    fn chooses_a_collection_and_a_language(&self) {
        let Self { tab, said, .. } = self;
        tab.sees(said.start);
        tab.sees(COLLECTION);
        self.read("start");
        tab.press_text(said.other_language);
        tab.until("the other language", || {
            (tab.run("return document.documentElement.lang", &json!([])) != said.tag).then_some(())
        });
        tab.press(&format!("header a[lang='{}']", said.tag));
        tab.sees(said.start);
        tab.press(&format!("//main//a[.='{COLLECTION}']"));
        tab.sees(said.next);
    }

    fn reads_every_page(&self) {
        for (name, path) in PAGES {
            self.go(&format!("/console/{COLLECTION}/{path}"));
            self.tab.has("main h1");
            self.read(name);
        }
        self.go(&format!("/console/{COLLECTION}/inbox"));
    }

    fn searches(&self) {
        let Self { tab, said, .. } = self;
        self.section(said.search);
        tab.fill("#q", EVERYWHERE);
        tab.press("main form button.main");
        tab.sees(said.found);
        tab.has("mark.found");
        assert_eq!(tab.text_of("mark.found"), EVERYWHERE);
        let first = tab.text_of("ol.results li a");
        self.read("search-found");
        tab.press_text(said.next_page);
        tab.sees(said.first_page);
        assert_ne!(tab.text_of("ol.results li a"), first, "the next page has others");
        self.read("search-next");
        tab.fill("#q", "月亮背面的客运码头");
        tab.press("main form button.main");
        tab.sees(said.nothing_found);
        self.go(&format!("/console/{COLLECTION}/search?from=soon"));
        tab.has("p.error");
        assert!(tab.text_of("p.error").contains(said.bad_question), "{}", tab.text_of("p.error"));
        self.read("search-wrong");
    }

    fn screens_the_inbox(&self) {
        let Self { tab, said, .. } = self;
        self.section(said.inbox);
        tab.has(".pair mark");
        assert!(tab.text_of(".work .heading").contains("三号路的路灯什么时候能修"), "the newest is first");
        tab.press_text(said.next);
        tab.until("the second", || tab.text_of(".work .heading").contains("铁锈味").then_some(()));
        tab.press("button.not-same");
        tab.sees(said.done_not_same);
        assert_eq!(self.decision("2024-03-102", "2024-03-108")["judgement"], "not_same");
        assert!(tab.text_of(".work .heading").contains("饭店"), "after a decision comes the next");
        self.read("inbox-decided");
        tab.press(".notice button");
        tab.sees(said.undone);
        assert_eq!(self.decision("2024-03-102", "2024-03-108")["judgement"], "withdrawn");
        let shown = tab.count(".queue li");
        tab.press(&format!("//select[@id='show']/option[.='{}']", said.all));
        tab.press("main form.filters-form button.main");
        tab.until("more of them", || (tab.count(".queue li") > shown).then_some(()));
        self.read("inbox-all");
        self.go(&format!("/console/{COLLECTION}/inbox?since=soon"));
        tab.sees(said.wrong_since);
        self.read("inbox-wrong");
    }

    fn reads_a_case_and_decides(&self) {
        let Self { tab, said, .. } = self;
        self.go(&format!("/console/{COLLECTION}/case/{LAMPS_LATER}"));
        tab.has(".pair mark");
        tab.sees("到底归哪个部门管");
        tab.sees("您好，我住在");
        tab.fill("#note", "两封信说的是同一段路");
        tab.press("button.same");
        tab.sees(said.done_same);
        tab.sees("两封信说的是同一段路");
        let told = &self.decision(LAMPS_EARLIER, LAMPS_LATER)["history"][0];
        assert_eq!((&told["judgement"], &told["by"]), (&json!("same"), &json!("office")));
        self.read("case-decided");
        tab.press(".notice button");
        tab.sees(said.undone);
        assert_eq!(self.decision(LAMPS_EARLIER, LAMPS_LATER)["judgement"], "withdrawn");
        assert_eq!(tab.count("ul.history li"), 2, "what was decided stays in the history");
        tab.press("button.not-same");
        tab.sees(said.done_not_same);
        tab.press("//div[@class='buttons']//button[@value='withdrawn']");
        tab.sees(said.undone);
        self.is_told_what_was_decided_meanwhile();
        self.looks_at_the_tabs();
    }

    fn is_told_what_was_decided_meanwhile(&self) {
        let Self { tab, said, keyed, .. } = self;
        self.go(&format!("/console/{COLLECTION}/case/{LAMPS_LATER}"));
        let path = format!("/v1/collections/{COLLECTION}/decisions/{LAMPS_EARLIER}/{LAMPS_LATER}");
        let other = json!({"judgement": "not_same", "by": "值班员", "note": "电话核实"});
        assert_eq!(keyed.server.send_as(keyed.key("intake"), "PUT", &path, &other).status, 200);
        tab.press("button.same");
        tab.sees(said.meanwhile);
        tab.sees("电话核实");
        assert_eq!(self.decision(LAMPS_EARLIER, LAMPS_LATER)["judgement"], "not_same");
        self.read("case-meanwhile");
        tab.press("//div[@class='buttons']//button[@value='withdrawn']");
        tab.sees(said.undone);
    }

    fn looks_at_the_tabs(&self) {
        let Self { tab, said, .. } = self;
        self.go(&format!("/console/{COLLECTION}/case/2024-03-107"));
        for (name, picture) in [(said.petitioner, "case-petitioner"), (said.related, "case-related")] {
            tab.press(&format!("//nav[@class='tabs']/a[.='{name}']"));
            tab.until(name, || (tab.text_of(".tabs [aria-current]") == name).then_some(()));
            tab.has(".queue li");
            self.read(picture);
        }
    }

    fn checks_and_registers(&self) {
        let Self { tab, said, keyed, .. } = self;
        self.section(said.check);
        let url = tab.url();
        tab.run("window.stays = true", &json!([]));
        tab.fill("#paste", LAMPS_AT_THE_DESK);
        tab.sees(said.repeat);
        tab.has("#answer .pair mark");
        assert_eq!((tab.run("return window.stays", &json!([])), tab.url()), (json!(true), url), "without a reload");
        assert_eq!(self.records(), 31, "and nothing is stored");
        assert_eq!(tab.run("return document.activeElement.id", &json!([])), "paste", "one can go on typing");
        self.read("check-found");
        tab.press_text(said.register);
        tab.sees(said.registered);
        self.read("check-registered");
        assert_eq!(self.records(), 32);
        letters::searchable(keyed, 32);
    }

    fn checks_a_file(&self) {
        let Self { tab, said, .. } = self;
        self.section(said.files);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("来信.csv");
        let other = "二道桥的公共厕所已经关闭了两个月，附近的商户和游客都很不方便，请问什么时候重新开放。";
        let text = format!("诉求内容,办理单位\n{LAMPS_AT_THE_DESK},甲局\n{other},乙局\n{other},丙局\n,丁局\n");
        std::fs::write(&file, text).expect("a file");
        tab.choose("#file", file.to_str().expect("a plain path"));
        tab.press("main form button.main");
        tab.sees(said.file_content);
        self.read("file-columns");
        tab.press("main form button.main");
        tab.sees(said.file_done);
        self.read("file-done");
        let fetch = "const done = arguments[arguments.length - 1]; \
                     fetch(location.href + '/result').then(answer => answer.text()).then(done)";
        let result = tab.run_async(fetch, &json!([]));
        let result = result.as_str().expect("a text");
        assert_eq!(result.lines().count(), 5, "{result}");
        assert!(result.contains(said.file_row), "{result}");
        assert_eq!(self.records(), 32, "and nothing is stored");
    }

    fn records(&self) -> u64 {
        let path = format!("/v1/collections/{COLLECTION}");
        let answer = self.keyed.server.send_as(self.keyed.key("reader"), "GET", &path, &Value::Null);
        answer.json()["records"].as_u64().expect("a number")
    }

    fn goes_wrong(&self) {
        let Self { tab, said, .. } = self;
        self.go("/console/nowhere/at/all");
        tab.sees(said.unknown_page);
        self.read("error-page");
        self.go(&format!("/console/{COLLECTION}/case/nobody"));
        tab.sees(said.unknown_record);
        let details = "main details summary";
        tab.press(details);
        tab.has("main details[open]");
        tab.press("main a.button");
        tab.sees(COLLECTION);
    }

    fn signs_out(&self) {
        let Self { tab, said, .. } = self;
        tab.press_text(said.sign_out);
        tab.sees(said.signed_out);
        self.read("signed-out");
        self.go(&format!("/console/{COLLECTION}/inbox"));
        tab.has("#key");
        tab.sees_no("路灯");
    }
}
