//! The place in the inbox: the filters, the order and the part of the queue, as the query of the page contains them.

use crate::choices::choices;
use crate::form::{FormFields, name_of};
use crate::page::{self, DeskSection, with_query};
use crate::words::InboxWords;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_engine::arrivals::ArrivalFilter;
use doppel_engine::queue::{QueueFilter, QueueOrder};
use doppel_engine::record_filter::RecordFilter;
use doppel_engine::{Engine, Error};
use doppel_http::cursor::CursorList;
use doppel_http::problem::Problem;
use doppel_store::Seq;

choices! {
    /// The records that the queue contains.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) enum InboxFilter from words: InboxWords {
        /// Repeats without a decision.
        #[default]
        Undecided = "undecided", words.undecided;
        Repeats = "repeats", words.repeats;
        /// All records.
        All = "all", words.all;
    }
}

choices! {
    /// A range of probabilities.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum ProbabilityBand from words: InboxWords {
        /// 95 % and more.
        High = "high", words.band_high;
        /// 80 % to 95 %.
        Middle = "middle", words.band_middle;
        /// Below 80 %.
        Low = "low", words.band_low;
    }
}

impl ProbabilityBand {
    /// Returns the least probability, and the probability that is too high.
    fn bounds(self) -> [Option<f64>; 2] {
        match self {
            Self::High => [Some(0.95), None],
            Self::Middle => [Some(0.8), Some(0.95)],
            Self::Low => [None, Some(0.8)],
        }
    }
}

/// The place in the queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InboxPlace {
    pub(super) show: InboxFilter,
    pub(super) order: QueueOrder,
    pub(super) verdict: Option<VerdictKind>,
    pub(super) band: Option<ProbabilityBand>,
    pub(super) since: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) unit: String,
    pub(super) category: String,
    /// The start of this part of the queue; `None` for the first part.
    pub(super) before: Option<Seq>,
    /// The page of this part, from 1.
    pub(super) page: usize,
    /// The id of the selected record.
    pub(super) at: Option<String>,
}

impl Default for InboxPlace {
    fn default() -> Self {
        Self {
            show: InboxFilter::default(),
            order: QueueOrder::default(),
            verdict: None,
            band: None,
            since: String::new(),
            from: String::new(),
            to: String::new(),
            unit: String::new(),
            category: String::new(),
            before: None,
            page: 1,
            at: None,
        }
    }
}

impl InboxPlace {
    /// The orders and their names in a query.
    pub(super) const ORDERS: [(QueueOrder, &'static str); 4] = [
        (QueueOrder::Newest, "newest"),
        (QueueOrder::Uncertain, "uncertain"),
        (QueueOrder::Probable, "probable"),
        (QueueOrder::RecordTime, "time"),
    ];

    /// The verdicts and their names in a query.
    pub(super) const VERDICTS: [(VerdictKind, &'static str); 4] = [
        (VerdictKind::ExactDuplicate, "exact"),
        (VerdictKind::NearDuplicate, "near"),
        (VerdictKind::Original, "original"),
        (VerdictKind::TooShort, "short"),
    ];

    /// Reads the place from the query of a page or from a form.
    ///
    /// # Errors
    /// 422 for a choice that the page does not offer.
    pub(super) fn of(form: &FormFields) -> Result<Self, Problem> {
        let show = form.choice("show", &InboxFilter::NAMES)?;
        let order = form.choice("order", &Self::ORDERS)?;
        Ok(Self {
            show: show.unwrap_or_default(),
            order: order.unwrap_or_default(),
            verdict: form.choice("verdict", &Self::VERDICTS)?,
            band: form.choice("band", &ProbabilityBand::NAMES)?,
            since: form.owned("since"),
            from: form.owned("from"),
            to: form.owned("to"),
            unit: form.owned("unit"),
            category: form.owned("category"),
            before: form.position("before")?,
            page: form.page()?,
            at: form.raw("at").filter(|at| !at.is_empty()).map(str::to_owned),
        })
    }

    /// Returns the filters and the order as fields of a form or a query.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let show = if self.show == InboxFilter::default() { "" } else { self.show.value() };
        let order = if self.order == QueueOrder::default() { "" } else { name_of(&Self::ORDERS, self.order) };
        let fields = [
            ("show", show.to_owned()),
            ("order", order.to_owned()),
            ("verdict", self.verdict.map_or_else(String::new, |kind| name_of(&Self::VERDICTS, kind).to_owned())),
            ("band", self.band.map_or_else(String::new, |band| band.value().to_owned())),
            ("since", self.since.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("unit", self.unit.clone()),
            ("category", self.category.clone()),
            ("before", self.before.map(|seq| CursorList::DeskForms.encode_seq(seq)).unwrap_or_default()),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Returns the URL of the place.
    pub(super) fn href(&self, collection: &CollectionName) -> String {
        let mut fields = self.fields();
        if self.page > 1 {
            fields.push(("page", self.page.to_string()));
        }
        fields.extend(self.at.clone().map(|at| ("at", at)));
        with_fields(&page::below(collection, DeskSection::Inbox.path()), &fields)
    }

    /// Returns the URL of the file with this part of the queue.
    pub(super) fn file(&self, collection: &CollectionName) -> String {
        with_fields(&page::below(collection, "inbox.csv"), &self.fields())
    }

    /// Returns the place with a selected record.
    pub(super) fn at(&self, id: &RecordId) -> Self {
        Self { at: Some(id.to_string()), ..self.clone() }
    }

    /// Returns another page of this part of the queue.
    pub(super) fn page(&self, page: usize) -> Self {
        Self { page, at: None, ..self.clone() }
    }

    /// Returns the part of the queue before a seq.
    pub(super) fn before(&self, before: Seq) -> Self {
        Self { before: Some(before), page: 1, at: None, ..self.clone() }
    }

    /// Returns the beginning of the queue.
    pub(super) fn first(&self) -> Self {
        Self { before: None, page: 1, at: None, ..self.clone() }
    }

    /// True if a filter of the folded part of the form is set.
    pub(super) fn is_filtered(&self) -> bool {
        let texts = [&self.since, &self.from, &self.to, &self.unit, &self.category];
        self.verdict.is_some() || self.band.is_some() || texts.iter().any(|text| !text.is_empty())
    }

    /// Returns the selection of records.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a time that cannot be read; [`Error::UnknownCollection`].
    pub(super) async fn wanted(&self, engine: &Engine, collection: &CollectionName) -> Result<QueueFilter, Error> {
        let since = engine.window(collection, filled(&self.since), None).await?.from;
        let time = engine.window(collection, filled(&self.from), filled(&self.to)).await?;
        let [least, below] = self.band.map_or([None, None], ProbabilityBand::bounds);
        let repeats = vec![VerdictKind::ExactDuplicate, VerdictKind::NearDuplicate];
        let record = RecordFilter {
            category: filled(&self.category).map(str::to_owned),
            status: None,
            unit: filled(&self.unit).map(str::to_owned),
            verdict: self.verdict,
        };
        let arrival = ArrivalFilter {
            verdicts: if self.show == InboxFilter::All { Vec::new() } else { repeats },
            since,
            undecided: self.show == InboxFilter::Undecided,
            record,
        };
        Ok(QueueFilter { arrival, time, least, below, ..QueueFilter::default() })
    }
}

fn with_fields(path: &str, fields: &[(&'static str, String)]) -> String {
    let parameters: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    with_query(path, &parameters)
}

fn filled(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_from_its_own_url() {
        let letters = CollectionName::new("letters").unwrap();
        let given = "show=all&order=uncertain&verdict=near&band=low&since=2024-03-01&from=2024-01-01&to=2024-02-01&unit=%E5%9F%8E&page=2&at=7";
        let place = InboxPlace::of(&FormFields::parse(given.as_bytes()).unwrap()).unwrap();
        let href = place.href(&letters);
        let again = InboxPlace::of(&FormFields::parse(href.split_once('?').unwrap().1.as_bytes()).unwrap()).unwrap();
        assert_eq!(again, place);
        assert!(place.is_filtered() && !InboxPlace::default().is_filtered());
        assert_eq!(InboxPlace::default().href(&letters), "/console/letters/inbox");
        assert_eq!((place.first().page, place.page(3).at, place.before(Seq(9)).page), (1, None, 1));
    }

    #[test]
    fn a_choice_that_the_page_does_not_offer_is_refused() {
        for odd in ["show=x", "order=x", "verdict=x", "band=x", "page=0", "before=%3Cb%3E"] {
            assert!(InboxPlace::of(&FormFields::parse(odd.as_bytes()).unwrap()).is_err(), "{odd}");
        }
    }
}
