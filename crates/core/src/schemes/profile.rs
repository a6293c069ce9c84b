//! A profile contains every parameter that changes a signature, compiled and ready to sign.
//!
//! Compiling may copy the dictionary, so that a profile is made once for each generation and shared. Signing is pure: the same row with the same
//! profile and the same statistics gives the same [`Signed`] on every machine.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::boolean::BooleanScheme;
use super::built_in;
use super::copy::{self, EqualCopy};
use super::exact;
use super::feature_code::FeatureCode;
use super::frequencies::Frequencies;
use super::hash::city64_bytes;
use super::i_match::IMatch;
use super::md5::WholeMd5;
use super::minhash::MinhashScheme;
use super::multi_md5::MultiMd5;
use super::names::{self, CommonNames};
use super::reading::Reading;
use super::scam::ScamScheme;
use super::segments::SegmentScheme;
use super::shingle::ShingleScheme;
use super::simhash::SimhashScheme;
use super::statistics::Statistics;
use super::super_shingle::SuperShingle;
use super::tianwang::{AbstractScheme, KeywordScheme};
use super::url::{self, EqualUrl};
use super::vsm::VsmScheme;
use super::{Scheme, Signature};
use crate::collection::{
    Channel, ChannelPosition, Field, Prefer, Role, ScopeExclusion, ScopedRecord, Settings, TextFormat,
};
use crate::record::{RecordId, Row};
use crate::text::objects::NamedObject;
use crate::text::words::Words;
use crate::text::{self, Document, Reader};
use crate::verdict::Fingerprint;
use crate::violation::Violation;

// The versions of the rules that change signatures. Raise the version of a rule with each change of the rule.

/// The normal form and the comparison of addresses.
const ADDRESS_RULES: &str = "addresses 2";
/// The removal of contacts and noise.
const NOISE_RULES: &str = "noise 3";
/// The copy key.
const COPY_RULES: &str = "copies 2";
/// The rules by which keys prefer rare text: weights, classes, number of keys.
const RARITY_RULES: &str = "rarity 2";
/// The replacement of synonyms in `whole` values.
const SYNONYM_RULES: &str = "whole synonyms 1";
/// The keys of common names.
const NAME_RULES: &str = "names 3";
/// The recognition of the places of the office, which are names.
const PLACE_RULES: &str = "places 2";
/// The use of identity and time as features.
const COLUMN_RULES: &str = "columns 1";
/// The extraction of the visible text from HTML, including the version of the HTML library.
const HTML_RULES: &str = "html 2 html5gum 0.9.0";

/// Compiled settings.
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
    /// True if [`CommonNames`] is among the schemes.
    signs_names: bool,
    /// The copy stage, which is among the schemes too.
    copies: Option<EqualCopy>,
    /// Computes the weights for [`Profile::features`], like the `simhash` channel.
    weigher: SimhashScheme,
}

impl Profile {
    /// Compiles validated settings. `statistics` are the statistics of the generation. They are not part of the digest, which depends only
    /// on the settings.
    pub fn compile(settings: &Settings, statistics: Option<Arc<Statistics>>) -> Self {
        let text = statistics.as_ref().and_then(|counted| counted.text());
        let channels =
            settings.channels.iter().map(|channel| scheme(channel, settings, statistics.as_ref(), text.as_ref()));
        let addresses = names_addresses(settings).then(|| Box::new(EqualUrl) as Box<dyn Scheme>);
        let copies = copy::applies(settings).then(|| EqualCopy::new(settings));
        let copy_stage = copies.clone().map(|copies| Box::new(copies) as Box<dyn Scheme>);
        let signs_names = names::applies(settings);
        let names = signs_names.then(|| Box::new(CommonNames::new(text.clone())) as Box<dyn Scheme>);
        let schemes: Vec<_> = channels.chain(addresses).chain(copy_stage).chain(names).collect();
        let weigher = settings.channels.iter().find_map(|channel| match channel {
            Channel::Simhash(params) => Some(SimhashScheme::new(params, statistics.clone())),
            _ => None,
        });
        Self {
            digest: profile_digest(settings),
            fields: settings.fields.clone(),
            weights: settings.fields.iter().map(Field::weight).collect(),
            min_features: settings.min_features.into(),
            reader: Reader::new(settings),
            counts_text: settings.keeps_text() && schemes.iter().any(|scheme| scheme.prefers_rare_text()),
            signs_names,
            words: Words::new(&settings.text),
            schemes,
            copies,
            statistics,
            weigher: weigher.unwrap_or_else(|| SimhashScheme::new(&Default::default(), None)),
        }
    }

    /// A digest of everything that changes a signature: settings, segmenter, dictionary and character tables. SHA-256 in hexadecimal.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The schemes: one for each channel in the order of the settings, then [`EqualUrl`] if the collection has a field of role `url`,
    /// then [`EqualCopy`] and [`CommonNames`] if the collection removes noise and keeps texts.
    pub fn schemes(&self) -> &[Box<dyn Scheme>] {
        &self.schemes
    }

    /// The statistics of the generation.
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.statistics.as_ref()
    }

    /// True if a channel needs statistics of the collection, or works better with them. Without statistics it follows the rules for fewer than
    /// [`LEAST_DOCUMENTS`](super::statistics::LEAST_DOCUMENTS) records.
    pub fn needs_statistics(&self) -> bool {
        self.schemes.iter().any(|scheme| scheme.needs_statistics())
    }

    /// True if a channel uses document frequencies of the collection ([`Statistics::with_text`]). A collection that keeps no text cannot count
    /// them, so that its channels always use the built-in list.
    pub fn wants_text_frequencies(&self) -> bool {
        self.counts_text
    }

    /// True if the document frequencies of names are used, in addition to those of runs of text.
    pub fn wants_name_frequencies(&self) -> bool {
        self.signs_names
    }

    /// Returns the positions of the channels that cannot run, with the reasons.
    pub fn inactive(&self) -> Vec<(u8, String)> {
        let reasons = self.schemes.iter().enumerate();
        reasons.filter_map(|(at, scheme)| Some((at as u8, scheme.inactive_reason()?))).collect()
    }

    /// Reads a row (see [`Reader::read`]) and replaces synonyms in `whole` values.
    ///
    /// # Errors
    /// All violations of the row.
    pub fn read(&self, row: &Row) -> Result<Document, Vec<Violation>> {
        let mut document = self.reader.read(row)?;
        let whole = document.fields.iter_mut().filter(|field| field.role == Role::Whole);
        for field in whole.chain(&mut document.columns) {
            field.merged = self.words.merged(&field.text);
        }
        Ok(document)
    }

    /// Computes the digest of the exact stage for a document with content, without signing it. O(length).
    pub fn exact_digest(&self, document: &Document) -> Digest {
        exact::digest(document, &self.fields)
    }

    /// Returns the condition of the settings' `match` that a record and an earlier record do not meet; `None` if the two may match.
    pub fn scope_exclusion(&self, record: ScopedRecord<'_>, earlier: ScopedRecord<'_>) -> Option<ScopeExclusion> {
        self.reader.scope_exclusion(record, earlier)
    }

    /// True if two documents have the same copy key. O(length).
    pub fn are_copies(&self, a: &Document, b: &Document) -> bool {
        self.copies.as_ref().is_some_and(|copies| copies.key(a).is_some_and(|key| copies.key(b) == Some(key)))
    }

    /// Returns the titles of a document, one after the other. O(length).
    pub fn title(&self, document: &Document) -> String {
        self.copies.as_ref().map(|copies| copies.title(document)).unwrap_or_default()
    }

    /// Finds the objects that a normalised text names, with the dictionary of this profile. O(length).
    pub fn objects(&self, text: &str) -> Vec<NamedObject> {
        self.words.objects(text)
    }

    /// Returns the spans of the facts that a normalised text names, in characters. O(length).
    pub fn fact_spans(&self, text: &str) -> Vec<Range<usize>> {
        self.words.fact_spans(text)
    }

    /// Makes a reading of a document, which is cut into words when they are first needed.
    pub fn cut<'a>(&'a self, document: &'a Document) -> Reading<'a> {
        Reading::new(document, &self.words, &self.weights)
    }

    /// Cuts a document into words, and finds the objects that it names. O(length).
    pub fn cut_naming<'a>(&'a self, document: &'a Document) -> Reading<'a> {
        Reading::naming(document, &self.words, &self.weights)
    }

    /// Signs a document. The document is cut into words once for all channels. O(length). A document without content ([`Document::is_empty`])
    /// must be refused before, because all such documents have the same digest.
    pub fn sign(&self, document: &Document) -> Signed {
        match self.signs_names {
            true => self.sign_reading(&self.cut_naming(document)),
            false => self.sign_reading(&self.cut(document)),
        }
    }

    /// Signs a document and also returns the objects that it names: [`Profile::objects`] of its joined text. `None` if the text would have to be
    /// cut a second time to find them. O(length).
    pub fn sign_naming(&self, document: &Document) -> (Signed, Option<Vec<NamedObject>>) {
        let reading = self.cut_naming(document);
        (self.sign_reading(&reading), reading.into_found_names())
    }

    /// Signs a document that a profile of the same settings with other statistics signed before. Only the signatures that depend on statistics
    /// are computed. `names` are the names that were found then. O(length), without cutting the document into words for most settings.
    pub fn sign_again(&self, document: &Document, before: &Signed, names: Option<&[NamedObject]>) -> Signed {
        let reading = match names {
            Some(names) => self.cut(document).with_names(names),
            None => self.cut(document),
        };
        let mut signatures = before.signatures.clone();
        for (scheme, signature) in self.schemes.iter().zip(&mut signatures) {
            let depends = scheme.needs_statistics() || scheme.prefers_rare_text();
            if depends && (!before.too_short || is_exact_stage(scheme.name())) {
                *signature = scheme.sign(&reading);
            }
        }
        let Signed { digest, features, too_short, .. } = *before;
        Signed { digest, features, too_short, keys: self.keys(&signatures), signatures }
    }

    /// Reads and signs a row that was accepted under other settings. A row that cannot be read or has no content under these settings is signed
    /// as a record that matches nothing. O(length).
    pub fn sign_stored(&self, id: &RecordId, row: &Row) -> (Option<Document>, Signed) {
        match self.read(row) {
            Ok(document) if !document.is_empty() => {
                let signed = self.sign(&document);
                (Some(document), signed)
            }
            _ => (None, Signed::unreadable(self.schemes.len(), id.as_str())),
        }
    }

    /// Signs a document that was already cut into words by this profile or by a profile with the same fields and text settings.
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

    /// Computes the posting keys of the signatures of this profile, one for each channel. A key is H(channel ‖ key, little endian).
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

    /// Returns the distinct features with the weights of the `simhash` channel (or their frequencies without such a channel), heaviest first,
    /// ties by their bytes.
    pub fn features(&self, document: &Document) -> Vec<WeightedFeature> {
        let reading = self.cut(document);
        let mut weights = HashMap::<&str, f64>::new();
        for token in reading.tokens() {
            *weights.entry(token.term).or_default() += self.weigher.weight_of(token);
        }
        let mut found: Vec<WeightedFeature> =
            weights.into_iter().map(|(term, weight)| WeightedFeature { term: term.to_owned(), weight }).collect();
        found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.term.cmp(&b.term)));
        found
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("digest", &self.digest).finish_non_exhaustive()
    }
}

/// True for the stages that also sign a record with too few features.
fn is_exact_stage(scheme: &str) -> bool {
    scheme == url::NAME || scheme == copy::NAME
}

/// Makes the scheme of a channel. `text` are the document frequencies of text. The statistics contain them in encoded form.
fn scheme(
    channel: &Channel,
    settings: &Settings,
    statistics: Option<&Arc<Statistics>>,
    text: Option<&Arc<Frequencies>>,
) -> Box<dyn Scheme> {
    match channel {
        Channel::Simhash(params) => Box::new(SimhashScheme::new(params, statistics.cloned())),
        Channel::Shingle(params) => Box::new(ShingleScheme::new(params, text.cloned())),
        Channel::Md5(params) => Box::new(WholeMd5::new(params, &settings.fields)),
        Channel::MultiMd5(params) => Box::new(MultiMd5::new(params, &settings.fields)),
        Channel::SuperShingle(params) => Box::new(SuperShingle::new(params)),
        Channel::Minhash(params) => Box::new(MinhashScheme::new(params)),
        Channel::IMatch(params) => Box::new(IMatch::new(params, statistics.cloned())),
        Channel::Segments(params) => Box::new(SegmentScheme::new(params)),
        Channel::Tianwang1(params) => Box::new(AbstractScheme::new(params)),
        Channel::Tianwang2(params) => Box::new(KeywordScheme::in_order(params)),
        Channel::Tianwang3(params) => Box::new(KeywordScheme::in_order_within(params)),
        Channel::Tianwang4(params) => Box::new(KeywordScheme::as_set_within(params)),
        Channel::Tianwang5(params) => Box::new(KeywordScheme::as_set(params)),
        Channel::FeatureCode(params) => Box::new(FeatureCode::new(params)),
        Channel::Vsm(params) => Box::new(VsmScheme::new(params, statistics.cloned())),
        Channel::Boolean(params) => Box::new(BooleanScheme::new(params, statistics.cloned())),
        Channel::Scam(params) => Box::new(ScamScheme::new(params, statistics.cloned())),
    }
}

/// True if a channel prefers keys of rare text.
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

/// True if the collection has a field with web addresses.
fn names_addresses(settings: &Settings) -> bool {
    settings.fields.iter().any(|field| field.role == Role::Url)
}

/// Computes the digest of the profile of `settings` without compiling it. O(bytes of the settings).
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

/// Returns the versions of the rules that apply to `settings`, without the rules for all text. A rule that has never changed has no version.
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
    if names::applies(settings) {
        rules.push(format!("{NAME_RULES} {}", built_in::version()));
        if !settings.text.places.is_empty() {
            rules.push(PLACE_RULES.to_owned());
        }
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

/// Returns the version of a scheme's signatures; `None` for the first version. Raise the version with each change of the signatures.
#[deny(clippy::wildcard_enum_match_arm, reason = "of every new scheme somebody decides")]
fn scheme_rules(channel: &Channel) -> Option<&'static str> {
    match channel {
        // Version 2 separates fields, and digits with a mark between them.
        Channel::Md5(params) if params.strip => Some("md5 strip 2"),
        // Version 2 replaces synonyms in lead fields and leaves out repeated fingerprints.
        Channel::MultiMd5(params) if !params.lead_fields.is_empty() => Some("multi_md5 leads 2"),
        // Version 2 counts words on the bounds.
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
pub struct WeightedFeature {
    /// The word, or the value of a `whole` field.
    pub term: String,
    /// The sum of the weights of all occurrences.
    pub weight: f64,
}

/// The digest of the exact stage: SHA-256 over the content fields; see [`exact`](mod@super::exact).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the first eight bytes, the key of the digest in the index.
    pub fn key(&self) -> u64 {
        u64::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3], self.0[4], self.0[5], self.0[6], self.0[7]])
    }
}

/// A posting key with its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostingKey {
    /// The position of the channel in the settings.
    pub channel: ChannelPosition,
    /// The key. The channel is mixed into it, so that the keys of two channels differ.
    pub key: u64,
}

/// The data of a signed record that the index and the stores need.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed {
    /// The digest of the exact stage.
    pub digest: Digest,
    /// Number of distinct features.
    pub features: u32,
    /// True if the record has fewer than `min_features` features, so that no channel signed it.
    pub too_short: bool,
    /// The signatures, one for each scheme of the profile; `None` if the scheme made none.
    pub signatures: Vec<Option<Signature>>,
    /// The posting keys of all channels.
    pub keys: Vec<PostingKey>,
}

impl Signed {
    /// Makes the data of a record that the profile cannot read. It matches no other record: it has no signature, and its digest belongs to no
    /// document and is different for each id.
    pub fn unreadable(channels: usize, id: &str) -> Self {
        let digest = Sha256::new().chain_update(b"unreadable\0").chain_update(id).finalize();
        let signatures = vec![None; channels];
        Self { digest: Digest(digest.into()), features: 0, too_short: true, signatures, keys: Vec::new() }
    }

    /// Returns the Simhash fingerprint, if the profile has a `simhash` channel and the record has enough features.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.signatures.iter().flatten().find_map(|signature| match signature {
            Signature::Fingerprint(fingerprint) => Some(*fingerprint),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frequencies::Counter;
    use super::*;
    use crate::collection::{Preset, ShingleParams, SimhashParams, StopWords, Verify, Weighting};
    use crate::text::shingles::codes;

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
    fn the_digest_changes_exactly_with_the_settings_that_change_signatures() {
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
    fn the_version_of_a_rule_is_included_only_if_the_rule_applies() {
        let simhash = r#"[{"scheme":"simhash"},{"scheme":"md5"},{"scheme":"multi_md5"}]"#;
        assert_eq!(rules_of(simhash, &[]), [""; 0]);
        assert_eq!(rules_of(simhash, &["番茄", "西红柿"]), ["whole synonyms 1"]);
        let changed =
            r#"[{"scheme":"md5","strip":true},{"scheme":"multi_md5","lead_fields":["title"]},{"scheme":"i_match"}]"#;
        assert_eq!(rules_of(changed, &[]), ["md5 strip 2", "multi_md5 leads 2", "i_match 2"]);
    }

    /// Returns the rules of a collection without columns, with one group of synonyms.
    fn rules_of(channels: &str, synonyms: &[&str]) -> Vec<String> {
        let mut settings = Settings::preset(Preset::Paper);
        settings.fields.retain(|field| !field.is_column());
        settings.channels = serde_json::from_str(channels).unwrap();
        settings.text.synonyms = vec![synonyms.iter().map(|word| (*word).to_owned()).collect()];
        settings.text.synonyms.retain(|group| !group.is_empty());
        assert_eq!(settings.validate(), []);
        rules(&settings)
    }

    #[test]
    fn preset_paper_makes_a_feature_of_weight_two_of_every_column_except_the_long_text() {
        let paper = Settings::preset(Preset::Paper);
        assert_eq!(rules(&paper), ["columns 1"]);
        let profile = Profile::compile(&paper, None);
        let row = r#"{"title":"夜市噪音","content":"扰民扰民","user":"李某","time":"2020-01-01"}"#;
        let features = profile.features(&profile.read(&Row::parse(row.as_bytes()).unwrap()).unwrap());
        let features: Vec<_> = features.iter().map(|found| (found.term.as_str(), found.weight)).collect();
        assert_eq!(features, [("2020-01-01", 2.0), ("夜市噪音", 2.0), ("扰民", 2.0), ("李某", 2.0)]);
        let one = sign(&profile, row);
        let other = sign(&profile, &row.replace("李某", "王某"));
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.digest, other.digest, "content alone is in the digest");
    }

    #[test]
    fn whole_values_that_are_synonyms_are_the_same_feature() {
        let profile = profile(|settings| {
            settings.channels = vec![Channel::Simhash(SimhashParams::default())];
            settings.fields[0] = Field { weight: Some(2), ..Field::new("title", Role::Whole) };
            settings.text.synonyms = vec![vec!["番茄".into(), "西红柿".into()]];
        });
        let [tomato, other, cabbage] = ["番茄价格", "西红柿价格", "白菜价格"].map(|title| {
            let row = serde_json::json!({ "title": title, "content": "本地大棚直供,每斤两元,欢迎批发" }).to_string();
            sign(&profile, &row)
        });
        assert_eq!(tomato.fingerprint(), other.fingerprint());
        assert_ne!(tomato.digest, other.digest, "equal content is another question");
        assert_ne!(tomato.fingerprint(), cabbage.fingerprint());
    }

    #[test]
    fn identity_and_time_change_no_signature() {
        let profile = profile(|_| {});
        assert_eq!(sign(&profile, ROW), sign(&profile, &ROW.replace('李', "王").replace("2020", "2021")));
    }

    #[test]
    fn a_record_with_too_few_features_has_only_a_digest() {
        let profile = profile(|settings| settings.min_features = 4);
        let short = sign(&profile, r#"{"content":"夜市噪音,夜市噪音,夜市扰民"}"#);
        assert_eq!((short.features, short.too_short), (3, true));
        // Only the copy stage signs the short record. This stage is the last one.
        assert_eq!((&short.signatures[..2], short.keys.len()), (&[None, None][..], 1));
        let long = sign(&profile, r#"{"content":"小区夜市噪音扰民"}"#);
        assert_eq!((long.features, long.too_short, long.signatures.iter().flatten().count()), (4, false, 3));
    }

    /// Returns the rows of letters about some places, which repeat one another's words.
    fn letters() -> impl Iterator<Item = Row> {
        let problems = ["路灯不亮,夜间行走困难", "垃圾堆积多日无人清运", "施工噪声影响休息,请尽快处理"];
        (0..150).map(move |number| {
            let place = ["雁坪路", "鹤鸣小区", "翠湖公园", "松岗中学", "86路公交站"][number % 5];
            let row = serde_json::json!({
                "title": problems[number % 3],
                "content": format!("{place}附近{},已向雁坪路社区反映{number}次", problems[number / 5 % 3]),
            });
            Row::parse(row.to_string().as_bytes()).unwrap()
        })
    }

    #[test]
    fn a_record_signed_again_is_signed_as_if_with_the_statistics_at_once() {
        let all = r#"[{"scheme":"simhash","weighting":"tf_idf"},{"scheme":"shingle"},{"scheme":"md5"},{"scheme":"multi_md5"},
            {"scheme":"super_shingle"},{"scheme":"minhash"},{"scheme":"i_match"},{"scheme":"segments"},{"scheme":"tianwang1"},
            {"scheme":"tianwang2"},{"scheme":"tianwang3"},{"scheme":"tianwang4"},{"scheme":"tianwang5"},
            {"scheme":"feature_code"},{"scheme":"vsm"},{"scheme":"boolean"},{"scheme":"scam"}]"#;
        let mut counted = Settings::preset(Preset::Default);
        counted.channels.extend(serde_json::from_str::<Vec<Channel>>(all).unwrap());
        let mut short = counted.clone();
        short.min_features = 15;
        for settings in [counted, short] {
            let plain = Profile::compile(&settings, None);
            let long = "雁坪路的路灯不亮,鹤鸣小区停水。".repeat(2_000);
            let long = Row::parse(serde_json::json!({ "content": long }).to_string().as_bytes()).unwrap();
            let documents: Vec<Document> = letters().chain([long]).map(|row| plain.read(&row).unwrap()).collect();
            let mut statistics = Statistics::default();
            let mut text = Counter::default();
            for document in &documents {
                statistics.observe(&plain.cut(document));
                text.observe(codes(&document.joined(), 3));
            }
            let profile =
                Profile::compile(&settings, Some(Arc::new(statistics.with_text(&text.encode(documents.len() as u64)))));
            let mut changed = 0;
            for document in &documents {
                let (before, names) = plain.sign_naming(document);
                let signed = profile.sign(document);
                changed += usize::from(before != signed);
                assert_eq!(profile.sign_again(document, &before, names.as_deref()), signed);
                assert_eq!(profile.sign_again(document, &before, None), signed);
            }
            assert!(changed > 100, "the statistics changed the signatures of {changed} letters");
        }
    }

    #[test]
    fn keys_follow_from_decoded_signatures_and_differ_between_channels() {
        let shingle = Channel::Shingle(ShingleParams { t: 0.0, ..ShingleParams::default() });
        let profile = profile(|settings| settings.channels = vec![shingle.clone(), shingle]);
        let signed = sign(&profile, ROW);
        let decoded = Signed::decode(&signed.encode()).unwrap();
        assert_eq!(profile.keys(&decoded.signatures), signed.keys);
        let [first, second] = [0, 1].map(|channel| {
            let keys = signed.keys.iter().filter(|key| key.channel.0 == channel);
            keys.map(|key| key.key).collect::<Vec<_>>()
        });
        assert_eq!((first.len(), second.len()), (12, 12));
        assert!(first.iter().all(|key| !second.contains(key)));
    }

    #[test]
    fn features_of_all_fields_are_merged_and_sorted_by_weight() {
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
    fn an_inactive_channel_gives_its_reason_and_the_others_sign() {
        let profile = profile(|settings| {
            settings.channels[0] =
                Channel::Simhash(SimhashParams { weighting: Weighting::TfIdf, ..SimhashParams::default() });
        });
        assert!(matches!(&profile.inactive()[..], [(0, reason)] if reason.contains("reindex")));
        let signed = sign(&profile, ROW);
        assert!(signed.signatures[0].is_none() && signed.signatures[1].is_some() && !signed.too_short);
    }
}
