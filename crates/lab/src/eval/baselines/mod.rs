//! What the documents compare with and the service does not use itself.

pub mod bm25;
pub mod mysql;
