//! Ready-made settings.

use serde::{Deserialize, Serialize};

use super::{
    Channel, Field, Keep, MatchScope, Prefer, Role, Settings, ShingleParams, SimhashParams, TextSettings, Verify,
    Weighting, is_title_name,
};

/// A set of ready-made settings. `default`: the settings with the best results on real petitions (Simhash, sampled
/// shingles, verification). `paper`: the settings of the 2015 paper (Simhash alone, term frequency, radius 3; every
/// column except the long text is one feature with weight 2). `signatures`: settings that store no text (`keep`);
/// only the comparison of signatures decides the verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The settings with the best results on real petitions: Simhash, sampled shingles, verification.
    #[default]
    Default,
    /// The settings of the 2015 paper: Simhash alone; every column except the long text is one feature with weight 2; term frequency; radius 3.
    Paper,
    /// Settings that keep no text (`keep`): Simhash and sampled shingles. Only the comparison of signatures decides the verdict.
    Signatures,
}

impl Default for Settings {
    fn default() -> Self {
        Self::preset(Preset::Default)
    }
}

/// Units of a run and smallest number of features of a record, if the texts of candidates are compared. `docs/quality.md`
/// has the measurements.
const VERIFIED_RUN: u8 = 7;
const VERIFIED_FEATURES: u16 = 2;
/// Smallest number of features of a record whose signature alone is compared.
const UNVERIFIED_FEATURES: u16 = 4;

/// The names of fields that an automatically created collection knows, by role.
const ALIASES: &[(Role, &[&str])] = &[
    (
        Role::Text,
        &["title", "subject", "标题", "主题", "留言主题", "content", "body", "text", "内容", "留言详情", "诉求内容"],
    ),
    (Role::Identity, &["user", "petitioner", "姓名", "留言用户", "信访人"]),
    (Role::Time, &["time", "date", "时间", "留言时间", "登记时间"]),
];

impl Settings {
    /// Returns the settings of `preset`, with the built-in field names.
    pub fn preset(preset: Preset) -> Self {
        let paper = preset == Preset::Paper;
        let named = ALIASES.iter().flat_map(|(role, names)| names.iter().map(|name| (*role, *name)));
        let fields = named.map(|(role, name)| match paper && is_title_name(name) {
            // A title is one whole feature.
            true => Field { weight: Some(2), ..Field::new(name, Role::Whole) },
            false if paper && role != Role::Text => Field { weight: Some(2), ..Field::new(name, role) },
            false => Field::new(name, role),
        });
        Self {
            fields: fields.collect(),
            text: TextSettings { remove_noise: !paper, ..TextSettings::default() },
            channels: match preset {
                Preset::Paper => vec![simhash(Weighting::Tf)],
                // No text is verified. A match therefore needs a quarter of a larger sample, and the sample prefers text that is rare by
                // the built-in list.
                Preset::Signatures => {
                    let sample = ShingleParams { units: 8, keep: [64, 96], t: 0.25, ..ShingleParams::default() };
                    vec![simhash(Weighting::TfLen), Channel::Shingle(ShingleParams { prefer: Prefer::Rare, ..sample })]
                }
                // Verification reads the texts. One common shingle is therefore enough to propose a candidate.
                Preset::Default => vec![
                    simhash(Weighting::TfLen),
                    Channel::Shingle(ShingleParams {
                        units: VERIFIED_RUN,
                        keep: [16, 96],
                        t: 0.0,
                        prefer: Prefer::Rare,
                        ..ShingleParams::default()
                    }),
                ],
            },
            verify: (preset == Preset::Default).then(Verify::default),
            min_features: if preset == Preset::Default { VERIFIED_FEATURES } else { UNVERIFIED_FEATURES },
            host_aliases: Vec::new(),
            placeholders: Vec::new(),
            scope: MatchScope::default(),
            time_zone: "Asia/Shanghai".into(),
            retention: None,
            keep: if preset == Preset::Signatures { Keep::Signatures } else { Keep::All },
        }
    }

    /// Returns the defaults for a collection that keeps signatures alone: it has no verification, so that short texts have only exact
    /// matches, and the runs are so long that nobody can find a text from its hashes.
    #[must_use]
    pub fn unverified(mut self) -> Self {
        self.min_features = UNVERIFIED_FEATURES;
        for channel in &mut self.channels {
            if let Channel::Shingle(params) = channel {
                params.units = ShingleParams::default().units;
            }
        }
        self
    }
}

fn simhash(weighting: Weighting) -> Channel {
    Channel::Simhash(SimhashParams { weighting, ..SimhashParams::default() })
}
