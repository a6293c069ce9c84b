//! Signing in at an identity provider: the authorisation code flow of OpenID Connect with PKCE, `state` and `nonce`.
//!
//! doppel takes three values from the provider: the name of the account, the shown name and the role. It keeps no token of the provider. The
//! addresses and keys of the provider come from its description. doppel reads the description again after an hour, and at the earliest after a
//! minute for an unknown key. If the description cannot be read again, doppel uses the earlier one for a day.
//!
//! Sources: OpenID Connect Core 1.0 (sections 3.1 and 5.1), OpenID Connect Discovery 1.0, RFC 6749, RFC 7636, RFC 9700.

mod token;

use std::time::{Duration, Instant};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use url::form_urlencoded;

use crate::clock;
use doppel_config::auth::PersonRole;
use doppel_config::oidc::{OidcConfig, is_protected};
use token::{KeySet, TokenRules};

/// Time limit of one request to the provider. A person waits meanwhile.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer of the provider in bytes. Descriptions, keys and tokens have some kilobytes.
const MOST_BYTES: usize = 256 << 10;
/// Time after which the description and the keys of the provider are read again.
const READ_AGAIN: Duration = Duration::from_secs(60 * 60);
/// Shortest time between two readings because of an unknown key.
const SOONEST: Duration = Duration::from_secs(60);
/// Time after a failed reading in which nobody reads again, so that the people who waited for it do not each wait for the same failure.
const FAILURE_REST: Duration = Duration::from_secs(5);
/// Largest age of a description and keys that are used because they cannot be read again.
const MOST_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The reason why nobody is signed in. The text is for the log: it has no token and no name.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or its answer cannot be read.
    #[error("the identity provider: {0:#}")]
    Unavailable(anyhow::Error),
    /// The provider refuses the code, or its answer is not about this sign-in.
    #[error("the sign-in is refused: {0}")]
    Refused(&'static str),
}

/// The random values of one sign-in. Each is used once.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInSecrets {
    /// Comes back with the code, and binds it to the browser that asked.
    pub state: String,
    /// Comes back in the token, and binds it to this sign-in.
    nonce: String,
    /// Proves to the provider that the code is used by the service that asked for it (PKCE).
    verifier: String,
}

impl SignInSecrets {
    /// Makes random values; `None` if the system has no randomness.
    pub fn random() -> Option<Self> {
        Some(Self { state: random_text()?, nonce: random_text()?, verifier: random_text()? })
    }
}

/// Returns 256 random bits as a text.
fn random_text() -> Option<String> {
    clock::random().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

/// A person, as the provider describes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidedPerson {
    /// The name of the account.
    pub name: String,
    /// The name to show; empty if the provider gives none.
    pub display_name: String,
    /// The role; `None` if the configuration takes no roles from the provider, or does not contain the roles of the person.
    pub role: Option<PersonRole>,
}

/// The parts of the provider's description that are used.
#[derive(Clone, Debug, Deserialize)]
struct ProviderDescription {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

/// The description and the keys of the provider.
#[derive(Clone)]
struct KnownProvider {
    description: ProviderDescription,
    keys: KeySet,
    read: Instant,
}

/// The result of the last readings.
#[derive(Default)]
struct ProviderReadings {
    known: Option<KnownProvider>,
    /// The time of the last failure, if the last reading failed.
    failed: Option<Instant>,
}

impl ProviderReadings {
    /// Returns the known keys, if they are not older than `most_age`.
    fn younger_than(&self, most_age: Duration) -> Option<KnownProvider> {
        self.known.as_ref().filter(|known| known.read.elapsed() < most_age).cloned()
    }
}

pub struct IdentityProvider {
    config: OidcConfig,
    client: Client,
    readings: Mutex<ProviderReadings>,
}

impl IdentityProvider {
    /// Creates the client of the provider. Nothing is sent yet.
    ///
    /// # Errors
    /// The system has no certificates.
    pub fn new(config: &OidcConfig) -> anyhow::Result<Self> {
        // Installs the provider of cryptography of this process. This fails if it is installed already, and there is only one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().timeout(TIMEOUT).redirect(Policy::none()).no_proxy();
        // Plain http is for this machine only and needs no certificates. Some systems have no certificates.
        let is_plain = config.issuer.starts_with("http://");
        let builder = if is_plain { builder.tls_certs_only([]) } else { builder };
        let client = builder.build().context("the client of the identity provider cannot be created")?;
        Ok(Self { config: config.clone(), client, readings: Mutex::default() })
    }

    /// True if the provider gives the roles.
    pub fn gives_roles(&self) -> bool {
        !self.config.role_claim.is_empty()
    }

    /// Returns the address at the provider to which a browser goes to sign in.
    ///
    /// # Errors
    /// [`OidcError::Unavailable`].
    pub async fn address(&self, secrets: &SignInSecrets) -> Result<String, OidcError> {
        let known = self.known(READ_AGAIN).await?;
        let mut url = endpoint(&known.description.authorization_endpoint)?;
        let scopes = std::iter::once("openid").chain(self.config.scopes.iter().map(String::as_str));
        let scope = scopes.collect::<Vec<_>>().join(" ");
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(secrets.verifier.as_bytes()));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("redirect_uri", &self.config.redirect_url())
            .append_pair("scope", &scope)
            .append_pair("state", &secrets.state)
            .append_pair("nonce", &secrets.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Exchanges the code of a sign-in, and checks the token that the provider gives for it.
    ///
    /// # Errors
    /// [`OidcError`].
    pub async fn person(&self, code: &str, secrets: &SignInSecrets) -> Result<ProvidedPerson, OidcError> {
        let known = self.known(READ_AGAIN).await?;
        let answer: TokenAnswer = self.exchange(&known.description, code, secrets).await?;
        let token = &answer.id_token;
        // A provider may sign with a new key at any time.
        let known = if known.keys.has_key_of(token) { known } else { self.known(SOONEST).await? };
        let rules = TokenRules {
            issuer: &self.config.issuer,
            client_id: &self.config.client_id,
            nonce: &secrets.nonce,
            now_s: clock::timestamp().as_second(),
        };
        let claims = known.keys.verify(token, &rules).map_err(OidcError::Refused)?;
        let name = text_of(&self.config.name_claim, &claims);
        if name.is_empty() {
            return Err(OidcError::Refused("the token has no name of an account (console.oidc.name_claim)"));
        }
        let role = claims.get(&self.config.role_claim).and_then(|claim| match claim {
            Value::String(one) => self.config.role_of([one.as_str()]),
            Value::Array(all) => self.config.role_of(all.iter().filter_map(Value::as_str)),
            _ => None,
        });
        Ok(ProvidedPerson { name, display_name: text_of(&self.config.display_claim, &claims), role })
    }

    async fn exchange(
        &self,
        description: &ProviderDescription,
        code: &str,
        secrets: &SignInSecrets,
    ) -> Result<TokenAnswer, OidcError> {
        let secret = self.config.client_secret().map_err(OidcError::Unavailable)?;
        let form = self.exchange_form(code, secrets);
        let request = self.client.post(endpoint(&description.token_endpoint)?);
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form);
        let request = match secret {
            Some(secret) => request.header(AUTHORIZATION, basic(&self.config.client_id, &secret)),
            None => request,
        };
        read(request).await
    }

    /// Returns the body of the request for a token.
    fn exchange_form(&self, code: &str, secrets: &SignInSecrets) -> String {
        form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("client_id", &self.config.client_id)
            .append_pair("code", code)
            .append_pair("redirect_uri", &self.config.redirect_url())
            .append_pair("code_verifier", &secrets.verifier)
            .finish()
    }

    /// Returns the description and the keys of the provider, not older than `most_age`; an older description if it cannot be read again.
    async fn known(&self, most_age: Duration) -> Result<KnownProvider, OidcError> {
        // Other callers wait for the caller that reads, so that the provider gets one request.
        let mut readings = self.readings.lock().await;
        if let Some(known) = readings.younger_than(most_age) {
            return Ok(known);
        }
        let is_resting = readings.failed.is_some_and(|failed| failed.elapsed() < FAILURE_REST);
        let read = if is_resting { Err(failed_before()) } else { self.read_description().await };
        match read {
            Ok(new) => {
                *readings = ProviderReadings { known: Some(new.clone()), failed: None };
                Ok(new)
            }
            Err(error) => {
                if !is_resting {
                    tracing::warn!(%error, "the description of the identity provider cannot be read");
                    readings.failed = Some(Instant::now());
                }
                readings.younger_than(MOST_AGE).ok_or(error)
            }
        }
    }

    async fn read_description(&self) -> Result<KnownProvider, OidcError> {
        let issuer = &self.config.issuer;
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let description: ProviderDescription = read(self.client.get(endpoint(&place)?)).await?;
        if description.issuer != *issuer {
            return Err(OidcError::Refused("the provider names another issuer (console.oidc.issuer)"));
        }
        let keys: KeySet = read(self.client.get(endpoint(&description.jwks_uri)?)).await?;
        Ok(KnownProvider { description, keys, read: Instant::now() })
    }
}

fn failed_before() -> OidcError {
    OidcError::Unavailable(anyhow::anyhow!("it did not answer some seconds ago, and is not asked again yet"))
}

/// Returns the text of a claim; an empty text without it.
fn text_of(claim: &str, claims: &Map<String, Value>) -> String {
    claims.get(claim).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the header for a client with a secret (RFC 6749, section 2.3.1: both parts are encoded as in a form).
fn basic(client_id: &str, secret: &str) -> String {
    let [client_id, secret] =
        [client_id, secret].map(|text| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>());
    format!("Basic {}", STANDARD.encode(format!("{client_id}:{secret}")))
}

fn endpoint(text: &str) -> Result<Url, OidcError> {
    let url: Option<Url> = text.parse().ok();
    url.filter(is_protected).ok_or(OidcError::Refused("the provider names an address that is not https"))
}

/// Sends a request, and reads a JSON answer of bounded size.
async fn read<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, OidcError> {
    let answer = request.send().await.map_err(|error| OidcError::Unavailable(error.without_url().into()))?;
    match answer.status() {
        status if status.is_success() => {}
        status if status.is_client_error() => return Err(OidcError::Refused("the provider refuses the request")),
        status => return Err(OidcError::Unavailable(anyhow::anyhow!("it answers {}", status.as_u16()))),
    }
    let mut answer = answer;
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(|error| OidcError::Unavailable(error.without_url().into()))? {
        if body.len() + piece.len() > MOST_BYTES {
            return Err(OidcError::Unavailable(anyhow::anyhow!("its answer is too large")));
        }
        body.extend_from_slice(&piece);
    }
    // The error would repeat a part of the answer.
    serde_json::from_slice(&body).map_err(|_| OidcError::Unavailable(anyhow::anyhow!("its answer cannot be read")))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A provider that answers the first `good` requests, and hangs up at all others. It counts the requests.
    fn start(good: usize) -> (IdentityProvider, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let issuer = format!("http://{}", listener.local_addr().expect("an address"));
        let description =
            serde_json::json!({ "issuer": issuer, "authorization_endpoint": issuer, "token_endpoint": issuer,
            "jwks_uri": issuer, "keys": [] })
            .to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                if counted.fetch_add(1, Ordering::Relaxed) < good {
                    let _ = stream.read(&mut [0; 4096]);
                    let length = description.len();
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                    let _ = stream.write_all(format!("{head}{description}").as_bytes());
                }
            }
        });
        let config = OidcConfig { issuer, client_id: "doppel".into(), ..OidcConfig::default() };
        (IdentityProvider::new(&config).expect("a client"), asked)
    }

    #[tokio::test]
    async fn a_failure_is_not_repeated_for_each_person_who_waits() {
        let (provider, asked) = start(0);
        assert!(provider.known(READ_AGAIN).await.is_err());
        let before = asked.load(Ordering::Relaxed);
        assert!(before > 0);
        for _ in 0..5 {
            assert!(matches!(provider.known(READ_AGAIN).await, Err(OidcError::Unavailable(_))));
        }
        assert_eq!(asked.load(Ordering::Relaxed), before);
    }

    #[tokio::test]
    async fn earlier_keys_are_used_if_they_cannot_be_read_again() {
        let (provider, asked) = start(2);
        let first = provider.known(READ_AGAIN).await.expect("it answers").read;
        assert_eq!(provider.known(Duration::ZERO).await.expect("the earlier keys").read, first);
        assert!(asked.load(Ordering::Relaxed) > 2, "it was asked again");
    }
}
