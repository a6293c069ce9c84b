//! Document frequencies of a collection: counted over a sample of its records, kept by the store in versions, refreshed as the
//! collection grows.
//!
//! Verification is no part of a signature, so that nothing is signed or filed anew when they change. A refresh counts at most
//! [`SAMPLE_RECORDS`] records on the threads that rebuild, behind those that serve; then the pairs recorded before are judged
//! again, so that groups follow (see `rejudge`). It is begun by whoever registers the record with which the collection has
//! grown by half since the last, whatever instance that is: of two that count at the same time, one is kept.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use crate::collection::{CollectionName, Verify};
use crate::engine::context::Context;
use crate::engine::rebuild::{on_pool, pool};
use crate::engine::{Engine, READ_AT_ONCE, Result};
use crate::record::Row;
use crate::schemes::profile::Profile;
use crate::similarity::{Counter, Frequencies, SAMPLE_RECORDS, ShingleSet, name_code};
use crate::text::Document;

/// Records with which a collection is counted first: fewer say little that the built-in list does not.
const FIRST_COUNT: u64 = 64;

/// How many records a collection has when it is to be counted again.
fn due_at(counted: u64) -> u64 {
    (counted + counted / 2).max(FIRST_COUNT)
}

/// What is counted of a document, each once: its shingles, and the names of things.
pub(super) fn codes(profile: &Profile, verify: &Verify, document: &Document) -> BTreeSet<u64> {
    let text = document.joined();
    let mut codes: BTreeSet<u64> = ShingleSet::of(&text, verify.shingle).codes().iter().copied().collect();
    if verify.objects {
        codes.extend(profile.objects(&text).iter().map(|object| name_code(&object.name)));
    }
    codes
}

/// Counts documents, which are read from `rows`, on all threads of the pool it runs on.
pub(super) fn count(profile: &Profile, verify: &Verify, rows: &[Arc<str>], counter: &mut Counter) {
    let codes = |row: &Arc<str>| {
        let document = profile.read(&Row::parse(row.as_bytes()).ok()?).ok()?;
        Some(codes(profile, verify, &document))
    };
    let counted: Vec<_> = rows.par_iter().filter_map(codes).collect();
    counted.into_iter().for_each(|codes| counter.observe(codes));
}
