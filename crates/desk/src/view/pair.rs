//! The comparison of two records: texts with marks, figures in plain words, and the decisions of people.

use std::ops::Range;

use crate::page;
use crate::view::evidence::EvidenceSteps;
use crate::view::marked::{MarkReason, MarkedPiece, pieces};
use crate::view::row::{RowFacts, RowReader};
use crate::visitor::PageVisitor;
use crate::words::{DeskWords, PairWords};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::{Difference, Relation};
use doppel_engine::answers::Explanation;
use doppel_engine::decisions::DecisionView;
use doppel_engine::side_by_side::{SideBySide, SideText};
use doppel_findings::percent;
use doppel_http::cursor::CursorList;
use doppel_store::Seq;
use doppel_store::decisions::{Judgement, Ruling};

/// Number of characters after which the first mark is late, so that a link to the mark is shown: about ten lines.
const LATE: usize = 300;

/// Weight below which a shared passage is a common phrase. Such a passage is marked faintly.
const LEAST_WEIGHT: f64 = 0.25;

/// The summary of a record.
#[derive(Clone, Debug)]
pub struct RecordCard {
    /// The path of the record's page.
    pub href: String,
    pub id: String,
    /// The facts from the record's row.
    pub facts: RowFacts,
}

impl RecordCard {
    /// Creates the summary of a record of `collection`.
    pub fn new(collection: &CollectionName, id: &RecordId, facts: RowFacts) -> Self {
        Self { href: page::case(collection, id), id: id.to_string(), facts }
    }
}

/// A field of one of the two records.
#[derive(Clone, Debug)]
pub struct MarkedText {
    pub field: String,
    /// The text of the field with marks.
    pub pieces: Vec<MarkedPiece>,
}

/// A ruling about a pair.
#[derive(Clone, Debug)]
pub struct RulingLine {
    pub judgement: &'static str,
    /// The name of the person; empty if it is not known.
    pub by: String,
    /// The reason; empty without a reason.
    pub note: String,
    /// The time.
    pub at: String,
}

/// The decision about two records, and the form for deciding.
#[derive(Clone, Debug)]
pub struct DecideBox {
    /// The path to which the form is sent.
    pub action: String,
    /// The id of one record.
    pub a: String,
    /// The id of the other record.
    pub b: String,
    /// Number of rulings that the page shows.
    pub seen: usize,
    /// The latest change before the texts of the page were read, as a cursor.
    pub as_of: String,
    pub holds: Option<Judgement>,
    /// All rulings, the last ruling first.
    pub history: Vec<RulingLine>,
    /// The path of the page to show after the decision.
    pub back: String,
    /// True if the visitor may decide.
    pub may_decide: bool,
    /// The name that the visitor gave last, if the form asks for a name.
    pub asks_name: Option<String>,
}

impl DecideBox {
    /// Creates the form for a decision about `a` and `b`. `decision` is the existing decision, and `as_of` the latest change before the
    /// texts were read.
    pub fn new(
        visitor: &PageVisitor,
        collection: &CollectionName,
        a: &RecordId,
        b: &RecordId,
        decision: Option<&DecisionView>,
        as_of: Seq,
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
            as_of: CursorList::DeskForms.encode_seq(as_of),
            holds: held,
            history: history.iter().rev().map(|ruling| ruling_line(ruling, words, reader)).collect(),
            back: visitor.place.clone(),
            may_decide: visitor.may_write(),
            asks_name: visitor.is_open.then(|| visitor.name.clone().unwrap_or_default()),
        }
    }

    /// Returns the same form with `place` as the page to show after the decision.
    #[must_use]
    pub fn returning_to(self, place: String) -> Self {
        Self { back: place, ..self }
    }
}

fn ruling_line(ruling: &Ruling, words: &DeskWords, reader: &RowReader) -> RulingLine {
    RulingLine {
        judgement: (words.decide.judgement)(ruling.judgement),
        by: ruling.by.clone().unwrap_or_default(),
        note: ruling.note.clone().unwrap_or_default(),
        at: reader.clock.show_text(&ruling.at),
    }
}

/// The comparison of two records.
#[derive(Clone, Debug)]
pub struct PairView {
    /// The texts of the record of the page.
    pub ours: Vec<MarkedText>,
    /// The texts of the other record.
    pub theirs: Vec<MarkedText>,
    /// The relation of the records, in sentences.
    pub figures: Vec<String>,
    /// The steps of the evidence model.
    pub evidence: Option<EvidenceSteps>,
    /// The kind of text that is marked.
    pub marks: MarkedKind,
    /// The kinds of things for which both records have different values, with these values.
    pub differs: Vec<(&'static str, String, String)>,
    pub other: RecordCard,
    /// The form for a decision; `None` if one of the records is not stored.
    pub decide: Option<DecideBox>,
}

/// The data about two records apart from their texts.
#[derive(Clone, Debug)]
pub struct PairData {
    pub other: RecordCard,
    /// The relation between the petitioners of the two records.
    pub relation: Option<Relation>,
    /// The form for a decision.
    pub decide: Option<DecideBox>,
}

impl PairView {
    /// Creates the comparison.
    pub fn new(words: &DeskWords, both: SideBySide, explained: Explanation, said: PairData) -> Self {
        let SideBySide { a, b, weights } = both;
        let PairData { other, relation, decide } = said;
        let marks = MarkedKind::of(&a, &b);
        Self {
            ours: anchored_texts(a, "mark-ours", marks, &weights),
            theirs: anchored_texts(b, "mark-theirs", marks, &weights),
            figures: figures(words, &explained, relation),
            evidence: EvidenceSteps::of(&explained, &words.evidence),
            marks,
            differs: explained
                .differs
                .into_iter()
                .map(|Difference { kind, a, b }: Difference| (words.record.finding.object(kind), a, b))
                .collect(),
            other,
            decide,
        }
    }
}

/// The kind of text that is marked in the comparison: the kind of which there is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkedKind {
    /// Text that both records have.
    Shared,
    /// Text that only one of the records has.
    Different,
}

impl MarkedKind {
    /// Returns the kind for two records: differences if both records have more than half of their text in common.
    fn of(a: &[SideText], b: &[SideText]) -> Self {
        if is_mostly_shared(a) && is_mostly_shared(b) { Self::Different } else { Self::Shared }
    }
}

fn is_mostly_shared(side: &[SideText]) -> bool {
    let all: usize = side.iter().map(|text| text.compared).sum();
    let shared: usize = side.iter().flat_map(same_ranges).map(|range| range.len()).sum();
    2 * shared > all
}

/// Returns the ranges that the other text contains, too, without overlaps and in order.
fn same_ranges(text: &SideText) -> Vec<Range<usize>> {
    let passages = text.shared.iter().map(|(range, _)| range);
    let mut ranges: Vec<Range<usize>> = passages.chain(&text.aligned).cloned().collect();
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let touches = next.start <= range.end;
        if touches {
            range.end = range.end.max(next.end);
        }
        touches
    });
    ranges
}

fn anchored_texts(side: Vec<SideText>, anchor: &'static str, marks: MarkedKind, weights: &[f64]) -> Vec<MarkedText> {
    let mut texts: Vec<MarkedText> = side.into_iter().map(|text| marked(text, marks, weights)).collect();
    let mut pieces = texts.iter_mut().flat_map(|text| &mut text.pieces);
    if let Some(first) = pieces.find(|piece| matches!(piece.mark, Some(MarkReason::Shared | MarkReason::Different))) {
        first.anchor = Some(anchor);
    }
    texts
}

impl PairView {
    /// Returns the text of the link to the first mark.
    pub fn jump(&self, words: &PairWords) -> &'static str {
        match self.marks {
            MarkedKind::Shared => words.jump_shared,
            MarkedKind::Different => words.jump_different,
        }
    }

    /// Returns the note about the marks.
    pub fn marks_note(&self, words: &PairWords) -> &'static str {
        let mut pieces = self.ours.iter().chain(&self.theirs).flat_map(|text| &text.pieces);
        match self.marks {
            MarkedKind::Shared => words.marks_shared,
            MarkedKind::Different if pieces.any(|piece| piece.mark.is_some()) => words.marks_different,
            MarkedKind::Different => words.marks_none,
        }
    }

    /// True if the first mark of the page's record comes after more than `LATE` characters.
    pub fn ours_begins_late(&self) -> bool {
        begins_late(&self.ours)
    }

    /// True if the first mark of the other record comes after more than `LATE` characters.
    pub fn theirs_begins_late(&self) -> bool {
        begins_late(&self.theirs)
    }
}

fn begins_late(texts: &[MarkedText]) -> bool {
    let pieces = || texts.iter().flat_map(|text| &text.pieces);
    let before = pieces().take_while(|piece| piece.anchor.is_none());
    pieces().any(|piece| piece.anchor.is_some()) && before.map(|piece| piece.text.chars().count()).sum::<usize>() > LATE
}

fn marked(text: SideText, marks: MarkedKind, weights: &[f64]) -> MarkedText {
    let marks: Vec<_> = match marks {
        MarkedKind::Shared => {
            text.shared.iter().map(|(range, number)| (range.clone(), mark_of(*number, weights))).collect()
        }
        MarkedKind::Different => gaps(&text).into_iter().map(|range| (range, MarkReason::Different)).collect(),
    };
    MarkedText { field: text.field, pieces: pieces(&text.text, &marks) }
}

/// Returns the ranges that the other text does not contain, if they contain more than punctuation, without the punctuation at their ends.
fn gaps(text: &SideText) -> Vec<Range<usize>> {
    let chars: Vec<char> = text.text.chars().collect();
    let mut gaps = Vec::new();
    let mut start = 0;
    let mut same = same_ranges(text);
    // The rest was not compared.
    same.push(text.compared..chars.len());
    for shared in same {
        let gap = &chars[start..shared.start];
        let first = gap.iter().position(|c| c.is_alphanumeric());
        let last = gap.iter().rposition(|c| c.is_alphanumeric());
        gaps.extend(first.zip(last).map(|(first, last)| start + first..start + last + 1));
        start = shared.end;
    }
    gaps
}

fn mark_of(number: usize, weights: &[f64]) -> MarkReason {
    match weights.get(number) {
        Some(weight) if *weight < LEAST_WEIGHT => MarkReason::Common,
        _ => MarkReason::Shared,
    }
}

fn figures(words: &DeskWords, explained: &Explanation, relation: Option<Relation>) -> Vec<String> {
    let PairWords { same_text, contained, probability, no_match, found_by, .. } = &words.pair;
    let mut figures = Vec::new();
    if explained.exact {
        figures.push((*same_text).to_owned());
    } else {
        figures.push(probability(percent(explained.probability)));
        figures.push(contained(percent(explained.containment)));
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
