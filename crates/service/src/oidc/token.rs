//! Checks an ID token: its signature with a key of the provider, and its claims (OpenID Connect Core 1.0, section 3.1.3.7).
//!
//! Only RS256, PS256 and ES256 are accepted. The algorithm of a key follows from its kind, so that a token cannot choose a weaker one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Longest token in bytes. Tokens have one or two kilobytes.
const MOST_TOKEN_BYTES: usize = 16 << 10;
/// Largest difference of the clocks of the provider and of this machine in seconds.
const CLOCK_DIFFERENCE_S: i64 = 60;
/// Largest age of a token in seconds. A token is made for the code, which is used at once.
const MOST_AGE_S: i64 = 10 * 60;

/// The keys of the provider (RFC 7517).
#[derive(Clone, Deserialize)]
pub(super) struct KeySet {
    keys: Vec<ProviderKey>,
}

#[derive(Clone, Deserialize)]
struct ProviderKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct TokenHeader {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood. None is.
    crit: Option<Value>,
}

/// The values that a token must have.
pub(super) struct TokenRules<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    /// The present time in seconds since 1970.
    pub(super) now_s: i64,
}

/// A token, cut into its parts.
struct TokenParts<'t> {
    header: TokenHeader,
    signed: &'t str,
    claims: Map<String, Value>,
    signature: Vec<u8>,
}

fn cut(token: &str) -> Option<TokenParts<'_>> {
    let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= MOST_TOKEN_BYTES)?;
    let (header, claims) = signed.split_once('.')?;
    Some(TokenParts {
        header: serde_json::from_slice(&decoded(header)?).ok()?,
        signed,
        claims: serde_json::from_slice(&decoded(claims)?).ok()?,
        signature: decoded(signature)?,
    })
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

impl KeySet {
    /// True if one of the keys may have signed the token.
    pub(super) fn has_key_of(&self, token: &str) -> bool {
        cut(token).is_some_and(|parts| self.keys.iter().any(|key| key.may_sign(&parts.header)))
    }

    /// Returns the claims of a token whose signature and claims are right.
    ///
    /// # Errors
    /// The reason for a refusal, without values of the token.
    pub(super) fn verify(&self, token: &str, rules: &TokenRules<'_>) -> Result<Map<String, Value>, &'static str> {
        let parts = cut(token).ok_or("the token cannot be read")?;
        if parts.header.crit.is_some() {
            return Err("the token has extensions that are not known");
        }
        let mut keys = self.keys.iter().filter(|key| key.may_sign(&parts.header));
        if !keys.any(|key| key.has_signed(&parts)) {
            return Err("no key of the provider has signed the token");
        }
        rules.check(&parts.claims)?;
        Ok(parts.claims)
    }
}

impl ProviderKey {
    fn may_sign(&self, header: &TokenHeader) -> bool {
        let is_named = header.kid.is_none() || self.kid == header.kid;
        is_named && self.usage.as_deref().is_none_or(|usage| usage == "sig")
    }

    fn has_signed(&self, parts: &TokenParts<'_>) -> bool {
        let signed = parts.signed.as_bytes();
        match (self.kty.as_str(), parts.header.alg.as_str()) {
            ("RSA", "RS256") => {
                let key = self.rsa();
                key.is_some_and(|key| key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, &parts.signature).is_ok())
            }
            ("RSA", "PS256") => {
                let key = self.rsa();
                key.is_some_and(|key| key.verify(&RSA_PSS_2048_8192_SHA256, signed, &parts.signature).is_ok())
            }
            ("EC", "ES256") => self.point().is_some_and(|point| {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, &parts.signature).is_ok()
            }),
            _ => false,
        }
    }

    fn rsa(&self) -> Option<RsaPublicKeyComponents<Vec<u8>>> {
        Some(RsaPublicKeyComponents { n: decoded(self.n.as_ref()?)?, e: decoded(self.e.as_ref()?)? })
    }

    /// Returns the point of a P-256 key, uncompressed.
    fn point(&self) -> Option<Vec<u8>> {
        let x = coordinate(self.x.as_ref()?).filter(|_| self.crv.as_deref() == Some("P-256"))?;
        Some([vec![4], x, coordinate(self.y.as_ref()?)?].concat())
    }
}

/// Returns a coordinate of a point of P-256: 32 bytes.
fn coordinate(text: &str) -> Option<Vec<u8>> {
    decoded(text).filter(|bytes| bytes.len() == 32)
}

fn text<'c>(claim: &str, claims: &'c Map<String, Value>) -> Option<&'c str> {
    claims.get(claim).and_then(Value::as_str)
}

fn number(claim: &str, claims: &Map<String, Value>) -> Option<f64> {
    claims.get(claim).and_then(Value::as_f64)
}

impl TokenRules<'_> {
    fn check(&self, claims: &Map<String, Value>) -> Result<(), &'static str> {
        if text("iss", claims) != Some(self.issuer) {
            return Err("the token is of another issuer");
        }
        if !self.is_audience(claims) {
            return Err("the token is for another client");
        }
        if text("nonce", claims) != Some(self.nonce) {
            return Err("the token is of another sign-in");
        }
        let now = self.now_s as f64;
        let difference = CLOCK_DIFFERENCE_S as f64;
        if number("exp", claims).is_none_or(|end| end <= now - difference) {
            return Err("the token has expired");
        }
        let age = number("iat", claims).map(|made| now - made);
        if age.is_none_or(|age| age < -difference || age > MOST_AGE_S as f64 + difference) {
            return Err("the token was made at another time; compare the clocks of this machine and of the provider");
        }
        if text("sub", claims).is_none_or(str::is_empty) {
            return Err("the token is about nobody");
        }
        Ok(())
    }

    fn is_audience(&self, claims: &Map<String, Value>) -> bool {
        let party = claims.get("azp");
        let (is_named, is_shared) = match claims.get("aud") {
            Some(Value::Array(all)) => (all.iter().any(|one| self.is_client(one)), all.len() > 1),
            Some(one) => (self.is_client(one), false),
            None => (false, false),
        };
        // A token for several clients names the client that asked for it.
        is_named && party.map_or(!is_shared, |party| self.is_client(party))
    }

    fn is_client(&self, value: &Value) -> bool {
        value.as_str() == Some(self.client_id)
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
