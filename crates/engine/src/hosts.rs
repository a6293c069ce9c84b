//! Which host names mean one web site, proposed from records that are there: two names under which the same pages say the same
//! (the web page article's second road against duplicates by address: comparing the first pages of two hosts).
//!
//! Nothing is fetched and nothing is changed. A person who finds a proposal right adds it to `host_aliases` and reindexes.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::context::Context;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::{CollectionName, Role};
use doppel_core::schemes::hash::city64;
use doppel_core::text::url::host_and_page;
use doppel_store::{Seq, StoredRecord};

/// Records read at once.
const PIECE: usize = 1_000;
/// Most hosts compared of those that have a page of one name, the earliest: the home page is everybody's, and pairs are quadratic.
const HOSTS_PER_PAGE: usize = 64;
/// Most proposals of an answer.
const MOST_PROPOSALS: usize = 1_000;

/// Host names that seem to mean one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostAliases {
    /// Records read: the collection's earliest.
    pub records: u64,
    /// Host names found in their fields of role `url`.
    pub hosts: u64,
    /// Names of one site, the surest first: those under which most pages say the same.
    #[schema(max_items = 1_000)]
    pub proposals: Vec<HostAlias>,
    /// Whether there are more records, hosts of one page or proposals than were looked at.
    pub truncated: bool,
}

/// Two host names that seem to mean one site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostAlias {
    /// The name that came first.
    pub host: String,
    /// The other one.
    pub alias: String,
    /// Pages (path and query) that there are under both names.
    pub compared: u64,
    /// Of these, those whose text is the same: at least half.
    pub equal: u64,
}

/// What was read of pages.
#[derive(Default)]
struct Pages {
    records: u64,
    /// Names in the order in which they came.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// H of a page's path → hosts that have it, with H of their texts.
    pages: HashMap<u64, Vec<(u32, u64)>>,
    truncated: bool,
}

impl Engine {
    /// Proposes host aliases from the `most` earliest records. O(their bytes); memory: some 40 bytes an address.
    ///
    /// # Errors
    /// An unknown collection, or one that keeps no text.
    pub async fn host_aliases(&self, collection: &CollectionName, most: usize) -> Result<HostAliases> {
        let context = self.context_with_text(collection, "addresses of pages are proposed by their texts").await?;
        let (mut pages, mut last, mut left) = (Pages::default(), Seq(0), most);
        while left > 0 {
            let records = self.store.records(collection, last, PIECE.min(left)).await?;
            let Some(end) = records.last() else { break };
            (last, left) = (end.seq, left - records.len());
            let context = Arc::clone(&context);
            pages = off_thread(move || {
                records.iter().for_each(|record| pages.add(&context, record));
                Ok(pages)
            })
            .await?;
        }
        pages.truncated |= left == 0 && !self.store.records(collection, last, 1).await?.is_empty();
        off_thread(move || Ok(pages.proposals())).await
    }
}

impl Pages {
    fn add(&mut self, context: &Context, record: &StoredRecord) {
        self.records += 1;
        let Some(document) = record.content.read().and_then(|row| context.profile.read(&row).ok()) else { return };
        let text = document.joined();
        for address in document.fields.iter().filter(|field| field.role == Role::Url) {
            let Some((host, page)) = host_and_page(&address.text) else { continue };
            let next = self.names.len() as u32;
            let number = *self.numbers.entry(host.to_owned()).or_insert_with(|| {
                self.names.push(host.to_owned());
                next
            });
            // What says nothing is no evidence.
            if !text.is_empty() {
                self.pages.entry(city64(&page)).or_default().push((number, city64(&text)));
            }
        }
    }

    fn proposals(mut self) -> HostAliases {
        let mut counts: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
        for said in self.pages.values_mut() {
            said.sort_unstable();
            said.dedup();
            let hosts: Vec<&[(u32, u64)]> = said.chunk_by(|a, b| a.0 == b.0).collect();
            self.truncated |= hosts.len() > HOSTS_PER_PAGE;
            let hosts = &hosts[..hosts.len().min(HOSTS_PER_PAGE)];
            for (at, one) in hosts.iter().enumerate() {
                for other in &hosts[at + 1..] {
                    let same = share_a_text(one, other);
                    let (compared, equal) = counts.entry((one[0].0, other[0].0)).or_default();
                    (*compared, *equal) = (*compared + 1, *equal + u64::from(same));
                }
            }
        }
        let mut found: Vec<_> = counts.into_iter().filter(|(_, (compared, equal))| 2 * equal >= *compared).collect();
        found.sort_unstable_by_key(|&(hosts, (compared, equal))| (std::cmp::Reverse(equal), compared, hosts));
        let truncated = self.truncated || found.len() > MOST_PROPOSALS;
        let name = |number: u32| self.names[number as usize].clone();
        let proposals = found.into_iter().take(MOST_PROPOSALS).map(|((host, alias), (compared, equal))| HostAlias {
            host: name(host),
            alias: name(alias),
            compared,
            equal,
        });
        HostAliases { records: self.records, hosts: self.names.len() as u64, proposals: proposals.collect(), truncated }
    }
}

/// Whether two hosts have said the same on a page; what each has said is ascending. O(n + m).
fn share_a_text(one: &[(u32, u64)], other: &[(u32, u64)]) -> bool {
    let mut others = other.iter().map(|(_, text)| text).peekable();
    one.iter().any(|(_, text)| {
        while others.next_if(|other| *other < text).is_some() {}
        others.peek() == Some(&text)
    })
}
