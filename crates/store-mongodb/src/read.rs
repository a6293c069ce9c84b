//! Reads of the index: pages of buckets, and texts of candidates. `postings` reads the posting lists.
//!
//! All reads use the session of the caller, so that within a transaction or a snapshot they show one moment. A bucket is read
//! completely, but gives at most [`POSTINGS_PER_KEY`] records in the order of their addition. These are the earliest records, except
//! in a generation that was built while other records were registered.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::{ClientSession, SessionCursor};

use super::SharedStore;
use super::documents::{
    self, BLOCKS, BucketNumber, COLLECTIONS, PAGE_ENTRIES, PageDocument, RECORDS, RecordDocument, SIGNATURES,
    StoredNumber, damaged, seq_of,
};
use super::finds::{BoundedFind, FoundRows};
use super::propose::{RecordSignatures, RecordTexts};
use super::retry::TxnError;
use super::write::HighestPages;
use doppel_core::collection::{CollectionName, Keep, Radius};
use doppel_core::index::probes::{self, Probe};
use doppel_core::index::{POSTINGS_PER_KEY, ProposalOrder};
use doppel_core::record::{MAX_ID_BYTES, RecordId};
use doppel_core::verdict::Fingerprint;
use doppel_store::rules::plan::CollectionMoment;
use doppel_store::{GenerationId, Seq};

/// Number of documents in one reply: more than a lookup at radius 3 reads, unless a bucket is very large.
const BATCH: u32 = 1000;

/// Largest number of pages that share a command with other finds.
const FEW_PAGES: usize = 256;
/// Largest size of a page in bytes: for each entry the id, the fingerprint, the field names and its position in an array.
const PAGE_BYTES: usize = PAGE_ENTRIES as usize * (MAX_ID_BYTES + 48) + 128;
/// Approximate size in bytes of the fields that are read of the document of a collection. It has few generations.
const POINTER_BYTES: usize = 4 << 10;

/// A generation of a collection: the prefix of the keys of its documents.
#[derive(Clone, Copy, Debug)]
pub(super) struct GenerationKey {
    pub(super) number: StoredNumber,
    pub(super) generation: GenerationId,
    /// The order in which lookups read its posting lists.
    pub(super) order: ProposalOrder,
}

/// The state of a collection at a moment, read from its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CollectionPointer {
    pub(super) number: StoredNumber,
    pub(super) generation: GenerationId,
    /// The generations except the live one, in ascending order.
    pub(super) others: Vec<GenerationId>,
    /// The contents that are kept of a record.
    pub(super) keep: Keep,
    /// The last commit that changed a decision; 0 if there is none.
    pub(super) decided: Seq,
    /// The highest commit that was deleted from the log; 0 if there is none.
    pub(super) forgotten: Seq,
    /// The number of the last commit, which is the last number drawn.
    pub(super) commits: Seq,
}

impl CollectionPointer {
    /// Returns the state that a change must be based on. `is_overruled` is true if decisions about its record were changed since
    /// the change began.
    pub(super) fn moment(&self, is_overruled: bool) -> CollectionMoment<'_> {
        let decided = if is_overruled { self.decided } else { Seq(0) };
        CollectionMoment { live: self.generation, standby: &self.others, keep: self.keep, decided }
    }

    /// Returns the find command that reads the pointer.
    pub(super) fn find(name: &CollectionName) -> BoundedFind {
        BoundedFind::new(COLLECTIONS, doc! { "_id": name.as_str() }, Self::projection(), 1, POINTER_BYTES)
    }

    /// Decodes the result of [`CollectionPointer::find`].
    pub(super) fn found(found: &FoundRows) -> doppel_store::Result<Option<Self>> {
        found.iter().next().map(|found| Self::decode(found?)).transpose()
    }

    /// Returns the projection of the fields that [`CollectionPointer::decode`] reads.
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

/// The contents of the buckets of a fingerprint.
#[derive(Clone, Debug, Default)]
pub(super) struct BucketContents {
    /// Records within the radius, each once.
    pub(super) near: Vec<(Arc<str>, Fingerprint)>,
    /// The highest page of each bucket that has pages, and the number of entries that were added to it.
    pub(super) highest: HighestPages,
}

/// A query of the buckets around several fingerprints.
#[derive(Clone, Debug)]
pub(super) struct BucketQuery {
    fingerprints: Vec<Option<Fingerprint>>,
    radius: Radius,
    /// Pairs of a bucket and the position of a fingerprint that needs it, sorted by bucket.
    probed: Vec<(BucketNumber, usize)>,
}

impl SharedStore {
    /// Returns the highest page of each bucket of `fingerprints` that has pages. One round trip if there are fingerprints. It reads
    /// one index entry and one page of each bucket, however many pages the bucket has.
    pub(super) async fn highest_pages(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        fingerprints: impl Iterator<Item = Fingerprint>,
    ) -> Result<HighestPages, TxnError> {
        let buckets: BTreeSet<BucketNumber> = fingerprints.flat_map(documents::buckets).collect();
        if buckets.is_empty() {
            return Ok(HighestPages::new());
        }
        let buckets: Vec<BucketNumber> = buckets.into_iter().collect();
        let pipeline = vec![
            doc! { "$match": { "c": place.number, "g": place.generation.0 as i32, "b": { "$in": buckets } } },
            // With this sort and group, MongoDB scans the index from bucket to bucket.
            doc! { "$sort": { "c": -1, "g": -1, "b": -1, "p": -1 } },
            doc! { "$group": { "_id": "$b", "p": { "$first": "$p" }, "n": { "$first": "$n" } } },
        ];
        let asked = self.in_session(BLOCKS);
        let asked = asked.aggregate(pipeline).batch_size(BATCH * 10).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        let mut found = HighestPages::new();
        while cursor.advance(session).await? {
            let highest = cursor.current();
            let page = i32_of(highest, "p")?;
            found.insert(i32_of(highest, "_id")?, (page, i32_of(highest, "n")?));
        }
        Ok(found)
    }

    /// Returns the contents of the buckets of each fingerprint, in the order of the fingerprints. `found` is the result of
    /// [`BucketQuery::find`], if this command was sent. One round trip if it was not sent or did not return all pages (more if the pages
    /// have more than 16 MB). O(entries in the buckets).
    pub(super) async fn buckets(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        around: &BucketQuery,
        found: Option<FoundRows>,
    ) -> Result<Vec<BucketContents>, TxnError> {
        if let Some(pages) = found.filter(|pages| pages.len() <= FEW_PAGES) {
            return Ok(around.read_all(&pages)?);
        }
        let mut looking = around.looking();
        if let Some(filter) = around.filter(place) {
            let blocks = self.in_session(BLOCKS);
            let asked = blocks.find(filter).projection(PageDocument::projection()).batch_size(BATCH);
            // In the order of the index. A bucket may have any number of pages, so that only one page is in memory at a time.
            let mut cursor = asked.sort(doc! { "b": 1, "p": 1 }).session(&mut *session).await?;
            while cursor.advance(session).await? {
                around.read(&PageDocument::decode(cursor.current())?, &mut looking)?;
            }
        }
        Ok(looking.into_iter().map(|looking| looking.found).collect())
    }

    /// Reads the seqs of records. One round trip.
    pub(super) async fn seqs(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
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

    /// Reads records with their texts and without their verdicts, with the digests and fingerprints of this generation. One round
    /// trip, or two if some of them were registered in another generation.
    pub(super) async fn texts(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: &[&str],
    ) -> Result<RecordTexts, TxnError> {
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

    /// Reads the signatures of records, for judges that compare them. One round trip.
    pub(super) async fn signatures(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: &[&str],
    ) -> Result<RecordSignatures, TxnError> {
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

    /// Reads the record with this id, outside a transaction.
    pub(super) async fn stored(&self, number: StoredNumber, id: &RecordId) -> Result<Option<RecordDocument>, TxnError> {
        let found = self.raw(RECORDS).find_one(doc! { "_id": documents::record_key(number, id) }).await?;
        Ok(found.map(|found| RecordDocument::decode(&found)).transpose()?)
    }
}

impl BucketQuery {
    /// Returns a query of the buckets that may contain fingerprints within `radius` of each fingerprint, and of its own buckets.
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

    /// Returns the filter of the pages, or `None` if there are no buckets.
    fn filter(&self, place: GenerationKey) -> Option<Document> {
        let mut numbers: Vec<BucketNumber> = self.probed.iter().map(|(number, _)| *number).collect();
        numbers.dedup();
        let among = doc! { "c": place.number, "g": place.generation.0 as i32, "b": { "$in": &numbers } };
        (!numbers.is_empty()).then_some(among)
    }

    /// Returns the find command of the pages. It returns [`FEW_PAGES`] + 1 pages if there are more.
    pub(super) fn find(&self, place: GenerationKey) -> Option<BoundedFind> {
        let filter = self.filter(place)?;
        Some(BoundedFind::new(BLOCKS, filter, PageDocument::projection(), FEW_PAGES + 1, PAGE_BYTES))
    }

    /// Returns the contents of the buckets of each fingerprint, in the order of the fingerprints, from all their pages. O(entries
    /// in the buckets).
    fn read_all(&self, pages: &FoundRows) -> doppel_store::Result<Vec<BucketContents>> {
        let mut looking = self.looking();
        let pages = pages.iter().map(|page| PageDocument::decode(page?));
        let mut pages = pages.collect::<doppel_store::Result<Vec<_>>>()?;
        pages.sort_unstable_by_key(|page| (page.bucket, page.page));
        pages.iter().try_for_each(|page| self.read(page, &mut looking))?;
        Ok(looking.into_iter().map(|looking| looking.found).collect())
    }

    /// Returns an empty reader for each fingerprint.
    fn looking(&self) -> Vec<BucketReader> {
        self.fingerprints.iter().map(|fingerprint| BucketReader::around(*fingerprint)).collect()
    }

    /// Reads a page for all fingerprints that need its bucket. The caller passes the pages sorted by bucket and page.
    fn read(&self, page: &PageDocument<'_>, looking: &mut [BucketReader]) -> doppel_store::Result<()> {
        let first = self.probed.partition_point(|(number, _)| *number < page.bucket);
        let mut probed = self.probed[first..].iter().take_while(|(number, _)| *number == page.bucket);
        probed.try_for_each(|(_, at)| looking[*at].read(page, self.radius))
    }
}

/// Returns the buckets that may contain fingerprints within `radius`, and the buckets of the fingerprint itself.
fn probed_buckets(fingerprint: Fingerprint, radius: Radius) -> impl Iterator<Item = BucketNumber> {
    let probed = probes::probes(radius.0).iter();
    let probed = probed.map(move |probe: &Probe| documents::bucket(probe.block, probe.value(fingerprint.0)));
    probed.chain(documents::buckets(fingerprint))
}

/// Collects the contents of the buckets of one fingerprint, page by page.
struct BucketReader {
    fingerprint: Option<Fingerprint>,
    found: BucketContents,
    seen: HashSet<Arc<str>>,
    /// The bucket of the last page, and the number of records that it has given.
    taken: (BucketNumber, usize),
}

impl BucketReader {
    fn around(fingerprint: Option<Fingerprint>) -> Self {
        Self { fingerprint, found: BucketContents::default(), seen: HashSet::new(), taken: (-1, 0) }
    }

    /// Reads a page. The pages of a bucket follow one another in ascending order.
    fn read(&mut self, page: &PageDocument<'_>, radius: Radius) -> doppel_store::Result<()> {
        let Some(fingerprint) = self.fingerprint else { return Ok(()) };
        // The last page of a bucket is the highest.
        self.found.highest.insert(page.bucket, (page.page, page.pushed));
        if self.taken.0 != page.bucket {
            self.taken = (page.bucket, 0);
        }
        // After a bucket has given enough records, its other pages are only read for the number of the highest page.
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

/// Returns the filter of the signatures of records in a generation.
pub(super) fn signatures_among(place: GenerationKey, ids: &[&str]) -> Document {
    let keys = ids.iter().map(|id| doc! { "c": place.number, "g": place.generation.0 as i32, "id": *id });
    doc! { "_id": { "$in": keys.map(Bson::from).collect::<Vec<_>>() } }
}

pub(super) fn among(number: StoredNumber, ids: &[&str]) -> Document {
    let keys: Vec<Bson> = ids.iter().map(|id| Bson::from(doc! { "c": number, "id": *id })).collect();
    doc! { "_id": { "$in": keys } }
}

/// Returns an Int32 field of a document.
fn i32_of(document: &RawDocument, key: &str) -> doppel_store::Result<i32> {
    document.get_i32(key).map_err(damaged)
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
    fn the_limit_of_page_bytes_holds_for_a_full_page_of_the_longest_ids() {
        let longest = id(&"x".repeat(MAX_ID_BYTES));
        let entries = (0..PAGE_ENTRIES).map(|_| (Fingerprint(u64::MAX), longest.to_string()));
        let mut page =
            documents::page(StoredNumber::MAX, (GenerationId(u32::MAX), BucketNumber::MAX, i32::MAX), entries);
        for name in ["c", "g", "blockName"] {
            page.remove(name);
        }
        let bytes = RawDocumentBuf::try_from(&page).expect("it can be encoded").as_bytes().len();
        assert!((PAGE_BYTES / 2..=PAGE_BYTES).contains(&bytes), "{bytes}");
    }
}
