//! Ranks and judges the records in the postings: with the order and the limits of `index::rank`, but with ids instead of slots.
//!
//! In `index::rank`, a lower slot means an earlier record. Here, records get slots in the order of their seqs. Entries of pages contain no
//! seq; it is read with the text of the record, or before the texts if a limit will remove candidates.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use mongodb::ClientSession;

use super::SharedStore;
use super::documents::RecordDocument;
use super::postings::{FiledPostings, RecordPosting};
use super::read::{BucketContents, GenerationKey};
use super::retry::TxnError;
use doppel_core::collection::ChannelPosition;
use doppel_core::index::rank::{Hit, Scratch};
use doppel_core::index::{CommonKeys, MAX_CANDIDATES, POSTINGS_PER_KEY, ProposalOrder, Via, looked_up, weight};
use doppel_core::record::RecordId;
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::PostingKey;
use doppel_core::verdict::{Fingerprint, Match};
use doppel_store::rules::proposals::{ProposedRecord, confirmed_first};
use doppel_store::{CandidateJudge, CandidateRecord, Seq};

/// Largest number of candidates that are judged without announcing the work to the runtime as blocking.
const SHORT: usize = 24;

/// The records that the index proposes.
#[derive(Debug, Default)]
pub(super) struct ProposedHits {
    ids: Vec<Arc<str>>,
    /// The position of each record that pages propose, by id.
    positions: HashMap<Arc<str>, usize>,
    /// The position of each record that lists propose, by seq.
    listed: HashMap<Seq, usize>,
    seqs: Vec<Option<Seq>>,
    fingerprints: Vec<Option<Fingerprint>>,
    /// The position of a record, the kind of key that proposed the record, and the weight of the key.
    keyed: Vec<(usize, Via, u64)>,
    near: Vec<usize>,
    simhash: ChannelPosition,
    order: ProposalOrder,
    truncated: bool,
}

#[derive(Clone, Debug)]
pub(super) struct RecordProposal {
    pub(super) id: Arc<str>,
    /// `None` for a record that is proposed only by a decision.
    pub(super) seq: Option<Seq>,
    pub(super) via: Via,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// Records to be judged, the best first.
#[derive(Debug, Default)]
pub(super) struct RankedProposals {
    pub(super) items: Vec<RecordProposal>,
    pub(super) truncated: bool,
}

/// Records that were read, by id.
pub(super) type RecordTexts = HashMap<Arc<str>, RecordDocument>;

/// Seqs of records whose other fields were not read, by id; `None` if the record does not exist.
pub(super) type RecordSeqs = HashMap<String, Option<Seq>>;

pub(super) type RecordSignatures = HashMap<Arc<str>, Vec<Option<Signature>>>;

/// A judge, and the limit up to which seqs are immutable.
#[derive(Clone, Copy)]
pub(super) struct JudgeContext<'a> {
    pub(super) judge: &'a dyn CandidateJudge,
    /// The seq up to which each seq always belongs to the same content.
    pub(super) immutable: Seq,
}
impl ProposedHits {
    /// Collects the records in postings and buckets.
    pub(super) fn gather(
        filed: FiledPostings<'_>,
        keys: &[PostingKey],
        buckets: BucketContents,
        simhash: ChannelPosition,
    ) -> Self {
        let mut hits = Self { simhash, order: filed.order, ..Self::default() };
        for (id, fingerprint) in buckets.near {
            let at = hits.position(&id);
            hits.fingerprints[at] = Some(fingerprint);
            hits.near.push(at);
        }
        hits.file(filed.digest, Via::EXACT, POSTINGS_PER_KEY);
        let (keys, cut) = looked_up(keys);
        hits.truncated |= cut;
        let mut counts = CommonKeys::default();
        let mut common = Vec::new();
        for (key, postings) in keys.zip(filed.keys) {
            let via = Via::channel(key.channel);
            if counts.note(via, postings.len()) {
                common.push((postings, via));
            } else {
                hits.file(postings, via, POSTINGS_PER_KEY);
            }
        }
        for (postings, via) in common {
            hits.file(postings, via, counts.limit(via));
        }
        hits
    }

    fn file(&mut self, postings: &[RecordPosting], via: Via, most: usize) {
        self.truncated |= postings.len() > POSTINGS_PER_KEY;
        let weight = weight(postings.len());
        for posting in postings.iter().take(most) {
            let at = self.position_listed(posting);
            self.keyed.push((at, via, weight));
        }
    }

    fn position(&mut self, id: &Arc<str>) -> usize {
        if let Some(&at) = self.positions.get(id) {
            return at;
        }
        let at = self.push(id);
        self.positions.insert(Arc::clone(id), at);
        at
    }

    /// Lists propose the same records repeatedly, and a seq is found faster than an id.
    fn position_listed(&mut self, posting: &RecordPosting) -> usize {
        if let Some(&at) = self.listed.get(&posting.seq) {
            return at;
        }
        let at = self.positions.get(&posting.id).copied().unwrap_or_else(|| self.push(&posting.id));
        self.seqs[at] = Some(posting.seq);
        self.listed.insert(posting.seq, at);
        at
    }

    fn push(&mut self, id: &Arc<str>) -> usize {
        self.seqs.push(None);
        self.fingerprints.push(None);
        self.ids.push(Arc::clone(id));
        self.ids.len() - 1
    }

    /// True if a limit will remove candidates, so that seqs are needed before texts.
    fn is_cut(&self) -> bool {
        self.near.len() > POSTINGS_PER_KEY || self.ids.len() > MAX_CANDIDATES
    }

    fn without_seq(&self) -> impl Iterator<Item = &Arc<str>> {
        self.ids.iter().zip(&self.seqs).filter(|(_, seq)| seq.is_none()).map(|(id, _)| id)
    }

    /// Adds the missing seqs from `texts` and `seqs`.
    fn learn(&mut self, texts: &RecordTexts, seqs: &RecordSeqs) {
        for (id, own) in self.ids.iter().zip(&mut self.seqs).filter(|(_, seq)| seq.is_none()) {
            *own = texts.get(id).map(|text| text.record.seq).or_else(|| seqs.get(&**id).copied().flatten());
        }
    }

    /// Returns the records to be judged, the best first. Records that match by a decision come before all others, and `except` is
    /// left out. A confirmed record that does not exist is skipped later, because it has no text.
    pub(super) fn ranked(&self, confirmed: &[RecordId], except: Option<&RecordId>) -> RankedProposals {
        let mut ranked = self.rank();
        let decided = confirmed.iter().map(|id| RecordProposal {
            id: Arc::from(id.as_str()),
            seq: None,
            via: Via::DECISION,
            fingerprint: None,
        });
        confirmed_first(&mut ranked.items, decided);
        ranked.items.retain(|item| except.is_none_or(|except| *item.id != *except.as_str()));
        ranked
    }

    /// Ranks as `index::rank`. A record without a seq does not exist any more.
    fn rank(&self) -> RankedProposals {
        let mut order: Vec<usize> = (0..self.ids.len()).filter(|&at| self.seqs[at].is_some()).collect();
        order.sort_unstable_by(|&a, &b| self.seqs[a].cmp(&self.seqs[b]).then_with(|| self.ids[a].cmp(&self.ids[b])));
        let mut slots = vec![None; self.ids.len()];
        for (slot, &at) in order.iter().enumerate() {
            slots[at] = Some(slot as u32);
        }
        let (items, truncated) = Scratch::with(|scratch| {
            scratch.truncated = self.truncated;
            scratch.near.extend(self.near.iter().filter_map(|&at| slots[at]));
            scratch.take_near(Via::channel(self.simhash));
            let keyed = self.keyed.iter();
            let keyed = keyed.filter_map(|&(at, via, weight)| Some(Hit { slot: slots[at]?, via, weight }));
            scratch.hits.extend(keyed);
            let ranked = scratch.rank(self.order).iter().map(|hit| {
                let at = order[hit.slot as usize];
                let id = self.ids[at].clone();
                let seq = self.seqs[at];
                RecordProposal { id, seq, via: hit.via, fingerprint: self.fingerprints[at] }
            });
            (ranked.collect(), scratch.truncated)
        });
        RankedProposals { items, truncated }
    }
}

impl SharedStore {
    /// Reads the seqs of the records that pages propose. One round trip, and another if a limit cuts a lookup; none for records
    /// that `texts` or `seqs` contain.
    pub(super) async fn learn(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        all: &mut [ProposedHits],
        texts: &mut RecordTexts,
        seqs: &mut RecordSeqs,
    ) -> Result<(), TxnError> {
        let whole = all.iter().filter(|hits| !hits.is_cut());
        self.read_texts(session, place, whole.flat_map(ProposedHits::without_seq).map(|id| &**id), texts).await?;
        let cut = all.iter().filter(|hits| hits.is_cut()).flat_map(ProposedHits::without_seq).map(|id| &**id);
        let unknown: BTreeSet<&str> = cut.filter(|id| !texts.contains_key(*id) && !seqs.contains_key(*id)).collect();
        if !unknown.is_empty() {
            let unknown: Vec<&str> = unknown.into_iter().collect();
            let mut read = self.seqs(session, place.number, &unknown).await?;
            seqs.extend(unknown.into_iter().map(|id| (id.to_owned(), read.remove(id))));
        }
        all.iter_mut().for_each(|hits| hits.learn(texts, seqs));
        Ok(())
    }

    /// Adds the missing records among `ids` to `texts`. One round trip if any is missing.
    pub(super) async fn read_texts<'a>(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: impl Iterator<Item = &'a str>,
        texts: &mut RecordTexts,
    ) -> Result<(), TxnError> {
        let ids: BTreeSet<&str> = ids.filter(|id| !texts.contains_key(*id)).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        if !ids.is_empty() {
            texts.extend(self.texts(session, place, &ids).await?);
        }
        Ok(())
    }

    /// Judges `items`. One round trip, or two if the judge compares signatures; none for records that are already read.
    pub(super) async fn judged(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        items: &[RecordProposal],
        texts: &mut RecordTexts,
        signatures: &mut RecordSignatures,
        context: JudgeContext<'_>,
    ) -> Result<Vec<Match>, TxnError> {
        let ids: Vec<&str> = items.iter().map(|item| &*item.id).collect();
        self.read_texts(session, place, ids.iter().copied(), texts).await?;
        if context.judge.needs_signatures() {
            self.read_signatures(session, place, ids.into_iter(), signatures).await?;
        }
        let texts = &*texts;
        let signatures = &*signatures;
        Ok(blocking(items.len() > SHORT, || {
            items.iter().filter_map(|item| judge_one(item, texts, signatures, context)).collect()
        }))
    }

    /// Adds the missing signatures of the records `ids` to `signatures`. One round trip if any is missing.
    pub(super) async fn read_signatures<'a>(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: impl Iterator<Item = &'a str>,
        signatures: &mut RecordSignatures,
    ) -> Result<(), TxnError> {
        let ids: BTreeSet<&str> = ids.filter(|id| !signatures.contains_key(*id)).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        if !ids.is_empty() {
            signatures.extend(self.signatures(session, place, &ids).await?);
        }
        Ok(())
    }
}

/// Removes from `items` the proposals that the judge dismisses without reading them, and returns them. Only records up to the seq
/// `immutable` can be dismissed.
pub(super) fn dismiss(items: &mut Vec<RecordProposal>, context: JudgeContext<'_>) -> Vec<RecordProposal> {
    let JudgeContext { judge, immutable } = context;
    judge.expects(&items.iter().filter_map(|item| item.seq).collect::<Vec<_>>());
    let dismissed =
        items.extract_if(.., |item| item.seq.is_some_and(|seq| seq <= immutable && judge.dismisses(seq, item.via)));
    dismissed.collect()
}

impl ProposedRecord for RecordProposal {
    fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }

    fn via(&mut self) -> &mut Via {
        &mut self.via
    }
}

/// Judges a record and returns the match. Returns `None` if it does not match or does not exist.
fn judge_one(
    item: &RecordProposal,
    texts: &RecordTexts,
    signatures: &RecordSignatures,
    context: JudgeContext<'_>,
) -> Option<Match> {
    let JudgeContext { judge, immutable } = context;
    let text = texts.get(&item.id)?;
    let signatures = signatures.get(&item.id).map_or(&[][..], Vec::as_slice);
    let fingerprint = item.fingerprint.or(text.fingerprint);
    let seq_is_immutable = text.record.seq <= immutable;
    judge.judge(&CandidateRecord { record: &text.record, via: item.via, fingerprint, signatures, seq_is_immutable })
}

/// Judges several proposals, each with its own judge, on all cores. Returns the matches in the order of the proposals.
pub(super) fn judge_together(
    all: &[(&dyn CandidateJudge, RecordProposal)],
    texts: &RecordTexts,
    signatures: &RecordSignatures,
    immutable: Seq,
) -> Vec<Option<Match>> {
    on_all_cores(all, SHORT, |(judge, item)| {
        judge_one(item, texts, signatures, JudgeContext { judge: *judge, immutable })
    })
}

/// Applies `one` to each of `all` and returns the results in order. If there are more than `short`, the work is announced to the
/// runtime as blocking and shared between cores.
pub(super) fn on_all_cores<T: Sync, R: Send>(all: &[T], short: usize, one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len() / short + 1);
    if threads == 1 {
        return blocking(all.len() > short, || all.iter().map(one).collect());
    }
    let piece = all.len().div_ceil(threads);
    let one = &one;
    blocking(true, || {
        std::thread::scope(|scope| {
            let pieces: Vec<_> = all
                .chunks(piece)
                .map(|piece| (piece, std::thread::Builder::new().spawn_scoped(scope, move || apply_to_all(piece, one))))
                .collect();
            let joined = pieces.into_iter().flat_map(|(piece, thread)| match thread.map(|thread| thread.join()) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The operating system has no more threads.
                Err(_) => apply_to_all(piece, one),
            });
            joined.collect()
        })
    })
}

fn apply_to_all<T, R>(piece: &[T], one: &impl Fn(&T) -> R) -> Vec<R> {
    piece.iter().map(one).collect()
}

/// Runs `work` in this thread. If the work is long and the runtime has several threads, the runtime moves its other tasks away first.
pub(super) fn blocking<T>(long: bool, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let is_multi_thread =
        long && Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_multi_thread { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use doppel_core::collection::SimhashChannel;
    use doppel_core::index::{GenerationIndex, HammingRange, Lookup};

    fn postings(seqs: &[Seq]) -> Vec<RecordPosting> {
        let postings = seqs.iter().map(|&seq| RecordPosting { id: format!("r{seq}").into(), seq });
        postings.take(POSTINGS_PER_KEY + 1).collect()
    }

    fn hashed_key(key: u64) -> PostingKey {
        PostingKey { channel: ChannelPosition(1), key: key.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    fn digest_key(digest: u64) -> u64 {
        digest.wrapping_mul(0xD1B5_4A32_D192_ED03) | 2
    }
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Checks that the ranking proposes the same records as the index in memory, in the same order, for the same records and keys.
        #[test]
        fn the_ranking_is_that_of_the_in_memory_index(
            records in prop::collection::vec((0..4u64, prop::collection::btree_set(0..6u64, 0..4), 0..3u32), 1..700),
            asked in prop::collection::btree_set(0..6u64, 0..6),
            order in prop::sample::select(vec![ProposalOrder::EarliestFirst, ProposalOrder::LatestFirst]),
        ) {
            let index = GenerationIndex::new();
            let target = Fingerprint(0);
            let within = SimhashChannel::first(3);
            let mut exact = Vec::new();
            let mut lists = vec![Vec::new(); asked.len()];
            let mut buckets = BucketContents::default();
            for (at, (d, keys, bits)) in records.iter().enumerate() {
                let seq = Seq(at as u64 + 1);
                // 0 and 1 flipped bits are within the radius, 20 are not.
                let fingerprint = Fingerprint([0, 1, 0xF_FFFF][*bits as usize]);
                let own: Vec<PostingKey> = keys.iter().map(|&k| hashed_key(k)).collect();
                index.insert(seq, digest_key(*d), Some(fingerprint), &own).unwrap();
                if *d == 0 { exact.push(seq); }
                for (list, k) in lists.iter_mut().zip(&asked) {
                    if keys.contains(k) { list.push(seq); }
                }
                if *bits < 2 && buckets.near.len() < 600 { buckets.near.push((format!("r{seq}").into(), fingerprint)); }
            }
            let keys: Vec<PostingKey> = asked.iter().map(|&k| hashed_key(k)).collect();
            let expected = index.propose(&Lookup {
                digest_key: Some(digest_key(0)), hamming: Some(HammingRange { centre: target, within }), keys: &keys, order,
            });
            if order == ProposalOrder::LatestFirst {
                exact.reverse();
                lists.iter_mut().for_each(|list| list.reverse());
            }
            let exact = postings(&exact);
            let lists = lists.iter().map(|list| postings(list)).collect::<Vec<_>>();
            let filed = FiledPostings { digest: &exact, keys: lists.iter().map(Vec::as_slice).collect(), order };
            let mut hits = ProposedHits::gather(filed, &keys, buckets, within.position);
            let seqs: RecordSeqs = hits.ids.iter().map(|id| (id.to_string(), Some(Seq(id[1..].parse().unwrap())))).collect();
            hits.learn(&RecordTexts::new(), &seqs);
            let ranked = hits.rank();
            let got: Vec<(String, Via)> = ranked.items.iter().map(|item| (item.id.to_string(), item.via)).collect();
            let wanted: Vec<(String, Via)> =
                expected.items.iter().map(|item| (format!("r{}", item.seq), item.via)).collect();
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(ranked.truncated, expected.truncated);
        }
    }
}
