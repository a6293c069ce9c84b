//! Examines a store that builds its index from stored index entries at each start.
//!
//! The examination signs every record again with the profile of each generation. The index entries must equal the new signatures, no entry may
//! exist without a record, and the live index must find the record by its signatures. This takes one pass over the records on all cores, with
//! memory for one page of records on each core.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures_util::stream::{self, StreamExt};

use crate::progress::CommandProgress;
use doppel_core::index::{Entry, HammingRange, Via};
use doppel_core::record::Row;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::verdict::{Match, Verdict, VerdictInputs};
use doppel_store::generations::GenerationPhase;
use doppel_store::{
    CandidateJudge, CandidateRecord, CollectionState, ExaminationReport, GenerationId, LookupEnd, LookupQuery, Seq,
    Store, StoredRecord,
};

/// Number of records that are read at a time.
const PAGE: usize = 128;

/// Examines all collections.
///
/// # Errors
/// The store cannot be read, or a live generation was signed with a method that this program does not have.
pub(super) async fn examine(store: &Arc<dyn Store>, progress: &CommandProgress) -> anyhow::Result<ExaminationReport> {
    let mut report = ExaminationReport::default();
    for state in store.collections().await? {
        let counted = store.count(&state.name).await?;
        progress.phase("records", Some(counted));
        let examined = Arc::new(InspectedCollection::of(Arc::clone(store), state, progress).await?);
        let seen = examined.examine(&mut report, progress).await?;
        if counted != seen {
            let fault = format!(
                "the collection should have {counted} records, but {seen} exist; restore it from a \
                backup"
            );
            report.faults.push((examined.state.name.to_string(), "*".to_owned(), fault));
        }
    }
    Ok(report)
}

/// A collection under examination.
struct InspectedCollection {
    store: Arc<dyn Store>,
    state: Arc<CollectionState>,
    /// The generations, the live one first.
    generations: Vec<InspectedGeneration>,
}

struct InspectedGeneration {
    id: GenerationId,
    /// The profile that signed the generation; `None` if this version of the program cannot compile it.
    profile: Option<Profile>,
    /// True if every record must have an index entry in the generation.
    is_complete: bool,
}

/// Consecutive records.
struct RecordPage {
    records: Vec<StoredRecord>,
    /// The records of the page are all records with a seq above the first and up to the second.
    bounds: (Seq, Seq),
}

#[derive(Default)]
struct ExaminationFindings {
    records: u64,
    entries: u64,
    /// The ids of records with faults, with descriptions.
    faults: Vec<(String, String)>,
}

impl InspectedCollection {
    async fn of(
        store: Arc<dyn Store>,
        state: Arc<CollectionState>,
        progress: &CommandProgress,
    ) -> anyhow::Result<Self> {
        let live = (state.generation, &state.settings, &state.profile, true);
        let others = state.others.iter();
        let others =
            others.map(|other| (other.id, &other.settings, &other.profile, other.phase == GenerationPhase::Ready));
        let mut generations = Vec::new();
        for (id, settings, digest, is_complete) in std::iter::once(live).chain(others) {
            let statistics = store.statistics(&state.name, id).await?;
            let statistics = match statistics {
                Some(bytes) => Some(Arc::new(Statistics::decode(&bytes).with_context(|| {
                    format!("the statistics of generation {id} of collection {} are damaged; reindex it", state.name)
                })?)),
                None => None,
            };
            let profile = Profile::compile(settings, statistics);
            let profile = (profile.digest() == digest).then_some(profile);
            if profile.is_none() {
                progress.say(&format!(
                    "generation {id} of collection {} was built by other rules or with another dictionary: doppel \
                        checks only whether every record has an index entry; reindex the collection",
                    state.name
                ));
            }
            generations.push(InspectedGeneration { id, profile, is_complete });
        }
        Ok(Self { store, state, generations })
    }

    /// Adds the faults to `report`, and returns the number of records.
    async fn examine(
        self: &Arc<Self>,
        report: &mut ExaminationReport,
        progress: &CommandProgress,
    ) -> anyhow::Result<u64> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pages = stream::try_unfold(Some(Seq(0)), |after| self.next(after));
        let examined = pages.map(|page| {
            let examined = Arc::clone(self);
            tokio::spawn(async move { examined.examine_page(page?).await })
        });
        let mut examined = std::pin::pin!(examined.buffered(cores));
        let mut seen = 0;
        while let Some(findings) = examined.next().await {
            let ExaminationFindings { records, entries, faults } = findings??;
            seen += records;
            report.entries += entries;
            report.faults.extend(faults.into_iter().map(|(id, fault)| (self.state.name.to_string(), id, fault)));
            progress.at(seen);
        }
        report.records += seen;
        Ok(seen)
    }

    /// Returns the records after `after` and the position after them; `None` at the end. Entries after the last record belong to an empty
    /// page at the end.
    async fn next(&self, after: Option<Seq>) -> anyhow::Result<Option<(RecordPage, Option<Seq>)>> {
        let Some(after) = after else { return Ok(None) };
        let records = self.store.records(&self.state.name, after, PAGE).await?;
        let last = records.last().map(|last| last.seq);
        Ok(Some((RecordPage { records, bounds: (after, last.unwrap_or(Seq::MAX)) }, last)))
    }

    async fn examine_page(&self, page: RecordPage) -> anyhow::Result<ExaminationFindings> {
        let mut findings = ExaminationFindings { records: page.records.len() as u64, ..ExaminationFindings::default() };
        let rows: Vec<Option<Row>> = page.records.iter().map(|record| record.content.read()).collect();
        for generation in &self.generations {
            let mut filed = self.filed(generation.id, page.bounds).await?;
            findings.entries += filed.len() as u64;
            for (record, row) in page.records.iter().zip(&rows) {
                let signed = generation.sign(record, row.as_ref());
                let fault = generation.fault(record, signed.as_ref(), filed.remove(&record.seq));
                let fault = match (fault, signed) {
                    (None, Some(signed)) if generation.id == self.state.generation => self.lost(record, signed).await?,
                    (fault, _) => fault,
                };
                findings.faults.extend(fault.map(|fault| (record.id.to_string(), generation.tell(fault))));
            }
            let strays =
                filed.into_keys().map(|seq| (format!("seq {seq}"), generation.tell("the index entry has no record")));
            findings.faults.extend(strays);
        }
        Ok(findings)
    }

    /// Returns the index entries of a generation whose seq is greater than the first bound and at most the second bound.
    async fn filed(&self, generation: GenerationId, bounds: (Seq, Seq)) -> anyhow::Result<BTreeMap<Seq, Entry>> {
        let (mut after, end) = bounds;
        let mut all = BTreeMap::new();
        loop {
            let page = self.store.filed(&self.state.name, generation, after, PAGE).await?;
            let last = page.last().map(|filed| filed.seq);
            all.extend(page.into_iter().take_while(|filed| filed.seq <= end).map(|filed| (filed.seq, filed)));
            match last {
                Some(last) if last < end => after = last,
                _ => return Ok(all),
            }
        }
    }

    /// Describes the fault if the live index does not find a record by its signatures.
    async fn lost(&self, record: &StoredRecord, signed: Signed) -> anyhow::Result<Option<&'static str>> {
        let query = LookupQuery {
            collection: self.state.name.clone(),
            generation: self.state.generation,
            digest: Some(signed.digest),
            hamming: HammingRange::of(&signed, self.state.settings.simhash()),
            signed: Some(Arc::new(signed)),
            except: None,
            confirmed: Vec::new(),
        };
        let found = self.store.find(query, Arc::new(SingleRecordJudge(record.seq)), LookupEnd::FirstMatch).await?;
        // A list that was cut may miss a late record.
        let lost = found.matches.is_empty() && !found.truncated;
        Ok(lost.then_some("the index does not find the record"))
    }
}

impl InspectedGeneration {
    fn sign(&self, record: &StoredRecord, row: Option<&Row>) -> Option<Signed> {
        Some(self.profile.as_ref()?.sign_stored(&record.id, row?).1)
    }

    /// Describes the fault of the index entry of a record; `None` for a correct entry.
    fn fault(&self, record: &StoredRecord, signed: Option<&Signed>, filed: Option<Entry>) -> Option<&'static str> {
        let filed = match filed {
            Some(filed) => filed,
            None if self.is_complete => return Some("the record has no index entry"),
            None => return None,
        };
        match signed {
            None if record.content.row().is_none() => (filed.digest_key != record.digest.key()).then_some(
                "the index entry has another digest than the \
                    record",
            ),
            None if self.profile.is_some() => Some("the stored row cannot be read"),
            Some(signed) if record.digest_generation == self.id && record.digest != signed.digest => {
                Some("the digest differs from the digest of the row")
            }
            Some(signed) if filed != Entry::of(record.seq, signed) => {
                Some("the signatures of the index entry differ from those of the row")
            }
            _ => None,
        }
    }

    fn tell(&self, fault: &str) -> String {
        format!("{fault} in generation {}", self.id)
    }
}

/// A verifier that accepts one record if the exact stage proposes it. It reads no other record.
struct SingleRecordJudge(Seq);

impl CandidateJudge for SingleRecordJudge {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let found = candidate.record.seq == self.0 && candidate.via.contains(Via::EXACT);
        found.then(|| Match::unmeasured(candidate.record.id.clone(), candidate.record.seq))
    }

    fn dismisses(&self, seq: Seq, _via: Via) -> bool {
        seq != self.0
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: None,
                generation: GenerationId(0),
                statistics: 0,
                truncated,
            },
        )
    }
}
