//! Compiled collections: what the engine needs to know of a collection on every request, made once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;

use crate::answers::InactiveChannel;
use crate::frequencies::Counted;
use crate::growth::Growth;
use crate::judge::contrasted;
use crate::read_records::ReadRecords;
use crate::stages::{Labels, StageHistograms};
use crate::{Error, Result, off_thread};
use doppel_core::collection::{Channel, CollectionName, Keep, Preset, SegmenterKind, Settings, TextSettings, Verify};
use doppel_core::columns;
use doppel_core::index::{Ball, Lookup};
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::frequencies::Frequencies;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_core::similarity::{Named, Sketches, Verifier};
use doppel_core::text::objects::NamedObject;
use doppel_core::text::{Document, Reader};
use doppel_core::violation::{Violation, child};
use doppel_store::content::{Content, HashKey};
use doppel_store::generations::Phase;
use doppel_store::stages::Span;
use doppel_store::{CollectionNumber, CollectionState, GenerationId, Store, StoreError, StoredRecord};

/// A collection with its profile compiled.
pub(super) struct Context {
    pub(super) state: Arc<CollectionState>,
    pub(super) profile: Arc<Profile>,
    /// What verification goes by; `None` where the collection does not verify.
    pub(super) verifier: Option<Verifier>,
    /// How common pieces of text are in the collection.
    pub(super) frequencies: Arc<Frequencies>,
    /// What its sketches are remembered under: shared by those generations of the collection that read the same texts.
    pub(super) owner: u32,
    /// Sketches of records that were registered or verified, under seqs that name their text for ever. The larger a collection,
    /// the more records share some phrase with a new one; a sketch refuses nearly all of those without reading them.
    pub(super) sketches: Arc<Sketches>,
    /// What was read of records that were judged, likewise.
    pub(super) read_records: Arc<ReadRecords>,
    /// The standby generations, in their order.
    pub(super) others: Vec<Standby>,
    /// How many contexts had been made when it was last used.
    used: AtomicU32,
    /// How it grows.
    pub(super) growth: Arc<Growth>,
    /// How long stages take in it.
    pub(super) stages: StageHistograms,
    /// Whether something goes by document frequencies of text.
    pub(super) counts_text: bool,
    /// Whether some of these were not counted: the settings have changed since.
    pub(super) lacks_frequencies: bool,
}

/// A standby generation, compiled.
#[derive(Clone)]
pub(super) struct Standby {
    pub(super) generation: GenerationId,
    profile: Arc<Profile>,
    /// [`Context::owner`] when it is live, and while it is built.
    owner: u32,
}

/// By how many times the bytes for sketches exceed those for read records, where both are given together.
const READ_PART: usize = 8;

/// Most collections with a dictionary of their own that are kept compiled: some 26 MB each. The one that was not used for the
/// longest time is compiled again when it is, which takes a third of a second.
const MAX_OWN_DICTIONARIES: usize = 8;

/// A row read and signed.
pub(super) struct Subject {
    pub(super) document: Document,
    pub(super) signed: Arc<Signed>,
    /// What its text names, where that was found while it was signed.
    pub(super) named: Option<Arc<[NamedObject]>>,
}

/// How long it took to read and to sign a row.
pub(super) struct Signing {
    pub(super) read: Span,
    pub(super) sign: Span,
}

/// The code of a refusal because a row has no text to compare.
const NO_CONTENT: &str = "no_content";

/// Texts up to this size are worked on where requests are served: a fraction of a millisecond.
const SHORT_TEXT_BYTES: usize = 16 << 10;

impl Subject {
    /// Whether its text is short.
    pub(super) fn is_short(&self) -> bool {
        self.document.fields.iter().map(|field| field.text.len()).sum::<usize>() <= SHORT_TEXT_BYTES
    }
}

/// Reads a row that has some content.
pub(super) fn read(profile: &Profile, row: &Row) -> Result<Document> {
    let document = profile.read(row).map_err(Error::Invalid)?;
    if document.is_empty() {
        let detail = "none of the collection's content fields has a value; see GET of the collection for their names";
        return Err(no_content("", detail));
    }
    Ok(document)
}

fn no_content(pointer: impl Into<String>, detail: impl Into<String>) -> Error {
    Error::Invalid(vec![Violation::new(pointer, NO_CONTENT, detail)])
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
    /// What records are measured by where that is shown: where the collection does not verify, as is usual.
    pub(super) fn measuring(&self) -> Verifier {
        let usual =
            || Verifier::new(self.state.settings.verify.clone().unwrap_or_default(), Arc::clone(&self.frequencies));
        self.verifier.clone().unwrap_or_else(usual)
    }

    /// Whether it keeps a copy of the dictionary.
    fn has_own_dictionary(&self) -> bool {
        let own = |settings: &Settings| {
            let TextSettings { segmenter, user_words, synonyms, .. } = &settings.text;
            *segmenter == SegmenterKind::Jieba && !(user_words.is_empty() && synonyms.is_empty())
        };
        own(&self.state.settings) || self.state.others.iter().any(|other| own(&other.settings))
    }

    /// A generation's profile and owner, if it is known with these settings.
    fn known(&self, generation: GenerationId, settings: &Settings) -> Option<Standby> {
        if self.state.generation == generation {
            let live = || Standby { generation, profile: Arc::clone(&self.profile), owner: self.owner };
            return (self.state.settings == *settings).then(live);
        }
        let states = self.state.others.iter().zip(&self.others);
        let (_, known) = states.into_iter().find(|(state, _)| state.id == generation && state.settings == *settings)?;
        Some(known.clone())
    }

    /// The owner of sketches under `settings`, if a generation has them that reads the same.
    fn owner_for(&self, settings: &Settings) -> Option<u32> {
        let live = std::iter::once((&self.state.settings, self.owner));
        let others =
            self.state.others.iter().zip(&self.others).map(|(state, standby)| (&state.settings, standby.owner));
        live.chain(others).find(|(other, _)| same_sketches(other, settings)).map(|(_, owner)| owner)
    }

    /// Whether a generation is being built: the threads behind those that serve have enough to do.
    pub(super) fn is_indexed_anew(&self) -> bool {
        self.state.others.iter().any(|other| other.phase == Phase::Building)
    }

    /// Whether the live generation was built by rules that have changed since.
    pub(super) fn is_outdated(&self) -> bool {
        self.profile.digest() != self.state.profile
    }

    /// Version of the document frequencies it verifies by; 0 where it does not, or none were counted yet.
    pub(super) fn statistics(&self) -> u32 {
        self.verifier.as_ref().map_or(0, |_| self.frequencies.version())
    }

    /// Whether two records are copies: equal but for punctuation, white space, contacts and noise, with titles that do not name different
    /// things. A collection that does not verify finds exactly what its channels find, so that it has no copies. O(length).
    pub(super) fn are_copies(&self, a: &Document, b: &Document) -> bool {
        let Some(verifier) = &self.verifier else { return false };
        self.profile.are_copies(a, b) && {
            let [ours, theirs] = [a, b].map(|document| self.profile.title(document));
            ours == theirs || !contrasted(verifier, &self.named(&ours), &self.named(&theirs)).is_contradicting()
        }
    }

    /// What a normalised text names.
    pub(super) fn named(&self, text: &str) -> Named {
        Named::new(text, self.profile.objects(text))
    }

    /// The same collection as it would be if the standby generation `generation` were live.
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
            read_records: Arc::clone(&self.read_records),
            others: Vec::new(),
            used: AtomicU32::new(0),
            growth: Arc::default(),
            stages: self.stages.clone(),
            counts_text: false,
            lacks_frequencies: false,
        })
    }

    /// Signs `row` for the standby generations.
    pub(super) fn sign_for_standby(&self, id: &RecordId, row: &Row) -> Vec<(GenerationId, Arc<Signed>)> {
        let signed = |standby: &Standby| Arc::new(standby.profile.sign_stored(id, row).1);
        self.others.iter().map(|standby| (standby.generation, signed(standby))).collect()
    }

    /// A context by itself, with so many bytes for sketches of its own, and a part of that for read records.
    pub(super) fn alone(
        state: Arc<CollectionState>,
        profile: Arc<Profile>,
        frequencies: Arc<Frequencies>,
        sketch_bytes: usize,
    ) -> Self {
        let sketches = Arc::new(Sketches::new(sketch_bytes));
        let read_records = Arc::new(ReadRecords::new((sketch_bytes / READ_PART) as u64));
        let verifier = verifier(&state.settings, &frequencies);
        let (others, used, growth) = (Vec::new(), AtomicU32::new(0), Arc::default());
        let (counts_text, lacks_frequencies, stages) = (false, false, StageHistograms::none());
        Self {
            state,
            profile,
            verifier,
            frequencies,
            owner: 0,
            sketches,
            read_records,
            others,
            used,
            growth,
            stages,
            counts_text,
            lacks_frequencies,
        }
    }

    /// Refuses a row of a client whose text would not be compared, because no field of the settings names its member.
    pub(super) fn check_members(&self, row: &Row) -> Result<()> {
        if let Some(member) = columns::overlooked_content(row.names(), &self.state.settings) {
            let detail = "this seems to be the text of the letter, and no field of the collection's settings names the member, so that only \
                          other members would be compared; name the member in fields, with role ignore if it is not to be compared (before \
                          there are records, PUT the collection; later, POST /v1/admin/reindex)";
            return Err(no_content(child("", member), detail));
        }
        Ok(())
    }

    /// Reads `row`, which must say something that can be compared.
    pub(super) fn read(&self, row: &Row) -> Result<Document> {
        read(&self.profile, row)
    }

    /// Reads and signs `row`. O(length of its text).
    pub(super) fn subject(&self, row: &Row) -> Result<Subject> {
        self.timed_subject(row).map(|(subject, _)| subject)
    }

    /// The same, and how long it took.
    pub(super) fn timed_subject(&self, row: &Row) -> Result<(Subject, Signing)> {
        let began = Instant::now();
        let document = self.read(row)?;
        let read = Span::since(began);
        let signed = Arc::new(self.profile.sign(&document));
        let sign = Span::since(read.ended);
        Ok((Subject { document, signed, named: None }, Signing { read, sign }))
    }

    /// Reads and signs `row`, and finds what its text names while it is cut: for a batch, where nearly every record is
    /// compared by that. A request pays for it only when a candidate asks. O(length of its text).
    pub(super) fn naming_subject(&self, row: &Row) -> Result<Subject> {
        if !self.compares_names() {
            return self.subject(row);
        }
        let document = self.read(row)?;
        let (signed, named) = self.profile.sign_naming(&document);
        Ok(Subject { document, signed: Arc::new(signed), named: named.map(Arc::from) })
    }

    /// Whether what texts name is part of the evidence.
    fn compares_names(&self) -> bool {
        self.verifier.as_ref().is_some_and(|verifier| verifier.settings().objects)
    }

    /// Reads and signs a stored record; where it cannot be read, it matches nothing.
    pub(super) fn sign_stored(&self, record: &StoredRecord) -> (Option<Document>, Signed) {
        match record.content.read() {
            Some(row) => self.profile.sign_stored(&record.id, &row),
            None => (None, Signed::unreadable(self.profile.schemes().len(), record.id.as_str())),
        }
    }

    /// A value of an identity field as its records are read; empty for one that names nobody, which is no record's.
    pub(super) fn identity(&self, value: &str) -> String {
        Reader::new(&self.state.settings).identity(value).unwrap_or_default()
    }

    /// What is kept of a row that was read as `document`. O(bytes).
    pub(super) fn content(&self, row: &Row, document: &Document) -> Result<Content> {
        match self.state.settings.keep {
            Keep::All => Ok(Content::from(row)),
            Keep::Signatures => Ok(Content::Hashes(Box::new(self.hash_key()?.hashes(row, document)))),
        }
    }

    /// What the hashes of contents are keyed by, where no text is kept.
    pub(super) fn hash_key(&self) -> Result<&HashKey> {
        let missing = || StoreError::Internal("the key of a collection's hashes is missing".into());
        self.state.hash_key.as_ref().ok_or_else(|| missing().into())
    }

    /// Whether one of the petitioner's values of a stored record is `identity`, which is normalised; `None` where the record cannot be
    /// read.
    pub(super) fn is_by(&self, record: &StoredRecord, identity: &str) -> Option<bool> {
        match &record.content {
            Content::Row(_) => Some(self.profile.read(&record.content.read()?).ok()?.is_by(identity)),
            Content::Hashes(hashes) => Some(hashes.is_by(&self.hash_key().ok()?.identity(identity))),
        }
    }

    /// What the index is asked for a record's fingerprint.
    pub(super) fn ball(&self, signed: &Signed) -> Option<Ball> {
        Ball::of(signed, self.state.settings.simhash())
    }

    /// What the index is asked for a record.
    pub(super) fn lookup<'a>(&self, signed: &'a Signed) -> Lookup<'a> {
        Lookup::of(signed, self.state.settings.simhash())
    }

    /// Whether judging needs the candidates' signatures. Decided by the channels, and by whether there will be texts to sign again:
    /// `verify` may change while records stay as they are.
    pub(super) fn needs_signatures(&self) -> bool {
        let by_key_alone = self.state.settings.keeps_text();
        let mut schemes = self.profile.schemes().iter();
        schemes.any(|scheme| scheme.name() != "simhash" && !(by_key_alone && scheme.key_implies_match()))
    }

    /// Channels that cannot run, and why.
    pub(super) fn inactive_channels(&self) -> Vec<InactiveChannel> {
        let schemes = self.profile.schemes().iter();
        let inactive = schemes.filter_map(|scheme| Some((scheme.name(), scheme.inactive_reason()?)));
        inactive.map(|(scheme, reason)| InactiveChannel { scheme: scheme.into(), reason }).collect()
    }
}

fn verifier(settings: &Settings, frequencies: &Arc<Frequencies>) -> Option<Verifier> {
    settings.verify.clone().map(|verify| Verifier::new(verify, Arc::clone(frequencies)))
}

/// Whether lines are read, which keeps texts whole.
fn reads_lines(settings: &Settings) -> bool {
    settings.channels.iter().any(Channel::reads_lines)
}

/// Whether a record reads the same and has the same sketch under both: the same fields are read and normalised in the same way, its
/// time in the same zone, cut into shingles of one width, weighed in one way, and names are found by one dictionary.
fn same_sketches(one: &Settings, other: &Settings) -> bool {
    let verify = |settings: &Settings| {
        let verify = settings.verify.as_ref();
        verify.map(|verify| (verify.shingle, verify.rarity, verify.objects))
    };
    let read = |settings: &Settings| (settings.text.simplify, verify(settings));
    let (ours, theirs) = (&one.text, &other.text);
    one.fields == other.fields
        && one.time_zone == other.time_zone
        && one.placeholders == other.placeholders
        && one.host_aliases == other.host_aliases
        && read(one) == read(other)
        && ours.remove_noise == theirs.remove_noise
        && reads_lines(one) == reads_lines(other)
        && ours.segmenter == theirs.segmenter
        && ours.user_words == theirs.user_words
        && ours.synonyms == theirs.synonyms
}

/// See [`Engine::warm_up`](crate::Engine::warm_up).
pub(super) fn warm_up() {
    let profile = Profile::compile(&Settings::preset(Preset::Default), None);
    let verifier = Verifier::new(Verify::default(), Frequencies::built_in());
    let read = |content: &str| {
        let row = Row::parse(serde_json::json!({ "content": content }).to_string().as_bytes()).ok()?;
        profile.read(&row).ok()
    };
    let (Some(a), Some(b)) = (
        read("河口新區三號路5號樓的路燈不亮，ＡＢＣ請維修。電話：12345"),
        read("河口新区四号路5号楼的路灯不亮，请维修。谢谢"),
    ) else {
        return;
    };
    profile.sign(&a);
    let (text_a, text_b) = (a.joined(), b.joined());
    let named = |text: &str| Named::new(text, profile.objects(text));
    let contrast = contrasted(&verifier, &named(&text_a), &named(&text_b));
    let overlap = verifier.overlap(&verifier.weigh(verifier.shingles(&text_a)), &verifier.shingles(&text_b));
    verifier.weigh_up(&overlap, &contrast, true, || (text_a, text_b));
}

/// The compiled collections, by name. Grows with the number of collections, shrinks when they are dropped; those with a
/// dictionary of their own are at most [`MAX_OWN_DICTIONARIES`].
pub(super) struct Contexts {
    by_name: ArcSwap<HashMap<CollectionName, Arc<Context>>>,
    sketches: Arc<Sketches>,
    read_records: Arc<ReadRecords>,
    next_owner: AtomicU32,
    /// How many have been made.
    made: AtomicU32,
    /// Which collections have a label of their own in metrics.
    labels: parking_lot::Mutex<Labels>,
    /// What has been said of collections that may not be compiled any more.
    inactive: parking_lot::Mutex<HashMap<CollectionName, Inactive>>,
    /// Who compiles: many that need the same collection at once wait for the first, and find it compiled.
    compiling: Mutex<()>,
}

impl Contexts {
    /// No collections yet, with room for so many bytes of their sketches.
    pub(super) fn new(sketch_bytes: usize) -> Self {
        let (sketches, read_records) = (Arc::new(Sketches::new(sketch_bytes)), Arc::default());
        let (next_owner, made) = (AtomicU32::new(0), AtomicU32::new(0));
        let (by_name, inactive, labels) =
            (ArcSwap::default(), parking_lot::Mutex::default(), parking_lot::Mutex::default());
        Self { by_name, sketches, read_records, next_owner, made, labels, inactive, compiling: Mutex::new(()) }
    }
}

/// The inactive channels of a collection, which a generation keeps as it was begun.
struct Inactive {
    number: CollectionNumber,
    generation: GenerationId,
    profile: String,
    channels: Vec<InactiveChannel>,
}

impl Contexts {
    /// The inactive channels of a collection, compiled at most once for each of its generations: a list of collections with words of
    /// their own would compile each of them anew, at a third of a second.
    pub(super) async fn inactive_channels(
        &self,
        store: &dyn Store,
        state: &Arc<CollectionState>,
    ) -> Result<Vec<InactiveChannel>> {
        let is_same = |known: &&Inactive| {
            known.generation == state.generation && known.profile == state.profile && known.number == state.number
        };
        if let Some(known) = self.inactive.lock().get(&state.name).filter(is_same) {
            return Ok(known.channels.clone());
        }
        let channels = self.of(store, state).await?.inactive_channels();
        let CollectionState { number, generation, profile, .. } = &**state;
        let (profile, channels_of) = (profile.clone(), channels.clone());
        let known = Inactive { number: *number, generation: *generation, profile, channels: channels_of };
        self.inactive.lock().insert(state.name.clone(), known);
        Ok(channels)
    }

    /// The context of `state`, compiled on first sight of it. A generation whose settings are as they were keeps its compiled
    /// profile and its sketches.
    pub(super) async fn of(&self, store: &dyn Store, state: &Arc<CollectionState>) -> Result<Arc<Context>> {
        if let Some(context) = self.known(state) {
            return Ok(context);
        }
        let _compiling = self.compiling.lock().await;
        if let Some(context) = self.known(state) {
            return Ok(context);
        }
        let cached = self.by_name.load().get(&state.name).cloned();
        // Another collection may have had the name before.
        let before = cached.filter(|before| before.state.number == state.number);
        let before = before.as_deref();
        let mut live = self.compiled(store, &state.name, (state.generation, &state.settings), before).await?;
        let mut others = Vec::with_capacity(state.others.len());
        for other in &state.others {
            others.push(self.compiled(store, &state.name, (other.id, &other.settings), before).await?);
        }
        let frequencies = frequencies(store, state, before).await?;
        let same = before.filter(|before| before.frequencies.version() == frequencies.version());
        if before.is_some() && same.is_none() {
            // A sketch says what a text weighs, and that is other now.
            self.forget_sketches(std::iter::once(&mut live).chain(&mut others));
        }
        let growth = match same {
            Some(before) => Arc::clone(&before.growth),
            None => Arc::new(Growth::of(store.count(&state.name).await.unwrap_or(0), &frequencies)),
        };
        let Standby { profile, owner, .. } = live;
        let (state, sketches) = (Arc::clone(state), Arc::clone(&self.sketches));
        let read_records = Arc::clone(&self.read_records);
        let used = AtomicU32::new(self.made.fetch_add(1, Ordering::Relaxed) + 1);
        let verifier = verifier(&state.settings, &frequencies);
        let counted = Counted::of(&profile, state.settings.verify.as_ref());
        let lacks_frequencies = counted.as_ref().is_some_and(|counted| !counted.are_in(&frequencies));
        let counts_text = counted.is_some();
        let stages = StageHistograms::of(self.labels.lock().of(&state.name));
        let context = Context {
            state,
            profile,
            verifier,
            frequencies,
            owner,
            sketches,
            read_records,
            others,
            used,
            growth,
            stages,
            counts_text,
            lacks_frequencies,
        };
        let context = Arc::new(context);
        let state = &context.state;
        if before.is_none() && context.is_outdated() {
            tracing::warn!(
                collection = %state.name, generation = state.generation.0,
                "the index was built by rules that have changed since; records registered now may miss earlier ones until the \
                 collection is reindexed"
            );
        }
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.insert(state.name.clone(), context.clone());
            forget_unused(&mut contexts);
            contexts
        });
        Ok(context)
    }

    fn known(&self, state: &Arc<CollectionState>) -> Option<Arc<Context>> {
        let context = self.by_name.load().get(&state.name).cloned()?;
        let same = Arc::ptr_eq(&context.state, state) || context.state == *state;
        let made = self.made.load(Ordering::Relaxed);
        // Written seldom, so that requests on all cores can read it.
        if same && context.used.load(Ordering::Relaxed) != made {
            context.used.store(made, Ordering::Relaxed);
        }
        same.then_some(context)
    }

    /// A generation's profile, with the statistics it was begun with: as it was, or compiled now.
    async fn compiled(
        &self,
        store: &dyn Store,
        name: &CollectionName,
        (generation, settings): (GenerationId, &Settings),
        before: Option<&Context>,
    ) -> Result<Standby> {
        if let Some(known) = before.and_then(|before| before.known(generation, settings)) {
            return Ok(known);
        }
        let statistics = match store.statistics(name, generation).await {
            // Dropped meanwhile. Who goes on hears so from the store, and nobody else sees this state again.
            Err(StoreError::UnknownCollection(_)) => None,
            other => other?,
        };
        let damaged =
            || StoreError::Internal("the statistics of a generation are damaged; reindex the collection".into());
        let decoded = statistics.map(|bytes| Statistics::decode(&bytes).ok_or_else(damaged)).transpose()?;
        let (own, statistics) = (settings.clone(), decoded.map(Arc::new));
        let profile = off_thread(move || Ok(Arc::new(Profile::compile(&own, statistics)))).await?;
        let shared = before.and_then(|before| before.owner_for(settings));
        let owner = shared.unwrap_or_else(|| self.next_owner.fetch_add(1, Ordering::Relaxed));
        Ok(Standby { generation, profile, owner })
    }

    /// Gives generations new owners of sketches, those that shared one before one together.
    fn forget_sketches<'a>(&self, generations: impl Iterator<Item = &'a mut Standby>) {
        let mut renamed = HashMap::new();
        for generation in generations {
            let next = || self.next_owner.fetch_add(1, Ordering::Relaxed);
            generation.owner = *renamed.entry(generation.owner).or_insert_with(next);
        }
    }

    /// Bytes of all remembered sketches.
    pub(super) fn sketch_bytes(&self) -> u64 {
        self.sketches.memory_usage() as u64
    }

    /// Bytes of all that was read of records and is kept.
    pub(super) fn read_record_bytes(&self) -> u64 {
        self.read_records.memory_usage()
    }

    /// Forgets a dropped collection.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.inactive.lock().remove(name);
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.remove(name);
            contexts
        });
    }
}

/// The document frequencies in force: those known before, or read now.
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
        // Superseded or dropped meanwhile: nobody sees this state again.
        Ok(None) | Err(StoreError::UnknownCollection(_)) => {
            Ok(before.map_or_else(Frequencies::built_in, |before| Arc::clone(&before.frequencies)))
        }
        Err(other) => Err(other.into()),
    }
}

/// Leaves [`MAX_OWN_DICTIONARIES`] contexts with a dictionary of their own, those used last.
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
    async fn many_who_need_a_collection_at_once_compile_it_once() {
        let (contexts, store) = (Arc::new(Contexts::new(1 << 20)), Arc::new(ModelStore::default()));
        let state = state(&store, "words", &["幸福里七期"]).await;
        let of = || {
            let (contexts, store, state) = (contexts.clone(), store.clone(), state.clone());
            tokio::spawn(async move { contexts.of(&*store, &state).await })
        };
        let mut all = Vec::new();
        for task in (0..16).map(|_| of()).collect::<Vec<_>>() {
            all.push(task.await.unwrap().unwrap());
        }
        assert!(all.iter().all(|context| Arc::ptr_eq(context, &all[0])));
        assert_eq!(contexts.made.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn generations_that_read_the_same_share_their_sketches() {
        let (contexts, store) = (Contexts::new(1 << 20), ModelStore::default());
        let first = state(&store, "words", &[]).await;
        let owner = contexts.of(&store, &first).await.unwrap().owner;
        let after = async |change: fn(&mut Settings)| {
            let mut changed = CollectionState::clone(&first);
            change(&mut changed.settings);
            contexts.of(&store, &Arc::new(changed)).await.unwrap().owner
        };
        assert_eq!(after(|settings| settings.min_features = 9).await, owner);
        assert_ne!(after(|settings| settings.text.simplify = false).await, owner);
        let owner = contexts.of(&store, &first).await.unwrap().owner;
        assert_ne!(after(|settings| settings.fields.truncate(3)).await, owner);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_generation_of_other_rules_is_outdated() {
        let (contexts, store) = (Contexts::new(1 << 20), ModelStore::default());
        let state = state(&store, "words", &[]).await;
        let context = contexts.of(&store, &state).await.unwrap();
        assert!(context.is_outdated(), "made under another profile");
        let profile = context.profile.digest().to_owned();
        let renewed = Arc::new(CollectionState { profile, ..CollectionState::clone(&state) });
        assert!(!contexts.of(&store, &renewed).await.unwrap().is_outdated());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn dictionaries_are_bounded_and_the_longest_unused_goes_first() {
        let (contexts, store) = (Contexts::new(1 << 20), ModelStore::default());
        let plain = state(&store, "plain", &[]).await;
        contexts.of(&store, &plain).await.unwrap();
        let mut states = Vec::new();
        for number in 0..=MAX_OWN_DICTIONARIES {
            states.push(state(&store, &format!("c{number}"), &["幸福里七期"]).await);
        }
        for state in &states {
            contexts.of(&store, state).await.unwrap();
            // In use all the time.
            contexts.of(&store, &states[0]).await.unwrap();
        }
        let kept = |state: &Arc<CollectionState>| contexts.by_name.load().contains_key(&state.name);
        assert!(kept(&plain) && kept(&states[0]) && !kept(&states[1]) && states[2..].iter().all(kept));
        contexts.of(&store, &states[1]).await.unwrap();
        assert!(kept(&states[1]) && !kept(&states[2]));
    }
}
