//! Checks of the keys that are created while the service runs, and of the accounts.

use std::sync::Arc;

use crate::Store;
use crate::accounts::{MOST_ACCOUNTS, PersonAccount};
use crate::keys::{KeyRing, MOST_KEYS, ManagedKey};
use doppel_core::collection::CollectionName;

type SharedStore = Arc<dyn Store>;

/// A key with this name.
pub fn key(name: &str) -> ManagedKey {
    ManagedKey {
        name: name.into(),
        sha256: "0".repeat(64),
        scopes: vec!["read".into(), "write".into()],
        collections: Some(vec![CollectionName::new("letters").expect("a name")]),
        created_at: "2026-01-01T00:00:00Z".into(),
        created_by: "operator".into(),
        expires_at: Some("2027-01-01T00:00:00Z".into()),
        last_used_at: None,
    }
}

/// An account with this name.
pub fn account(name: &str) -> PersonAccount {
    PersonAccount {
        name: name.into(),
        display_name: "张伟".into(),
        role: "clerk".into(),
        collections: Some(vec![CollectionName::new("letters").expect("a name")]),
        password_hash: Some(format!("$argon2id$v=19$m=19456,t=2,p=1${}${}", "a".repeat(22), "b".repeat(43))),
        is_disabled: true,
        sign_outs: 3,
        created_at: "2026-01-01T00:00:00Z".into(),
        created_by: "operator".into(),
        changed_at: "2026-01-02T00:00:00Z".into(),
    }
}

async fn ring(store: &SharedStore) -> KeyRing {
    store.key_ring().await.expect("the keys")
}

async fn put(store: &SharedStore, ring: KeyRing) -> Option<KeyRing> {
    store.put_key_ring(ring).await.expect("an answer")
}

pub(super) async fn keys_and_accounts_come_back_as_they_went_in(store: SharedStore) {
    let first = ring(&store).await;
    assert!(first.keys.is_empty());
    let unlimited = ManagedKey { collections: None, expires_at: None, ..key("intake") };
    let used = ManagedKey { last_used_at: Some("2026-01-02T03:04:00Z".into()), ..key("desk-3") };
    let keys = vec![used, unlimited];
    let second = put(&store, KeyRing { keys: keys.clone(), ..first.clone() }).await.expect("nobody else changes them");
    assert_eq!((second.version, &second.keys), (first.version + 1, &keys));
    assert_eq!(ring(&store).await, second);
    let many: Vec<ManagedKey> = (0..MOST_KEYS).map(|number| key(&format!("{number:064}"))).collect();
    let third = put(&store, KeyRing { keys: many, ..second }).await.expect("nobody else changes them");
    assert_eq!(ring(&store).await, third, "as many as there may be");
    let unlimited = PersonAccount { collections: None, password_hash: None, is_disabled: false, ..account("li") };
    let accounts = vec![unlimited, account("zhang")];
    let fourth = put(&store, KeyRing { accounts, ..third }).await.expect("nobody else changes them");
    assert_eq!(ring(&store).await, fourth, "keys and accounts");
    let accounts: Vec<PersonAccount> = (0..MOST_ACCOUNTS).map(|number| account(&format!("{number:064}"))).collect();
    let fifth = put(&store, KeyRing { accounts, ..fourth }).await.expect("nobody else changes them");
    assert_eq!(ring(&store).await, fifth, "as many as there may be");
    let none = put(&store, KeyRing { keys: Vec::new(), accounts: Vec::new(), ..fifth })
        .await
        .expect("nobody else changes them");
    assert_eq!(ring(&store).await, none);
}

pub(super) async fn who_names_another_version_of_the_keys_changes_nothing(store: SharedStore) {
    let first = ring(&store).await;
    let second = put(&store, KeyRing { keys: vec![key("a")], ..first.clone() }).await.expect("stored");
    assert_eq!(put(&store, KeyRing { keys: vec![key("b")], ..first }).await, None, "someone else was faster");
    let later = KeyRing { version: second.version + 1, keys: vec![key("b")], ..KeyRing::default() };
    assert_eq!(put(&store, later).await, None, "nobody has stored that version");
    assert_eq!(ring(&store).await, second);
}

pub(super) async fn of_changes_of_the_keys_at_once_exactly_one_is_made(store: SharedStore) {
    for _ in 0..5 {
        let before = ring(&store).await;
        let callers = (0..8).map(|caller| {
            let (store, ring) =
                (Arc::clone(&store), KeyRing { keys: vec![key(&format!("k{caller}"))], ..before.clone() });
            tokio::spawn(async move { store.put_key_ring(ring).await.expect("an answer") })
        });
        let mut stored = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            stored.extend(caller.await.expect("no caller panics"));
        }
        assert_eq!(stored, [ring(&store).await]);
    }
}
