//! The page of tasks: the tasks of a collection, the generations of its index, and the state of the service. The actions are in
//! [`work_actions`].
//!
//! While a task runs, the browser requests the part about the task every two seconds ([`now`]). When the task has ended, the browser loads
//! the whole page once.
//!
//! [`work_actions`]: crate::pages::work_actions

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use crate::page::{self, DeskSection, PageFrame, segment};
use crate::view::numbers::{bytes, count};
use crate::view::time::ZonedClock;
use crate::visitor::{AdminVisitor, PageVisitor, ReadingVisitor};
use crate::words::WorkWords;
use doppel_core::collection::CollectionName;
use doppel_engine::answers::Collection;
use doppel_engine::generations::{Generation, Standing};
use doppel_engine::tasks::Task;
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_store::tasks::TaskStatus;

/// Largest number of finished tasks on the page: some months of work. The API lists a thousand.
const MOST_ENDED: usize = 20;
/// Largest length of the reason of a failure, in characters.
const MOST_REASON: usize = 1_000;
/// Members of task results that the page shows as numbers.
const FIGURES: [&str; 5] = ["generation", "records", "pairs", "unreadable", "deleted"];
/// The response header that makes htmx reload the page.
const HX_REFRESH: HeaderName = HeaderName::from_static("hx-refresh");

#[derive(Template)]
#[template(path = "work.html")]
struct WorkPage {
    frame: PageFrame,
    words: &'static WorkWords,
    place: String,
    token: String,
    running: Option<TaskLine>,
    ended: Vec<TaskLine>,
    has_more: bool,
    generations: Vec<GenerationLine>,
    is_outdated: bool,
    may_admin: bool,
    takes_writes: bool,
    inactive: Vec<String>,
    own: Vec<(&'static str, String)>,
    all: Vec<(&'static str, String)>,
    has_search: bool,
}

/// The part of the page that the browser requests repeatedly.
#[derive(Template)]
#[template(path = "work_now.html")]
struct WorkNow {
    words: &'static WorkWords,
    place: String,
    token: String,
    running: Option<TaskLine>,
    may_admin: bool,
}

struct TaskLine {
    kind: &'static str,
    status: &'static str,
    class: &'static str,
    phase: Option<&'static str>,
    /// Done and total, if they are known.
    share: Option<(u64, u64)>,
    progress: Option<String>,
    pace: Option<String>,
    notes: Vec<&'static str>,
    figures: Vec<(&'static str, String)>,
    times: Vec<(&'static str, String)>,
    failed: Option<(&'static str, String)>,
    is_stopping: bool,
    cancel: String,
}

struct GenerationLine {
    number: String,
    stands: &'static str,
    created: String,
    /// The URL for the activation, and the text of the button.
    activate: Option<(String, &'static str)>,
    discard: Option<String>,
    compare: Option<String>,
}

/// Shows the page.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(
    visitor: ReadingVisitor,
    _: AdminVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
) -> Result<Response, Problem> {
    let found = app.engine.collection(&collection).await?;
    let words = &visitor.words().work;
    let clock = ZonedClock::of(&found.settings.time_zone);
    let place = page::below(&collection, DeskSection::Work.path());
    let mut tasks = app.engine.tasks().await?;
    tasks.retain(|task| task.collection == collection);
    let running = tasks.iter().find(|task| !task.status.is_finished());
    let running = running.map(|task| TaskLine::new(task, words, &clock, &place));
    let mut ended = tasks.iter().filter(|task| task.status.is_finished());
    let lines = ended.by_ref().take(MOST_ENDED).map(|task| TaskLine::new(task, words, &clock, &place)).collect();
    let generations = app.engine.generations(&collection).await?;
    let page = WorkPage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Work, words.title),
        words,
        token: visitor.form_token.clone(),
        generations: generation_lines(&generations, found.generation.0, running.is_some(), words, &clock, &place),
        running,
        ended: lines,
        has_more: ended.next().is_some(),
        is_outdated: found.outdated,
        may_admin: visitor.may_admin(),
        takes_writes: app.engine.ready().await.is_ok(),
        inactive: found.inactive_channels.iter().map(|one| (words.inactive)(&one.scheme, &one.reason)).collect(),
        own: own_numbers(&app, &found, words).await?,
        all: all_numbers(&app, words).await?,
        has_search: app.search.is_some(),
        place,
    };
    page::html(StatusCode::OK, &page)
}

/// Shows the part about the running task. If no task is running, the response makes the browser reload the page. This reads no finished
/// tasks.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn now(
    visitor: ReadingVisitor,
    _: AdminVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
) -> Result<Response, Problem> {
    let clock = ZonedClock::of(&app.engine.settings(&collection).await?.time_zone);
    let words = &visitor.words().work;
    let place = page::below(&collection, DeskSection::Work.path());
    let running = unfinished(&app, &collection).await?.map(|task| TaskLine::new(&task, words, &clock, &place));
    let has_ended = running.is_none();
    let token = visitor.form_token.clone();
    let may_admin = PageVisitor::may_admin(&visitor);
    let mut response = page::html(StatusCode::OK, &WorkNow { words, place, token, running, may_admin })?;
    if has_ended {
        response.headers_mut().insert(HX_REFRESH, HeaderValue::from_static("true"));
    }
    Ok(response)
}

async fn unfinished(app: &App, collection: &CollectionName) -> Result<Option<Task>, Problem> {
    let tasks = app.engine.unfinished_tasks().await?;
    Ok(tasks.into_iter().find(|task| task.collection == *collection).map(Task::from))
}

/// Returns the CSS class for the colour of a status. The page always shows the status in text, too.
fn class(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Enqueued | TaskStatus::Canceled => "short",
        TaskStatus::Processing | TaskStatus::Succeeded => "first",
        TaskStatus::Failed => "repeat",
    }
}

impl TaskLine {
    fn new(task: &Task, words: &'static WorkWords, clock: &ZonedClock, place: &str) -> Self {
        let runs = !task.status.is_finished();
        let share = (runs && task.total > 0).then(|| (task.done.min(task.total), task.total));
        let notes = [
            (task.kind == "reindex" && is_requested("activate", false, &task.request)).then_some(words.beside),
            (matches!(&*task.kind, "purge" | "erase") && is_requested("dry_run", true, &task.request))
                .then_some(words.dry_run),
        ];
        let times = [
            (words.asked, Some(&task.created_at)),
            (words.begun, task.started_at.as_ref()),
            (words.finished, task.finished_at.as_ref()),
        ];
        let failed = task.error.as_ref().map(|error| {
            let reason: String = error.chars().take(MOST_REASON).collect();
            ((words.failed)(&task.kind), reason)
        });
        Self {
            kind: (words.kind)(&task.kind),
            status: (words.status)(task.status),
            class: class(task.status),
            phase: runs.then(|| (words.phase)(&task.phase)),
            progress: share.map(|(done, total)| (words.progress)(&count(done), &count(total))),
            pace: (runs && task.rate > 0.0).then(|| (words.pace)(&format!("{:.0}", task.rate), task.eta_s)),
            share,
            notes: notes.into_iter().flatten().collect(),
            figures: FIGURES
                .iter()
                .filter_map(|name: &&str| {
                    let number = task.result.get(*name)?.as_u64()?;
                    Some(((words.figure)(name)?, count(number)))
                })
                .collect(),
            times: times.into_iter().filter_map(|(name, time)| Some((name, clock.show_text(time?)))).collect(),
            failed,
            is_stopping: runs && task.cancel_requested,
            cancel: format!("{place}/tasks/{}/cancel", segment(&task.id)),
        }
    }
}

fn is_requested(name: &str, value: bool, request: &serde_json::Value) -> bool {
    request.get(name).and_then(|said| said.as_bool()) == Some(value)
}

/// Returns the generations, newest first. `is_busy` is true if a task of the collection has not ended; then no generation can be activated.
fn generation_lines(
    generations: &[Generation],
    live: u32,
    is_busy: bool,
    words: &WorkWords,
    clock: &ZonedClock,
    place: &str,
) -> Vec<GenerationLine> {
    generations
        .iter()
        .rev()
        .map(|generation: &Generation| {
            let number = generation.generation.0;
            let standing = generation.status;
            let is_older = number < live;
            let is_ready = standing == Standing::Ready;
            let at = format!("{place}/generations/{number}");
            let button = if is_older { words.go_back } else { words.activate };
            let can_go = is_ready || (standing == Standing::Building && !is_busy);
            GenerationLine {
                number: number.to_string(),
                stands: (words.stands)(standing, is_older),
                created: clock.show_text(&generation.created_at),
                activate: (is_ready && !is_busy).then(|| (format!("{at}/activate"), button)),
                discard: can_go.then(|| format!("{at}/discard")),
                compare: is_ready.then_some(at),
            }
        })
        .collect()
}

async fn own_numbers(app: &App, found: &Collection, words: &WorkWords) -> Result<Vec<(&'static str, String)>, Problem> {
    let text = app.engine.text_statistics(&found.name).await?;
    Ok(vec![
        (words.records_here, count(found.records)),
        (words.statistics, (words.counted)(text.version, &count(u64::from(text.sampled)))),
    ])
}

/// Returns the numbers of the service. A number that cannot be read is left out, so that the page still shows the others.
async fn all_numbers(app: &App, words: &WorkWords) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut numbers = Vec::new();
    if let Ok(usage) = app.engine.usage().await {
        numbers.extend([
            (words.records_in_all, count(usage.records)),
            (words.index_memory, bytes(usage.index_bytes)),
            (words.disk_used, bytes(usage.disk_bytes)),
            (words.disk_free, bytes(usage.free_bytes)),
        ]);
    }
    numbers.push((words.remembered, bytes(app.engine.sketch_bytes() + app.engine.read_record_bytes())));
    if let Some(search) = &app.search
        && let Ok(usage) = search.usage().await
    {
        numbers.extend([
            (words.search_disk, bytes(usage.disk_bytes)),
            (words.search_memory, bytes(usage.memory_bytes)),
            (words.search_behind, count(usage.behind)),
        ]);
    }
    Ok(numbers)
}
