//! Compiled collections: what the engine needs to know of a collection on every request, made once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;

use crate::collection::{CollectionName, Settings};
use crate::engine::answers::InactiveChannel;
use crate::engine::{Error, Result, off_thread};
use crate::record::Row;
use crate::schemes::profile::{Profile, Signed};
use crate::similarity::Sketches;
use crate::store::CollectionState;
use crate::text::Document;
use crate::violation::Violation;

/// A collection with its profile compiled.
pub(super) struct Context {
    pub(super) state: Arc<CollectionState>,
    pub(super) profile: Arc<Profile>,
    /// What its sketches are remembered under: one that no other context has, so that other settings get other sketches.
    pub(super) owner: u32,
    /// Sketches of records that were registered or verified, under seqs that name their text for ever. The larger a collection,
    /// the more records share some phrase with a new one; a sketch refuses nearly all of those without reading them.
    pub(super) sketches: Arc<Sketches>,
}

/// Most bytes of remembered sketches, of all collections together: about a million records of usual length. As much again as
/// their index takes; with less, most candidates of a collection of that size would be read from disk to be refused.
const SKETCH_BYTES: usize = 256 << 20;

/// A row read and signed.
pub(super) struct Subject {
    pub(super) document: Document,
    pub(super) signed: Arc<Signed>,
}

/// Texts up to this size are worked on where requests are served: a fraction of a millisecond.
const SHORT_TEXT_BYTES: usize = 16 << 10;

impl Subject {
    /// Whether its text is short.
    pub(super) fn is_short(&self) -> bool {
        self.document.fields.iter().map(|field| field.text.len()).sum::<usize>() <= SHORT_TEXT_BYTES
    }
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
pub(super) struct Contexts {
    by_name: ArcSwap<HashMap<CollectionName, Arc<Context>>>,
    sketches: Arc<Sketches>,
    next_owner: AtomicU32,
}

impl Default for Contexts {
    fn default() -> Self {
        let sketches = Arc::new(Sketches::new(SKETCH_BYTES));
        Self { by_name: ArcSwap::default(), sketches, next_owner: AtomicU32::new(0) }
    }
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
        let owner = self.next_owner.fetch_add(1, Ordering::Relaxed);
        let context = Arc::new(Context { state: state.clone(), profile, owner, sketches: Arc::clone(&self.sketches) });
        self.by_name.rcu(|contexts| {
            let mut contexts = HashMap::clone(contexts);
            contexts.insert(state.name.clone(), context.clone());
            contexts
        });
        Ok(context)
    }

    /// Bytes of all remembered sketches.
    pub(super) fn sketch_bytes(&self) -> u64 {
        self.sketches.memory_usage() as u64
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
