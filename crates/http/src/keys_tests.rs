//! Tests of keys.

use super::*;
use doppel_config::auth;
use doppel_core::error_code::ErrorCode;

fn keys(rate: u32) -> (ApiKeys, HeaderValue) {
    let (key, sha256) = auth::new_key("desk").unwrap();
    let auth = AuthConfig { keys: vec![auth::KeyConfig { name: "desk".into(), sha256, scopes: vec![Scope::Read] }] };
    (ApiKeys::new(&auth, rate), HeaderValue::from_str(&format!("Bearer {key}")).unwrap())
}

#[test]
fn a_key_opens_what_its_scopes_name_and_nothing_else() {
    let (keys, header) = keys(0);
    assert_eq!(&*keys.authorise(Some(&header), Scope::Read).unwrap().name, "desk");
    let problem = keys.authorise(Some(&header), Scope::Write).unwrap_err();
    assert_eq!((problem.status().as_u16(), problem.code()), (403, ErrorCode::MissingScope));
    assert!(problem.body("").detail.contains("\"write\""));
}

#[test]
fn a_wrong_secret_an_unknown_name_and_another_scheme_are_all_the_same_401() {
    let (keys, header) = keys(0);
    let good = header.to_str().unwrap();
    for wrong in [format!("{good}0"), good.replace("desk", "dusk"), good.replace("Bearer", "Basic"), "Bearer".into()] {
        let header = HeaderValue::from_str(&wrong).unwrap();
        let problem = keys.authorise(Some(&header), Scope::Read).unwrap_err();
        assert_eq!((problem.status().as_u16(), problem.code()), (401, ErrorCode::InvalidKey), "{wrong}");
    }
    assert_eq!(keys.authorise(None, Scope::Read).unwrap_err().code(), ErrorCode::MissingKey);
}

#[test]
fn a_refused_key_is_known_by_name_if_there_is_one_of_that_name() {
    let (keys, header) = keys(0);
    let good = header.to_str().unwrap();
    assert_eq!(name_of_key(&format!("{good}0"), &keys).as_deref(), Some("desk"), "a wrong secret");
    // All other texts may be secrets and must not be logged.
    assert_eq!(
        (name_of_key(&good.replace("desk", "dusk"), &keys), name_of_key("Bearer secret", &keys), keys.named(None)),
        (None, None, None)
    );
}

fn name_of_key(text: &str, keys: &ApiKeys) -> Option<String> {
    keys.named(Some(&HeaderValue::from_str(text).unwrap())).map(|name| name.to_string())
}

#[test]
fn a_key_beyond_its_rate_is_refused_with_a_retry_time() {
    let (keys, header) = keys(2);
    assert!(keys.authorise(Some(&header), Scope::Read).is_ok());
    assert!(keys.authorise(Some(&header), Scope::Read).is_ok());
    let problem = keys.authorise(Some(&header), Scope::Read).unwrap_err();
    assert_eq!((problem.status().as_u16(), problem.code()), (429, ErrorCode::RateLimited));
}

fn managed(name: &str) -> (ManagedKey, HeaderValue) {
    let (key, sha256) = auth::new_key(name).unwrap();
    let managed = ManagedKey {
        name: name.into(),
        sha256,
        scopes: vec!["read".into(), "a scope of a later version".into()],
        collections: Some(vec![CollectionName::new("letters").unwrap()]),
        created_at: "2026-01-01T00:00:00Z".into(),
        created_by: "operator".into(),
        expires_at: None,
        last_used_at: None,
    };
    (managed, HeaderValue::from_str(&format!("Bearer {key}")).unwrap())
}

#[test]
fn a_managed_key_opens_from_when_it_is_known_until_it_is_revoked_or_expires() {
    let (keys, _) = keys(0);
    let (key, header) = managed("clerk");
    assert_eq!(authorise_read(&keys, &header).unwrap_err(), "invalid_key");
    keys.manage(&KeyRing { version: 1, keys: vec![key.clone()], ..KeyRing::default() });
    let caller = authorise_read(&keys, &header).unwrap();
    assert!(caller.reach.check(&CollectionName::new("letters").unwrap()).is_ok());
    let other = caller.reach.check(&CollectionName::new("hotline").unwrap()).unwrap_err();
    assert_eq!((other.status().as_u16(), other.code()), (403, ErrorCode::NotThisCollection));
    let shown = caller.key.unwrap();
    assert!(keys.still_allows(Some(&shown), Scope::Read) && !keys.still_allows(Some(&shown), Scope::Write));
    for (expires_at, code) in [("2000-01-01T00:00:00Z", "expired_key"), ("not a time", "expired_key")] {
        let expired = ManagedKey { expires_at: Some(expires_at.into()), ..key.clone() };
        keys.manage(&KeyRing { version: 2, keys: vec![expired], ..KeyRing::default() });
        assert_eq!(authorise_read(&keys, &header).unwrap_err(), code);
        assert!(!keys.still_allows(Some(&shown), Scope::Read), "what was begun with it ends");
    }
    keys.manage(&KeyRing { version: 3, keys: Vec::new(), ..KeyRing::default() });
    keys.manage(&KeyRing { version: 1, keys: vec![key], ..KeyRing::default() });
    assert_eq!(authorise_read(&keys, &header).unwrap_err(), "invalid_key", "an answer that came late is older");
}

fn authorise_read(keys: &ApiKeys, header: &HeaderValue) -> Result<RequestCaller, &'static str> {
    keys.authorise(Some(header), Scope::Read).map_err(|problem| problem.code().as_str())
}

#[test]
fn the_key_of_the_configuration_wins_over_a_managed_key_of_the_same_name() {
    let (keys, header) = keys(0);
    let (key, other) = managed("desk");
    keys.manage(&KeyRing { version: 1, keys: vec![key], ..KeyRing::default() });
    assert!(keys.authorise(Some(&header), Scope::Read).is_ok());
    assert_eq!(keys.authorise(Some(&other), Scope::Read).unwrap_err().code(), ErrorCode::InvalidKey);
    keys.configure(&AuthConfig::default());
    assert!(keys.authorise(Some(&other), Scope::Read).is_ok());
    assert_eq!(keys.authorise(Some(&header), Scope::Read).unwrap_err().code(), ErrorCode::InvalidKey);
}

#[test]
fn a_service_whose_last_key_has_expired_is_not_open() {
    let keys = ApiKeys::new(&AuthConfig::default(), 0);
    assert!(!keys.have_any() && keys.authorise(None, Scope::Admin).is_ok());
    let (key, header) = managed("clerk");
    let expired = ManagedKey { expires_at: Some("2000-01-01T00:00:00Z".into()), ..key };
    keys.manage(&KeyRing { version: 1, keys: vec![expired], ..KeyRing::default() });
    assert!(keys.have_any());
    assert_eq!(keys.authorise(None, Scope::Read).unwrap_err().code(), ErrorCode::MissingKey);
    assert_eq!(keys.authorise(Some(&header), Scope::Read).unwrap_err().code(), ErrorCode::ExpiredKey);
}

#[test]
fn the_use_of_a_replaced_key_does_not_count_as_a_use_of_the_new_key() {
    let (keys, _) = keys(0);
    let (key, header) = managed("clerk");
    keys.manage(&KeyRing { version: 1, keys: vec![key], ..KeyRing::default() });
    let shown = keys.authorise(Some(&header), Scope::Read).unwrap().key.unwrap();
    keys.manage(&KeyRing { version: 2, keys: vec![managed("clerk").0], ..KeyRing::default() });
    assert_eq!(keys.rights_of(&shown), None);
    assert_eq!(keys.uses(), []);
}

#[test]
fn a_use_is_noted_by_the_minute_and_once() {
    let (keys, _) = keys(0);
    let (key, header) = managed("clerk");
    keys.manage(&KeyRing { version: 1, keys: vec![key.clone()], ..KeyRing::default() });
    assert_eq!(keys.uses(), []);
    keys.authorise(Some(&header), Scope::Read).unwrap();
    let uses = keys.uses();
    assert_eq!((uses.len(), uses[0].0.as_str(), &uses[0].1), (1, "clerk", &key.sha256));
    assert!(uses[0].2.ends_with(":00Z"), "{uses:?}");
    let noted = ManagedKey { last_used_at: Some(uses[0].2.clone()), ..key };
    keys.manage(&KeyRing { version: 2, keys: vec![noted], ..KeyRing::default() });
    assert_eq!(keys.uses(), [], "the store knows");
}
