//! Full-text search and related records.
//!
//! Each collection has a full-text index on [`tantivy`], in a folder of this instance. The index follows the change feed of the store
//! ([`service`]). If an index is missing, damaged or made by other rules, the service builds it again ([`index`]). A registration never
//! waits for an index; each answer states how many changes its index is behind.

mod directory;
pub mod extract;
mod follow;
pub mod fragments;
pub mod index;
pub mod query;
pub mod related;
pub mod service;
mod tokens;
mod writers;
