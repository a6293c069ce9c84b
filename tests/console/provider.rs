//! A small identity provider on loopback, for tests of signing in.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) const CLIENT: &str = "doppel";
pub(crate) const SECRET: &str = "a secret of the office";

/// A code that was given out: the challenge that its verifier must have, and the claims of its token.
struct GivenCode {
    challenge: String,
    claims: Value,
}

struct ProviderState {
    issuer: String,
    key: EcdsaKeyPair,
    codes: Mutex<HashMap<String, GivenCode>>,
    /// Number of requests for a token.
    asked: Mutex<usize>,
}

/// The provider. Its thread ends with the test process.
pub(crate) struct TestProvider(Arc<ProviderState>);

impl TestProvider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).expect("a key");
        let issuer = format!("http://{}/office", listener.local_addr().expect("an address"));
        let state = Arc::new(ProviderState { issuer, key, codes: Mutex::default(), asked: Mutex::default() });
        let own = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // If a client closes its connection early, this is not an error of the provider.
                let _ = answer(&own, stream);
            }
        });
        Self(state)
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Returns the number of requests for a token.
    pub(crate) fn asked(&self) -> usize {
        *self.0.asked.lock().expect("no panic")
    }

    /// Signs a person in at the address to which the desk sent the browser. Returns the query with which the browser returns to the desk.
    pub(crate) fn sign_in(&self, address: &str, code: &str, claims: &Value) -> String {
        let (place, query) = address.split_once('?').expect("a query");
        assert_eq!(place, format!("{}/authorize", self.0.issuer));
        let asked = pairs(query);
        for (name, value) in [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")] {
            assert_eq!(asked[name], value, "{address}");
        }
        assert_eq!(asked["scope"], "openid profile");
        let now = jiff::Timestamp::now().as_second();
        let mut whole = json!({ "iss": self.0.issuer, "aud": CLIENT, "sub": "7", "iat": now, "exp": now + 60,
            "nonce": asked["nonce"] });
        for (name, value) in claims.as_object().expect("claims") {
            whole[name] = value.clone();
        }
        let given = GivenCode { challenge: asked["code_challenge"].clone(), claims: whole };
        self.0.codes.lock().expect("no panic").insert(code.to_owned(), given);
        format!("code={code}&state={}&session_state=x", asked["state"])
    }
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8().expect("UTF-8").into_owned()
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn answer(state: &ProviderState, mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = Vec::new();
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        head.push(line.trim_end().to_ascii_lowercase());
        line.clear();
    }
    let length = header("content-length", &head).and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request = head.first().map(String::as_str).unwrap_or_default();
    let (status, text) = match request.split(' ').nth(1).unwrap_or_default() {
        "/office/.well-known/openid-configuration" => (200, description(state)),
        "/office/keys" => (200, keys(state)),
        "/office/token" => token(state, header("authorization", &head), &String::from_utf8_lossy(&body)),
        _ => (404, json!({})),
    };
    let text = text.to_string();
    write!(stream, "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

fn header<'h>(name: &str, head: &'h [String]) -> Option<&'h str> {
    head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn description(state: &ProviderState) -> Value {
    let issuer = &state.issuer;
    json!({ "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys") })
}

fn keys(state: &ProviderState) -> Value {
    let point = state.key.public_key().as_ref();
    let [x, y] = [&point[1..33], &point[33..]].map(|part| URL_SAFE_NO_PAD.encode(part));
    json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "k", "use": "sig", "x": x, "y": y }] })
}

/// Gives a token for a code, once, to a client with the secret and the verifier.
fn token(state: &ProviderState, authorization: Option<&str>, body: &str) -> (u16, Value) {
    *state.asked.lock().expect("no panic") += 1;
    let form = pairs(body);
    let secret = STANDARD.encode(format!("{CLIENT}:{}", SECRET.replace(' ', "+")));
    let is_client = authorization == Some(format!("basic {secret}").to_ascii_lowercase().as_str());
    let given = state.codes.lock().expect("no panic").remove(form.get("code").map_or("", String::as_str));
    let Some(given) = given.filter(|_| is_client) else { return (400, json!({ "error": "invalid_grant" })) };
    let verifier = form.get("code_verifier").map_or("", String::as_str);
    if URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)) != given.challenge {
        return (400, json!({ "error": "invalid_grant" }));
    }
    let parts = [json!({ "alg": "ES256", "kid": "k" }), given.claims];
    let text = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = state.key.sign(&SystemRandom::new(), text.as_bytes()).expect("a signature");
    (200, json!({ "id_token": format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)), "token_type": "Bearer" }))
}
