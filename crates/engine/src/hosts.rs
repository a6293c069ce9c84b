//! Proposals of host names that mean the same web site, from stored records: two names under which the same pages have the same text (the
//! second method against duplicate addresses in the article on web pages: comparing the first pages of two hosts).
//!
//! This module fetches nothing and changes nothing. A person who accepts a proposal adds it to `host_aliases` and reindexes.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use crate::boxed;
use crate::context::Context;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::{CollectionName, Role};
use doppel_core::schemes::hash::city64;
use doppel_core::text::url::host_and_page;
use doppel_store::{Seq, StoredRecord};

/// Number of records that are read at once.
const PIECE: usize = 1_000;
/// Largest number of hosts that are compared for one page name, the earliest hosts: every host has a home page, and the number of pairs is
/// quadratic.
const HOSTS_PER_PAGE: usize = 64;
/// Largest number of proposals in an answer.
const MOST_PROPOSALS: usize = 1_000;

/// Host names that probably belong to the same web site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostAliases {
    /// Number of records that were read: the earliest records of the collection.
    pub records: u64,
    /// Number of host names in the fields of role `url` of these records.
    pub hosts: u64,
    /// The proposed pairs of host names, the pair with the most pages of equal text first.
    #[schema(max_items = 1_000)]
    pub proposals: Vec<HostAlias>,
    /// True if a limit left out records, hosts of one page, or proposals.
    pub truncated: bool,
}

/// Two host names that probably belong to the same web site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct HostAlias {
    /// The host name that was registered first.
    pub host: String,
    /// The host name that was registered later.
    pub alias: String,
    /// Number of pages (path and query) with records under both host names.
    pub compared: u64,
    /// Number of these pages whose texts are equal: at least half of `compared`.
    pub equal: u64,
}

/// The pages of hosts, with hashes of their texts.
#[derive(Default)]
struct HostPages {
    records: u64,
    /// Host names in the order of their first records.
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Hash of a page's path → the hosts that have the page, each with the hash of its text.
    pages: HashMap<u64, Vec<(u32, u64)>>,
    truncated: bool,
}

impl Engine {
    /// Proposes host aliases from the `most` earliest records. O(their bytes); memory: some 40 bytes for each address.
    ///
    /// # Errors
    /// An unknown collection, or a collection that keeps no text.
    #[boxed]
    pub async fn host_aliases(&self, collection: &CollectionName, most: usize) -> Result<HostAliases> {
        let context = self.context_with_text(collection, "host aliases are proposed from texts").await?;
        let mut pages = HostPages::default();
        let mut last = Seq(0);
        let mut left = most;
        while left > 0 {
            let records = self.store.records(collection, last, PIECE.min(left)).await?;
            let Some(end) = records.last() else { break };
            last = end.seq;
            left -= records.len();
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

impl HostPages {
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
            // An empty text is no evidence.
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
                    *compared += 1;
                    *equal += u64::from(same);
                }
            }
        }
        let mut found: Vec<_> = counts.into_iter().filter(|(_, (compared, equal))| 2 * equal >= *compared).collect();
        found.sort_unstable_by_key(|&(hosts, (compared, equal))| (std::cmp::Reverse(equal), compared, hosts));
        let truncated = self.truncated || found.len() > MOST_PROPOSALS;
        let proposals = found.into_iter().take(MOST_PROPOSALS).map(|((host, alias), (compared, equal))| HostAlias {
            host: self.names[host as usize].clone(),
            alias: self.names[alias as usize].clone(),
            compared,
            equal,
        });
        HostAliases { records: self.records, hosts: self.names.len() as u64, proposals: proposals.collect(), truncated }
    }
}

/// True if two hosts have the same text for a page. The texts of each host ascend. O(n + m).
fn share_a_text(one: &[(u32, u64)], other: &[(u32, u64)]) -> bool {
    let mut others = other.iter().map(|(_, text)| text).peekable();
    one.iter().any(|(_, text)| {
        while others.next_if(|other| *other < text).is_some() {}
        others.peek() == Some(&text)
    })
}
