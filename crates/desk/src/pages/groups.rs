//! The lists of groups: hot issues and repeat petitioners, for a number of days that ends today.

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use jiff::Timestamp;

use crate::choices::choices;
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::pair::PageContext;
use crate::view::chart::{ChartBar, spark};
use crate::view::csv::CsvTable;
use crate::view::numbers::count;
use crate::view::pair::RecordCard;
use crate::words::{GroupsWords, RecordWords};
use doppel_core::collection::CollectionName;
use doppel_engine::groups::{HotIssue, MostNamed, RankingPart, RepeatPetitioner};
use doppel_http::problem::Problem;
use doppel_service::clock;

/// Lines of a page. Each line needs several reads for its title and its place.
const PER_PAGE: usize = 20;
/// Largest number of lines of an export.
const MOST_EXPORTED: usize = 1000;
/// The offered numbers of days, each with the number of days per column of the trend.
const WINDOWS: [(u32, u32); 4] = [(7, 1), (30, 1), (90, 7), (365, 7)];
/// The default number of days.
const FIRST_WINDOW: (u32, u32) = WINDOWS[1];

choices! {
    /// The kind of list.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum GroupsTab from words: GroupsWords {
        /// Matters about which many people wrote.
        #[default]
        Hot = "hot", words.hot;
        /// People who wrote repeatedly.
        Repeat = "repeat", words.repeat;
    }
}

impl GroupsTab {
    fn hint(self, words: &GroupsWords) -> &'static str {
        match self {
            Self::Hot => words.hot_hint,
            Self::Repeat => words.repeat_hint,
        }
    }
}

/// The parameters of a request.
#[derive(Clone, Copy, Debug)]
struct GroupsRequest {
    tab: GroupsTab,
    days: u32,
    step: u32,
    page: usize,
}

impl GroupsRequest {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let form = FormFields::of_query(uri)?;
        let tab = form.choice("tab", &GroupsTab::NAMES)?;
        let window = form.choice("days", &WINDOWS.map(|window| (window, window.0)))?;
        let (days, step) = window.unwrap_or(FIRST_WINDOW);
        let page = form.page()?;
        Ok(Self { tab: tab.unwrap_or_default(), days, step, page })
    }

    fn href(self, collection: &CollectionName, path: &str) -> String {
        let page = if self.page > 1 { self.page.to_string() } else { String::new() };
        let parameters = [("tab", self.tab.value()), ("days", &self.days.to_string()), ("page", &page)];
        with_query(&page::below(collection, path), &parameters)
    }
}

#[derive(Template)]
#[template(path = "groups.html")]
struct GroupsPage {
    frame: PageFrame,
    words: &'static GroupsWords,
    record: &'static RecordWords,
    hint: &'static str,
    tabs: Vec<(String, &'static str, bool)>,
    windows: Vec<(String, String, bool)>,
    total: String,
    hot: Vec<HotLine>,
    repeat: Vec<RepeatLine>,
    is_empty: bool,
    export: String,
    previous: Option<String>,
    next: Option<String>,
}

/// A hot issue.
struct HotLine {
    href: String,
    title: String,
    people: String,
    recent: String,
    size: String,
    first: String,
    last: String,
    place: Option<(String, String)>,
    bars: Vec<ChartBar>,
    numbers: String,
}

/// A repeat petitioner.
struct RepeatLine {
    name: String,
    search: String,
    records: String,
    recent: String,
    matters: Vec<(String, String, String)>,
    more: Option<String>,
    first: String,
    last: String,
}

/// The context for showing a list.
struct ListContext {
    context: PageContext,
    asked: GroupsRequest,
    begins: Vec<Timestamp>,
}

/// Shows a list.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let asked = GroupsRequest::of(&uri)?;
    let lists = ListContext::new(context, asked);
    let skip = (asked.page - 1).saturating_mul(PER_PAGE);
    let mut hot = Vec::new();
    let mut repeat = Vec::new();
    let total = match asked.tab {
        GroupsTab::Hot => {
            let RankingPart { items, total } = lists.hot(skip, PER_PAGE).await?;
            for issue in items {
                hot.push(lists.hot_line(issue).await?);
            }
            total
        }
        GroupsTab::Repeat => {
            let RankingPart { items, total } = lists.repeat(skip, PER_PAGE).await?;
            for petitioner in items {
                repeat.extend(lists.repeat_line(petitioner).await?);
            }
            total
        }
    };
    page::html(StatusCode::OK, &lists.page(hot, repeat, total))
}

/// Sends the list as a CSV file.
///
/// # Errors
/// The errors of [`show`].
pub async fn export(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let asked = GroupsRequest::of(&uri)?;
    let lists = ListContext::new(context, asked);
    let csv = match asked.tab {
        GroupsTab::Hot => lists.hot_file().await?,
        GroupsTab::Repeat => lists.repeat_file().await?,
    };
    Ok(csv.download(&format!("{}-{}-{}", lists.context.collection, asked.tab.value(), asked.days)))
}

impl ListContext {
    fn new(context: PageContext, asked: GroupsRequest) -> Self {
        let begins = context.reader.clock.stretches(clock::timestamp(), asked.days, asked.step);
        Self { context, asked, begins }
    }

    async fn hot(&self, skip: usize, limit: usize) -> Result<RankingPart<HotIssue>, Problem> {
        Ok(self.context.app.engine.hot_issues(&self.context.collection, &self.begins, skip, limit).await?)
    }

    async fn repeat(&self, skip: usize, limit: usize) -> Result<RankingPart<RepeatPetitioner>, Problem> {
        let since = self.begins.first().copied().unwrap_or(Timestamp::MAX);
        Ok(self.context.app.engine.repeat_petitioners(&self.context.collection, since, skip, limit).await?)
    }

    fn page(&self, hot: Vec<HotLine>, repeat: Vec<RepeatLine>, total: usize) -> GroupsPage {
        let Self { context: PageContext { visitor, collection, .. }, asked, .. } = self;
        let words = &visitor.words().groups;
        GroupsPage {
            frame: PageFrame::of(visitor, collection, DeskSection::Groups, words.title),
            words,
            record: &visitor.words().record,
            hint: asked.tab.hint(words),
            tabs: GroupsTab::ALL
                .map(|tab: GroupsTab| {
                    (list_path(GroupsRequest { tab, page: 1, ..*asked }, collection), tab.name(words), tab == asked.tab)
                })
                .to_vec(),
            windows: WINDOWS
                .map(|(days, step)| {
                    (
                        list_path(GroupsRequest { days, step, page: 1, ..*asked }, collection),
                        (words.days)(days),
                        days == asked.days,
                    )
                })
                .to_vec(),
            total: (words.total)(&count(total as u64)),
            is_empty: hot.is_empty() && repeat.is_empty(),
            hot,
            repeat,
            export: GroupsRequest { page: 1, ..*asked }.href(collection, "groups.csv"),
            previous: (asked.page > 1).then(|| page_path(asked.page - 1, asked, collection)),
            next: (asked.page.saturating_mul(PER_PAGE) < total).then(|| page_path(asked.page + 1, asked, collection)),
        }
    }

    async fn hot_line(&self, issue: HotIssue) -> Result<HotLine, Problem> {
        let Self { context, asked, .. } = self;
        let words = &context.visitor.words().groups;
        let HotIssue { group, recent, trend, latest } = issue;
        let title = context.card(&group.original).await?.map(|card| card.facts.title);
        let place = context.app.engine.most_named(&context.collection, &latest).await?;
        let numbers: Vec<String> = trend.iter().map(ToString::to_string).collect();
        Ok(HotLine {
            href: page::group(&context.collection, &group.id),
            title: title.unwrap_or_default(),
            people: count(group.recent_petitioners as u64),
            recent: count(recent as u64),
            size: count(group.size as u64),
            first: self.date(group.first_time.as_deref()),
            last: self.date(group.last_time.as_deref()),
            place: place.map(|MostNamed { name, records, of, .. }| (name, (words.named_by)(records, of))),
            bars: spark(&trend),
            numbers: (words.numbers)(asked.step as usize, &numbers.join(" ")),
        })
    }

    /// Returns `None` if the record that contains the petitioner's name was deleted.
    async fn repeat_line(&self, petitioner: RepeatPetitioner) -> Result<Option<RepeatLine>, Problem> {
        let Self { context, .. } = self;
        let words = &context.visitor.words().groups;
        let Some(name) = self.name(&petitioner).await? else { return Ok(None) };
        let mut matters = Vec::new();
        for matter in &petitioner.most {
            let Some(RecordCard { facts, .. }) = context.card(&matter.id).await? else { continue };
            matters.push((page::group(&context.collection, &matter.id), facts.title, count(matter.records as u64)));
        }
        let more = petitioner.matters.saturating_sub(petitioner.most.len());
        Ok(Some(RepeatLine {
            search: with_query(&page::below(&context.collection, DeskSection::Search.path()), &[("identity", &name)]),
            name,
            records: count(petitioner.records as u64),
            recent: count(petitioner.recent as u64),
            matters,
            more: (more > 0).then(|| (words.more)(more)),
            first: petitioner.first.map_or_else(String::new, |time| context.reader.clock.date(time)),
            last: petitioner.last.map_or_else(String::new, |time| context.reader.clock.date(time)),
        }))
    }

    async fn name(&self, petitioner: &RepeatPetitioner) -> Result<Option<String>, Problem> {
        Ok(self.context.card(&petitioner.example).await?.and_then(|card| card.facts.petitioner))
    }

    fn date(&self, time: Option<&str>) -> String {
        let time = time.and_then(|time| time.parse().ok());
        time.map_or_else(String::new, |time| self.context.reader.clock.date(time))
    }

    async fn hot_file(&self) -> Result<CsvTable, Problem> {
        let words = &self.context.visitor.words().groups;
        let record = &self.context.visitor.words().record;
        let mut csv = CsvTable::new(&[
            words.group,
            record.title,
            words.people,
            words.recent,
            words.size,
            words.first,
            words.last,
        ]);
        for issue in self.hot(0, MOST_EXPORTED).await?.items {
            let group = issue.group;
            let title = self.context.card(&group.id).await?.map(|card| card.facts.title).unwrap_or_default();
            let [people, recent, size] =
                [group.recent_petitioners, issue.recent, group.size].map(|number| number.to_string());
            let first = self.date(group.first_time.as_deref());
            let last = self.date(group.last_time.as_deref());
            csv.row(&[group.id.as_str(), &title, &people, &recent, &size, &first, &last]);
        }
        Ok(csv)
    }

    async fn repeat_file(&self) -> Result<CsvTable, Problem> {
        let words = &self.context.visitor.words().groups;
        let record = &self.context.visitor.words().record;
        let mut csv = CsvTable::new(&[
            record.petitioner,
            words.recent,
            words.size,
            words.matters,
            words.matter,
            words.first,
            words.last,
        ]);
        for petitioner in self.repeat(0, MOST_EXPORTED).await?.items {
            let Some(name) = self.name(&petitioner).await? else { continue };
            let [recent, records, matters] =
                [petitioner.recent, petitioner.records, petitioner.matters].map(|number| number.to_string());
            let ids: Vec<&str> = petitioner.most.iter().map(|matter| matter.id.as_str()).collect();
            let date =
                |time: Option<Timestamp>| time.map_or_else(String::new, |time| self.context.reader.clock.date(time));
            let first = date(petitioner.first);
            let last = date(petitioner.last);
            csv.row(&[&name, &recent, &records, &matters, &ids.join(" "), &first, &last]);
        }
        Ok(csv)
    }
}

fn page_path(page: usize, asked: &GroupsRequest, collection: &CollectionName) -> String {
    list_path(GroupsRequest { page, ..*asked }, collection)
}

fn list_path(asked: GroupsRequest, collection: &CollectionName) -> String {
    asked.href(collection, DeskSection::Groups.path())
}
