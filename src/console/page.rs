//! What all pages share: the frame around their content, their headers, redirects, and what an error looks like.

use askama::Template;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::console::cookies::{self, Cookie};
use crate::console::flash::{self, Decided, Flash};
use crate::console::visitor::Visitor;
use crate::console::words::{Language, ProblemWords, Words};
use crate::console::{ROOT, assets, is_ours};
use crate::http::problem::Problem;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// Nothing from elsewhere, nothing inline, nobody around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What htmx may do: no code in attributes, no styles of its own, no scripts in what it loads, no other host, no copy of pages (they are
/// letters) in the browser's storage; and errors are shown like any answer.
const HTMX: &str = r#"{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"scrollIntoViewOnBoost":false,"responseHandling":[{"code":"204","swap":false},{"code":"...","swap":true}]}"#;

/// The headers that keep a page to itself.
pub fn secure(headers: &mut HeaderMap) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Letters of people: no copy stays behind. Files that pages load say otherwise themselves.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// The media type of all pages.
pub fn media() -> HeaderValue {
    HeaderValue::from_static("text/html; charset=utf-8")
}

/// Marks an answer that is a page whatever its status: an error in it is told in its own words.
#[derive(Clone, Copy, Debug)]
pub struct Rendered;

/// Renders a page.
///
/// # Errors
/// 500 where the template fails, which is a bug.
pub fn html(status: StatusCode, page: &impl Template) -> Result<Response, Problem> {
    let text = page.render().map_err(|error| Problem::internal(format!("a template failed: {error}")))?;
    let mut response = (status, [(header::CONTENT_TYPE, media())], text).into_response();
    response.extensions_mut().insert(Rendered);
    Ok(response)
}

/// A part of the desk, for one collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What came in.
    Inbox,
    /// A letter that is not stored.
    Check,
    /// Files of letters.
    Files,
    /// Finding records by words.
    Search,
    /// Matters of many, and people who write again.
    Groups,
    /// How much came in.
    Statistics,
    /// What people decided against what was found.
    Quality,
    /// Tasks and generations.
    Work,
}

impl Section {
    /// All of them, in the order of the navigation.
    pub const ALL: [Self; 8] = [
        Self::Inbox,
        Self::Check,
        Self::Files,
        Self::Search,
        Self::Groups,
        Self::Statistics,
        Self::Quality,
        Self::Work,
    ];

    /// Its place below the collection's.
    pub fn path(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Check => "check",
            Self::Files => "files",
            Self::Search => "search",
            Self::Groups => "groups",
            Self::Statistics => "statistics",
            Self::Quality => "quality",
            Self::Work => "work",
        }
    }

    /// What it is called.
    pub fn name(self, words: &Words) -> &'static str {
        match self {
            Self::Inbox => words.inbox.title,
            Self::Check => words.check.title,
            Self::Files => words.files.title,
            Self::Search => words.search.title,
            Self::Groups => words.groups.title,
            Self::Statistics => words.statistics.title,
            Self::Quality => words.quality.title,
            Self::Work => words.work.title,
        }
    }
}

/// What stands around a page's content.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Who looks at it.
    pub visitor: Visitor,
    /// What the page is called.
    pub title: String,
    /// Of which collection it is.
    pub collection: Option<CollectionName>,
    /// In which part of the desk it stands.
    pub section: Option<Section>,
}

/// A link to the page in another language.
#[derive(Clone, Debug)]
pub struct LanguageLink {
    /// The tag of the language.
    pub tag: &'static str,
    /// What it calls itself.
    pub name: &'static str,
    /// Where.
    pub href: String,
    /// Whether it is the language of this page.
    pub is_current: bool,
}

impl Frame {
    /// Of a page that belongs to no collection.
    pub fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self { visitor: visitor.clone(), title: title.into(), collection: None, section: None }
    }

    /// Of a page of `collection`.
    pub fn of(visitor: &Visitor, collection: &CollectionName, section: Section, title: impl Into<String>) -> Self {
        Self { collection: Some(collection.clone()), section: Some(section), ..Self::new(visitor, title) }
    }

    /// The texts in the visitor's language.
    pub fn words(&self) -> &'static Words {
        self.visitor.words()
    }

    /// What htmx is told.
    pub fn htmx(&self) -> &'static str {
        HTMX
    }

    /// Where the stylesheet is.
    pub fn stylesheet(&self) -> &'static str {
        assets::stylesheet()
    }

    /// Where the scripts are.
    pub fn scripts(&self) -> [&'static str; 2] {
        assets::scripts()
    }

    /// Where the icon is.
    pub fn icon(&self) -> &'static str {
        assets::icon()
    }

    /// What was just done.
    pub fn flash(&self) -> Option<&Flash> {
        self.visitor.flash.as_ref()
    }

    /// Where to go on after a decision was taken back: to this page, in the inbox to the record it is about.
    pub fn back_to(&self, decided: &Decided) -> String {
        let (place, inbox) = (&self.visitor.place, below(&decided.collection, Section::Inbox.path()));
        let (path, query) = place.split_once('?').unwrap_or((place, ""));
        if path != inbox {
            return place.clone();
        }
        let at = format!("at={}", segment(decided.a.as_str()));
        let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("at="));
        format!("{inbox}?{}", kept.chain([at.as_str()]).collect::<Vec<_>>().join("&"))
    }

    /// The page in each language.
    pub fn languages(&self) -> Vec<LanguageLink> {
        let place = &self.visitor.place;
        let joint = if place.contains('?') { '&' } else { '?' };
        let link = |language: Language| LanguageLink {
            tag: language.tag(),
            name: language.own_name(),
            href: format!("{place}{joint}lang={}", language.tag()),
            is_current: language == self.visitor.language,
        };
        Language::ALL.map(link).to_vec()
    }

    /// Where this part of the desk is; the beginning, where the page is of none.
    pub fn section_path(&self) -> String {
        match (&self.collection, self.section) {
            (Some(collection), Some(section)) => below(collection, section.path()),
            _ => ROOT.to_owned(),
        }
    }

    /// The parts of the desk for this collection: where, what it is called, whether this page is of it.
    pub fn sections(&self) -> Vec<(String, &'static str, bool)> {
        let Some(collection) = &self.collection else { return Vec::new() };
        let link = |section: Section| {
            (below(collection, section.path()), section.name(self.words()), self.section == Some(section))
        };
        Section::ALL.map(link).to_vec()
    }
}

/// The place of a page of `collection`.
pub fn below(collection: &CollectionName, path: &str) -> String {
    format!("{ROOT}/{collection}/{path}")
}

/// The page of a record.
pub fn case(collection: &CollectionName, id: &RecordId) -> String {
    below(collection, &format!("case/{}", segment(id.as_str())))
}

/// The page of the group that a record is in.
pub fn group(collection: &CollectionName, id: &RecordId) -> String {
    below(collection, &format!("groups/{}", segment(id.as_str())))
}

/// Percent-encodes a text as one segment of a path or one value of a query.
pub fn segment(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// A place with these parameters, those left blank left out.
pub fn with_query(place: &str, parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if pairs.is_empty() { place.to_owned() } else { format!("{place}?{}", pairs.join("&")) }
}

/// The path and query of a page; without the query where that is the token of a form which sends a file.
pub fn place(uri: &Uri) -> String {
    if uri.query().is_some_and(|query| query.starts_with("token=")) {
        return uri.path().to_owned();
    }
    uri.path_and_query().map_or(ROOT, |place| place.as_str()).to_owned()
}

/// A place that a form or a link gave to go on to, if it is one of ours; else the beginning.
pub fn local(place: Option<&str>) -> String {
    let plain = |place: &&str| place.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let ours = |place: &&str| {
        let path = place.split(['?', '#']).next().unwrap_or_default();
        // Nor what a browser would take back again.
        let stays = |part: &str| !matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
        is_ours(path) && path.split('/').all(stays)
    };
    place.filter(plain).filter(ours).unwrap_or(ROOT).to_owned()
}

/// Cookies that an answer brings, in its extensions: the guard writes them.
#[derive(Clone, Debug)]
pub struct NewCookies(pub Vec<Cookie>);

/// An action is done: the browser goes on to a page, which reloading does not repeat.
#[derive(Clone, Debug)]
pub struct SeeOther {
    place: String,
    cookies: Vec<Cookie>,
}

impl SeeOther {
    /// To this place.
    pub fn to(place: impl Into<String>) -> Self {
        Self { place: place.into(), cookies: Vec::new() }
    }

    /// With a cookie.
    #[must_use]
    pub fn with(mut self, cookie: Cookie) -> Self {
        self.cookies.push(cookie);
        self
    }

    /// Which tells what was done.
    #[must_use]
    pub fn telling(self, flash: &Flash) -> Self {
        self.with(Cookie::for_seconds(cookies::FLASH, &flash.encode(), flash::SECONDS))
    }
}

impl IntoResponse for SeeOther {
    fn into_response(self) -> Response {
        let place = HeaderValue::from_str(&self.place).unwrap_or(HeaderValue::from_static(ROOT));
        let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response();
        response.extensions_mut().insert(NewCookies(self.cookies));
        response
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    frame: Frame,
    words: &'static ProblemWords,
    details: Vec<(&'a str, &'a str)>,
    request_id: &'a str,
}

/// The page that tells `problem`.
pub fn of_problem(problem: &Problem, visitor: &Visitor, request_id: &str) -> String {
    let words = &visitor.words().problem;
    let errors = problem.errors().iter().map(|error| (error.pointer.as_str(), error.detail.as_str()));
    let mut details: Vec<(&str, &str)> = errors.collect();
    if details.is_empty() {
        details.push(("", problem.detail()));
    }
    let page = ProblemPage { frame: Frame::new(visitor, in_words(problem, words)), words, details, request_id };
    // A template writes to memory: it cannot fail.
    page.render().unwrap_or_default()
}

/// What a problem is called, by what can be done about it.
pub fn in_words(problem: &Problem, words: &ProblemWords) -> &'static str {
    match (problem.status().as_u16(), problem.code()) {
        (_, "missing_scope") => words.missing_scope,
        (_, "form_outdated") => words.form_outdated,
        (_, "search_disabled") => words.search_disabled,
        (_, "search_opening") => words.search_opening,
        (_, "ungrouped") => words.ungrouped,
        (_, "text_not_kept") => words.text_not_kept,
        (_, "group_too_large") => words.group_too_large,
        (_, "id_taken") => words.id_taken,
        (_, "nothing_to_undo") => words.nothing_to_undo,
        (_, code) if code.starts_with("file_") => (words.file)(code),
        (403 | 421, _) => words.foreign,
        (404, "unknown_record") => words.unknown_record,
        (404, "unknown_collection") => words.unknown_collection,
        (404, _) => words.unknown_page,
        (409, _) => words.conflict,
        (422, _) => words.invalid,
        (429, _) => words.too_often,
        (503, _) => words.unavailable,
        (507, _) => words.disk_full,
        (400..500, _) => words.unreadable,
        _ => words.internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_go_on_to_is_one_of_ours() {
        for ours in ["/console", "/console/letters/inbox?since=2024-03-01&at=a%2Fb", "/console?x"] {
            assert_eq!(local(Some(ours)), ours);
        }
        for foreign in [
            "//evil.example",
            "https://evil.example/console",
            "/consoles",
            "/v1/collections",
            "/\\evil.example",
            "javascript:alert(1)",
            "/console/\r\nset-cookie: a=b",
            "/console/信",
            "",
        ] {
            assert_eq!(local(Some(foreign)), ROOT, "{foreign}");
        }
        assert_eq!(local(None), ROOT);
    }

    #[test]
    fn an_id_is_one_segment_of_its_page() {
        let (letters, id) = (CollectionName::new("letters").unwrap(), RecordId::new("2024/甲 &?#").unwrap());
        assert_eq!(case(&letters, &id), "/console/letters/case/2024%2F%E7%94%B2%20%26%3F%23");
        assert_eq!(with_query("/console", &[("q", "甲&乙"), ("to", "")]), "/console?q=%E7%94%B2%26%E4%B9%99");
        assert_eq!(with_query("/console", &[("to", "")]), "/console");
    }
}
