//! The start page: the collections with the records that wait, and the ways to begin: a file, made-up letters, or an empty collection.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::DeskState;
use crate::demo;
use crate::files::{MOST_BYTES, upload};
use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, SeeOther};
use crate::pages::files::path as file_path;
use crate::view::numbers::count;
use crate::view::time::ZonedClock;
use crate::visitor::{AdminVisitor, PageVisitor, ReadingVisitor};
use crate::words::{FilesWords, StartWords};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::columns;
use doppel_core::error_code::ErrorCode;
use doppel_core::events::{FrequencyRule, FrequencyState};
use doppel_engine::answers::Collection;
use doppel_engine::events::{EventOrder, EventSelection};
use doppel_engine::queue::WaitingCounts;
use doppel_engine::tasks::Window;
use doppel_engine::{Engine, Error, IfDuplicate};
use doppel_http::permits::arrival;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_service::clock;

/// Largest number of collections on the page. Further collections are reachable by their URLs.
const MOST: usize = 200;
/// Largest number of collections of which the page counts the records that wait: counting takes some milliseconds for each.
const MOST_COUNTED: usize = 12;
/// Days of the reports that make an event of interest today.
const EVENT_DAYS: u32 = 7;
/// The proposed name of a new collection.
const PROPOSED_NAME: &str = "letters";

#[derive(Template)]
#[template(path = "start.html")]
struct StartPage {
    frame: PageFrame,
    words: &'static StartWords,
    files: &'static FilesWords,
    rows: Vec<CollectionLine>,
    has_more: bool,
    /// The forms that begin a collection; `None` if the visitor may not create collections.
    begin: Option<BeginForms>,
}

/// The forms that begin a collection.
struct BeginForms {
    name: String,
    file_hint: String,
    /// True if the made-up letters are there already.
    has_demo: bool,
    wrong: Option<&'static str>,
}

struct CollectionLine {
    name: String,
    href: String,
    records: String,
    created: String,
    /// The numbers of the records that wait; `None` if they were not counted.
    waiting: Option<WaitingLine>,
    /// The proposed next step: its path and its text.
    next: (String, String),
    sections: Vec<(String, &'static str)>,
}

/// The numbers of the records of a collection that wait.
struct WaitingLine {
    undecided: (String, String),
    arrived: (String, String),
    events: Option<(String, String)>,
}

/// Shows the collections and the ways to begin.
///
/// # Errors
/// 403; errors of the engine.
pub async fn show(visitor: ReadingVisitor, State(app): State<App>) -> Result<Response, Problem> {
    page::html(StatusCode::OK, &start_page(&visitor, &app, PROPOSED_NAME, None).await?)
}

async fn start_page(
    visitor: &PageVisitor,
    app: &App,
    name: &str,
    wrong: Option<&'static str>,
) -> Result<StartPage, Problem> {
    let (collections, next) = app.engine.collections(None, MOST, |name| visitor.reach.includes(name)).await?;
    let words = visitor.words();
    let frame = PageFrame::new(visitor, words.start.title);
    let begin = visitor.may_admin().then(|| BeginForms {
        name: name.to_owned(),
        file_hint: (words.files.file_hint)(MOST_BYTES >> 20),
        has_demo: collections.iter().any(|collection| collection.name.as_str() == demo::NAME),
        wrong,
    });
    let mut rows = Vec::with_capacity(collections.len());
    for (at, collection) in collections.into_iter().enumerate() {
        let overview = CollectionOverview { engine: &app.engine, frame: &frame, collection };
        rows.push(overview.line(at < MOST_COUNTED).await?);
    }
    Ok(StartPage { frame, words: &words.start, files: &words.files, rows, has_more: next.is_some(), begin })
}

/// A collection, and the context to show it.
struct CollectionOverview<'a> {
    engine: &'a Engine,
    frame: &'a PageFrame,
    collection: Collection,
}

impl CollectionOverview<'_> {
    async fn line(self, counts: bool) -> Result<CollectionLine, Problem> {
        let collection = &self.collection;
        let name = &collection.name;
        let clock = ZonedClock::of(&collection.settings.time_zone);
        let counted = if counts { self.waiting(&clock).await? } else { None };
        let inbox = page::below(name, DeskSection::Inbox.path());
        Ok(CollectionLine {
            name: name.to_string(),
            href: inbox,
            records: count(collection.records),
            created: clock.show_text(&collection.created_at),
            next: self.next(counted.as_ref().map(|(waiting, _)| waiting)),
            waiting: counted.map(|(waiting, events)| self.waiting_line(&waiting, events)),
            sections: DeskSection::seen_by(&self.frame.visitor)
                .map(|section: DeskSection| (page::below(name, section.path()), section.name(self.frame.words())))
                .collect(),
        })
    }

    /// Counts the records that wait, and the frequent events if they are known without waiting. `None` if the collection was deleted since.
    async fn waiting(&self, clock: &ZonedClock) -> Result<Option<(WaitingCounts, Option<usize>)>, Problem> {
        let name = &self.collection.name;
        let now = clock::timestamp();
        let today = clock.stretches(now, 1, 1).first().copied().unwrap_or(now);
        let week = clock.stretches(now, EVENT_DAYS, EVENT_DAYS).first().copied();
        let selection = EventSelection {
            order: EventOrder::default(),
            rule: FrequencyRule::default(),
            frequency: Some(FrequencyState::Frequent),
            status: None,
            min_reports: FrequencyRule::default().reports,
            window: Window { from: week, to: None },
            place: None,
            category: None,
        };
        let counted = async {
            let waiting = self.engine.waiting_counts(name, today).await?;
            Ok::<_, Error>((waiting, self.engine.ready_event_count(name, selection).await?))
        };
        match counted.await {
            Err(Error::UnknownCollection(_)) => Ok(None),
            counted => Ok(Some(counted?)),
        }
    }

    fn waiting_line(&self, waiting: &WaitingCounts, events: Option<usize>) -> WaitingLine {
        let name = &self.collection.name;
        let words = &self.frame.words().start;
        let inbox = page::below(name, DeskSection::Inbox.path());
        let frequent = page::with_query(
            &page::below(name, DeskSection::Events.path()),
            &[("state", "frequent"), ("order", "recent")],
        );
        WaitingLine {
            undecided: (inbox.clone(), shown_number(waiting.undecided, waiting, words)),
            arrived: (page::with_query(&inbox, &[("show", "all")]), shown_number(waiting.arrived, waiting, words)),
            events: events.map(|events| (frequent, count(events as u64))),
        }
    }

    /// Returns the proposed next step.
    fn next(&self, waiting: Option<&WaitingCounts>) -> (String, String) {
        let name = &self.collection.name;
        let words = &self.frame.words().start;
        let (section, text) = match waiting {
            _ if self.collection.records == 0 => (DeskSection::Files, words.next_file.to_owned()),
            Some(waiting) if waiting.undecided > 0 => {
                let number = (words.at_least)(&count(waiting.undecided as u64), waiting.is_complete);
                (DeskSection::Inbox, (words.next_decide)(&number))
            }
            Some(_) => (DeskSection::Check, words.next_check.to_owned()),
            None => (DeskSection::Inbox, words.next_inbox.to_owned()),
        };
        (page::below(name, section.path()), text)
    }
}

/// Returns a number of `waiting` with a note if it is a lower bound.
fn shown_number(number: usize, waiting: &WaitingCounts, words: &StartWords) -> String {
    (words.at_least)(&count(number as u64), waiting.is_complete)
}

/// Returns the collection that a form names.
///
/// # Errors
/// 403 if the visitor's key is not valid for the collection; 422 if the name is not valid.
fn named_collection(visitor: &PageVisitor, name: &str) -> Result<CollectionName, Problem> {
    let name = CollectionName::new(name.trim())
        .map_err(|reason| Problem::invalid_at("/name", ErrorCode::InvalidValue, reason))?;
    visitor.reach.check(&name)?;
    Ok(name)
}

/// Creates an empty collection.
///
/// # Errors
/// 403. The page shows a wrong name and a name that is taken.
pub async fn create(visitor: AdminVisitor, State(app): State<App>, form: FormFields) -> Result<Response, Problem> {
    let given = form.raw("name").unwrap_or_default();
    let words = &visitor.words().start;
    let name = match named_collection(&visitor, given) {
        Err(problem) if problem.status() == StatusCode::UNPROCESSABLE_ENTITY => {
            let page = start_page(&visitor, &app, given, Some(words.wrong_name)).await?;
            return page::html(StatusCode::UNPROCESSABLE_ENTITY, &page);
        }
        name => name?,
    };
    if exists(&app.engine, &name).await? {
        let page = start_page(&visitor, &app, given, Some(words.name_taken)).await?;
        return page::html(StatusCode::CONFLICT, &page);
    }
    let place = page::below(&name, DeskSection::Files.path());
    app.with_engine(|engine| async move { engine.put_collection(&name, Settings::default()).await }).await?;
    Ok(SeeOther::to(place).telling(&FlashMessage::Created).into_response())
}

pub(super) async fn exists(engine: &Engine, name: &CollectionName) -> Result<bool, Problem> {
    match engine.collection_number(name).await {
        Err(Error::UnknownCollection(_)) => Ok(false),
        number => Ok(number.map(|_| true)?),
    }
}

/// Receives a file, and creates the collection that the form names if it does not exist. A new collection gets the fields of the columns.
///
/// # Errors
/// 403; 409 if the collection keeps no text; 422 for a wrong name; the errors of [`upload::take`].
pub async fn upload(
    visitor: AdminVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    request: Request,
) -> Result<Response, Problem> {
    let mut form = upload::form_of(&app, request).await?;
    let name = named_collection(&visitor, &upload::first_text(&app, &mut form, "name").await?)?;
    let is_there = exists(&app.engine, &name).await?;
    if is_there {
        app.engine
            .check_keeps_text(&name, "the desk keeps a file until it is processed; use doppel check or import")
            .await?;
    }
    let taking = upload::take(&app, &desk.files, visitor.caller(), name.clone(), form);
    let job = arrival(&app, taking).await?;
    if !is_there {
        let settings = columns::settings_for(job.table.header.iter().map(String::as_str));
        app.with_engine(|engine| async move { engine.put_collection(&name, settings).await }).await?;
    }
    Ok(SeeOther::to(file_path(&job)).into_response())
}

/// Creates the collection with made-up letters. If it exists, shows it.
///
/// # Errors
/// 403; errors of the engine.
pub async fn load_demo(visitor: AdminVisitor, State(app): State<App>, _: FormFields) -> Result<Response, Problem> {
    let name = demo::collection().map_err(Problem::internal)?;
    visitor.reach.check(&name)?;
    let inbox = page::below(&name, DeskSection::Inbox.path());
    if exists(&app.engine, &name).await? {
        return Ok(SeeOther::to(inbox).into_response());
    }
    let letters = demo::letters(clock::timestamp()).map_err(Problem::internal)?;
    let engine = app.engine.clone();
    let loading = async move {
        engine.put_collection(&name, demo::settings()).await?;
        for letter in letters {
            engine.register(&name, None, letter, IfDuplicate::Keep).await?;
        }
        Ok(())
    };
    app.detached(loading).await?;
    Ok(SeeOther::to(inbox).telling(&FlashMessage::DemoLoaded).into_response())
}
