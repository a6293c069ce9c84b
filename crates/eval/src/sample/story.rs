//! The story of one person about one matter: a title and sentences. It is a pure function of its seeds and of the day of the letter.

use jiff::civil::Date;

use super::grammar::{NamedBefore, StoryNames, TextChoices, alternatives, expand};
use super::phrases::{
    ATTEMPTS, CLOSINGS, DETAILS, EXCUSES, GREETINGS, LINKS, PURPOSES, REQUESTS, RESULTS, SINCE, introductions,
};
use super::rng::RandomStream;
use super::topics::{self, TopicMatter, WriterRelation};

/// The part of a letter to which a sentence belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterPart {
    /// The greeting and the introduction.
    Opening,
    /// The first sentence about a matter. It names the place.
    Heading,
    /// A sentence about the matter. The order of such sentences does not matter.
    Body,
    /// An earlier attempt. Attempts are in the order of their dates.
    Attempt,
    /// The request and the end.
    Closing,
}

/// A planned sentence: its template and the seed of its wording.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PlannedSentence {
    template: String,
    words: u64,
    part: LetterPart,
    /// Number of days between the date in the sentence and the letter.
    days_ago: Option<u64>,
    /// Index of the matter of the sentence among the matters of the letter.
    section: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LetterSentence {
    pub(super) text: String,
    pub(super) part: LetterPart,
}

/// One matter that is told once.
#[derive(Clone, Debug)]
pub(super) struct MatterStory {
    pub(super) label: &'static str,
    pub(super) title: String,
    /// Sentences with their punctuation, in order; at least one.
    pub(super) sentences: Vec<LetterSentence>,
    pub(super) scene: StoryNames,
    /// The plans of the sentences. A similar story about another matter shares some of them.
    lines: Vec<PlannedSentence>,
    topic: usize,
    /// The matters of the letter; a long letter has several.
    matters: Vec<&'static TopicMatter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoryLength {
    /// Any length from one sentence to thousands of characters.
    Any,
    /// A length at which a part of the story still shows its subject.
    Substantial,
}

/// Number of characters from which a letter has several matters, and the approximate length of the part about one matter.
const SEVERAL: usize = 750;
const SECTION: usize = 420;
/// Maximum number of matters in a letter.
const MOST_MATTERS: usize = 4;
/// Maximum number of earlier attempts in a section.
const MOST_ATTEMPTS: usize = 7;

impl MatterStory {
    /// Creates the story for `seed`, written on the day `today`.
    pub(super) fn new(seed: u64, length: StoryLength, today: Date) -> Self {
        let mut rng = RandomStream::of(&[seed, 1]);
        let topic = rng.below(topics::count());
        let chars = target_chars(&mut rng, length);
        let first = pick_matter(topic, &mut rng);
        let matters = matters_of_letter(first, chars, &mut rng);
        let lines = outline(&matters, chars, &mut rng);
        Self::tell(topic, matters, lines, today, &mut rng)
    }

    /// Returns a story about another matter whose first `shared` sentences have the same words as in `like`, except for names and numbers.
    pub(super) fn look_alike(like: &Self, shared: usize, seed: u64, today: Date) -> Self {
        let mut rng = RandomStream::of(&[seed, 2]);
        let chars: usize = like.sentences.iter().map(|sentence| sentence.text.chars().count()).sum();
        let mut lines = like.lines[..shared].to_vec();
        let mut parts = MatterParts::new(like.matters[0], &mut rng);
        if shared < like.lines.len() {
            parts.leave_out(&lines);
            let mut rest = Vec::new();
            section_lines(
                &mut parts,
                0,
                chars.min(SECTION) * (like.lines.len() - shared) / like.lines.len(),
                &mut rest,
                &mut rng,
            );
            lines.extend(rest);
            closing_lines(&mut parts, true, &mut lines, &mut rng);
        }
        Self::tell(like.topic, like.matters.clone(), lines, today, &mut rng)
    }

    /// Returns the maximum number of sentences that a similar story may share.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns paragraphs about other matters of the same writer, together about `chars` characters, or fewer if the writer has no more
    /// matters.
    pub(super) fn other_paragraphs(&self, chars: usize, rng: &mut RandomStream) -> Vec<String> {
        let mut paragraphs = Vec::new();
        let mut length = 0;
        for matter in others(&self.matters, rng) {
            let mut lines = Vec::new();
            let mut parts = MatterParts::new(matter, rng);
            section_lines(&mut parts, 0, SECTION.min(chars), &mut lines, rng);
            let scene = self.scene.about(matter, rng);
            let text: String = speak(&lines, &[scene], rng).into_iter().map(|sentence| sentence.text).collect();
            length += text.chars().count();
            paragraphs.push(text);
            if length >= chars {
                break;
            }
        }
        paragraphs
    }

    fn tell(
        topic: usize,
        matters: Vec<&'static TopicMatter>,
        lines: Vec<PlannedSentence>,
        today: Date,
        rng: &mut RandomStream,
    ) -> Self {
        let scene = StoryNames::new(matters[0], today, rng);
        let mut scenes = vec![scene.clone()];
        scenes.extend(matters[1..].iter().map(|matter| scene.about(matter, rng)));
        let mut title = String::new();
        let titles = alternatives(matters[0].titles).0;
        let mut voice = TextChoices::of(rng.next(), rng.next());
        voice.formal = true;
        expand(voice.pick(&titles), &scene, &mut voice, &mut title);
        let sentences = speak(&lines, &scenes, rng);
        Self { label: topics::topic(topic).label, title, sentences, scene, lines, topic, matters }
    }

    /// Returns the joined sentences.
    pub(super) fn text(&self) -> String {
        self.sentences.iter().map(|sentence| sentence.text.as_str()).collect()
    }
}

/// Writes the sentences of a plan. `scenes` are the scenes of the sections.
fn speak(lines: &[PlannedSentence], scenes: &[StoryNames], rng: &mut RandomStream) -> Vec<LetterSentence> {
    let mut sentences: Vec<LetterSentence> = Vec::with_capacity(lines.len());
    let mut named = vec![NamedBefore::default(); scenes.len()];
    for (at, line) in lines.iter().enumerate() {
        let scene = &scenes[line.section];
        let mut voice = TextChoices::of(line.words, rng.next());
        voice.days_ago = line.days_ago;
        voice.named = named[line.section];
        voice.formal = line.part == LetterPart::Opening;
        let mut text = String::new();
        expand(&line.template, scene, &mut voice, &mut text);
        scene.note_names(&text, &mut named[line.section]);
        let next = lines.get(at + 1).map(|next| next.part);
        if !text.ends_with(['！', '？', '：', '，', '。']) {
            let inner = next == Some(line.part) && matches!(line.part, LetterPart::Body | LetterPart::Attempt);
            text.push_str(voice.pick(match next {
                None => &["。", "。", "！", ""],
                Some(_) if inner => &["。", "。", "。", "。", "。", "；", "！"],
                Some(_) => &["。"],
            }));
        }
        sentences.push(LetterSentence { text, part: line.part });
    }
    sentences
}

fn pick_matter(topic: usize, rng: &mut RandomStream) -> &'static TopicMatter {
    let matters = topics::topic(topic).matters;
    &matters[rng.below(matters.len())]
}

/// Returns the matters of a letter of about `chars` characters. Only residents and villagers write about several matters.
fn matters_of_letter(first: &'static TopicMatter, chars: usize, rng: &mut RandomStream) -> Vec<&'static TopicMatter> {
    let mut matters = vec![first];
    if chars >= SEVERAL && matches!(first.who, WriterRelation::Resident | WriterRelation::Villager) {
        let more = others(&matters, rng);
        matters.extend(more.into_iter().take((chars / SECTION).clamp(1, MOST_MATTERS) - 1));
    }
    matters
}

/// Returns the other matters about which the writer of these matters may write, in a random order.
fn others(matters: &[&'static TopicMatter], rng: &mut RandomStream) -> Vec<&'static TopicMatter> {
    let who = matters[0].who;
    let mut others: Vec<&'static TopicMatter> = topics::all()
        .flat_map(|topic| topic.matters)
        .filter(|matter: &&TopicMatter| matter.who == who && !matters.iter().any(|own| std::ptr::eq(*own, *matter)))
        .collect();
    rng.shuffle(&mut others);
    others
}

/// Returns a length, distributed as in a mailbox: half are below about 270 characters, one in twelve has one or two lines, and there is a
/// long tail.
fn target_chars(rng: &mut RandomStream, length: StoryLength) -> usize {
    let class = if length == StoryLength::Substantial { rng.between(30, 99) } else { rng.below(100) };
    match class {
        0..8 => rng.between(12, 60),
        8..38 => rng.between(60, 190),
        38..68 => rng.between(190, 380),
        68..88 => rng.between(380, 800),
        88..97 => rng.between(800, 1700),
        _ => rng.between(1700, 3000),
    }
}

/// Returns the plan of a letter of about `chars` characters, in order.
fn outline(matters: &[&'static TopicMatter], chars: usize, rng: &mut RandomStream) -> Vec<PlannedSentence> {
    let mut lines = Vec::new();
    if chars > 90 {
        let greeting = rng.pick(&alternatives(GREETINGS).0);
        let introduction = rng.pick(&alternatives(introductions(matters[0].who)).0);
        let purpose = rng.pick(&alternatives(PURPOSES).0);
        lines.push(line(format!("{greeting}{introduction}{purpose}"), LetterPart::Opening, 0, rng));
    }
    let several = matters.len() > 1;
    let mut parts: Vec<MatterParts> = matters.iter().map(|matter| MatterParts::new(matter, rng)).collect();
    let mut details = shuffled(DETAILS, rng);
    for (section, parts) in parts.iter_mut().enumerate() {
        let own = if several { chars / matters.len() } else { chars.saturating_sub(54) };
        let begin = lines.len();
        // A letter tells each detail once.
        std::mem::swap(&mut parts.details, &mut details);
        section_lines(parts, section, own, &mut lines, rng);
        std::mem::swap(&mut parts.details, &mut details);
        if several {
            let number = ["一", "二", "三", "四", "五", "六", "七", "八"][section.min(7)];
            lines[begin].template.insert_str(0, &format!("\n{number}、"));
        }
    }
    closing_lines(&mut parts[0], chars > 60, &mut lines, rng);
    lines
}

fn line(template: String, part: LetterPart, section: usize, rng: &mut RandomStream) -> PlannedSentence {
    PlannedSentence { template, words: rng.next(), part, days_ago: None, section }
}

/// The lists of a matter in a random order. Each item is used at most once in a letter.
struct MatterParts {
    /// True if the signs are states that last, not events.
    lasting: bool,
    places: Vec<&'static str>,
    signs: Vec<&'static str>,
    causes: Vec<&'static str>,
    effects: Vec<&'static str>,
    asks: Vec<&'static str>,
    details: Vec<&'static str>,
    /// Number of sentences that still may tell clauses of the matter.
    clauses: usize,
}

/// Maximum number of sentences in a section that tell clauses of the matter: long letters tell more details and attempts.
const MOST_CLAUSES: usize = 4;

/// Percentage of the sentences about a matter that tell a detail which could belong to any matter.
const DETAILED: usize = 30;
/// Percentage of the clauses of two parts of which only the first part is told.
const SHORTENED: usize = 65;

fn shuffled(items: &'static str, rng: &mut RandomStream) -> Vec<&'static str> {
    let mut items = alternatives(items).0;
    rng.shuffle(&mut items);
    items
}

impl MatterParts {
    fn new(matter: &'static TopicMatter, rng: &mut RandomStream) -> Self {
        Self {
            lasting: matches!(matter.who, WriterRelation::Resident | WriterRelation::Villager),
            places: shuffled(matter.places, rng),
            signs: shuffled(matter.signs, rng),
            causes: shuffled(matter.causes, rng),
            effects: shuffled(matter.effects, rng),
            asks: shuffled(matter.asks, rng),
            details: shuffled(DETAILS, rng),
            clauses: MOST_CLAUSES,
        }
    }

    /// Removes the items that occur in these lines. The remaining items continue a letter, so that its first sentence does not repeat the
    /// time since which the matter exists.
    fn leave_out(&mut self, lines: &[PlannedSentence]) {
        self.lasting = false;
        for list in
            [&mut self.places, &mut self.signs, &mut self.causes, &mut self.effects, &mut self.asks, &mut self.details]
        {
            list.retain(|item| !lines.iter().any(|line| line.template.contains(first_part(item))));
        }
    }

    /// Returns a sign, sometimes with a place.
    fn located_sign(&mut self, rng: &mut RandomStream) -> Option<String> {
        let sign = shortened(self.signs.pop()?, rng);
        let place = if rng.chance(50) { self.places.pop().unwrap_or_default() } else { "" };
        Some(format!("{place}{sign}"))
    }

    fn ask(&mut self) -> &'static str {
        self.asks.pop().unwrap_or("{答复}我们")
    }

    /// Returns a sentence that tells a detail or joins two clauses; `None` if the lists are used up.
    fn sentence(&mut self, rng: &mut RandomStream) -> Option<String> {
        if self.clauses == 0 || (!self.details.is_empty() && rng.chance(DETAILED)) {
            return self.details.pop().map(str::to_owned);
        }
        self.clauses -= 1;
        let first = match rng.below(6) {
            0 | 1 => self.causes.pop().map(|cause| shortened(cause, rng).to_owned()),
            2 | 3 => self.effects.pop().map(|effect| shortened(effect, rng).to_owned()),
            _ => None,
        };
        let first = first.or_else(|| self.located_sign(rng)).or_else(|| self.causes.pop().map(str::to_owned));
        let Some(first) = first else {
            return self.effects.pop().map(str::to_owned);
        };
        let second = if rng.chance(50) { self.effects.pop() } else { None };
        let joint = if first.contains('，') { "；" } else { "，" };
        Some(second.map_or_else(|| first.clone(), |second| format!("{first}{joint}{second}")))
    }
}

/// Returns the clause, or only its first part.
fn shortened(clause: &'static str, rng: &mut RandomStream) -> &'static str {
    if rng.chance(SHORTENED) { first_part(clause) } else { clause }
}

/// Returns the part of a clause before its first comma outside of brackets.
fn first_part(clause: &'static str) -> &'static str {
    let mut depth = 0;
    for (at, c) in clause.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            '，' if depth == 0 => return &clause[..at],
            _ => {}
        }
    }
    clause
}

/// Adds sentences about a matter: about `chars` characters.
fn section_lines(
    parts: &mut MatterParts,
    section: usize,
    chars: usize,
    lines: &mut Vec<PlannedSentence>,
    rng: &mut RandomStream,
) {
    // A sentence has about 24 characters, an attempt 45.
    let attempts = if chars < 120 { 0 } else { rng.between(0, 1) + chars / 400 };
    let mut wanted = (chars.saturating_sub(attempts * 45) / 24).max(1);
    lines.push(line(heading(parts, rng), LetterPart::Heading, section, rng));
    wanted -= 1;
    let mut links = shuffled(LINKS, rng);
    while wanted > 0 {
        let Some(sentence) = parts.sentence(rng) else { break };
        let link = if lines.len() > 2 && rng.chance(25) { links.pop().unwrap_or_default() } else { "" };
        lines.push(line(format!("{link}{sentence}"), LetterPart::Body, section, rng));
        wanted -= 1;
    }
    // When the lists of a matter are used up, more attempts follow.
    attempt_lines((attempts + wanted / 2).min(MOST_ATTEMPTS), section, lines, rng);
}

/// Returns the first sentence about a matter: the time since which it exists, the place, and the fault.
fn heading(parts: &mut MatterParts, rng: &mut RandomStream) -> String {
    let place = parts.places.pop().unwrap_or_default();
    let sign = parts.signs.pop().unwrap_or_default();
    let timeless = !["月", "{日}", "{月", "年", "天", "星期"].iter().any(|time| sign.contains(time));
    let since = if timeless && parts.lasting { rng.pick(&alternatives(SINCE).0) } else { "" };
    let second = match rng.below(3) {
        0 => parts.effects.pop(),
        1 => parts.causes.pop(),
        _ => None,
    };
    let second = second.map(|clause| format!("，{clause}")).unwrap_or_default();
    format!("{since}{place}{sign}{second}")
}

/// Adds earlier attempts with ascending dates.
fn attempt_lines(count: usize, section: usize, lines: &mut Vec<PlannedSentence>, rng: &mut RandomStream) {
    let attempts = alternatives(ATTEMPTS).0;
    let mut excuses = shuffled(EXCUSES, rng);
    let mut results = shuffled(RESULTS, rng);
    let count = count.min(excuses.len()).min(results.len());
    let mut days: Vec<u64> = (0..count).map(|_| rng.between(2, 12 + count * 6) as u64).collect();
    days.sort_unstable();
    days.dedup();
    for days_ago in days.into_iter().rev() {
        let mut text = rng.pick(&attempts).to_owned();
        if text.contains("{乙}") {
            text = text.replace("{乙}", results.pop().unwrap_or_default());
        }
        text = text.replace("{甲}", excuses.pop().unwrap_or_default());
        lines.push(PlannedSentence { days_ago: Some(days_ago), ..line(text, LetterPart::Attempt, section, rng) });
    }
}

/// Adds the request and the end of a letter.
fn closing_lines(parts: &mut MatterParts, ended: bool, lines: &mut Vec<PlannedSentence>, rng: &mut RandomStream) {
    let request = rng.pick(&alternatives(REQUESTS).0).replace("{丙}", parts.ask()).replace("{丁}", parts.ask());
    lines.push(line(request, LetterPart::Closing, 0, rng));
    let closing = if ended { rng.pick(&alternatives(CLOSINGS).0) } else { "" };
    if !closing.is_empty() {
        lines.push(line(closing.to_owned(), LetterPart::Closing, 0, rng));
    }
}

#[cfg(test)]
mod tests {
    use super::super::calendar::UNTIL;
    use super::*;

    #[test]
    fn a_short_letter_names_its_place_and_makes_a_request() {
        for seed in 0..200 {
            let story = MatterStory::new(seed, StoryLength::Any, UNTIL);
            let parts: Vec<LetterPart> = story.sentences.iter().map(|sentence| sentence.part).collect();
            assert!(parts.contains(&LetterPart::Heading) && parts.contains(&LetterPart::Closing), "{}", story.text());
        }
    }

    #[test]
    fn no_clause_of_a_matter_is_used_twice_in_one_section() {
        for seed in 0..200 {
            let story = MatterStory::new(seed, StoryLength::Any, UNTIL);
            let body = story.lines.iter().filter(|line| line.part == LetterPart::Body);
            let templates: Vec<_> = body.map(|line| (line.section, &line.template)).collect();
            let distinct: std::collections::BTreeSet<_> = templates.iter().collect();
            assert_eq!(distinct.len(), templates.len(), "{}", story.text());
        }
    }
}
