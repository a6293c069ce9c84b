//! Labelled pairs with the features of the evidence model, to fit and to measure its coefficients.
//!
//! Each pair is measured twice: with document frequencies that are counted over its set, and with the built-in frequencies, as in a
//! collection without counted frequencies. In addition to the labelled pairs there are generated pairs ([`perturb`]). A record and a
//! harmlessly changed copy concern the same matter, even if the text is common in the collection. A record and a copy that names another
//! object do not.

pub mod fitting;
pub mod perturb;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;

use self::perturb::{HarmfulChange, HarmlessChange, ObjectPool, XorShift64, calls, citation};
use super::dataset::LabelledSet;
use super::labelled::SAME;
use super::metrics::PositionPair;
use doppel_core::collection::{Settings, Verify};
use doppel_core::evidence::{Feature, PairFeatures};
use doppel_core::record::Row;
use doppel_core::schemes::frequencies::{
    CountedKinds, CountedSample, Counter, Frequencies, SAMPLED_SHINGLE, counted_of_batch, name_code,
};
use doppel_core::schemes::profile::Profile;
use doppel_core::similarity::{
    Contrast, NamesInText, ShingleSet, TokenText, Verifier, WeightedShingles, align_tokens, contrast,
};
use doppel_core::text::shingles;

/// Number of records of a set that are perturbed, at even distances.
const PERTURBED: usize = 250;
/// Minimum number of shingles of a record that is perturbed.
const MIN_SHINGLES: usize = 8;
/// Maximum number of records with a shingle that proposes pairs; in a large set, one in a hundred records.
const COMMON_RECORDS: usize = 20;
/// Minimum number of uncommon shingles that the records of a proposed pair share.
const MIN_SHARED: u32 = 3;
/// Minimum plain Jaccard similarity, or containment, of a pair that is measured without a label.
const MIN_JACCARD: f64 = 0.12;
const MIN_CONTAINMENT: f64 = 0.3;
/// Number of records in the collection in which a letter is common. One in [`HOT_SHARE`] of these records contains the letter.
const HOT_RECORDS: u64 = 400;
const HOT_SHARE: u64 = 4;

/// The source of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PairKind {
    /// Two records of the set.
    Real,
    /// A record and a harmlessly changed copy.
    Harmless(HarmlessChange),
    /// A record and a harmlessly changed copy, in a collection where the letter is common.
    Hot(HarmlessChange),
    /// A record and a copy that names another object.
    Harmful(HarmfulChange),
    /// An order and a shorter call that cites its number.
    Citation,
    /// An order and a shorter call with the same telephone number.
    SecondCall,
    /// Two records about different matters with the same telephone number.
    OtherCall,
    /// Two records of the set about one matter whose texts are not nearly the same. The pair has the features that it would have if both
    /// records contained the same contact.
    SameCaller,
    /// Two records of the set that a person labelled as different matters. The pair has the features that it would have if both records
    /// contained the same contact: one person writes about several matters on one form.
    OneCaller,
}

impl PairKind {
    /// Returns the name in tables and files.
    pub fn name(self) -> String {
        match self {
            Self::Real => "real".to_owned(),
            Self::Harmless(kind) => kind.name().to_owned(),
            Self::Hot(kind) => format!("{}, in a common letter", kind.name()),
            Self::Harmful(kind) => kind.name().to_owned(),
            Self::Citation => "citation".to_owned(),
            Self::SecondCall => "second call".to_owned(),
            Self::OtherCall => "call about another matter".to_owned(),
            Self::SameCaller => "the same matter of one caller".to_owned(),
            Self::OneCaller => "another matter of one caller".to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct MeasuredPair {
    /// The source of the pair.
    pub kind: PairKind,
    /// The records; equal for a pair of a record and its copy.
    pub pair: PositionPair,
    /// The label, if people gave one.
    pub label: Option<String>,
    /// True if both records concern the same matter.
    pub same: bool,
    /// Features with counted document frequencies.
    pub counted: PairFeatures,
    /// Features with the built-in document frequencies.
    pub uncounted: Option<PairFeatures>,
}

/// A labelled set with its measured pairs.
#[derive(Clone, Debug)]
pub struct MeasuredSet {
    pub name: String,
    /// True if all true pairs are known. A pair without a label then does not concern the same matter.
    pub is_complete: bool,
    /// Number of true pairs, if all are known.
    pub pairs_true: usize,
    pub pairs: Vec<MeasuredPair>,
}

/// A record in the form in which it is compared.
struct PreparedRecord {
    set: ShingleSet,
    weighed: WeightedShingles,
    named: NamesInText,
    contacts: Vec<u64>,
    text: String,
    tokens: TokenText,
}

/// The profile and the verifier that compare records.
struct RecordComparer {
    profile: Arc<Profile>,
    verifier: Verifier,
}

impl RecordComparer {
    fn new(profile: &Arc<Profile>, verify: &Verify, frequencies: Arc<Frequencies>) -> Self {
        Self { profile: Arc::clone(profile), verifier: Verifier::new(verify.clone(), frequencies) }
    }

    /// Reads a record; `None` if the record has no content.
    fn read(&self, row: &Row) -> Option<PreparedRecord> {
        let document = self.profile.read(row).ok().filter(|document| !document.is_empty())?;
        let text = document.joined();
        let set = self.verifier.shingles(&text);
        Some(PreparedRecord {
            weighed: self.verifier.weigh(set.clone()),
            named: NamesInText::new(&text, self.profile.objects(&text)).with_contacts(&document.contacts),
            tokens: TokenText::of(&text),
            contacts: document.contacts,
            set,
            text,
        })
    }

    /// Returns the features of a pair of records; `None` if one of them has no content.
    fn pair_features(
        &self,
        records: &[Option<PreparedRecord>],
        PositionPair(a, b): PositionPair,
    ) -> Option<PairFeatures> {
        Some(self.features(records[a as usize].as_ref()?, records[b as usize].as_ref()?))
    }

    /// Returns the features of a record and another row; `None` if the row has no content.
    fn features_with(&self, record: &PreparedRecord, row: &Row) -> Option<PairFeatures> {
        self.read(row).map(|other| self.features(record, &other))
    }

    /// Returns the features of two rows; `None` if one of them has no content.
    fn row_features(&self, a: &Row, b: &Row) -> Option<PairFeatures> {
        self.features_with(&self.read(a)?, b)
    }

    fn features(&self, a: &PreparedRecord, b: &PreparedRecord) -> PairFeatures {
        self.features_of(a, b, &contrast(&a.named, &b.named, self.verifier.weighing_names()))
    }

    /// Returns the features that a pair of records would have if both also contained the same rare contact; `None` if one of them has no
    /// content.
    fn pair_features_with_contact(
        &self,
        records: &[Option<PreparedRecord>],
        PositionPair(a, b): PositionPair,
    ) -> Option<PairFeatures> {
        let [a, b] = [records[a as usize].as_ref()?, records[b as usize].as_ref()?];
        let contrast = contrast(&a.named, &b.named, self.verifier.weighing_names());
        Some(self.features_of(a, b, &contrast.with_common_contact(&a.named, &b.named)))
    }

    fn features_of(&self, a: &PreparedRecord, b: &PreparedRecord, contrast: &Contrast) -> PairFeatures {
        let overlap = self.verifier.overlap(&a.weighed, &b.set);
        let alignment = align_tokens(&a.tokens, &b.tokens, &contrast.only_names);
        PairFeatures::of(&overlap, contrast, &alignment)
    }
}

/// Measures the pairs of a set: all pairs with a label, all pairs of one group, all pairs with enough common text if groups are known, and
/// generated pairs. If groups are known, pairs with a label other than `same` and `template` are left out. O(pairs); the set is in memory.
pub fn measure(name: &str, set: &LabelledSet) -> MeasuredSet {
    let comparison = SetComparison::of(set);
    let mut measured = comparison.measure_real(name, set);
    let of_one_caller: Vec<MeasuredPair> =
        measured.pairs.par_iter().filter_map(|pair| comparison.of_one_caller(pair)).collect();
    measured.pairs.extend(of_one_caller);
    measured.pairs.extend(comparison.made());
    measured
}

/// Measures the pairs of a set as [`measure`] does, without generated pairs. O(pairs).
pub fn measure_real(name: &str, set: &LabelledSet) -> MeasuredSet {
    SetComparison::of(set).measure_real(name, set)
}

/// The records of a set in the form in which they are compared, with counted and with built-in document frequencies.
struct SetComparison<'a> {
    rows: Vec<&'a Row>,
    verify: Verify,
    counted: RecordComparer,
    plain: RecordComparer,
    counted_records: Vec<Option<PreparedRecord>>,
    plain_records: Vec<Option<PreparedRecord>>,
}

impl<'a> SetComparison<'a> {
    fn of(set: &'a LabelledSet) -> Self {
        let settings = Settings::default();
        let verify = settings.verify.clone().unwrap_or_default();
        let profile = Arc::new(Profile::compile(&settings, None));
        let plain = RecordComparer::new(&profile, &verify, Frequencies::built_in());
        let rows: Vec<&Row> = set.records.iter().map(|(_, row)| row).collect();
        let counted = RecordComparer::new(&profile, &verify, frequencies_of(&plain, &rows));
        let [counted_records, plain_records] =
            [&counted, &plain].map(|by| rows.par_iter().map(|row| by.read(row)).collect());
        Self { rows, verify, counted, plain, counted_records, plain_records }
    }

    fn measure_real(&self, name: &str, set: &LabelledSet) -> MeasuredSet {
        let is_complete = !set.truth.is_empty();
        let labels: BTreeMap<PositionPair, &str> =
            set.labelled.iter().map(|found| (found.pair, found.label.as_str())).collect();
        let mut wanted: BTreeSet<PositionPair> = labels.keys().copied().chain(set.truth.iter().copied()).collect();
        if is_complete {
            wanted.extend(alike(&self.counted_records));
        }
        let pairs = wanted
            .par_iter()
            .filter_map(|pair| {
                let label = labels.get(pair).map(|label| (*label).to_owned());
                let same = if is_complete { set.truth.contains(pair) } else { label.as_deref() == Some(SAME) };
                let uncounted = self.plain.pair_features(&self.plain_records, *pair);
                let counted = self.counted.pair_features(&self.counted_records, *pair)?;
                Some(MeasuredPair { kind: PairKind::Real, pair: *pair, same, counted, uncounted, label })
            })
            .filter(|pair: &MeasuredPair| {
                pair.same || is_complete && pair.label.is_none() || pair.label.as_deref().is_some_and(is_judged)
            })
            .collect();
        MeasuredSet { name: name.to_owned(), is_complete, pairs_true: set.truth.len(), pairs }
    }

    /// Returns a real pair with the features that it would have with a common contact. Returns `None` if the texts are nearly the same.
    /// Also returns `None` for a pair of different matters without a label, because people may have overlooked that this pair concerns one
    /// matter.
    fn of_one_caller(&self, pair: &MeasuredPair) -> Option<MeasuredPair> {
        let is_usable = pair.counted.get(Feature::Near) == 0.0 && (pair.same || pair.label.is_some());
        is_usable.then_some(())?;
        Some(MeasuredPair {
            kind: if pair.same { PairKind::SameCaller } else { PairKind::OneCaller },
            label: None,
            counted: self.counted.pair_features_with_contact(&self.counted_records, pair.pair)?,
            uncounted: self.plain.pair_features_with_contact(&self.plain_records, pair.pair),
            ..pair.clone()
        })
    }

    /// Returns the generated pairs of some records.
    fn made(&self) -> Vec<MeasuredPair> {
        let pool = ObjectPool::of(self.counted_records.iter().flatten().flat_map(|record| record.named.objects()));
        let step = (self.rows.len() / PERTURBED).max(1);
        let chosen: Vec<usize> = (0..self.rows.len()).step_by(step).collect();
        chosen.par_iter().flat_map_iter(|at| self.made_of(*at, &pool)).collect()
    }

    /// Returns the generated pairs of the record at a position.
    fn made_of(&self, at: usize, pool: &ObjectPool) -> Vec<MeasuredPair> {
        let (Some(record), Some(plain)) = (&self.counted_records[at], &self.plain_records[at]) else {
            return Vec::new();
        };
        if record.set.len() < MIN_SHINGLES {
            return Vec::new();
        }
        let row = self.rows[at];
        let mut random = XorShift64::new(at as u64);
        let mut made = Vec::new();
        let mut add = |kind, same, counted: PairFeatures, uncounted| {
            let pair = PositionPair(at as u32, at as u32);
            made.push(MeasuredPair { kind, pair, label: None, same, counted, uncounted });
        };
        let hot = RecordComparer::new(&self.plain.profile, &self.verify, hot(record));
        let hot_record = hot.read(row);
        for kind in HarmlessChange::ALL {
            let Some(copy) = kind.change(row, &mut random) else { continue };
            if let Some(counted) = self.counted.features_with(record, &copy) {
                add(PairKind::Harmless(kind), true, counted, self.plain.features_with(plain, &copy));
            }
            if let Some(counted) = hot_record.as_ref().and_then(|record| hot.features_with(record, &copy)) {
                add(PairKind::Hot(kind), true, counted, None);
            }
        }
        if let Some((order, call)) = citation(row, &mut random)
            && let Some(counted) = self.counted.row_features(&order, &call)
        {
            add(PairKind::Citation, true, counted, self.plain.row_features(&order, &call));
        }
        let other = self.rows[(at + self.rows.len() / 3) % self.rows.len()];
        if let Some([order, second, other]) = calls(row, other, &mut random) {
            for (kind, same, call) in [(PairKind::SecondCall, true, second), (PairKind::OtherCall, false, other)] {
                if let Some(counted) = self.counted.row_features(&order, &call) {
                    add(kind, same, counted, self.plain.row_features(&order, &call));
                }
            }
        }
        for kind in HarmfulChange::ALL {
            let Some(copy) = kind.change(row, record.named.objects(), pool, &mut random) else { continue };
            if let Some(counted) = self.counted.features_with(record, &copy) {
                add(PairKind::Harmful(kind), false, counted, self.plain.features_with(plain, &copy));
            }
        }
        made
    }
}

/// True for a label that decides whether a pair is a match.
fn is_judged(label: &str) -> bool {
    matches!(label, "same" | "template" | "different")
}

/// Returns the document frequencies of the records of a set, as a collection counts them at the end of an import of these records.
fn frequencies_of(plain: &RecordComparer, rows: &[&Row]) -> Arc<Frequencies> {
    let records = counted_of_batch(rows.len() as u64);
    if records == 0 {
        return Frequencies::built_in();
    }
    let mut sample = CountedSample::default();
    for (at, row) in rows.iter().enumerate() {
        sample.add(row.json(), at);
    }
    let sampled = sample.into_places();
    let counted: Vec<Vec<u64>> = sampled.par_iter().map(|at| counted_codes(plain, rows[*at])).collect();
    let mut counter = Counter::new(CountedKinds::of([SAMPLED_SHINGLE], true));
    counted.into_iter().for_each(|codes| counter.observe(codes));
    decoded(&counter, records)
}

fn counted_codes(plain: &RecordComparer, row: &Row) -> Vec<u64> {
    let Some(record) = plain.read(row) else { return Vec::new() };
    let mut codes = shingles::codes(&record.text, SAMPLED_SHINGLE);
    codes.extend(record.named.objects().iter().map(|object| name_code(&object.name)));
    codes.extend(record.contacts);
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn decoded(counter: &Counter, records: u64) -> Arc<Frequencies> {
    Frequencies::decode(1, &counter.encode(records)).map_or_else(Frequencies::built_in, Arc::new)
}

/// Returns all pairs of records that share enough uncommon shingles to be measured.
fn alike(records: &[Option<PreparedRecord>]) -> BTreeSet<PositionPair> {
    let mut holders: HashMap<u64, Vec<u32>> = HashMap::new();
    for (at, record) in (0..).zip(records) {
        record.iter().flat_map(|record| record.set.codes()).for_each(|code| holders.entry(*code).or_default().push(at));
    }
    let most = COMMON_RECORDS.max(records.len() / 100);
    let mut shared: HashMap<PositionPair, u32> = HashMap::new();
    for holders in holders.values().filter(|holders| holders.len() <= most) {
        for (number, a) in holders.iter().enumerate() {
            holders[..number].iter().for_each(|b| *shared.entry(PositionPair::new(*a, *b)).or_default() += 1);
        }
    }
    let shared = shared.into_iter().filter(|(_, count)| *count >= MIN_SHARED).map(|(pair, _)| pair);
    shared.filter(|pair| are_alike(&records[pair.0 as usize], &records[pair.1 as usize])).collect()
}

fn are_alike(a: &Option<PreparedRecord>, b: &Option<PreparedRecord>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let found = a.set.resemblance(&b.set);
    found.jaccard >= MIN_JACCARD || found.containment >= MIN_CONTAINMENT
}

/// Returns the document frequencies of a collection in which one record in four is a copy of this record.
fn hot(record: &PreparedRecord) -> Arc<Frequencies> {
    let mut codes = record.set.codes().to_vec();
    codes.extend(record.named.objects().iter().map(|object| name_code(&object.name)));
    codes.extend(&record.contacts);
    codes.sort_unstable();
    codes.dedup();
    let mut counter = Counter::new(CountedKinds::of([SAMPLED_SHINGLE], true));
    for number in 0..HOT_RECORDS {
        counter.observe(if number % HOT_SHARE == 0 { codes.clone() } else { vec![number] });
    }
    decoded(&counter, HOT_RECORDS)
}
