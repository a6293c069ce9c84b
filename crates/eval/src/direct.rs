//! The pipeline without a store: rows are read and signed, added to the index that the service uses, looked up with its limits, and
//! compared by the same schemes. It serves evaluations that repeat this hundreds of times, and schemes whose weights depend on statistics
//! of the collection. The statistics are counted over the set first.
//!
//! It uses one thread and holds everything in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::dataset::LabelledSet;
use super::metrics::{FoundPair, FoundPairs, PositionPair};
use doppel_core::collection::{ChannelPosition, Settings, Verify};
use doppel_core::index::{GenerationIndex, Lookup, Proposal, ProposalOrder, Via};
use doppel_core::numbers::Seq;
use doppel_core::schemes::encoding::put_signature;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::similarity::ShingleSet;
use doppel_core::text::Document;
use doppel_core::verdict::{VIA_EXACT, VIA_NAMES, VIA_URL};

/// The documents of a set's acceptable records.
#[derive(Debug, Default)]
pub struct ReadableSet {
    /// Position in the set, and the document.
    pub documents: Vec<(u32, Document)>,
    /// Number of refused records, by reason.
    pub refused: BTreeMap<String, usize>,
}

/// Reads the records of `set` at `positions`.
pub fn read(set: &LabelledSet, profile: &Profile, positions: impl Iterator<Item = u32>) -> ReadableSet {
    let mut readable = ReadableSet::default();
    for position in positions {
        let (_, row) = &set.records[position as usize];
        let reason = match profile.read(row) {
            Ok(document) if !document.is_empty() => {
                readable.documents.push((position, document));
                continue;
            }
            Ok(_) => "no_content",
            Err(violations) => violations.first().map_or("invalid", |violation| violation.code.as_str()),
        };
        *readable.refused.entry(reason.to_owned()).or_insert(0) += 1;
    }
    readable
}

/// Counts the words of `documents`, as a reindex would.
pub fn count(profile: &Profile, documents: &[(u32, Document)]) -> Arc<Statistics> {
    let mut statistics = Statistics::default();
    documents.iter().for_each(|(_, document)| statistics.observe(&profile.cut(document)));
    Arc::new(statistics)
}

/// Returns the mean time of one record in microseconds, if `records` records took `seconds` seconds.
pub fn micros_each(seconds: f64, records: usize) -> f64 {
    seconds * 1e6 / records.max(1) as f64
}

/// The results and the cost of lookups.
#[derive(Debug, Default)]
pub struct LookupResults {
    /// The found pairs, by position in the set.
    pub pairs: FoundPairs,
    /// Mean number of keys of a record. A fingerprint has four keys.
    pub keys: f64,
    /// Mean number of bytes of a record's encoded signatures and its keys. A key has eight bytes.
    pub bytes: f64,
    /// Seconds of all lookups, including comparisons.
    pub lookup_s: f64,
    /// Number of lookups that a limit cut.
    pub truncated: usize,
}

/// The stages in addition to the channels.
#[derive(Clone, Copy, Debug)]
pub struct ExtraStages<'a> {
    /// True if equal digests match.
    pub exact: bool,
    /// The verification, and the shingles of the texts that it compares.
    pub verify: Option<&'a [ShingleSet]>,
}

/// The results for a whole set.
#[derive(Debug, Default)]
pub struct SetResults {
    /// Number of refused records, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Number of accepted records.
    pub records: usize,
    /// Seconds for signing.
    pub sign_s: f64,
    pub looked: LookupResults,
}

/// Reads, signs and looks up a whole set. If the settings need statistics, they are counted first. The exact stage runs if `exact` is true,
/// and the verification if the settings have one.
pub fn examine(set: &LabelledSet, settings: &Settings, exact: bool) -> SetResults {
    let plain = Profile::compile(settings, None);
    let ReadableSet { documents, refused } = read(set, &plain, 0..set.records.len() as u32);
    let statistics = plain.needs_statistics().then(|| count(&plain, &documents));
    let profile = Profile::compile(settings, statistics);
    let begun = Instant::now();
    let signed: Vec<_> = documents.iter().map(|(_, document)| profile.sign(document)).collect();
    let sign_s = begun.elapsed().as_secs_f64();
    let positions: Vec<u32> = documents.iter().map(|(position, _)| *position).collect();
    let texts = settings
        .verify
        .as_ref()
        .map(|verify: &Verify| {
            let all = documents.iter().map(|(_, document)| ShingleSet::of(&document.joined(), verify.shingle));
            all.collect::<Vec<_>>()
        })
        .unwrap_or_default();
    let verify = settings.verify.as_ref().map(|_| &texts[..]);
    let looked = look_up(&profile, settings, &positions, &signed, ExtraStages { exact, verify });
    SetResults { refused, records: signed.len(), sign_s, looked }
}

/// Adds all records to an index, then looks each of them up. `signed[i]` is the record at `positions[i]` of the set.
pub fn look_up(
    profile: &Profile,
    settings: &Settings,
    positions: &[u32],
    signed: &[Signed],
    stages: ExtraStages<'_>,
) -> LookupResults {
    let index = GenerationIndex::new();
    let mut keys = 0;
    let mut bytes = Vec::new();
    for (seq, signed) in (1..).map(Seq).zip(signed) {
        keys += signed.keys.len() + if signed.fingerprint().is_some() { 4 } else { 0 };
        signed.signatures.iter().for_each(|signature| put_signature(&mut bytes, signature.as_ref()));
        // The index has room for 2^31 records, and a labelled set fits into memory.
        let _ = index.insert_signed(seq, signed);
    }
    let mut looked = LookupResults::default();
    let begun = Instant::now();
    for (at, own) in signed.iter().enumerate() {
        let digest_key = stages.exact.then(|| own.digest.key());
        let proposals =
            index.propose(&Lookup { digest_key, ..Lookup::of(own, settings.simhash(), ProposalOrder::of(settings)) });
        looked.truncated += usize::from(proposals.truncated);
        for proposal in &proposals.items {
            let other = proposal.seq.0 as usize - 1;
            if other != at
                && let Some(found) = judge(profile, (at, other), signed, proposal, stages)
            {
                let pair = PositionPair::new(positions[at], positions[other]);
                looked.pairs.entry(pair).or_insert(found);
            }
        }
    }
    looked.lookup_s = begun.elapsed().as_secs_f64();
    let records = signed.len().max(1) as f64;
    (looked.keys, looked.bytes) = (keys as f64 / records, (bytes.len() + 8 * keys) as f64 / records);
    looked
}

fn judge(
    profile: &Profile,
    positions: (usize, usize),
    signed: &[Signed],
    proposal: &Proposal,
    stages: ExtraStages<'_>,
) -> Option<FoundPair> {
    let (at, other) = positions;
    let a = &signed[at];
    let b = &signed[other];
    let channels = profile.schemes().iter().enumerate().filter(|(position, scheme)| {
        let signatures = (&a.signatures[*position], &b.signatures[*position]);
        // Common names alone are not a match.
        let counts = scheme.name() != VIA_NAMES || stages.verify.is_some();
        counts
            && proposal.via.contains(Via::channel(ChannelPosition(*position as u8)))
            && matches!(signatures, (Some(a), Some(b)) if scheme.compare(a, b))
    });
    let exact = stages.exact && a.digest == b.digest;
    let names = channels.map(|(_, scheme)| scheme.name().to_owned());
    let via: std::collections::BTreeSet<String> =
        exact.then(|| VIA_EXACT.to_owned()).into_iter().chain(names).collect();
    if via.is_empty() {
        return None;
    }
    let similarity = match stages.verify {
        _ if exact => Some(1.0),
        None => None,
        Some(texts) => {
            let measured = texts[at].resemblance(&texts[other]);
            let counts = via.contains(VIA_URL) || measured.is_same_form();
            Some(counts.then_some(measured.jaccard)?)
        }
    };
    Some(FoundPair { via, similarity })
}
