//! Which directory a data directory is, whatever its name: another may be put in its place.

use std::path::Path;

/// The file that every database directory has.
pub(super) const VERSION: &str = "version";

/// Device and inode of a directory's [`VERSION`].
pub(super) type Identity = (u64, u64);

/// Which database directory `dir` names now, if any.
pub(super) fn identity(dir: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    dir.join(VERSION).metadata().ok().map(|file| (file.dev(), file.ino()))
}
