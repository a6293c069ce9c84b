//! Registration replayed over a batch of records, without a store: all pairs by the rules of the service.
//!
//! What a record matches depends on those before it (a key proposes its earliest records, and the best of what is proposed are
//! verified), so a join over keys would either find other pairs than the service does, or have to count what stood where
//! when. So the records pass through an index in their order, as they would in the service: *sign* on any thread, *place* one
//! after the other, *judge* on any thread. Placing is a few microseconds, a tenth of signing, and is all that is not shared out.

use std::sync::Arc;

use crate::context::{Context, Subject};
use crate::matcher::Matcher;
use crate::{Engine, Error, Result};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::index::Proposals;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::Signature;
use doppel_core::schemes::frequencies::{Counter, Frequencies};
use doppel_core::schemes::profile::{Digest, Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::text::Document;
use doppel_core::verdict::Verdict;
use doppel_store::content::Content;
use doppel_store::{CollectionNumber, CollectionSpec, CollectionState, Found, Seq, StoreError, StoredRecord};

/// Records whose pieces of text are in memory together while they are counted.
const COUNTED_AT_ONCE: usize = 256;

/// Records on their way through an index of their own. Safe to share.
pub struct Replay {
    matcher: Matcher,
}

/// A record read and signed.
pub struct Subjected(Subject);

/// A record that has its place, and what the index proposes for it.
pub struct Placed {
    seq: Seq,
    subject: Subject,
    proposals: Proposals,
}

/// An earlier record, as [`Replay::judge`] wants it back.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// Its id.
    pub id: RecordId,
    /// Its content.
    pub row: Arc<str>,
    /// Its digest.
    pub digest: Digest,
    /// Its signatures; may be empty unless [`Replay::needs_signatures`].
    pub signatures: Vec<Option<Signature>>,
}

impl Replay {
    /// An empty index for validated settings. `statistics` are those of the batch, as far as the profile
    /// [needs](Replay::needs_statistics) them and they were [counted](Replay::count_text); `sketch_bytes` bounds what is remembered of texts, to refuse candidates without
    /// reading them.
    ///
    /// # Errors
    /// None that validated settings give rise to.
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
        Ok(Self { matcher: Matcher::new(context) })
    }

    /// Whether a channel wants to know how often words occur in the batch.
    pub fn needs_statistics(&self) -> bool {
        self.matcher.context.profile.needs_statistics()
    }

    /// Whether judging wants [`Earlier::signatures`].
    pub fn needs_signatures(&self) -> bool {
        self.matcher.context.needs_signatures()
    }

    /// Channels that cannot run, and why.
    pub fn inactive_channels(&self) -> Vec<(String, String)> {
        self.matcher.context.inactive_channels().into_iter().map(|channel| (channel.scheme, channel.reason)).collect()
    }

    /// Reads a row as registration would.
    ///
    /// # Errors
    /// [`Error::Invalid`] with all that is wrong.
    pub fn read(&self, row: &Row) -> Result<Document> {
        let context = &self.matcher.context;
        context.check_members(row).and_then(|()| context.read(row))
    }

    /// Counts the words of `document`.
    pub fn observe(&self, document: &Document, statistics: &mut Statistics) {
        statistics.observe(&self.matcher.context.profile.cut(document));
    }

    /// How common pieces of text are in `rows`, a sample of a batch of `records`, for [`Statistics::with_text`]; `None` where
    /// nothing goes by that.
    pub fn count_text(&self, rows: &[Arc<str>], records: u64) -> Option<Vec<u8>> {
        let counted = self.matcher.context.counted()?;
        let mut counter = Counter::default();
        rows.chunks(COUNTED_AT_ONCE).for_each(|rows| counted.count(rows, &mut counter));
        Some(counter.encode(records))
    }

    /// Reads and signs a row. O(length).
    ///
    /// # Errors
    /// As [`Replay::read`].
    pub fn sign(&self, row: &Row) -> Result<Subjected> {
        self.matcher.context.naming_subject(row).map(Subjected)
    }

    /// Looks a record up among those placed before, and places it. One call at a time, `seq` ascending from 1.
    ///
    /// # Errors
    /// When the index is full: at 2^31 records.
    pub fn place(&self, seq: Seq, Subjected(subject): Subjected) -> Result<Placed> {
        let proposals = self.matcher.place(seq, &subject.signed)?;
        Ok(Placed { seq, subject, proposals })
    }

    /// The matches of a record among those placed before it. `earlier` gives back a record by its seq.
    ///
    /// # Errors
    /// What `earlier` fails with.
    pub fn judge<E>(
        &self,
        Placed { seq, subject, proposals }: Placed,
        mut earlier: impl FnMut(Seq) -> std::result::Result<Earlier, E>,
    ) -> std::result::Result<Found, E> {
        let mut case = self.matcher.case(seq, subject, proposals);
        case.dismiss();
        let mut matches = Vec::new();
        for proposal in &case.proposals.items {
            let Earlier { id, row, digest, signatures } = earlier(proposal.seq)?;
            let record = StoredRecord {
                id,
                seq: proposal.seq,
                content: Content::Row(row),
                digest,
                digest_generation: self.matcher.context.state.generation,
                // No rule looks at the verdict of a candidate.
                verdict: Verdict::blank(),
                duplicate_of_seq: None,
                stored_at: String::new(),
            };
            matches.extend(case.judge(proposal, &record, &signatures));
        }
        Ok(Found { matches, truncated: case.proposals.truncated })
    }
}

impl Engine {
    /// An empty index that compares as the live generation of `collection` does now, by what it counted; `sketch_bytes` as in
    /// [`Replay::new`].
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn replay(&self, collection: &CollectionName, sketch_bytes: usize) -> Result<Replay> {
        let live = self.context(collection).await?;
        let (state, profile) = (Arc::clone(&live.state), Arc::clone(&live.profile));
        let context = Context::alone(state, profile, Arc::clone(&live.frequencies), sketch_bytes);
        Ok(Replay { matcher: Matcher::new(Arc::new(context)) })
    }
}

impl Subjected {
    /// What was signed.
    pub fn signed(&self) -> &Signed {
        &self.0.signed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;

    const ROWS: [&str; 4] = [
        r#"{"id":"a","title":"夜市噪音","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次"}"#,
        r#"{"id":"b","title":"路灯","content":"三号路的路灯已经连续多日不亮,晚上行走十分危险"}"#,
        r#"{"id":"c","title":"再次反映","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次,请给答复"}"#,
        r#"{"id":"d","title":"夜市噪音","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次"}"#,
    ];

    /// What each of `rows` matches, in order; and how many earlier records were read for it.
    fn replayed(settings: Settings, rows: &[impl AsRef<[u8]>]) -> Vec<Found> {
        let replay = Replay::new(settings, None, 1 << 20).unwrap();
        let mut kept: Vec<Earlier> = Vec::new();
        let mut replay_one = |row: &Row, seq| {
            let subject = replay.sign(row).unwrap();
            let (id, digest) = (row.id().unwrap().clone(), subject.signed().digest);
            let placed = replay.place(Seq(seq), subject).unwrap();
            let earlier = |seq: Seq| Ok::<_, ()>(kept[seq.0 as usize - 1].clone());
            let found = replay.judge(placed, earlier).unwrap();
            kept.push(Earlier { id, row: row.json().clone(), digest, signatures: Vec::new() });
            found
        };
        let rows = rows.iter().map(|row| Row::parse(row.as_ref()).unwrap());
        rows.zip(1..).map(|(row, seq)| replay_one(&row, seq)).collect()
    }

    #[test]
    fn each_record_matches_those_before_it_as_in_the_service() {
        let found = replayed(Settings::preset(Preset::Default), &ROWS);
        let mut found: Vec<_> = found
            .iter()
            .zip(1..)
            .flat_map(|(found, seq)| found.matches.iter().map(move |found| (seq, found.seq.0, found.is_exact())))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(3, 1, false), (4, 1, true), (4, 3, false)]);
    }

    /// How many orders on one form about different roads match an earlier one.
    fn matching_of_one_form(objects: bool) -> usize {
        let mut settings = Settings::preset(Preset::Default);
        settings.verify.as_mut().unwrap().objects = objects;
        let roads = ["雁坪路", "松岗路", "鹤鸣路", "梧桐大道", "砚溪路"];
        let order = |road| {
            format!(r#"{{"id":"{road}","content":"{road}的路灯已经连续多日不亮,晚上行走十分危险,居民投诉多次"}}"#)
        };
        let found = replayed(settings, &roads.map(order));
        found.iter().filter(|found| !found.matches.is_empty()).count()
    }

    #[test]
    fn what_is_about_another_place_is_no_match_where_names_count() {
        assert_eq!((matching_of_one_form(false), matching_of_one_form(true)), (4, 0));
    }

    #[test]
    fn a_row_that_says_nothing_is_refused() {
        let replay = Replay::new(Settings::preset(Preset::Default), None, 1 << 20).unwrap();
        let row = Row::parse(br#"{"id":"a","title":" "}"#).unwrap();
        assert!(matches!(replay.read(&row), Err(Error::Invalid(found)) if found[0].code == "no_content"));
    }
}
