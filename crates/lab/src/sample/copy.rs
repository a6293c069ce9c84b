//! The ways in which people submit the same matter again: eight kinds of copies, each in five strengths.
//!
//! Strength 1 hardly changes the text. A person recognises a copy of strength 5 without doubt, but a naive comparison does not.

use super::generic::{PREFIXES, QUOTES, SUFFIXES};
use super::grammar::{Voice, expand};
use super::phrases::CHRONICLE;
use super::rng::Rng;
use super::story::{Length, Story};
use super::traditional::traditional;
use super::words::VARIANTS;

/// The kind of the changes in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The same title and content.
    Exact,
    /// Punctuation, white space, line breaks, full-width digits and letters.
    Format,
    /// Traditional characters.
    Traditional,
    /// Missing characters, changed numbers and dates, additional small words.
    Words,
    /// Omitted and moved sentences.
    Sentences,
    /// Additional sentences before and after the text: the petitioner is not satisfied with the answer.
    Affix,
    /// The whole text as a quotation within a longer one.
    Quoted,
    /// Words that are replaced by other words with the same meaning.
    Synonyms,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Exact,
        Self::Format,
        Self::Traditional,
        Self::Words,
        Self::Sentences,
        Self::Affix,
        Self::Quoted,
        Self::Synonyms,
    ];

    /// Returns the name in `groups.jsonl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Format => "format",
            Self::Traditional => "traditional",
            Self::Words => "words",
            Self::Sentences => "sentences",
            Self::Affix => "affix",
            Self::Quoted => "quoted",
            Self::Synonyms => "synonyms",
        }
    }
}

/// Returns the title and the content of a copy of `story`.
pub(super) fn copy(story: &Story, kind: Kind, strength: usize, seed: u64) -> (String, String) {
    let mut rng = Rng::of(&[seed, 3]);
    let mut title = story.title.clone();
    let content = match kind {
        Kind::Exact => return (title, story.text()),
        Kind::Format => return (title, format_changed(&story.text(), strength, &mut rng)),
        Kind::Traditional => traditional_parts(story, strength, &mut rng),
        Kind::Words => words_changed(story, strength, &mut rng),
        Kind::Sentences => sentences_moved(story, strength, &mut rng),
        Kind::Affix => affixed(story, strength, &mut rng),
        Kind::Quoted => quoted(story, strength, &mut rng),
        Kind::Synonyms => synonyms(&story.text(), strength * 20, &mut rng),
    };
    if rng.chance(30) {
        title.insert_str(0, rng.pick(&["再次反映：", "关于", "第二次投诉", "急！"]));
    }
    (title, content)
}

fn format_changed(text: &str, strength: usize, rng: &mut Rng) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        let change = rng.chance(15 * strength);
        match c {
            '，' if change => out.push_str(rng.pick(&[",", " ", "、", "，，"])),
            '。' if change => out.push_str(rng.pick(&[".", "！", "。\n", " ", "。。。"])),
            '：' if change => out.push(':'),
            '0'..='9' if strength >= 2 && change => out.extend(char::from_u32(c as u32 - 0x30 + 0xFF10)),
            '“' | '”' if change => out.push('"'),
            _ if strength >= 3 && rng.chance(strength - 2) => out.extend([c, ' ']),
            _ => out.push(c),
        }
    }
    if strength >= 4 { format!("　　{out}\r\n") } else { out }
}

fn traditional_parts(story: &Story, strength: usize, rng: &mut Rng) -> String {
    let from = rng.below(story.sentences.len());
    let share = (story.sentences.len() * strength).div_ceil(5);
    let chosen = |at: usize| (at + story.sentences.len() - from) % story.sentences.len() < share;
    let parts = story.sentences.iter().enumerate();
    parts.map(|(at, text)| if chosen(at) { traditional(text) } else { text.clone() }).collect()
}

fn words_changed(story: &Story, strength: usize, rng: &mut Rng) -> String {
    let mut out = String::new();
    for sentence in &story.sentences {
        if rng.chance(18 * strength) { change_words(sentence, rng, &mut out) } else { out.push_str(sentence) }
    }
    out
}

fn change_words(sentence: &str, rng: &mut Rng, out: &mut String) {
    let chars: Vec<char> = sentence.chars().collect();
    let at = rng.below(chars.len());
    match rng.below(4) {
        0 => out.extend(chars.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, c)| c)),
        1 => out.extend(chars.iter().map(|c| match c.to_digit(10) {
            Some(digit) => char::from_digit((digit + 1) % 10, 10).unwrap_or(*c),
            None => *c,
        })),
        2 => {
            out.extend(&chars[..at]);
            out.push_str(rng.pick(&["真的", "其实", "现在", "就是", "也", "又", "这个", "竟然", "确实"]));
            out.extend(&chars[at..]);
        }
        _ => out.push_str(&synonyms(sentence, 60, rng)),
    }
}

fn sentences_moved(story: &Story, strength: usize, rng: &mut Rng) -> String {
    let mut sentences = story.sentences.clone();
    for _ in 0..(sentences.len() * strength * 8 / 100).max(1) {
        if sentences.len() > 2 {
            sentences.remove(rng.below(sentences.len()));
        }
    }
    for _ in 0..strength {
        let a = rng.below(sentences.len());
        let b = rng.below(sentences.len());
        sentences.swap(a, b);
    }
    sentences.concat()
}

fn affixed(story: &Story, strength: usize, rng: &mut Rng) -> String {
    let scene = story.another_scene(rng);
    let mut out = String::new();
    let add = |pool: &[&'static str], rng: &mut Rng, out: &mut String| {
        expand(rng.pick(pool), &scene, &mut Voice::of(rng.next(), rng.next()), out);
        out.push('。');
    };
    if strength >= 2 {
        add(PREFIXES, rng, &mut out);
    }
    out.push_str(&story.text());
    for _ in 0..strength {
        add(SUFFIXES, rng, &mut out);
    }
    for _ in 3..strength.max(3) {
        add(CHRONICLE, rng, &mut out);
    }
    out
}

fn quoted(story: &Story, strength: usize, rng: &mut Rng) -> String {
    let scene = story.another_scene(rng);
    let text = story.text();
    let around = text.chars().count() * strength;
    let mut sentences = Vec::new();
    let mut length = 0;
    while length < around {
        for sentence in Story::new(rng.next(), Length::Substantial).sentences {
            length += sentence.chars().count();
            sentences.push(sentence);
            if length >= around {
                break;
            }
        }
    }
    let at = rng.below(sentences.len() + 1);
    let mut quote = String::new();
    expand(rng.pick(QUOTES), &scene, &mut Voice::of(rng.next(), rng.next()), &mut quote);
    format!("{}{quote}{text}{}", sentences[..at].concat(), sentences[at..].concat())
}

/// Replaces `percent` per cent of the words that have variants by another word of their group.
fn synonyms(text: &str, percent: usize, rng: &mut Rng) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let found = variant_at(rest).filter(|_| rng.chance(percent));
        if let Some((word, group)) = found {
            let others: Vec<&str> = group.iter().copied().filter(|other| *other != word).collect();
            out.push_str(rng.pick(&others));
            rest = &rest[word.len()..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the longest word with variants at the beginning of `text`.
fn variant_at(text: &str) -> Option<(&'static str, &'static [&'static str])> {
    let words = VARIANTS.iter().flat_map(|(_, group)| group.iter().map(move |word| (*word, *group)));
    words.filter(|(word, _)| text.starts_with(word)).max_by_key(|(word, _)| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story() -> Story {
        Story::new(99, Length::Substantial)
    }

    #[test]
    fn every_kind_but_exact_changes_the_text_at_full_strength() {
        for kind in Kind::ALL {
            let (_, content) = copy(&story(), kind, 5, 1);
            assert_eq!(content == story().text(), kind == Kind::Exact, "{}", kind.name());
        }
    }

    #[test]
    fn an_affix_and_a_quotation_keep_the_whole_text() {
        for (kind, strength) in [(Kind::Affix, 1), (Kind::Affix, 5), (Kind::Quoted, 1), (Kind::Quoted, 5)] {
            let (_, content) = copy(&story(), kind, strength, 2);
            assert!(content.contains(&story().text()) && content.len() > story().text().len());
        }
    }

    #[test]
    fn format_changes_keep_the_letters() {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).collect::<String>();
        let (_, content) = copy(&story(), Kind::Format, 5, 3);
        assert_eq!(letters(&content), letters(&story().text()));
    }

    #[test]
    fn a_synonym_is_another_word_of_its_group() {
        let mut rng = Rng::of(&[4]);
        let text = synonyms("我们多次投诉", 100, &mut rng);
        assert!(!text.contains("多次") && !text.contains("投诉") && text.starts_with("我们"));
    }
}
