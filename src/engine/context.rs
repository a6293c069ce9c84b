//! Compiled collections: what the engine needs to know of a collection on every request, made once.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::collection::{CollectionName, Settings};
use crate::engine::answers::InactiveChannel;
use crate::engine::{Error, Result, off_thread};
use crate::record::Row;
use crate::schemes::profile::{Profile, Signed};
use crate::similarity::ShingleSet;
use crate::store::{CollectionState, Seq};
use crate::text::Document;
use crate::violation::Violation;

/// A collection with its profile compiled.
pub(super) struct Context {
    pub(super) state: Arc<CollectionState>,
    pub(super) profile: Arc<Profile>,
    /// Shingle sets of records verified lately. The same records are proposed again and again: a key proposes its earliest,
    /// so a common phrase leads to the same few hundred.
    pub(super) verified: VerifiedTexts,
}

/// Most bytes of remembered shingle sets, per collection: some 15,000 records of usual length.
const VERIFIED_BYTES: u64 = 32 << 20;
/// Bytes of a set of usual length, to size the cache's tables.
const USUAL_SET_BYTES: u64 = 2 << 10;

/// Shingle sets by seq, bounded by their bytes.
pub(super) struct VerifiedTexts(Cache<Seq, Arc<ShingleSet>, ByBytes>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<Seq, Arc<ShingleSet>> for ByBytes {
    fn weight(&self, _: &Seq, set: &Arc<ShingleSet>) -> u64 {
        set.memory_usage() as u64
    }
}

impl VerifiedTexts {
    fn new() -> Self {
        Self(Cache::with_weighter((VERIFIED_BYTES / USUAL_SET_BYTES) as usize, VERIFIED_BYTES, ByBytes))
    }

    /// The set of a record, if it is remembered.
    pub(super) fn get(&self, seq: Seq) -> Option<Arc<ShingleSet>> {
        self.0.get(&seq)
    }

    /// Remembers the set of a record.
    pub(super) fn put(&self, seq: Seq, set: Arc<ShingleSet>) {
        self.0.insert(seq, set);
    }
}

/// A row read and signed.
pub(super) struct Subject {
    pub(super) document: Document,
    pub(super) signed: Arc<Signed>,
}

impl Context {
    /// Reads and signs `row`. O(length of its text).
    pub(super) fn subject(&self, row: &Row) -> Result<Subject> {
        let document = self.profile.read(row).map_err(Error::Invalid)?;
        if document.fields.is_empty() {
            let detail =
                "none of the collection's content fields has a value; see GET of the collection for their names";
            return Err(Error::Invalid(vec![Violation::new("", "no_content", detail)]));
        }
        let signed = Arc::new(self.profile.sign(&document));
        Ok(Subject { document, signed })
    }

    /// Position and radius of the `simhash` channel.
    pub(super) fn simhash_channel(&self) -> Option<(u8, u8)> {
        let position = self.state.settings.channels.iter().position(|channel| channel.scheme() == "simhash")?;
        Some((position as u8, self.state.settings.simhash_radius()?))
    }

    /// Channels that cannot run, and why.
    pub(super) fn inactive_channels(&self) -> Vec<InactiveChannel> {
        let schemes = self.profile.schemes().iter();
        let inactive = schemes.filter_map(|scheme| Some((scheme.name(), scheme.inactive_reason()?)));
        inactive.map(|(scheme, reason)| InactiveChannel { scheme: scheme.into(), reason }).collect()
    }
}

/// See [`Engine::warm_up`](crate::engine::Engine::warm_up).
pub(super) fn warm_up() {
    let profile = Profile::compile(&Settings::default(), None);
    if let Ok(row) = Row::parse("{\"content\":\"路燈不亮，ＡＢＣ請維修\"}".as_bytes())
        && let Ok(document) = profile.read(&row)
    {
        profile.sign(&document);
    }
}

/// The compiled collections, by name. Grows with the number of collections, shrinks when they are dropped.
#[derive(Default)]
pub(super) struct Contexts {
    by_name: ArcSwap<HashMap<CollectionName, Arc<Context>>>,
}

impl Contexts {
    /// The context of `state`, compiled on first sight of it. A change that keeps the profile keeps its compiled form.
    pub(super) async fn of(&self, state: &Arc<CollectionState>) -> Result<Arc<Context>> {
        let cached = self.by_name.load().get(&state.name).cloned();
        if let Some(context) = &cached
            && (Arc::ptr_eq(&context.state, state) || context.state == *state)
        {
            return Ok(context.clone());
        }
        let profile = match cached {
            Some(context) if context.state.profile == state.profile && context.state.settings == state.settings => {
                context.profile.clone()
            }
            _ => {
                let state = state.clone();
                off_thread(move || Ok(Arc::new(Profile::compile(&state.settings, None)))).await?
            }
        };
        let context = Arc::new(Context { state: state.clone(), profile, verified: VerifiedTexts::new() });
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.insert(state.name.clone(), context.clone());
            contexts
        });
        Ok(context)
    }

    /// Forgets a dropped collection.
    pub(super) fn forget(&self, name: &CollectionName) {
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.remove(name);
            contexts
        });
    }
}
