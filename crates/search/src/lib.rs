//! Finding records by words: related cases, search.
//!
//! Every collection has a full-text index of its own, on [`tantivy`], in a folder of this instance. It follows the change feed of the
//! store ([`service`]), is thrown away and made anew whenever it is missing, damaged or of other rules ([`index`]), and is in nobody's
//! way: a registration does not wait for it, and answers say how far it is behind.

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
