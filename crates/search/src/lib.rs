//! Full-text search and related records.
//!
//! Each collection has a full-text index on [`tantivy`], in a folder of this instance. The index follows the change feed of the store
//! ([`service`]). If an index is missing, damaged or made with other rules, the service builds it again ([`index`]). A registration never
//! waits for an index; each answer states how many changes its index is behind.
//!
//! If the office has a model, records also have vectors ([`vectors`]), which make the ranking of related records better.
//!
//! Without the feature `index`, the crate contains only the settings and the interface of a model ([`weights`], [`embedder`]).

#[cfg(feature = "index")]
mod directory;
pub mod embedder;
#[cfg(feature = "index")]
pub mod extract;
#[cfg(feature = "index")]
mod follow;
#[cfg(feature = "index")]
pub mod fragments;
#[cfg(feature = "index")]
pub mod index;
#[cfg(feature = "index")]
pub mod query;
#[cfg(feature = "index")]
pub mod related;
#[cfg(feature = "index")]
pub mod service;
#[cfg(feature = "index")]
mod tokens;
#[cfg(feature = "index")]
pub mod vectors;
pub mod weights;
#[cfg(feature = "index")]
mod writers;
