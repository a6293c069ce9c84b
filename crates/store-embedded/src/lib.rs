//! The embedded store: one directory, one process, no server.
//!
//! **Data.** Records and signatures are in one fjall database (`disk`; `layout` and `keys` describe their form). The index of each
//! live generation is in memory, and is rebuilt when the directory is opened (`load`). Standby generations are on disk only
//! (`generations`).
//!
//! **A change** of a record passes a pipeline (`pipeline`; `change_record` runs it): the sequencer assigns a position and the
//! candidates (`sequencer`), the thread of the caller judges the candidates (`judging`), the committer thread writes all ready
//! changes as one synced batch (`committer`, `batch`). Many changes are judged at the same time, but the changes of a collection
//! are committed strictly in the order of their positions. A change that takes long to judge delays later changes; therefore, the
//! number of bytes that a query may read is bounded. Collections do not wait for each other, except for the common sync. Changes of
//! one id happen in the order of their calls (`claims`). A change that reads before it writes is in a separate batch (`exclusive`):
//! decisions, tasks, filling a generation.
//!
//! **Lookups** see exactly the published records (`find`). Records that matched stay in memory for the next lookup
//! (`candidate_cache`). A generation becomes live between two batches (`activate`).
//!
//! **Damage** is found before a directory is opened (`inspect`, `manifest`). A store can skip and report damages (`scan`,
//! `health`), find collections with a damaged name by their numbers (`recovered_collections`), and copy the readable data
//! (`salvage`). A snapshot reads the published state, all keyspaces at one moment (`state_reader`); `restore` makes a directory
//! from it.
//!
//! **Failures.** After a failed commit, or a failed thread of the storage engine, the open database (`shared_state`) is dropped and
//! opened again in the background (`reopen`). Until then, writes return [`StoreError::Unavailable`], and lookups use the last
//! published state, except for the seconds of the opening. `write_watchdog` notices a commit that neither fails nor ends, so that
//! no one waits for ever. If the volume becomes full, writes are refused before the engine stops (`free_space`).
//!
//! **Limits**: [`MAX_PENDING`] changes at the same time, further changes wait; 2^31 records in a generation. A judge gets
//! candidates with blank verdicts, and gets signatures only if it needed them when the candidate was registered.
//!
//! Imports between these files have no cycle: types first, then disk, pipeline, `shared_state`, `store`, and the implementations of
//! the traits. `failpoints` lists the failpoints for tests.
//!
//! [`StoreError::Unavailable`]: doppel_store::StoreError::Unavailable

mod activate;
mod admin;
mod batch;
mod candidate_cache;
mod change_record;
mod changes;
mod claims;
mod collection;
mod committer;
mod conclude;
mod decisions;
mod directory;
mod disk;
mod errors;
mod exclusive;
mod failpoints;
mod find;
mod free_space;
mod frequencies;
mod generation;
mod generations;
mod health;
mod inspect;
mod journal;
mod judging;
mod key_ring;
mod keys;
mod keyspaces;
mod layout;
mod load;
mod manifest;
mod opening;
mod options;
mod pending;
mod pipeline;
mod recovered_collections;
mod reopen;
mod restore;
mod salvage;
mod scan;
mod sequencer;
mod shared_state;
mod state_reader;
mod store;
mod supervisor;
mod sweep;
mod tasks;
mod values;
mod write_watchdog;

pub use self::inspect::{is_data_directory, remove_own_files};
pub use self::options::{EmbeddedOptions, LoadProgress, Opening};
pub use self::restore::{RestoreCheck, key_ring_in, restore, without_key_ring};
pub use self::salvage::recoverable_copy;
pub use self::scan::Damages;
pub use self::state_reader::read_directory;
pub use self::store::EmbeddedStore;
pub use self::supervisor::MAX_PENDING;
