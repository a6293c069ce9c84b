//! The page of one event: its members by time with the reasons why they belong to it, and the values that the members name.
//!
//! The URL of the page can name any member.

use std::collections::BTreeMap;

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::page::{self, DeskSection, PageFrame, SeeOther, with_query};
use crate::pages::events::no_events;
use crate::pages::pair::PageContext;
use crate::view::event::EventLine;
use crate::view::numbers::count;
use crate::view::pair::RecordCard;
use crate::view::row::RowFacts;
use crate::words::{DeskWords, EventsWords, RecordWords};
use doppel_core::events::{FactState, FrequencyRule, LinkKind};
use doppel_core::record::RecordId;
use doppel_engine::Error;
use doppel_engine::events::handling::{HandlingStatus, HandlingStep};
use doppel_engine::events::{EventDetail, EventFact, EventMember};
use doppel_findings::percent;
use doppel_http::cursor::CursorList;
use doppel_http::extract::InRecord;
use doppel_http::problem::Problem;
use doppel_http::query::{QueryParameters, QueryReader, read_filled};
use doppel_http::routes::events::RuleParams;
use doppel_store::Seq;

/// Members on a page of the list.
const PER_PAGE: usize = 100;
/// Largest number of members that are listed for a value.
const MOST_NAMED: usize = 10;

#[derive(Template)]
#[template(path = "event.html")]
struct OneEventPage {
    frame: PageFrame,
    words: &'static EventsWords,
    record: &'static RecordWords,
    event: EventLine,
    size: String,
    truncated: Option<String>,
    /// The agreed values: kind, value, and number of members that name it.
    known: Vec<(&'static str, String, String)>,
    contradicted: Vec<ContradictedKind>,
    unknown: Vec<&'static str>,
    members: Vec<MemberLine>,
    shown: String,
    previous: Option<String>,
    next: Option<String>,
    unit: Option<String>,
    history: Vec<HandlingLine>,
    statuses: Vec<(&'static str, &'static str)>,
    /// The name of the visitor, if the forms ask for a name.
    asks_name: Option<String>,
    /// True if the visitor may correct the event.
    may_handle: bool,
    may_decide: bool,
    /// The latest change before the event was read, as a cursor.
    as_of: String,
    /// The path of the event.
    action: String,
}

/// A kind of which members name different values.
struct ContradictedKind {
    kind: &'static str,
    values: Vec<ContradictedValue>,
}

/// A value with the members that name it.
struct ContradictedValue {
    value: String,
    members: Vec<(String, String)>,
    more: Option<String>,
}

/// A step of the handling.
struct HandlingLine {
    status: Option<&'static str>,
    unit: Option<String>,
    note: Option<String>,
    by: Option<String>,
    at: String,
}

struct MemberLine {
    card: RecordCard,
    reasons: Vec<LinkReason>,
}

/// The reason why a member belongs to its event.
struct LinkReason {
    text: String,
    /// The path of the comparison with the other record.
    href: String,
    /// The id of the other record.
    other: String,
}

/// The parameters of a request.
struct EventRequest {
    rule: RuleParams,
    page: usize,
}

impl QueryParameters for EventRequest {
    fn read(query: &mut QueryReader) -> Self {
        let page = query.number("page", 1, u64::from(u32::MAX)).unwrap_or(1) as usize;
        Self { rule: RuleParams::read(query), page }
    }
}

/// Shows the event of a record.
///
/// # Errors
/// 403; 404 for an unknown collection or record; 422 for invalid parameters. If the record is in no event, the response redirects to the page
/// of the record.
pub async fn show(context: PageContext, InRecord(_, id): InRecord, uri: Uri) -> Result<Response, Problem> {
    let EventRequest { rule, page } = read_filled(uri.query().unwrap_or_default())?;
    let rule = rule.into();
    let PageContext { app, visitor, collection, .. } = &context;
    let as_of = app.engine.last_change(collection).await?;
    let detail = match app.engine.event_of(collection, &id, rule).await {
        Ok(detail) => detail,
        // The other records may be deleted, or people may have decided that they are no repeats. The redirect keeps old links useful.
        Err(Error::NoEvent(_)) => return Ok(SeeOther::to(page::case(collection, &id)).into_response()),
        Err(error) => return no_events(visitor, collection, error),
    };
    let event = ShownEvent { words: visitor.words(), context, detail, rule, as_of };
    page::html(StatusCode::OK, &event.page(page).await?)
}

/// An event, and the context to show it.
struct ShownEvent {
    context: PageContext,
    detail: EventDetail,
    rule: FrequencyRule,
    as_of: Seq,
    words: &'static DeskWords,
}

impl ShownEvent {
    async fn page(&self, number: usize) -> Result<OneEventPage, Problem> {
        let Self { context: PageContext { visitor, collection, reader, .. }, detail, rule, as_of, words } = self;
        let own = &words.events;
        let first = self.context.card(&detail.event.id).await?;
        let title = first.as_ref().map(|card| card.facts.title.as_str());
        let event = EventLine::new(words, collection, &reader.clock, *rule, &detail.event, title);
        let mut members: Vec<&EventMember> = detail.members.iter().collect();
        members.sort_by_key(|member| (member.time.is_none(), member.time.as_deref()));
        let skip = (number - 1).saturating_mul(PER_PAGE).min(members.len());
        let listed: Vec<&EventMember> = members.iter().skip(skip).take(PER_PAGE).copied().collect();
        let mut facts = self.context.facts(listed.iter().map(|member| &member.id)).await?;
        let end = skip + listed.len();
        Ok(OneEventPage {
            frame: PageFrame::of(visitor, collection, DeskSection::Events, event.name.clone()),
            words: own,
            record: &words.record,
            size: (own.size)(&count(detail.event.size as u64)),
            truncated: detail.truncated.then(|| (own.truncated)(&count(members.len() as u64))),
            known: self.known(),
            contradicted: self.contradicted(),
            unknown: detail.unknown.iter().map(|kind| words.record.finding.object(*kind)).collect(),
            members: listed.iter().map(|member| self.member(member, &mut facts)).collect(),
            shown: (words.group.shown)(skip + 1, end, members.len()),
            previous: (number > 1).then(|| page_path(&event.href, number - 1)),
            next: (end < members.len()).then(|| page_path(&event.href, number + 1)),
            unit: detail.event.handling.as_ref().and_then(|handling| handling.unit.clone()),
            history: detail.history.iter().rev().map(|step| self.step(step)).collect(),
            statuses: HandlingStatus::NAMES.map(|(status, value)| (value, (own.status_of)(status))).to_vec(),
            asks_name: visitor.is_open.then(|| visitor.name.clone().unwrap_or_default()),
            may_handle: visitor.may_write(),
            may_decide: visitor.may_lead(),
            as_of: CursorList::DeskForms.encode_seq(*as_of),
            action: page::event(collection, &detail.event.id),
            event,
        })
    }

    fn known(&self) -> Vec<(&'static str, String, String)> {
        let known = self.detail.facts.iter().filter(|fact| fact.state == FactState::Known);
        known
            .map(|fact| {
                let named_by = (self.words.events.named_by)(fact.members.len());
                (self.words.record.finding.object(fact.kind), fact.value.clone(), named_by)
            })
            .collect()
    }

    fn contradicted(&self) -> Vec<ContradictedKind> {
        let contradicted: Vec<&EventFact> =
            self.detail.facts.iter().filter(|fact| fact.state == FactState::Contradicted).collect();
        let kinds = contradicted.chunk_by(|a, b| a.kind == b.kind);
        kinds
            .map(|values| ContradictedKind {
                kind: self.words.record.finding.object(values[0].kind),
                values: values.iter().map(|fact| self.contradicted_value(fact)).collect(),
            })
            .collect()
    }

    fn contradicted_value(&self, fact: &EventFact) -> ContradictedValue {
        let listed = fact.members.iter().take(MOST_NAMED);
        let more = fact.members.len().saturating_sub(MOST_NAMED);
        ContradictedValue {
            value: fact.value.clone(),
            members: listed.map(|id| (page::case(&self.context.collection, id), id.to_string())).collect(),
            more: (more > 0).then(|| (self.words.events.more)(more)),
        }
    }

    fn step(&self, step: &HandlingStep) -> HandlingLine {
        HandlingLine {
            status: step.status.map(self.words.events.status_of),
            unit: step.unit.clone(),
            note: step.note.clone(),
            by: step.by.clone(),
            at: self.context.reader.clock.show_text(&step.at),
        }
    }

    fn member(&self, member: &EventMember, facts: &mut BTreeMap<RecordId, RowFacts>) -> MemberLine {
        let PageContext { collection, reader, .. } = &self.context;
        let facts = facts.remove(&member.id);
        let facts = facts.unwrap_or_else(|| reader.without_text(&member.id, member.time.as_deref()));
        MemberLine { card: RecordCard::new(collection, &member.id, facts), reasons: self.reasons(member) }
    }

    /// Returns the records that a member cites, and then its strongest link.
    fn reasons(&self, member: &EventMember) -> Vec<LinkReason> {
        let words = &self.words.events;
        let cites = member.cites.iter().map(|cited| self.reason(member, words.cites.to_owned(), cited));
        let mut reasons: Vec<LinkReason> = cites.take(MOST_NAMED).collect();
        let Some(link) = &member.link else { return reasons };
        let text = match link.kind {
            LinkKind::Duplicate => words.duplicate.to_owned(),
            LinkKind::Decision => words.decided.to_owned(),
            LinkKind::Citation if member.cites.contains(&link.other) => return reasons,
            LinkKind::Citation => words.cited_by.to_owned(),
            LinkKind::Model => (words.model)(percent(link.probability)),
        };
        reasons.push(self.reason(member, text, &link.other));
        reasons
    }

    fn reason(&self, member: &EventMember, text: String, other: &RecordId) -> LinkReason {
        let href = with_query(&page::case(&self.context.collection, &member.id), &[("with", other.as_str())]);
        LinkReason { text, href, other: other.to_string() }
    }
}

fn page_path(event: &str, number: usize) -> String {
    let joint = if event.contains('?') { '&' } else { '?' };
    format!("{event}{joint}page={number}")
}
