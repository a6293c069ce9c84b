//! Compiled collections: the data about a collection that every request needs, made once.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;

use crate::answers::InactiveChannel;
use crate::dead_sketches::SketchChanges;
use crate::frequencies::CountedParts;
use crate::growth::CollectionGrowth;
use crate::judge::contrasted;
use crate::read_records::ReadRecords;
use crate::signed_texts::SignedTexts;
use crate::stages::{CollectionLabels, StageHistograms};
use crate::{Error, Result, off_thread};
use doppel_core::collection::{
    Channel, CollectionName, Form, Keep, Preset, SegmenterKind, Settings, TextSettings, Verify,
};
use doppel_core::columns;
use doppel_core::error_code::ErrorCode;
use doppel_core::index::{HammingRange, Lookup, ProposalOrder};
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::frequencies::Frequencies;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::similarity::{NamesInText, Sketches, Verifier};
use doppel_core::text::objects::NamedObject;
use doppel_core::text::{Document, Reader};
use doppel_core::violation::{Violation, child};
use doppel_store::content::{HashKey, RecordContent};
use doppel_store::generations::GenerationPhase;
use doppel_store::stages::StageSpan;
use doppel_store::{CollectionNumber, CollectionState, GenerationId, Store, StoreError, StoredRecord};

/// A collection with its profile compiled.
pub(super) struct Context {
    pub(super) state: Arc<CollectionState>,
    pub(super) profile: Arc<Profile>,
    /// The verifier; `None` if the collection does not verify.
    pub(super) verifier: Option<Verifier>,
    /// The document frequencies of pieces of text in the collection.
    pub(super) frequencies: Arc<Frequencies>,
    /// The owner of the collection's sketches in memory. Generations of the collection that read the same texts share an owner.
    pub(super) owner: u32,
    /// Sketches of records that were registered or verified, by the seqs of the records; the text of a seq never changes. The larger a collection,
    /// the more records share a phrase with a new record; a sketch refuses nearly all of those candidates without reading them.
    pub(super) sketches: Arc<Sketches>,
    /// The changes after which sketches of records that are gone are forgotten.
    pub(super) sketch_changes: Arc<SketchChanges>,
    /// Stored records that were read for comparisons, by their seqs; the content of a seq never changes.
    pub(super) read_records: Arc<ReadRecords>,
    /// The standby generations, in their order.
    pub(super) others: Vec<StandbyContext>,
    /// Value of [`ContextCache::made`] when the context was last used.
    used: AtomicU32,
    /// The growth of the collection up to its next renewal.
    pub(super) growth: Arc<CollectionGrowth>,
    /// Histograms of the durations of stages in the collection.
    pub(super) stages: StageHistograms,
    /// True if some of these frequencies were not counted, because the settings have changed since the last count.
    pub(super) lacks_frequencies: bool,
    /// Signatures of texts that come often, by this profile.
    signed_texts: SignedTexts,
}

/// A standby generation, compiled.
#[derive(Clone)]
pub(super) struct StandbyContext {
    pub(super) generation: GenerationId,
    profile: Arc<Profile>,
    /// The value of [`Context::owner`] when the generation is live, and while it is built.
    owner: u32,
}

/// Ratio of the bytes for sketches to the bytes for read records, if one number limits both.
const READ_PART: usize = 8;

/// Largest number of compiled collections that have their own dictionary: each takes some 26 MB. The collection that was unused for the
/// longest time is removed, and compiled again when it is used, which takes a third of a second.
const MAX_OWN_DICTIONARIES: usize = 8;

/// A row that was read and signed.
pub(super) struct SignedRow {
    pub(super) document: Document,
    pub(super) signed: Arc<Signed>,
    /// The names in its text, if they were found when the row was signed.
    pub(super) named: Option<Arc<[NamedObject]>>,
}

/// The time that reading and signing a row took.
pub(super) struct SigningTimes {
    pub(super) read: StageSpan,
    pub(super) sign: StageSpan,
}

/// Largest size of a text in bytes that is processed on the threads that serve requests; it takes a fraction of a millisecond.
const SHORT_TEXT_BYTES: usize = 16 << 10;

impl SignedRow {
    /// True if the text is short.
    pub(super) fn is_short(&self) -> bool {
        self.document.fields.iter().map(|field| field.text.len()).sum::<usize>() <= SHORT_TEXT_BYTES
    }
}

/// Reads a row. Returns an error if no content field has a value.
pub(super) fn read(profile: &Profile, row: &Row) -> Result<Document> {
    let document = profile.read(row).map_err(Error::Invalid)?;
    if document.is_empty() {
        let detail = "none of the collection's content fields has a value; see GET of the collection for their names";
        return Err(no_content("", detail));
    }
    Ok(document)
}

fn no_content(pointer: impl Into<String>, detail: impl Into<String>) -> Error {
    Error::Invalid(vec![Violation::new(pointer, ErrorCode::NoContent, detail)])
}

/// Reads the first record of a collection that does not exist yet, and returns the settings with which the record creates the collection.
///
/// # Errors
/// [`Error::Invalid`] where no member of the row holds the text of a letter, or the row cannot be read.
pub(super) fn read_first(row: &Row) -> Result<(Settings, Document)> {
    let settings = columns::settings_for(row.names());
    columns::check_content(row.names(), &settings).map_err(|missing| {
        let members = missing.list();
        let seen = if members.is_empty() { "it has no members".into() } else { format!("its members are {members}") };
        no_content(
            "",
            format!(
                "no member of the record is known to hold the text of a letter; {seen}; name the text content, or create the collection \
                 with PUT and name in fields the member that holds the text"
            ),
        )
    })?;
    let document = read(&Profile::compile(&settings, None), row)?;
    Ok((settings, document))
}

impl Context {
    /// Returns the verifier that measures records for display; the usual verifier if the collection does not verify.
    pub(super) fn measuring(&self) -> Verifier {
        match &self.verifier {
            Some(verifier) => verifier.clone(),
            None => {
                let usual = self.state.settings.verify.clone().unwrap_or_default();
                Verifier::new(usual, Arc::clone(&self.frequencies))
            }
        }
    }

    /// True if a generation of the collection has its own copy of the dictionary.
    fn has_own_dictionary(&self) -> bool {
        needs_own_dictionary(&self.state.settings)
            || self.state.others.iter().any(|other| needs_own_dictionary(&other.settings))
    }

    /// Returns the profile and the owner of a generation if they are known for these settings.
    fn known(&self, generation: GenerationId, settings: &Settings) -> Option<StandbyContext> {
        if self.state.generation == generation {
            let is_same = self.state.settings == *settings;
            return is_same.then(|| StandbyContext {
                generation,
                profile: Arc::clone(&self.profile),
                owner: self.owner,
            });
        }
        let states = self.state.others.iter().zip(&self.others);
        let (_, known) = states.into_iter().find(|(state, _)| state.id == generation && state.settings == *settings)?;
        Some(known.clone())
    }

    /// Returns the owner of the sketches of a generation that reads records in the same way as `settings`; `None` without such a generation.
    fn owner_for(&self, settings: &Settings) -> Option<u32> {
        let live = std::iter::once((&self.state.settings, self.owner));
        let others =
            self.state.others.iter().zip(&self.others).map(|(state, standby)| (&state.settings, standby.owner));
        live.chain(others).find(|(other, _)| same_sketches(other, settings)).map(|(_, owner)| owner)
    }

    /// Returns the owners of the sketches of all its generations, each once.
    pub(super) fn owners(&self) -> BTreeSet<u32> {
        std::iter::once(self.owner).chain(self.others.iter().map(|other| other.owner)).collect()
    }

    /// True while a generation is built: the rebuilding threads then have enough work.
    pub(super) fn is_indexed_anew(&self) -> bool {
        self.state.others.iter().any(|other| other.phase == GenerationPhase::Building)
    }

    /// True if the live generation was built with rules that have changed since.
    pub(super) fn is_outdated(&self) -> bool {
        self.profile.digest() != self.state.profile
    }

    /// Returns the version of the document frequencies that verification uses; 0 if the collection does not verify, and before the first count.
    pub(super) fn statistics(&self) -> u32 {
        self.verifier.as_ref().map_or(0, |_| self.frequencies.version())
    }

    /// True if two records are copies: they differ only in punctuation, white space, contacts and noise, and their titles do not name
    /// different things. A collection that does not verify finds exactly the matches of its channels, so that it has no copies. O(length).
    pub(super) fn are_copies(&self, a: &Document, b: &Document) -> bool {
        let Some(verifier) = &self.verifier else { return false };
        self.profile.are_copies(a, b) && {
            let [ours, theirs] = [a, b].map(|document| self.profile.title(document));
            ours == theirs || !contrasted(verifier, &self.named(&ours), &self.named(&theirs)).is_contradicting()
        }
    }

    /// Returns the names in a normalised text.
    pub(super) fn named(&self, text: &str) -> NamesInText {
        let own = self.own_text(text);
        let objects = self.profile.objects(&own);
        NamesInText::new(&own, objects)
    }

    /// Returns a normalised text without the text of forms.
    pub(super) fn own_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.verifier.as_ref().map_or(Cow::Borrowed(text), |verifier| verifier.forms().strip(text))
    }

    /// Returns the context of the collection as if the standby generation `generation` were live.
    pub(super) fn seen_from(&self, generation: GenerationId) -> Option<Self> {
        let mut states = self.state.others.iter().zip(&self.others);
        let (state, standby) = states.find(|(state, _)| state.id == generation)?;
        Some(Self {
            verifier: verifier(&state.settings, &self.frequencies),
            frequencies: Arc::clone(&self.frequencies),
            state: Arc::new(self.state.seen_from(state)),
            profile: Arc::clone(&standby.profile),
            owner: standby.owner,
            sketches: Arc::clone(&self.sketches),
            sketch_changes: Arc::default(),
            read_records: Arc::clone(&self.read_records),
            others: Vec::new(),
            used: AtomicU32::new(0),
            growth: Arc::clone(&self.growth),
            stages: self.stages.clone(),
            lacks_frequencies: false,
            signed_texts: SignedTexts::new(),
        })
    }

    /// Signs `row` for the standby generations.
    pub(super) fn sign_for_standby(&self, id: &RecordId, row: &Row) -> Vec<(GenerationId, Arc<Signed>)> {
        let others = self.others.iter();
        others.map(|standby| (standby.generation, Arc::new(standby.profile.sign_stored(id, row).1))).collect()
    }

    /// Creates a context outside a service. It has its own `sketch_bytes` bytes for sketches, and a part of that number for read records.
    pub(super) fn alone(
        state: Arc<CollectionState>,
        profile: Arc<Profile>,
        frequencies: Arc<Frequencies>,
        sketch_bytes: usize,
    ) -> Self {
        let sketches = Arc::new(Sketches::new(sketch_bytes));
        let read_records = Arc::new(ReadRecords::new((sketch_bytes / READ_PART) as u64));
        let verifier = verifier(&state.settings, &frequencies);
        Self {
            state,
            profile,
            verifier,
            frequencies,
            owner: 0,
            sketches,
            sketch_changes: Arc::default(),
            read_records,
            others: Vec::new(),
            used: AtomicU32::new(0),
            growth: Arc::new(CollectionGrowth::of(0)),
            stages: StageHistograms::none(),
            lacks_frequencies: false,
            signed_texts: SignedTexts::new(),
        }
    }

    /// Refuses the row of a client if the text of the letter would not be compared because no field of the settings names its member.
    pub(super) fn check_members(&self, row: &Row) -> Result<()> {
        if let Some(member) = columns::overlooked_content(row.names(), &self.state.settings) {
            let detail = "this seems to be the text of the letter, and no field of the collection's settings names the member, so that only \
                          other members would be compared; name the member in fields, with role ignore if it is not to be compared (before \
                          there are records, PUT the collection; later, POST /v1/admin/reindex)";
            return Err(no_content(child("", member), detail));
        }
        Ok(())
    }

    /// Reads `row`, of which at least one content field must have a value.
    pub(super) fn read(&self, row: &Row) -> Result<Document> {
        read(&self.profile, row)
    }

    /// Reads and signs `row`. O(length of its text).
    pub(super) fn subject(&self, row: &Row) -> Result<SignedRow> {
        self.timed_subject(row).map(|(subject, _)| subject)
    }

    /// Reads and signs `row`, and measures the time.
    pub(super) fn timed_subject(&self, row: &Row) -> Result<(SignedRow, SigningTimes)> {
        let began = Instant::now();
        let document = self.read(row)?;
        let read = StageSpan::since(began);
        let subject = self.sign_document(document);
        let sign = StageSpan::since(read.ended);
        Ok((subject, SigningTimes { read, sign }))
    }

    /// Signs a document. If verification compares names, they are found while the text is cut. O(length of its text).
    pub(super) fn sign_document(&self, document: Document) -> SignedRow {
        // The names in the text of forms do not count.
        let has_forms = self.verifier.as_ref().is_some_and(|verifier| !verifier.forms().is_empty());
        let naming = self.compares_names() && !has_forms;
        let (signed, named) = self.signed_texts.get(&document, naming, || match naming {
            true => {
                let (signed, named) = self.profile.sign_naming(&document);
                (Arc::new(signed), named.map(Arc::from))
            }
            false => (Arc::new(self.profile.sign(&document)), None),
        });
        SignedRow { document, signed, named }
    }

    /// Signs a record with the statistics of this context that another context with the same settings signed. O(length of its text).
    pub(super) fn sign_again(&self, record: SignedRow) -> SignedRow {
        let SignedRow { document, signed, named } = record;
        let (signed, named) = self.signed_texts.get(&document, named.is_some(), || {
            (Arc::new(self.profile.sign_again(&document, &signed, named.as_deref())), named.clone())
        });
        SignedRow { document, signed, named }
    }

    /// True if names in texts are part of the evidence.
    fn compares_names(&self) -> bool {
        self.verifier.as_ref().is_some_and(|verifier| verifier.settings().objects)
    }

    /// Reads and signs a stored record; a record that cannot be read matches nothing.
    pub(super) fn sign_stored(&self, record: &StoredRecord) -> (Option<Document>, Signed) {
        match record.content.read() {
            Some(row) => self.profile.sign_stored(&record.id, &row),
            None => (None, Signed::unreadable(self.profile.schemes().len(), record.id.as_str())),
        }
    }

    /// Returns a value of an identity field as the collection's records are read; empty if the value is a placeholder, which no record has.
    pub(super) fn identity(&self, value: &str) -> String {
        Reader::new(&self.state.settings).identity(value).unwrap_or_default()
    }

    /// Returns the content that is stored of a row that was read as `document`. O(bytes).
    pub(super) fn content(&self, row: &Row, document: &Document) -> Result<RecordContent> {
        match self.state.settings.keep {
            Keep::All => Ok(RecordContent::from(row)),
            Keep::Signatures => Ok(RecordContent::Hashes(Box::new(self.hash_key()?.hashes(row, document)))),
        }
    }

    /// Returns the key for the hashes of contents of a collection that keeps no text.
    pub(super) fn hash_key(&self) -> Result<&HashKey> {
        let key = self.state.hash_key.as_ref();
        key.ok_or_else(|| StoreError::Internal("the key of a collection's hashes is missing".into()).into())
    }

    /// True if `identity`, which is normalised, is one of the petitioner's values of a stored record; `None` if the record cannot be read.
    pub(super) fn is_by(&self, record: &StoredRecord, identity: &str) -> Option<bool> {
        match &record.content {
            RecordContent::Row(_) => Some(self.profile.read(&record.content.read()?).ok()?.is_by(identity)),
            RecordContent::Hashes(hashes) => Some(hashes.is_by(&self.hash_key().ok()?.identity(identity))),
        }
    }

    /// Returns the index query for a record's fingerprint.
    pub(super) fn hamming(&self, signed: &Signed) -> Option<HammingRange> {
        HammingRange::of(signed, self.state.settings.simhash())
    }

    /// Returns the index query for a record.
    pub(super) fn lookup<'a>(&self, signed: &'a Signed) -> Lookup<'a> {
        Lookup::of(signed, self.state.settings.simhash(), ProposalOrder::of(&self.state.settings))
    }

    /// True if a judge needs the signatures of candidates. This depends on the channels, and on whether the collection keeps texts that can
    /// be signed again. It does not depend on `verify`, which may change while records stay the same.
    pub(super) fn needs_signatures(&self) -> bool {
        let by_key_alone = self.state.settings.keeps_text();
        let mut schemes = self.profile.schemes().iter();
        schemes.any(|scheme| scheme.name() != "simhash" && !(by_key_alone && scheme.key_implies_match()))
    }

    /// Returns the channels that cannot run, with the reasons.
    pub(super) fn inactive_channels(&self) -> Vec<InactiveChannel> {
        let schemes = self.profile.schemes().iter();
        let inactive = schemes.filter_map(|scheme| Some((scheme.name(), scheme.inactive_reason()?)));
        inactive.map(|(scheme, reason)| InactiveChannel { scheme: scheme.into(), reason }).collect()
    }
}

fn verifier(settings: &Settings, frequencies: &Arc<Frequencies>) -> Option<Verifier> {
    settings.verify.clone().map(|verify| Verifier::new(verify, Arc::clone(frequencies)))
}

/// True if a channel reads lines, which needs whole texts.
fn reads_lines(settings: &Settings) -> bool {
    settings.channels.iter().any(Channel::reads_lines)
}

/// True if a record has the same text and the same sketch under both settings: they read and normalise the same fields in the same way, read times
/// in the same zone, cut texts into shingles of one width, weight them in one way, and find names with one dictionary.
fn same_sketches(one: &Settings, other: &Settings) -> bool {
    let ours = &one.text;
    let theirs = &other.text;
    one.fields == other.fields
        && one.time_zone == other.time_zone
        && one.placeholders == other.placeholders
        && one.host_aliases == other.host_aliases
        && ours.simplify == theirs.simplify
        && verification_of_sketches(one) == verification_of_sketches(other)
        && ours.remove_noise == theirs.remove_noise
        && reads_lines(one) == reads_lines(other)
        && ours.segmenter == theirs.segmenter
        && ours.user_words == theirs.user_words
        && ours.synonyms == theirs.synonyms
        && ours.places == theirs.places
}

/// Returns the settings of verification that a sketch depends on: width of shingles, weighting by rarity, use of names, forms.
fn verification_of_sketches(settings: &Settings) -> Option<(u8, bool, bool, &[Form])> {
    let verify = settings.verify.as_ref();
    verify.map(|verify| (verify.shingle, verify.rarity, verify.objects, &*verify.forms))
}

/// True if a profile with these settings has its own copy of the dictionary.
fn needs_own_dictionary(settings: &Settings) -> bool {
    let TextSettings { segmenter, user_words, synonyms, .. } = &settings.text;
    *segmenter == SegmenterKind::Jieba && !(user_words.is_empty() && synonyms.is_empty())
}

/// See [`Engine::warm_up`](crate::Engine::warm_up).
pub(super) fn warm_up() {
    let profile = Profile::compile(&Settings::preset(Preset::Default), None);
    let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
    let (Some(a), Some(b)) = (
        read_sample(&profile, "河口新區三號路5號樓的路燈不亮，ＡＢＣ請維修。電話：12345"),
        read_sample(&profile, "河口新区四号路5号楼的路灯不亮，请维修。谢谢"),
    ) else {
        return;
    };
    profile.sign(&a);
    let text_a = a.joined();
    let text_b = b.joined();
    let named_a = NamesInText::new(&text_a, profile.objects(&text_a));
    let named_b = NamesInText::new(&text_b, profile.objects(&text_b));
    let contrast = contrasted(&verifier, &named_a, &named_b);
    let overlap = verifier.overlap(&verifier.weigh(verifier.shingles(&text_a)), &verifier.shingles(&text_b));
    verifier.weigh_up(&overlap, &contrast, true, || (text_a, text_b));
}

fn read_sample(profile: &Profile, content: &str) -> Option<Document> {
    let row = Row::parse(serde_json::json!({ "content": content }).to_string().as_bytes()).ok()?;
    profile.read(&row).ok()
}

/// The compiled collections, by name. The map grows with the number of collections and shrinks when they are dropped; at most
/// [`MAX_OWN_DICTIONARIES`] of them have their own dictionary.
pub(super) struct ContextCache {
    /// True if the collections are renewed as they grow.
    renews: bool,
    by_name: ArcSwap<HashMap<CollectionName, Arc<Context>>>,
    sketches: Arc<Sketches>,
    read_records: Arc<ReadRecords>,
    next_owner: AtomicU32,
    /// The owners of sketches when sketches without a collection were last forgotten.
    owners: parking_lot::Mutex<HashSet<u32>>,
    /// Number of contexts that have been made.
    made: AtomicU32,
    /// The collections that have their own label in metrics.
    labels: parking_lot::Mutex<CollectionLabels>,
    /// The inactive channels of collections whose contexts may have been removed.
    inactive: parking_lot::Mutex<HashMap<CollectionName, KnownInactiveChannels>>,
    /// Locked while a collection is compiled: if several requests need the same collection at once, the later requests wait for the first request,
    /// and then find the compiled collection.
    compiling: Mutex<()>,
}

impl ContextCache {
    /// Creates a map without collections, with `sketch_bytes` bytes for their sketches. `renews` is true if the collections are renewed as
    /// they grow.
    pub(super) fn new(sketch_bytes: usize, renews: bool) -> Self {
        Self {
            renews,
            by_name: ArcSwap::default(),
            sketches: Arc::new(Sketches::new(sketch_bytes)),
            read_records: Arc::default(),
            next_owner: AtomicU32::new(0),
            owners: parking_lot::Mutex::default(),
            made: AtomicU32::new(0),
            labels: parking_lot::Mutex::default(),
            inactive: parking_lot::Mutex::default(),
            compiling: Mutex::new(()),
        }
    }
}

/// The inactive channels of a collection. A generation keeps the channels that it was begun with, so that they never change.
struct KnownInactiveChannels {
    number: CollectionNumber,
    generation: GenerationId,
    profile: String,
    channels: Vec<InactiveChannel>,
}

impl KnownInactiveChannels {
    /// True if these are the inactive channels of `state`.
    fn is_of(&self, state: &CollectionState) -> bool {
        self.generation == state.generation && self.profile == state.profile && self.number == state.number
    }
}

impl ContextCache {
    /// Returns the inactive channels of a collection. It compiles the collection at most once for each generation: otherwise a list of many
    /// collections with their own words would compile each of them again, at a third of a second each.
    pub(super) async fn inactive_channels(
        &self,
        store: &dyn Store,
        state: &Arc<CollectionState>,
    ) -> Result<Vec<InactiveChannel>> {
        if let Some(known) = self.inactive.lock().get(&state.name).filter(|known| known.is_of(state)) {
            return Ok(known.channels.clone());
        }
        let channels = self.of(store, state).await?.inactive_channels();
        let CollectionState { number, generation, profile, .. } = &**state;
        let known = KnownInactiveChannels {
            number: *number,
            generation: *generation,
            profile: profile.clone(),
            channels: channels.clone(),
        };
        self.inactive.lock().insert(state.name.clone(), known);
        Ok(channels)
    }

    /// Returns the context of `state`; compiles the collection if the state is new. A generation whose settings are unchanged keeps its
    /// compiled profile and its sketches.
    pub(super) async fn of(&self, store: &dyn Store, state: &Arc<CollectionState>) -> Result<Arc<Context>> {
        if let Some(context) = self.known(state) {
            return Ok(context);
        }
        let _compiling = self.compiling.lock().await;
        if let Some(context) = self.known(state) {
            return Ok(context);
        }
        let cached = self.by_name.load().get(&state.name).cloned();
        // Another collection may have had this name before.
        let before = cached.filter(|before| before.state.number == state.number);
        let before = before.as_deref();
        let mut live = self.compiled(store, &state.name, state.generation, &state.settings, before).await?;
        let mut others = Vec::with_capacity(state.others.len());
        for other in &state.others {
            others.push(self.compiled(store, &state.name, other.id, &other.settings, before).await?);
        }
        let frequencies = frequencies(store, state, before).await?;
        let same = before.filter(|before| before.frequencies.version() == frequencies.version());
        if before.is_some() && same.is_none() {
            // A sketch contains the weight of a text, and the new frequencies change the weight.
            self.forget_sketches(std::iter::once(&mut live).chain(&mut others));
        }
        let growth = match before {
            Some(before) => Arc::clone(&before.growth),
            None => Arc::new(CollectionGrowth::of(store.count(&state.name).await.unwrap_or(0))),
        };
        let StandbyContext { profile, owner, .. } = live;
        let state = Arc::clone(state);
        let sketches = Arc::clone(&self.sketches);
        let sketch_changes = before.map_or_else(Arc::default, |before| Arc::clone(&before.sketch_changes));
        let read_records = Arc::clone(&self.read_records);
        let used = AtomicU32::new(self.made.fetch_add(1, Ordering::Relaxed) + 1);
        let verifier = verifier(&state.settings, &frequencies);
        let counted = CountedParts::of(&profile, state.settings.verify.as_ref());
        let lacks_frequencies = counted.as_ref().is_some_and(|counted| !counted.are_in(&frequencies));
        if self.renews {
            let records = if lacks_frequencies { 0 } else { frequencies.records() };
            growth.set_counted(counted.is_some().then_some(records));
        }
        let stages = StageHistograms::of(self.labels.lock().of(&state.name));
        let context = Context {
            state,
            profile,
            verifier,
            frequencies,
            owner,
            sketches,
            sketch_changes,
            read_records,
            others,
            used,
            growth,
            stages,
            lacks_frequencies,
            signed_texts: SignedTexts::new(),
        };
        let context = Arc::new(context);
        let state = &context.state;
        if before.is_none() && context.is_outdated() {
            tracing::warn!(
                collection = %state.name, generation = state.generation.0,
                "the index was built with rules that have changed since; new records may miss earlier ones until the \
                 collection is reindexed"
            );
        }
        let model = state.settings.verify.as_ref().and_then(|verify| verify.model.as_ref());
        if before.is_none() && model.is_some_and(|model| !model.is_current()) {
            tracing::warn!(
                collection = %state.name,
                "the learned model was fitted to features that have changed since, so that the shipped model is used; let it \
                 learn again"
            );
        }
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.insert(state.name.clone(), context.clone());
            forget_unused(&mut contexts);
            contexts
        });
        self.forget_ownerless_sketches();
        Ok(context)
    }

    /// Returns the contexts of all collections in the map.
    pub(super) fn all(&self) -> Vec<Arc<Context>> {
        self.by_name.load().values().cloned().collect()
    }

    fn known(&self, state: &Arc<CollectionState>) -> Option<Arc<Context>> {
        let context = self.by_name.load().get(&state.name).cloned()?;
        let same = Arc::ptr_eq(&context.state, state) || context.state == *state;
        let made = self.made.load(Ordering::Relaxed);
        // Written only if the value differs, so that requests on all cores can read it.
        if same && context.used.load(Ordering::Relaxed) != made {
            context.used.store(made, Ordering::Relaxed);
        }
        same.then_some(context)
    }

    /// Returns a compiled generation with the statistics of its beginning: the known generation, or a newly compiled one.
    async fn compiled(
        &self,
        store: &dyn Store,
        name: &CollectionName,
        generation: GenerationId,
        settings: &Settings,
        before: Option<&Context>,
    ) -> Result<StandbyContext> {
        if let Some(known) = before.and_then(|before| before.known(generation, settings)) {
            return Ok(known);
        }
        let statistics = match store.statistics(name, generation).await {
            // The collection was dropped meanwhile. The store refuses the caller's next step, and no other caller sees this state.
            Err(StoreError::UnknownCollection(_)) => None,
            other => other?,
        };
        let damaged =
            || StoreError::Internal("the statistics of a generation are damaged; reindex the collection".into());
        let decoded = statistics.map(|bytes| Statistics::decode(&bytes).ok_or_else(damaged)).transpose()?;
        let statistics = decoded.map(Arc::new);
        let settings_to_compile = settings.clone();
        let profile = off_thread(move || Ok(Arc::new(Profile::compile(&settings_to_compile, statistics)))).await?;
        let shared = before.and_then(|before| before.owner_for(settings));
        let owner = shared.unwrap_or_else(|| self.next_owner.fetch_add(1, Ordering::Relaxed));
        Ok(StandbyContext { generation, profile, owner })
    }

    /// Gives the generations new owners of sketches. Generations that shared an owner share a new one.
    fn forget_sketches<'a>(&self, generations: impl Iterator<Item = &'a mut StandbyContext>) {
        let mut renamed = HashMap::new();
        for generation in generations {
            let owner = renamed.entry(generation.owner);
            generation.owner = *owner.or_insert_with(|| self.next_owner.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Forgets the sketches of collections and generations that are not compiled any more, in the background. A request that began earlier may
    /// store a sketch of such a generation afterwards; the next call forgets that sketch.
    fn forget_ownerless_sketches(&self) {
        // An owner that is not published yet has a higher number than the owners that the search wants.
        let next = self.next_owner.load(Ordering::Relaxed);
        let owners: HashSet<u32> = self.by_name.load().values().flat_map(|context| context.owners()).collect();
        let is_complete = std::mem::replace(&mut *self.owners.lock(), owners.clone()).is_subset(&owners);
        if !is_complete {
            let sketches = Arc::clone(&self.sketches);
            drop(tokio::task::spawn_blocking(move || {
                sketches.retain_owners(|owner| owner >= next || owners.contains(&owner));
            }));
        }
    }

    /// Returns the collection with this name if it is compiled.
    pub(super) fn cached(&self, name: &CollectionName) -> Option<Arc<Context>> {
        self.by_name.load().get(name).cloned()
    }

    /// Returns the size of all sketches in memory, in bytes.
    pub(super) fn sketch_bytes(&self) -> u64 {
        self.sketches.memory_usage() as u64
    }

    /// Returns the size of all read records in memory, in bytes.
    pub(super) fn read_record_bytes(&self) -> u64 {
        self.read_records.memory_usage()
    }

    /// Removes a dropped collection.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.inactive.lock().remove(name);
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.remove(name);
            contexts
        });
        self.forget_ownerless_sketches();
    }
}

/// Returns the document frequencies in use: those of the previous context, or those in the store.
async fn frequencies(store: &dyn Store, state: &CollectionState, before: Option<&Context>) -> Result<Arc<Frequencies>> {
    if let Some(before) = before.filter(|before| before.frequencies.version() == state.frequencies) {
        return Ok(Arc::clone(&before.frequencies));
    }
    if state.frequencies == 0 {
        return Ok(Frequencies::built_in());
    }
    match store.frequencies(&state.name, state.frequencies).await {
        Ok(Some(bytes)) => Ok(Frequencies::decode(state.frequencies, &bytes).map_or_else(
            || {
                tracing::error!(collection = %state.name, "the document frequencies are damaged or of another version of doppel; they are counted anew");
                Frequencies::built_in()
            },
            Arc::new,
        )),
        // Newer frequencies were stored or the collection was dropped meanwhile: nobody sees this state again.
        Ok(None) | Err(StoreError::UnknownCollection(_)) => {
            Ok(before.map_or_else(Frequencies::built_in, |before| Arc::clone(&before.frequencies)))
        }
        Err(other) => Err(other.into()),
    }
}

/// Removes contexts with their own dictionary until [`MAX_OWN_DICTIONARIES`] are left. Keeps the most recently used contexts.
fn forget_unused(contexts: &mut HashMap<CollectionName, Arc<Context>>) {
    let mut own: Vec<(u32, CollectionName)> = contexts
        .values()
        .filter(|context| context.has_own_dictionary())
        .map(|context| (context.used.load(Ordering::Relaxed), context.state.name.clone()))
        .collect();
    own.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
    for (_, name) in own.drain(..).skip(MAX_OWN_DICTIONARIES) {
        contexts.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_store::CollectionSpec;
    use doppel_store::model::ModelStore;

    async fn state(store: &ModelStore, name: &str, words: &[&str]) -> Arc<CollectionState> {
        let mut settings = Settings::default();
        settings.text.user_words = words.iter().map(|word| (*word).to_owned()).collect();
        let name = CollectionName::new(name).unwrap();
        let spec = CollectionSpec { name, settings, profile: String::new(), hash_key: None, now: String::new() };
        store.create_collection(spec).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn parallel_requests_for_a_collection_compile_it_once() {
        let contexts = Arc::new(ContextCache::new(1 << 20, false));
        let store = Arc::new(ModelStore::default());
        let state = state(&store, "words", &["幸福里七期"]).await;
        let mut tasks = Vec::new();
        for _ in 0..16 {
            let contexts = contexts.clone();
            let store = store.clone();
            let state = state.clone();
            tasks.push(tokio::spawn(async move { contexts.of(&*store, &state).await }));
        }
        let mut all = Vec::new();
        for task in tasks {
            all.push(task.await.unwrap().unwrap());
        }
        assert!(all.iter().all(|context| Arc::ptr_eq(context, &all[0])));
        assert_eq!(contexts.made.load(Ordering::Relaxed), 1);
    }

    /// Returns the owner of the sketches after `change` of the settings of `first`.
    async fn owner_after(
        contexts: &ContextCache,
        store: &ModelStore,
        first: &CollectionState,
        change: fn(&mut Settings),
    ) -> u32 {
        let mut changed = first.clone();
        change(&mut changed.settings);
        contexts.of(store, &Arc::new(changed)).await.unwrap().owner
    }

    fn is_kept(contexts: &ContextCache, state: &CollectionState) -> bool {
        contexts.by_name.load().contains_key(&state.name)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn generations_that_read_the_same_share_their_sketches() {
        let contexts = ContextCache::new(1 << 20, false);
        let store = ModelStore::default();
        let first = state(&store, "words", &[]).await;
        let owner = contexts.of(&store, &first).await.unwrap().owner;
        assert_eq!(owner_after(&contexts, &store, &first, |settings| settings.min_features = 9).await, owner);
        assert_ne!(owner_after(&contexts, &store, &first, |settings| settings.text.simplify = false).await, owner);
        let owner = contexts.of(&store, &first).await.unwrap().owner;
        assert_ne!(owner_after(&contexts, &store, &first, |settings| settings.fields.truncate(3)).await, owner);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_generation_that_was_built_with_other_rules_is_outdated() {
        let contexts = ContextCache::new(1 << 20, false);
        let store = ModelStore::default();
        let state = state(&store, "words", &[]).await;
        let context = contexts.of(&store, &state).await.unwrap();
        assert!(context.is_outdated(), "built with another profile");
        let profile = context.profile.digest().to_owned();
        let renewed = Arc::new(CollectionState { profile, ..CollectionState::clone(&state) });
        assert!(!contexts.of(&store, &renewed).await.unwrap().is_outdated());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn dictionaries_are_bounded_and_the_longest_unused_is_removed_first() {
        let contexts = ContextCache::new(1 << 20, false);
        let store = ModelStore::default();
        let plain = state(&store, "plain", &[]).await;
        contexts.of(&store, &plain).await.unwrap();
        let mut states = Vec::new();
        for number in 0..=MAX_OWN_DICTIONARIES {
            states.push(state(&store, &format!("c{number}"), &["幸福里七期"]).await);
        }
        for state in &states {
            contexts.of(&store, state).await.unwrap();
            // The first collection is used all the time.
            contexts.of(&store, &states[0]).await.unwrap();
        }
        assert!(is_kept(&contexts, &plain) && is_kept(&contexts, &states[0]) && !is_kept(&contexts, &states[1]));
        assert!(states[2..].iter().all(|state| is_kept(&contexts, state)));
        contexts.of(&store, &states[1]).await.unwrap();
        assert!(is_kept(&contexts, &states[1]) && !is_kept(&contexts, &states[2]));
    }
}
