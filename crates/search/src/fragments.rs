//! Finds the fragments of a text that contain the words of a search, to show them with the words marked.

use std::ops::Range;

use doppel_core::collection::TextFormat;
use doppel_core::text::normalise::Normaliser;
use doppel_core::text::read_mapped;

use crate::extract::indexed_part;

/// Largest number of fragments of a field.
const MAX_FRAGMENTS: usize = 3;
/// Number of characters of context on either side of a marked word.
const CONTEXT_CHARS: usize = 24;

/// A piece of a text, with the words to mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedFragment {
    /// Offsets of the fragment in the text, in characters.
    pub at: Range<usize>,
    /// Offsets of the marked words, in characters of the whole text, ascending.
    pub marked: Vec<Range<usize>>,
}

/// Returns the fragments of `text` that contain one of the normalised texts `wanted`. `format` and `normaliser` are those of the field. Offsets
/// count characters of the original text, so that a fragment of an HTML text contains its markup.
///
/// Only the indexed part of the text is read. O(characters of the text × characters of `wanted`).
pub fn find_fragments(
    text: &str,
    wanted: &[String],
    format: TextFormat,
    normaliser: Normaliser,
) -> Vec<MarkedFragment> {
    let text = indexed_part(text);
    let length = text.chars().count();
    let (normal, made_of) = read_mapped(normaliser, format, text);
    let normal: Vec<(char, Range<usize>)> = normal.chars().zip(made_of).filter(|(c, _)| !c.is_whitespace()).collect();
    let mut marked: Vec<Range<usize>> = Vec::new();
    for wanted in wanted {
        let wanted: Vec<char> = wanted.chars().filter(|c| !c.is_whitespace()).collect();
        if wanted.is_empty() {
            continue;
        }
        let hits = normal.windows(wanted.len()).filter(|window| window.iter().map(|(c, _)| c).eq(&wanted));
        marked.extend(hits.map(|hit| hit[0].1.start..hit[hit.len() - 1].1.end));
    }
    marked.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in marked {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    let mut found: Vec<MarkedFragment> = Vec::new();
    for range in joined {
        let at = range.start.saturating_sub(CONTEXT_CHARS)..(range.end + CONTEXT_CHARS).min(length);
        if let Some(last) = found.last_mut().filter(|last| at.start <= last.at.end) {
            last.at.end = at.end;
            last.marked.push(range);
        } else if found.len() < MAX_FRAGMENTS {
            found.push(MarkedFragment { at, marked: vec![range] });
        } else {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, wanted: &[&str]) -> Vec<(String, Vec<String>)> {
        let wanted: Vec<String> = wanted.iter().map(|wanted| (*wanted).to_owned()).collect();
        let chars: Vec<char> = text.chars().collect();
        let piece = |range: &Range<usize>| chars[range.clone()].iter().collect::<String>();
        let found = find_fragments(text, &wanted, TextFormat::Plain, Normaliser::new(true));
        found.iter().map(|found| (piece(&found.at), found.marked.iter().map(piece).collect())).collect()
    }

    #[test]
    fn wanted_words_are_marked_in_the_original_text() {
        let found = shown("本小区的 LED 路灯\n坏了", &["led", "路灯坏"]);
        assert_eq!(found, [("本小区的 LED 路灯\n坏了".to_owned(), vec!["LED".to_owned(), "路灯\n坏".to_owned()])]);
        assert!(
            shown("井盖", &["路灯"]).is_empty() && shown("", &["路灯"]).is_empty() && shown("井盖", &[""]).is_empty()
        );
    }

    #[test]
    fn the_text_of_an_html_page_is_found_and_its_markup_is_not() {
        assert_eq!(marked_in_page("路灯"), ["路<b>&#28783;"]);
        assert!(marked_in_page("div").is_empty());
    }

    fn marked_in_page(wanted: &str) -> Vec<String> {
        let page = "<div>三号路的路<b>&#28783;</b>坏了</div>";
        let found = find_fragments(page, &[wanted.to_owned()], TextFormat::Html, Normaliser::new(true));
        let marked = found.into_iter().flat_map(|found| found.marked);
        marked.map(|range| page.chars().skip(range.start).take(range.len()).collect()).collect()
    }

    #[test]
    fn fragments_are_few_short_and_do_not_overlap() {
        let far = "。".repeat(100);
        let text = format!("路灯路灯{far}路灯甲路灯{far}路灯{far}路灯");
        let found = find_fragments(&text, &["路灯".to_owned()], TextFormat::Plain, Normaliser::new(true));
        assert_eq!(found.len(), MAX_FRAGMENTS);
        assert!(found.windows(2).all(|pair| pair[0].at.end < pair[1].at.start));
        assert_eq!(found[0].marked.as_slice(), &[0..4; 1], "words that overlap or touch are marked together");
        assert_eq!(found[1].marked.len(), 2);
    }
}
