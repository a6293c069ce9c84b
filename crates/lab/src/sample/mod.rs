//! A seeded generator of Chinese records with known duplicates of graded difficulty: letters as citizens write them, and
//! orders as operators of a hotline fill in their forms, of which most that look alike are about different matters.
//!
//! Every record is a pure function of (records, seed, share of duplicates, share of orders, position): memory is constant at any size, any part can be
//! made alone, and the same parameters give the same bytes for ever (a test holds the digest). All names and phrases
//! are made up. Nothing here does I/O; `doppel sample` writes the files.
//!
//! What is promised of the letters: unrelated ones rarely reach a Jaccard similarity of 0.3 of their character 3-grams and
//! seldom use the same eight characters running, as in a real mailbox, where shared phrases are the exception; a
//! twelfth are a line or two, the median content has 220 to 330 characters, the longest thousands; about a
//! fifth have no title, user and time.

mod copy;
mod generic;
mod grammar;
mod measure;
mod mixture;
mod notices;
mod orders;
mod permute;
mod phrases;
mod plan;
mod rng;
mod story;
mod topics_life;
mod topics_town;
mod traditional;
mod words;

pub use copy::Kind;
pub use measure::{Overlap, overlap};
pub use notices::{Notice, Notices, Repeat};

use serde::{Deserialize, Serialize};

use grammar::person;
use measure::Grams;
use mixture::{Mixture, Place};
use orders::{Order, Orders, Related, Repeated};
use plan::{Bond, Cluster, Plan};
use rng::Rng;
use story::{Length, Story};

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How many records.
    pub records: u64,
    /// What all chance is drawn from.
    pub seed: u64,
    /// About which share of the records repeats another, 0 to 0.5.
    pub duplicates: f64,
    /// About which share of the records are orders on forms, 0 to 1.
    pub forms: f64,
    /// Whether letters name their topic, and orders their form.
    pub labels: bool,
}

/// A made-up letter or order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its id: `s` and its position in the file, from 1.
    pub id: String,
    /// Empty where the petitioner gave none.
    pub title: String,
    /// The text.
    pub content: String,
    /// Empty where the petitioner gave none.
    pub user: String,
    /// `YYYY-MM-DD HH:MM:SS`, or empty.
    pub time: String,
    /// The topic of a letter or the form of an order, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Records about the same matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Its name.
    pub group: String,
    /// Ids, in the order of the file; the first is the original.
    pub members: Vec<String>,
    /// How the copies were made.
    pub kind: &'static str,
    /// Kind and strength in one word.
    pub subkind: String,
    /// Least Jaccard similarity of 3-grams of any two members.
    pub min_jaccard: f64,
    /// Greatest.
    pub max_jaccard: f64,
    /// What was done to the copies.
    pub edits: Vec<&'static str>,
    /// Greatest strength of its copies, 1 to 5.
    pub strength: usize,
    /// Id of the original.
    pub original: String,
}

/// Two records that look alike and are not about the same matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HardNegative {
    /// One.
    pub a: String,
    /// The other.
    pub b: String,
    /// Jaccard similarity of their 3-grams.
    pub jaccard: f64,
    /// Share of the smaller set found in the larger.
    pub containment: f64,
    /// Always `different`.
    pub label: &'static str,
    /// Always `template`: the same phrases about another place.
    pub note: &'static str,
}

/// Two orders on one form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelledPair {
    /// The one that comes first in the file.
    pub a: String,
    /// The other.
    pub b: String,
    /// `same` where they are about the same matter, else `template`.
    pub label: &'static str,
    /// Jaccard similarity of their 3-grams.
    pub jaccard: f64,
    /// Share of the smaller set found in the larger.
    pub containment: f64,
    /// What tells them apart: `company`, `number`, `person`, `place`, `question`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<&'static str>,
}

/// The records of one sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    mixture: Mixture,
    letters: Plan,
    orders: Orders,
    seed: u64,
    labels: bool,
}

/// How orders are called as a kind of group.
const ORDER: &str = "order";

/// Strongest overlap that look-alikes may have: what verification by default accepts, less a margin.
const LOOK_ALIKE: Overlap = Overlap { jaccard: 0.27, containment: 0.52 };

impl Sample {
    /// The sample that belongs to `options`.
    pub fn new(options: &Options) -> Self {
        let Options { records, seed, duplicates, forms, labels } = *options;
        let mixture = Mixture::new(records, forms);
        let letters = Plan::new(mixture.letters(), seed, duplicates);
        Self { mixture, letters, orders: Orders::new(mixture.orders, seed, duplicates), seed, labels }
    }

    /// The record at `position`, counted from 0.
    pub fn record(&self, position: u64) -> Record {
        match self.mixture.place(position) {
            Place::Order(index) => self.order_of(index),
            Place::Letter(index) => {
                let item = self.letters.item(index);
                self.letter_of(index, item, self.letters.cluster_of(item))
            }
        }
    }

    /// All records in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (0..self.mixture.records).map(|position| self.record(position))
    }

    /// All groups of records about the same matter: of letters, then of orders.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        let of_kind = self.letters.clusters().filter_map(|cluster| match cluster.bond {
            Bond::Copies(kind) => Some((cluster, kind)),
            _ => None,
        });
        let letters = of_kind.zip(1u64..).map(|((cluster, kind), number)| self.group(cluster, kind, number));
        letters
            .chain(self.orders.repeated().zip(1u64..).map(|(repeated, number)| self.group_of_orders(repeated, number)))
    }

    /// The members of every group of [`Sample::groups`], by their positions in the file, without measuring them.
    pub fn families(&self) -> impl Iterator<Item = Vec<u64>> + '_ {
        let copied = self.letters.clusters().filter(|cluster| matches!(cluster.bond, Bond::Copies(_)));
        let letter = |(index, _): (u64, u64)| self.mixture.letter(index);
        let letters = copied.map(move |cluster| self.letters.members(cluster).into_iter().map(letter).collect());
        let order = |index| self.mixture.order(index);
        let repeated = self.orders.repeated();
        letters.chain(repeated.map(move |matter| matter.positions.into_iter().map(order).collect()))
    }

    /// All pairs of letters that look alike and are not about the same matter.
    pub fn hard_negatives(&self) -> impl Iterator<Item = HardNegative> + '_ {
        self.letters.clusters().filter(|cluster| cluster.bond == Bond::LookAlike).map(|cluster| {
            let records = self.members(cluster);
            let Overlap { jaccard, containment } = overlap(&text(&records[0]), &text(&records[1]));
            let [a, b] = [records[0].id.clone(), records[1].id.clone()];
            HardNegative { a, b, jaccard, containment, label: "different", note: "template" }
        })
    }

    /// Labelled pairs of orders: all about the same matter, and for each order up to three on its form that are most like it
    /// among some dozen nearby and about another.
    pub fn pairs(&self) -> impl Iterator<Item = LabelledPair> + '_ {
        self.orders.related().map(|Related { positions, overlap: Overlap { jaccard, containment }, signs }| {
            let [a, b] = positions.map(|index| id(self.mixture.order(index)));
            LabelledPair {
                a,
                b,
                label: if signs.is_empty() { "same" } else { "template" },
                jaccard,
                containment,
                signs,
            }
        })
    }

    fn members(&self, cluster: Cluster) -> Vec<Record> {
        let members = self.letters.members(cluster);
        members.into_iter().map(|(index, item)| self.letter_of(index, item, cluster)).collect()
    }

    fn group(&self, cluster: Cluster, kind: Kind, number: u64) -> Group {
        let copies = self.letters.members(cluster).into_iter().skip(1);
        let strength = copies.map(|(_, item)| self.strength(kind, item)).max().unwrap_or(1);
        let edits = if kind == Kind::Exact { vec![] } else { vec![kind.name()] };
        group(format!("g{number:07}"), &self.members(cluster), kind.name(), edits, strength)
    }

    fn group_of_orders(&self, Repeated { positions, edits, strength }: Repeated, number: u64) -> Group {
        let members: Vec<_> = positions.into_iter().map(|index| self.order_of(index)).collect();
        group(format!("o{number:07}"), &members, ORDER, edits, strength)
    }

    fn strength(&self, kind: Kind, item: u64) -> usize {
        if kind == Kind::Exact { 1 } else { Rng::of(&[self.seed, item, 20]).between(1, 5) }
    }

    fn order_of(&self, index: u64) -> Record {
        let Order { title, content, user, form } = self.orders.order(index);
        let position = self.mixture.order(index);
        let label = self.labels.then(|| form.to_owned());
        Record { id: id(position), title, content, user, time: self.time(position), label }
    }

    fn letter_of(&self, index: u64, item: u64, cluster: Cluster) -> Record {
        let position = self.mixture.letter(index);
        let seed = |parts: &[u64]| Rng::of(&[&[self.seed], parts].concat()).next();
        let shared = seed(&[cluster.first, 30]);
        let original = if cluster.size == 1 { item } else { self.letters.members(cluster)[0].1 };
        let (title, content, label) = match cluster.bond {
            Bond::Alone => whole(&Story::new(shared, Length::Any)),
            Bond::LookAlike if item != original => {
                whole(&look_alike(&Story::new(shared, Length::Substantial), seed(&[item, 31])))
            }
            Bond::Copies(kind) if item != original => {
                let story = Story::new(shared, Length::Substantial);
                let (title, content) = copy::copy(&story, kind, self.strength(kind, item), seed(&[item, 32]));
                (title, content, story.label)
            }
            Bond::Copies(_) | Bond::LookAlike => whole(&Story::new(shared, Length::Substantial)),
        };
        let mut rng = Rng::of(&[shared, 33]);
        // A record without title has copies without title, or an exact copy would not be one.
        let bare = rng.chance(20);
        if item != original && rng.chance(50) {
            rng = Rng::of(&[shared, item, 34]);
        }
        let mut user = String::new();
        person(&mut rng, &mut user);
        let or_empty = |text: String| if bare { String::new() } else { text };
        Record {
            id: id(position),
            title: or_empty(title),
            content,
            user: or_empty(user),
            time: or_empty(self.time(position)),
            label: self.labels.then(|| label.to_owned()),
        }
    }

    /// Records come in the order of their time, spread over ten years.
    fn time(&self, position: u64) -> String {
        const TEN_YEARS: u64 = 3652 * 86_400;
        let step = TEN_YEARS / self.mixture.records.max(1);
        let jitter = Rng::of(&[self.seed, position, 35]).below(step.max(1) as usize) as u64;
        let seconds = (u128::from(position) * u128::from(TEN_YEARS) / u128::from(self.mixture.records.max(1))) as u64;
        let start = jiff::civil::date(2012, 1, 1).at(0, 0, 0, 0);
        let time = start.saturating_add(jiff::SignedDuration::from_secs((seconds + jitter) as i64));
        time.strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

fn id(position: u64) -> String {
    format!("s{:08}", position + 1)
}

/// The group of these records, the original first.
fn group(name: String, members: &[Record], kind: &'static str, edits: Vec<&'static str>, strength: usize) -> Group {
    let grams: Vec<_> = members.iter().map(|record| Grams::of(&text(record))).collect();
    let pairs = (0..grams.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let similarities = pairs.map(|(a, b)| grams[a].overlap(&grams[b]).jaccard);
    let (min_jaccard, max_jaccard) = similarities.fold((1.0f64, 0.0f64), |(min, max), j| (min.min(j), max.max(j)));
    let members: Vec<_> = members.iter().map(|record| record.id.clone()).collect();
    let original = members[0].clone();
    let subkind = format!("{kind}-{strength}");
    Group { group: name, members, kind, subkind, min_jaccard, max_jaccard, edits, strength, original }
}

/// What the overlap of two records is measured on.
fn text(record: &Record) -> String {
    format!("{}\n{}", record.title, record.content)
}

fn whole(story: &Story) -> (String, String, &'static str) {
    (story.title.clone(), story.text(), story.label)
}

/// A story that shares as many phrases with `story` as it can without becoming like it.
fn look_alike(story: &Story, seed: u64) -> Story {
    let all = story.len();
    let text = |story: &Story| format!("{}\n{}", story.title, story.text());
    for shared in [all, all * 3 / 4, all / 2, all / 3, all / 4, all / 6] {
        let other = Story::look_alike(story, shared, seed);
        let Overlap { jaccard, containment } = overlap(&text(story), &text(&other));
        if jaccard < LOOK_ALIKE.jaccard && containment < LOOK_ALIKE.containment {
            return other;
        }
    }
    Story::new(seed, Length::Substantial)
}

#[cfg(test)]
mod tests;
