//! Tests of the checks of ID tokens.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use super::*;

/// The modulus of an RSA key that was made for this test.
const MODULUS: &str = "\
xXyaDhDaoZpVen0Ns2cOk5Ep5MrK8Sk6R9S0zVdTDSlXsmjG7pm3s3JFTuMXgJ2ixHjyIVjdI-SFT4Uu0Zfl6lS2BBpWWRpUsXiA\
51Rc9NZMtz3p5edqJN7TCplfbgVeSMX5lpNR0S22yIVbpdFiuCm2V8nS0ic6tDiAyo8S6P_VSk3tLm5VLDZ9f6eRLmLigBsSy_eH\
4_fdrq97ox2bkwHNwiPQ9Y5Fo7zOvyKmH29ljD7M_QgqGB4G4_G7B7QCVJ51UgjWwtc4O09K80L14bKitmsPPsebpoRRUyX1ScpE\
mNyYMA2dPIImDRuRbdoKoCbwE6vNJSG7qppO0dLBow";
/// A token that this key has signed with RS256.
const RSA_TOKEN: &str = "\
eyJhbGciOiJSUzI1NiIsImtpZCI6Im9mZmljZS0xIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJkb3BwZWwi\
LCJzdWIiOiI3Iiwibm9uY2UiOiJuLTEiLCJleHAiOjE3MDAwMDAzMDAsImlhdCI6MTcwMDAwMDAwMCwicHJlZmVycmVkX3VzZXJu\
YW1lIjoiemhhbmcifQ.U0Jco9V7dwgHsfekX1fD2B8M3RfWgWGxbcsK5Nyh-ZshLh6-N8aCPOGK6ETgKsbB6ousI14YeHJjOZL6Z\
50JhxwVnKevGeP-6TCEg9XpKL3U_uUFhpYHDlTVbX0OpslH2E-2zkUGtgO8tmVAUZ5aCTn4ABbzV00NBQD1bZjnNxKrxkWsokZfq\
ssF06xw6KG7FB4hqX9PypYcyEEPB3IGk5XkG1GcAzv_wxlExieHdYkpA0ckJ-eJAjgmJc6yua_N4IQtyJCrGBvNRRojTVf6jtXeX\
OUhyd6yIvXkmJRTsgvMdul_qLD3EQGqMolnRSpPx7HsCR3emcsqEgQQhv5YPg";
const NOW: i64 = 1_700_000_010;

fn rules() -> TokenRules<'static> {
    TokenRules { issuer: "https://id.example", client_id: "doppel", nonce: "n-1", now_s: NOW }
}

/// A provider with one P-256 key.
struct TestSigner(EcdsaKeyPair);

impl TestSigner {
    fn new() -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap())
    }

    fn keys(&self, kid: &str) -> KeySet {
        let point = self.0.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
        key_set(&json!({ "kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": x, "y": y }))
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let text = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.0.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn key_set(key: &Value) -> KeySet {
    serde_json::from_value(json!({ "keys": [key] })).unwrap()
}

fn header() -> Value {
    json!({ "alg": "ES256", "kid": "office-1" })
}

fn claims() -> Value {
    json!({ "iss": "https://id.example", "aud": ["doppel"], "sub": "7", "nonce": "n-1", "exp": NOW + 300, "iat": NOW })
}

#[test]
fn a_token_of_the_provider_is_accepted() {
    let signer = TestSigner::new();
    let token = signer.sign(&header(), &claims());
    let keys = signer.keys("office-1");
    assert!(keys.has_key_of(&token));
    assert_eq!(keys.verify(&token, &rules()).unwrap()["sub"], "7");
    let rsa = key_set(&json!({ "kty": "RSA", "kid": "office-1", "n": MODULUS, "e": "AQAB" }));
    assert_eq!(rsa.verify(RSA_TOKEN, &rules()).unwrap()["preferred_username"], "zhang");
}

#[test]
fn a_token_with_a_wrong_claim_is_refused() {
    let signer = TestSigner::new();
    let keys = signer.keys("office-1");
    for (claim, value, reason) in [
        ("iss", json!("https://id.example/"), "issuer"),
        ("aud", json!("another"), "client"),
        ("aud", json!([]), "client"),
        ("aud", json!(["doppel", "another"]), "client"),
        ("azp", json!("another"), "client"),
        ("nonce", json!("n-2"), "another sign-in"),
        ("nonce", Value::Null, "another sign-in"),
        ("exp", json!(NOW - 61), "expired"),
        ("exp", json!("never"), "expired"),
        ("iat", json!(NOW + 120), "another time"),
        ("iat", json!(NOW - 3_600), "another time"),
        ("sub", json!(""), "nobody"),
    ] {
        let mut wrong = claims();
        wrong[claim] = value;
        let refused = keys.verify(&signer.sign(&header(), &wrong), &rules()).unwrap_err();
        assert!(refused.contains(reason), "{claim}: {refused}");
    }
    let mut several = claims();
    several["aud"] = json!(["doppel", "another"]);
    several["azp"] = json!("doppel");
    assert!(keys.verify(&signer.sign(&header(), &several), &rules()).is_ok());
}

#[test]
fn a_token_that_the_provider_has_not_signed_is_refused() {
    let signer = TestSigner::new();
    let keys = signer.keys("office-1");
    let good = signer.sign(&header(), &claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let unsigned = TestSigner::new().sign(&json!({ "alg": "none" }), &claims());
    let forged = [
        TestSigner::new().sign(&header(), &claims()),
        unsigned.rsplit_once('.').map(|(text, _)| format!("{text}.")).unwrap(),
        signer.sign(&json!({ "alg": "HS256", "kid": "office-1" }), &claims()),
        signer.sign(&json!({ "alg": "RS256", "kid": "office-1" }), &claims()),
        signer.sign(&json!({ "alg": "ES256", "kid": "office-2" }), &claims()),
        signer.sign(&json!({ "alg": "ES256", "kid": "office-1", "crit": ["x"] }), &claims()),
        format!("{signed}.{}", &signature[..signature.len() - 2]),
        format!("{signed}A.{signature}"),
        format!("{good}{}", "A".repeat(MOST_TOKEN_BYTES)),
        "no token".to_owned(),
        String::new(),
    ];
    for token in forged {
        assert!(keys.verify(&token, &rules()).is_err(), "{token}");
    }
    let for_encryption = json!({ "kty": "EC", "crv": "P-256", "use": "enc", "x": "AA", "y": "AA" });
    assert!(!key_set(&for_encryption).has_key_of(&good));
}
