//! A cache of the signatures of texts that were signed more than once lately.
//!
//! Signing is most of the work for a letter without candidates, and thousands of people may send the same letter. A text is kept from the
//! second time on, so that other letters cost a hash of their text and no memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use doppel_core::schemes::hash::city64_bytes;
use doppel_core::schemes::profile::Signed;
use doppel_core::text::objects::NamedObject;
use doppel_core::text::{Document, DocumentField};

/// Maximum size of the cache in bytes: some hundred letters of usual length, many more than are sent in masses at the same time.
const BYTES: u64 = 2 << 20;
/// Approximate size of a signed text, in multiples of the bytes of the text: the text, and a key or a name for some characters each.
const BY_TEXT: usize = 4;
/// Approximate size of an entry without the parts that grow with the text, in bytes.
const BARE: usize = 1 << 10;
/// Number of hashes of texts that occurred once. If one in some hundred records is a copy of a letter, the next copy comes before another letter
/// takes the place of its hash. There may be thousands of collections.
const SEEN: usize = 1 << 8;

/// A text with its signatures.
pub(super) struct SignedText {
    fields: Vec<DocumentField>,
    columns: Vec<DocumentField>,
    pub(super) signed: Arc<Signed>,
    /// The names in the text, if they were found.
    pub(super) named: Option<Arc<[NamedObject]>>,
}

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<u64, Arc<SignedText>> for ByteWeighter {
    fn weight(&self, _hash: &u64, text: &Arc<SignedText>) -> u64 {
        let bytes: usize = text.fields.iter().chain(&text.columns).map(|field| field.whole().len()).sum();
        (BARE + BY_TEXT * bytes) as u64
    }
}

/// The cache of one profile, see the module.
pub(super) struct SignedTexts {
    /// Made when a text comes the second time.
    texts: OnceLock<Cache<u64, Arc<SignedText>, ByteWeighter>>,
    /// Hashes of texts that were seen lately, each at the place that the hash gives.
    seen: Box<[AtomicU64]>,
}

impl SignedTexts {
    pub(super) fn new() -> Self {
        Self { texts: OnceLock::new(), seen: (0..SEEN).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the signatures of a document, and the names in its text if `naming` is true: from the cache, or made by `sign`. Two documents
    /// whose fields and columns are equal have equal signatures and names. O(length).
    pub(super) fn get(
        &self,
        document: &Document,
        naming: bool,
        sign: impl FnOnce() -> (Arc<Signed>, Option<Arc<[NamedObject]>>),
    ) -> (Arc<Signed>, Option<Arc<[NamedObject]>>) {
        let hash = hash(document);
        let kept = self.texts.get().and_then(|texts| texts.get(&hash)).filter(|text| {
            text.fields == document.fields && text.columns == document.columns && (text.named.is_some() || !naming)
        });
        if let Some(kept) = kept {
            return (Arc::clone(&kept.signed), kept.named.clone().filter(|_| naming));
        }
        let (signed, named) = sign();
        let place = &self.seen[hash as usize % SEEN];
        if place.swap(hash, Ordering::Relaxed) == hash {
            let text = SignedText {
                fields: document.fields.clone(),
                columns: document.columns.clone(),
                signed: Arc::clone(&signed),
                named: named.clone(),
            };
            let texts = self
                .texts
                .get_or_init(|| Cache::with_weighter((BYTES / (4 * BARE as u64)) as usize, BYTES, ByteWeighter));
            texts.insert(hash, Arc::new(text));
        }
        (signed, named)
    }
}

/// Returns a hash of the text of a document.
fn hash(document: &Document) -> u64 {
    document.fields.iter().fold(0, |hash, field| hash.rotate_left(7) ^ city64_bytes(field.whole().as_bytes()))
}

#[cfg(test)]
mod tests {
    use doppel_core::collection::{Preset, Settings};
    use doppel_core::record::Row;
    use doppel_core::schemes::profile::Profile;

    use super::*;

    /// Signs a text, and checks the result. Returns true if the signatures were made and not kept.
    fn is_made(texts: &SignedTexts, profile: &Profile, number: usize, naming: bool) -> bool {
        let json =
            format!(r#"{{"id":"r","title":"路灯","content":"{number}号路的路灯已经连续多日不亮,晚上行走十分危险"}}"#);
        let document = profile.read(&Row::parse(json.as_bytes()).unwrap()).unwrap();
        let mut made = false;
        let (signed, named) = texts.get(&document, naming, || {
            made = true;
            let (signed, named) = profile.sign_naming(&document);
            (Arc::new(signed), named.map(Arc::from).filter(|_| naming))
        });
        assert_eq!(*signed, profile.sign(&document));
        assert_eq!(named.as_deref(), profile.sign_naming(&document).1.as_deref().filter(|_| naming));
        made
    }

    #[test]
    fn a_text_is_signed_twice_at_most_and_each_text_by_itself() {
        let profile = Profile::compile(&Settings::preset(Preset::Default), None);
        let texts = SignedTexts::new();
        assert_eq!((0..100).filter(|_| is_made(&texts, &profile, 1, false)).count(), 2);
        let made = (2..100).filter(|number| is_made(&texts, &profile, *number, false)).count();
        assert_eq!(made, 98, "a text that comes once is signed once");
        let made = (0..100).filter(|_| is_made(&texts, &profile, 1, true)).count();
        assert!(made <= 2, "the names are found once more, or twice if another text has taken the place: {made}");
        let weight = texts.texts.get().unwrap().weight();
        assert!(weight > 0 && weight < BYTES, "{weight}");
    }
}
