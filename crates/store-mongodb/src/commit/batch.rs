//! The transaction of a batch:
//!
//! 1. take the latch of the collection, which says the generations and draws a seq for each member (`latch`);
//! 2. read what stands under the ids, and what is filed under the digests, keys and blocks of those to be judged: a small batch at
//!    once, as if all were to be judged;
//! 3. go through the members in the order of their arrival: plan, propose, judge and conclude each against what was read and the
//!    members before it (`plan`, `preceding`);
//! 4. write each document once: records with their verdicts, signatures, pages;
//! 5. commit, also where nothing was stored: an answer rests on what was read, and what was read is certain only once a majority has
//!    confirmed a commit behind it.
//!
//! Where a member takes away what a list needs that was read only in part, the batch ends before the next one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::plan::{Plan, StoredVersion};
use super::preceding::Preceding;
use super::{Change, Changed, Member, ahead};
use crate::Shared;
use crate::documents::{
    CHANGES, Page, RECORDS, RecordDocument, SIGNATURES, SignatureDocument, encode_change, record_content, record_key,
    signature_key, verdict_content,
};
use crate::finds::Find;
use crate::posting_cache::{Behind, CacheUpdate, PostingCache, Reading};
use crate::postings::{Answer, ListKey, PostingQuery, list_keys};
use crate::propose::{Hits, Ranked, dismiss, judge_together, on_all_cores};
use crate::read::{BucketQuery, Buckets, GenerationKey, Pointer, among, next};
use crate::retry::{End, TxnError, Work};
use crate::write::IndexWrites;
use doppel_core::collection::{CollectionName, SimhashChannel};
use doppel_core::record::{MAX_ID_BYTES, RecordId};
use doppel_core::schemes::profile::Signed;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::rules::conclude::{Conclusion, conclude};
use doppel_store::{GenerationId, Registered, Registration, Result as StoreResult, Seq, StoreError, StoredRecord};

type Result<T> = std::result::Result<T, TxnError>;

/// Changes that are made by one transaction, no two of one record.
pub(super) struct Batch<'a> {
    shared: &'a Arc<Shared>,
    name: &'a CollectionName,
    members: &'a [Arc<Member>],
    /// See [`LatchQueue::confirmed`](crate::latch::LatchQueue::confirmed).
    confirmed: Seq,
    cache: PostingCache,
    /// What the cache becomes with the commit.
    update: Option<CacheUpdate>,
    /// What is being read for the next batch.
    reading: OnceLock<Reading>,
}

/// Members of a batch that is read at once. What is read in vain for some of them, which turn out to be there already, costs less than
/// another round trip.
const SMALL: usize = 16;

/// Members for which one thread is enough.
const FEW: usize = 4;

/// What is filed beside members.
struct Filed {
    answer: Answer,
    /// For each member.
    buckets: Vec<Buckets>,
}

/// When the stages of a batch ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// It had its turn.
    pub(super) latched: Instant,
    /// What is to be judged was known.
    pub(super) proposed: Instant,
    /// What becomes of each member was known.
    pub(super) judged: Instant,
}

/// What is to be written.
#[derive(Default)]
struct Writes {
    new_records: Vec<Document>,
    changed_records: Vec<Document>,
    removed_records: Vec<Document>,
    layout: IndexWrites,
    removed_signatures: Vec<Bson>,
    /// Lists that a record leaves.
    taken_from: Vec<ListKey>,
    /// Pages that entries of a record leave.
    taken_entries: Vec<(Page, RecordId)>,
    removed: Vec<RecordId>,
    logged: Vec<LoggedChange>,
}

/// A record that is filed in standby generations, too.
struct Standby<'a> {
    registration: &'a Registration,
    seq: Seq,
    generations: Vec<GenerationId>,
}

#[async_trait]
impl Work for Batch<'_> {
    /// The number of the commit, and the outcomes of the first members, one at least.
    type Answer = (Seq, Vec<StoreResult<Changed>>, Times);

    async fn attempt(&mut self, session: &mut ClientSession) -> Result<End<Self::Answer>> {
        let drawn = self.members.len();
        let Some(pointer) = self.shared.take_latch(session, self.name, drawn).await? else {
            return Err(StoreError::UnknownCollection(self.name.clone()).into());
        };
        let (outcomes, update, times) = self.go(session, &pointer, pointer.commits.next().before(drawn as u64)).await?;
        self.update = Some(update);
        Ok(End::Commit((pointer.commits, outcomes, times)))
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        name: &'a CollectionName,
        members: &'a [Arc<Member>],
        confirmed: Seq,
        cache: PostingCache,
    ) -> Self {
        Self { shared, name, members, confirmed, cache, update: None, reading: OnceLock::new() }
    }

    /// The cache, once the batch is committed; with what is being read meanwhile for the next one.
    pub(super) fn into_cache(self) -> PostingCache {
        let mut cache = self.cache;
        match (self.update, self.reading.into_inner()) {
            (Some(update), Some(reading)) => cache.update_later(update, reading),
            (Some(update), None) => cache.update(update, None),
            (None, _) => {}
        }
        cache
    }

    async fn go(
        &self,
        session: &mut ClientSession,
        pointer: &Pointer,
        first: Seq,
    ) -> Result<(Vec<StoreResult<Changed>>, CacheUpdate, Times)> {
        let at_latch = Instant::now();
        if self.members.iter().any(|member| member.known.number != pointer.number) {
            return Err(StoreError::UnknownCollection(self.name.clone()).into());
        }
        let place = GenerationKey { number: pointer.number, generation: pointer.generation };
        let behind = self.shared.behind(session, place, &self.cache, (first.before(1), pointer.forgotten)).await?;
        let signed = self.members.iter().map(|member| member.registration().map(|registration| &*registration.signed));
        let is_small = self.members.len() <= SMALL;
        let asked = signed.map(|signed| signed.filter(|_| is_small)).collect::<Vec<_>>();
        let ids: Vec<&str> = self.members.iter().map(|member| member.id().as_str()).collect();
        let (any_there, mut filed) = self.read(session, place, (&ids, &asked), &behind).await?;
        let mut old = HashMap::new();
        if any_there {
            old = self.old(session, place, &pointer.others, &ids).await?;
        }
        let overruled = self.overruled(session, pointer).await?;
        let mut plans: Vec<Plan<'_>> = Vec::with_capacity(self.members.len());
        for member in self.members {
            let now = pointer.moment(overruled.contains(member.id()));
            plans.push(Plan::of(member, now, old.remove(member.id().as_str())));
        }
        let signed: Vec<Option<&Signed>> = plans.iter().map(Plan::to_be_judged).collect();
        if !is_small {
            (_, filed) = self.read(session, place, (&[], &signed), &behind).await?;
        }
        self.read_ahead(place, &filed.answer);
        let (mut earlier, buckets, proposed) = self.look_up(session, place, (&plans, &signed), filed).await?;
        let near = buckets.iter().map(|buckets| buckets.near.len()).max().unwrap_or(0);
        let (mut writes, mut standby) = (Writes::default(), Vec::new());
        let mut outcomes = Vec::with_capacity(plans.len());
        for (((at, member), plan), buckets) in self.members.iter().enumerate().zip(plans).zip(buckets) {
            let seq = first.after(at);
            if !earlier.is_whole() {
                break;
            }
            let outcome = match plan {
                Plan::Settled(outcome) => outcome,
                Plan::Put(registration, old) => {
                    let conclusion =
                        self.concluded(session, place, (at, member), registration, &mut earlier, buckets).await?;
                    let put = Put { registration, old, seq };
                    let outcome = put.put(conclusion, place, near, &mut earlier, &mut writes)?;
                    if !matches!(outcome, Registered::Skipped(_)) {
                        standby.push(Standby { registration, seq, generations: registration.standby() });
                    }
                    Ok(Changed::Registered(Box::new(outcome)))
                }
                Plan::Update(registration, old, missing) => {
                    let (number, seq) = (seq, old.record.record.seq);
                    writes.log(number, member.id(), LoggedKind::Updated { seq });
                    let updated = update(place, registration, old, &mut earlier, &mut writes)?;
                    standby.push(Standby { registration, seq, generations: missing });
                    Ok(Changed::Registered(Box::new(Registered::Updated(updated))))
                }
                Plan::Remove(old) => {
                    let id = member.id();
                    earlier.remove(id.as_str(), near);
                    writes.remove(place, id, &old);
                    writes.log(seq, id, LoggedKind::Removed);
                    Ok(Changed::Removed(true))
                }
            };
            outcomes.push(outcome);
        }
        let times = Times { latched: at_latch, proposed, judged: Instant::now() };
        self.file_standby(session, place, standby, &mut writes).await?;
        let (generation, before, commit) = (place.generation, first.before(1), pointer.commits);
        let (answer, taken_from) = (earlier.answer, std::mem::take(&mut writes.taken_from));
        self.write(session, place, pointer, writes).await?;
        Ok((outcomes, CacheUpdate { generation, before, commit, behind, answer, taken_from }, times))
    }

    /// Begins to read what those will ask for who wait, as far as it will not be in the cache; once, however often the batch is tried.
    fn read_ahead(&self, place: GenerationKey, answer: &Answer) {
        let waiting = self.shared.commits.waiting(place.number);
        // Few are read by one command with everything else.
        if waiting.len() > SMALL && self.reading.get().is_none() {
            let signed = waiting.iter().filter_map(|member| Some(&*member.registration()?.signed));
            let mut question = PostingQuery::of(signed);
            question.leave_out(|key| self.cache.has(key) || answer.has(key));
            self.reading.get_or_init(|| ahead::start(self.shared, self.name, place, question));
        }
    }

    /// Those whose record people have decided about since they were begun. One round trip if anything was decided since.
    async fn overruled(&self, session: &mut ClientSession, pointer: &Pointer) -> Result<HashSet<RecordId>> {
        let registrations = self.members.iter().filter_map(|member| member.registration());
        let outdated = |it: &&Registration| it.decisions_as_of.is_some_and(|known| known < pointer.decided);
        let outdated: Vec<&Registration> = registrations.filter(outdated).collect();
        match outdated.is_empty() {
            true => Ok(HashSet::new()),
            false => self.shared.overruled(session, pointer.number, &outdated).await,
        }
    }

    /// Whether any of `ids` is there, and what is filed beside those that are signed so. One round trip for a small batch, one for each kind
    /// of thing for a large one, and more where keys are shared by many.
    async fn read(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        (ids, signed): (&[&str], &[Option<&Signed>]),
        behind: &Behind,
    ) -> Result<(bool, Filed)> {
        let mut question = PostingQuery::of(signed.iter().copied().flatten());
        let mut answer = match behind {
            Behind::Filed(records) => question.answer_from(|key| self.cache.get(key, records)),
            Behind::Unknown => Answer::default(),
        };
        let fingerprints: Vec<_> = signed.iter().map(|signed| signed.and_then(Signed::fingerprint)).collect();
        let around = BucketQuery::around(&fingerprints, self.simhash().radius);
        let mut finds = question.finds(place);
        let lists = finds.len();
        let is_small = signed.len() <= SMALL;
        let pages = if is_small { around.find(place) } else { None };
        let have_pages = pages.is_some();
        finds.extend(pages);
        if !ids.is_empty() {
            finds.push(Find::new(RECORDS, among(place.number, ids), doc! { "_id": 1 }, (ids.len(), MAX_ID_BYTES + 64)));
        }
        let mut found = match is_small {
            true => self.shared.find_all(session, finds).await?,
            false => self.shared.find_apart(session, finds).await?,
        };
        let mut others = found.split_off(lists).into_iter();
        answer.extend(self.shared.filed(session, place, &question, found).await?);
        let pages = if have_pages { others.next() } else { None };
        let buckets = self.shared.buckets(session, place, &around, pages).await?;
        let any_there = others.next().is_some_and(|there| !there.is_empty());
        Ok((any_there, Filed { answer, buckets }))
    }

    /// What stands under `ids`. Two round trips.
    async fn old(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        others: &[GenerationId],
        ids: &[&str],
    ) -> Result<HashMap<String, StoredVersion>> {
        let mut found = HashMap::new();
        let records = self.shared.in_session(RECORDS);
        let mut cursor = records.find(among(place.number, ids)).session(&mut *session).await?;
        while cursor.advance(session).await? {
            let record = RecordDocument::decode(cursor.current())?;
            found.insert(record.record.id.as_str().to_owned(), StoredVersion { record, signatures: Vec::new() });
        }
        let keys = found.values().flat_map(|old| {
            let generations = std::iter::once(&place.generation).chain(others);
            generations.map(|generation| Bson::from(signature_key(place.number, *generation, &old.record.record.id)))
        });
        let filter = doc! { "_id": { "$in": keys.collect::<Vec<_>>() } };
        let signatures = self.shared.in_session(SIGNATURES);
        let filed = signatures.find(filter).projection(doc! { "signed": 0, "pairs": 0 });
        let mut cursor = filed.session(&mut *session).await?;
        while let Some(signature) = next(&mut cursor, session).await? {
            let signature = SignatureDocument::decode(&signature)?;
            if let Some(old) = found.get_mut(signature.id.as_str()) {
                old.signatures.push(signature);
            }
        }
        Ok(found)
    }

    /// What the database holds for those that are to be judged, what each one's buckets hold, in the order of the members, and when it
    /// was known what is to be judged. Two round trips, whatever the size of the batch, and one more where a limit cuts a lookup or
    /// signatures are compared.
    async fn look_up(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        (plans, signed): (&[Plan<'_>], &[Option<&Signed>]),
        Filed { answer, buckets }: Filed,
    ) -> Result<(Preceding, Vec<Buckets>, Instant)> {
        let simhash = self.simhash();
        let mut earlier = Preceding::of(answer);
        buckets.iter().for_each(|buckets| earlier.highest.extend(&buckets.highest));
        // All texts that will be compared, but for what the members themselves change in that.
        let asked: Vec<_> = signed.iter().zip(&buckets).filter_map(|(signed, own)| Some(((*signed)?, own))).collect();
        let mut hits = on_all_cores(&asked, FEW, |(signed, own)| earlier.hits(signed, (*own).clone(), simhash));
        let mut texts = std::mem::take(&mut earlier.texts);
        self.shared.learn(session, place, &mut hits, (&mut texts, &mut earlier.seqs)).await?;
        let judges = self.members.iter().zip(plans).enumerate().filter_map(|(at, (member, plan))| {
            match (&member.change, plan) {
                (Change::Register { registration, judge }, Plan::Put(..)) => Some((at, registration, judge.as_ref())),
                _ => None,
            }
        });
        let proposals: Vec<_> = hits.into_iter().zip(judges).collect();
        let sifted = on_all_cores(&proposals, FEW, |(hits, (_, registration, judge))| {
            let mut items = ranked(hits, registration).items;
            let dismissed = dismiss(&mut items, (*judge, self.confirmed));
            (items, dismissed)
        });
        let (mut members, mut asked) = (Vec::new(), Vec::new());
        for ((items, dismissed), (_, (at, _, judge))) in sifted.into_iter().zip(&proposals) {
            dismissed.iter().for_each(|item| earlier.note(*at, item, None));
            members.extend(items.iter().map(|_| *at));
            asked.extend(items.into_iter().map(|item| (*judge, item)));
        }
        let proposed = Instant::now();
        let ids = || asked.iter().map(|(_, item)| &*item.id);
        self.shared.read_texts(session, place, ids(), &mut texts).await?;
        let signed = asked.iter().filter(|(judge, _)| judge.needs_signatures()).map(|(_, item)| &*item.id);
        self.shared.read_signatures(session, place, signed, &mut earlier.signatures).await?;
        let judged = judge_together(&asked, &texts, &earlier.signatures, self.confirmed);
        for ((at, (_, item)), judged) in members.into_iter().zip(&asked).zip(judged) {
            // One that is not there may be put by a member.
            if texts.contains_key(&item.id) {
                earlier.note(at, item, judged);
            }
        }
        earlier.texts = texts;
        Ok((earlier, buckets, proposed))
    }

    /// The `simhash` channel, as the members know it.
    fn simhash(&self) -> SimhashChannel {
        let known = self.members.first().and_then(|member| member.known.state.settings.simhash());
        known.unwrap_or_default()
    }

    /// What becomes of a member, from what it matches.
    async fn concluded(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        (at, member): (usize, &Member),
        registration: &Registration,
        earlier: &mut Preceding,
        buckets: Buckets,
    ) -> Result<Conclusion> {
        let Change::Register { judge, .. } = &member.change else {
            return Err(StoreError::Internal("only registrations are judged".into()).into());
        };
        let simhash = member.known.state.settings.simhash().unwrap_or_default();
        let mut hits = [earlier.hits(&registration.signed, buckets, simhash)];
        let mut texts = std::mem::take(&mut earlier.texts);
        self.shared.learn(session, place, &mut hits, (&mut texts, &mut earlier.seqs)).await?;
        let [hits] = hits;
        let ranked = ranked(&hits, registration);
        let order: HashMap<Arc<str>, usize> =
            ranked.items.iter().enumerate().map(|(at, item)| (item.id.clone(), at)).collect();
        let (mut matches, mut others) = earlier.part(at, ranked.items, &texts);
        let known = (&mut texts, &mut earlier.signatures);
        let compared = (judge.as_ref(), self.confirmed);
        dismiss(&mut others, compared);
        matches.extend(self.shared.judged(session, place, &others, known, compared).await?);
        matches.sort_by_key(|found| order.get(found.id.as_str()));
        earlier.texts = texts;
        Ok(conclude(judge.as_ref(), registration.mode, matches, ranked.truncated))
    }

    /// Lays out what is filed in standby generations. One round trip for each.
    async fn file_standby(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        all: Vec<Standby<'_>>,
        writes: &mut Writes,
    ) -> Result<()> {
        let mut by_generation: BTreeMap<GenerationId, Vec<(&RecordId, Seq, &Signed)>> = BTreeMap::new();
        for Standby { registration, seq, generations } in &all {
            for (generation, signed) in registration.generations().filter(|(id, _)| generations.contains(id)) {
                by_generation.entry(generation).or_default().push((&registration.id, *seq, signed));
            }
        }
        for (generation, filings) in by_generation {
            let fingerprints = filings.iter().filter_map(|(_, _, signed)| signed.fingerprint());
            let mut highest =
                self.shared.highest_pages(session, GenerationKey { generation, ..place }, fingerprints).await?;
            for filing in filings {
                writes.layout.file(filing, generation, Vec::new(), &mut highest);
            }
        }
        Ok(())
    }

    /// Writes every document once. At most one round trip for each collection and kind of change.
    async fn write(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        pointer: &Pointer,
        writes: Writes,
    ) -> Result<()> {
        let shared = self.shared;
        let Writes { new_records, changed_records, removed_records, .. } = &writes;
        if !new_records.is_empty() {
            shared.insert(session, RECORDS, new_records).await?;
        }
        shared.update(session, RECORDS, changed_records.clone()).await?;
        shared.delete(session, RECORDS, removed_records.iter().cloned().map(Bson::from).collect()).await?;
        shared.delete(session, SIGNATURES, writes.removed_signatures).await?;
        let signatures: Vec<Document> =
            writes.layout.signatures.iter().map(|signature| signature.encode(place.number)).collect();
        if !signatures.is_empty() {
            shared.insert(session, SIGNATURES, &signatures).await?;
        }
        // Before the new ones: an entry may return to its page.
        shared.take_entries(session, place.number, &writes.taken_entries).await?;
        shared.push_entries(session, place.number, &writes.layout).await?;
        shared.remove_empty_pages(session, place.number, &writes.taken_entries).await?;
        let logged = writes.logged.iter().map(|change| encode_change(place.number, change));
        let logged = logged.collect::<StoreResult<Vec<_>>>()?;
        if !logged.is_empty() {
            shared.insert(session, CHANGES, &logged).await?;
        }
        if !writes.removed.is_empty() && pointer.decided > Seq(0) {
            shared.forget_decisions(session, (self.name, place.number), &writes.removed, pointer.commits).await?;
        }
        Ok(())
    }
}

/// A record to be put.
struct Put<'a> {
    registration: &'a Registration,
    old: Option<StoredVersion>,
    seq: Seq,
}

impl Put<'_> {
    /// Adds to `writes` what is to be written, and says the outcome.
    fn put(
        self,
        conclusion: Conclusion,
        place: GenerationKey,
        near: usize,
        earlier: &mut Preceding,
        writes: &mut Writes,
    ) -> Result<Registered> {
        let Self { registration, old, seq } = self;
        let (verdict, duplicate_of_seq, pairs) = match conclusion {
            Conclusion::Skip(verdict) => return Ok(Registered::Skipped(verdict)),
            Conclusion::Store { verdict, duplicate_of_seq, earlier } => (verdict, duplicate_of_seq, earlier),
        };
        let Registration { id, signed, content, now, .. } = registration;
        let mut document = doc! { "_id": record_key(place.number, id) };
        document.extend(record_content(place.generation, signed, content, now)?);
        document.extend(verdict_content(seq, &verdict, duplicate_of_seq)?);
        if let Some(old) = &old {
            earlier.remove(id.as_str(), near);
            writes.take_away(place, id, old);
            writes.log(seq, id, LoggedKind::Replaced);
            let key = doc! { "_id": record_key(place.number, id) };
            writes.changed_records.push(doc! { "q": key, "u": document });
        } else {
            writes.new_records.push(document);
        }
        writes.layout.file((id, seq, signed), place.generation, pairs, &mut earlier.highest);
        let record = registration.record(seq, verdict, duplicate_of_seq);
        earlier.put(registration, record.clone());
        Ok(if old.is_some() { Registered::Replaced(record) } else { Registered::Created(record) })
    }
}

/// Adds to `writes` the new content of a record that reads as before; the record with it.
fn update(
    place: GenerationKey,
    registration: &Registration,
    old: StoredVersion,
    earlier: &mut Preceding,
    writes: &mut Writes,
) -> Result<StoredRecord> {
    let Registration { id, content, signed, now, .. } = registration;
    let content = record_content(place.generation, signed, content, now)?;
    let mut change = doc! { "$set": content };
    if signed.fingerprint().is_none() {
        change.insert("$unset", doc! { "fingerprint": "" });
    }
    writes.changed_records.push(doc! { "q": { "_id": record_key(place.number, id) }, "u": change });
    let record = registration.updated(old.record.record);
    let filed = old.signatures.iter().find(|filed| filed.generation == place.generation);
    earlier.update(record.clone(), filed);
    Ok(record)
}

/// What is to be judged for a registration, best first.
fn ranked(hits: &Hits, registration: &Registration) -> Ranked {
    hits.ranked(&registration.confirmed, Some(&registration.id))
}

impl Writes {
    /// Takes away what is filed of a record, in every generation.
    fn take_away(&mut self, place: GenerationKey, id: &RecordId, old: &StoredVersion) {
        for filed in &old.signatures {
            if filed.generation == place.generation {
                self.taken_from.extend(list_keys(&filed.digest, &filed.keys));
            }
            self.removed_signatures.push(signature_key(place.number, filed.generation, id).into());
            self.taken_entries.extend(filed.places().into_iter().map(|page| (page, id.clone())));
        }
    }

    /// Logs a change that the records do not show by themselves.
    fn log(&mut self, number: Seq, id: &RecordId, kind: LoggedKind) {
        self.logged.push(LoggedChange { number, id: id.clone(), kind });
    }

    fn remove(&mut self, place: GenerationKey, id: &RecordId, old: &StoredVersion) {
        self.take_away(place, id, old);
        self.removed_records.push(record_key(place.number, id));
        self.removed.push(id.clone());
    }
}
