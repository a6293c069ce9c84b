//! Tests of the full-text index and of the search service through their public interfaces.

#![allow(clippy::disallowed_methods, reason = "tests measure time and write files")]

mod damage;
mod following;
mod ranking;
mod searching;
mod vectors;

use std::path::Path;

use doppel_core::collection::{Preset, Settings};
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::VerdictKind;
use doppel_search::index::{Index, IndexEntry, IndexProgress, IndexSource};
use doppel_store::Seq;
use serde_json::{Value, json};

fn settings() -> Settings {
    Settings::preset(Preset::Default)
}

fn id(text: &str) -> RecordId {
    RecordId::new(text).expect("a valid id")
}

fn row(value: &Value) -> Row {
    Row::parse(value.to_string().as_bytes()).expect("a row")
}

fn letter(content: &str) -> Row {
    row(&json!({ "content": content }))
}

/// Opens the index in a folder. The second value is true if a new index was created.
fn open(folder: &Path) -> (Index, bool) {
    let opened = Index::open(folder, IndexSource::new("letters", &settings()), &settings()).expect("an index");
    (opened.index, opened.created_because.is_some())
}

/// Returns a new index with its folder.
fn new_index() -> (tempfile::TempDir, Index) {
    let folder = tempfile::tempdir().expect("a folder");
    let (index, _) = open(folder.path());
    (folder, index)
}

fn put(index: &Index, name: &str, seq: u64, row: &Row) {
    let extract = index.extractor().extract(row).expect("a readable row");
    index.put(&IndexEntry { id: id(name), seq: Seq(seq), verdict: VerdictKind::Original, extract }).expect("a write");
}

fn commit(index: &Index, reached: u64) {
    index.commit(IndexProgress::Reached(Seq(reached))).expect("a commit");
}

/// A generator of pseudo-random numbers from a fixed seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
