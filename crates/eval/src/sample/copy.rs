//! The ways in which people submit the same matter again: eight kinds of copies, each in five strengths.
//!
//! Strength 1 hardly changes the text. A person recognises a copy of strength 5 without doubt, but a naive comparison does not.

use jiff::civil::Date;

use super::grammar::{StoryNames, TextChoices, expand};
use super::phrases::{FILLERS, PREFIXES, QUOTES, SLIPS, SUFFIXES};
use super::rng::RandomStream;
use super::story::{LetterPart, MatterStory};
use super::traditional::traditional;
use super::words::{KEPT, VARIANTS};

/// The kind of the changes in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// The same title and content.
    Exact,
    /// Punctuation, white space, line breaks, full-width digits and letters.
    Format,
    /// Traditional characters.
    Traditional,
    /// Typing errors, changed numbers, additional small words.
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

impl CopyKind {
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

/// Returns the title and the content of a copy of `story` that is sent on the day `today`.
pub(super) fn copy(story: &MatterStory, kind: CopyKind, strength: usize, today: Date, seed: u64) -> (String, String) {
    let mut rng = RandomStream::of(&[seed, 3]);
    let mut title = story.title.clone();
    let content = match kind {
        CopyKind::Exact => return (title, story.text()),
        CopyKind::Format => return (title, format_changed(&story.text(), strength, &mut rng)),
        CopyKind::Traditional => traditional_parts(story, strength, &mut rng),
        CopyKind::Words => words_changed(story, strength, &mut rng),
        CopyKind::Sentences => sentences_moved(story, strength, &mut rng),
        CopyKind::Affix => affixed(story, strength, today, &mut rng),
        CopyKind::Quoted => quoted(story, strength, today, &mut rng),
        CopyKind::Synonyms => synonyms(&story.text(), strength * 20, &mut rng),
    };
    if rng.chance(30) {
        title.insert_str(0, rng.pick(&["再次反映：", "第二次反映：", "【再次投诉】", "急！"]));
    }
    (title, content)
}

fn format_changed(text: &str, strength: usize, rng: &mut RandomStream) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    // All digits of a number have the same width.
    let mut wide = false;
    let mut in_number = false;
    for c in text.chars() {
        let change = rng.chance(15 * strength);
        if c.is_ascii_digit() && !in_number {
            wide = strength >= 2 && change;
        }
        in_number = c.is_ascii_digit();
        match c {
            '，' if change => out.push_str(rng.pick(&[",", " ", "、", "，，"])),
            '。' if change => out.push_str(rng.pick(&[".", "！", "。\n", " ", "。。。"])),
            '：' if change => out.push(':'),
            '0'..='9' if wide => out.extend(char::from_u32(c as u32 - 0x30 + 0xFF10)),
            '“' | '”' if change => out.push('"'),
            _ if strength >= 3 && rng.chance(strength - 2) => out.extend([c, ' ']),
            _ => out.push(c),
        }
    }
    if strength >= 4 { format!("　　{out}\r\n") } else { out }
}

fn traditional_parts(story: &MatterStory, strength: usize, rng: &mut RandomStream) -> String {
    let from = rng.below(story.sentences.len());
    let share = (story.sentences.len() * strength).div_ceil(5);
    let parts = story.sentences.iter().enumerate().map(|(at, part)| {
        let is_chosen = (at + story.sentences.len() - from) % story.sentences.len() < share;
        if is_chosen { traditional(&part.text) } else { part.text.clone() }
    });
    parts.collect()
}

fn words_changed(story: &MatterStory, strength: usize, rng: &mut RandomStream) -> String {
    let mut out = String::new();
    for (at, sentence) in story.sentences.iter().enumerate() {
        let changed = at == 0 || rng.chance(18 * strength);
        out.push_str(&if changed { change_words(&sentence.text, rng) } else { sentence.text.clone() });
    }
    out
}

/// Changes a sentence in the way of a person who types it again: a typing error, another number, an additional word, or other words.
fn change_words(sentence: &str, rng: &mut RandomStream) -> String {
    match rng.below(4) {
        0 => {
            let possible: Vec<_> = SLIPS.iter().filter(|(right, _)| sentence.contains(right)).collect();
            let Some((right, wrong)) = possible.get(rng.below(possible.len().max(1))) else {
                return sentence.to_owned();
            };
            sentence.replacen(right, wrong, 1)
        }
        1 => counts_changed(sentence),
        2 => sentence.replacen('，', &format!("，{}", rng.pick(FILLERS)), 1),
        _ => synonyms(sentence, 60, rng),
    }
}

/// Measure words. A person may remember the number before such a word differently the second time.
const COUNTED: &str = "个户次趟辆张斤米家";

/// Returns the sentence with each number of counted things greater by one. Dates, times, sums and numbers of orders do not change.
fn counts_changed(sentence: &str) -> String {
    let chars: Vec<char> = sentence.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        let digits: String = chars[at..].iter().take_while(|c| c.is_ascii_digit()).collect();
        let next = chars.get(at + digits.len()).copied().unwrap_or(' ');
        match digits.parse::<u32>() {
            Ok(number) if digits.len() < 4 && COUNTED.contains(next) => out.push_str(&(number + 1).to_string()),
            Ok(_) => out.push_str(&digits),
            Err(_) => out.push(chars[at]),
        }
        at += digits.len().max(1);
    }
    out
}

/// Omits and moves sentences of the body. The opening, the first sentence about each matter and the end stay where they are, and so do
/// earlier attempts, because their dates ascend.
fn sentences_moved(story: &MatterStory, strength: usize, rng: &mut RandomStream) -> String {
    let mut sentences = story.sentences.clone();
    for _ in 0..(sentences.len() * strength * 8 / 100).max(1) {
        let free: Vec<usize> = (0..sentences.len()).filter(|at| may_be_left_out(sentences[*at].part)).collect();
        if sentences.len() > 2 && !free.is_empty() {
            sentences.remove(free[rng.below(free.len())]);
        }
    }
    let body: Vec<usize> = (0..sentences.len()).filter(|at| sentences[*at].part == LetterPart::Body).collect();
    for _ in 0..strength {
        if body.len() > 1 {
            sentences.swap(body[rng.below(body.len())], body[rng.below(body.len())]);
        }
    }
    sentences.into_iter().map(|sentence| sentence.text).collect()
}

fn may_be_left_out(part: LetterPart) -> bool {
    matches!(part, LetterPart::Body | LetterPart::Attempt | LetterPart::Opening)
}

fn affixed(story: &MatterStory, strength: usize, today: Date, rng: &mut RandomStream) -> String {
    let scene = story.scene.on(today);
    let mut out = String::new();
    if strength >= 2 {
        let prefix = rng.pick(PREFIXES);
        add_sentence(prefix, &scene, rng, &mut out);
    }
    out.push_str(&story.text());
    if !out.ends_with(['。', '！', '？']) {
        out.push('。');
    }
    let mut suffixes = SUFFIXES.to_vec();
    rng.shuffle(&mut suffixes);
    suffixes.iter().take(strength).for_each(|suffix| add_sentence(suffix, &scene, rng, &mut out));
    out
}

fn add_sentence(template: &str, scene: &StoryNames, rng: &mut RandomStream, out: &mut String) {
    expand(template, scene, &mut TextChoices::of(rng.next(), rng.next()), out);
    out.push('。');
}

/// Maximum number of characters around a quotation.
const AROUND: usize = 1_800;

fn quoted(story: &MatterStory, strength: usize, today: Date, rng: &mut RandomStream) -> String {
    let text = story.text();
    let mut paragraphs = story.other_paragraphs((text.chars().count() * strength / 2).min(AROUND), rng);
    let mut quote = String::new();
    let scene = story.scene.on(today);
    expand(rng.pick(QUOTES), &scene, &mut TextChoices::of(rng.next(), rng.next()), &mut quote);
    paragraphs.insert(rng.below(paragraphs.len() + 1), format!("{quote}{text}"));
    let numbers = ["第一件事，", "第二件事，", "第三件事，", "第四件事，", "第五件事，", "第六件事，"];
    let intro = rng.pick(&["反映几件事。", "几件事一起说。", "有几件事。"]);
    let numbered = paragraphs.iter().enumerate().map(|(at, text)| match numbers.get(at) {
        Some(number) => format!("{number}{text}"),
        None => format!("还有，{text}"),
    });
    format!("{intro}\n{}", numbered.collect::<Vec<_>>().join("\n"))
}

/// Replaces `percent` per cent of the words that have variants by another word of their group.
fn synonyms(text: &str, percent: usize, rng: &mut RandomStream) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(kept) = KEPT.iter().find(|word| rest.starts_with(*word)) {
            out.push_str(kept);
            rest = &rest[kept.len()..];
            continue;
        }
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
    use super::super::calendar::UNTIL;
    use super::super::story::StoryLength;
    use super::*;

    fn story() -> MatterStory {
        MatterStory::new(99, StoryLength::Substantial, UNTIL)
    }

    #[test]
    fn every_kind_but_exact_changes_the_text_at_full_strength() {
        for kind in CopyKind::ALL {
            let (_, content) = copy(&story(), kind, 5, UNTIL, 1);
            assert_eq!(content == story().text(), kind == CopyKind::Exact, "{}", kind.name());
        }
    }

    #[test]
    fn an_affix_and_a_quotation_keep_the_whole_text() {
        for (kind, strength) in
            [(CopyKind::Affix, 1), (CopyKind::Affix, 5), (CopyKind::Quoted, 1), (CopyKind::Quoted, 5)]
        {
            let (_, content) = copy(&story(), kind, strength, UNTIL, 2);
            assert!(content.contains(&story().text()) && content.len() > story().text().len());
        }
    }

    fn letters(text: &str) -> String {
        text.chars().filter(|c| c.is_alphabetic()).collect()
    }

    #[test]
    fn format_changes_keep_the_letters() {
        let (_, content) = copy(&story(), CopyKind::Format, 5, UNTIL, 3);
        assert_eq!(letters(&content), letters(&story().text()));
    }

    #[test]
    fn a_synonym_is_another_word_of_its_group() {
        let mut rng = RandomStream::of(&[4]);
        let text = synonyms("我们多次反映", 100, &mut rng);
        assert!(!text.contains("多次") && text.starts_with("我们") && text.ends_with("反映"));
    }
}
