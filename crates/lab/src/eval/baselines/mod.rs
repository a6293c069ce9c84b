//! Methods with which the papers compare, and which the service does not use.

pub mod bm25;
pub mod mysql;
