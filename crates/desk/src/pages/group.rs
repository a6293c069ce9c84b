//! The page of one group: its members by time, their petitioners, and the pairs that connect them.
//!
//! The page works for groups of any size. It draws a limited number of members and counts the others, divides the list into pages, and
//! compares a limited number of pairs. The URL of the page can name any member.

use std::collections::HashSet;

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, SeeOther, with_query};
use crate::pages::batch::MOST_PAIRS;
use crate::pages::pair::PageContext;
use crate::view::VerdictBadge;
use crate::view::chart::{TimeLine, time_line};
use crate::view::csv::RecordTable;
use crate::view::graph::{self, layout};
use crate::view::numbers::count;
use crate::view::pair::RecordCard;
use crate::words::{DeskWords, GroupWords, RecordWords};
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_engine::Error;
use doppel_engine::answers::{PairView, RecordView};
use doppel_engine::groups::{GroupShape, PairSimilarity, PetitionerShape};
use doppel_findings::percent;
use doppel_http::extract::InRecord;
use doppel_http::problem::Problem;

/// Members on a page of the list.
const PER_PAGE: usize = 100;
/// Largest number of members in the graph. A graph of more members is not readable.
const MOST_DRAWN: usize = 80;
/// Number of pairs above which the lines are drawn faintly, because they cover each other.
const MANY_PAIRS: usize = 500;
/// Largest number of dots for which the graph shows ids. The ids of more dots would cover each other.
const MOST_NAMED: usize = 12;
/// Largest length of an id that the graph shows, in characters.
const LONGEST_NAME: usize = 16;
/// Width of the space for an id, in units of the picture.
const LABEL_WIDTH: u32 = 130;
const LABEL_HEIGHT: u32 = 22;
/// Largest number of listed petitioners.
const MOST_PETITIONERS: usize = 20;
/// Largest number of listed pairs of each kind.
const MOST_LINKS: usize = 20;
/// Largest number of pairs that are compared to find the least similar pairs. This takes a few dozen milliseconds.
const MOST_COMPARED: usize = 200;
/// Largest number of pairs that are listed as the least similar.
const MOST_LEAST: usize = 5;
/// Largest number of members that one action can declare one matter. They need 435 decisions; each decision is on disk before the next one is made.
pub const MOST_JOINED: usize = 30;
/// Largest number of members that one merge under an original can have: one decision for each other member.
pub const MOST_MERGED: usize = MOST_PAIRS + 1;
/// Members of an export whose rows are in memory at once.
const READ_AT_ONCE: usize = 100;

#[derive(Template)]
#[template(path = "group.html")]
struct GroupPage {
    frame: PageFrame,
    words: &'static GroupWords,
    record: &'static RecordWords,
    title: String,
    size: String,
    span: Option<String>,
    is_chained: bool,
    is_contested: bool,
    export: String,
    join: Option<String>,
    /// The path of the preview of a merge, if the visitor may merge the group.
    merge: Option<String>,
    too_many: Option<String>,
    line: TimeLine,
    dots: Vec<(u32, u32, String, String)>,
    line_ends: Option<(String, String)>,
    not_drawn: Option<String>,
    petitioners: Vec<(String, String, String, String)>,
    more_petitioners: Option<String>,
    graph_hint: String,
    graph: GroupGraph,
    links: Vec<WeakPairLine>,
    members: Vec<MemberLine>,
    shown: String,
    previous: Option<String>,
    next: Option<String>,
}

/// The picture of the pairs.
struct GroupGraph {
    /// The lines of all pairs except weak links, as one path.
    path: String,
    /// True if the drawing has so many lines that it draws them faintly.
    is_dense: bool,
    nodes: Vec<GraphNode>,
    weak: Vec<WeakLine>,
}

/// A record in the picture.
struct GraphNode {
    x: u32,
    y: u32,
    href: String,
    id: String,
    is_original: bool,
    /// The place and the alignment of the id, if the picture shows the id.
    label: Option<NodeLabel>,
}

/// The place of an id in the picture.
struct NodeLabel {
    x: u32,
    y: u32,
    anchor: &'static str,
}

impl NodeLabel {
    /// Returns a place near a dot and within the picture.
    fn beside(x: u32, y: u32) -> Self {
        let width = graph::WIDTH as u32;
        let height = graph::HEIGHT as u32;
        let anchor = match x {
            x if x < LABEL_WIDTH / 2 => "start",
            x if x + LABEL_WIDTH / 2 > width => "end",
            _ => "middle",
        };
        let y = if y + LABEL_HEIGHT > height { y.saturating_sub(LABEL_HEIGHT / 2) } else { y + LABEL_HEIGHT };
        Self { x, y, anchor }
    }
}

/// The line of a weak link, with the number of the link in the table.
struct WeakLine {
    from: (u32, u32),
    to: (u32, u32),
    middle: (u32, u32),
    number: usize,
    is_rejected: bool,
}

/// The reason why a pair is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WeakPairReason {
    Bridge,
    Cut,
    Least,
    Rejected,
}

/// A pair in the table.
struct WeakPairLine {
    number: usize,
    why: &'static str,
    one: (String, String),
    other: (String, String),
    similarity: String,
    beside: String,
    cut: Option<String>,
}

struct MemberLine {
    card: RecordCard,
    is_original: bool,
    badge: VerdictBadge,
    repeats: Option<(String, String)>,
}

/// Shows the group of a record.
///
/// # Errors
/// 403; 404 for an unknown collection or record. If the record is in no group, the response redirects to the page of the record.
pub async fn show(context: PageContext, InRecord(_, id): InRecord, uri: Uri) -> Result<Response, Problem> {
    let form = FormFields::of_query(&uri)?;
    let number = form.page()?;
    let PageContext { app, collection, .. } = &context;
    let shape = match app.engine.group_shape(collection, &id, MOST_DRAWN).await {
        // The group was cut, or its other records were deleted. The redirect keeps old links useful.
        Err(Error::Ungrouped(_)) => return Ok(SeeOther::to(page::case(collection, &id)).into_response()),
        shape => shape?,
    };
    let group = ShownGroup { words: context.visitor.words(), context, shape };
    page::html(StatusCode::OK, &group.page(number).await?)
}

/// Sends the members as a CSV file.
///
/// # Errors
/// 403; 404 for an unknown collection or record, or if the record is in no group.
pub async fn export(context: PageContext, InRecord(_, id): InRecord) -> Result<Response, Problem> {
    let shape = context.app.engine.group_shape(&context.collection, &id, 0).await?;
    let group = ShownGroup { words: context.visitor.words(), context, shape };
    Ok(group.file().await?.download(&format!("{}-group", group.context.collection)))
}

/// A group, and the context to show it.
struct ShownGroup {
    context: PageContext,
    shape: GroupShape,
    words: &'static DeskWords,
}

impl ShownGroup {
    async fn page(&self, number: usize) -> Result<GroupPage, Problem> {
        let Self { context: PageContext { visitor, collection, reader, .. }, shape, words } = self;
        let group = &shape.group;
        let own = &words.group;
        let place = page::group(collection, &group.id);
        let first = self.context.card(&group.original).await?;
        let title = first.map(|card| card.facts.title).filter(|title| !title.is_empty());
        let title = title.unwrap_or_else(|| own.title.to_owned());
        let line = time_line(&shape.members.iter().map(|member| member.time).collect::<Vec<_>>());
        let not_drawn = group.size - line.dots.len() - line.undated;
        let weak = self.weak().await?;
        let skip = (number - 1).saturating_mul(PER_PAGE).min(shape.members.len());
        let members = self.members(skip, PER_PAGE).await?;
        let fits = group.size <= MOST_JOINED;
        Ok(GroupPage {
            frame: PageFrame::of(visitor, collection, DeskSection::Groups, title.clone()),
            words: own,
            record: &words.record,
            title,
            size: (own.size)(&count(group.size as u64), &count(group.petitioners as u64)),
            span: line.ends.map(|(first, last)| (own.span)(&reader.clock.date(first), &reader.clock.date(last))),
            is_chained: group.chained,
            is_contested: group.contested,
            export: format!("{place}/members.csv"),
            join: (visitor.may_lead() && fits).then(|| format!("{place}/join")),
            merge: (visitor.may_lead() && group.size <= MOST_MERGED).then(|| format!("{place}/merge")),
            too_many: (visitor.may_lead() && !fits).then(|| (own.too_many)(MOST_JOINED)),
            dots: self.dots(&line),
            line_ends: line.ends.map(|(first, last)| (reader.clock.date(first), reader.clock.date(last))),
            not_drawn: (not_drawn + line.undated > 0).then(|| (own.not_drawn)(not_drawn, line.undated)),
            line,
            petitioners: self.petitioners().await?,
            more_petitioners: shape
                .petitioners
                .len()
                .checked_sub(MOST_PETITIONERS + 1)
                .map(|more| (words.groups.more)(more + 1)),
            graph_hint: (own.graph_hint)(shape.drawn.len(), group.size),
            graph: self.graph(&weak),
            links: self.links(&weak).await?,
            shown: (own.shown)(skip + 1, skip + members.len(), group.size),
            previous: (number > 1).then(|| page_path(number - 1, &place)),
            next: (skip + members.len() < shape.members.len()).then(|| page_path(number + 1, &place)),
            members,
        })
    }

    fn dots(&self, line: &TimeLine) -> Vec<(u32, u32, String, String)> {
        let Self { context: PageContext { collection, reader, .. }, shape, .. } = self;
        line.dots
            .iter()
            .map(|dot: &crate::view::chart::MemberDot| {
                let member = &shape.members[dot.member];
                let when = member.time.map_or_else(String::new, |time| reader.clock.show(time));
                (dot.x as u32, dot.y as u32, page::case(collection, &member.id), format!("{} {when}", member.id))
            })
            .collect()
    }

    /// Returns for each petitioner: the name, the link to the search for all their records, the number of records, and the period.
    async fn petitioners(&self) -> Result<Vec<(String, String, String, String)>, Problem> {
        let Self { context: PageContext { collection, reader, .. }, shape, words } = self;
        let mut found = Vec::new();
        for PetitionerShape { example, records, first, last } in shape.petitioners.iter().take(MOST_PETITIONERS) {
            let Some(name) = self.context.card(example).await?.and_then(|card| card.facts.petitioner) else { continue };
            let place = page::below(collection, DeskSection::Search.path());
            let when = match (first, last) {
                (Some(first), Some(last)) if first == last => reader.clock.date(*first),
                (Some(first), Some(last)) => (words.group.span)(&reader.clock.date(*first), &reader.clock.date(*last)),
                _ => String::new(),
            };
            let search = with_query(&place, &[("identity", &name)]);
            found.push((name, search, count(*records as u64), when));
        }
        Ok(found)
    }

    /// Returns the pairs that need attention, with their similarities: single links, the least similar pairs, and rejected pairs.
    async fn weak(&self) -> Result<Vec<(WeakPairReason, PairView, Option<PairSimilarity>)>, Problem> {
        let shape = &self.shape;
        let listed =
            |why, pairs: &[PairView]| pairs.iter().take(MOST_LINKS).map(|pair| (why, pair.clone())).collect::<Vec<_>>();
        let mut weak =
            [listed(WeakPairReason::Bridge, &shape.bridges), listed(WeakPairReason::Cut, &shape.cut)].concat();
        let known: HashSet<(&RecordId, &RecordId)> =
            shape.bridges.iter().map(|pair| (&pair.earlier, &pair.later)).collect();
        let pairs = shape.pairs.iter().map(|(earlier, later)| PairView {
            earlier: member_id(*earlier, &shape.members),
            later: member_id(*later, &shape.members),
        });
        let others: Vec<PairView> = pairs.filter(|pair| !known.contains(&(&pair.earlier, &pair.later))).collect();
        if others.len() <= MOST_COMPARED {
            let alike = self.alike(others.iter()).await?;
            let mut least: Vec<_> = others.into_iter().zip(alike).collect();
            least.retain(|(_, alike)| alike.is_some_and(|alike| alike.similarity < 1.0));
            least.sort_by(|a, b| similarity_of(a.1).total_cmp(&similarity_of(b.1)));
            weak.extend(least.into_iter().take(MOST_LEAST).map(|(pair, _)| (WeakPairReason::Least, pair)));
        }
        weak.extend(listed(WeakPairReason::Rejected, &shape.rejected));
        let alike = self.alike(weak.iter().map(|(_, pair)| pair)).await?;
        Ok(weak.into_iter().zip(alike).map(|((why, pair), alike)| (why, pair, alike)).collect())
    }

    async fn alike(&self, pairs: impl Iterator<Item = &PairView>) -> Result<Vec<Option<PairSimilarity>>, Problem> {
        let pairs: Vec<_> = pairs.map(|pair| (pair.earlier.clone(), pair.later.clone())).collect();
        Ok(self.context.app.engine.how_alike(&self.context.collection, &pairs).await?)
    }

    fn graph(&self, weak: &[(WeakPairReason, PairView, Option<PairSimilarity>)]) -> GroupGraph {
        let Self { context: PageContext { collection, .. }, shape, .. } = self;
        let pairs: Vec<(usize, usize)> =
            shape.pairs.iter().map(|(a, b)| (drawn_place(*a, &shape.drawn), drawn_place(*b, &shape.drawn))).collect();
        let places = layout(shape.drawn.len(), &pairs);
        let mut weak_pairs = HashSet::new();
        let mut lines = Vec::new();
        for (number, (why, pair, _)) in weak.iter().enumerate() {
            let (Some(a), Some(b)) = (
                place_of_id(&pair.earlier, &shape.drawn, &shape.members),
                place_of_id(&pair.later, &shape.drawn, &shape.members),
            ) else {
                continue;
            };
            weak_pairs.insert((a.min(b), a.max(b)));
            let from = places[a];
            let to = places[b];
            let middle = ((from.0 + to.0) / 2, (from.1 + to.1) / 2);
            lines.push(WeakLine {
                from,
                to,
                middle,
                number: number + 1,
                is_rejected: *why == WeakPairReason::Rejected,
            });
        }
        let strong = pairs.iter().filter(|pair| !weak_pairs.contains(pair));
        let path = strong.map(|(a, b)| {
            let from = places[*a];
            let to = places[*b];
            format!("M{} {}L{} {}", from.0, from.1, to.0, to.1)
        });
        let is_dense = pairs.len() > MANY_PAIRS;
        GroupGraph {
            path: path.collect(),
            is_dense,
            nodes: shape
                .drawn
                .iter()
                .enumerate()
                .map(|(at, place): (usize, &usize)| {
                    let id = &shape.members[*place].id;
                    let (x, y) = places[at];
                    let id = id.to_string();
                    let is_named = shape.drawn.len() <= MOST_NAMED && id.chars().count() <= LONGEST_NAME;
                    let label = is_named.then(|| NodeLabel::beside(x, y));
                    let member = &shape.members[*place].id;
                    let is_original = *member == shape.group.original;
                    GraphNode { x, y, href: page::case(collection, member), id, is_original, label }
                })
                .collect(),
            weak: lines,
        }
    }

    async fn links(
        &self,
        weak: &[(WeakPairReason, PairView, Option<PairSimilarity>)],
    ) -> Result<Vec<WeakPairLine>, Problem> {
        let Self { context: PageContext { visitor, collection, .. }, words, .. } = self;
        let own = &words.group;
        let mut links = Vec::new();
        for (number, (why, pair, alike)) in weak.iter().enumerate() {
            let named = [self.named(&pair.earlier).await?, self.named(&pair.later).await?];
            let [one, other] = named;
            let place = format!("{}/cut", page::group(collection, &self.shape.group.id));
            let a = pair.earlier.as_str();
            let b = pair.later.as_str();
            links.push(WeakPairLine {
                number: number + 1,
                why: match why {
                    WeakPairReason::Bridge => own.bridge,
                    WeakPairReason::Cut => own.cut,
                    WeakPairReason::Least => own.least,
                    WeakPairReason::Rejected => own.rejected,
                },
                one,
                other,
                similarity: alike.map_or_else(String::new, |alike| format!("{}%", percent(alike.similarity))),
                beside: with_query(&page::case(collection, &pair.earlier), &[("with", b)]),
                cut: (visitor.may_lead() && *why != WeakPairReason::Rejected)
                    .then(|| with_query(&place, &[("a", a), ("b", b)])),
            });
        }
        Ok(links)
    }

    /// Returns the id and the title of a record.
    async fn named(&self, id: &RecordId) -> Result<(String, String), Problem> {
        let title = self.context.card(id).await?.map(|card| card.facts.title).unwrap_or_default();
        Ok((id.to_string(), title))
    }

    async fn records(&self, skip: usize, limit: usize) -> Result<Vec<RecordView>, Problem> {
        let ids: Vec<RecordId> =
            self.shape.members.iter().skip(skip).take(limit).map(|member| member.id.clone()).collect();
        let mut records = Vec::with_capacity(ids.len());
        let mut begin = 0;
        // If the records are long, the engine returns them in several pieces.
        loop {
            let found = self.context.app.engine.records_of(&self.context.collection, ids[begin..].to_vec()).await?;
            records.extend(found.items.into_iter().flatten());
            let Some(next) = found.next.filter(|next| *next > 0) else { return Ok(records) };
            begin += next;
        }
    }

    async fn members(&self, skip: usize, limit: usize) -> Result<Vec<MemberLine>, Problem> {
        let PageContext { collection, reader, .. } = &self.context;
        let mut lines = Vec::new();
        for view in self.records(skip, limit).await? {
            let facts = reader.facts_of(&view);
            let kind = self.kind(&view);
            let decided = self.context.app.engine.judged(collection, &view).await?;
            let badge = VerdictBadge::in_group(&self.words.record, kind, view.verdict.kind, decided);
            let original = Some(&self.shape.group.original).filter(|_| kind != VerdictKind::Original);
            let repeats = original.map(|id| (page::case(collection, id), id.to_string()));
            let is_original = view.id == self.shape.group.original;
            let card = RecordCard::new(collection, &view.id, facts);
            lines.push(MemberLine { card, is_original, badge, repeats });
        }
        Ok(lines)
    }

    /// Returns the role of a member in its group: the original, or a repeat of the original. A repeat keeps its own verdict if the verdict names
    /// the kind of the repetition.
    fn kind(&self, member: &RecordView) -> VerdictKind {
        match member.verdict.kind {
            _ if member.id == self.shape.group.original => VerdictKind::Original,
            VerdictKind::Original | VerdictKind::TooShort => VerdictKind::NearDuplicate,
            kind => kind,
        }
    }

    async fn file(&self) -> Result<RecordTable, Problem> {
        let Self { context: PageContext { reader, .. }, shape, words } = self;
        let mut csv = RecordTable::new(words, &[words.group.first_date, words.groups.group]);
        let original = &shape.group.original;
        let first = shape.members.iter().find(|member| member.id == *original).and_then(|member| member.time);
        let first = first.map_or_else(String::new, |time| reader.clock.date(time));
        for skip in (0..shape.members.len()).step_by(READ_AT_ONCE) {
            for view in self.records(skip, READ_AT_ONCE).await? {
                let kind = self.kind(&view);
                let repeats = Some(original).filter(|_| kind != VerdictKind::Original);
                let verdict = words.record.finding.verdict(kind);
                csv.row(&view, verdict, repeats, reader, &[&first, shape.group.id.as_str()]);
            }
        }
        Ok(csv)
    }
}

fn place_of_id(id: &RecordId, drawn: &[usize], members: &[doppel_engine::groups::MemberShape]) -> Option<usize> {
    drawn.iter().position(|place| members[*place].id == *id)
}

fn drawn_place(place: usize, drawn: &[usize]) -> usize {
    drawn.binary_search(&place).unwrap_or(0)
}

fn similarity_of(alike: Option<PairSimilarity>) -> f64 {
    alike.map_or(1.0, |alike| alike.similarity)
}

fn member_id(place: usize, members: &[doppel_engine::groups::MemberShape]) -> RecordId {
    members[place].id.clone()
}

fn page_path(number: usize, place: &str) -> String {
    with_query(place, &[("page", &number.to_string())])
}
