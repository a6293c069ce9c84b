//! `[snapshots]`: backups that the running service takes of its store.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{StoreConfig, StoreKind};

/// Largest interval of scheduled snapshots in hours: a year.
const MOST_HOURS: u32 = 8_760;

/// `[snapshots]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotsConfig {
    /// The directory of the snapshots. It is created if it is missing, but its parent folder is not. It should be on another volume than
    /// `store.data` and must not be inside of it. If empty, the service takes no snapshots, but streams a snapshot on request. Only for the
    /// embedded store.
    pub dir: PathBuf,
    /// Interval in hours at which the service takes snapshots by itself; 0 to take them only on request.
    pub every_hours: u32,
    /// Number of snapshots that are kept. After a new snapshot the oldest snapshots beyond this number are removed; 0 to keep all.
    pub keep: usize,
}

impl SnapshotsConfig {
    pub(super) fn check(&self, store: &StoreConfig) -> Result<(), String> {
        if self.dir.as_os_str().is_empty() {
            return match self.every_hours {
                0 => Ok(()),
                _ => Err("snapshots.every_hours: name the directory of the snapshots in snapshots.dir".into()),
            };
        }
        if store.kind == StoreKind::Mongodb {
            return Err(
                "snapshots.dir: records in MongoDB are backed up by MongoDB's own means; see docs/mongodb.md".into()
            );
        }
        if is_within(&self.dir, &store.data) {
            return Err(
                "snapshots.dir is in store.data, so that both would be lost together; choose another directory, best \
                    on another volume"
                    .into(),
            );
        }
        if self.every_hours > MOST_HOURS {
            return Err(format!("snapshots.every_hours: give 0 to {MOST_HOURS}"));
        }
        Ok(())
    }
}

/// True if a directory is inside `other` or equals it. Follows symbolic links in the existing part of the paths.
pub fn is_within(dir: &Path, other: &Path) -> bool {
    real(dir).starts_with(real(other))
}

/// Resolves the symbolic links in the existing part of a path. The rest of the path stays unchanged.
pub fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = whole.ancestors().find_map(|there| {
        let rest = whole.strip_prefix(there).ok()?;
        let there = there.canonicalize().ok()?;
        // Joining an empty path would add a slash at the end.
        Some(if rest.as_os_str().is_empty() { there } else { there.join(rest) })
    });
    real.unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_links_are_resolved() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let link = folder.path().join("link");
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        assert!(is_within(&link.join("snapshots"), &data) && is_within(&data.join("new/er"), &link));
        assert!(!is_within(&folder.path().join("other"), &link));
    }

    #[test]
    fn a_schedule_needs_a_directory_outside_the_data() {
        let store = StoreConfig { data: "/data/doppel".into(), ..StoreConfig::default() };
        assert!(
            check_schedule("", 0, &store).is_ok()
                && check_schedule("/backup", 24, &store).is_ok()
                && check_schedule("/data/doppel-snapshots", 24, &store).is_ok()
        );
        assert!(check_schedule("", 24, &store).unwrap_err().contains("snapshots.dir"));
        assert!(check_schedule("/data/doppel/snapshots", 24, &store).unwrap_err().contains("in store.data"));
        assert!(is_within("data/x".as_ref(), "./data".as_ref()) && !is_within("data-x".as_ref(), "data".as_ref()));
        assert!(check_schedule("/backup", 10_000, &store).unwrap_err().contains("every_hours"));
        let mongodb = StoreConfig { kind: StoreKind::Mongodb, ..store };
        let refused = SnapshotsConfig { dir: "/backup".into(), ..SnapshotsConfig::default() }.check(&mongodb);
        assert!(refused.unwrap_err().contains("docs/mongodb.md"));
    }

    fn check_schedule(dir: &str, every_hours: u32, store: &StoreConfig) -> Result<(), String> {
        SnapshotsConfig { dir: dir.into(), every_hours, keep: 14 }.check(store)
    }
}
