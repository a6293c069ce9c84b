//! Examines and repairs a database: whether the schema is the schema that this version needs, and whether records, signatures and pages
//! agree.
//!
//! The examination reads each collection once, without a snapshot. It then reads each suspect record again in a snapshot, so that
//! writes during the examination cause no reports. Memory: about 150 bytes for each record of the largest collection.

use futures_util::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};

use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::documents::{
    self, BLOCKS, COLLECTIONS, CollectionDocument, PageDocument, PageKey, RECORDS, RecordDocument, SIGNATURES,
    SignatureDocument, page_key, record_key, signature_key, signatures_of,
};
use super::read::GenerationKey;
use super::retry::TxnError;
use super::{MongoStore, SharedStore, records_of};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::ProposalOrder;
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Profile;
use doppel_store::generations::GenerationPhase;
use doppel_store::{ExaminationReport, Result, Seq, StoredRecord};

/// The signature and the entries of one record that the examination found.
#[derive(Default)]
struct SeenRecord {
    signature: Option<SignatureParts>,
    /// The entries that were found on the right pages, one bit for each page.
    found: u8,
    has_record: bool,
}

/// The part of a signature that is compared with records and pages.
struct SignatureParts {
    seq: Seq,
    digest: doppel_core::schemes::profile::Digest,
    fingerprint: Option<doppel_core::verdict::Fingerprint>,
    places: Vec<PageKey>,
}

/// Suspect records, each with the pages that contain wrong entries of the record.
type SuspectRecords = HashMap<String, BTreeSet<PageKey>>;

pub(super) struct ExaminedGeneration<'a> {
    pub(super) place: GenerationKey,
    pub(super) settings: &'a Settings,
    /// True if the reindex has not added all records yet.
    pub(super) is_building: bool,
    /// The profile with which posting keys are compared.
    profile: Option<Profile>,
    /// Text before each reported fault.
    prefix: String,
}

impl ExaminedGeneration<'_> {
    /// True if posting keys are compared with the keys that the profile computes.
    pub(super) fn checks_keys(&self) -> bool {
        self.profile.is_some()
    }
}

/// Returns all generations of a collection, the live generation first.
async fn examined_generations<'a>(
    shared: &SharedStore,
    collection: &'a CollectionDocument,
    keys: bool,
) -> Result<Vec<ExaminedGeneration<'a>>> {
    let CollectionDocument { number, state, .. } = collection;
    let live = (state.generation, &state.settings, false, String::new());
    let others = state.others.iter().map(|other| {
        (other.id, &other.settings, other.phase == GenerationPhase::Building, format!("generation {}: ", other.id))
    });
    let mut examined_generations = Vec::new();
    for (generation, settings, is_building, prefix) in std::iter::once(live).chain(others) {
        let place = GenerationKey { number: *number, generation, order: ProposalOrder::of(settings) };
        let profile = if keys { Some(shared.profile(place, settings).await?) } else { None };
        examined_generations.push(ExaminedGeneration { place, settings, is_building, profile, prefix });
    }
    Ok(examined_generations)
}

impl MongoStore {
    /// Examines the schema and all collections. With `repair`, it also repairs them: it repairs the schema as
    /// [`MongoStore::migrate`] does, stores the signature and entries of each faulty record again, and removes signatures and
    /// entries without a record. With `keys`, it also compares posting keys with the keys that the profile computes from the
    /// signatures.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn examine(&self, repair: bool, keys: bool) -> BoxFuture<'_, Result<ExaminationReport>> {
        Box::pin(async move {
            let shared = &self.shared;
            let mut report = ExaminationReport::default();
            let differences = shared.migrator().differences().await?;
            let faults = differences.iter().map(|(name, difference)| {
                // `*` is not an id of a record.
                ("database".to_owned(), "*".to_owned(), difference.describe(name))
            });
            report.faults.extend(faults);
            if repair && !differences.is_empty() {
                report.mended += self.migrate().await?.len() as u64;
            }
            let collections = all(shared, COLLECTIONS, doc! {}, doc! {}).await?;
            for raw in collections {
                let document = Document::try_from(raw).map_err(documents::damaged)?;
                let collection = CollectionDocument::decode(&document)?;
                for examined in examined_generations(shared, &collection, keys).await? {
                    shared.examine(&collection.state.name, &examined, repair, &mut report).await?;
                }
            }
            Ok(report)
        })
    }
}

impl SharedStore {
    async fn examine(
        &self,
        name: &CollectionName,
        examined: &ExaminedGeneration<'_>,
        repair: bool,
        report: &mut ExaminationReport,
    ) -> Result<()> {
        let before = report.records;
        let suspects = self.suspects(examined, report).await?;
        if !examined.prefix.is_empty() {
            // The records were counted with the live generation.
            report.records = before;
        }
        for (id, pages) in suspects {
            let id = RecordId::new(&id).map_err(documents::damaged)?;
            let faults = self.read(self.deadline(), || self.look_again(examined, &id, &pages)).await?;
            if faults.is_empty() {
                continue;
            }
            let faults =
                faults.into_iter().map(|fault| (name.to_string(), id.to_string(), examined.prefix.clone() + &fault));
            report.faults.extend(faults);
            if repair {
                self.mend(name, examined, &id, pages).await?;
                report.mended += 1;
            }
        }
        Ok(())
    }

    /// Reads all signatures, pages and records once, and returns the suspect records.
    async fn suspects(
        &self,
        examined: &ExaminedGeneration<'_>,
        report: &mut ExaminationReport,
    ) -> Result<SuspectRecords> {
        let place = examined.place;
        let mut seen: HashMap<String, SeenRecord> = HashMap::new();
        let mut suspects = SuspectRecords::new();
        let filter = signatures_of(place.number, place.generation);
        let mut cursor = self.raw(SIGNATURES).find(filter).await.map_err(|error| super::retry::fatal(&error))?;
        while cursor.advance().await.map_err(|error| super::retry::fatal(&error))? {
            let signature = SignatureDocument::decode(cursor.current())?;
            if !keys_agree(&signature, examined.profile.as_ref()) {
                add_suspect(&mut suspects, signature.id.as_str(), None);
            }
            let places = signature.places();
            let SignatureDocument { id, seq, digest, fingerprint, .. } = signature;
            let signature = Some(SignatureParts { seq, digest, fingerprint, places });
            seen.insert(id.as_str().to_owned(), SeenRecord { signature, ..SeenRecord::default() });
        }
        let filter = doc! { "c": place.number, "g": place.generation.0 as i32 };
        let pages = self.raw(BLOCKS);
        let pages = pages.find(filter).projection(PageDocument::projection());
        let mut cursor = pages.await.map_err(|error| super::retry::fatal(&error))?;
        while cursor.advance().await.map_err(|error| super::retry::fatal(&error))? {
            let page = PageDocument::decode(cursor.current())?;
            page.walk(|entry| {
                report.entries += 1;
                let known = seen.get_mut(entry.id);
                let at = (place.generation, page.bucket, page.page);
                if !known.is_some_and(|seen| seen.tick(at, entry.fingerprint)) {
                    add_suspect(&mut suspects, entry.id, Some(at));
                }
            })?;
        }
        let records = self.raw(RECORDS);
        let records = records.find(records_of(place.number)).projection(doc! { "seq": 1, "g": 1, "digest": 1 });
        let mut cursor = records.await.map_err(|error| super::retry::fatal(&error))?;
        while cursor.advance().await.map_err(|error| super::retry::fatal(&error))? {
            report.records += 1;
            let raw = cursor.current();
            let id = raw.get_document("_id").and_then(|key| key.get_str("id")).map_err(documents::damaged)?;
            let seq = documents::seq_of(raw.get_i64("seq").map_err(documents::damaged)?);
            // The digest of another generation cannot be compared.
            let own = raw.get_i32("g").is_ok_and(|generation| generation == place.generation.0 as i32);
            let digest = own.then(|| documents::digest_of(raw)).transpose()?;
            if examined.is_building && !seen.contains_key(id) {
                continue;
            }
            let known = seen.entry(id.to_owned()).or_default();
            known.has_record = true;
            if !known
                .signature
                .as_ref()
                .is_some_and(|signature| signature.seq == seq && digest.is_none_or(|digest| digest == signature.digest))
            {
                add_suspect(&mut suspects, id, None);
            }
        }
        for (id, seen) in &seen {
            if !seen.has_record || !seen.is_whole() {
                add_suspect(&mut suspects, id, None);
            }
        }
        Ok(suspects)
    }

    /// Reads one record again in a snapshot, and describes its faults.
    async fn look_again(
        &self,
        examined: &ExaminedGeneration<'_>,
        id: &RecordId,
        pages: &BTreeSet<PageKey>,
    ) -> std::result::Result<Vec<String>, TxnError> {
        let place = examined.place;
        let mut session = self.snapshot().await?;
        let (record, signature) = self.both(&mut session, place, id).await?;
        let mut faults = Vec::new();
        match (&record, &signature) {
            (Some(_), None) if !examined.is_building => faults.push("the record has no signature".to_owned()),
            (None, Some(_)) => faults.push("the signature has no record".to_owned()),
            (Some(record), Some(signature)) => {
                if !is_of(signature, record) {
                    faults.push("the signature is of another version of the record".to_owned());
                }
                if !keys_agree(signature, examined.profile.as_ref()) {
                    faults.push("the posting keys are not those of the signatures".to_owned());
                }
            }
            (_, None) => {}
        }
        let right = signature.as_ref().map(SignatureDocument::places).unwrap_or_default();
        let fingerprint = signature.as_ref().and_then(|signature| signature.fingerprint);
        let all: BTreeSet<_> = right.iter().chain(pages).copied().collect();
        for at in all {
            let (_, bucket, page) = at;
            let found = self.entries_of(&mut session, place, at, id).await?;
            let expected = usize::from(right.contains(&at));
            let good = found.iter().filter(|found| Some(**found) == fingerprint).count();
            if found.len() != expected || good != expected {
                let block = bucket >> 16;
                let count = found.len();
                faults.push(format!(
                    "{count} entries instead of {expected} on page {page} of its bucket in block {block}"
                ));
            }
        }
        Ok(faults)
    }

    pub(super) async fn both(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        id: &RecordId,
    ) -> std::result::Result<(Option<RecordDocument>, Option<SignatureDocument>), TxnError> {
        let key = doc! { "_id": record_key(place.number, id) };
        let record = self.in_session(RECORDS).find_one(key).session(&mut *session).await?;
        let key = doc! { "_id": signature_key(place.number, place.generation, id) };
        let signature = self.in_session(SIGNATURES).find_one(key).session(&mut *session).await?;
        let record = record.map(|raw| RecordDocument::decode(&raw)).transpose()?;
        let signature = signature.map(|raw| SignatureDocument::decode(&raw)).transpose()?;
        Ok((record, signature))
    }

    async fn entries_of(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        at: PageKey,
        id: &RecordId,
    ) -> std::result::Result<Vec<doppel_core::verdict::Fingerprint>, TxnError> {
        let asked = self.in_session(BLOCKS);
        let asked = asked
            .find_one(page_key(place.number, at))
            .projection(PageDocument::projection())
            .session(&mut *session)
            .await?;
        let mut found = Vec::new();
        if let Some(raw) = &asked {
            PageDocument::decode(raw)?.walk(|entry| {
                if entry.id == id.as_str() {
                    found.push(entry.fingerprint);
                }
            })?;
        }
        Ok(found)
    }
}

fn add_suspect(suspects: &mut SuspectRecords, id: &str, page: Option<PageKey>) {
    suspects.entry(id.to_owned()).or_default().extend(page);
}
impl SeenRecord {
    /// True if the entry is on a page of the signature and is the first entry of the record on this page. Marks the page as found.
    fn tick(&mut self, page: PageKey, fingerprint: doppel_core::verdict::Fingerprint) -> bool {
        let Some(signature) = &self.signature else { return false };
        let at = signature.places.iter().position(|place| *place == page);
        let bit = at.map_or(0, |at| 1_u8 << at);
        let first = bit != 0 && self.found & bit == 0 && signature.fingerprint == Some(fingerprint);
        self.found |= bit;
        first
    }

    fn is_whole(&self) -> bool {
        let expected = self.signature.as_ref().map_or(0, |signature| signature.places.len());
        let required = self.signature.as_ref().is_none_or(|s| s.fingerprint.is_some() != s.places.is_empty());
        required && self.found.count_ones() as usize == expected
    }
}

/// True if the signature belongs to this version of the record.
pub(super) fn is_of(signature: &SignatureDocument, record: &RecordDocument) -> bool {
    let StoredRecord { seq, digest, digest_generation, .. } = &record.record;
    // The digest of another generation cannot be compared.
    *seq == signature.seq && (*digest_generation != signature.generation || *digest == signature.digest)
}

fn keys_agree(signature: &SignatureDocument, profile: Option<&Profile>) -> bool {
    let (Some(profile), Some(signed)) = (profile, &signature.signed) else { return true };
    let made = profile.keys(&signed.signatures);
    signature.keys == made
}

async fn all(shared: &SharedStore, name: &str, filter: Document, projection: Document) -> Result<Vec<RawDocumentBuf>> {
    let reading = shared.read(shared.deadline(), || async {
        let collection = shared.raw(name);
        let mut cursor = collection.find(filter.clone()).projection(projection.clone()).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.current().to_owned());
        }
        Ok(found)
    });
    reading.await
}
