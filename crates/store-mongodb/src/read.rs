//! Reading the index: pages of buckets, texts of candidates. `postings` reads the rest.
//!
//! All in the caller's session, so that within a transaction or a snapshot they show one instant. A bucket is read whole, but
//! gives at most [`POSTINGS_PER_KEY`] records, the first that were filed: the earliest, but in a generation that was built while others
//! were registered.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::{ClientSession, SessionCursor};

use super::Shared;
use super::documents::{
    self, BLOCKS, BucketNumber, COLLECTIONS, Number, PAGE_ENTRIES, PageDocument, RECORDS, RecordDocument, SIGNATURES,
    damaged, seq_of,
};
use super::finds::{Find, Rows};
use super::propose::{Signatures, Texts};
use super::retry::TxnError;
use super::write::Highest;
use doppel_core::collection::{CollectionName, Keep, Radius};
use doppel_core::index::POSTINGS_PER_KEY;
use doppel_core::index::probes::{self, Probe};
use doppel_core::record::{MAX_ID_BYTES, RecordId};
use doppel_core::verdict::Fingerprint;
use doppel_store::rules::plan::Moment;
use doppel_store::{GenerationId, Seq};

/// Documents of one reply: more than a lookup at radius 3 reads, unless a bucket is huge.
const BATCH: u32 = 1000;

/// Pages that share a command with other finds.
const FEW_PAGES: usize = 256;
/// Bytes of a page, at most: of each entry the id, the fingerprint, names and its place in an array.
const PAGE_BYTES: usize = PAGE_ENTRIES as usize * (MAX_ID_BYTES + 48) + 128;
/// Bytes of what is read of a collection's document, about: there are few generations beside the live one.
const POINTER_BYTES: usize = 4 << 10;

/// Names a generation of a collection: what the keys of its documents begin with.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenerationKey {
    pub(super) number: Number,
    pub(super) generation: GenerationId,
}

/// What a collection's document says of the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) number: Number,
    pub(super) generation: GenerationId,
    /// The generations beside the live one, ascending.
    pub(super) others: Vec<GenerationId>,
    /// What is kept of a record.
    pub(super) keep: Keep,
    /// The commit that changed a decision last; 0 where none did.
    pub(super) decided: Seq,
    /// The highest commit that is not logged any more; 0 where all are.
    pub(super) forgotten: Seq,
    /// The number of the last commit, the last number drawn.
    pub(super) commits: Seq,
}

impl Pointer {
    /// What a change must rest on, where decisions about its record were changed since, or none was.
    pub(super) fn moment(&self, is_overruled: bool) -> Moment<'_> {
        let decided = if is_overruled { self.decided } else { Seq(0) };
        Moment { live: self.generation, standby: &self.others, keep: self.keep, decided }
    }

    /// Finds it.
    pub(super) fn find(name: &CollectionName) -> Find {
        Find::new(COLLECTIONS, doc! { "_id": name.as_str() }, Self::projection(), (1, POINTER_BYTES))
    }

    /// From what that found.
    pub(super) fn found(found: &Rows) -> doppel_store::Result<Option<Self>> {
        found.iter().next().map(|found| Self::decode(found?)).transpose()
    }

    /// What of a collection's document it is read from.
    pub(super) fn projection() -> Document {
        doc! {
            "number": 1, "generation": 1, "others.id": 1, "settings.keep": 1, "decided": 1, "forgotten": 1, "commits": 1,
        }
    }

    pub(super) fn decode(document: &RawDocument) -> doppel_store::Result<Self> {
        let mut others = Vec::new();
        if let Some(RawBsonRef::Array(array)) = document.get("others").map_err(damaged)? {
            for other in array {
                let other = other.map_err(damaged)?.as_document().map(|other| other.get_i32("id"));
                let id = other.ok_or_else(|| damaged("a generation is not a document"))?.map_err(damaged)?;
                others.push(documents::generation_of(id));
            }
        }
        Ok(Self {
            number: document.get_i32("number").map_err(damaged)?,
            generation: documents::generation_of(document.get_i32("generation").map_err(damaged)?),
            others,
            keep: documents::keep_of(document)?,
            decided: seq_of(documents::optional_i64(document, "decided")?.unwrap_or(0)),
            forgotten: seq_of(documents::optional_i64(document, "forgotten")?.unwrap_or(0)),
            commits: seq_of(document.get_i64("commits").map_err(damaged)?),
        })
    }
}

/// What the buckets of a fingerprint hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// Records within the radius, each once.
    pub(super) near: Vec<(Arc<str>, Fingerprint)>,
    /// The highest page of each bucket that has one, and how often it was pushed to.
    pub(super) highest: Highest,
}

/// The buckets that are to be read for fingerprints.
#[derive(Clone, Debug)]
pub(super) struct BucketQuery {
    fingerprints: Vec<Option<Fingerprint>>,
    radius: Radius,
    /// By bucket, and the position of a fingerprint that it is read for.
    probed: Vec<(BucketNumber, usize)>,
}

impl Shared {
    /// The highest page of each bucket of `fingerprints` that has one. One round trip if there is any, and for each bucket one index
    /// entry and one page, however many it has.
    pub(super) async fn highest_pages(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        fingerprints: impl Iterator<Item = Fingerprint>,
    ) -> Result<Highest, TxnError> {
        let buckets: BTreeSet<BucketNumber> = fingerprints.flat_map(documents::buckets).collect();
        if buckets.is_empty() {
            return Ok(Highest::new());
        }
        let buckets: Vec<BucketNumber> = buckets.into_iter().collect();
        let pipeline = vec![
            doc! { "$match": { "c": place.number, "g": place.generation.0 as i32, "b": { "$in": buckets } } },
            // Sorted and grouped so, the index is walked from bucket to bucket.
            doc! { "$sort": { "c": -1, "g": -1, "b": -1, "p": -1 } },
            doc! { "$group": { "_id": "$b", "p": { "$first": "$p" }, "n": { "$first": "$n" } } },
        ];
        let asked = self.in_session(BLOCKS);
        let asked = asked.aggregate(pipeline).batch_size(BATCH * 10).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        let mut found = Highest::new();
        while cursor.advance(session).await? {
            let highest = cursor.current();
            let number = |key: &str| highest.get_i32(key).map_err(damaged);
            found.insert(number("_id")?, (number("p")?, number("n")?));
        }
        Ok(found)
    }

    /// What the buckets hold for each fingerprint, in the order of these; `found` is what [`BucketQuery::find`] found, if it was
    /// asked. One round trip where it was not, or did not find all (more where the pages take more than 16 MB). O(entries in the
    /// buckets).
    pub(super) async fn buckets(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        around: &BucketQuery,
        found: Option<Rows>,
    ) -> Result<Vec<Buckets>, TxnError> {
        if let Some(pages) = found.filter(|pages| pages.len() <= FEW_PAGES) {
            return Ok(around.read_all(&pages)?);
        }
        let mut looking = around.looking();
        if let Some(filter) = around.filter(place) {
            let blocks = self.in_session(BLOCKS);
            let asked = blocks.find(filter).projection(PageDocument::projection()).batch_size(BATCH);
            // In the order of the index. A bucket may have any number of pages: one at a time.
            let mut cursor = asked.sort(doc! { "b": 1, "p": 1 }).session(&mut *session).await?;
            while cursor.advance(session).await? {
                around.read(&PageDocument::decode(cursor.current())?, &mut looking)?;
            }
        }
        Ok(looking.into_iter().map(|looking| looking.found).collect())
    }

    /// The seqs of records. One round trip.
    pub(super) async fn seqs(
        &self,
        session: &mut ClientSession,
        number: Number,
        ids: &[&str],
    ) -> Result<HashMap<String, Seq>, TxnError> {
        let records = self.in_session(RECORDS);
        let asked = records.find(among(number, ids)).projection(doc! { "seq": 1 }).batch_size(BATCH * 10);
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = HashMap::with_capacity(ids.len());
        while let Some(record) = next(&mut cursor, session).await? {
            let id = record.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            found.insert(id.to_owned(), seq_of(record.get_i64("seq").map_err(damaged)?));
        }
        Ok(found)
    }

    /// Records with their texts, without their verdicts, as the generation sees them. One round trip, or two where some of
    /// them were registered under another generation.
    pub(super) async fn texts(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: &[&str],
    ) -> Result<Texts, TxnError> {
        let records = self.in_session(RECORDS);
        let asked = records.find(among(place.number, ids)).projection(doc! { "verdict": 0 }).batch_size(BATCH);
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = HashMap::with_capacity(ids.len());
        let mut elsewhere = HashMap::new();
        while cursor.advance(session).await? {
            let record = RecordDocument::decode(cursor.current())?;
            let list = if record.record.digest_generation == place.generation { &mut found } else { &mut elsewhere };
            list.insert(Arc::<str>::from(record.record.id.as_str()), record);
        }
        if !elsewhere.is_empty() {
            let ids: Vec<&str> = elsewhere.keys().map(|id| &**id).collect();
            let all = self.in_session(SIGNATURES);
            let asked = all.find(signatures_among(place, &ids)).projection(doc! { "digest": 1, "fingerprint": 1 });
            let mut cursor = asked.batch_size(BATCH).session(&mut *session).await?;
            while let Some(signature) = next(&mut cursor, session).await? {
                let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
                if let Some((id, mut record)) = elsewhere.remove_entry(id) {
                    record.see_as(place.generation, &signature)?;
                    found.insert(id, record);
                }
            }
        }
        Ok(found)
    }

    /// The signatures of records, for judges that compare them. One round trip.
    pub(super) async fn signatures(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: &[&str],
    ) -> Result<Signatures, TxnError> {
        let all = self.in_session(SIGNATURES);
        let asked = all.find(signatures_among(place, ids)).projection(doc! { "signed": 1 });
        let mut cursor = asked.batch_size(BATCH).session(&mut *session).await?;
        let mut found = HashMap::with_capacity(ids.len());
        while let Some(signature) = next(&mut cursor, session).await? {
            let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            let signed = documents::signed_of(&signature)?;
            found.insert(id.into(), signed.map(|signed| signed.signatures).unwrap_or_default());
        }
        Ok(found)
    }

    /// What is stored under an id. Outside a transaction.
    pub(super) async fn stored(&self, number: Number, id: &RecordId) -> Result<Option<RecordDocument>, TxnError> {
        let found = self.raw(RECORDS).find_one(doc! { "_id": documents::record_key(number, id) }).await?;
        Ok(found.map(|found| RecordDocument::decode(&found)).transpose()?)
    }
}

impl BucketQuery {
    /// For each fingerprint the buckets that may hold others within `radius`, and those that it belongs to itself.
    pub(super) fn around(fingerprints: &[Option<Fingerprint>], radius: Radius) -> Self {
        let mut probed: Vec<(BucketNumber, usize)> = Vec::new();
        for (at, fingerprint) in fingerprints.iter().enumerate() {
            let numbers = fingerprint.iter().flat_map(|fingerprint| probed_buckets(*fingerprint, radius));
            probed.extend(numbers.map(|number| (number, at)));
        }
        probed.sort_unstable();
        probed.dedup();
        Self { fingerprints: fingerprints.to_vec(), radius, probed }
    }

    /// The filter of their pages; `None` if there are no buckets.
    fn filter(&self, place: GenerationKey) -> Option<Document> {
        let mut numbers: Vec<BucketNumber> = self.probed.iter().map(|(number, _)| *number).collect();
        numbers.dedup();
        let among = doc! { "c": place.number, "g": place.generation.0 as i32, "b": { "$in": &numbers } };
        (!numbers.is_empty()).then_some(among)
    }

    /// Finds their pages, one more than [`FEW_PAGES`] if there are more.
    pub(super) fn find(&self, place: GenerationKey) -> Option<Find> {
        let filter = self.filter(place)?;
        Some(Find::new(BLOCKS, filter, PageDocument::projection(), (FEW_PAGES + 1, PAGE_BYTES)))
    }

    /// What the buckets hold for each fingerprint, in the order of these, from all their pages. O(entries in the buckets).
    fn read_all(&self, pages: &Rows) -> doppel_store::Result<Vec<Buckets>> {
        let mut looking = self.looking();
        let pages = pages.iter().map(|page| PageDocument::decode(page?));
        let mut pages = pages.collect::<doppel_store::Result<Vec<_>>>()?;
        pages.sort_unstable_by_key(|page| (page.bucket, page.page));
        pages.iter().try_for_each(|page| self.read(page, &mut looking))?;
        Ok(looking.into_iter().map(|looking| looking.found).collect())
    }

    /// For each fingerprint, what will be found.
    fn looking(&self) -> Vec<Looking> {
        self.fingerprints.iter().map(|fingerprint| Looking::around(*fingerprint)).collect()
    }

    /// Reads a page for those fingerprints that its bucket is read for. Pages come in the order of buckets, then of pages.
    fn read(&self, page: &PageDocument<'_>, looking: &mut [Looking]) -> doppel_store::Result<()> {
        let first = self.probed.partition_point(|(number, _)| *number < page.bucket);
        let mut probed = self.probed[first..].iter().take_while(|(number, _)| *number == page.bucket);
        probed.try_for_each(|(_, at)| looking[*at].read(page, self.radius))
    }
}

/// The buckets of what may lie within `radius` of a fingerprint, and its own.
fn probed_buckets(fingerprint: Fingerprint, radius: Radius) -> impl Iterator<Item = BucketNumber> {
    let probed = probes::probes(radius.0).iter();
    let probed = probed.map(move |probe: &Probe| documents::bucket(probe.block, probe.value(fingerprint.0)));
    probed.chain(documents::buckets(fingerprint))
}

/// What one fingerprint's buckets hold, page by page.
struct Looking {
    fingerprint: Option<Fingerprint>,
    found: Buckets,
    seen: HashSet<Arc<str>>,
    /// How many records the bucket that was read last has given.
    taken: (BucketNumber, usize),
}

impl Looking {
    fn around(fingerprint: Option<Fingerprint>) -> Self {
        Self { fingerprint, found: Buckets::default(), seen: HashSet::new(), taken: (-1, 0) }
    }

    /// Reads a page; those of a bucket come ascending, one bucket after the other.
    fn read(&mut self, page: &PageDocument<'_>, radius: Radius) -> doppel_store::Result<()> {
        let Some(fingerprint) = self.fingerprint else { return Ok(()) };
        // The last one seen is the highest.
        self.found.highest.insert(page.bucket, (page.page, page.pushed));
        if self.taken.0 != page.bucket {
            self.taken = (page.bucket, 0);
        }
        // Of a bucket that has given its share, the number of its highest page is left to learn.
        if self.taken.1 > POSTINGS_PER_KEY {
            return Ok(());
        }
        page.walk(|entry| {
            if self.taken.1 <= POSTINGS_PER_KEY && fingerprint.distance(entry.fingerprint) <= radius.0 {
                self.taken.1 += 1;
                if !self.seen.contains(entry.id) {
                    let id = Arc::<str>::from(entry.id);
                    self.found.near.push((Arc::clone(&id), entry.fingerprint));
                    self.seen.insert(id);
                }
            }
        })
    }
}

/// The filter of what a generation has filed of records.
pub(super) fn signatures_among(place: GenerationKey, ids: &[&str]) -> Document {
    let keys = ids.iter().map(|id| doc! { "c": place.number, "g": place.generation.0 as i32, "id": *id });
    doc! { "_id": { "$in": keys.map(Bson::from).collect::<Vec<_>>() } }
}

pub(super) fn among(number: Number, ids: &[&str]) -> Document {
    let keys: Vec<Bson> = ids.iter().map(|id| Bson::from(doc! { "c": number, "id": *id })).collect();
    doc! { "_id": { "$in": keys } }
}

pub(super) async fn next(
    cursor: &mut SessionCursor<RawDocumentBuf>,
    session: &mut ClientSession,
) -> Result<Option<RawDocumentBuf>, TxnError> {
    if !cursor.advance(session).await? {
        return Ok(None);
    }
    Ok(Some(cursor.current().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::conformance::id;

    #[test]
    fn a_full_page_of_the_longest_ids_has_no_more_bytes_than_a_find_reckons_with() {
        let longest = id(&"x".repeat(MAX_ID_BYTES));
        let entries = (0..PAGE_ENTRIES).map(|_| (Fingerprint(u64::MAX), longest.to_string()));
        let mut page = documents::page(Number::MAX, (GenerationId(u32::MAX), BucketNumber::MAX, i32::MAX), entries);
        for name in ["c", "g", "blockName"] {
            page.remove(name);
        }
        let bytes = RawDocumentBuf::try_from(&page).expect("it can be encoded").as_bytes().len();
        assert!((PAGE_BYTES / 2..=PAGE_BYTES).contains(&bytes), "{bytes}");
    }
}
