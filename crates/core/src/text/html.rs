//! The visible text of HTML, for fields of format `html`.
//!
//! Tags are removed and character references are replaced, by the rules of the HTML standard. Parts that no browser
//! shows in the page are removed: comments, the content of `title`, `script`, `style`, `template`, `noscript`,
//! `iframe`, `noembed`, `noframes` and `datalist`, and the content of an element that its own attributes hide
//! (`hidden`, or a `style` with `display: none` or `visibility: hidden`), unless the element needs no end tag. A
//! sequence of white space becomes one space. Blocks, table rows and `br` begin a new line. Cells of a table are
//! separated by a space. Markup within a line (`b`, `a`, `span` …) does not separate the text. A text without tags
//! changes only in references and white space.
//!
//! Style sheets are not read, so that text that they hide counts. Text that appears after a click (`details`, `dialog`)
//! counts as well. A hidden element without an end extends to the end of the text. O(length).

mod located;

use std::ops::Range;

use html5gum::{DefaultEmitter, Emitter, StartTag, Token, Tokenizer};

use located::{Chars, Pieces};

/// Elements whose content is not shown.
const HIDDEN: &[&[u8]] =
    &[b"title", b"script", b"style", b"template", b"noscript", b"iframe", b"noembed", b"noframes", b"datalist"];
/// Elements that have no end tag, or need none. Only the document tree would tell where a hidden element of this kind
/// ends.
const OPEN_ENDED: &[&[u8]] = &[
    b"area",
    b"base",
    b"body",
    b"br",
    b"caption",
    b"col",
    b"colgroup",
    b"dd",
    b"dt",
    b"embed",
    b"head",
    b"hr",
    b"html",
    b"img",
    b"input",
    b"li",
    b"link",
    b"meta",
    b"optgroup",
    b"option",
    b"p",
    b"rp",
    b"rt",
    b"source",
    b"tbody",
    b"td",
    b"tfoot",
    b"th",
    b"thead",
    b"tr",
    b"track",
    b"wbr",
];
/// Elements that begin and end a line, in addition to the headings `h1` to `h6`.
const BLOCKS: &[&[u8]] = &[
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"body",
    b"br",
    b"caption",
    b"center",
    b"dd",
    b"details",
    b"dialog",
    b"dir",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"head",
    b"header",
    b"hgroup",
    b"hr",
    b"html",
    b"legend",
    b"li",
    b"main",
    b"menu",
    b"nav",
    b"ol",
    b"optgroup",
    b"option",
    b"p",
    b"plaintext",
    b"pre",
    b"search",
    b"section",
    b"summary",
    b"table",
    b"tbody",
    b"tfoot",
    b"thead",
    b"tr",
    b"ul",
    b"xmp",
];
/// Elements that are separated from other text within a line.
const CELLS: &[&[u8]] =
    &[b"td", b"th", b"button", b"select", b"textarea", b"img", b"input", b"object", b"video", b"audio"];

/// Returns the visible text of `html`.
pub fn visible_text(html: &str) -> String {
    let mut text = Text::default();
    read(html, emitter(), |shown| match shown {
        Shown::Tag(name) => text.pass(name),
        Shown::Text(content) => text.write(content, |_, _| {}),
        Shown::Hidden(_) => {}
    });
    text.written
}

/// Returns the visible text of `html`, and for each of its characters the range of characters of `html` that produced
/// it. For a character reference the range extends from `&` to `;`. For a separator it covers everything between the
/// two separated characters. Ascending. O(length).
pub fn visible_text_mapped(html: &str) -> (String, Vec<Range<usize>>) {
    let pieces = Pieces::default();
    let mut text = Text::default();
    let mut made_of = Vec::<Range<usize>>::new();
    let mut chars = Chars::of(html);
    read(html, pieces.noted_from(html, emitter()), |shown| match shown {
        Shown::Tag(name) => text.pass(name),
        Shown::Hidden(bytes) => drop(pieces.take(bytes)),
        Shown::Text(content) => {
            let pieces = pieces.take(content.len());
            let mut sources = located::Sources::of(&pieces);
            text.write(content, |at, is_behind_gap| {
                let source = chars.of_bytes(sources.at(html, at));
                if is_behind_gap {
                    made_of.push(made_of.last().map_or(0, |last| last.end.min(source.start))..source.start);
                }
                made_of.push(source);
            });
        }
    });
    (text.written, made_of)
}

fn emitter() -> DefaultEmitter {
    let mut emitter = DefaultEmitter::default();
    // The content of a script is no markup.
    emitter.naively_switch_states(true);
    emitter
}

/// A part of an HTML text.
enum Shown<'a> {
    /// A tag of an element that is shown, with its name.
    Tag(&'a [u8]),
    /// Text that is shown.
    Text(&'a str),
    /// This number of bytes of text that is not shown.
    Hidden(usize),
}

/// Calls `each` with all parts of `html`, in their order.
fn read(html: &str, emitter: impl Emitter<Token = Token>, mut each: impl FnMut(Shown<'_>)) {
    // The name of the hidden element, and the number of open elements with this name.
    let mut hidden: Option<(Vec<u8>, u32)> = None;
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => match &mut hidden {
                Some((name, open)) => *open += u32::from(*name == *tag.name),
                None if HIDDEN.contains(&tag.name.as_slice()) || hides_itself(&tag) => {
                    hidden = Some((tag.name.to_vec(), 1));
                }
                None => each(Shown::Tag(&tag.name)),
            },
            Token::EndTag(tag) => match &mut hidden {
                Some((name, open)) if *name == *tag.name => {
                    *open -= 1;
                    if *open == 0 {
                        hidden = None;
                    }
                }
                Some(_) => {}
                None => each(Shown::Tag(&tag.name)),
            },
            Token::String(content) if hidden.is_some() => each(Shown::Hidden(content.len())),
            Token::String(content) => each(Shown::Text(&String::from_utf8_lossy(&content.value))),
            _ => {}
        }
    }
}

/// True if an element's own attributes hide it.
fn hides_itself(tag: &StartTag<()>) -> bool {
    if OPEN_ENDED.contains(&tag.name.as_slice()) || tag.self_closing {
        return false;
    }
    let style = tag.attributes.get(b"style".as_slice()).is_some_and(|style| {
        let style: Vec<u8> =
            style.iter().filter(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase).collect();
        let mut declared = style.split(|byte| *byte == b';');
        declared.any(|rule| rule == b"display:none" || rule == b"visibility:hidden")
    });
    style || tag.attributes.contains_key(b"hidden".as_slice())
}

/// The visible text that has been written so far.
#[derive(Default)]
struct Text {
    written: String,
    /// The separator before the next character: a line end has priority over a space.
    gap: Option<char>,
}

impl Text {
    /// Processes a tag.
    fn pass(&mut self, name: &[u8]) {
        if BLOCKS.contains(&name) {
            self.gap = Some('\n');
        } else if CELLS.contains(&name) {
            self.gap = self.gap.or(Some(' '));
        }
    }

    /// Writes `content`. Calls `wrote` for each written character with its byte offset in `content`, and with true if a
    /// separator was written before it.
    fn write(&mut self, content: &str, mut wrote: impl FnMut(usize, bool)) {
        for (at, c) in content.char_indices() {
            if c.is_whitespace() {
                self.gap = self.gap.or(Some(' '));
                continue;
            }
            let gap = self.gap.take().filter(|_| !self.written.is_empty());
            self.written.extend(gap.into_iter().chain([c]));
            wrote(at, gap.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(html: &str, expected: &str) {
        assert_eq!(visible_text(html), expected, "{html:?}");
    }

    #[test]
    fn a_page_gives_what_is_seen_of_it() {
        check(
            "<!DOCTYPE html><html><head><title>来信 - 某网</title><style>p{color:red}</style>\n<meta charset=utf-8></head>\n\
             <body onload=\"go('<p>')\"><h1>路灯&nbsp;不亮</h1><!-- 草稿 --><p>三号路的<b>路</b><a href='x'>灯</a>坏了,\n  请修。</p>\
             <script>if (a < b) document.write('<p>广告</p>');</script><noscript><p>请开启脚本</p></noscript>第一&lt;二&#31532;</body></html>",
            "路灯 不亮\n三号路的路灯坏了, 请修。\n第一<二第",
        );
    }

    #[test]
    fn blocks_are_lines_and_cells_are_set_apart() {
        check("第一行<br>第二行<BR/>第三行<div>第四行</div>第五行", "第一行\n第二行\n第三行\n第四行\n第五行");
        check("<table><tr><td>1<td>2</tr><tr><td>3</td></tr></table>", "1 2\n3");
        check("<ul><li>水<li>电</ul>", "水\n电");
    }

    #[test]
    fn what_an_element_hides_by_itself_is_not_seen() {
        check("甲<div hidden>乙<div>丙</div>丁</div>戊", "甲戊");
        check("甲<span style='color:red; Display : none'>乙</span>丙<b style=\"visibility:hidden\">丁</b>", "甲丙");
        check("甲<datalist><option>乙</datalist>丙", "甲丙");
        // Only the document tree would tell where these elements end. Too much text is better than too little.
        check("甲<p hidden>乙<p>丙<img hidden>丁<span style='display:block'>戊</span>", "甲\n乙\n丙 丁戊");
    }

    #[test]
    fn each_character_is_made_of_as_little_as_can_be() {
        assert_eq!(sources("路<b>灯</b>\r\n 亮"), ["路", "灯", "</b>\r\n ", "亮"]);
        assert_eq!(
            sources("<p>&lt;&semi;&#x31;&#65灯&amp路&NotEqualTilde;"),
            ["&lt;", "&semi;", "&#x31;", "&#65", "灯", "&amp", "路", "&NotEqualTilde;", "&NotEqualTilde;"]
        );
        assert_eq!(
            sources("A&B &no;&#;&<3</"),
            ["A", "&", "B", " ", "&", "n", "o", ";", "&", "#", ";", "&", "<", "3", "<", "/"]
        );
        assert_eq!(sources("甲<div hidden>&lt;乙</div><!-- 丙 -->丁"), ["甲", "丁"]);
        assert_eq!(sources("<textarea>a</b</textarea>"), ["a", "</b", "</b", "</b"]);
    }

    /// Returns the part of a page that each visible character is made of.
    fn sources(html: &str) -> Vec<String> {
        let chars: Vec<char> = html.chars().collect();
        let (text, made_of) = visible_text_mapped(html);
        assert_eq!(text, visible_text(html));
        made_of.into_iter().map(|range| chars[range].iter().collect()).collect()
    }

    #[test]
    fn what_is_no_markup_stays_and_what_never_ends_is_inside() {
        check("3 < 5 且 7>6,A&B 公司", "3 < 5 且 7>6,A&B 公司");
        check("路灯<script>坏了</p>没有人修", "路灯");
        check("<template>甲<template>乙</template>丙</template>丁", "丁");
        check("", "");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn no_text_breaks_it_and_its_own_lines_come_back(
            html in "(<(p|b|script|style|title|br|td|!--|/p|/b|/script|/style|/title)>?|&(lt|amp|#x?[0-9]{1,4});?|[路灯a1 <>&\"'=/\n-]){0,40}",
        ) {
            let text = visible_text(&html);
            prop_assert!(text.len() <= html.len() && text.trim() == text);
            let (mapped, made_of) = visible_text_mapped(&html);
            prop_assert_eq!((&mapped, mapped.chars().count()), (&text, made_of.len()));
            prop_assert!(made_of.windows(2).all(|two| two[0] == two[1] || two[0].end <= two[1].start), "{:?}", made_of);
            prop_assert!(made_of.last().is_none_or(|last| last.end <= html.chars().count()));
            prop_assert!(!text.contains("  ") && !text.contains("\n\n"));
        }
    }
}
