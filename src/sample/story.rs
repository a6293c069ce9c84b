//! One matter as one person tells it: a title and sentences, a pure function of its seeds.

use super::generic::{CHRONICLE, CLOSINGS, OPENINGS, REMARKS};
use super::grammar::{Scene, expand};
use super::rng::Rng;
use super::{topics_life, topics_town};

/// What people write about, with the phrases for it.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) label: &'static str,
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

/// One matter told once.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub(super) label: &'static str,
    pub(super) title: String,
    /// Sentences with their closing punctuation, in order. Never empty.
    pub(super) sentences: Vec<String>,
    /// Which templates the sentences come from: what a look-alike shares with it.
    pub(super) templates: Vec<&'static str>,
    topic: usize,
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
        Self::tell(topic, &[], chars, &mut rng)
    }

    /// Another matter that begins with the same templates as `like`: the first `shared` of them.
    pub(super) fn look_alike(like: &Self, shared: usize, seed: u64) -> Self {
        let mut rng = Rng::of(&[seed, 2]);
        let chars = like.sentences.iter().map(|sentence| sentence.chars().count()).sum();
        Self::tell(like.topic, &like.templates[..shared], chars, &mut rng)
    }

    fn tell(index: usize, first: &[&'static str], chars: usize, rng: &mut Rng) -> Self {
        let topic = topic(index);
        let scene = Scene::new(rng);
        let mut title = String::new();
        expand(rng.pick(topic.titles), &scene, rng, &mut title);
        let templates = if first.is_empty() { outline(topic, chars, rng) } else { continued(topic, first, chars, rng) };
        let mut story = Self { label: topic.label, title, sentences: Vec::new(), templates: Vec::new(), topic: index };
        let mut length = 0;
        for template in templates {
            let mut sentence = String::new();
            expand(template, &scene, rng, &mut sentence);
            if sentence.is_empty() {
                continue;
            }
            sentence.push_str(rng.pick(&["。", "。", "。", "，", "；", "！"]));
            length += sentence.chars().count();
            story.sentences.push(sentence);
            story.templates.push(template);
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

/// The templates of a text of about `chars` characters, in telling order: all facts once before any returns.
fn outline(topic: &'static Topic, chars: usize, rng: &mut Rng) -> Vec<&'static str> {
    let mut outline = Vec::new();
    if chars > 90 {
        outline.push(rng.pick(OPENINGS));
    }
    outline.extend(body(topic, chars, rng));
    outline.push(rng.pick(topic.demands));
    if chars > 60 {
        outline.push(rng.pick(CLOSINGS));
    }
    outline
}

fn continued(topic: &'static Topic, first: &[&'static str], chars: usize, rng: &mut Rng) -> Vec<&'static str> {
    let mut outline = first.to_vec();
    outline.extend(body(topic, chars, rng).into_iter().filter(|template| !first.contains(template)));
    outline
}

fn body(topic: &'static Topic, chars: usize, rng: &mut Rng) -> Vec<&'static str> {
    let mut pools = [
        (shuffled(topic.facts, rng), 9),
        (shuffled(CHRONICLE, rng), 5),
        (shuffled(topic.effects, rng), 4),
        (shuffled(REMARKS, rng), 4),
    ];
    // A sentence has 18 characters or so; opening, demand and closing together three times as many.
    let wanted = (chars.saturating_sub(54) / 18).max(1);
    let mut body = Vec::with_capacity(wanted);
    while body.len() < wanted {
        if pools.iter().all(|(pool, _)| pool.is_empty()) {
            pools[1].0 = shuffled(CHRONICLE, rng);
            pools[0].0 = shuffled(topic.facts, rng);
        }
        // The first sentence is a fact: it says what the matter is.
        let mut draw = if body.is_empty() { 0 } else { rng.below(22) };
        for (pool, share) in &mut pools {
            if draw < *share {
                body.extend(pool.pop());
                break;
            }
            draw -= *share;
        }
    }
    body
}

fn shuffled(pool: &[&'static str], rng: &mut Rng) -> Vec<&'static str> {
    let mut pool = pool.to_vec();
    rng.shuffle(&mut pool);
    pool
}
