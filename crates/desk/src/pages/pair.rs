//! Loads the data that pages need to compare two records.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::view::VerdictBadge;
use crate::view::pair::{DecideBox, PairData, PairView, RecordCard};
use crate::view::row::{RowFacts, RowReader};
use crate::visitor::{PageVisitor, ReadingVisitor};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::Relation;
use doppel_engine::answers::RecordView;
use doppel_engine::decisions::DecisionView;
use doppel_engine::{Error, Side};
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;

/// The context of a page that shows records. As an argument of a handler, it is also the proof that the visitor may read.
pub struct PageContext {
    /// The service.
    pub app: App,
    pub visitor: PageVisitor,
    pub collection: CollectionName,
    /// The settings of the collection.
    pub settings: Settings,
    /// The reader for rows of the collection.
    pub reader: RowReader,
}

impl FromRequestParts<App> for PageContext {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let visitor = ReadingVisitor::from_request_parts(parts, app).await?;
        let InCollection(collection) = InCollection::from_request_parts(parts, app).await?;
        Self::of(app.clone(), visitor.0, collection).await
    }
}

impl PageContext {
    /// Creates the context for a page of a collection.
    ///
    /// # Errors
    /// 404 if the collection does not exist.
    pub async fn of(app: App, visitor: PageVisitor, collection: CollectionName) -> Result<Self, Problem> {
        let settings = app.engine.collection(&collection).await?.settings;
        let reader = RowReader::of(&settings);
        Ok(Self { app, visitor, collection, settings, reader })
    }

    /// Compares two stored records. Returns `None` if `other` does not exist any more, or if no text is kept.
    ///
    /// # Errors
    /// 404 if the record `id` does not exist any more.
    pub async fn stored(
        &self,
        id: &RecordId,
        other: &RecordId,
        relation: Option<Relation>,
    ) -> Result<Option<PairView>, Problem> {
        let as_of = self.app.engine.last_change(&self.collection).await?;
        let decision = self.decision(id, other).await?;
        let decide = DecideBox::new(&self.visitor, &self.collection, id, other, decision.as_ref(), as_of, &self.reader);
        self.pair(Side::Stored(id.clone()), other, relation, Some(decide)).await
    }

    /// Compares a row that is not stored with a stored record. Returns `None` if the record does not exist any more, or if its text is not
    /// kept.
    ///
    /// # Errors
    /// 422 if the row is invalid.
    pub async fn given(
        &self,
        row: Row,
        other: &RecordId,
        relation: Option<Relation>,
    ) -> Result<Option<PairView>, Problem> {
        self.pair(Side::Given(row), other, relation, None).await
    }

    async fn pair(
        &self,
        one: Side,
        other: &RecordId,
        relation: Option<Relation>,
        decide: Option<DecideBox>,
    ) -> Result<Option<PairView>, Problem> {
        let engine = &self.app.engine;
        let collection = &self.collection;
        let both = match engine.side_by_side(collection, one.clone(), Side::Stored(other.clone())).await {
            Err(Error::Side("b", _) | Error::TextNotKept(..)) => return Ok(None),
            both => both?,
        };
        let explained = match engine.explain(collection, one, Side::Stored(other.clone())).await {
            Err(Error::Side("b", _)) => return Ok(None),
            explained => explained?,
        };
        let Some(card) = self.card(other).await? else { return Ok(None) };
        Ok(Some(PairView::new(self.visitor.words(), both, explained, PairData { other: card, relation, decide })))
    }

    async fn decision(&self, id: &RecordId, other: &RecordId) -> Result<Option<DecisionView>, Problem> {
        match self.app.engine.decision(&self.collection, id, other).await {
            Err(Error::UnknownDecision(_)) => Ok(None),
            decision => Ok(Some(decision?)),
        }
    }

    /// Returns the badge of a stored record: its verdict and the decision about it.
    ///
    /// # Errors
    /// 404 if the collection does not exist any more.
    pub async fn badge(&self, record: &RecordView) -> Result<VerdictBadge, Problem> {
        let judged = self.app.engine.judged(&self.collection, record).await?;
        Ok(VerdictBadge::new(&self.visitor.words().record, record.verdict.kind, judged))
    }

    /// Returns the facts from the rows of those records of `ids` that are stored.
    ///
    /// # Errors
    /// 404 if the collection does not exist any more.
    pub async fn facts(
        &self,
        ids: impl IntoIterator<Item = &RecordId> + Send,
    ) -> Result<BTreeMap<RecordId, RowFacts>, Problem> {
        Ok(self.app.engine.read_rows(&self.collection, ids, |row| self.reader.facts(row)).await?)
    }

    /// Returns the summary of a stored record; `None` if the record does not exist any more.
    ///
    /// # Errors
    /// 404 if the collection does not exist any more.
    pub async fn card(&self, id: &RecordId) -> Result<Option<RecordCard>, Problem> {
        match self.app.engine.stored_row(&self.collection, id).await {
            Err(Error::UnknownRecord(..)) => Ok(None),
            Err(Error::TextNotKept(..)) => {
                Ok(Some(RecordCard::new(&self.collection, id, self.reader.without_text(id, None))))
            }
            row => Ok(Some(RecordCard::new(&self.collection, id, self.reader.facts(&row?)))),
        }
    }
}
