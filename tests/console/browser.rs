//! A browser without a window: it keeps cookies and fills in forms, but does not follow redirects.

use std::collections::BTreeMap;

pub(crate) use crate::support::keyed::{KeyedServer, LAMPS};
use crate::support::{TestServer, expect_no_parts, expect_parts};

/// An answer of the service.
#[derive(Clone, Debug)]
pub(crate) struct PageResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) html: String,
}

impl PageResponse {
    /// Checks that the status is `status`.
    #[track_caller]
    pub(crate) fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.html);
        self
    }

    /// Checks that the page contains all `parts`.
    #[track_caller]
    pub(crate) fn has(&self, parts: &[&str]) -> &Self {
        expect_parts(&self.html, parts);
        self
    }

    /// Checks that the page contains none of `parts`.
    #[track_caller]
    pub(crate) fn lacks(&self, parts: &[&str]) -> &Self {
        expect_no_parts(&self.html, parts);
        self
    }

    /// Returns the header with this lower-case name.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Returns the headers that set cookies.
    pub(crate) fn cookies(&self) -> Vec<&str> {
        self.headers.iter().filter(|(name, _)| name == "set-cookie").map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the values of the attribute `name` of all elements, without escapes.
    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let begin = format!(" {name}=\"");
        let pieces = self.html.split(&begin).skip(1);
        pieces.map(|rest| unescaped(rest.split('"').next().expect("a value"))).collect()
    }

    /// Returns the links that begin with `begin`, without this beginning, in the order of the page.
    pub(crate) fn links(&self, begin: &str) -> Vec<String> {
        self.values("href").into_iter().filter_map(|href| Some(href.strip_prefix(begin)?.to_owned())).collect()
    }

    /// Returns the hidden fields of the first form whose address ends with `action`.
    #[track_caller]
    pub(crate) fn form(&self, action: &str) -> Vec<(String, String)> {
        let forms = self.html.split("<form ").skip(1);
        let form = forms.map(|form| form.split("</form>").next().expect("its content"));
        let form = form
            .clone()
            .find(|form: &&str| form.split('>').next().is_some_and(|tag| tag.contains(&format!("{action}\""))))
            .unwrap_or_else(|| panic!("no form to {action} in {}", self.html));
        let fields = form.split("<input type=\"hidden\" name=\"").skip(1);
        fields
            .map(|field: &str| {
                let (name, rest) = field.split_once("\" value=\"").expect("a value");
                (name.to_owned(), unescaped(rest.split('"').next().expect("its end")))
            })
            .collect()
    }

    /// True if the page has a form whose address ends with `action`.
    pub(crate) fn has_form(&self, action: &str) -> bool {
        self.html.contains(&format!("action=\"{action}\"")) || self.html.contains(&format!("{action}\" class"))
    }
}

fn unescaped(text: &str) -> String {
    let table = [("&#38;", "&"), ("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">")];
    table.iter().fold(text.to_owned(), |text, (entity, sign)| text.replace(entity, sign))
}

pub(crate) struct TestBrowser<'s> {
    pub(crate) server: &'s TestServer,
    pub(crate) jar: BTreeMap<String, String>,
    /// Headers that are sent with every request.
    pub(crate) headers: Vec<(String, String)>,
}

impl<'s> TestBrowser<'s> {
    pub(crate) fn new(server: &'s TestServer) -> Self {
        Self { server, jar: BTreeMap::new(), headers: Vec::new() }
    }

    /// Returns the browser with an additional header.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(found, _)| found != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn get(&mut self, path: &str) -> PageResponse {
        self.send("GET", path, None, &[])
    }

    /// Returns the page at `path`, which must exist.
    #[track_caller]
    pub(crate) fn open(&mut self, path: &str) -> PageResponse {
        let page = self.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.html);
        page
    }

    /// Sends a form with its hidden `fields` and the fields of `more`.
    pub(crate) fn post(&mut self, path: &str, fields: &[(String, String)], more: &[(&str, &str)]) -> PageResponse {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let pairs =
            fields.iter().cloned().chain(more).map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)));
        self.send("POST", path, Some(&pairs.collect::<Vec<_>>().join("&")), &[])
    }

    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        headers: &[(&str, &str)],
    ) -> PageResponse {
        let address = self.server.url().trim_start_matches("http://");
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        let mut given: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        given.extend(headers);
        if !given.iter().any(|(name, _)| *name == "host") {
            given.push(("host", address));
        }
        if body.is_some() && !given.iter().any(|(name, _)| *name == "content-type") {
            given.push(("content-type", "application/x-www-form-urlencoded"));
        }
        for (name, value) in given {
            head += &format!("{name}: {value}\r\n");
        }
        if !self.jar.is_empty() {
            let cookies: Vec<String> = self.jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            head += &format!("cookie: {}\r\n", cookies.join("; "));
        }
        let body = body.unwrap_or_default();
        let answer = self.server.exchange(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        let page = read(&answer);
        self.keep(&page);
        page
    }

    fn keep(&mut self, page: &PageResponse) {
        for cookie in page.cookies() {
            let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            if cookie.contains("Max-Age=0") {
                self.jar.remove(name);
            } else {
                self.jar.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    #[track_caller]
    pub(crate) fn sign_in(&mut self, key: &str) {
        let page = self.open("/console/sign-in");
        let answer = self.post("/console/sign-in", &page.form("/console/sign-in"), &[("key", key)]);
        assert_eq!((answer.status, answer.header("location")), (303, "/console"), "{}", answer.html);
    }
}

fn read(answer: &str) -> PageResponse {
    let (head, html) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status");
    PageResponse {
        status,
        headers: lines
            .map(|line: &str| {
                let (name, value) = line.split_once(": ").unwrap_or((line, ""));
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect(),
        html: html.to_owned(),
    }
}

/// Encodes a text for a query or a form.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

impl KeyedServer {
    /// Returns a browser that is signed in with the key `name`.
    pub(crate) fn signed_in(&self, name: &str) -> TestBrowser<'_> {
        let mut browser = TestBrowser::new(&self.server);
        browser.sign_in(self.key(name));
        browser
    }
}
