//! A profile: every parameter that changes a signature, compiled and ready to sign.
//!
//! Compiling may cost a copy of the dictionary; a profile is made once per generation and shared. Signing is pure: the same
//! row under the same profile and the same statistics gives the same [`Signed`] on every machine.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::boolean::Boolean;
use super::built_in;
use super::copy::{self, EqualCopy};
use super::exact;
use super::feature_code::FeatureCode;
use super::frequencies::Frequencies;
use super::hash::city64_bytes;
use super::i_match::IMatch;
use super::md5::WholeMd5;
use super::minhash::Minhash;
use super::multi_md5::MultiMd5;
use super::reading::Reading;
use super::scam::Scam;
use super::segments::Segments;
use super::shingle::Shingle;
use super::simhash::Simhash;
use super::statistics::Statistics;
use super::super_shingle::SuperShingle;
use super::tianwang::{Abstract, Keywords};
use super::url::{self, EqualUrl};
use super::vsm::Vsm;
use super::{MisplacedKeys, Scheme, Signature};
use crate::collection::{Channel, ChannelPosition, Field, Prefer, Role, Settings, TextFormat};
use crate::record::{RecordId, Row};
use crate::text::objects::NamedObject;
use crate::text::words::Words;
use crate::text::{self, Document, Reader};
use crate::verdict::Fingerprint;
use crate::violation::Violation;

/// Version of the normal form of addresses and of what they are compared for; raise it with every change.
const ADDRESS_RULES: &str = "addresses 2";
/// Version of what is removed as contacts and noise; raise it with every change.
const NOISE_RULES: &str = "noise 1";
/// Version of the copy key; raise it with every change.
const COPY_RULES: &str = "copies 1";
/// Version of the rules by which keys prefer rare text: weights, classes, how many are kept; raise it with every change.
const RARITY_RULES: &str = "rarity 2";
/// Version of what synonyms do to `whole` values; raise it with every change.
const SYNONYM_RULES: &str = "whole synonyms 1";
/// Version of what identity and time are as features; raise it with every change.
const COLUMN_RULES: &str = "columns 1";
/// Version of what is the visible text of HTML, and of the library that reads it; raise it with every change of either.
const HTML_RULES: &str = "html 2 html5gum 0.9.0";

/// Settings, compiled.
pub struct Profile {
    digest: String,
    fields: Vec<Field>,
    weights: Vec<u16>,
    min_features: u32,
    reader: Reader,
    words: Words,
    schemes: Vec<Box<dyn Scheme>>,
    statistics: Option<Arc<Statistics>>,
    /// See [`Profile::wants_text_frequencies`].
    counts_text: bool,
    /// The copy stage, which is among the schemes too.
    copies: Option<EqualCopy>,
    /// What weighs features for [`Profile::features`]: as the `simhash` channel does.
    weigher: Simhash,
}

impl Profile {
    /// Compiles validated settings. `statistics` are those of the generation, for channels that weigh by them; they are no
    /// part of the digest, which names settings.
    pub fn compile(settings: &Settings, statistics: Option<Arc<Statistics>>) -> Self {
        let channels = settings.channels.iter().map(|channel| scheme(channel, settings, statistics.as_ref()));
        let addresses = names_addresses(settings).then(|| Box::new(EqualUrl) as Box<dyn Scheme>);
        let copies = copy::applies(settings).then(|| EqualCopy::new(settings));
        let copy_stage = copies.clone().map(|copies| Box::new(copies) as Box<dyn Scheme>);
        let schemes = channels.chain(addresses).chain(copy_stage).collect();
        let weigher = settings.channels.iter().find_map(|channel| match channel {
            Channel::Simhash(params) => Some(Simhash::new(params, statistics.clone())),
            _ => None,
        });
        Self {
            digest: profile_digest(settings),
            fields: settings.fields.clone(),
            weights: settings.fields.iter().map(Field::weight).collect(),
            min_features: settings.min_features.into(),
            reader: Reader::new(settings),
            counts_text: settings.keeps_text() && settings.channels.iter().any(prefers_rare),
            words: Words::new(&settings.text),
            schemes,
            copies,
            statistics,
            weigher: weigher.unwrap_or_else(|| Simhash::new(&Default::default(), None)),
        }
    }

    /// Names everything that changes a signature: settings, segmenter and dictionary, tables of characters. SHA-256 in
    /// hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// One per channel, in settings order; then, in a collection with a field of role `url`, [`EqualUrl`]; then,
    /// in a collection that removes noise and keeps texts, [`EqualCopy`].
    pub fn schemes(&self) -> &[Box<dyn Scheme>] {
        &self.schemes
    }

    /// The statistics it weighs by, frozen with its generation.
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.statistics.as_ref()
    }

    /// Whether a channel works better, or only, with statistics of the collection. Without them it follows the rules for
    /// fewer than [`LEAST_DOCUMENTS`](super::statistics::LEAST_DOCUMENTS) records.
    pub fn needs_statistics(&self) -> bool {
        self.schemes.iter().any(|scheme| scheme.needs_statistics())
    }

    /// Whether a channel goes by how common text is in the collection ([`Statistics::with_text`]). Where no text is kept nothing can
    /// be counted, and it goes by the built-in list for good.
    pub fn wants_text_frequencies(&self) -> bool {
        self.counts_text
    }

    /// Of the keys of a document: how many were laid on text that is common by `frequencies`, see [`Scheme::misplaced_keys`].
    /// O(length).
    pub fn misplaced_keys(&self, document: &Document, frequencies: &Arc<Frequencies>) -> MisplacedKeys {
        let reading = self.cut(document);
        self.schemes.iter().map(|scheme| scheme.misplaced_keys(&reading, frequencies)).sum()
    }

    /// The channels that cannot run, by position, and why.
    pub fn inactive(&self) -> Vec<(u8, String)> {
        let reasons = self.schemes.iter().enumerate();
        reasons.filter_map(|(at, scheme)| Some((at as u8, scheme.inactive_reason()?))).collect()
    }

    /// Reads a row, see [`Reader::read`], and replaces synonyms in `whole` values.
    ///
    /// # Errors
    /// All that is wrong with the row.
    pub fn read(&self, row: &Row) -> Result<Document, Vec<Violation>> {
        let mut document = self.reader.read(row)?;
        let whole = document.fields.iter_mut().filter(|field| field.role == Role::Whole);
        for field in whole.chain(&mut document.columns) {
            field.merged = self.words.merged(&field.text);
        }
        Ok(document)
    }

    /// The exact stage's digest of a document that is not empty, without signing it. O(length).
    pub fn exact_digest(&self, document: &Document) -> Digest {
        exact::digest(document, &self.fields)
    }

    /// True if two documents have the same copy key. O(length).
    pub fn are_copies(&self, a: &Document, b: &Document) -> bool {
        self.copies.as_ref().is_some_and(|copies| copies.key(a).is_some_and(|key| copies.key(b) == Some(key)))
    }

    /// What a normalised text names, by this profile's dictionary. O(length).
    pub fn objects(&self, text: &str) -> Vec<NamedObject> {
        self.words.objects(text)
    }

    /// Cuts a document into words.
    pub fn cut<'a>(&'a self, document: &'a Document) -> Reading<'a> {
        Reading::new(document, &self.words, &self.weights)
    }

    /// Signs a document: cut once, read by all channels. O(length). A document without content
    /// ([`Document::is_empty`]) must be refused before; its digest would equal every other such one's.
    pub fn sign(&self, document: &Document) -> Signed {
        self.sign_reading(&self.cut(document))
    }

    /// The same, and what the document names: [`Profile::objects`] of its joined text, `None` where it would have to be cut again for that.
    /// O(length).
    pub fn sign_naming(&self, document: &Document) -> (Signed, Option<Vec<NamedObject>>) {
        let (reading, named) = Reading::naming(document, &self.words, &self.weights);
        (self.sign_reading(&reading), named)
    }

    /// Reads and signs a row that was accepted under other settings. One that these cannot read, or in which they find no
    /// content, is signed as a record that matches nothing. O(length).
    pub fn sign_stored(&self, id: &RecordId, row: &Row) -> (Option<Document>, Signed) {
        match self.read(row) {
            Ok(document) if !document.is_empty() => {
                let signed = self.sign(&document);
                (Some(document), signed)
            }
            _ => (None, Signed::unreadable(self.schemes.len(), id.as_str())),
        }
    }

    /// Signs a document that is cut already, by this profile or one with the same fields and text settings.
    pub fn sign_reading(&self, reading: &Reading<'_>) -> Signed {
        let features = reading.distinct();
        let too_short = features < self.min_features;
        let signatures: Vec<_> = match too_short {
            true => {
                self.schemes.iter().map(|s| if is_exact_stage(s.name()) { s.sign(reading) } else { None }).collect()
            }
            false => self.schemes.iter().map(|scheme| scheme.sign(reading)).collect(),
        };
        let keys = self.keys(&signatures);
        Signed { digest: self.exact_digest(reading.document()), features, too_short, signatures, keys }
    }

    /// The posting keys of signatures that this profile made, one per channel. Key = H(channel ‖ key, little endian).
    pub fn keys(&self, signatures: &[Option<Signature>]) -> Vec<PostingKey> {
        let mut keys = Vec::new();
        let mut own = Vec::new();
        for ((channel, scheme), signature) in self.schemes.iter().enumerate().zip(signatures) {
            let Some(signature) = signature else { continue };
            own.clear();
            scheme.keys(signature, &mut own);
            let channel = ChannelPosition(channel as u8);
            keys.extend(own.iter().map(|key| {
                let mut bytes = [channel.0; 9];
                bytes[1..].copy_from_slice(&key.to_le_bytes());
                PostingKey { channel, key: city64_bytes(&bytes) }
            }));
        }
        keys
    }

    /// The distinct features with their weights as the `simhash` channel weighs them (by frequency where there is none),
    /// heaviest first, equal ones by their bytes.
    pub fn features(&self, document: &Document) -> Vec<Feature> {
        let reading = self.cut(document);
        let mut weights = HashMap::<&str, f64>::new();
        for token in reading.tokens() {
            *weights.entry(token.term).or_default() += self.weigher.weight_of(token);
        }
        let mut found: Vec<Feature> =
            weights.into_iter().map(|(term, weight)| Feature { term: term.to_owned(), weight }).collect();
        found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.term.cmp(&b.term)));
        found
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// True for the stages that sign a record with too few features, too.
fn is_exact_stage(scheme: &str) -> bool {
    scheme == url::NAME || scheme == copy::NAME
}

/// The scheme of a channel.
fn scheme(channel: &Channel, settings: &Settings, statistics: Option<&Arc<Statistics>>) -> Box<dyn Scheme> {
    let counted = || statistics.cloned();
    match channel {
        Channel::Simhash(params) => Box::new(Simhash::new(params, counted())),
        Channel::Shingle(params) => Box::new(Shingle::new(params, statistics.and_then(|counted| counted.text()))),
        Channel::Md5(params) => Box::new(WholeMd5::new(params, &settings.fields)),
        Channel::MultiMd5(params) => Box::new(MultiMd5::new(params, &settings.fields)),
        Channel::SuperShingle(params) => Box::new(SuperShingle::new(params)),
        Channel::Minhash(params) => Box::new(Minhash::new(params)),
        Channel::IMatch(params) => Box::new(IMatch::new(params, counted())),
        Channel::Segments(params) => Box::new(Segments::new(params)),
        Channel::Tianwang1(params) => Box::new(Abstract::new(params)),
        Channel::Tianwang2(params) => Box::new(Keywords::in_order(params)),
        Channel::Tianwang3(params) => Box::new(Keywords::in_order_within(params)),
        Channel::Tianwang4(params) => Box::new(Keywords::as_set_within(params)),
        Channel::Tianwang5(params) => Box::new(Keywords::as_set(params)),
        Channel::FeatureCode(params) => Box::new(FeatureCode::new(params)),
        Channel::Vsm(params) => Box::new(Vsm::new(params, counted())),
        Channel::Boolean(params) => Box::new(Boolean::new(params, counted())),
        Channel::Scam(params) => Box::new(Scam::new(params, counted())),
    }
}

/// Whether a channel chooses its keys by how rare text is.
#[deny(clippy::wildcard_enum_match_arm, reason = "of every new scheme somebody decides")]
fn prefers_rare(channel: &Channel) -> bool {
    match channel {
        Channel::Shingle(params) => params.prefer == Prefer::Rare,
        Channel::Simhash(_)
        | Channel::Md5(_)
        | Channel::MultiMd5(_)
        | Channel::SuperShingle(_)
        | Channel::Minhash(_)
        | Channel::IMatch(_)
        | Channel::Segments(_)
        | Channel::Tianwang1(_)
        | Channel::Tianwang2(_)
        | Channel::Tianwang3(_)
        | Channel::Tianwang4(_)
        | Channel::Tianwang5(_)
        | Channel::FeatureCode(_)
        | Channel::Vsm(_)
        | Channel::Boolean(_)
        | Channel::Scam(_) => false,
    }
}

/// Whether records of the collection name web addresses.
fn names_addresses(settings: &Settings) -> bool {
    settings.fields.iter().any(|field| field.role == Role::Url)
}

/// The digest of the profile that `settings` compile to, without compiling it. O(their bytes).
pub fn profile_digest(settings: &Settings) -> String {
    let mut hasher = Sha256::new();
    for part in
        [settings.profile_source().to_string(), text::version(&settings.text)].into_iter().chain(rules(settings))
    {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Versions of the rules that `settings` go by, beside those of all text. One that has never changed has none.
fn rules(settings: &Settings) -> Vec<String> {
    let mut rules = Vec::new();
    if names_addresses(settings) {
        rules.push(ADDRESS_RULES.to_owned());
    }
    if settings.text.remove_noise {
        rules.push(NOISE_RULES.to_owned());
    }
    if copy::applies(settings) {
        rules.push(COPY_RULES.to_owned());
    }
    if settings.channels.iter().any(prefers_rare) {
        rules.push(format!("{RARITY_RULES} {}", built_in::version()));
    }
    let has_whole = settings.fields.iter().any(|field| field.role == Role::Whole);
    if has_whole && !settings.text.synonyms.is_empty() {
        rules.push(SYNONYM_RULES.to_owned());
    }
    if settings.fields.iter().any(Field::is_column) {
        rules.push(COLUMN_RULES.to_owned());
    }
    if settings.fields.iter().any(|field| field.format == TextFormat::Html) {
        rules.push(HTML_RULES.to_owned());
    }
    rules.extend(settings.channels.iter().filter_map(scheme_rules).map(str::to_owned));
    rules
}

/// Version of what a scheme signs, where that has changed since its first; raise it with every change.
#[deny(clippy::wildcard_enum_match_arm, reason = "of every new scheme somebody decides")]
fn scheme_rules(channel: &Channel) -> Option<&'static str> {
    match channel {
        // Fields and separated digits are kept apart.
        Channel::Md5(params) if params.strip => Some("md5 strip 2"),
        // Synonyms in lead fields, no fingerprint twice.
        Channel::MultiMd5(params) if !params.lead_fields.is_empty() => Some("multi_md5 leads 2"),
        // Words on the bounds count.
        Channel::IMatch(_) => Some("i_match 2"),
        Channel::Simhash(_)
        | Channel::Shingle(_)
        | Channel::Md5(_)
        | Channel::MultiMd5(_)
        | Channel::SuperShingle(_)
        | Channel::Minhash(_)
        | Channel::Segments(_)
        | Channel::Tianwang1(_)
        | Channel::Tianwang2(_)
        | Channel::Tianwang3(_)
        | Channel::Tianwang4(_)
        | Channel::Tianwang5(_)
        | Channel::FeatureCode(_)
        | Channel::Vsm(_)
        | Channel::Boolean(_)
        | Channel::Scam(_) => None,
    }
}

/// A distinct feature of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// The word, or the whole value.
    pub term: String,
    /// The sum of its occurrences' weights.
    pub weight: f64,
}

/// SHA-256 over the content fields, see the exact stage in the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The first eight bytes: the key under which the index files the digest.
    pub fn key(&self) -> u64 {
        u64::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5], self.0[6], self.0[7]])
    }
}

/// A posting key and the channel that made it (its position in the settings).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostingKey {
    /// Position of the channel in the settings.
    pub channel: ChannelPosition,
    /// The key, channel already mixed in, so that keys of two channels never meet.
    pub key: u64,
}

/// Everything the index and the stores need of a signed record.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// The exact stage's digest.
    pub digest: Digest,
    /// Number of distinct features.
    pub features: u32,
    /// Fewer than `min_features`: no channel signed.
    pub too_short: bool,
    /// One per scheme of the profile; `None` where it has nothing to say.
    pub signatures: Vec<Option<Signature>>,
    /// All posting keys of all channels.
    pub keys: Vec<PostingKey>,
}

impl Signed {
    /// A record that the profile cannot read: it matches nothing, by any channel or exactly. The digest is that of no
    /// document, and another for each id.
    pub fn unreadable(channels: usize, id: &str) -> Self {
        let digest = Sha256::new().chain_update(b"unreadable\0").chain_update(id).finalize();
        let signatures = vec![None; channels];
        Self { digest: Digest(digest.into()), features: 0, too_short: true, signatures, keys: Vec::new() }
    }

    /// The Simhash fingerprint, if the profile has a `simhash` channel and the record enough features.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.signatures.iter().flatten().find_map(|signature| match signature {
            Signature::Fingerprint(fingerprint) => Some(*fingerprint),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{Preset, ShingleParams, SimhashParams, StopWords, Verify, Weighting};

    fn profile(edit: impl FnOnce(&mut Settings)) -> Profile {
        let mut settings = Settings::preset(Preset::Default);
        edit(&mut settings);
        assert_eq!(settings.validate(), []);
        Profile::compile(&settings, None)
    }

    fn sign(profile: &Profile, json: &str) -> Signed {
        profile.sign(&profile.read(&Row::parse(json.as_bytes()).unwrap()).unwrap())
    }

    const ROW: &str = r#"{"title":"夜市噪音","content":"小区楼下的夜市每天营业到凌晨,噪音扰民,居民投诉多次","user":"李","time":"2020-01-01"}"#;

    #[test]
    fn the_digest_changes_with_what_changes_signatures_and_with_nothing_else() {
        let base = profile(|_| {}).digest().to_owned();
        assert_eq!(base.len(), 64);
        assert_eq!(base, profile(|settings| settings.verify = None).digest());
        assert_eq!(
            base,
            profile(|settings| settings.verify = Some(Verify { duplicate: 0.7, ..Verify::default() })).digest()
        );
        assert_eq!(base, profile(|settings| settings.time_zone = "UTC".into()).digest());
        let changed = [
            profile(|settings| settings.min_features = 5),
            profile(|settings| settings.text.simplify = false),
            profile(|settings| settings.text.stop_words = StopWords::These(vec![])),
            profile(|settings| settings.text.user_words = vec!["夜市噪音".into()]),
            profile(|settings| settings.fields[0].weight = Some(3)),
            profile(|settings| settings.channels = vec![Channel::Simhash(SimhashParams::default())]),
        ];
        let digests: std::collections::HashSet<_> = changed.iter().map(|profile| profile.digest().to_owned()).collect();
        assert!(digests.len() == changed.len() && !digests.contains(&base));
    }

    #[test]
    fn rules_that_have_changed_are_named_where_settings_go_by_them_and_nowhere_else() {
        let of = |channels: &str, synonyms: &[&str]| {
            let mut settings = Settings::preset(Preset::Paper);
            settings.fields.retain(|field| !field.is_column());
            settings.channels = serde_json::from_str(channels).unwrap();
            settings.text.synonyms = vec![synonyms.iter().map(|word| (*word).to_owned()).collect()];
            settings.text.synonyms.retain(|group| !group.is_empty());
            assert_eq!(settings.validate(), []);
            rules(&settings)
        };
        let simhash = r#"[{"scheme":"simhash"},{"scheme":"md5"},{"scheme":"multi_md5"}]"#;
        assert_eq!(of(simhash, &[]), [""; 0]);
        assert_eq!(of(simhash, &["番茄", "西红柿"]), ["whole synonyms 1"]);
        let changed =
            r#"[{"scheme":"md5","strip":true},{"scheme":"multi_md5","lead_fields":["title"]},{"scheme":"i_match"}]"#;
        assert_eq!(of(changed, &[]), ["md5 strip 2", "multi_md5 leads 2", "i_match 2"]);
    }

    #[test]
    fn preset_paper_takes_every_column_but_the_long_text_as_a_feature_of_weight_two() {
        let paper = Settings::preset(Preset::Paper);
        assert_eq!(rules(&paper), ["columns 1"]);
        let profile = Profile::compile(&paper, None);
        let row = r#"{"title":"夜市噪音","content":"扰民扰民","user":"李某","time":"2020-01-01"}"#;
        let read = |row: &str| profile.read(&Row::parse(row.as_bytes()).unwrap()).unwrap();
        let features = profile.features(&read(row));
        let features: Vec<_> = features.iter().map(|found| (found.term.as_str(), found.weight)).collect();
        assert_eq!(features, [("2020-01-01", 2.0), ("夜市噪音", 2.0), ("扰民", 2.0), ("李某", 2.0)]);
        let (one, other) = (sign(&profile, row), sign(&profile, &row.replace("李某", "王某")));
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.digest, other.digest, "content alone is in the digest");
    }

    #[test]
    fn whole_values_with_synonyms_are_one_feature() {
        let profile = profile(|settings| {
            settings.channels = vec![Channel::Simhash(SimhashParams::default())];
            settings.fields[0] = Field { weight: Some(2), ..Field::new("title", Role::Whole) };
            settings.text.synonyms = vec![vec!["番茄".into(), "西红柿".into()]];
        });
        let signed = |title: &str| {
            let row = serde_json::json!({ "title": title, "content": "本地大棚直供,每斤两元,欢迎批发" }).to_string();
            sign(&profile, &row)
        };
        let (tomato, other) = (signed("番茄价格"), signed("西红柿价格"));
        assert_eq!(tomato.fingerprint(), other.fingerprint());
        assert_ne!(tomato.digest, other.digest, "equal content is another question");
        assert_ne!(tomato.fingerprint(), signed("白菜价格").fingerprint());
    }

    #[test]
    fn identity_and_time_are_in_no_signature() {
        let profile = profile(|_| {});
        assert_eq!(sign(&profile, ROW), sign(&profile, &ROW.replace('李', "王").replace("2020", "2021")));
    }

    #[test]
    fn fewer_features_than_the_least_sign_nothing_but_the_digest() {
        let profile = profile(|settings| settings.min_features = 4);
        let short = sign(&profile, r#"{"content":"夜市噪音,夜市噪音,夜市扰民"}"#);
        assert_eq!((short.features, short.too_short), (3, true));
        // Only the copy stage, which is last.
        assert_eq!((&short.signatures[..2], short.keys.len()), (&[None, None][..], 1));
        let long = sign(&profile, r#"{"content":"小区夜市噪音扰民"}"#);
        assert_eq!((long.features, long.too_short, long.signatures.iter().flatten().count()), (4, false, 3));
    }

    #[test]
    fn keys_follow_from_decoded_signatures_and_differ_between_channels() {
        let shingle = || Channel::Shingle(ShingleParams { t: 0.0, ..ShingleParams::default() });
        let profile = profile(|settings| settings.channels = vec![shingle(), shingle()]);
        let signed = sign(&profile, ROW);
        let decoded = Signed::decode(&signed.encode()).unwrap();
        assert_eq!(profile.keys(&decoded.signatures), signed.keys);
        let of = |channel| signed.keys.iter().filter(move |key| key.channel.0 == channel).map(|key| key.key);
        assert_eq!((of(0).count(), of(1).count()), (12, 12));
        assert!(of(0).all(|key| of(1).all(|other| key != other)));
    }

    #[test]
    fn features_are_merged_over_fields_and_heaviest_first() {
        let profile = profile(|settings| {
            settings.channels = vec![Channel::Simhash(SimhashParams::default())];
            settings.fields[0] = Field { weight: Some(2), ..Field::new("title", Role::Whole) };
        });
        let row = Row::parse(r#"{"title":"噪音","content":"夜市噪音扰民,夜市"}"#.as_bytes()).unwrap();
        let found = profile.features(&profile.read(&row).unwrap());
        let found: Vec<_> = found.iter().map(|feature| (feature.term.as_str(), feature.weight)).collect();
        assert_eq!(found, [("噪音", 3.0), ("夜市", 2.0), ("扰民", 1.0)]);
    }

    #[test]
    fn an_inactive_channel_says_why_and_the_others_go_on() {
        let profile = profile(|settings| {
            settings.channels[0] =
                Channel::Simhash(SimhashParams { weighting: Weighting::TfIdf, ..SimhashParams::default() });
        });
        assert!(matches!(&profile.inactive()[..], [(0, reason)] if reason.contains("reindex")));
        let signed = sign(&profile, ROW);
        assert!(signed.signatures[0].is_none() && signed.signatures[1].is_some() && !signed.too_short);
    }
}
