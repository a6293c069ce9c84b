//! Keys of callers that are made while the service runs: made, listed, revoked, and when each was last used.
//!
//! The engine keeps them, so that all instances that share a store share them, and holds the two rules about their number and their
//! names. Who may do what with which key is decided where requests come in.

use doppel_store::StoreError;
use doppel_store::keys::{KeyRing, MOST_KEYS, ManagedKey};

use crate::{Engine, Error, Result};

/// How often a change is begun again because another instance was faster: within one they wait for each other. Of instances that change
/// keys without a pause each is the faster one now and then.
const ATTEMPTS: usize = 32;
/// Seconds after which a change that met so many others may be asked for again.
const AGAIN_AFTER_S: u32 = 1;

impl Engine {
    /// The keys as they are, those that have expired included.
    ///
    /// # Errors
    /// What the store gives.
    pub async fn keys(&self) -> Result<KeyRing> {
        Ok(self.store.key_ring().await?)
    }

    /// Keeps a new key; what is kept then.
    ///
    /// # Errors
    /// [`Error::KeyExists`] where its name is taken, [`Error::TooManyKeys`].
    pub async fn create_key(&self, key: ManagedKey) -> Result<KeyRing> {
        let create = |ring: &mut KeyRing| {
            if ring.keys.iter().any(|other| other.name == key.name) {
                return Err(Error::KeyExists(key.name.clone()));
            }
            if ring.keys.len() >= MOST_KEYS {
                return Err(Error::TooManyKeys);
            }
            ring.keys.push(key.clone());
            ring.keys.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(true)
        };
        self.change_keys(create).await
    }

    /// Forgets a key; what is kept then.
    ///
    /// # Errors
    /// [`Error::UnknownKey`].
    pub async fn revoke_key(&self, name: &str) -> Result<KeyRing> {
        let revoke = |ring: &mut KeyRing| {
            let before = ring.keys.len();
            ring.keys.retain(|key| key.name != name);
            if ring.keys.len() == before { Err(Error::UnknownKey(name.to_owned())) } else { Ok(true) }
        };
        self.change_keys(revoke).await
    }

    /// Notes when keys were last used: name, SHA-256 and time (RFC 3339, UTC) of each. A time before the one that is noted, and a key
    /// that is not kept any more, are left out.
    ///
    /// # Errors
    /// What the store gives.
    pub async fn note_key_uses(&self, uses: &[(String, String, String)]) -> Result<KeyRing> {
        let note = |ring: &mut KeyRing| {
            let mut changed = false;
            for (name, sha256, at) in uses {
                let key = ring.keys.iter_mut().find(|key| key.name == *name && key.sha256 == *sha256);
                if let Some(key) = key.filter(|key| key.last_used_at.as_ref().is_none_or(|before| before < at)) {
                    key.last_used_at = Some(at.clone());
                    changed = true;
                }
            }
            Ok(changed)
        };
        self.change_keys(note).await
    }

    /// Changes what is kept, one change of this process after the other, again where another process was faster; `change` says whether
    /// there is anything to store.
    async fn change_keys(&self, change: impl Fn(&mut KeyRing) -> Result<bool> + Send + Sync) -> Result<KeyRing> {
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
        let reason = "the keys are being changed by many at once".to_owned();
        Err(Error::Store(StoreError::Unavailable { reason, retry_after_s: AGAIN_AFTER_S }))
    }
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
    async fn keys_are_listed_by_name_and_a_name_is_taken_once() {
        let engine = testing::Desk::with(&[]).await.engine;
        engine.create_key(key("desk")).await.unwrap();
        assert_eq!(names(&engine.create_key(key("clerk")).await.unwrap()), ["clerk", "desk"]);
        assert!(matches!(engine.create_key(key("desk")).await, Err(Error::KeyExists(_))));
        assert_eq!(names(&engine.revoke_key("desk").await.unwrap()), ["clerk"]);
        assert!(matches!(engine.revoke_key("desk").await, Err(Error::UnknownKey(_))));
    }

    #[tokio::test]
    async fn there_are_only_so_many() {
        let engine = testing::Desk::with(&[]).await.engine;
        for number in 0..MOST_KEYS {
            engine.create_key(key(&format!("k{number}"))).await.unwrap();
        }
        assert!(matches!(engine.create_key(key("one-more")).await, Err(Error::TooManyKeys)));
        engine.revoke_key("k7").await.unwrap();
        assert!(engine.create_key(key("one-more")).await.is_ok());
    }

    #[tokio::test]
    async fn the_last_use_only_goes_forward_and_is_of_the_key_that_is_there() {
        let engine = testing::Desk::with(&[]).await.engine;
        engine.create_key(key("desk")).await.unwrap();
        let used = |sha256: &str, at: &str| vec![("desk".to_owned(), sha256.to_owned(), at.to_owned())];
        let own = "0".repeat(64);
        let last = |ring: KeyRing| ring.keys[0].last_used_at.clone();
        let note = async |uses: Vec<_>| last(engine.note_key_uses(&uses).await.unwrap());
        assert_eq!(note(used(&own, "2026-01-01T08:05:00Z")).await.as_deref(), Some("2026-01-01T08:05:00Z"));
        assert_eq!(note(used(&own, "2026-01-01T08:04:00Z")).await.as_deref(), Some("2026-01-01T08:05:00Z"));
        let other = used(&"1".repeat(64), "2026-01-01T09:00:00Z");
        assert_eq!(note(other).await.as_deref(), Some("2026-01-01T08:05:00Z"), "one of that name before");
    }
}
