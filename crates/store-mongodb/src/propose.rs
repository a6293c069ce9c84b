//! From what the index says to judged matches: the ranking and limits of `index::rank`, over ids instead of slots.
//!
//! A slot stands for "earliest": here records get theirs by sorting on seq. Entries of pages do not carry a seq; it
//! comes with the record's text, or, where a limit will cut something off, from one more read before.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use mongodb::ClientSession;

use super::Shared;
use super::documents::RecordDocument;
use super::postings::{Filed, Posting};
use super::read::{Buckets, GenerationKey};
use super::retry::TxnError;
use doppel_core::collection::ChannelPosition;
use doppel_core::index::rank::{Hit, Scratch};
use doppel_core::index::{CommonKeys, MAX_CANDIDATES, POSTINGS_PER_KEY, Via, looked_up, weight};
use doppel_core::record::RecordId;
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::PostingKey;
use doppel_core::verdict::{Fingerprint, Match};
use doppel_store::rules::proposals::{Proposed, confirmed_first};
use doppel_store::{Candidate, Judge, Seq};

/// More candidates than this, and the judging is announced to the runtime as blocking.
const SHORT: usize = 24;

/// What the index said, by record.
#[derive(Debug, Default)]
pub(super) struct Hits {
    ids: Vec<Arc<str>>,
    /// Where those are that pages propose, by id.
    positions: HashMap<Arc<str>, usize>,
    /// Where those are that lists propose.
    listed: HashMap<Seq, usize>,
    seqs: Vec<Option<Seq>>,
    fingerprints: Vec<Option<Fingerprint>>,
    /// Position, what proposed it, its weight.
    keyed: Vec<(usize, Via, u64)>,
    near: Vec<usize>,
    simhash: ChannelPosition,
    truncated: bool,
}

/// A record to be judged.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) id: Arc<str>,
    /// `None` for one that is there by decision alone.
    pub(super) seq: Option<Seq>,
    pub(super) via: Via,
    pub(super) fingerprint: Option<Fingerprint>,
}

/// Records to be judged, best first.
#[derive(Debug, Default)]
pub(super) struct Ranked {
    pub(super) items: Vec<Proposal>,
    pub(super) truncated: bool,
}

/// Records that were read, by id.
pub(super) type Texts = HashMap<Arc<str>, RecordDocument>;

/// Seqs of records by id, of which nothing else was read; `None` for one that is not there.
pub(super) type Seqs = HashMap<String, Option<Seq>>;

/// Signatures of records, by id.
pub(super) type Signatures = HashMap<Arc<str>, Vec<Option<Signature>>>;

impl Hits {
    /// Adds up what was found.
    pub(super) fn gather(filed: Filed<'_>, keys: &[PostingKey], buckets: Buckets, simhash: ChannelPosition) -> Self {
        let mut hits = Self { simhash, ..Self::default() };
        for (id, fingerprint) in buckets.near {
            let at = hits.position(&id);
            hits.fingerprints[at] = Some(fingerprint);
            hits.near.push(at);
        }
        hits.file(filed.digest, Via::EXACT, POSTINGS_PER_KEY);
        let (keys, cut) = looked_up(keys);
        hits.truncated |= cut;
        let (mut counts, mut common) = (CommonKeys::default(), Vec::new());
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

    fn file(&mut self, postings: &[Posting], via: Via, most: usize) {
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

    /// Lists propose the same records again and again: numbers are faster to find than ids.
    fn position_listed(&mut self, posting: &Posting) -> usize {
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

    /// Whether a limit will cut something off, so that seqs are needed before texts.
    fn is_cut(&self) -> bool {
        self.near.len() > POSTINGS_PER_KEY || self.ids.len() > MAX_CANDIDATES
    }

    fn without_seq(&self) -> impl Iterator<Item = &Arc<str>> {
        self.ids.iter().zip(&self.seqs).filter(|(_, seq)| seq.is_none()).map(|(id, _)| id)
    }

    /// Takes the seqs that are known of those records that came without.
    fn learn(&mut self, texts: &Texts, seqs: &Seqs) {
        for (id, own) in self.ids.iter().zip(&mut self.seqs).filter(|(_, seq)| seq.is_none()) {
            *own = texts.get(id).map(|text| text.record.seq).or_else(|| seqs.get(&**id).copied().flatten());
        }
    }

    /// What is to be judged, best first: the records that match by decision before all others, and none that is `except`. A confirmed
    /// one that is not there is found missing with its text.
    pub(super) fn ranked(&self, confirmed: &[RecordId], except: Option<&RecordId>) -> Ranked {
        let mut ranked = self.rank();
        let decided = confirmed.iter().map(|id| {
            let (id, via) = (Arc::from(id.as_str()), Via::DECISION);
            Proposal { id, seq: None, via, fingerprint: None }
        });
        confirmed_first(&mut ranked.items, decided);
        ranked.items.retain(|item| except.is_none_or(|except| *item.id != *except.as_str()));
        ranked
    }

    /// The order of `index::rank`. Records whose seq is unknown are not there (any more).
    fn rank(&self) -> Ranked {
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
            let ranked = scratch.rank().iter().map(|hit| {
                let at = order[hit.slot as usize];
                let (id, seq) = (self.ids[at].clone(), self.seqs[at]);
                Proposal { id, seq, via: hit.via, fingerprint: self.fingerprints[at] }
            });
            (ranked.collect(), scratch.truncated)
        });
        Ranked { items, truncated }
    }
}

impl Shared {
    /// Learns what ranking needs of records that pages propose, which say no seq. One round trip, and another where a limit cuts some
    /// lookup; none for what is in `texts` or `seqs` already.
    pub(super) async fn learn(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        all: &mut [Hits],
        (texts, seqs): (&mut Texts, &mut Seqs),
    ) -> Result<(), TxnError> {
        let whole = all.iter().filter(|hits| !hits.is_cut());
        self.read_texts(session, place, whole.flat_map(Hits::without_seq).map(|id| &**id), texts).await?;
        let cut = all.iter().filter(|hits| hits.is_cut()).flat_map(Hits::without_seq).map(|id| &**id);
        let unknown: BTreeSet<&str> = cut.filter(|id| !texts.contains_key(*id) && !seqs.contains_key(*id)).collect();
        if !unknown.is_empty() {
            let unknown: Vec<&str> = unknown.into_iter().collect();
            let mut read = self.seqs(session, place.number, &unknown).await?;
            seqs.extend(unknown.into_iter().map(|id| (id.to_owned(), read.remove(id))));
        }
        all.iter_mut().for_each(|hits| hits.learn(texts, seqs));
        Ok(())
    }

    /// Adds to `texts` those of `ids` that are not there. One round trip, if any is missing.
    pub(super) async fn read_texts<'a>(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: impl Iterator<Item = &'a str>,
        texts: &mut Texts,
    ) -> Result<(), TxnError> {
        let ids: BTreeSet<&str> = ids.filter(|id| !texts.contains_key(*id)).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        if !ids.is_empty() {
            texts.extend(self.texts(session, place, &ids).await?);
        }
        Ok(())
    }

    /// Judges `items`. One round trip, or two where signatures are compared; none for what is there already. Up to the seq `immutable`
    /// a seq names one content for ever.
    pub(super) async fn judged(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        items: &[Proposal],
        (texts, signatures): (&mut Texts, &mut Signatures),
        (judge, immutable): (&dyn Judge, Seq),
    ) -> Result<Vec<Match>, TxnError> {
        let ids = || items.iter().map(|item| &*item.id);
        self.read_texts(session, place, ids(), texts).await?;
        if judge.needs_signatures() {
            self.read_signatures(session, place, ids(), signatures).await?;
        }
        let (texts, signatures) = (&*texts, &*signatures);
        let judged = || items.iter().filter_map(|item| judge_one(item, texts, signatures, judge, immutable)).collect();
        Ok(blocking(items.len() > SHORT, judged))
    }

    /// Adds to `signatures` those of `ids` that are not there. One round trip, if any is missing.
    pub(super) async fn read_signatures<'a>(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        ids: impl Iterator<Item = &'a str>,
        signatures: &mut Signatures,
    ) -> Result<(), TxnError> {
        let ids: BTreeSet<&str> = ids.filter(|id| !signatures.contains_key(*id)).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        if !ids.is_empty() {
            signatures.extend(self.signatures(session, place, &ids).await?);
        }
        Ok(())
    }
}

/// Takes out of `items` what `judge` need not read to rule it out, of records up to the seq `immutable`: see [`Shared::judged`].
/// Gives what it took out.
pub(super) fn dismiss(items: &mut Vec<Proposal>, (judge, immutable): (&dyn Judge, Seq)) -> Vec<Proposal> {
    judge.expects(&items.iter().filter_map(|item| item.seq).collect::<Vec<_>>());
    let dismisses =
        |item: &mut Proposal| item.seq.is_some_and(|seq| seq <= immutable && judge.dismisses(seq, item.via));
    items.extract_if(.., dismisses).collect()
}

impl Proposed for Proposal {
    fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }

    fn via(&mut self) -> &mut Via {
        &mut self.via
    }
}

/// The match, if `item` is one; nothing of a record that is not there.
fn judge_one(
    item: &Proposal,
    texts: &Texts,
    signatures: &Signatures,
    judge: &dyn Judge,
    immutable: Seq,
) -> Option<Match> {
    let text = texts.get(&item.id)?;
    let signatures = signatures.get(&item.id).map_or(&[][..], Vec::as_slice);
    let fingerprint = item.fingerprint.or(text.fingerprint);
    let seq_is_immutable = text.record.seq <= immutable;
    judge.judge(&Candidate { record: &text.record, via: item.via, fingerprint, signatures, seq_is_immutable })
}

/// Judges several proposals, each for its own record, on all cores; the matches in their order.
pub(super) fn judge_together(
    all: &[(&dyn Judge, Proposal)],
    texts: &Texts,
    signatures: &Signatures,
    immutable: Seq,
) -> Vec<Option<Match>> {
    on_all_cores(all, SHORT, |(judge, item)| judge_one(item, texts, signatures, *judge, immutable))
}

/// `one` of each of `all`, in their order. More than `short` of them are announced to the runtime as blocking, and shared among cores.
pub(super) fn on_all_cores<T: Sync, R: Send>(all: &[T], short: usize, one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len() / short + 1);
    if threads == 1 {
        return blocking(all.len() > short, || all.iter().map(one).collect());
    }
    let (piece, one) = (all.len().div_ceil(threads), &one);
    blocking(true, || {
        std::thread::scope(|scope| {
            let done = |piece: &[T]| piece.iter().map(one).collect::<Vec<_>>();
            let pieces: Vec<_> = all
                .chunks(piece)
                .map(|piece| (piece, std::thread::Builder::new().spawn_scoped(scope, move || done(piece))))
                .collect();
            let joined = pieces.into_iter().flat_map(|(piece, thread)| match thread.map(|thread| thread.join()) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The system has no more threads for us.
                Err(_) => done(piece),
            });
            joined.collect()
        })
    })
}

/// Runs `work` here; if it is long and the runtime can, tells it to move other work away meanwhile.
pub(super) fn blocking<T>(long: bool, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let multi = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if long && multi() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use doppel_core::collection::SimhashChannel;
    use doppel_core::index::{Ball, GenerationIndex, Lookup};

    fn postings(seqs: &[Seq]) -> Vec<Posting> {
        let postings = seqs.iter().map(|&seq| Posting { id: format!("r{seq}").into(), seq });
        postings.take(POSTINGS_PER_KEY + 1).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// The same records, the same keys: what the in-memory index proposes, in the same order.
        #[test]
        fn the_ranking_is_that_of_the_in_memory_index(
            records in prop::collection::vec((0..4u64, prop::collection::btree_set(0..6u64, 0..4), 0..3u32), 1..700),
            asked in prop::collection::btree_set(0..6u64, 0..6),
        ) {
            let index = GenerationIndex::new();
            let target = Fingerprint(0);
            let within = SimhashChannel::first(3);
            let key = |key: u64| PostingKey { channel: ChannelPosition(1), key: key.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 };
            let digest = |digest: u64| digest.wrapping_mul(0xD1B5_4A32_D192_ED03) | 2;
            let (mut exact, mut lists) = (Vec::new(), vec![Vec::new(); asked.len()]);
            let mut buckets = Buckets::default();
            for (at, (d, keys, bits)) in records.iter().enumerate() {
                let seq = Seq(at as u64 + 1);
                // 0 and 1 flipped bits are near, 20 are not.
                let fingerprint = Fingerprint([0, 1, 0xF_FFFF][*bits as usize]);
                let own: Vec<PostingKey> = keys.iter().map(|&k| key(k)).collect();
                index.insert(seq, digest(*d), Some(fingerprint), &own).unwrap();
                if *d == 0 { exact.push(seq); }
                for (list, k) in lists.iter_mut().zip(&asked) {
                    if keys.contains(k) { list.push(seq); }
                }
                if *bits < 2 && buckets.near.len() < 600 { buckets.near.push((format!("r{seq}").into(), fingerprint)); }
            }
            let keys: Vec<PostingKey> = asked.iter().map(|&k| key(k)).collect();
            let expected = index.propose(&Lookup {
                digest_key: Some(digest(0)), ball: Some(Ball { centre: target, within }), keys: &keys,
            });
            let (exact, lists) = (postings(&exact), lists.iter().map(|list| postings(list)).collect::<Vec<_>>());
            let filed = Filed { digest: &exact, keys: lists.iter().map(Vec::as_slice).collect() };
            let mut hits = Hits::gather(filed, &keys, buckets, within.position);
            let seqs: Seqs = hits.ids.iter().map(|id| (id.to_string(), Some(Seq(id[1..].parse().unwrap())))).collect();
            hits.learn(&Texts::new(), &seqs);
            let ranked = hits.rank();
            let got: Vec<(String, Via)> = ranked.items.iter().map(|item| (item.id.to_string(), item.via)).collect();
            let wanted: Vec<(String, Via)> =
                expected.items.iter().map(|item| (format!("r{}", item.seq), item.via)).collect();
            prop_assert_eq!(got, wanted);
            prop_assert_eq!(ranked.truncated, expected.truncated);
        }
    }
}
