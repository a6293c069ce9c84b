//! One matter as one person tells it: a title and sentences. It is a pure function of its seeds.

use std::sync::LazyLock;

use super::generic::{CLOSINGS, OPENINGS};
use super::grammar::{Scene, Voice, expand};
use super::phrases::{CHRONICLE, DEMANDS, FACTS, REMARKS, TITLES};
use super::rng::Rng;
use super::{topics_life, topics_town};

/// A topic of petitions, with its phrases.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) label: &'static str,
    /// Alternatives, separated by `|`, as in the next four fields: see [`Vocabulary`].
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

/// Returns the topic at `index`, which must be below [`topic_count`].
pub(super) fn topic(index: usize) -> &'static Topic {
    let [town, life] = TOPICS;
    town.get(index).unwrap_or_else(|| &life[index - town.len()])
}

/// Returns the number of topics.
pub(super) fn topic_count() -> usize {
    TOPICS.iter().map(|topics| topics.len()).sum()
}

/// The lists of a [`Topic`], cut into alternatives.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The places of the events.
    pub(super) places: Vec<&'static str>,
    /// The things that the matter concerns.
    pub(super) things: Vec<&'static str>,
    /// The faults of the things.
    pub(super) faults: Vec<&'static str>,
    /// The people or organisations that are responsible for the fault.
    pub(super) actors: Vec<&'static str>,
    /// Their actions.
    pub(super) acts: Vec<&'static str>,
}

/// Returns the lists of the topic at `index`.
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

/// A planned sentence: its template and the seed of its wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    template: &'static str,
    words: u64,
}

/// One matter that is told once.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) label: &'static str,
    pub(super) title: String,
    /// Sentences with their punctuation, in order; at least one.
    pub(super) sentences: Vec<String>,
    /// The plans of the sentences. A similar story about another matter shares some of them.
    lines: Vec<Line>,
    topic: usize,
    focus: u64,
}

/// The length of a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Any length from one sentence to thousands of characters.
    Any,
    /// A length at which a part of the story still shows its subject.
    Substantial,
}

impl Story {
    /// Creates the story for `seed`.
    pub(super) fn new(seed: u64, length: Length) -> Self {
        let mut rng = Rng::of(&[seed, 1]);
        let topic = rng.below(topic_count());
        let chars = target_chars(&mut rng, length);
        let focus = rng.next();
        let outline = outline(self::topic(topic), chars, &mut rng);
        Self::tell(topic, focus, outline, chars, &mut rng)
    }

    /// Returns another matter whose first `shared` sentences have the same words as in `like`, except for names and numbers.
    pub(super) fn look_alike(like: &Self, shared: usize, seed: u64) -> Self {
        let mut rng = Rng::of(&[seed, 2]);
        let chars = like.sentences.iter().map(|sentence| sentence.chars().count()).sum();
        let mut outline = like.lines[..shared].to_vec();
        outline.extend(lines(body(topic(like.topic), chars, &mut rng), &mut rng));
        Self::tell(like.topic, like.focus, outline, chars, &mut rng)
    }

    /// Returns the maximum number of sentences that a similar story may share.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the names and places of another matter of the same topic.
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

    /// Returns the joined sentences.
    pub(super) fn text(&self) -> String {
        self.sentences.concat()
    }
}

/// Returns a length, distributed as in a mailbox: half are below about 270 characters, one in twelve has one or two lines, and there is a
/// long tail.
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

/// Returns the plan of a text of about `chars` characters, in order.
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

/// Returns sentences that are joined from small parts. Some of them are phrases of the topic, each at most once.
fn body(topic: &'static Topic, chars: usize, rng: &mut Rng) -> Vec<&'static str> {
    let mut facts = shuffled(topic.facts, rng);
    let mut effects = shuffled(topic.effects, rng);
    // A sentence has about 27 characters; opening, demand and closing together have about 54.
    let wanted = (chars.saturating_sub(54) / 27).max(1);
    let mut body = Vec::with_capacity(wanted);
    while body.len() < wanted {
        // The first sentence is a fact, because it names the matter.
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
