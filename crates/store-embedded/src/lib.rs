//! The embedded store: one directory, one process, no server.
//!
//! **What is kept where.** Records and signatures are in one fjall database (`disk`; `layout` and `keys` say how they look), the
//! index of each live generation in memory, rebuilt when the directory is opened (`load`). Standby generations are on disk only
//! (`generations`).
//!
//! **A change** of a record passes a pipeline (`pipeline`; `change_record` runs it): the sequencer gives it a position and its
//! candidates (`sequencer`), the caller's thread judges them (`judging`), the committer thread writes what is ready as one synced
//! batch (`committer`, `batch`). Many are judged at once, but the changes of a collection are committed strictly in the order of
//! their positions: one that takes long to judge holds up those behind it, and what a query may read is bounded for that reason.
//! Collections do not wait for each other, but for the sync they share. Changes of one id happen in the order of their calls
//! (`claims`). A change that reads before it writes has a batch of its own (`exclusive`): decisions, tasks, filing.
//!
//! **Lookups** see what is published, and only that (`find`). A generation goes live between two batches (`activate`).
//!
//! **Damage** is noticed before a directory is opened (`inspect`, `manifest`); what cannot be read can be passed over and reported
//! (`scan`, `health`), collections whose name is damaged found by their numbers (`recovered_collections`), and what can be read, copied
//! (`salvage`). A snapshot reads the published state, all keyspaces at one moment (`state_reader`); what was read becomes a directory
//! again (`restore`).
//!
//! **Failures.** After a failed commit, or a failed thread of the storage engine, the open database (`shared_state`) is dropped and
//! opened again in the background (`reopen`). Until then writes answer [`StoreError::Unavailable`], and lookups go on against the
//! last published state, but for the seconds of the opening itself. A commit that neither fails nor ends is noticed
//! (`write_watchdog`): nobody waits for it for ever. A volume that runs full refuses writes before it stops the engine
//! (`free_space`).
//!
//! **Limits**: [`MAX_PENDING`] changes at once, further ones wait; 2^31 records a generation. A judge is asked with a record whose
//! verdict is blank, and gets signatures only if it asked for them when the candidate was registered.
//!
//! Imports between these files have no circle: types first, then disk, pipeline, `shared_state`, `store`, and what implements the
//! store's traits on top. Failpoints for tests are listed in `failpoints`.
//!
//! [`StoreError::Unavailable`]: doppel_store::StoreError::Unavailable

mod activate;
mod admin;
mod batch;
mod change_record;
mod changes;
mod checkpoints;
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
mod write_watchdog;

pub use self::inspect::is_data_directory;
pub use self::options::{EmbeddedOptions, LoadProgress, Opening};
pub use self::restore::{RestoreCheck, key_ring_in, restore, without_key_ring};
pub use self::salvage::recoverable_copy;
pub use self::scan::Damages;
pub use self::state_reader::read_directory;
pub use self::store::EmbeddedStore;
pub use self::supervisor::MAX_PENDING;
