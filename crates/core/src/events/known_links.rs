//! The links between records that are known without the event model.

use hashbrown::{HashMap, HashSet};

use super::cluster::{ClusterLinks, RecordPair};

/// How a link between two records is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KnownLink {
    /// A person decided that both are the same matter.
    Same,
    /// A person decided that both report one event, but neither repeats the other.
    SameEvent,
    /// A person decided that they are different matters.
    NotSame,
    /// They are duplicates.
    Match,
}

impl KnownLink {
    /// The kinds of links that join records.
    pub const JOINING: [Self; 3] = [Self::Same, Self::SameEvent, Self::Match];
}

/// All known links, by record.
#[derive(Clone, Debug, Default)]
pub struct KnownLinks {
    /// The links of each record: each once, ascending.
    by_record: HashMap<u32, Vec<(u32, KnownLink)>>,
}

impl FromIterator<(RecordPair, KnownLink)> for KnownLinks {
    fn from_iter<I: IntoIterator<Item = (RecordPair, KnownLink)>>(links: I) -> Self {
        let mut by_record: HashMap<u32, Vec<(u32, KnownLink)>> = HashMap::new();
        for ([a, b], link) in links {
            by_record.entry(a).or_default().push((b, link));
            by_record.entry(b).or_default().push((a, link));
        }
        for links in by_record.values_mut() {
            links.sort_unstable();
            links.dedup();
        }
        Self { by_record }
    }
}

impl KnownLinks {
    /// Returns the links of a record: the other record and the kind, ascending.
    pub fn of_record(&self, record: u32) -> &[(u32, KnownLink)] {
        self.by_record.get(&record).map_or(&[], Vec::as_slice)
    }

    /// Returns the records that have a link of one of these kinds with a record.
    pub(super) fn others(&self, record: u32, kinds: &[KnownLink]) -> impl Iterator<Item = u32> {
        self.of_record(record).iter().filter(|(_, kind)| kinds.contains(kind)).map(|(other, _)| *other)
    }

    /// Returns all pairs with a link of this kind, in no order.
    pub fn pairs(&self, kind: KnownLink) -> impl Iterator<Item = RecordPair> {
        let of_records = self.by_record.iter();
        of_records
            .flat_map(move |(a, links)| links.iter().filter(move |(b, of)| a < b && *of == kind).map(|(b, _)| [*a, *b]))
    }

    /// Returns the records whose links are not those of `other`.
    pub(super) fn changed(&self, other: &Self) -> HashSet<u32> {
        let all = self.by_record.keys().chain(other.by_record.keys());
        all.filter(|record| self.of_record(**record) != other.of_record(**record)).copied().collect()
    }

    /// Returns the links of some records. Joining links lead only to other ones of them. O(links of the records).
    pub(super) fn within(&self, records: &[u32]) -> ClusterLinks {
        let mut links = ClusterLinks::default();
        for a in records {
            for (b, kind) in self.of_record(*a).iter().filter(|(b, _)| a < b) {
                let pairs = match kind {
                    KnownLink::Same | KnownLink::SameEvent => &mut links.joined,
                    KnownLink::NotSame => &mut links.separated,
                    KnownLink::Match => &mut links.matches,
                };
                pairs.push([*a, *b]);
            }
        }
        links
    }
}
