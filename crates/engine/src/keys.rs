//! Keys of callers that are created while the service runs: creating, listing and revoking them, and recording their last use.
//!
//! The store keeps the keys, so that all instances on one store have the same keys. The engine enforces the rules about their number and
//! their names. The HTTP interface decides what a caller may do with a key.

use doppel_store::StoreError;
use doppel_store::keys::{KeyRing, MOST_KEYS, ManagedKey};

use crate::boxed;
use crate::{Engine, Error, Result};

/// Largest number of repetitions of a change because another instance stored a change first. Changes within one instance wait for each other. If
/// several instances change keys without a pause, each of them succeeds sometimes.
const ATTEMPTS: usize = 32;
/// Seconds after which a client may repeat a change that failed for this reason.
const AGAIN_AFTER_S: u32 = 1;

impl Engine {
    /// Returns all keys, including expired ones.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn keys(&self) -> Result<KeyRing> {
        Ok(self.store.key_ring().await?)
    }

    /// Stores a new key. Returns all stored keys.
    ///
    /// # Errors
    /// [`Error::KeyExists`] or [`Error::AccountExists`] if the name is in use, [`Error::TooManyKeys`].
    #[boxed]
    pub async fn create_key(&self, key: ManagedKey) -> Result<KeyRing> {
        self.change_keys(|ring| {
            check_name(&key.name, ring)?;
            if ring.keys.len() >= MOST_KEYS {
                return Err(Error::TooManyKeys);
            }
            ring.keys.push(key.clone());
            ring.keys.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(true)
        })
        .await
    }

    /// Removes a key. Returns all stored keys.
    ///
    /// # Errors
    /// [`Error::UnknownKey`].
    #[boxed]
    pub async fn revoke_key(&self, name: &str) -> Result<KeyRing> {
        self.change_keys(|ring| {
            let before = ring.keys.len();
            ring.keys.retain(|key| key.name != name);
            if ring.keys.len() == before { Err(Error::UnknownKey(name.to_owned())) } else { Ok(true) }
        })
        .await
    }

    /// Records the last uses of keys: name, SHA-256 and time (RFC 3339, UTC) of each use. Ignores a time before the recorded time, and deleted
    /// keys.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn note_key_uses(&self, uses: &[(String, String, String)]) -> Result<KeyRing> {
        self.change_keys(|ring| {
            let mut changed = false;
            for (name, sha256, at) in uses {
                let key = ring.keys.iter_mut().find(|key| key.name == *name && key.sha256 == *sha256);
                if let Some(key) = key.filter(|key| key.last_used_at.as_ref().is_none_or(|before| before < at)) {
                    key.last_used_at = Some(at.clone());
                    changed = true;
                }
            }
            Ok(changed)
        })
        .await
    }

    /// Changes the stored keys and accounts; repeats the change if another process stored its change first. Changes of this process wait for each
    /// other. `change` returns true if the result must be stored.
    pub(super) async fn change_keys(
        &self,
        change: impl Fn(&mut KeyRing) -> Result<bool> + Send + Sync,
    ) -> Result<KeyRing> {
        let _only_one = self.changing_keys.lock().await;
        for _ in 0..ATTEMPTS {
            let mut ring = self.store.key_ring().await?;
            if !change(&mut ring)? {
                return Ok(ring);
            }
            if let Some(stored) = self.store.put_key_ring(ring).await? {
                return Ok(stored);
            }
        }
        let reason = "too many callers are changing the keys at the same time".to_owned();
        Err(Error::Store(StoreError::Unavailable { reason, retry_after_s: AGAIN_AFTER_S }))
    }
}

/// Checks that neither a key nor an account has the name: logs show only the name, so that it must be unique.
pub(super) fn check_name(name: &str, ring: &KeyRing) -> Result<()> {
    if ring.keys.iter().any(|key| key.name == name) {
        return Err(Error::KeyExists(name.to_owned()));
    }
    if ring.accounts.iter().any(|account| account.name == name) {
        return Err(Error::AccountExists(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn key(name: &str) -> ManagedKey {
        ManagedKey {
            name: name.into(),
            sha256: "0".repeat(64),
            scopes: vec!["read".into()],
            collections: None,
            created_at: "2026-01-01T00:00:00Z".into(),
            created_by: "operator".into(),
            expires_at: None,
            last_used_at: None,
        }
    }

    fn names(ring: &KeyRing) -> Vec<&str> {
        ring.keys.iter().map(|key| key.name.as_str()).collect()
    }

    #[tokio::test]
    async fn keys_are_listed_by_name_and_each_name_exists_once() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_key(key("desk")).await.unwrap();
        assert_eq!(names(&engine.create_key(key("clerk")).await.unwrap()), ["clerk", "desk"]);
        assert!(matches!(engine.create_key(key("desk")).await, Err(Error::KeyExists(_))));
        assert_eq!(names(&engine.revoke_key("desk").await.unwrap()), ["clerk"]);
        assert!(matches!(engine.revoke_key("desk").await, Err(Error::UnknownKey(_))));
    }

    #[tokio::test]
    async fn the_number_of_keys_is_bounded() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        for number in 0..MOST_KEYS {
            engine.create_key(key(&format!("k{number}"))).await.unwrap();
        }
        assert!(matches!(engine.create_key(key("one-more")).await, Err(Error::TooManyKeys)));
        engine.revoke_key("k7").await.unwrap();
        assert!(engine.create_key(key("one-more")).await.is_ok());
    }

    /// Records a use of the key `desk`. Returns its last recorded use.
    async fn note_use(engine: &Engine, sha256: &str, at: &str) -> Option<String> {
        let uses = [("desk".to_owned(), sha256.to_owned(), at.to_owned())];
        engine.note_key_uses(&uses).await.unwrap().keys[0].last_used_at.clone()
    }

    #[tokio::test]
    async fn the_last_use_never_goes_back_and_belongs_to_the_present_key() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_key(key("desk")).await.unwrap();
        let own = "0".repeat(64);
        assert_eq!(note_use(&engine, &own, "2026-01-01T08:05:00Z").await.as_deref(), Some("2026-01-01T08:05:00Z"));
        assert_eq!(note_use(&engine, &own, "2026-01-01T08:04:00Z").await.as_deref(), Some("2026-01-01T08:05:00Z"));
        let other = note_use(&engine, &"1".repeat(64), "2026-01-01T09:00:00Z").await;
        assert_eq!(other.as_deref(), Some("2026-01-01T08:05:00Z"), "an earlier key with the same name");
    }
}
