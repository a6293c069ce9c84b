//! A seeded generator of Chinese records with known duplicates of graded difficulty. It writes letters in the style of citizens, and orders
//! in the style of hotline operators who fill in forms. Most orders that look alike concern different matters.
//!
//! Every record is a pure function of the [`SampleOptions`] and its position. The memory is therefore constant at any size, each part can
//! be generated alone, and the same parameters always give the same bytes (a test checks the digest). All names and phrases are invented.
//! This module does no I/O; `doppel sample` writes the files.
//!
//! The letters have these properties, as in a real mailbox. A letter is about one matter, and its phrases fit each other ([`topics`]).
//! Unrelated letters rarely reach a Jaccard similarity of 0.3 of their character 3-grams. One in twelve has one or two lines, the median
//! content has 220 to 330 characters, and the longest has thousands. About a fifth have no title and no name. All records are received in
//! the months before one day; dates in the texts are earlier than the record. One hot event is reported by many people within a few days.
//!
//! [`PlantedEvents`] are further records: events that a few people report in other words.

mod calendar;
mod copy;
mod grammar;
mod hot;
mod layout;
mod measure;
mod mixture;
mod notices;
mod orders;
mod permute;
mod phrases;
mod plan;
mod planted;
mod rng;
mod story;
mod topics;
mod traditional;
mod wording;
mod words;

pub use calendar::{DAYS, UNTIL};
pub use copy::CopyKind;
pub use measure::{TextOverlap, overlap};
pub use notices::{CrawlNotices, NoticeRepeat, SampleNotice};
pub use planted::{PlantedEvent, PlantedEvents};

use jiff::ToSpan as _;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use grammar::full_name;
use hot::{HotLetter, hot_letter};
use layout::{FileLayout, RecordPlace};
use measure::TextGrams;
use mixture::MixturePlace;
use orders::{OrderPair, RepeatedMatter, SampleOrder, SampleOrders};
use plan::{ClusterBond, RecordCluster, SamplePlan};
use rng::RandomStream;
use story::{MatterStory, StoryLength};

/// The parameters of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleOptions {
    pub records: u64,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Approximate share of the records that repeat another record, 0 to 0.5.
    pub duplicates: f64,
    /// Approximate share of the records that are orders on forms, 0 to 1.
    pub forms: f64,
    /// True if letters contain their topic as a label, and orders their form.
    pub labels: bool,
    /// The last day on which records are received. The first day is [`DAYS`] - 1 days earlier.
    pub until: Date,
}

/// A generated letter or order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedRecord {
    /// The id: `s` and the position in the file, from 1.
    pub id: String,
    /// The title; empty if the petitioner gave none.
    pub title: String,
    pub content: String,
    /// The name of the petitioner; empty if the petitioner gave none.
    pub user: String,
    /// The telephone number of the petitioner; empty if the petitioner gave none. No telephone has such a number.
    pub phone: String,
    /// The time as `YYYY-MM-DD HH:MM:SS`.
    pub time: String,
    /// The category of the matter: the topic of a letter.
    pub category: String,
    /// The district of the matter.
    pub district: String,
    /// The unit that handles the matter.
    pub unit: String,
    /// The progress of the matter.
    pub status: String,
    /// The topic of a letter or the form of an order, if labels are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Records about the same matter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleGroup {
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
pub struct RecordSample {
    layout: FileLayout,
    letters: SamplePlan,
    orders: SampleOrders,
    seed: u64,
    labels: bool,
}

/// The kind of the groups of orders.
const ORDER: &str = "order";

/// Maximum overlap of letters that look alike: the overlap that verification accepts by default, minus a margin.
const LOOK_ALIKE: TextOverlap = TextOverlap { jaccard: 0.27, containment: 0.52 };

/// The strength of the group of the hot event: its members have the event in common, but no text.
const HOT_STRENGTH: usize = 5;

/// Percentage of petitioners who give a telephone number, and of letters about the hot event that an operator writes down.
const WITH_PHONE: usize = 35;
const HOT_CALLS: usize = 40;

impl RecordSample {
    /// Creates the sample for `options`.
    pub fn new(options: &SampleOptions) -> Self {
        let SampleOptions { records, seed, duplicates, forms, labels, until } = *options;
        let layout = FileLayout::new(records, seed, until, forms, duplicates);
        let letters = SamplePlan::new(layout.mixture.letters(), seed, duplicates);
        Self { layout, letters, orders: SampleOrders::new(layout, seed, duplicates), seed, labels }
    }

    /// Returns the record at `position`, counted from 0.
    pub fn record(&self, position: u64) -> GeneratedRecord {
        match self.layout.place(position) {
            RecordPlace::Hot(index) => self.hot_record(index),
            RecordPlace::Common(MixturePlace::Order(index)) => self.order_of(index),
            RecordPlace::Common(MixturePlace::Letter(index)) => {
                let item = self.letters.item(index);
                self.letter_of(index, item, self.letters.cluster_of(item))
            }
        }
    }

    /// Returns all records in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = GeneratedRecord> + '_ {
        (0..self.layout.records()).map(|position| self.record(position))
    }

    /// Returns all groups of records about the same matter: groups of letters, groups of orders, and the hot event.
    pub fn groups(&self) -> impl Iterator<Item = SampleGroup> + '_ {
        let of_kind = self.letters.clusters().filter_map(|cluster| match cluster.bond {
            ClusterBond::Copies(kind) => Some((cluster, kind)),
            _ => None,
        });
        let letters = of_kind.zip(1u64..).map(|((cluster, kind), number)| self.group(cluster, kind, number));
        let orders = self.orders.repeated().zip(1u64..);
        letters
            .chain(orders.map(|(repeated, number)| self.group_of_orders(repeated, number)))
            .chain(self.hot_positions().map(|_| self.group_of_hot_event()))
    }

    /// Returns the members of every group of [`RecordSample::groups`] as positions in the file, without measurements.
    pub fn families(&self) -> impl Iterator<Item = Vec<u64>> + '_ {
        let copied = self.letters.clusters().filter(|cluster| matches!(cluster.bond, ClusterBond::Copies(_)));
        let letters = copied.map(move |cluster| {
            self.letters.members(cluster).into_iter().map(|(index, _): (u64, u64)| self.layout.letter(index)).collect()
        });
        let repeated = self.orders.repeated();
        let orders =
            repeated.map(move |matter| matter.positions.into_iter().map(|index| self.layout.order(index)).collect());
        letters.chain(orders).chain(self.hot_positions())
    }

    /// Returns all pairs of letters that look alike but do not concern the same matter.
    pub fn hard_negatives(&self) -> impl Iterator<Item = HardNegative> + '_ {
        self.letters.clusters().filter(|cluster| cluster.bond == ClusterBond::LookAlike).map(|cluster| {
            let records = self.members(cluster);
            let TextOverlap { jaccard, containment } = overlap(&text(&records[0]), &text(&records[1]));
            let [a, b] = [records[0].id.clone(), records[1].id.clone()];
            HardNegative { a, b, jaccard, containment, label: "different", note: "template" }
        })
    }

    /// Returns labelled pairs of orders: all pairs about the same matter, and for each order up to three orders on its form about another
    /// matter. The latter are the most similar orders among some dozen neighbours.
    pub fn pairs(&self) -> impl Iterator<Item = LabelledPair> + '_ {
        self.orders.related().map(|OrderPair { positions, overlap: TextOverlap { jaccard, containment }, signs }| {
            let [a, b] = positions.map(|index| id(self.layout.order(index)));
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

    fn members(&self, cluster: RecordCluster) -> Vec<GeneratedRecord> {
        let members = self.letters.members(cluster);
        members.into_iter().map(|(index, item)| self.letter_of(index, item, cluster)).collect()
    }

    fn group(&self, cluster: RecordCluster, kind: CopyKind, number: u64) -> SampleGroup {
        let copies = self.letters.members(cluster).into_iter().skip(1);
        let strength = copies.map(|(_, item)| self.strength(kind, item)).max().unwrap_or(1);
        let edits = if kind == CopyKind::Exact { vec![] } else { vec![kind.name()] };
        group(format!("g{number:07}"), &self.members(cluster), kind.name(), edits, strength)
    }

    fn group_of_orders(
        &self,
        RepeatedMatter { positions, edits, strength }: RepeatedMatter,
        number: u64,
    ) -> SampleGroup {
        let members: Vec<_> = positions.into_iter().map(|index| self.order_of(index)).collect();
        group(format!("o{number:07}"), &members, ORDER, edits, strength)
    }

    /// Returns the positions of the letters about the hot event, if the sample has one.
    fn hot_positions(&self) -> impl Iterator<Item = Vec<u64>> + use<> {
        let layout = self.layout;
        let positions = (0..layout.hot).map(move |index| layout.hot_position(index)).collect();
        Some(positions).into_iter().filter(|positions: &Vec<u64>| !positions.is_empty())
    }

    fn group_of_hot_event(&self) -> SampleGroup {
        let members: Vec<_> = (0..self.layout.hot).map(|index| self.hot_record(index)).collect();
        group("h0000001".to_owned(), &members, hot::KIND, Vec::new(), HOT_STRENGTH)
    }

    fn strength(&self, kind: CopyKind, item: u64) -> usize {
        if kind == CopyKind::Exact { 1 } else { RandomStream::of(&[self.seed, item, 20]).between(1, 5) }
    }

    fn hot_record(&self, index: u64) -> GeneratedRecord {
        let position = self.layout.hot_position(index);
        let mut rng = RandomStream::of(&[self.seed, index, 72]);
        let ordered = self.layout.mixture.orders > 0 && rng.chance(HOT_CALLS);
        // Everybody writes on a later day, so that the letters can describe the whole day of the event.
        let begun = self.day(self.layout.hot_position(0)).saturating_sub(1.day());
        let HotLetter { title, content, user, label, district, office } =
            hot_letter(self.seed, index, begun, self.day(position), ordered);
        GeneratedRecord {
            id: id(position),
            title,
            content,
            user,
            phone: if rng.chance(WITH_PHONE) { phone(&mut rng) } else { String::new() },
            time: self.time(position),
            category: label.to_owned(),
            district: district.to_owned(),
            unit: format!("{district}{office}"),
            status: self.status(position),
            label: self.labels.then(|| label.to_owned()),
        }
    }

    fn order_of(&self, index: u64) -> GeneratedRecord {
        let SampleOrder { title, content, user, form, category, district, unit, caller } = self.orders.order(index);
        let position = self.layout.order(index);
        let mut rng = RandomStream::of(&[self.seed, caller, 65]);
        let phone = if !user.is_empty() && rng.chance(WITH_PHONE) { phone(&mut rng) } else { String::new() };
        let label = self.labels.then(|| form.to_owned());
        GeneratedRecord {
            id: id(position),
            title,
            content,
            user,
            phone,
            time: self.time(position),
            category: category.to_owned(),
            district,
            unit,
            status: self.status(position),
            label,
        }
    }

    fn letter_of(&self, index: u64, item: u64, cluster: RecordCluster) -> GeneratedRecord {
        let position = self.layout.letter(index);
        let shared = RandomStream::of(&[self.seed, cluster.first, 30]).next();
        let [first_index, original] =
            if cluster.size == 1 { [index, item] } else { self.letters.members(cluster)[0].into() };
        let today = self.day(position);
        let told = self.day(self.layout.letter(first_index));
        let written = match cluster.bond {
            ClusterBond::Alone => whole(MatterStory::new(shared, StoryLength::Any, today)),
            ClusterBond::LookAlike if item != original => {
                let story = MatterStory::new(shared, StoryLength::Substantial, told);
                whole(look_alike(&story, RandomStream::of(&[self.seed, item, 31]).next(), today))
            }
            ClusterBond::Copies(kind) if item != original => {
                let story = MatterStory::new(shared, StoryLength::Substantial, told);
                let seed = RandomStream::of(&[self.seed, item, 32]).next();
                let (title, content) = copy::copy(&story, kind, self.strength(kind, item), today, seed);
                WrittenLetter { title, content, story }
            }
            ClusterBond::Copies(_) | ClusterBond::LookAlike => {
                whole(MatterStory::new(shared, StoryLength::Substantial, told))
            }
        };
        let WrittenLetter { mut title, content, story } = written;
        let mut rng = RandomStream::of(&[shared, 33]);
        // If a record has no title, its copies have no title, because otherwise an exact copy would not be exact.
        let bare = rng.chance(20);
        if item != original && rng.chance(50) {
            rng = RandomStream::of(&[shared, item, 34]);
        }
        let mut user = full_name(&mut rng);
        let mut phone = if rng.chance(WITH_PHONE) { phone(&mut rng) } else { String::new() };
        if bare {
            [&mut title, &mut user, &mut phone].into_iter().for_each(String::clear);
        }
        GeneratedRecord {
            id: id(position),
            title,
            content,
            user,
            phone,
            time: self.time(position),
            category: story.label.to_owned(),
            district: story.scene.district.to_owned(),
            unit: story.scene.unit(),
            status: self.status(position),
            label: self.labels.then(|| story.label.to_owned()),
        }
    }

    /// Returns the time of a record. Times ascend with the position.
    fn time(&self, position: u64) -> String {
        self.layout.calendar.time(position).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    fn day(&self, position: u64) -> Date {
        self.layout.calendar.time(position).date()
    }

    /// Returns the progress of a matter: most matters of the last days are open, most earlier matters are closed.
    fn status(&self, position: u64) -> String {
        let mut rng = RandomStream::of(&[self.seed, position, 37]);
        let days = self.day(position).until(self.layout.calendar.until).map_or(0, |span| span.get_days());
        let open = rng.chance(if days < 8 { 85 } else { 18 });
        rng.pick(if open {
            &["已受理", "办理中", "办理中", "待核实"]
        } else {
            &["已办结", "已办结", "已办结", "已答复", "待回访"]
        })
        .to_owned()
    }
}

/// Returns an invented telephone number: no mobile number begins with 100.
fn phone(rng: &mut RandomStream) -> String {
    format!("100{:08}", rng.below(100_000_000))
}

fn id(position: u64) -> String {
    format!("s{:08}", position + 1)
}

/// Returns the group of these records. The first record is the original.
fn group(
    name: String,
    members: &[GeneratedRecord],
    kind: &'static str,
    edits: Vec<&'static str>,
    strength: usize,
) -> SampleGroup {
    let grams: Vec<_> = members.iter().map(|record| TextGrams::of(&text(record))).collect();
    let pairs = (0..grams.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
    let similarities = pairs.map(|(a, b)| grams[a].overlap(&grams[b]).jaccard);
    let (min_jaccard, max_jaccard) = similarities.fold((1.0f64, 0.0f64), |(min, max), j| (min.min(j), max.max(j)));
    let members: Vec<_> = members.iter().map(|record| record.id.clone()).collect();
    let original = members[0].clone();
    let subkind = format!("{kind}-{strength}");
    SampleGroup { group: name, members, kind, subkind, min_jaccard, max_jaccard, edits, strength, original }
}

/// Returns the text of a record for the measurement of overlap.
fn text(record: &GeneratedRecord) -> String {
    format!("{}\n{}", record.title, record.content)
}

/// A letter with the story that it tells.
struct WrittenLetter {
    title: String,
    content: String,
    story: MatterStory,
}

fn whole(story: MatterStory) -> WrittenLetter {
    WrittenLetter { title: story.title.clone(), content: story.text(), story }
}

/// Returns a story that has as many phrases in common with `story` as possible without being too similar.
fn look_alike(story: &MatterStory, seed: u64, today: Date) -> MatterStory {
    let all = story.len();
    let text = format!("{}\n{}", story.title, story.text());
    for shared in [all, all * 3 / 4, all / 2, all / 3, all / 4, all / 6] {
        let other = MatterStory::look_alike(story, shared, seed, today);
        let TextOverlap { jaccard, containment } = overlap(&text, &format!("{}\n{}", other.title, other.text()));
        if jaccard < LOOK_ALIKE.jaccard && containment < LOOK_ALIKE.containment {
            return other;
        }
    }
    MatterStory::new(seed, StoryLength::Substantial, today)
}

#[cfg(test)]
mod tests;
