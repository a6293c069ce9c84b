//! Measures every scheme on one labelled set: each alone, without the exact stage and without verification.
//!
//! The module measures the quality and the cost of each scheme with its defaults. It also measures the quality on one half of the set, with
//! settings that were chosen on the other half. The halves have no group in common, so that the settings cannot adapt to the records on
//! which they are measured.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::Serialize;

use super::dataset::LabelledSet;
use super::direct::{self, ExtraStages, LookupResults};
use super::grid;
use super::metrics::{PairQuality, PositionPair};
use doppel_core::collection::{Channel, Settings};
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::text::Document;

/// The results of all schemes on one set.
#[derive(Clone, Debug, Serialize)]
pub struct SchemeComparison {
    /// The results of each scheme, in the order of the documentation.
    pub schemes: Vec<SchemeResult>,
    /// Number of refused records, by reason. No pair with a refused record can be found.
    pub refused: BTreeMap<String, usize>,
    /// Number of compared records.
    pub records: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct SchemeResult {
    pub scheme: &'static str,
    /// The quality with the defaults, on the whole set.
    #[serde(flatten)]
    pub quality: PairQuality,
    /// Mean number of keys of a record.
    pub keys: f64,
    /// Mean number of bytes of a record's signature and keys.
    pub bytes: f64,
    /// Microseconds to read and sign a record, including the cutting into words.
    pub sign_us: f64,
    /// Microseconds to look up a record and to compare the proposals.
    pub lookup_us: f64,
    /// Number of records with a signature.
    pub signed: usize,
    /// Number of lookups that a limit cut.
    pub truncated: usize,
    /// The reason why the scheme does not run; `None` if it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inactive: Option<String>,
    /// The best settings of a sweep.
    pub best: BestSettings,
}

/// The best settings of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct BestSettings {
    /// The settings with the largest F1 on the training half; the defaults if no other settings are better.
    pub channel: Channel,
    /// Number of settings that were tried.
    pub tried: usize,
    /// F1 on the training half.
    pub trained_f1: f64,
    /// Quality on the other half.
    pub held_out: PairQuality,
    /// Quality of the defaults on the other half.
    pub held_out_default: PairQuality,
}

/// Compares all schemes on `set`, whose records have the fields and text rules of `base`. `progress` gets the number of finished schemes.
/// It takes minutes, because some two hundred settings are tried.
pub fn compare(set: &LabelledSet, base: &Settings, mut progress: impl FnMut(usize)) -> SchemeComparison {
    let base = Settings { channels: Vec::new(), verify: None, min_features: 0, ..base.clone() };
    let profile = Profile::compile(&base, None);
    let whole = RecordSubset::new(set, &base, &profile, &(0..set.records.len() as u32).collect());
    let (training, testing) = halves(set);
    let training = RecordSubset::new(set, &base, &profile, &training);
    let testing = RecordSubset::new(set, &base, &profile, &testing);
    let mut schemes = Vec::new();
    let mut readings = [&training, &testing].map(RecordSubset::readings);
    for (done, default) in Channel::all_defaults().into_iter().enumerate() {
        let mut alone = whole.alone(&default);
        alone.best = sweep(&default, (&training, &testing), &mut readings);
        schemes.push(alone);
        progress(done + 1);
    }
    SchemeComparison { schemes, refused: whole.readable.refused.clone(), records: whole.readable.documents.len() }
}

fn sweep(
    default: &Channel,
    subsets: (&RecordSubset<'_>, &RecordSubset<'_>),
    readings: &mut [Vec<TextReading<'_>>; 2],
) -> BestSettings {
    let (training, testing) = subsets;
    let tried = grid::of(default);
    let mut best: Option<(f64, &Channel)> = None;
    for channel in &tried {
        let f1 = training.quality(channel, &readings[0]).f1;
        if best.is_none_or(|(most, _)| f1 > most) {
            best = Some((f1, channel));
        }
    }
    let (trained_f1, channel) = best.unwrap_or((0.0, default));
    BestSettings {
        channel: channel.clone(),
        tried: tried.len(),
        trained_f1,
        held_out: testing.quality(channel, &readings[1]),
        held_out_default: testing.quality(default, &readings[1]),
    }
}

type TextReading<'a> = doppel_core::schemes::reading::Reading<'a>;

/// Some records of a set.
struct RecordSubset<'a> {
    base: &'a Settings,
    profile: &'a Profile,
    readable: direct::ReadableSet,
    positions: Vec<u32>,
    truth: BTreeSet<PositionPair>,
    statistics: std::sync::Arc<doppel_core::schemes::statistics::Statistics>,
}

impl<'a> RecordSubset<'a> {
    fn new(set: &LabelledSet, base: &'a Settings, profile: &'a Profile, positions: &BTreeSet<u32>) -> Self {
        let readable = direct::read(set, profile, positions.iter().copied());
        let truth = set.truth.iter().filter(|pair| positions.contains(&pair.0) && positions.contains(&pair.1));
        Self {
            base,
            profile,
            positions: readable.documents.iter().map(|(position, _)| *position).collect(),
            statistics: direct::count(profile, &readable.documents),
            truth: truth.copied().collect(),
            readable,
        }
    }

    /// Cuts the documents into words, once for all settings.
    fn readings(&self) -> Vec<TextReading<'_>> {
        self.readable.documents.iter().map(|(_, document)| self.profile.cut(document)).collect()
    }

    fn settings(&self, channel: &Channel) -> (Settings, Profile) {
        let settings = Settings { channels: vec![channel.clone()], ..self.base.clone() };
        let profile = Profile::compile(&settings, Some(self.statistics.clone()));
        (settings, profile)
    }

    fn look_up(&self, settings: &Settings, profile: &Profile, signed: &[Signed]) -> LookupResults {
        direct::look_up(profile, settings, &self.positions, signed, ExtraStages { exact: false, verify: None })
    }

    fn quality(&self, channel: &Channel, readings: &[TextReading<'_>]) -> PairQuality {
        let (settings, profile) = self.settings(channel);
        let signed: Vec<Signed> = readings.iter().map(|reading| profile.sign_reading(reading)).collect();
        PairQuality::of(&self.truth, self.look_up(&settings, &profile, &signed).pairs.keys())
    }

    /// Returns the results of a channel, without the sweep.
    fn alone(&self, channel: &Channel) -> SchemeResult {
        let (settings, profile) = self.settings(channel);
        let begun = Instant::now();
        let signed: Vec<Signed> = self.documents().map(|document| profile.sign(document)).collect();
        let sign_s = begun.elapsed().as_secs_f64();
        let looked = self.look_up(&settings, &profile, &signed);
        let quality = PairQuality::of(&self.truth, looked.pairs.keys());
        SchemeResult {
            scheme: channel.scheme(),
            quality,
            keys: looked.keys,
            bytes: looked.bytes,
            sign_us: direct::micros_each(sign_s, signed.len()),
            lookup_us: direct::micros_each(looked.lookup_s, signed.len()),
            signed: signed.iter().filter(|signed| signed.signatures.iter().any(Option::is_some)).count(),
            truncated: looked.truncated,
            inactive: profile.inactive().into_iter().next().map(|(_, reason)| reason),
            best: BestSettings {
                channel: channel.clone(),
                tried: 0,
                trained_f1: 0.0,
                held_out: quality,
                held_out_default: quality,
            },
        }
    }

    fn documents(&self) -> impl Iterator<Item = &Document> {
        self.readable.documents.iter().map(|(_, document)| document)
    }
}

/// Divides the records into two halves without a common group. The families of records that groups connect are assigned in turn, families
/// with duplicates and single records separately, so that both halves have the same number of each.
fn halves(set: &LabelledSet) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut family: Vec<u32> = (0..set.records.len() as u32).collect();
    // Pairs ascend, so that the number of the first record is final when the second record is reached. Families are small.
    for PositionPair(a, b) in &set.truth {
        let old = family[*b as usize];
        let new = family[*a as usize];
        if old != new {
            let low = old.min(new);
            let high = old.max(new);
            family.iter_mut().filter(|head| **head == high).for_each(|head| *head = low);
        }
    }
    let mut members = BTreeMap::<u32, Vec<u32>>::new();
    for (position, head) in (0..).zip(&family) {
        members.entry(*head).or_default().push(position);
    }
    let mut training = BTreeSet::new();
    let mut testing = BTreeSet::new();
    let mut single = 0;
    let mut several = 0;
    for family in members.into_values() {
        let turn = if family.len() == 1 { &mut single } else { &mut several };
        let half = if *turn % 2 == 0 { &mut training } else { &mut testing };
        *turn += 1;
        half.extend(family);
    }
    (training, testing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{Field, Preset, Role};

    /// Returns a set of six families of two records, and twenty single records.
    fn set() -> LabelledSet {
        let places = ["河口", "东门", "西山", "南湖", "北站", "中庄"];
        let mut records = String::new();
        let mut groups = String::new();
        for (n, place) in places.iter().enumerate() {
            let text = format!(
                "{place}小区楼下的夜市每天营业到凌晨,噪音严重扰民。{place}居民多次向物业投诉,至今没有人来处理。"
            );
            for copy in 0..2 {
                let line = serde_json::json!({"id": format!("{n}-{copy}"), "content": text});
                records += &format!("{line}\n");
            }
            groups += &format!("{}\n", serde_json::json!({"members": [format!("{n}-0"), format!("{n}-1")]}));
        }
        for n in 0..20 {
            let line =
                serde_json::json!({"id": format!("s{n}"), "content": format!("第{n}号公交车{}分钟不来一班", n * 7)});
            records += &format!("{line}\n");
        }
        LabelledSet::read(("r", records.as_bytes()), ("g", groups.as_bytes())).unwrap()
    }

    #[test]
    fn halves_share_no_family_and_have_as_many_of_each_kind() {
        let set = set();
        let (training, testing) = halves(&set);
        assert!(training.is_disjoint(&testing) && training.len() == 16 && testing.len() == 16);
        assert!(set.truth.iter().all(|pair| training.contains(&pair.0) == training.contains(&pair.1)));
    }

    #[test]
    fn every_scheme_is_compared_and_copies_are_found_by_those_that_run() {
        let fields = vec![Field::new("content", Role::Text)];
        let base = Settings { fields, ..Settings::preset(Preset::Default) };
        let mut done = Vec::new();
        let compared = compare(&set(), &base, |scheme| done.push(scheme));
        assert_eq!(
            compared.schemes.iter().map(|alone| alone.scheme).collect::<Vec<_>>(),
            doppel_core::collection::SCHEMES
        );
        assert_eq!((compared.records, done.len()), (32, compared.schemes.len()));
        for alone in &compared.schemes {
            if alone.scheme == "i_match" {
                assert!(alone.inactive.as_ref().is_some_and(|reason| reason.contains("100")), "32 records are too few");
                continue;
            }
            assert!(alone.inactive.is_none() && alone.quality.recall > 0.99, "{alone:?}");
            assert!(alone.keys > 0.3 && alone.bytes > 6.0 && alone.best.tried > 1, "{alone:?}");
            assert!(alone.best.held_out.recall > 0.99, "{alone:?}");
        }
    }
}
