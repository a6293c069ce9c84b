//! Two records beside each other: texts with marks, figures in plain words, and what people decided.

use crate::console::page;
use crate::console::view::marked::{Mark, Piece, pieces};
use crate::console::view::numbers::percent;
use crate::console::view::row::{Facts, RowReader};
use crate::console::visitor::Visitor;
use crate::console::words::{PairWords, Words};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::{Difference, Relation};
use doppel_engine::answers::Explanation;
use doppel_engine::decisions::DecisionView;
use doppel_engine::side_by_side::{SideBySide, SideText};
use doppel_store::decisions::{Judgement, Ruling};

/// Where a passage that both have begins behind so many characters, a link leads to it: some ten lines.
const LATE: usize = 300;

/// A passage that counts for less than this is a phrase of everybody's: marked, but faintly.
const LEAST_WEIGHT: f64 = 0.25;

/// A record in few words.
#[derive(Clone, Debug)]
pub struct Card {
    /// Its page.
    pub href: String,
    /// Its id.
    pub id: String,
    /// What its row says.
    pub facts: Facts,
}

impl Card {
    /// Of a record of `collection`.
    pub fn new(collection: &CollectionName, id: &RecordId, facts: Facts) -> Self {
        Self { href: page::case(collection, id), id: id.to_string(), facts }
    }
}

/// A field of one of the two.
#[derive(Clone, Debug)]
pub struct MarkedText {
    /// Its name.
    pub field: String,
    /// Its text, shared passages marked.
    pub pieces: Vec<Piece>,
}

/// What was ruled, by whom and when.
#[derive(Clone, Debug)]
pub struct RulingLine {
    /// What.
    pub judgement: &'static str,
    /// By whom; empty where that was not said.
    pub by: String,
    /// Why; empty where that was not said.
    pub note: String,
    /// When.
    pub at: String,
}

/// What was decided about two records, and the form to decide with.
#[derive(Clone, Debug)]
pub struct DecideBox {
    /// Where the form goes.
    pub action: String,
    /// The one.
    pub a: String,
    /// The other.
    pub b: String,
    /// How many rulings the visitor has seen.
    pub seen: usize,
    /// What holds.
    pub holds: Option<Judgement>,
    /// All rulings, the last one first.
    pub history: Vec<RulingLine>,
    /// Where to go on afterwards.
    pub back: String,
    /// Whether the visitor may decide.
    pub may_decide: bool,
    /// Whether they give a name, and the one they gave last.
    pub asks_name: Option<String>,
}

impl DecideBox {
    /// About `a` and `b`, of which `decision` is known.
    pub fn new(
        visitor: &Visitor,
        collection: &CollectionName,
        (a, b): (&RecordId, &RecordId),
        decision: Option<&DecisionView>,
        reader: &RowReader,
    ) -> Self {
        let words = visitor.words();
        let history = decision.map_or(&[][..], |decision| &decision.history);
        let held = decision.map(|decision| decision.judgement).filter(|held| *held != Judgement::Withdrawn);
        Self {
            action: page::below(collection, "decide"),
            a: a.to_string(),
            b: b.to_string(),
            seen: history.len(),
            holds: held,
            history: history.iter().rev().map(|ruling| ruling_line(ruling, words, reader)).collect(),
            back: visitor.place.clone(),
            may_decide: visitor.may_write(),
            asks_name: visitor.is_open.then(|| visitor.name.clone().unwrap_or_default()),
        }
    }

    /// As it is, but going on to `place` afterwards.
    #[must_use]
    pub fn then(self, place: String) -> Self {
        Self { back: place, ..self }
    }
}

fn ruling_line(ruling: &Ruling, words: &Words, reader: &RowReader) -> RulingLine {
    RulingLine {
        judgement: (words.decide.judgement)(ruling.judgement),
        by: ruling.by.clone().unwrap_or_default(),
        note: ruling.note.clone().unwrap_or_default(),
        at: reader.clock.show_text(&ruling.at),
    }
}

/// Two records beside each other.
#[derive(Clone, Debug)]
pub struct PairView {
    /// The texts of the record asked about.
    pub ours: Vec<MarkedText>,
    /// Those of the other.
    pub theirs: Vec<MarkedText>,
    /// How alike they are, in sentences.
    pub figures: Vec<String>,
    /// What one names where the other names something else.
    pub differs: Vec<(&'static str, String, String)>,
    /// The other record.
    pub other: Card,
    /// What was decided; `None` where one of the two is not stored.
    pub decide: Option<DecideBox>,
}

/// What is said of two records, apart from their texts.
#[derive(Clone, Debug)]
pub struct Said {
    /// The other record.
    pub other: Card,
    /// Who submitted the two.
    pub relation: Option<Relation>,
    /// What was decided.
    pub decide: Option<DecideBox>,
}

impl PairView {
    /// The two of which all this is known.
    pub fn new(words: &Words, both: SideBySide, explained: Explanation, said: Said) -> Self {
        let SideBySide { a, b, weights } = both;
        let Said { other, relation, decide } = said;
        let figures = figures(words, &explained, relation);
        let difference = |Difference { kind, a, b }: Difference| ((words.record.object)(kind), a, b);
        let texts = |side: Vec<SideText>, anchor| {
            let mut texts: Vec<MarkedText> = side.into_iter().map(|text| marked(text, &weights)).collect();
            let mut pieces = texts.iter_mut().flat_map(|text| &mut text.pieces);
            if let Some(first) = pieces.find(|piece| piece.mark == Some(Mark::Shared)) {
                first.anchor = Some(anchor);
            }
            texts
        };
        Self {
            ours: texts(a, "shared-ours"),
            theirs: texts(b, "shared-theirs"),
            figures,
            differs: explained.differs.into_iter().map(difference).collect(),
            other,
            decide,
        }
    }
}

impl PairView {
    /// Whether it takes a while of reading until what both have begins in the record asked about.
    pub fn ours_begins_late(&self) -> bool {
        begins_late(&self.ours)
    }

    /// Whether it does in the other.
    pub fn theirs_begins_late(&self) -> bool {
        begins_late(&self.theirs)
    }
}

fn begins_late(texts: &[MarkedText]) -> bool {
    let pieces = || texts.iter().flat_map(|text| &text.pieces);
    let before = pieces().take_while(|piece| piece.anchor.is_none());
    pieces().any(|piece| piece.anchor.is_some()) && before.map(|piece| piece.text.chars().count()).sum::<usize>() > LATE
}

fn marked(text: SideText, weights: &[f64]) -> MarkedText {
    let mark = |number: usize| match weights.get(number) {
        Some(weight) if *weight < LEAST_WEIGHT => Mark::Common,
        _ => Mark::Shared,
    };
    let marks: Vec<_> = text.shared.iter().map(|(range, number)| (range.clone(), mark(*number))).collect();
    MarkedText { field: text.field, pieces: pieces(&text.text, &marks) }
}

fn figures(words: &Words, explained: &Explanation, relation: Option<Relation>) -> Vec<String> {
    let PairWords { same_text, contained, similarity, no_match, found_by, .. } = &words.pair;
    let mut figures = Vec::new();
    if explained.exact {
        figures.push((*same_text).to_owned());
    } else {
        figures.push(contained(percent(explained.containment)));
        figures.push(similarity(percent(explained.similarity)));
    }
    if !explained.matches {
        figures.push((*no_match).to_owned());
    }
    let via: Vec<&str> = explained.via.iter().map(|via| (words.record.via)(via)).collect();
    if !via.is_empty() {
        figures.push(found_by(&via));
    }
    figures.extend(relation.map(|relation| (words.record.relation)(relation).to_owned()));
    figures
}
