//! Filing stored records in a generation that is being built: many in one transaction.
//!
//! A transaction writes to each record that it files, so that it conflicts with a removal or replacement going on, and one of
//! the two sees what the other did. It takes no latches: nobody looks the generation up yet, and pages are
//! kept in order by conflicts on themselves. The more records at once, the fewer round trips for each, and the more
//! registrations meet one of its pages; where they do too often, it tries with fewer.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::Shared;
use super::documents::{self, BucketNumber, Number, Page, RECORDS, SIGNATURES, SignatureDocument};
use super::read::{Place, among, next, signatures_among};
use super::retry::{End, Trouble, Work};
use super::write::{Highest, take_pages};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;
use doppel_store::generations::Filing;
use doppel_store::{GenerationId, Result, StoreError};

/// Records of one transaction. In one `cargo bench --bench mongodb` each: alone 4,200 records/s with 128 and 5,400 with 512;
/// beside eight writers 1,200 with 128 and 400 with 512, because a long transaction meets more registrations.
const AT_ONCE: usize = 128;

impl Shared {
    pub(super) async fn file(&self, name: &CollectionName, generation: GenerationId, batch: &[Filing]) -> Result<u64> {
        let number = self.beside(name, generation).await?;
        let place = Place { number, generation };
        let (mut filed, mut at_once, mut left) = (0, AT_ONCE, batch);
        while !left.is_empty() {
            let (now, later) = left.split_at(at_once.min(left.len()));
            let mut work = FilingBatch { shared: self, name, place, batch: now };
            match self.retry.transact(&self.client, self.deadline(), &mut work).await {
                Ok(count) => {
                    filed += count;
                    left = later;
                    at_once = (at_once * 2).min(AT_ONCE);
                }
                Err(StoreError::Unavailable { .. }) if now.len() > 1 => at_once = now.len().div_ceil(4),
                Err(error) => return Err(error),
            }
        }
        Ok(filed)
    }
}

struct FilingBatch<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    place: Place,
    batch: &'a [Filing],
}

#[async_trait]
impl Work for FilingBatch<'_> {
    type Answer = u64;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<u64>, Trouble> {
        let Self { shared, name, place, .. } = *self;
        let pointer = shared.pointer(session, name).await?;
        let there =
            |number: Number, others: &[GenerationId]| number == place.number && others.contains(&place.generation);
        match pointer {
            None => return Err(StoreError::UnknownCollection(name.clone()).into()),
            Some(pointer) if there(pointer.number, &pointer.others) => {}
            Some(_) => {
                let (collection, generation) = (name.clone(), place.generation);
                return Err(StoreError::UnknownGeneration { collection, generation }.into());
            }
        }
        let batch = self.missing(session).await?;
        if batch.is_empty() {
            return Ok(End::Abort(0));
        }
        let ids: Vec<&str> = batch.iter().map(|filing| filing.id.as_str()).collect();
        let touch = doc! { "$set": { "filed": place.generation as i32 } };
        shared.documents(RECORDS).update_many(among(place.number, &ids), touch).session(&mut *session).await?;
        let fingerprints = batch.iter().filter_map(|filing| filing.signed.fingerprint());
        let mut buckets: Vec<BucketNumber> = fingerprints.flat_map(documents::buckets).collect();
        buckets.sort_unstable();
        buckets.dedup();
        let mut highest = shared.highest_pages(session, place, buckets).await?;
        let (signatures, entries) = lay_out(place.generation, &batch, &mut highest);
        shared.put_signatures(session, place.number, &signatures, false).await?;
        shared.push_entries(session, place.number, &entries).await?;
        Ok(End::Commit(batch.len() as u64))
    }
}

impl<'a> FilingBatch<'a> {
    /// What is to be filed: records that are there as they were signed, and are not filed yet. Each once.
    async fn missing(&self, session: &mut ClientSession) -> std::result::Result<Vec<&'a Filing>, Trouble> {
        let ids: Vec<&str> = self.batch.iter().map(|filing| filing.id.as_str()).collect();
        let seqs = self.shared.seqs(session, self.place.number, &ids).await?;
        let signatures = self.shared.in_session(SIGNATURES);
        let there = signatures.find(signatures_among(self.place, &ids)).projection(doc! { "_id": 1 });
        let mut cursor = there.session(&mut *session).await?;
        let mut done = HashSet::new();
        while let Some(found) = next(&mut cursor, session).await? {
            let id = found.get_document("_id").and_then(|key| key.get_str("id")).map_err(documents::damaged)?;
            done.insert(id.to_owned());
        }
        let batch = self.batch.iter();
        let wanted = batch.filter(|filing| seqs.get(filing.id.as_str()) == Some(&filing.seq));
        Ok(wanted.filter(|filing| done.insert(filing.id.as_str().to_owned())).collect())
    }
}

/// Entries by page.
type Entries<'a> = BTreeMap<Page, Vec<(Fingerprint, &'a RecordId)>>;

/// Signatures and entries of a batch.
fn lay_out<'a>(
    generation: GenerationId,
    batch: &[&'a Filing],
    highest: &mut Highest,
) -> (Vec<SignatureDocument>, Entries<'a>) {
    let mut entries = Entries::new();
    let signatures = batch.iter().map(|filing| {
        let Filing { id, seq, signed } = *filing;
        let fingerprint = signed.fingerprint();
        let pages = fingerprint.map(|fingerprint| take_pages(fingerprint, highest));
        let signature = SignatureDocument::of(id, generation, *seq, signed, pages);
        for page in signature.places() {
            entries.entry(page).or_default().extend(fingerprint.map(|fingerprint| (fingerprint, id)));
        }
        signature
    });
    (signatures.collect(), entries)
}
