//! The parts of its records that a collection keeps: everything, or only the signatures of the texts and nothing of the
//! texts.
//!
//! If no text is kept, only the kept data decide a verdict: each channel compares two signatures. Settings with [`Keep::Signatures`] are
//! therefore valid only under two conditions. First, they need no text after a record is signed. Second, their signatures do not reveal the
//! text: no input of a hash is a single word or has fewer than [`LEAST_UNITS`] units, because a person with a dictionary can find such an
//! input.

use serde::{Deserialize, Serialize};

use super::{Channel, Role, Settings, Weighting};
use crate::error_code::ErrorCode;
use crate::violation::Violation;

/// Minimum number of units (a Han character, or a run of letters or digits) in the input of a kept hash. About seven thousand characters
/// are in use, so that nobody can try all sequences of this length.
const LEAST_UNITS: u32 = 8;

/// The content that is kept of each record. `all`: everything, also the row as it was received. `signatures`: no
/// text, but the id, the times, the digest, the signatures, the verdict, and keyed hashes of the row and of the
/// petitioner's values. It requires `"verify": null`, no field of role `url`, and channels that compare only
/// signatures; the preset `signatures` has such settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Everything, with the row as it was received.
    #[default]
    All,
    /// No text. Kept are the id, the times, the digest, the signatures, the verdict, and keyed hashes of the row and of
    /// the petitioner's values. This needs `"verify": null`, no field of role `url`, and channels that compare
    /// signatures alone. The preset `signatures` has such settings.
    Signatures,
}

impl Keep {
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Signatures => "signatures",
        }
    }
}

impl Settings {
    /// True if the rows of the collection's records are kept.
    pub fn keeps_text(&self) -> bool {
        self.keep == Keep::All
    }
}

/// Adds the violations of the parts of `settings` that need text which is not kept, or that would keep the text in another form.
pub(super) fn validate(settings: &Settings, found: &mut Vec<Violation>) {
    if settings.verify.is_some() {
        let detail =
            "verification reads both texts, and with \"keep\": \"signatures\" none is kept; give \"verify\": null";
        found.push(Violation::new("/verify", ErrorCode::NeedsText, detail));
    }
    let scope = &settings.scope;
    for (name, is_empty) in [("same", scope.same.is_empty()), ("closed", scope.closed.is_empty())] {
        if !is_empty {
            let detail =
                "category, unit and status are not kept with \"keep\": \"signatures\"; leave the condition out";
            found.push(Violation::new(format!("/match/{name}"), ErrorCode::NeedsText, detail));
        }
    }
    for (index, field) in settings.fields.iter().enumerate() {
        if field.role == Role::Url {
            let detail = "addresses are compared by their text, which \"keep\": \"signatures\" does not keep; give the field \
                          another role";
            found.push(Violation::new(format!("/fields/{index}/role"), ErrorCode::NeedsText, detail));
        }
    }
    for (index, channel) in settings.channels.iter().enumerate() {
        if let Some((parameter, why)) = what_needs_text(channel) {
            found.push(Violation::new(format!("/channels/{index}/{parameter}"), ErrorCode::NeedsText, why));
        }
    }
}

/// Returns the parameter of a channel that is impossible without text, and the reason; `None` if all parameters are
/// possible.
#[deny(clippy::wildcard_enum_match_arm, reason = "of every new scheme somebody decides")]
fn what_needs_text(channel: &Channel) -> Option<(&'static str, String)> {
    match channel {
        Channel::Simhash(params) if params.weighting == Weighting::TfIdf => {
            Some(("weighting", needs_counts("give \"tf\" or \"tf_len\"")))
        }
        Channel::IMatch(_) => Some(("scheme", needs_counts("take another scheme"))),
        Channel::Shingle(params) if u32::from(params.units) < LEAST_UNITS => Some(("units", spells_text())),
        Channel::Minhash(params) if u32::from(params.units) < LEAST_UNITS => Some(("units", spells_text())),
        Channel::Segments(params) if params.min_units < LEAST_UNITS => Some(("min_units", spells_text())),
        // The input of a hash is one minimum of each permutation of its group.
        Channel::SuperShingle(params)
            if u32::from(params.units) * (params.perms / params.groups.max(1)) < LEAST_UNITS =>
        {
            Some(("units", spells_text()))
        }
        Channel::MultiMd5(_)
        | Channel::Tianwang2(_)
        | Channel::Tianwang3(_)
        | Channel::Tianwang4(_)
        | Channel::Tianwang5(_)
        | Channel::FeatureCode(_)
        | Channel::Vsm(_)
        | Channel::Boolean(_)
        | Channel::Scam(_) => {
            let why = "its signature lists words or short runs of the text, which \"keep\": \"signatures\" does not keep; take \
                       simhash, shingle, super_shingle, minhash, segments, md5 or tianwang1";
            Some(("scheme", why.into()))
        }
        Channel::Simhash(_)
        | Channel::Shingle(_)
        | Channel::Md5(_)
        | Channel::SuperShingle(_)
        | Channel::Minhash(_)
        | Channel::Segments(_)
        | Channel::Tianwang1(_) => None,
    }
}

fn spells_text() -> String {
    format!(
        "its hashes would cover so little text that the text can be guessed from them; with \"keep\": \"signatures\" give at least \
         {LEAST_UNITS}"
    )
}

fn needs_counts(advice: &str) -> String {
    let why = "the counts of records with a word need texts, and with \"keep\": \"signatures\" there are none; ";
    why.to_owned() + advice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{Field, Preset, Verify};
    use serde_json::json;

    fn with(channel: serde_json::Value) -> Settings {
        let channels = vec![serde_json::from_value(channel).unwrap()];
        Settings { channels, ..Settings::preset(Preset::Signatures) }
    }

    fn refused(settings: &Settings) -> Vec<String> {
        settings.validate().into_iter().map(|violation| format!("{} {}", violation.code, violation.pointer)).collect()
    }

    #[test]
    fn the_preset_keeps_no_text_and_what_needs_one_is_refused_by_its_place() {
        let preset = Settings::preset(Preset::Signatures);
        assert_eq!((preset.validate(), preset.keeps_text()), (vec![], false));
        let verified = Settings { verify: Some(Verify::default()), ..preset.clone() };
        assert_eq!(refused(&verified), ["needs_text /verify"]);
        assert_eq!(refused(&Settings { keep: Keep::All, ..verified }), [""; 0]);
        let mut linked = preset;
        linked.fields.insert(0, Field::new("link", Role::Url));
        assert_eq!(refused(&linked), ["needs_text /fields/0/role"]);
    }

    #[test]
    fn only_schemes_that_compare_what_does_not_spell_the_text_are_taken() {
        let mut taken: Vec<&str> = Vec::new();
        for name in crate::collection::SCHEMES {
            let spaced = match *name {
                "minhash" => json!({"scheme": name, "units": 8}),
                _ => json!({"scheme": name}),
            };
            if refused(&with(spaced)).is_empty() {
                taken.push(name);
            }
        }
        assert_eq!(taken, ["simhash", "shingle", "md5", "super_shingle", "minhash", "segments", "tianwang1"]);
        let table = [
            (json!({"scheme": "simhash", "weighting": "tf_idf"}), "weighting"),
            (json!({"scheme": "shingle", "units": 7}), "units"),
            (json!({"scheme": "minhash"}), "units"),
            (json!({"scheme": "segments", "min_units": 7}), "min_units"),
            (json!({"scheme": "super_shingle", "units": 3, "perms": 84, "groups": 42}), "units"),
            (json!({"scheme": "vsm"}), "scheme"),
        ];
        for (channel, parameter) in table {
            assert_eq!(refused(&with(channel.clone())), [format!("needs_text /channels/0/{parameter}")], "{channel}");
        }
    }
}
