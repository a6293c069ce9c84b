//! The parts that all pages share: the frame around the content, headers, redirects, and the error page.

use askama::Template;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::choices::choices;
use crate::cookies::{self, SetCookie};
use crate::flash::{self, DecidedNotice, FlashMessage};
use crate::visitor::PageVisitor;
use crate::words::{DeskWords, ProblemWords};
use crate::{ROOT, assets, is_ours};
use doppel_config::auth::Scope;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_http::problem::Problem;
use doppel_texts::Language;

/// The content security policy: no resources of other sites, no inline code, and no other page may embed the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The configuration of htmx: no code in attributes, no own styles, no scripts in loaded content, no other hosts, and no copy of pages in
/// the storage of the browser, since pages contain letters. Error responses are shown like all others.
const HTMX: &str = r#"{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"scrollIntoViewOnBoost":false,"responseHandling":[{"code":"204","swap":false},{"code":"...","swap":true}]}"#;

/// Sets the headers that isolate a page from other sites.
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
    // Pages contain letters of people, so that no cache may keep a copy. Static files already have their own header.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Returns the media type of all pages.
pub fn media() -> HeaderValue {
    HeaderValue::from_static("text/html; charset=utf-8")
}

/// Marks a response that is already a page: an error in it needs no error page.
#[derive(Clone, Copy, Debug)]
pub struct RenderedPage;

/// Renders a page.
///
/// # Errors
/// 500 if the template fails, which is a bug.
pub fn html(status: StatusCode, page: &impl Template) -> Result<Response, Problem> {
    let text = page.render().map_err(|error| Problem::internal(format!("a template failed: {error}")))?;
    let mut response = (status, [(header::CONTENT_TYPE, media())], text).into_response();
    response.extensions_mut().insert(RenderedPage);
    Ok(response)
}

#[derive(Template)]
#[template(path = "once_more.html")]
struct LeadingPage {
    language: Language,
    place: String,
}

/// Returns a page without content that makes the browser request `place`.
///
/// # Errors
/// 500 if the template fails, which is a bug.
pub fn leading_to(language: Language, place: String) -> Result<Response, Problem> {
    html(StatusCode::OK, &LeadingPage { language, place })
}

choices! {
    /// A part of the desk for one collection, in the order of the navigation. Its value is its path below the path of the collection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DeskSection from words: DeskWords {
        /// The list of records by arrival.
        Inbox = "inbox", words.inbox.title;
        /// The check of a letter that is not stored.
        Check = "check", words.check.title;
        /// Files of letters.
        Files = "files", words.files.title;
        /// The search for records by words.
        Search = "search", words.search.title;
        /// Groups of records about one matter, and people with several letters.
        Groups = "groups", words.groups.title;
        /// Records about one real-world problem, in any words.
        Events = "events", words.events.title;
        /// Counts of the records that arrived.
        Statistics = "statistics", words.statistics.title;
        /// Comparison of people's decisions with the findings of the service.
        Quality = "quality", words.quality.title;
        /// Tasks and generations.
        Work = "work", words.work.title;
    }
}

impl DeskSection {
    /// Returns the section's path below the path of the collection.
    pub fn path(self) -> &'static str {
        self.value()
    }

    /// Returns the scope that a visitor needs in addition to `read` to see the section.
    pub fn scope(self) -> Scope {
        match self {
            Self::Work => Scope::Admin,
            Self::Quality => Scope::Lead,
            _ => Scope::Read,
        }
    }

    /// Returns the sections that a visitor may see, in the order of the navigation.
    pub fn seen_by(visitor: &PageVisitor) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|section| visitor.may(Scope::Read) && visitor.may(section.scope()))
    }
}

/// The data for the frame around the content of a page.
#[derive(Clone, Debug)]
pub struct PageFrame {
    /// The visitor who requested the page.
    pub visitor: PageVisitor,
    pub title: String,
    /// The collection of the page; `None` for a page about all collections.
    pub collection: Option<CollectionName>,
    /// The section of the page; `None` for a page outside the navigation.
    pub section: Option<DeskSection>,
}

/// A link to the same page in another language.
#[derive(Clone, Debug)]
pub struct LanguageLink {
    pub tag: &'static str,
    /// The name of the language in the language itself.
    pub name: &'static str,
    /// The URL.
    pub href: String,
    /// True if this page is in this language.
    pub is_current: bool,
}

impl PageFrame {
    /// Creates the frame of a page that belongs to no collection.
    pub fn new(visitor: &PageVisitor, title: impl Into<String>) -> Self {
        Self { visitor: visitor.clone(), title: title.into(), collection: None, section: None }
    }

    /// Creates the frame of a page of `collection`.
    pub fn of(
        visitor: &PageVisitor,
        collection: &CollectionName,
        section: DeskSection,
        title: impl Into<String>,
    ) -> Self {
        Self { collection: Some(collection.clone()), section: Some(section), ..Self::new(visitor, title) }
    }

    /// Returns the texts in the visitor's language.
    pub fn words(&self) -> &'static DeskWords {
        self.visitor.words()
    }

    /// Returns the configuration of htmx.
    pub fn htmx(&self) -> &'static str {
        HTMX
    }

    /// Returns the path of the stylesheet.
    pub fn stylesheet(&self) -> &'static str {
        assets::stylesheet()
    }

    /// Returns the paths of the scripts.
    pub fn scripts(&self) -> [&'static str; 2] {
        assets::scripts()
    }

    /// Returns the path of the icon.
    pub fn icon(&self) -> &'static str {
        assets::icon()
    }

    /// Returns the message about the action that was just done.
    pub fn flash(&self) -> Option<&FlashMessage> {
        self.visitor.flash.as_ref()
    }

    /// Returns the address of the page to show after the visitor has withdrawn a decision: this page; in the inbox, at the record of the decision.
    pub fn back_to(&self, decided: &DecidedNotice) -> String {
        let place = &self.visitor.place;
        let inbox = below(&decided.collection, DeskSection::Inbox.path());
        let (path, query) = place.split_once('?').unwrap_or((place, ""));
        if path != inbox {
            return place.clone();
        }
        let at = format!("at={}", segment(decided.a.as_str()));
        let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("at="));
        format!("{inbox}?{}", kept.chain([at.as_str()]).collect::<Vec<_>>().join("&"))
    }

    /// Returns a link to this page for each language.
    pub fn languages(&self) -> Vec<LanguageLink> {
        let place = &self.visitor.place;
        let joint = if place.contains('?') { '&' } else { '?' };
        Language::ALL
            .map(|language: Language| LanguageLink {
                tag: language.tag(),
                name: language.own_name(),
                href: format!("{place}{joint}lang={}", language.tag()),
                is_current: language == self.visitor.language,
            })
            .to_vec()
    }

    /// Returns the path of the page's section, or the path of the start page if the page has no section.
    pub fn section_path(&self) -> String {
        match (&self.collection, self.section) {
            (Some(collection), Some(section)) => below(collection, section.path()),
            _ => ROOT.to_owned(),
        }
    }

    /// Returns the sections for the collection of this page: path, title, and true if this page belongs to the section.
    pub fn sections(&self) -> Vec<(String, &'static str, bool)> {
        let Some(collection) = &self.collection else { return Vec::new() };
        DeskSection::seen_by(&self.visitor)
            .map(|section: DeskSection| {
                (below(collection, section.path()), section.name(self.words()), self.section == Some(section))
            })
            .collect()
    }
}

/// Returns the path of a page of `collection`.
pub fn below(collection: &CollectionName, path: &str) -> String {
    format!("{ROOT}/{collection}/{path}")
}

/// Returns the path of a record's page.
pub fn case(collection: &CollectionName, id: &RecordId) -> String {
    below(collection, &format!("case/{}", segment(id.as_str())))
}

/// Returns the path of the page of the group that contains a record.
pub fn group(collection: &CollectionName, id: &RecordId) -> String {
    below(collection, &format!("groups/{}", segment(id.as_str())))
}

/// Returns the path of the page of the event that contains a record.
pub fn event(collection: &CollectionName, id: &RecordId) -> String {
    below(collection, &format!("events/{}", segment(id.as_str())))
}

/// Percent-encodes a text as one segment of a path or one value of a query.
pub fn segment(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// Returns `place` with these query parameters, without the parameters whose values are empty.
pub fn with_query(place: &str, parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if pairs.is_empty() { place.to_owned() } else { format!("{place}?{}", pairs.join("&")) }
}

/// Returns the path and query of a page. A query that is the token of an upload form is left out.
pub fn place(uri: &Uri) -> String {
    if uri.query().is_some_and(|query| query.starts_with("token=")) {
        return uri.path().to_owned();
    }
    uri.path_and_query().map_or(ROOT, |place| place.as_str()).to_owned()
}

/// Returns the redirect target of a form or a link if it is a path of the desk; otherwise the path of the start page.
pub fn local(place: Option<&str>) -> String {
    place
        .filter(|place: &&str| place.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'))
        .filter(|place: &&str| {
            let path = place.split(['?', '#']).next().unwrap_or_default();
            // Segments that a browser would resolve ("." and "..") are refused.
            is_ours(path)
                && path
                    .split('/')
                    .all(|part: &str| !matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
        })
        .unwrap_or(ROOT)
        .to_owned()
}

/// The cookies of a response, in the response's extensions. The guard writes them into the header.
#[derive(Clone, Debug)]
pub struct NewCookies(pub Vec<SetCookie>);

/// The redirect after an action. Reloading the next page does not repeat the action.
#[derive(Clone, Debug)]
pub struct SeeOther {
    place: String,
    cookies: Vec<SetCookie>,
}

impl SeeOther {
    /// Creates a redirect to `place`.
    pub fn to(place: impl Into<String>) -> Self {
        Self { place: place.into(), cookies: Vec::new() }
    }

    /// Adds a cookie.
    #[must_use]
    pub fn with(mut self, cookie: SetCookie) -> Self {
        self.cookies.push(cookie);
        self
    }

    /// Adds the message about the action, which the next page shows.
    #[must_use]
    pub fn telling(self, flash: &FlashMessage) -> Self {
        self.with(SetCookie::for_seconds(cookies::FLASH, &flash.encode(), flash::SECONDS))
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
    frame: PageFrame,
    words: &'static ProblemWords,
    details: Vec<(&'a str, &'a str)>,
    request_id: &'a str,
}

/// Returns the HTML of the error page for `problem`.
pub fn of_problem(problem: &Problem, visitor: &PageVisitor, request_id: &str) -> String {
    let words = &visitor.words().problem;
    let problem = &problem.clone().in_language(visitor.language);
    // A person did not write the path of the page, so that its places say nothing.
    let errors = problem.errors().iter().map(|error| {
        let place = error.pointer.as_str();
        (if place.starts_with("/path") { "" } else { place }, error.detail.as_str())
    });
    let mut details: Vec<(&str, &str)> = errors.collect();
    if details.is_empty() {
        details.push(("", problem.detail()));
    }
    let page = ProblemPage { frame: PageFrame::new(visitor, in_words(problem, words)), words, details, request_id };
    // A template writes to memory, so it cannot fail.
    page.render().unwrap_or_default()
}

/// Returns the title of a problem in the visitor's language. Problems with the same remedy have the same title.
pub fn in_words(problem: &Problem, words: &ProblemWords) -> &'static str {
    match (problem.status().as_u16(), problem.code()) {
        (_, ErrorCode::MissingScope) => words.missing_scope,
        (_, ErrorCode::MissingRole) => words.missing_role,
        (_, ErrorCode::SignInRefused) => words.sign_in_refused,
        (_, ErrorCode::SignInOutdated) => words.sign_in_outdated,
        (_, ErrorCode::AccountExists | ErrorCode::KeyExists) => words.name_taken,
        (_, ErrorCode::AccountChanged) => words.account_changed,
        (_, ErrorCode::UnknownAccount) => words.unknown_account,
        (_, ErrorCode::FormOutdated) => words.form_outdated,
        (_, ErrorCode::SearchDisabled) => words.search_disabled,
        (_, ErrorCode::SearchOpening) => words.search_opening,
        (_, ErrorCode::Ungrouped) => words.ungrouped,
        (_, ErrorCode::TextNotKept) => words.text_not_kept,
        (_, ErrorCode::GroupTooLarge) => words.group_too_large,
        (_, ErrorCode::IdTaken) => words.id_taken,
        (_, ErrorCode::NothingToUndo) => words.nothing_to_undo,
        (_, code) if code.as_str().starts_with("file_") => (words.file)(code),
        (403 | 421, _) => words.foreign,
        (404, ErrorCode::UnknownRecord) => words.unknown_record,
        (404, ErrorCode::UnknownCollection) => words.unknown_collection,
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

/// Returns the title of a problem with a form, with the labels of the wrong fields. `labels` contains the pointer and the label of each
/// field.
pub fn in_words_with_fields(problem: &Problem, words: &ProblemWords, labels: &[(&str, &str)]) -> String {
    let named = problem.errors().iter().filter_map(|error| labels.iter().find(|(field, _)| *field == error.pointer));
    let wrong: Vec<&str> = named.map(|(_, label)| *label).collect();
    let title = in_words(problem, words);
    if wrong.is_empty() { title.to_owned() } else { format!("{title} ({})", wrong.join(", ")) }
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
        let letters = CollectionName::new("letters").unwrap();
        let id = RecordId::new("2024/甲 &?#").unwrap();
        assert_eq!(case(&letters, &id), "/console/letters/case/2024%2F%E7%94%B2%20%26%3F%23");
        assert_eq!(with_query("/console", &[("q", "甲&乙"), ("to", "")]), "/console?q=%E7%94%B2%26%E4%B9%99");
        assert_eq!(with_query("/console", &[("to", "")]), "/console");
    }
}
