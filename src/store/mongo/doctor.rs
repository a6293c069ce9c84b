//! Whether records, signatures and pages belong together, and how to mend what does not.
//!
//! Each collection is read once, in no particular instant; what looks wrong is looked at again in one snapshot, so that writes
//! going on meanwhile are not reported. Memory: about 150 bytes a record of the largest collection.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::SessionOptions;

use super::documents::{
    self, BLOCKS, BucketNumber, COLLECTIONS, CollectionDocument, PageDocument, RECORDS, RecordDocument, SIGNATURES,
    SignatureDocument, record_key, signature_key, signatures_of,
};
use super::latches::latches;
use super::read::Place;
use super::register::simhash_channel;
use super::retry::{End, Trouble, Work};
use super::write::pages_for;
use super::{MongoStore, Shared, records_of};
use crate::record::{RecordId, Row};
use crate::schemes::profile::{Profile, Signed};
use crate::store::{CollectionState, Result, StoreError};

/// What was examined and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records.
    pub records: u64,
    /// Entries of pages.
    pub entries: u64,
    /// What is wrong: collection, record, and what in words.
    pub faults: Vec<(String, String, String)>,
    /// How many of the records with faults were mended.
    pub mended: u64,
}

/// What the pages and signatures say of one record.
#[derive(Default)]
struct Seen {
    signature: Option<Signed4>,
    /// Entries on their right pages, one bit each.
    found: u8,
    has_record: bool,
}

/// The part of a signature that is compared.
struct Signed4 {
    seq: u64,
    digest: crate::schemes::profile::Digest,
    fingerprint: Option<crate::verdict::Fingerprint>,
    places: Vec<(BucketNumber, i32)>,
}

/// Records that looked wrong, with every page that holds an entry of theirs in the wrong place.
type Suspects = HashMap<String, BTreeSet<(BucketNumber, i32)>>;

impl MongoStore {
    /// Examines all collections. With `repair`, mends what it finds: a record that is there is filed anew under its signatures, what
    /// belongs to no record is removed. `keys` also compares posting keys with what the profile makes of the signatures.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn examine(&self, repair: bool, keys: bool) -> Result<Report> {
        let shared = &self.shared;
        let mut report = Report::default();
        let collections = all(shared, COLLECTIONS, doc! {}, doc! {}).await?;
        for raw in collections {
            let document = Document::try_from(raw).map_err(documents::damaged)?;
            let collection = CollectionDocument::decode(&document)?;
            shared.examine(&collection, repair, keys, &mut report).await?;
        }
        Ok(report)
    }
}

impl Shared {
    async fn examine(
        &self,
        collection: &CollectionDocument,
        repair: bool,
        keys: bool,
        report: &mut Report,
    ) -> Result<()> {
        let place = Place { number: collection.number, generation: collection.state.generation };
        let profile = keys.then(|| Profile::compile(&collection.state.settings, None));
        let suspects = self.suspects(place, profile.as_ref(), report).await?;
        for (id, pages) in suspects {
            let id = RecordId::new(&id).map_err(documents::damaged)?;
            let faults = self.read(self.deadline(), || self.look_again(place, &id, &pages, profile.as_ref())).await?;
            if faults.is_empty() {
                continue;
            }
            let name = collection.state.name.to_string();
            report.faults.extend(faults.into_iter().map(|fault| (name.clone(), id.to_string(), fault)));
            if repair {
                self.mend(place, &collection.state, &id, pages).await?;
                report.mended += 1;
            }
        }
        Ok(())
    }

    /// One pass over signatures, pages and records.
    async fn suspects(&self, place: Place, profile: Option<&Profile>, report: &mut Report) -> Result<Suspects> {
        let mut seen: HashMap<String, Seen> = HashMap::new();
        let mut suspects = Suspects::new();
        let mut suspect = |id: &str, page: Option<(BucketNumber, i32)>| {
            suspects.entry(id.to_owned()).or_default().extend(page);
        };
        let filter = signatures_of(place.number, place.generation);
        let mut cursor = self.raw(SIGNATURES).find(filter).await.map_err(|error| super::retry::fatal(&error))?;
        while cursor.advance().await.map_err(|error| super::retry::fatal(&error))? {
            let signature = SignatureDocument::decode(cursor.current())?;
            if !keys_agree(&signature, profile) {
                suspect(signature.id.as_str(), None);
            }
            let places = signature.places();
            let SignatureDocument { id, seq, digest, fingerprint, .. } = signature;
            let signature = Some(Signed4 { seq, digest, fingerprint, places });
            seen.insert(id.as_str().to_owned(), Seen { signature, ..Seen::default() });
        }
        let filter = doc! { "c": place.number, "g": place.generation as i32 };
        let pages = self.raw(BLOCKS);
        let pages = pages.find(filter).projection(PageDocument::projection());
        let mut cursor = pages.await.map_err(|error| super::retry::fatal(&error))?;
        while cursor.advance().await.map_err(|error| super::retry::fatal(&error))? {
            let page = PageDocument::decode(cursor.current())?;
            page.walk(|entry| {
                report.entries += 1;
                let known = seen.get_mut(entry.id);
                let right = known.is_some_and(|seen| seen.tick((page.bucket, page.page), entry.fingerprint));
                if !right {
                    suspect(entry.id, Some((page.bucket, page.page)));
                }
            })?;
        }
        let records = self.raw(RECORDS);
        let records = records.find(records_of(place.number)).projection(doc! { "seq": 1, "digest": 1 });
        let mut cursor = records.await.map_err(|error| super::retry::fatal(&error))?;
        while cursor.advance().await.map_err(|error| super::retry::fatal(&error))? {
            report.records += 1;
            let raw = cursor.current();
            let id = raw.get_document("_id").and_then(|key| key.get_str("id")).map_err(documents::damaged)?;
            let seq = raw.get_i64("seq").map_err(documents::damaged)? as u64;
            let digest = documents::digest_of(raw)?;
            let known = seen.entry(id.to_owned()).or_default();
            known.has_record = true;
            if !known.signature.as_ref().is_some_and(|signature| signature.seq == seq && signature.digest == digest) {
                suspect(id, None);
            }
        }
        for (id, seen) in &seen {
            if !seen.has_record || !seen.is_whole() {
                suspect(id, None);
            }
        }
        Ok(suspects)
    }

    /// What is wrong with one record, all read in one snapshot; in words.
    async fn look_again(
        &self,
        place: Place,
        id: &RecordId,
        pages: &BTreeSet<(BucketNumber, i32)>,
        profile: Option<&Profile>,
    ) -> std::result::Result<Vec<String>, Trouble> {
        let options = SessionOptions::builder().snapshot(true).build();
        let mut session = self.client.start_session().with_options(options).await?;
        let (record, signature) = self.both(&mut session, place, id).await?;
        let mut faults = Vec::new();
        match (&record, &signature) {
            (Some(_), None) => faults.push("the record has no signature".to_owned()),
            (None, Some(_)) => faults.push("the signature has no record".to_owned()),
            (Some(record), Some(signature)) => {
                if record.record.seq != signature.seq || record.record.digest != signature.digest {
                    faults.push("the signature is of another version of the record".to_owned());
                }
                if !keys_agree(signature, profile) {
                    faults.push("the posting keys are not those of the signatures".to_owned());
                }
            }
            (None, None) => {}
        }
        let right = signature.as_ref().map(SignatureDocument::places).unwrap_or_default();
        let fingerprint = signature.as_ref().and_then(|signature| signature.fingerprint);
        let all: BTreeSet<_> = right.iter().chain(pages).copied().collect();
        for (bucket, page) in all {
            let found = self.entries_of(&mut session, place, (bucket, page), id).await?;
            let expected = usize::from(right.contains(&(bucket, page)));
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

    async fn both(
        &self,
        session: &mut ClientSession,
        place: Place,
        id: &RecordId,
    ) -> std::result::Result<(Option<RecordDocument>, Option<SignatureDocument>), Trouble> {
        let key = doc! { "_id": record_key(place.number, id) };
        let record = self.raw(RECORDS).find_one(key).session(&mut *session).await?;
        let key = doc! { "_id": signature_key(place.number, place.generation, id) };
        let signature = self.raw(SIGNATURES).find_one(key).session(&mut *session).await?;
        let record = record.map(|raw| RecordDocument::decode(&raw)).transpose()?;
        let signature = signature.map(|raw| SignatureDocument::decode(&raw)).transpose()?;
        Ok((record, signature))
    }

    async fn entries_of(
        &self,
        session: &mut ClientSession,
        place: Place,
        (bucket, page): (BucketNumber, i32),
        id: &RecordId,
    ) -> std::result::Result<Vec<crate::verdict::Fingerprint>, Trouble> {
        let key = doc! { "c": place.number, "g": place.generation as i32, "b": bucket, "p": page };
        let asked = self.raw(BLOCKS);
        let asked = asked.find_one(key).projection(PageDocument::projection()).session(&mut *session).await?;
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

    async fn mend(
        &self,
        place: Place,
        state: &CollectionState,
        id: &RecordId,
        pages: BTreeSet<(BucketNumber, i32)>,
    ) -> Result<()> {
        let mut work = Mending { shared: self, place, state, id, pages };
        self.retry.transact(&self.client, self.deadline(), &mut work).await
    }
}

impl Seen {
    /// Whether an entry stands where the signature says, for the first time.
    fn tick(&mut self, page: (BucketNumber, i32), fingerprint: crate::verdict::Fingerprint) -> bool {
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

fn keys_agree(signature: &SignatureDocument, profile: Option<&Profile>) -> bool {
    let (Some(profile), Some(signed)) = (profile, &signature.signed) else { return true };
    let made = profile.keys(&signed.signatures);
    signature.keys.iter().copied().eq(made.iter().map(|key| key.key))
}

async fn all(shared: &Shared, name: &str, filter: Document, projection: Document) -> Result<Vec<RawDocumentBuf>> {
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

/// Takes a record's entries and signature away and, if the record is there, files it anew. Seq and verdict stay.
struct Mending<'a> {
    shared: &'a Shared,
    place: Place,
    state: &'a CollectionState,
    id: &'a RecordId,
    pages: BTreeSet<(BucketNumber, i32)>,
}

impl Mending<'_> {
    /// The record's signatures: those stored, if they are of this version of it, else made again from its text.
    fn sign(&self, record: &RecordDocument, signature: Option<&SignatureDocument>) -> Result<Signed> {
        let profile = Profile::compile(&self.state.settings, None);
        if let Some(stored) = signature.filter(|signature| signature.digest == record.record.digest)
            && let Some(mut signed) = stored.signed.clone()
        {
            signed.keys = profile.keys(&signed.signatures);
            return Ok(signed);
        }
        let unreadable = || StoreError::Internal(format!("record {} cannot be signed again; put it again", self.id));
        let row = Row::parse(record.record.row.as_bytes()).map_err(|_| unreadable())?;
        let document = profile.read(&row).map_err(|_| unreadable())?;
        Ok(profile.sign(&document))
    }
}

#[async_trait]
impl Work for Mending<'_> {
    type Answer = ();

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<()>, Trouble> {
        let (shared, place, id) = (self.shared, self.place, self.id);
        let (record, signature) = shared.both(session, place, id).await?;
        let signed = record.as_ref().map(|record| self.sign(record, signature.as_ref())).transpose()?;
        let (radius, _) = simhash_channel(&self.state.settings);
        let mut held = Vec::new();
        if let Some(old) = &signature {
            held.extend(latches(&old.digest, old.fingerprint, radius, old.keys.iter().copied()));
        }
        if let Some(new) = &signed {
            held.extend(latches(&new.digest, new.fingerprint(), radius, new.keys.iter().map(|key| key.key)));
        }
        held.sort_unstable();
        held.dedup();
        shared.take_latches(session, place, &held).await?;
        let mut from = self.pages.clone();
        from.extend(signature.iter().flat_map(SignatureDocument::places));
        let from: Vec<_> = from.into_iter().collect();
        let (Some(record), Some(signed)) = (record, signed) else {
            shared.move_entries(session, place, id, &from, None).await?;
            let key = doc! { "_id": signature_key(place.number, place.generation, id) };
            shared.documents(SIGNATURES).delete_one(key).session(&mut *session).await?;
            return Ok(End::Commit(()));
        };
        let pages = match signed.fingerprint() {
            Some(fingerprint) => {
                let buckets = shared.buckets(session, place, fingerprint, 0).await?;
                Some((fingerprint, pages_for(fingerprint, &buckets)))
            }
            None => None,
        };
        shared.move_entries(session, place, id, &from, pages).await?;
        let mended = SignatureDocument {
            id: id.clone(),
            generation: place.generation,
            seq: record.record.seq,
            digest: signed.digest,
            fingerprint: signed.fingerprint(),
            keys: signed.keys.iter().map(|key| key.key).collect(),
            pages: pages.map(|(_, pages)| pages),
            signed: Some(signed),
        };
        shared.put_signature(session, place, &mended, true).await?;
        let digest = doc! { "$set": { "digest": documents::digest_value(&mended.digest) } };
        let key = doc! { "_id": record_key(place.number, id) };
        shared.documents(RECORDS).update_one(key, digest).session(&mut *session).await?;
        Ok(End::Commit(()))
    }
}
