//! Accounts of people: creating, changing and removing them. The store keeps them with the keys, see [`crate::keys`].

use doppel_core::collection::CollectionName;
use doppel_store::accounts::{MOST_ACCOUNTS, PersonAccount};
use doppel_store::keys::KeyRing;

use crate::boxed;
use crate::keys::check_name;
use crate::{Engine, Error, Result};

/// The members of an account that an administrator sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSettings {
    /// The name that pages and decisions show.
    pub display_name: String,
    pub role: String,
    /// The collections for which the account may be used; `None` for all.
    pub collections: Option<Vec<CollectionName>>,
    /// True if the person cannot sign in.
    pub is_disabled: bool,
}

impl Engine {
    /// Stores a new account. Returns all stored keys and accounts.
    ///
    /// # Errors
    /// [`Error::KeyExists`] or [`Error::AccountExists`] if the name is in use, [`Error::TooManyAccounts`].
    #[boxed]
    pub async fn create_account(&self, account: PersonAccount) -> Result<KeyRing> {
        self.change_keys(|ring| {
            check_name(&account.name, ring)?;
            if ring.accounts.len() >= MOST_ACCOUNTS {
                return Err(Error::TooManyAccounts);
            }
            ring.accounts.push(account.clone());
            ring.accounts.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(true)
        })
        .await
    }

    /// Replaces the settings of an account at the time `now` (RFC 3339, UTC). `seen` is the time of the last change that the caller saw; the
    /// account must not have changed since. Returns all stored keys and accounts.
    ///
    /// # Errors
    /// [`Error::UnknownAccount`]; [`Error::AccountChanged`] if somebody changed it since `seen`.
    #[boxed]
    pub async fn change_account(
        &self,
        name: &str,
        settings: &AccountSettings,
        seen: Option<&str>,
        now: &str,
    ) -> Result<KeyRing> {
        let AccountSettings { display_name, role, collections, is_disabled } = settings;
        self.change_one_account(name, now, |account| {
            if seen.is_some_and(|seen| seen != account.changed_at) {
                return Err(Error::AccountChanged(name.to_owned()));
            }
            account.display_name.clone_from(display_name);
            account.role.clone_from(role);
            account.collections.clone_from(collections);
            account.is_disabled = *is_disabled;
            Ok(())
        })
        .await
    }

    /// Sets the role and the shown name of an account at the time `now` (RFC 3339, UTC) to the values from the identity provider. An empty shown
    /// name changes only the role. Returns all stored keys and accounts.
    ///
    /// # Errors
    /// [`Error::UnknownAccount`].
    #[boxed]
    pub async fn follow_provider(&self, name: &str, role: &str, display_name: &str, now: &str) -> Result<KeyRing> {
        self.change_one_account(name, now, |account| {
            role.clone_into(&mut account.role);
            if !display_name.is_empty() {
                display_name.clone_into(&mut account.display_name);
            }
            Ok(())
        })
        .await
    }

    /// Replaces the hash of a password at the time `now` (RFC 3339, UTC). If a person replaces the own password, `replaced` is the hash of the
    /// password that the person gave: the account must still have it and must not be disabled. Returns all stored keys and accounts.
    ///
    /// # Errors
    /// [`Error::UnknownAccount`]; [`Error::AccountChanged`] if `replaced` is not the hash of the account any more.
    #[boxed]
    pub async fn set_password(
        &self,
        name: &str,
        password_hash: &str,
        replaced: Option<&str>,
        now: &str,
    ) -> Result<KeyRing> {
        self.change_one_account(name, now, |account| {
            let is_outdated = account.is_disabled || account.password_hash.as_deref() != replaced;
            if replaced.is_some() && is_outdated {
                return Err(Error::AccountChanged(name.to_owned()));
            }
            account.password_hash = Some(password_hash.to_owned());
            Ok(())
        })
        .await
    }

    /// Changes one account, and counts the change if it ends the sessions of the person.
    async fn change_one_account(
        &self,
        name: &str,
        now: &str,
        change: impl Fn(&mut PersonAccount) -> Result<()> + Send + Sync,
    ) -> Result<KeyRing> {
        self.change_keys(|ring| {
            let account = ring.accounts.iter_mut().find(|account| account.name == name);
            let account = account.ok_or_else(|| Error::UnknownAccount(name.to_owned()))?;
            let before = account.clone();
            change(account)?;
            if *account == before {
                return Ok(false);
            }
            account.sign_outs += u64::from(ends_sessions(&before, account));
            now.clone_into(&mut account.changed_at);
            Ok(true)
        })
        .await
    }

    /// Removes an account. Returns all stored keys and accounts.
    ///
    /// # Errors
    /// [`Error::UnknownAccount`].
    #[boxed]
    pub async fn remove_account(&self, name: &str) -> Result<KeyRing> {
        self.change_keys(|ring| {
            let before = ring.accounts.len();
            ring.accounts.retain(|account| account.name != name);
            if ring.accounts.len() == before { Err(Error::UnknownAccount(name.to_owned())) } else { Ok(true) }
        })
        .await
    }
}

/// True if a change ends the sessions of a person.
fn ends_sessions(before: &PersonAccount, after: &PersonAccount) -> bool {
    let is_now_disabled = after.is_disabled && !before.is_disabled;
    is_now_disabled
        || after.role != before.role
        || after.collections != before.collections
        || after.password_hash != before.password_hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use doppel_store::keys::ManagedKey;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn account(name: &str) -> PersonAccount {
        PersonAccount {
            name: name.into(),
            display_name: "张伟".into(),
            role: "clerk".into(),
            collections: None,
            password_hash: None,
            is_disabled: false,
            sign_outs: 0,
            created_at: "2026-01-01T00:00:00Z".into(),
            created_by: "operator".into(),
            changed_at: "2026-01-01T00:00:00Z".into(),
        }
    }

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

    #[tokio::test]
    async fn a_name_belongs_to_one_key_or_one_account() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_key(key("intake")).await.unwrap();
        engine.create_account(account("zhang")).await.unwrap();
        let ring = engine.create_account(account("li")).await.unwrap();
        assert_eq!(ring.accounts.iter().map(|account| &*account.name).collect::<Vec<_>>(), ["li", "zhang"]);
        assert!(matches!(engine.create_account(account("zhang")).await, Err(Error::AccountExists(_))));
        assert!(matches!(engine.create_account(account("intake")).await, Err(Error::KeyExists(_))));
        assert!(matches!(engine.create_key(key("zhang")).await, Err(Error::AccountExists(_))));
    }

    #[tokio::test]
    async fn an_account_is_changed_and_removed() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_account(account("zhang")).await.unwrap();
        let settings = AccountSettings {
            display_name: "张伟（一科）".into(),
            role: "lead".into(),
            collections: Some(vec![CollectionName::new("letters").unwrap()]),
            is_disabled: true,
        };
        engine.change_account("zhang", &settings, None, NOW).await.unwrap();
        let ring = engine.set_password("zhang", "$argon2id$", None, NOW).await.unwrap();
        let AccountSettings { display_name, role, collections, is_disabled } = settings;
        let password_hash = Some("$argon2id$".to_owned());
        let changed_at = NOW.to_owned();
        let changed = PersonAccount {
            display_name,
            role,
            collections,
            is_disabled,
            password_hash,
            sign_outs: 2,
            changed_at,
            ..account("zhang")
        };
        assert_eq!(ring.accounts, [changed]);
        assert!(engine.remove_account("zhang").await.unwrap().accounts.is_empty());
        assert!(matches!(engine.remove_account("zhang").await, Err(Error::UnknownAccount(_))));
        assert!(matches!(engine.set_password("zhang", "", None, NOW).await, Err(Error::UnknownAccount(_))));
    }

    #[tokio::test]
    async fn a_stale_change_is_refused_and_the_provider_changes_only_role_and_shown_name() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_account(account("zhang")).await.unwrap();
        let seen = account("zhang").changed_at;
        let enabled = settings_of(&account("zhang"));
        let disabled = AccountSettings { is_disabled: true, ..enabled.clone() };
        engine.change_account("zhang", &disabled, Some(&seen), NOW).await.unwrap();
        let stale = engine.change_account("zhang", &enabled, Some(&seen), NOW).await;
        assert!(matches!(stale, Err(Error::AccountChanged(_))), "{stale:?}");
        let ring = engine.follow_provider("zhang", "lead", "", NOW).await.unwrap();
        let followed = &ring.accounts[0];
        assert!(followed.is_disabled && followed.role == "lead" && followed.display_name == "张伟", "{followed:?}");
        assert_eq!(engine.follow_provider("zhang", "lead", "张伟", NOW).await.unwrap(), ring, "nothing to change");
        assert!(engine.change_account("zhang", &enabled, Some(NOW), NOW).await.is_ok());
    }

    #[tokio::test]
    async fn a_change_that_ends_sessions_is_counted_and_no_other_change() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_account(account("zhang")).await.unwrap();
        let first = settings_of(&account("zhang"));
        for (settings, sign_outs) in [
            (AccountSettings { display_name: "张".into(), ..first.clone() }, 0),
            (AccountSettings { role: "lead".into(), ..first.clone() }, 1),
            (first.clone(), 2),
            (AccountSettings { is_disabled: true, ..first.clone() }, 3),
            (first.clone(), 3),
            (AccountSettings { collections: Some(Vec::new()), ..first.clone() }, 4),
        ] {
            let ring = engine.change_account("zhang", &settings, None, NOW).await.unwrap();
            assert_eq!(ring.accounts[0].sign_outs, sign_outs, "{settings:?}");
        }
    }

    fn settings_of(account: &PersonAccount) -> AccountSettings {
        let PersonAccount { display_name, role, collections, is_disabled, .. } = account.clone();
        AccountSettings { display_name, role, collections, is_disabled }
    }

    #[tokio::test]
    async fn the_number_of_accounts_is_bounded() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        for number in 0..MOST_ACCOUNTS {
            engine.create_account(account(&format!("p{number}"))).await.unwrap();
        }
        assert!(matches!(engine.create_account(account("one-more")).await, Err(Error::TooManyAccounts)));
        engine.remove_account("p7").await.unwrap();
        assert!(engine.create_account(account("one-more")).await.is_ok());
    }

    #[tokio::test]
    async fn a_person_replaces_only_the_password_that_was_given_and_not_that_of_a_disabled_account() {
        let engine = testing::LetterDesk::with(&[]).await.engine;
        engine.create_account(account("zhang")).await.unwrap();
        engine.set_password("zhang", "first", None, NOW).await.unwrap();
        engine.set_password("zhang", "own", Some("first"), NOW).await.unwrap();
        engine.set_password("zhang", "reset", None, NOW).await.unwrap();
        let late = engine.set_password("zhang", "own again", Some("own"), NOW).await;
        assert!(matches!(late, Err(Error::AccountChanged(_))), "an administrator was earlier");
        let disabled =
            AccountSettings {
                display_name: "张伟".into(), role: "clerk".into(), collections: None, is_disabled: true
            };
        engine.change_account("zhang", &disabled, None, NOW).await.unwrap();
        let late = engine.set_password("zhang", "own again", Some("reset"), NOW).await;
        assert!(matches!(late, Err(Error::AccountChanged(_))), "the account is disabled");
    }
}
