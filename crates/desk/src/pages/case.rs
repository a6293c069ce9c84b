//! The page of one record. It compares the record with an earlier record that it repeats, with a later record that repeats it, with another record
//! of the same petitioner, or with a related record.
//!
//! The path of the URL names the record and never changes. The query names the tab and the compared record, so that a link shows the same view to
//! another person.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::DeskState;
use crate::choices::choices;
use crate::form::FormFields;
use crate::page::{self, PageFrame, with_query};
use crate::pages::pair::PageContext;
use crate::view::VerdictBadge;
use crate::view::event::EventLine;
use crate::view::pair::{PairView, RecordCard};
use crate::view::row::RowFacts;
use crate::words::{CaseWords, DeskWords, RecordWords};
use doppel_core::collection::Role;
use doppel_core::error_code::ErrorCode;
use doppel_core::events::FrequencyRule;
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::{Match, Relation};
use doppel_engine::answers::RecordView;
use doppel_engine::{MatchFilter, SimilarSelection};
use doppel_findings::percent;
use doppel_http::extract::InRecord;
use doppel_http::problem::Problem;
use doppel_http::routes::rows::RowParams;
use doppel_http::routes::search::{FoundRecord, SearchParams, find};
use doppel_search::query::Order;
use doppel_store::decisions::Judgement;

/// Largest number of records of a tab: as many as a person compares.
const MOST: usize = 50;

choices! {
    /// The list of records to compare with.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum CaseTab from words: CaseWords {
        /// Records that the record repeats, and records that repeat it.
        #[default]
        Duplicates = "duplicates", words.duplicates;
        /// Records of the same petitioner.
        Petitioner = "petitioner", words.petitioner;
        /// Records about the same matter in other words.
        Related = "related", words.related;
    }
}

#[derive(Template)]
#[template(path = "case.html")]
struct CasePage {
    frame: PageFrame,
    words: &'static CaseWords,
    record: &'static RecordWords,
    card: RecordCard,
    badge: VerdictBadge,
    stored_at: String,
    /// The address of the record in the office's own system.
    own_address: Option<String>,
    /// The reason why the text is not shown, if it is not shown.
    note: Option<&'static str>,
    /// The event of the record, if it is known at this moment.
    event: Option<EventLine>,
    others: Vec<(String, String)>,
    tabs: Vec<(String, &'static str, bool)>,
    lines: Vec<CaseLine>,
    has_more: bool,
    /// The sentence that replaces an empty list.
    none: &'static str,
    pair: Option<PairView>,
    alone: Vec<(String, String)>,
}

/// A record of the list.
struct CaseLine {
    href: String,
    card: RecordCard,
    notes: Vec<String>,
    is_current: bool,
}

/// A candidate for the list, before the compared record is chosen.
struct OtherRecord {
    id: RecordId,
    facts: RowFacts,
    notes: Vec<String>,
    relation: Option<Relation>,
}

#[derive(Default)]
struct TabContent {
    others: Vec<OtherRecord>,
    has_more: bool,
    /// The reason why the list is empty although matches may exist.
    none: Option<&'static str>,
}

/// Shows a record.
///
/// # Errors
/// 403; 404 for an unknown collection or record.
pub async fn show(
    context: PageContext,
    Extension(desk): Extension<Arc<DeskState>>,
    InRecord(_, id): InRecord,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = FormFields::of_query(&uri)?;
    let tab = form.choice("tab", &CaseTab::NAMES)?.unwrap_or_default();
    let record = context.app.engine.record(&context.collection, &id).await?;
    let row = record.read();
    let own_address = desk.own_address(&context.collection, &id);
    let case = RecordCase { words: context.visitor.words(), context, record: &record, row: row.as_ref() };
    let (held, event) = tokio::join!(case.tab(tab), case.event());
    let held = held?;
    // An id may begin or end with a blank.
    let wanted = form.parsed("with", "give the id of a record", |_| RecordId::new(form.raw("with")?).ok())?;
    let current = wanted.or_else(|| held.others.first().map(|first| first.id.clone()));
    let pair = match &current {
        Some(other) => case.beside(&held, other).await?,
        None => None,
    };
    let badge = case.context.badge(&record).await?;
    page::html(StatusCode::OK, &CasePage { event, own_address, ..case.page(tab, held, current.as_ref(), pair, badge) })
}

/// A record, and the context for the lists of a tab.
struct RecordCase<'a> {
    context: PageContext,
    words: &'static DeskWords,
    record: &'a RecordView,
    /// `None` if the collection keeps no text.
    row: Option<&'a Row>,
}

impl RecordCase<'_> {
    /// Compares the record with `other`, also if the tab does not contain `other`: a link may name any record. Returns `None` if `other` is
    /// the record itself.
    async fn beside(&self, held: &TabContent, other: &RecordId) -> Result<Option<PairView>, Problem> {
        if *other == self.record.id {
            return Ok(None);
        }
        let relation = held.others.iter().find(|listed| listed.id == *other).and_then(|listed| listed.relation);
        self.context.stored(&self.record.id, other, relation).await
    }

    fn page(
        &self,
        tab: CaseTab,
        held: TabContent,
        current: Option<&RecordId>,
        pair: Option<PairView>,
        badge: VerdictBadge,
    ) -> CasePage {
        let Self { context: PageContext { visitor, collection, reader, .. }, words, record, row } = self;
        let place = page::case(collection, &record.id);
        let facts = reader.facts_of(record);
        let title = if facts.title.is_empty() { words.case.title.to_owned() } else { facts.title.clone() };
        let link =
            |other: CaseTab| (with_query(&place, &[("tab", other.value())]), other.name(&words.case), other == tab);
        CasePage {
            frame: PageFrame { collection: Some((*collection).clone()), ..PageFrame::new(visitor, title) },
            words: &words.case,
            record: &words.record,
            card: RecordCard::new(collection, &record.id, facts),
            badge,
            stored_at: reader.clock.show_text(&record.stored_at),
            note: record.row.is_none().then_some(words.problem.text_not_kept),
            event: None,
            own_address: None,
            others: row.map(|row| reader.others(row)).unwrap_or_default(),
            tabs: CaseTab::ALL.map(link).to_vec(),
            lines: held
                .others
                .into_iter()
                .map(|other: OtherRecord| CaseLine {
                    href: with_query(&place, &[("tab", tab.value()), ("with", other.id.as_str())]),
                    is_current: Some(&other.id) == current,
                    card: RecordCard::new(collection, &other.id, other.facts),
                    notes: other.notes,
                })
                .collect(),
            has_more: held.has_more,
            none: held.none.unwrap_or(words.case.none),
            alone: row.filter(|_| pair.is_none()).map(|row| reader.texts(row)).unwrap_or_default(),
            pair,
        }
    }

    /// Returns the event of the record. Returns `None` if the record is in no event, or if the events are not ready: the page does not wait
    /// for them and shows no error about them.
    async fn event(&self) -> Option<EventLine> {
        let PageContext { app, collection, reader, .. } = &self.context;
        let rule = FrequencyRule::default();
        let event = app.engine.ready_event_of(collection, &self.record.id, rule).await.ok()??;
        let first = self.context.card(&event.id).await.ok().flatten();
        let title = first.as_ref().map(|card| card.facts.title.as_str());
        Some(EventLine::new(self.words, collection, &reader.clock, rule, &event, title))
    }

    async fn tab(&self, tab: CaseTab) -> Result<TabContent, Problem> {
        let held = match tab {
            CaseTab::Duplicates => return self.duplicates().await,
            CaseTab::Petitioner => self.of_petitioner().await,
            CaseTab::Related => self.related().await,
        };
        match held {
            Ok(mut held) => {
                self.note_decided(&mut held.others).await?;
                Ok(held)
            }
            // If the search index is off or not yet open, the tab shows this problem instead of a list.
            Err(problem)
                if matches!(
                    problem.code(),
                    ErrorCode::SearchDisabled | ErrorCode::SearchOpening | ErrorCode::TextNotKept
                ) =>
            {
                Ok(TabContent { none: Some(page::in_words(&problem, &self.words.problem)), ..TabContent::default() })
            }
            Err(problem) => Err(problem),
        }
    }

    /// Lists the matches by the current settings, and then the records that a person judged to be different.
    async fn duplicates(&self) -> Result<TabContent, Problem> {
        let engine = &self.context.app.engine;
        let collection = &self.context.collection;
        let id = &self.record.id;
        let wanted = SimilarSelection { limit: MOST, templates: true, filter: MatchFilter::default() };
        let (similar, truncated) = match self.row {
            Some(_) => {
                let found = engine.similar_to(collection, id, wanted).await?;
                (found.similar, found.truncated)
            }
            // Without its text the record cannot be compared again, so the page lists the matches that were found when the record was
            // stored.
            None => {
                let mut similar = self.record.verdict.similar.clone();
                let ids = similar.iter().map(|found| found.id.clone()).collect();
                let missing = engine.records_of(collection, ids).await?.missing;
                similar.retain(|found| !missing.contains(&found.id));
                (similar, self.record.verdict.truncated)
            }
        };
        let mut facts = self.context.facts(similar.iter().map(|found| &found.id)).await?;
        let mut facts = |found: &Match| {
            facts
                .remove(&found.id)
                .unwrap_or_else(|| self.context.reader.without_text(&found.id, found.time.as_deref()))
        };
        let mut others: Vec<OtherRecord> =
            similar.into_iter().map(|found: Match| self.matching(facts(&found), found)).collect();
        for (other, note) in self.note_decided(&mut others).await? {
            if others.len() < MOST * 2
                && let Some(card) = self.context.card(&other).await?
            {
                others.push(OtherRecord { id: other, facts: card.facts, notes: vec![note.to_owned()], relation: None });
            }
        }
        Ok(TabContent { others, has_more: truncated, none: None })
    }

    fn matching(&self, facts: RowFacts, found: Match) -> OtherRecord {
        let words = &self.words.case;
        let mut notes = vec![if found.seq < self.record.seq { words.earlier } else { words.later }.to_owned()];
        notes.extend(found.probability.map(|probability| format!("{}%", percent(probability))));
        notes.extend(found.relation.map(|relation| (self.words.record.relation)(relation).to_owned()));
        notes.extend(found.template.then(|| words.template.to_owned()));
        OtherRecord { id: found.id, facts, notes, relation: found.relation }
    }

    /// Adds the notes about decisions to the listed records. Returns the other records with a decision, and the notes for them.
    async fn note_decided(&self, others: &mut [OtherRecord]) -> Result<Vec<(RecordId, &'static str)>, Problem> {
        let decisions = self.context.app.engine.decisions_about(&self.context.collection, &self.record.id).await?;
        let mut unlisted = Vec::new();
        for decision in decisions {
            let note = match decision.judgement {
                Judgement::Same => self.words.record.decided_same,
                Judgement::SameEvent => self.words.record.decided_same_event,
                Judgement::NotSame => self.words.record.decided_not_same,
                Judgement::Withdrawn => continue,
            };
            let other = if decision.a == self.record.id { decision.b } else { decision.a };
            match others.iter_mut().find(|listed| listed.id == other) {
                Some(listed) => listed.notes.push(note.to_owned()),
                None => unlisted.push((other, note)),
            }
        }
        Ok(unlisted)
    }

    fn without_text(&self) -> TabContent {
        TabContent { none: Some(self.words.problem.text_not_kept), ..TabContent::default() }
    }

    async fn of_petitioner(&self) -> Result<TabContent, Problem> {
        let Some(row) = self.row else { return Ok(self.without_text()) };
        let Some(petitioner) = self.context.reader.of_role(row, Role::Identity) else {
            return Ok(TabContent { none: Some(self.words.case.no_petitioner), ..TabContent::default() });
        };
        let params = SearchParams {
            q: String::new(),
            from: None,
            to: None,
            identity: Some(petitioner.to_owned()),
            category: None,
            status: None,
            unit: None,
            verdict: None,
            order: Order::Newest,
            limit: MOST as u64,
            cursor: None,
        };
        let found = find(&self.context.app, &self.context.collection, params, RowParams::default()).await?;
        let mut facts = self.context.facts(found.items.iter().map(|found| &found.id)).await?;
        let has_more = found.next.is_some();
        let others = found.items.into_iter().filter(|found| found.id != self.record.id);
        Ok(TabContent {
            others: others
                .map(|found: FoundRecord| OtherRecord {
                    facts: facts.remove(&found.id).unwrap_or_default(),
                    id: found.id,
                    notes: vec![self.words.record.finding.verdict(found.verdict).to_owned()],
                    relation: Some(Relation::Repeat),
                })
                .collect(),
            has_more,
            none: None,
        })
    }

    async fn related(&self) -> Result<TabContent, Problem> {
        let Some(row) = self.row else { return Ok(self.without_text()) };
        let related = super::related::related(&self.context, row.clone(), Some(self.record.id.clone()), MOST).await?;
        let terms = self.words.case.terms;
        let others = related.into_iter().map(|related| OtherRecord {
            notes: vec![format!("{terms}{}", related.terms.join(" "))],
            id: related.id,
            facts: related.facts,
            relation: related.relation,
        });
        Ok(TabContent { others: others.collect(), has_more: false, none: None })
    }
}
