//! A seeded generator of Chinese records with known duplicates of graded difficulty. It writes letters as citizens write them, and orders
//! as operators of a hotline fill in their forms. Most orders that look alike concern different matters.
//!
//! Every record is a pure function of (records, seed, share of duplicates, share of orders, position). So the memory is constant at any
//! size, each part can be generated alone, and the same parameters always give the same bytes (a test checks the digest). All names and
//! phrases are invented. This module does no I/O; `doppel sample` writes the files.
//!
//! The letters have these properties, as in a real mailbox, where common phrases are the exception. Unrelated letters rarely reach a
//! Jaccard similarity of 0.3 of their character 3-grams, and seldom have eight characters in sequence in common. One in twelve has one or
//! two lines, the median content has 220 to 330 characters, and the longest has thousands. About a fifth have no title, user and time.

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

/// The parameters of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Number of records.
    pub records: u64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Approximate share of the records that repeat another one, 0 to 0.5.
    pub duplicates: f64,
    /// Approximate share of the records that are orders on forms, 0 to 1.
    pub forms: f64,
    /// True if letters contain their topic as a label, and orders their form.
    pub labels: bool,
}

/// A generated letter or order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id: `s` and the position in the file, from 1.
    pub id: String,
    /// The title; empty if the petitioner gave none.
    pub title: String,
    /// The text.
    pub content: String,
    /// The name of the petitioner; empty if the petitioner gave none.
    pub user: String,
    /// The time as `YYYY-MM-DD HH:MM:SS`, or empty.
    pub time: String,
    /// The topic of a letter or the form of an order, if labels are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Records about the same matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The name of the group.
    pub group: String,
    /// Ids, in the order of the file; the first is the original.
    pub members: Vec<String>,
    /// The kind of the copies.
    pub kind: &'static str,
    /// Kind and strength in one word.
    pub subkind: String,
    /// Minimum Jaccard similarity of the 3-grams of any two members.
    pub min_jaccard: f64,
    /// Maximum Jaccard similarity of the 3-grams of any two members.
    pub max_jaccard: f64,
    /// The edits of the copies.
    pub edits: Vec<&'static str>,
    /// Maximum strength of the copies, 1 to 5.
    pub strength: usize,
    /// The id of the original.
    pub original: String,
}

/// Two records that look alike but do not concern the same matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HardNegative {
    /// The id of the first record.
    pub a: String,
    /// The id of the second record.
    pub b: String,
    /// Jaccard similarity of their 3-grams.
    pub jaccard: f64,
    /// Share of the smaller set that the larger set contains.
    pub containment: f64,
    /// Always `different`.
    pub label: &'static str,
    /// Always `template`: the same phrases about another place.
    pub note: &'static str,
}

/// Two orders on one form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelledPair {
    /// The id of the order that comes first in the file.
    pub a: String,
    /// The id of the other order.
    pub b: String,
    /// `same` if both concern the same matter, otherwise `template`.
    pub label: &'static str,
    /// Jaccard similarity of their 3-grams.
    pub jaccard: f64,
    /// Share of the smaller set that the larger set contains.
    pub containment: f64,
    /// The differences between the orders: `company`, `number`, `person`, `place`, `question`.
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

/// The kind of the groups of orders.
const ORDER: &str = "order";

/// Maximum overlap of letters that look alike: the overlap that verification accepts by default, minus a margin.
const LOOK_ALIKE: Overlap = Overlap { jaccard: 0.27, containment: 0.52 };

impl Sample {
    /// Creates the sample for `options`.
    pub fn new(options: &Options) -> Self {
        let Options { records, seed, duplicates, forms, labels } = *options;
        let mixture = Mixture::new(records, forms);
        let letters = Plan::new(mixture.letters(), seed, duplicates);
        Self { mixture, letters, orders: Orders::new(mixture.orders, seed, duplicates), seed, labels }
    }

    /// Returns the record at `position`, counted from 0.
    pub fn record(&self, position: u64) -> Record {
        match self.mixture.place(position) {
            Place::Order(index) => self.order_of(index),
            Place::Letter(index) => {
                let item = self.letters.item(index);
                self.letter_of(index, item, self.letters.cluster_of(item))
            }
        }
    }

    /// Returns all records in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (0..self.mixture.records).map(|position| self.record(position))
    }

    /// Returns all groups of records about the same matter: groups of letters, then groups of orders.
    pub fn groups(&self) -> impl Iterator<Item = Group> + '_ {
        let of_kind = self.letters.clusters().filter_map(|cluster| match cluster.bond {
            Bond::Copies(kind) => Some((cluster, kind)),
            _ => None,
        });
        let letters = of_kind.zip(1u64..).map(|((cluster, kind), number)| self.group(cluster, kind, number));
        letters
            .chain(self.orders.repeated().zip(1u64..).map(|(repeated, number)| self.group_of_orders(repeated, number)))
    }

    /// Returns the members of every group of [`Sample::groups`] as positions in the file, without measurements.
    pub fn families(&self) -> impl Iterator<Item = Vec<u64>> + '_ {
        let copied = self.letters.clusters().filter(|cluster| matches!(cluster.bond, Bond::Copies(_)));
        let letter = |(index, _): (u64, u64)| self.mixture.letter(index);
        let letters = copied.map(move |cluster| self.letters.members(cluster).into_iter().map(letter).collect());
        let order = |index| self.mixture.order(index);
        let repeated = self.orders.repeated();
        letters.chain(repeated.map(move |matter| matter.positions.into_iter().map(order).collect()))
    }

    /// Returns all pairs of letters that look alike but do not concern the same matter.
    pub fn hard_negatives(&self) -> impl Iterator<Item = HardNegative> + '_ {
        self.letters.clusters().filter(|cluster| cluster.bond == Bond::LookAlike).map(|cluster| {
            let records = self.members(cluster);
            let Overlap { jaccard, containment } = overlap(&text(&records[0]), &text(&records[1]));
            let [a, b] = [records[0].id.clone(), records[1].id.clone()];
            HardNegative { a, b, jaccard, containment, label: "different", note: "template" }
        })
    }

    /// Returns labelled pairs of orders: all pairs about the same matter, and for each order up to three orders on its form about another
    /// matter. They are the most similar ones among some dozen neighbours.
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
        // If a record has no title, its copies have none, because otherwise an exact copy would not be exact.
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

    /// Returns the time of a record. Times ascend with the position and extend over ten years.
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

/// Returns the group of these records. The first record is the original.
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

/// Returns the text of a record for the measurement of overlap.
fn text(record: &Record) -> String {
    format!("{}\n{}", record.title, record.content)
}

fn whole(story: &Story) -> (String, String, &'static str) {
    (story.title.clone(), story.text(), story.label)
}

/// Returns a story that has as many phrases in common with `story` as possible without being too similar.
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
