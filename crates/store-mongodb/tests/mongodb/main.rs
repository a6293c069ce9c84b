//! Tests of the MongoDB store with real servers.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../../../../tests/support/cluster.rs"]
mod cluster_of_two;
#[path = "../../../../tests/support/mongod.rs"]
mod mongod;
#[path = "../../../../tests/support/pair.rs"]
mod pair;

mod cluster;
mod failures;
mod figures;
mod generations;
mod key_ring;
mod lookups;
mod protocol;
mod store;
mod together;

/// Sets the level of MongoDB's profiler: 2 records all commands in `system.profile`, 0 records none.
async fn set_profiling(database: &mongodb::Database, level: i32) {
    database.run_command(mongodb::bson::doc! { "profile": level }).await.expect("the profiler is set");
}
