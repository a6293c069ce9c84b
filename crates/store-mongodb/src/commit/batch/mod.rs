//! The transaction of a batch:
//!
//! 1. It takes the latch of the collection, which returns the generations and draws a seq for each member (`latch`).
//! 2. It reads the records with the ids, and the postings of the digests, keys and blocks of the members that must be judged. A
//!    small batch reads everything at once, as if all members had to be judged.
//! 3. It goes through the members in the order of arrival: it plans, proposes, judges and concludes each member with the results of
//!    these reads and the members before it (`plan`, `preceding`).
//! 4. It writes each document once: records with their verdicts, signatures, pages.
//! 5. It commits even if it stored nothing, because the answer depends on the results of the reads, and these are certain only
//!    after a majority has confirmed a later commit.
//!
//! A round is a part of the members in which each id occurs once. Steps 2 to 4 handle one round. The members behind it are the next
//! round of the same transaction, whose reads show the writes of the rounds before. A round also ends early if a member removes a
//! record from a list that was read only in part.

mod reading;
mod writing;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use hashbrown::{HashMap, HashSet};
use mongodb::ClientSession;

use self::reading::READ_AT_ONCE;
use self::writing::{BatchWrites, PutRecord, StandbyFiling, update};
use super::plan::MemberPlan;
use super::preceding::PrecedingMembers;
use super::{BatchMember, ChangeOutcome, RecordChange};
use crate::SharedStore;
use crate::posting_cache::{CacheUpdate, CommitsBehind, FiledByOthers, PostingCache, ReadAheadTask};
use crate::propose::{JudgeContext, ProposedHits, RankedProposals, dismiss};
use crate::read::{BucketContents, CollectionPointer, GenerationKey};
use crate::retry::{TransactionEnd, TransactionWork, TxnError};
use doppel_core::collection::{CollectionName, Settings, SimhashChannel};
use doppel_core::index::ProposalOrder;
use doppel_core::schemes::profile::Signed;
use doppel_store::changes::LoggedKind;
use doppel_store::rules::conclude::{RegistrationConclusion, conclude};
use doppel_store::{GenerationId, RegisterOutcome, Registration, Result as StoreResult, Seq, StoreError};

type TxnResult<T> = Result<T, TxnError>;

/// Largest number of rounds of a transaction. Each round needs its own reads and writes, and all members wait for the last round.
const MAX_ROUNDS: usize = 8;

/// The changes of one transaction.
pub(super) struct CommitBatch<'a> {
    shared: &'a Arc<SharedStore>,
    name: &'a CollectionName,
    members: &'a [Arc<BatchMember>],
    /// See [`LatchQueue::confirmed`](crate::latch::LatchQueue::confirmed).
    confirmed: Seq,
    cache: PostingCache,
    /// The changes of the cache after the commit, one for each round.
    updates: Vec<CacheUpdate>,
    /// The task that reads for the next batch.
    reading: OnceLock<ReadAheadTask>,
}

/// A part of a batch in which each id occurs once.
struct BatchRound<'a> {
    shared: &'a Arc<SharedStore>,
    name: &'a CollectionName,
    members: &'a [Arc<BatchMember>],
    confirmed: Seq,
    /// The lists as they were before the transaction. `None` in a later round, because they lack the writes of earlier rounds.
    cache: Option<&'a PostingCache>,
    reading: &'a OnceLock<ReadAheadTask>,
}

/// The results of a round.
struct RoundOutcome {
    /// The outcomes of the first members, at least one.
    outcomes: Vec<StoreResult<ChangeOutcome>>,
    update: CacheUpdate,
    times: StageTimes,
}

/// The times at which the stages of a batch ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageTimes {
    /// The batch took the latch.
    pub(super) latched: Instant,
    /// All proposals were read.
    pub(super) proposed: Instant,
    /// The outcome of each member was known.
    pub(super) judged: Instant,
}

#[async_trait]
impl TransactionWork for CommitBatch<'_> {
    /// The number of the commit, the outcomes of the first members (at least one), and the times of the stages.
    type Answer = (Seq, Vec<StoreResult<ChangeOutcome>>, StageTimes);

    async fn attempt(&mut self, session: &mut ClientSession) -> TxnResult<TransactionEnd<Self::Answer>> {
        let drawn = self.members.len();
        let Some(pointer) = self.shared.take_latch(session, self.name, drawn).await? else {
            return Err(StoreError::UnknownCollection(self.name.clone()).into());
        };
        let latched = Instant::now();
        let first = pointer.commits.next().before(drawn as u64);
        let mut outcomes = Vec::with_capacity(drawn);
        let mut updates = Vec::new();
        let mut times = StageTimes { latched, proposed: latched, judged: latched };
        while outcomes.len() < drawn && updates.len() < MAX_ROUNDS {
            let done = outcomes.len();
            let round = self.round(done);
            let ended = round.process(session, &pointer, first.after(done)).await?;
            outcomes.extend(ended.outcomes);
            updates.push(ended.update);
            times = StageTimes { latched, ..ended.times };
        }
        // The numbers that no member needed also belong to this commit.
        if let Some(last) = updates.last_mut() {
            last.commit = pointer.commits;
        }
        self.updates = updates;
        Ok(TransactionEnd::Commit((pointer.commits, outcomes, times)))
    }
}

impl<'a> CommitBatch<'a> {
    pub(super) fn new(
        shared: &'a Arc<SharedStore>,
        name: &'a CollectionName,
        members: &'a [Arc<BatchMember>],
        confirmed: Seq,
        cache: PostingCache,
    ) -> Self {
        Self { shared, name, members, confirmed, cache, updates: Vec::new(), reading: OnceLock::new() }
    }

    /// Returns the round that begins with the member at `start`. It ends before an id that occurs a second time.
    fn round(&self, start: usize) -> BatchRound<'_> {
        let mut ids = HashSet::new();
        let rest = &self.members[start..];
        let length = rest.iter().take_while(|member| ids.insert(member.id())).count();
        BatchRound {
            shared: self.shared,
            name: self.name,
            members: &rest[..length],
            confirmed: self.confirmed,
            cache: (start == 0).then_some(&self.cache),
            reading: &self.reading,
        }
    }

    /// Returns the cache after the commit, with the lists that are being read for the next batch.
    pub(super) fn into_cache(self) -> PostingCache {
        let mut cache = self.cache;
        match self.reading.into_inner() {
            Some(reading) => cache.update_later(self.updates, reading),
            None => cache.update_all(self.updates, None),
        }
        cache
    }
}

impl<'a> BatchRound<'a> {
    /// Judges and writes the members. `first` is the seq of the first member.
    async fn process(
        &self,
        session: &mut ClientSession,
        pointer: &CollectionPointer,
        first: Seq,
    ) -> TxnResult<RoundOutcome> {
        let began = Instant::now();
        if self.members.iter().any(|member| member.known.number != pointer.number) {
            return Err(StoreError::UnknownCollection(self.name.clone()).into());
        }
        let order = self.settings(pointer.generation).map(ProposalOrder::of).unwrap_or_default();
        let place = GenerationKey { number: pointer.number, generation: pointer.generation, order };
        let behind = match self.cache {
            Some(cache) => self.shared.behind(session, place, cache, first.before(1), pointer.forgotten).await?,
            // The updates of the earlier rounds come first.
            None => CommitsBehind::Filed(FiledByOthers::default()),
        };
        let signed = self.members.iter().map(|member| member.registration().map(|registration| &*registration.signed));
        let is_small = self.members.len() <= READ_AT_ONCE;
        let asked = signed.map(|signed| signed.filter(|_| is_small)).collect::<Vec<_>>();
        let ids: Vec<&str> = self.members.iter().map(|member| member.id().as_str()).collect();
        let (any_there, mut filed) = self.read(session, place, pointer, &ids, &asked, &behind).await?;
        let mut old = HashMap::new();
        if any_there {
            old = self.old(session, place, &pointer.others, &ids).await?;
        }
        let overruled = self.overruled(session, pointer).await?;
        let forbidden = self.forbidden(session, pointer).await?;
        let mut plans: Vec<MemberPlan<'_>> = Vec::with_capacity(self.members.len());
        for member in self.members {
            let now = pointer.moment(overruled.contains(member.id()));
            let is_forbidden = forbidden.contains(member.id());
            plans.push(MemberPlan::of(member, now, old.remove(member.id().as_str()), is_forbidden));
        }
        let signed: Vec<Option<&Signed>> = plans.iter().map(MemberPlan::to_be_judged).collect();
        if !is_small {
            (_, filed) = self.read(session, place, pointer, &[], &signed, &behind).await?;
        }
        self.read_ahead(place, &behind, &filed.answer);
        let (mut earlier, buckets, proposed) = self.look_up(session, place, &plans, &signed, filed).await?;
        let (outcomes, mut writes, standby) =
            self.conclude_all(session, place, plans, buckets, first, &mut earlier).await?;
        let times = StageTimes { latched: began, proposed, judged: Instant::now() };
        self.file_standby(session, place, standby, &mut writes).await?;
        let generation = place.generation;
        let before = first.before(1);
        let commit = before.after(outcomes.len());
        let answer = earlier.answer;
        let taken_from = std::mem::take(&mut writes.taken_from);
        self.write(session, place, pointer, writes).await?;
        let update = CacheUpdate { generation, before, commit, behind, answer, taken_from };
        Ok(RoundOutcome { outcomes, update, times })
    }

    /// Concludes the members in the order of arrival, from their plans and the contents of their buckets. Returns their outcomes,
    /// the documents to be written, and the records that must be added to standby generations. It concludes at least one member,
    /// and stops before a member that it cannot judge with the results of these reads.
    async fn conclude_all<'p>(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        plans: Vec<MemberPlan<'p>>,
        buckets: Vec<BucketContents>,
        first: Seq,
        earlier: &mut PrecedingMembers,
    ) -> TxnResult<(Vec<StoreResult<ChangeOutcome>>, BatchWrites, Vec<StandbyFiling<'p>>)> {
        let near = buckets.iter().map(|buckets| buckets.near.len()).max().unwrap_or(0);
        let mut writes = BatchWrites::default();
        let mut standby = Vec::new();
        let mut outcomes = Vec::with_capacity(plans.len());
        for ((at, plan), buckets) in plans.into_iter().enumerate().zip(buckets) {
            let member = &self.members[at];
            let seq = first.after(at);
            if !earlier.is_whole() {
                break;
            }
            let outcome = match plan {
                MemberPlan::Settled(outcome) => outcome,
                MemberPlan::Put(registration, old) => {
                    let conclusion = self.concluded(session, place, at, registration, earlier, buckets).await?;
                    let put = PutRecord { registration, old, seq };
                    let outcome = put.put(conclusion, place, near, earlier, &mut writes)?;
                    if !matches!(outcome, RegisterOutcome::Skipped(_)) {
                        standby.push(StandbyFiling { registration, seq, generations: registration.standby() });
                    }
                    Ok(ChangeOutcome::Registered(Box::new(outcome)))
                }
                MemberPlan::Update(registration, old, missing) => {
                    let number = seq;
                    let seq = old.record.record.seq;
                    writes.log(number, member.id(), LoggedKind::Updated { seq });
                    let updated = update(place, registration, old, earlier, &mut writes)?;
                    standby.push(StandbyFiling { registration, seq, generations: missing });
                    Ok(ChangeOutcome::Registered(Box::new(RegisterOutcome::Updated(updated))))
                }
                MemberPlan::Remove(old) => {
                    let id = member.id();
                    earlier.remove(id.as_str(), near);
                    writes.remove(place, id, &old);
                    writes.log(seq, id, LoggedKind::Removed);
                    Ok(ChangeOutcome::Removed(true))
                }
            };
            outcomes.push(outcome);
        }
        Ok((outcomes, writes, standby))
    }

    /// Returns the `simhash` channel of the live generation.
    fn simhash(&self, live: GenerationId) -> SimhashChannel {
        self.settings(live).and_then(Settings::simhash).unwrap_or_default()
    }

    /// Returns the settings of the live generation. A member that knows another generation was signed for this generation and is not
    /// judged.
    fn settings(&self, live: GenerationId) -> Option<&Settings> {
        let known = self.members.iter().map(|member| &*member.known.state);
        settings_of(known.map(|state| (state.generation, &state.settings)), live)
    }

    /// Judges the member at `at` and returns its conclusion.
    async fn concluded(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        at: usize,
        registration: &Registration,
        earlier: &mut PrecedingMembers,
        buckets: BucketContents,
    ) -> TxnResult<RegistrationConclusion> {
        let RecordChange::Register { judge, .. } = &self.members[at].change else {
            return Err(StoreError::Internal("only registrations are judged".into()).into());
        };
        let mut hits = [earlier.hits(&registration.signed, buckets, self.simhash(place.generation))];
        let mut texts = std::mem::take(&mut earlier.texts);
        self.shared.learn(session, place, &mut hits, &mut texts, &mut earlier.seqs).await?;
        let [hits] = hits;
        let ranked = ranked(&hits, registration);
        let order: HashMap<Arc<str>, usize> =
            ranked.items.iter().enumerate().map(|(at, item)| (item.id.clone(), at)).collect();
        let (mut matches, mut others) = earlier.part(at, ranked.items, &texts);
        let context = JudgeContext { judge: judge.as_ref(), immutable: self.confirmed };
        dismiss(&mut others, context);
        let signatures = &mut earlier.signatures;
        matches.extend(self.shared.judged(session, place, &others, &mut texts, signatures, context).await?);
        matches.sort_by_key(|found| order.get(found.id.as_str()));
        earlier.texts = texts;
        Ok(conclude(judge.as_ref(), registration.mode, matches, ranked.truncated))
    }
}

/// Returns the settings of the generation `live` among the known generations.
fn settings_of<'s>(
    mut known: impl Iterator<Item = (GenerationId, &'s Settings)>,
    live: GenerationId,
) -> Option<&'s Settings> {
    known.find(|(generation, _)| *generation == live).map(|(_, settings)| settings)
}

/// Returns the candidates of a registration, the best first.
fn ranked(hits: &ProposedHits, registration: &Registration) -> RankedProposals {
    hits.ranked(&registration.confirmed, Some(&registration.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_read_for_the_live_generation_even_if_a_removal_knows_another() {
        let old = settings_with_radius(3);
        let new = settings_with_radius(6);
        let known = [(GenerationId(1), &old), (GenerationId(2), &new)];
        assert_eq!(settings_of(known.into_iter(), GenerationId(1)), Some(&old));
        assert_eq!(settings_of(known.into_iter(), GenerationId(2)), Some(&new));
    }

    fn settings_with_radius(radius: u8) -> Settings {
        let channels = format!(r#"{{"channels": [{{"scheme": "simhash", "radius": {radius}}}]}}"#);
        serde_json::from_str(&channels).expect("settings")
    }
}
