//! `[snapshots]`: backups that the service takes of its own records while it runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Store, StoreKind};

/// A year: whoever wants fewer snapshots asks for them.
const MOST_HOURS: u32 = 8_760;

/// `[snapshots]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// The directory of the snapshots, made if it is missing (the folder above it is not); best on another volume than `store.data`, and never in it. Empty: the
    /// service takes none, but streams one to who asks. Of the embedded store only.
    pub dir: PathBuf,
    /// After how many hours the service takes the next one by itself; 0: only when it is asked.
    pub every_hours: u32,
    /// How many are kept: after each one that the service has taken the oldest beyond these are removed; 0: all.
    pub keep: usize,
}

impl Snapshots {
    pub(super) fn check(&self, store: &Store) -> Result<(), String> {
        if self.dir.as_os_str().is_empty() {
            return match self.every_hours {
                0 => Ok(()),
                _ => Err("snapshots.every_hours: say in snapshots.dir where they are to be".into()),
            };
        }
        if store.kind == StoreKind::Mongodb {
            return Err(
                "snapshots.dir: records in MongoDB are backed up by MongoDB's own means; see docs/mongodb.md".into()
            );
        }
        if is_within(&self.dir, &store.data) {
            return Err(
                "snapshots.dir is in store.data, and would be lost with it; choose another, best on another volume"
                    .into(),
            );
        }
        if self.every_hours > MOST_HOURS {
            return Err(format!("snapshots.every_hours: give 0 to {MOST_HOURS}"));
        }
        Ok(())
    }
}

/// Whether a directory is in another one, or is it; symbolic links are followed as far as there is something.
pub fn is_within(dir: &Path, other: &Path) -> bool {
    real(dir).starts_with(real(other))
}

/// The path without symbolic links, as far as there is something; the rest as it is.
pub fn real(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = whole.ancestors().find_map(|there| {
        let rest = whole.strip_prefix(there).ok()?;
        let there = there.canonicalize().ok()?;
        // Joined with nothing it would end in a slash.
        Some(if rest.as_os_str().is_empty() { there } else { there.join(rest) })
    });
    real.unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbolic_link_leads_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (data, link) = (folder.path().join("data"), folder.path().join("link"));
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        assert!(is_within(&link.join("snapshots"), &data) && is_within(&data.join("new/er"), &link));
        assert!(!is_within(&folder.path().join("other"), &link));
    }

    #[test]
    fn a_schedule_needs_a_directory_apart_from_the_records() {
        let store = Store { data: "/data/doppel".into(), ..Store::default() };
        let with = |dir: &str, every_hours| Snapshots { dir: dir.into(), every_hours, keep: 14 }.check(&store);
        assert!(with("", 0).is_ok() && with("/backup", 24).is_ok() && with("/data/doppel-snapshots", 24).is_ok());
        assert!(with("", 24).unwrap_err().contains("snapshots.dir"));
        assert!(with("/data/doppel/snapshots", 24).unwrap_err().contains("in store.data"));
        assert!(is_within("data/x".as_ref(), "./data".as_ref()) && !is_within("data-x".as_ref(), "data".as_ref()));
        assert!(with("/backup", 10_000).unwrap_err().contains("every_hours"));
        let mongodb = Store { kind: StoreKind::Mongodb, ..store };
        let refused = Snapshots { dir: "/backup".into(), ..Snapshots::default() }.check(&mongodb);
        assert!(refused.unwrap_err().contains("docs/mongodb.md"));
    }
}
