//! `[console.oidc]`: signing in at the identity provider of the office (OpenID Connect).

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::auth::PersonRole;

/// The path of the desk to which the provider sends people back.
pub const CALLBACK: &str = "/console/sign-in/oidc/callback";

/// `[console.oidc]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OidcConfig {
    /// The issuer, exactly as the provider writes it. If empty, nobody signs in at a provider.
    pub issuer: String,
    /// The id of doppel at the provider.
    pub client_id: String,
    /// The file with the secret of doppel at the provider; empty for a client without a secret.
    pub client_secret_file: PathBuf,
    /// The origin of the desk in the browsers of its visitors, such as `https://desk.example`. The provider must know
    /// `<desk_url>/console/sign-in/oidc/callback` as the address to return to.
    pub desk_url: String,
    /// The requested scopes in addition to `openid`.
    pub scopes: Vec<String>,
    /// The claim with the name of the account. The provider must never give the name of one person to another person.
    pub name_claim: String,
    /// The claim with the shown name of the person.
    pub display_claim: String,
    /// The claim with the roles of the person. If empty, an administrator makes each account.
    pub role_claim: String,
    /// The role for each value of `role_claim`. If it is empty, the values are the names of roles; otherwise no other value gives a role.
    pub roles: BTreeMap<String, PersonRole>,
}

impl Default for OidcConfig {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client_id: String::new(),
            client_secret_file: PathBuf::new(),
            desk_url: String::new(),
            scopes: vec!["profile".into()],
            name_claim: "preferred_username".into(),
            display_claim: "name".into(),
            role_claim: String::new(),
            roles: BTreeMap::new(),
        }
    }
}

impl OidcConfig {
    /// True if people sign in at a provider.
    pub fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }

    /// Returns the first mistake, without repeating values.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.is_on() {
            return if *self == Self::default() { Ok(()) } else { Err("console.oidc.issuer is missing".into()) };
        }
        let issuer: Option<Url> = self.issuer.parse().ok();
        if !issuer.is_some_and(|url| is_protected(&url) && url.username().is_empty() && url.password().is_none()) {
            return Err("console.oidc.issuer: give an address that begins with https://, without a password".into());
        }
        let desk: Option<Url> = self.desk_url.parse().ok();
        if !desk.is_some_and(|url| is_protected(&url) && url.path() == "/" && url.query().is_none()) {
            return Err("console.oidc.desk_url: give an address such as https://desk.example, without a path".into());
        }
        if self.client_id.is_empty() || self.name_claim.is_empty() {
            return Err("console.oidc: client_id and name_claim cannot be empty".into());
        }
        Ok(())
    }

    /// Returns the address to which the provider sends people back.
    pub fn redirect_url(&self) -> String {
        format!("{}{CALLBACK}", self.desk_url.trim_end_matches('/'))
    }

    /// Reads the secret, without white space at its ends; `None` for a client without a secret.
    ///
    /// # Errors
    /// The file cannot be read or is empty. The error does not repeat its content.
    pub fn client_secret(&self) -> anyhow::Result<Option<String>> {
        if self.client_secret_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let file = self.client_secret_file.display();
        let text = std::fs::read_to_string(&self.client_secret_file);
        let text = text.with_context(|| format!("console.oidc.client_secret_file {file} cannot be read"))?;
        anyhow::ensure!(!text.trim().is_empty(), "console.oidc.client_secret_file {file} is empty");
        Ok(Some(text.trim().to_owned()))
    }

    /// Returns the highest role that the values of `role_claim` mean. Values are names of roles only if `roles` is empty: a group that is
    /// called `administrator` at the provider does not have to be the role `administrator` here.
    pub fn role_of<'v>(&self, values: impl IntoIterator<Item = &'v str>) -> Option<PersonRole> {
        values.into_iter().filter_map(|value| self.role_of_value(value)).max()
    }

    fn role_of_value(&self, value: &str) -> Option<PersonRole> {
        if self.roles.is_empty() { PersonRole::parse(value) } else { self.roles.get(value).copied() }
    }
}

/// True if nobody on the way to the address can read or change messages: the URL uses https, or the address is this machine.
pub fn is_protected(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(Host::Domain(name))) => name == "localhost",
        ("http", Some(Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(Host::Ipv6(address))) => address.is_loopback(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider() -> OidcConfig {
        OidcConfig {
            issuer: "https://id.example/realms/office".into(),
            client_id: "doppel".into(),
            desk_url: "https://desk.example".into(),
            ..OidcConfig::default()
        }
    }

    #[test]
    fn a_mistake_is_named_without_its_value() {
        assert_eq!((provider().check(), OidcConfig::default().check()), (Ok(()), Ok(())));
        for (wrong, named) in [
            (OidcConfig { issuer: String::new(), ..provider() }, "issuer"),
            (OidcConfig { issuer: "http://id.example".into(), ..provider() }, "https://"),
            (OidcConfig { issuer: "https://me:geheim@id.example".into(), ..provider() }, "without a password"),
            (OidcConfig { desk_url: "https://desk.example/console".into(), ..provider() }, "desk_url"),
            (OidcConfig { desk_url: "http://10.0.0.7".into(), ..provider() }, "desk_url"),
            (OidcConfig { client_id: String::new(), ..provider() }, "client_id"),
        ] {
            let told = wrong.check().unwrap_err();
            assert!(told.contains(named) && !told.contains("10.0.0.7"), "{told}");
        }
        assert_eq!(provider().redirect_url(), "https://desk.example/console/sign-in/oidc/callback");
        for local in ["http://localhost:8080", "http://127.0.0.1:9", "http://[::1]:9"] {
            assert_eq!(OidcConfig { desk_url: local.into(), ..provider() }.check(), Ok(()), "{local}");
        }
    }

    #[test]
    fn the_highest_role_counts() {
        let roles = BTreeMap::from([("科长".to_owned(), PersonRole::Lead)]);
        let config = OidcConfig { roles, ..provider() };
        assert_eq!(config.role_of(["viewer", "科长", "something"]), Some(PersonRole::Lead));
        assert_eq!(config.role_of(["something"]), None);
        assert_eq!(config.role_of(["administrator", "科长"]), Some(PersonRole::Lead), "a name of a role means nothing");
        assert_eq!(config.role_of(["administrator"]), None);
        assert_eq!(provider().role_of(["viewer", "administrator"]), Some(PersonRole::Administrator));
    }
}
