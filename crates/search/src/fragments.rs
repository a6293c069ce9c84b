//! Fragments of a text in which what was searched for stands, to be shown with it marked.

use std::ops::Range;

use doppel_core::collection::TextFormat;
use doppel_core::text::normalise::Normaliser;
use doppel_core::text::read_mapped;

use crate::extract::cut;

/// Most fragments of a field.
const MOST_FRAGMENTS: usize = 3;
/// Characters shown on either side of what is marked.
const AROUND: usize = 24;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it stands in the text, in characters.
    pub at: Range<usize>,
    /// What is marked in it, in characters of the whole text, ascending.
    pub marked: Vec<Range<usize>>,
}

/// The fragments of `text` in which any of `wanted`, normalised, stands. `format` and `normaliser` are how the field is read; offsets are
/// those of the text as it was received, so that fragments of a page hold its markup.
/// As much of the text is looked at as is indexed. O(characters of the text × of what is wanted).
pub fn fragments(text: &str, wanted: &[String], format: TextFormat, normaliser: Normaliser) -> Vec<Fragment> {
    let text = cut(text);
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
    let mut found: Vec<Fragment> = Vec::new();
    for range in joined {
        let at = range.start.saturating_sub(AROUND)..(range.end + AROUND).min(length);
        if let Some(last) = found.last_mut().filter(|last| at.start <= last.at.end) {
            last.at.end = at.end;
            last.marked.push(range);
        } else if found.len() < MOST_FRAGMENTS {
            found.push(Fragment { at, marked: vec![range] });
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
        let found = fragments(text, &wanted, TextFormat::Plain, Normaliser::new(true));
        found.iter().map(|found| (piece(&found.at), found.marked.iter().map(piece).collect())).collect()
    }

    #[test]
    fn what_is_wanted_is_marked_in_the_text_as_it_was_received() {
        let found = shown("本小区的 LED 路灯\n坏了", &["led", "路灯坏"]);
        assert_eq!(found, [("本小区的 LED 路灯\n坏了".to_owned(), vec!["LED".to_owned(), "路灯\n坏".to_owned()])]);
        assert!(
            shown("井盖", &["路灯"]).is_empty() && shown("", &["路灯"]).is_empty() && shown("井盖", &[""]).is_empty()
        );
    }

    #[test]
    fn in_a_page_what_is_shown_is_found_and_markup_is_not() {
        let wanted = |wanted: &str| {
            let page = "<div>三号路的路<b>&#28783;</b>坏了</div>";
            let found = fragments(page, &[wanted.to_owned()], TextFormat::Html, Normaliser::new(true));
            let marked = found.into_iter().flat_map(|found| found.marked);
            marked.map(|range| page.chars().skip(range.start).take(range.len()).collect()).collect::<Vec<String>>()
        };
        assert_eq!(wanted("路灯"), ["路<b>&#28783;"]);
        assert!(wanted("div").is_empty());
    }

    #[test]
    fn fragments_are_few_short_and_do_not_overlap() {
        let far = "。".repeat(100);
        let text = format!("路灯路灯{far}路灯甲路灯{far}路灯{far}路灯");
        let found = fragments(&text, &["路灯".to_owned()], TextFormat::Plain, Normaliser::new(true));
        assert_eq!(found.len(), MOST_FRAGMENTS);
        assert!(found.windows(2).all(|pair| pair[0].at.end < pair[1].at.start));
        assert_eq!(found[0].marked.as_slice(), &[0..4; 1], "what overlaps or touches is one");
        assert_eq!(found[1].marked.len(), 2);
    }
}
