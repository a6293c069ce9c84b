//! Registrations of a batch of records without a store: all pairs by the rules of the service.
//!
//! The matches of a record depend on the earlier records: a key proposes its earliest records, and only the best proposals are verified. A
//! join over keys would find other pairs than the service, unless it kept the state of the index at each record. Therefore the records pass
//! through an index in their order, as in the service: *sign* on any thread, *place* one after the other, *judge* on any thread. Placing
//! takes a few microseconds, a tenth of signing, and is the only sequential part.
//!
//! The signatures depend on document frequencies, which are counted over the whole batch. Therefore each record is read twice. A record that
//! was signed in the first pass and is still in memory is only [signed again](Replay::sign_again), which needs no words and no names.

mod batch;

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use rayon::prelude::*;

pub use batch::{BatchRecord, find_duplicates};

use crate::boxed;
use crate::context::{Context, SignedRow};
pub use crate::judged_copies::BatchMatches;
use crate::judged_copies::{JudgedCopies, JudgedRecord};
use crate::matcher::RecordMatcher;
use crate::{Engine, Error, Result};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::Proposals;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::Signature;
use doppel_core::schemes::frequencies::{CountedSample, Counter, Frequencies, counted_of_batch};
use doppel_core::schemes::profile::{Digest, PostingKey, Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::text::Document;
use doppel_core::verdict::Verdict;
use doppel_store::content::RecordContent;
use doppel_store::{CollectionNumber, CollectionSpec, CollectionState, LookupResult, Seq, StoreError, StoredRecord};

/// Number of records whose pieces of text are in memory together while they are counted.
const COUNTED_AT_ONCE: usize = 256;

/// An index for a batch of records. It may be shared between threads.
pub struct Replay {
    matcher: RecordMatcher,
    copies: JudgedCopies,
    /// Earlier records without signatures that were read for comparisons: most records of a batch are compared with the same few.
    earlier: Cache<Seq, Arc<StoredRecord>, ByteWeighter>,
}

/// Largest size of the earlier records in memory in bytes: some 10,000 letters of usual length, more than one batch of records is compared with.
const EARLIER_BYTES: u64 = 16 << 20;
/// Approximate size of an earlier record without its row, in bytes.
const BARE: usize = 512;

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<Seq, Arc<StoredRecord>> for ByteWeighter {
    fn weight(&self, _seq: &Seq, record: &Arc<StoredRecord>) -> u64 {
        (BARE + record.content.bytes()) as u64
    }
}

/// A record that was read and signed.
pub struct SignedRecord(SignedRow);

/// A record that was inserted into the index, with its proposals.
pub struct PlacedRecord {
    seq: Seq,
    subject: SignedRow,
    proposals: Proposals,
}

/// An earlier record, as [`Replay::judge`] needs it.
#[derive(Clone, Debug)]
pub struct EarlierRecord {
    pub id: RecordId,
    pub row: Arc<str>,
    pub digest: Digest,
    /// The signatures of the record; may be empty unless [`Replay::needs_signatures`].
    pub signatures: Vec<Option<Signature>>,
}

impl Replay {
    /// Creates an empty index for valid settings. `statistics` are the statistics of the batch, if the profile
    /// [needs](Replay::needs_statistics) them and they were [counted](Replay::count_text). `sketch_bytes` is the size of the sketches in
    /// memory, which refuse candidates without reading them.
    ///
    /// # Errors
    /// None for valid settings.
    pub fn new(settings: Settings, statistics: Option<Arc<Statistics>>, sketch_bytes: usize) -> Result<Self> {
        let text = statistics.as_ref().and_then(|statistics| statistics.text());
        let frequencies = text.unwrap_or_else(Frequencies::built_in);
        let profile = Profile::compile(&settings, statistics);
        let name = CollectionName::new("batch").map_err(|reason| Error::Store(StoreError::Internal(reason)))?;
        let digest = profile.digest().to_owned();
        let state = CollectionState::first(
            CollectionNumber::default(),
            CollectionSpec { name, settings, profile: digest, hash_key: None, now: String::new() },
        );
        let context = Arc::new(Context::alone(Arc::new(state), Arc::new(profile), frequencies, sketch_bytes));
        Ok(Self::of(context))
    }

    fn of(context: Arc<Context>) -> Self {
        let copies = JudgedCopies::new(&context.state.settings);
        let earlier = Cache::with_weighter((EARLIER_BYTES / (4 * BARE as u64)) as usize, EARLIER_BYTES, ByteWeighter);
        Self { matcher: RecordMatcher::new(context), copies, earlier }
    }

    /// True if a channel needs the number of records with each word.
    pub fn needs_statistics(&self) -> bool {
        self.matcher.context.profile.needs_statistics()
    }

    /// True if the judge needs [`EarlierRecord::signatures`].
    pub fn needs_signatures(&self) -> bool {
        self.matcher.context.needs_signatures()
    }

    /// Returns the channels that cannot run, with the reasons.
    pub fn inactive_channels(&self) -> Vec<(String, String)> {
        self.matcher.context.inactive_channels().into_iter().map(|channel| (channel.scheme, channel.reason)).collect()
    }

    /// Reads a row as a registration does.
    ///
    /// # Errors
    /// [`Error::Invalid`] with all errors of the row.
    pub fn read(&self, row: &Row) -> Result<Document> {
        let context = &self.matcher.context;
        context.check_members(row).and_then(|()| context.read(row))
    }

    /// Adds the words of `document` to `statistics`.
    pub fn observe(&self, document: &Document, statistics: &mut Statistics) {
        statistics.observe(&self.matcher.context.profile.cut(document));
    }

    /// Counts the document frequencies of text in a batch of `records` records, as a collection does at the end of an import of these records, for
    /// [`Statistics::with_text`]. `row` returns the row at a position, `signed` the record at a position if it is in memory. `None` if the settings
    /// use no frequencies, or the batch is too small for a count.
    ///
    /// # Errors
    /// The errors of `row`.
    pub fn count_text<'r, E: Send>(
        &self,
        records: usize,
        row: impl Fn(usize) -> std::result::Result<Arc<str>, E> + Sync,
        signed: impl Fn(usize) -> Option<&'r SignedRecord> + Sync,
    ) -> std::result::Result<Option<Vec<u8>>, E> {
        let first = counted_of_batch(records as u64);
        let Some(counted) = self.matcher.context.counted().filter(|_| first > 0) else { return Ok(None) };
        let mut sample = CountedSample::default();
        for at in 0..records {
            sample.add(&row(at)?, at);
        }
        let mut counter = Counter::default();
        for places in sample.into_places().chunks(COUNTED_AT_ONCE) {
            let codes = places.par_iter().map(|&at| match signed(at) {
                Some(SignedRecord(known)) => Ok(Some(counted.codes(&known.document, known.named.as_deref()))),
                None => Ok(counted.codes_of_row(&row(at)?)),
            });
            let codes: Vec<Option<Vec<u64>>> = codes.collect::<std::result::Result<_, E>>()?;
            codes.into_iter().flatten().for_each(|codes| counter.observe(codes));
        }
        Ok(Some(counter.encode(first)))
    }

    /// Reads and signs a row. O(length).
    ///
    /// # Errors
    /// The errors of [`Replay::read`].
    pub fn sign(&self, row: &Row) -> Result<SignedRecord> {
        self.matcher.context.subject(row).map(SignedRecord)
    }

    /// Signs a document that [`Replay::read`] returned. O(length).
    pub fn sign_document(&self, document: Document) -> SignedRecord {
        SignedRecord(self.matcher.context.sign_document(document))
    }

    /// Signs a record with the statistics of this replay that a replay with the same settings signed. O(length).
    pub fn sign_again(&self, record: SignedRecord) -> SignedRecord {
        SignedRecord(self.matcher.context.sign_again(record.0))
    }

    /// Looks a record up among the earlier records, and inserts it. One call at a time, with ascending `seq` from 1.
    ///
    /// # Errors
    /// An error when the index is full, at 2^31 records.
    pub fn place(&self, seq: Seq, record: SignedRecord) -> Result<PlacedRecord> {
        let subject = record.0;
        let proposals = self.matcher.place(seq, &subject.signed)?;
        Ok(PlacedRecord { seq, subject, proposals })
    }

    /// Returns the matches of a record among the earlier records. `earlier` returns a record by its seq.
    ///
    /// # Errors
    /// The errors of `earlier`.
    pub fn judge<E>(
        &self,
        record: PlacedRecord,
        earlier: impl FnMut(Seq) -> std::result::Result<EarlierRecord, E>,
    ) -> std::result::Result<LookupResult, E> {
        let found = self.judge_sharing(record, earlier)?;
        let truncated = found.truncated;
        Ok(LookupResult { matches: found.into_matches(), truncated })
    }

    /// Returns the matches of a record like [`Replay::judge`]. The copies of a letter share one list of matches.
    ///
    /// # Errors
    /// The errors of `earlier`.
    pub fn judge_sharing<E>(
        &self,
        record: PlacedRecord,
        mut earlier: impl FnMut(Seq) -> std::result::Result<EarlierRecord, E>,
    ) -> std::result::Result<BatchMatches, E> {
        let PlacedRecord { seq, subject, proposals } = record;
        let context = &self.matcher.context;
        let digest = subject.signed.digest;
        let known = self.copies.get(&JudgedRecord { document: &subject.document, digest, proposals: &proposals });
        if let Some(known) = known {
            if let Some(sketch) = &known.sketch {
                context.sketches.remember(context.owner, seq.0, || sketch.clone());
            }
            return Ok(known.matches_of(&subject.document));
        }
        let all = proposals.clone();
        let mut case = self.matcher.case(seq, subject, proposals);
        case.dismiss();
        let mut matches = Vec::new();
        for proposal in &case.proposals.items {
            if let Some(record) = self.earlier.get(&proposal.seq) {
                matches.extend(case.judge(proposal, &record, &[]));
                continue;
            }
            let EarlierRecord { id, row, digest, signatures } = earlier(proposal.seq)?;
            let record = Arc::new(StoredRecord {
                id,
                seq: proposal.seq,
                content: RecordContent::Row(row),
                digest,
                digest_generation: context.state.generation,
                // No rule reads the verdict of a candidate.
                verdict: Verdict::blank(),
                duplicate_of_seq: None,
                stored_at: String::new(),
            });
            matches.extend(case.judge(proposal, &record, &signatures));
            if signatures.is_empty() {
                self.earlier.insert(proposal.seq, record);
            }
        }
        let judged = BatchMatches::own(matches, all.truncated);
        if self.copies.wants(&judged) {
            let compared = case.proposals.items.iter().map(|item| Some((item.seq, context.kept(item.seq)?)));
            if let Some(compared) = compared.collect() {
                let sketch = context.sketches.compare(context.owner, seq.0, <[u64]>::to_vec);
                let record = JudgedRecord { document: case.document(), digest, proposals: &all };
                self.copies.keep(&record, &judged, &compared, sketch);
            }
        }
        Ok(judged)
    }
}

impl Engine {
    /// Creates an empty index that compares like the live generation of `collection`, with the present document frequencies; `sketch_bytes`
    /// as in [`Replay::new`].
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn replay(&self, collection: &CollectionName, sketch_bytes: usize) -> Result<Replay> {
        let live = self.context(collection).await?;
        let state = Arc::clone(&live.state);
        let profile = Arc::clone(&live.profile);
        let context = Context::alone(state, profile, Arc::clone(&live.frequencies), sketch_bytes);
        Ok(Replay::of(Arc::new(context)))
    }
}

/// Approximate size of a name in memory, in bytes.
const NAME_BYTES: usize = 64;

impl SignedRecord {
    /// Returns the document of the record.
    pub fn document(&self) -> &Document {
        &self.0.document
    }

    /// Returns the signatures of the record.
    pub fn signed(&self) -> &Signed {
        &self.0.signed
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        let SignedRow { document, signed, named } = &self.0;
        let fields = document.fields.iter().chain(&document.columns);
        let texts: usize = fields
            .map(|field| field.text.len() + field.removed.as_ref().map_or(0, |removed| removed.whole.len()))
            .sum();
        let names = named.as_ref().map_or(0, |names| names.len() * NAME_BYTES);
        // In memory, a signature takes about twice the bytes of its code.
        BARE + texts + names + 2 * signed.encode().len() + signed.keys.len() * size_of::<PostingKey>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;
    use doppel_core::verdict::Match;

    const ROWS: [&str; 4] = [
        r#"{"id":"a","title":"夜市噪音","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次"}"#,
        r#"{"id":"b","title":"路灯","content":"三号路的路灯已经连续多日不亮,晚上行走十分危险"}"#,
        r#"{"id":"c","title":"再次反映","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次,请给答复"}"#,
        r#"{"id":"d","title":"夜市噪音","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次"}"#,
    ];

    /// Returns the matches of each of `rows`, in order.
    fn replayed(settings: Settings, rows: &[impl AsRef<[u8]>]) -> Vec<LookupResult> {
        let replay = Replay::new(settings, None, 1 << 20).unwrap();
        let mut kept: Vec<EarlierRecord> = Vec::new();
        let mut all = Vec::new();
        for (row, seq) in rows.iter().zip(1..) {
            let row = Row::parse(row.as_ref()).unwrap();
            let subject = replay.sign(&row).unwrap();
            let id = row.id().unwrap().clone();
            let digest = subject.signed().digest;
            let placed = replay.place(Seq(seq), subject).unwrap();
            all.push(replay.judge(placed, |seq| Ok::<_, ()>(kept[seq.0 as usize - 1].clone())).unwrap());
            kept.push(EarlierRecord { id, row: row.json().clone(), digest, signatures: Vec::new() });
        }
        all
    }

    #[test]
    fn each_record_matches_earlier_ones_as_in_the_service() {
        let found = replayed(Settings::preset(Preset::Default), &ROWS);
        let mut found: Vec<_> = found
            .iter()
            .zip(1..)
            .flat_map(|(found, seq)| found.matches.iter().map(move |found| (seq, found.seq.0, found.is_exact())))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(3, 1, false), (4, 1, true), (4, 3, false)]);
    }

    /// Returns the number of letters on one form about different roads that match an earlier letter.
    fn matching_of_one_form(objects: bool) -> usize {
        let mut settings = Settings::preset(Preset::Default);
        settings.verify.as_mut().unwrap().objects = objects;
        let roads = ["雁坪路", "松岗路", "鹤鸣路", "梧桐大道", "砚溪路"];
        let form = "的路灯已经连续多日不亮,晚上行走十分危险,居民投诉多次,物业和市政都说不归自己管,上个月还有老人摔倒受伤,\
            要求尽快派人检修,并且告诉大家什么时候能够恢复照明,以后坏了又该找哪一家单位";
        let rows = roads.map(|road| format!(r#"{{"id":"{road}","content":"{road}{form}"}}"#));
        let found = replayed(settings, &rows);
        found.iter().filter(|found| !found.matches.is_empty()).count()
    }

    #[test]
    fn a_letter_about_another_place_does_not_match_if_names_are_compared() {
        assert_eq!((matching_of_one_form(false), matching_of_one_form(true)), (4, 0));
    }

    /// Returns the row of a copy of a letter. Every copy has a petitioner; some copies have own contacts, some a common contact.
    fn copy(number: usize) -> String {
        let text = "鹤鸣小区北门外的夜市每天营业到凌晨两点,摊贩使用大功率音响招揽顾客,油烟直接排向居民楼,请有关部门尽快核实处理";
        let contact = match number % 5 {
            0 | 1 => String::new(),
            2 | 3 => format!(",联系电话1380013{number:04}"),
            _ => ",联系电话13900139000".to_owned(),
        };
        let other = ["砚溪路的路灯不亮", "梧桐大道积水严重"][number % 2];
        let (petitioner, content) = match number % 11 {
            10 => (number, format!("{other},{}", text.chars().take(30).collect::<String>())),
            _ => (number % 3, format!("{text}{contact}")),
        };
        format!(r#"{{"id":"r{number}","title":"夜市噪音","content":"{content}","user":"居民{petitioner}"}}"#)
    }

    /// Returns the matches of each of `rows`, with the number of records that share their matches.
    fn judged(replay: &Replay, rows: &[String]) -> (Vec<(Vec<Match>, bool)>, usize) {
        let mut all = Vec::new();
        let mut digests = Vec::new();
        let mut shared = 0;
        for (row, seq) in rows.iter().zip(1..) {
            let subject = replay.sign(&Row::parse(row.as_bytes()).unwrap()).unwrap();
            digests.push(subject.signed().digest);
            let placed = replay.place(Seq(seq), subject).unwrap();
            let judged = replay.judge_sharing(placed, |seq| {
                let at = seq.0 as usize - 1;
                let id = RecordId::new(&format!("r{at}")).unwrap();
                let digest = digests[at];
                Ok::<_, ()>(EarlierRecord { id, row: rows[at].as_str().into(), digest, signatures: Vec::new() })
            });
            let judged = judged.unwrap();
            shared += usize::from(judged.is_shared());
            let truncated = judged.truncated;
            all.push((judged.into_matches(), truncated));
        }
        (all, shared)
    }

    #[test]
    fn copies_that_share_their_matches_have_the_matches_of_their_own() {
        let rows: Vec<String> = (0..700).map(copy).collect();
        let sharing = Replay::new(Settings::preset(Preset::Default), None, 1 << 24).unwrap();
        let mut plain = Replay::new(Settings::preset(Preset::Default), None, 1 << 24).unwrap();
        plain.copies = JudgedCopies::off();
        let (alone, none) = judged(&plain, &rows);
        let (shared, some) = judged(&sharing, &rows);
        assert_eq!(none, 0);
        assert!(some > 50, "{some} records share their matches");
        assert!(alone.iter().any(|(matches, _)| matches.iter().any(|found| found.relation.is_some())));
        assert!(shared == alone);
    }

    #[test]
    fn signed_records_are_counted_like_their_rows() {
        let replay = Replay::new(Settings::preset(Preset::Default), None, 1 << 20).unwrap();
        let rows: Vec<Arc<str>> = (0..300).map(|number| copy(number).into()).collect();
        let signed: Vec<SignedRecord> =
            rows.iter().map(|row| replay.sign(&Row::parse(row.as_bytes()).unwrap()).unwrap()).collect();
        let counted = |kept: usize| {
            let row = |at: usize| Ok::<_, ()>(Arc::clone(&rows[at]));
            replay.count_text(rows.len(), row, |at| signed.get(at).filter(|_| at < kept)).unwrap().unwrap()
        };
        let of_rows = counted(0);
        assert!(Frequencies::decode(1, &of_rows).unwrap().len() > Frequencies::built_in().len());
        assert_eq!([counted(100), counted(300)], [of_rows.clone(), of_rows]);
        assert!(signed.iter().all(|record| (1 << 10..1 << 14).contains(&record.bytes())));
    }

    #[test]
    fn a_row_without_content_is_refused() {
        let replay = Replay::new(Settings::preset(Preset::Default), None, 1 << 20).unwrap();
        let row = Row::parse(br#"{"id":"a","title":" "}"#).unwrap();
        assert!(
            matches!(replay.read(&row), Err(Error::Invalid(found)) if found[0].code == doppel_core::error_code::ErrorCode::NoContent)
        );
    }
}
