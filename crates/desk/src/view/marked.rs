//! Texts with marks, as lists of pieces. The template makes the markup, so that text never becomes markup.

use std::ops::Range;

/// The reason why a piece is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkReason {
    /// The piece matches the search.
    Found,
    /// The piece is also in the compared record.
    Shared,
    /// The piece is not in the compared record.
    Different,
    /// The piece is also in the compared record, and in many other records, so that it is weak evidence.
    Common,
}

impl MarkReason {
    /// Returns the CSS class of the mark.
    pub fn class(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Shared => "shared",
            Self::Different => "different",
            Self::Common => "common",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedPiece {
    /// The characters.
    pub text: String,
    /// The mark of the piece; `None` for a piece without a mark.
    pub mark: Option<MarkReason>,
    /// The id of the piece for links on the page; `None` if no link leads to the piece.
    pub anchor: Option<&'static str>,
}

/// Splits `text` at the ends of marks. The ranges of marks count characters. If marks overlap, the mark that begins first counts up to its
/// end. Takes O(length + marks).
pub fn pieces(text: &str, marks: &[(Range<usize>, MarkReason)]) -> Vec<MarkedPiece> {
    let mut marks = marks.to_vec();
    marks.sort_by_key(|(range, _)| (range.start, range.end));
    let mut found = Vec::new();
    let mut chars = text.chars();
    let mut at = 0;
    let mut take = |until: usize, mark: Option<MarkReason>, at: &mut usize| {
        let text: String = chars.by_ref().take(until.saturating_sub(*at)).collect();
        *at = until.max(*at);
        if !text.is_empty() {
            found.push(MarkedPiece { text, mark, anchor: None });
        }
    };
    for (range, mark) in marks {
        take(range.start, None, &mut at);
        take(range.end, Some(mark), &mut at);
    }
    take(usize::MAX, None, &mut at);
    found
}

/// Returns at most `most` characters of a text, and an ellipsis if the text is longer.
pub fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, marks: &[(Range<usize>, MarkReason)]) -> String {
        pieces(text, marks)
            .iter()
            .map(|piece: &MarkedPiece| match piece.mark {
                Some(mark) => format!("[{}:{}]", mark.class(), piece.text),
                None => piece.text.clone(),
            })
            .collect()
    }

    #[test]
    fn marks_cut_a_text_by_characters_and_lose_none() {
        let found = shown("三号路的路灯", &[(4..6, MarkReason::Found), (0..3, MarkReason::Shared)]);
        assert_eq!(found, "[shared:三号路]的[found:路灯]");
        let overlapping = shown("三号路", &[(0..2, MarkReason::Found), (1..9, MarkReason::Common)]);
        assert_eq!(overlapping, "[found:三号][common:路]", "and beyond the end");
        assert_eq!(shown("三号路", &[(1..1, MarkReason::Found)]), "三号路");
        assert_eq!((shown("", &[(0..2, MarkReason::Found)]), shown("a", &[])), (String::new(), "a".into()));
    }

    #[test]
    fn a_beginning_says_that_there_is_more() {
        assert_eq!((beginning("三号路", 3), beginning("三号路", 2)), ("三号路".into(), "三号…".into()));
    }
}
