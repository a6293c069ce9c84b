//! One matter as one person tells it: a title and sentences, a pure function of its seeds.

use std::sync::LazyLock;

use super::generic::{CLOSINGS, OPENINGS};
use super::grammar::{Scene, Voice, expand};
use super::phrases::{CHRONICLE, DEMANDS, FACTS, REMARKS, TITLES};
use super::rng::Rng;
use super::{topics_life, topics_town};

/// What people write about, with the phrases for it.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) label: &'static str,
    /// Alternatives parted by `|`, as are those of the next four: see [`Vocabulary`].
    pub(super) places: &'static str,
    pub(super) things: &'static str,
    pub(super) faults: &'static str,
    pub(super) actors: &'static str,
    pub(super) acts: &'static str,
    pub(super) titles: &'static [&'static str],
    pub(super) facts: &'static [&'static str],
    pub(super) effects: &'static [&'static str],
    pub(super) demands: &'static [&'static str],
}

const TOPICS: [&[Topic]; 2] = [topics_town::TOPICS, topics_life::TOPICS];

/// The topic at `index`, below [`topic_count`].
pub(super) fn topic(index: usize) -> &'static Topic {
    let [town, life] = TOPICS;
    town.get(index).unwrap_or_else(|| &life[index - town.len()])
}

/// How many topics there are.
pub(super) fn topic_count() -> usize {
    TOPICS.iter().map(|topics| topics.len()).sum()
}

/// The lists of a [`Topic`], taken apart.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// Where it happens.
    pub(super) places: Vec<&'static str>,
    /// What it is about.
    pub(super) things: Vec<&'static str>,
    /// What is wrong with the things.
    pub(super) faults: Vec<&'static str>,
    /// Who is to blame.
    pub(super) actors: Vec<&'static str>,
    /// What they did.
    pub(super) acts: Vec<&'static str>,
}

/// The lists of the topic at `index`.
pub(super) fn vocabulary(index: usize) -> &'static Vocabulary {
    static ALL: LazyLock<Vec<Vocabulary>> = LazyLock::new(|| {
        let split = |list: &'static str| list.split('|').collect();
        let of = |topic: &'static Topic| Vocabulary {
            places: split(topic.places),
            things: split(topic.things),
            faults: split(topic.faults),
            actors: split(topic.actors),
            acts: split(topic.acts),
        };
        (0..topic_count()).map(topic).map(of).collect()
    });
    &ALL[index]
}

/// A sentence to be told: its template and the seed of its wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    template: &'static str,
    words: u64,
}

/// One matter told once.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) label: &'static str,
    pub(super) title: String,
    /// Sentences with their closing punctuation, in order. Never empty.
    pub(super) sentences: Vec<String>,
    /// What the sentences come from: what a look-alike shares with it.
    lines: Vec<Line>,
    topic: usize,
    focus: u64,
}

/// How long a story is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Anything from one sentence to thousands of characters.
    Any,
    /// Long enough that a part of it still says what it is about.
    Substantial,
}

impl Story {
    /// The story that belongs to `seed`.
    pub(super) fn new(seed: u64, length: Length) -> Self {
        let mut rng = Rng::of(&[seed, 1]);
        let topic = rng.below(topic_count());
        let chars = target_chars(&mut rng, length);
        let focus = rng.next();
        let outline = outline(self::topic(topic), chars, &mut rng);
        Self::tell(topic, focus, outline, chars, &mut rng)
    }

    /// Another matter that begins in the same words as `like`, but for names and numbers: the first `shared` sentences.
    pub(super) fn look_alike(like: &Self, shared: usize, seed: u64) -> Self {
        let mut rng = Rng::of(&[seed, 2]);
        let chars = like.sentences.iter().map(|sentence| sentence.chars().count()).sum();
        let mut outline = like.lines[..shared].to_vec();
        outline.extend(lines(body(topic(like.topic), chars, &mut rng), &mut rng));
        Self::tell(like.topic, like.focus, outline, chars, &mut rng)
    }

    /// How many sentences a look-alike may share.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Names and places of another matter of the same topic.
    pub(super) fn another_scene(&self, rng: &mut Rng) -> Scene {
        Scene::new(vocabulary(self.topic), rng.next(), rng)
    }

    fn tell(index: usize, focus: u64, outline: Vec<Line>, chars: usize, rng: &mut Rng) -> Self {
        let topic = topic(index);
        let scene = Scene::new(vocabulary(index), focus, rng);
        let mut title = String::new();
        let titles = if rng.chance(20) { topic.titles } else { TITLES };
        expand(rng.pick(titles), &scene, &mut Voice::of(rng.next(), rng.next()), &mut title);
        let mut story =
            Self { label: topic.label, title, sentences: Vec::new(), lines: Vec::new(), topic: index, focus };
        let mut length = 0;
        for line in outline {
            let mut voice = Voice::of(line.words, rng.next());
            let mut sentence = String::new();
            expand(line.template, &scene, &mut voice, &mut sentence);
            if sentence.is_empty() {
                continue;
            }
            sentence.push_str(voice.pick(&["。", "。", "。", "，", "；", "！"]));
            length += sentence.chars().count();
            story.sentences.push(sentence);
            story.lines.push(line);
            if length >= chars.max(chars.saturating_sub(90) * 2) {
                break;
            }
        }
        story
    }

    /// The sentences joined.
    pub(super) fn text(&self) -> String {
        self.sentences.concat()
    }
}

/// Lengths as they come in a mailbox: half under 270 characters or so, one in twelve a line or two, a long tail.
fn target_chars(rng: &mut Rng, length: Length) -> usize {
    let class = if length == Length::Substantial { rng.between(30, 99) } else { rng.below(100) };
    match class {
        0..8 => rng.between(12, 60),
        8..38 => rng.between(60, 190),
        38..68 => rng.between(190, 380),
        68..88 => rng.between(380, 800),
        88..97 => rng.between(800, 1700),
        _ => rng.between(1700, 3000),
    }
}

/// What a text of about `chars` characters tells, in order.
fn outline(topic: &'static Topic, chars: usize, rng: &mut Rng) -> Vec<Line> {
    let mut outline = Vec::new();
    if chars > 90 {
        outline.push(rng.pick(OPENINGS));
    }
    outline.extend(body(topic, chars, rng));
    let demands = if rng.chance(30) { topic.demands } else { DEMANDS };
    outline.push(rng.pick(demands));
    if chars > 60 {
        outline.push(rng.pick(CLOSINGS));
    }
    lines(outline, rng)
}

fn lines(templates: Vec<&'static str>, rng: &mut Rng) -> Vec<Line> {
    templates.into_iter().map(|template| Line { template, words: rng.next() }).collect()
}

/// Sentences strung together from small parts, with now and then a phrase of the topic's own, each of those once.
fn body(topic: &'static Topic, chars: usize, rng: &mut Rng) -> Vec<&'static str> {
    let mut facts = shuffled(topic.facts, rng);
    let mut effects = shuffled(topic.effects, rng);
    // A sentence has 27 characters or so; opening, demand and closing together twice as many.
    let wanted = (chars.saturating_sub(54) / 27).max(1);
    let mut body = Vec::with_capacity(wanted);
    while body.len() < wanted {
        // The first sentence is a fact: it says what the matter is.
        let draw = if body.is_empty() { rng.below(14) } else { rng.below(40) };
        let own = match draw {
            0 => facts.pop(),
            39 => effects.pop(),
            _ => None,
        };
        body.push(own.unwrap_or_else(|| match draw {
            0..17 => rng.pick(FACTS),
            17..29 => rng.pick(CHRONICLE),
            _ => rng.pick(REMARKS),
        }));
    }
    body
}

fn shuffled(pool: &[&'static str], rng: &mut Rng) -> Vec<&'static str> {
    let mut pool = pool.to_vec();
    rng.shuffle(&mut pool);
    pool
}
