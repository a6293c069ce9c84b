//! People as callers. Accounts are callers like keys: [`ApiKeys`](crate::keys::ApiKeys) knows keys and accounts, and offers the same
//! functions for both.

use std::sync::Arc;

use doppel_config::auth::{PersonRole, hash_secret};
use doppel_store::accounts::PersonAccount;

use crate::keys::ShownKey;

/// The person of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonFacts {
    /// The name of the account.
    pub name: Arc<str>,
    /// The name that pages show.
    pub display_name: String,
    pub role: PersonRole,
}

impl PersonFacts {
    /// Reads the facts of an account. A role that this version does not know counts as the role with the fewest rights.
    pub fn of(account: &PersonAccount) -> Self {
        let role = PersonRole::parse(&account.role).unwrap_or_default();
        Self { name: account.name.as_str().into(), display_name: account.display_name.clone(), role }
    }

    /// Returns the text that names the person in decisions and notes: the shown name, which does not have to be unique, and the name of the
    /// account.
    pub fn label(&self) -> String {
        match *self.display_name == *self.name {
            true => self.display_name.clone(),
            false => format!("{} ({})", self.display_name, self.name),
        }
    }
}

/// Returns the proof of a sign-in with the present state of an account. It changes with the password, the role, the collections and the
/// account itself, so that each of these changes ends all sessions of the person. It contains the number of such changes, so that an ended
/// session does not become valid again when a change is undone.
pub fn proof(account: &PersonAccount) -> ShownKey {
    let PersonAccount { name, role, collections, password_hash, sign_outs, created_at, .. } = account;
    let stated = format!("{:?}", (name, role, collections, password_hash, sign_outs, created_at));
    ShownKey::new(name.as_str().into(), hash_secret(&stated))
}

/// The data of an account that a sign-in needs.
#[derive(Clone, Debug)]
pub struct StoredAccount {
    /// The argon2id hash of the password, if the account has one.
    pub password_hash: Option<String>,
    /// The proof of a successful sign-in; `None` if the account is disabled.
    pub proof: Option<ShownKey>,
}

impl StoredAccount {
    pub fn of(account: &PersonAccount) -> Self {
        let proof = (!account.is_disabled).then(|| proof(account));
        Self { password_hash: account.password_hash.clone(), proof }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> PersonAccount {
        PersonAccount {
            name: "zhang".into(),
            display_name: "张伟".into(),
            role: "clerk".into(),
            collections: None,
            password_hash: Some("$argon2id$a".into()),
            is_disabled: false,
            sign_outs: 0,
            created_at: "2026-01-01T00:00:00Z".into(),
            created_by: "operator".into(),
            changed_at: "2026-01-01T00:00:00Z".into(),
        }
    }

    #[test]
    fn the_proof_changes_with_what_ends_sessions_and_with_nothing_else() {
        let before = proof(&account());
        let renamed = PersonAccount { display_name: "张伟伟".into(), changed_at: "later".into(), ..account() };
        assert_eq!(proof(&renamed), before);
        for changed in [
            PersonAccount { role: "lead".into(), ..account() },
            PersonAccount { password_hash: Some("$argon2id$b".into()), ..account() },
            PersonAccount { collections: Some(Vec::new()), ..account() },
            PersonAccount { sign_outs: 1, ..account() },
            PersonAccount { created_at: "2026-01-02T00:00:00Z".into(), ..account() },
        ] {
            assert_ne!(proof(&changed), before, "{changed:?}");
        }
        assert_eq!(StoredAccount::of(&account()).proof, Some(before));
        assert_eq!(StoredAccount::of(&PersonAccount { is_disabled: true, ..account() }).proof, None);
    }

    #[test]
    fn a_label_has_the_name_of_the_account_once() {
        let facts = PersonFacts::of(&account());
        assert_eq!((facts.label(), facts.role), ("张伟 (zhang)".to_owned(), PersonRole::Clerk));
        let plain =
            PersonFacts::of(&PersonAccount { display_name: "zhang".into(), role: "unknown".into(), ..account() });
        assert_eq!((plain.label(), plain.role), ("zhang".to_owned(), PersonRole::Viewer));
    }
}
