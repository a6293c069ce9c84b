//! The identity of a data directory, which does not depend on its name, because another directory may replace it.

use std::path::Path;

/// A file that every database directory contains.
pub(super) const VERSION: &str = "version";

/// Device and inode of the file [`VERSION`] in a directory.
pub(super) type DirectoryIdentity = (u64, u64);

/// Returns the identity of the database directory at `dir`, if there is one.
pub(super) fn identity(dir: &Path) -> Option<DirectoryIdentity> {
    use std::os::unix::fs::MetadataExt;
    dir.join(VERSION).metadata().ok().map(|file| (file.dev(), file.ino()))
}
