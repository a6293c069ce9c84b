//! Random tokens that identify browsers, and the tokens in forms, which only pages of the desk can contain.
//!
//! A browser gets a random token in a cookie that no script can read. Each form contains a second token that is computed from the first and
//! a secret of this process. A page of another site knows neither token. An attacker who can set the cookie still cannot compute the token
//! for a form.

use std::fmt;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use doppel_config::auth::{decode, encode};
use doppel_http::problem::Problem;
use doppel_service::clock;

/// Returns 256 random bits.
fn random() -> Result<[u8; 32], Problem> {
    clock::random().ok_or_else(|| Problem::internal("no randomness from the system"))
}

/// The token of a browser: 256 random bits, which the cookie contains as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserSecret([u8; 32]);

impl BrowserSecret {
    /// Creates a random token.
    ///
    /// # Errors
    /// 500 if the system has no randomness.
    pub fn random() -> Result<Self, Problem> {
        random().map(Self)
    }

    /// Parses the value of a cookie; `None` if it is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(Self)
    }

    /// Returns the value of the cookie.
    pub fn text(&self) -> String {
        encode(&self.0)
    }

    /// Returns the hash under which the service keeps the token, so that a copy of the memory contains no tokens.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Debug for BrowserSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(not shown)")
    }
}

/// Makes and checks the tokens in forms.
#[derive(Default)]
pub struct FormSeal(OnceLock<[u8; 32]>);

impl FormSeal {
    fn secret(&self) -> Result<[u8; 32], Problem> {
        match self.0.get() {
            Some(secret) => Ok(*secret),
            None => {
                let new = random()?;
                Ok(*self.0.get_or_init(|| new))
            }
        }
    }

    /// Returns the token for the forms of `browser`.
    ///
    /// # Errors
    /// 500 if the system has no randomness.
    pub fn form_token(&self, browser: &BrowserSecret) -> Result<String, Problem> {
        let secret = self.secret()?;
        let inner = Sha256::new().chain_update(secret).chain_update(browser.0).finalize();
        // Two hashes prevent an extension of the text without knowledge of the secret (a length extension attack).
        Ok(encode(&Sha256::new().chain_update(secret).chain_update(inner).finalize()))
    }

    /// True if `given` is the token for the forms of `browser`. The time does not depend on `given`.
    ///
    /// # Errors
    /// The errors of [`FormSeal::form_token`].
    pub fn fits(&self, browser: &BrowserSecret, given: &str) -> Result<bool, Problem> {
        Ok(self.form_token(browser)?.as_bytes().ct_eq(given.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_fits_the_browser_and_the_process_that_it_was_made_for() {
        let seal = FormSeal::default();
        let other = FormSeal::default();
        let browser = BrowserSecret::random().unwrap();
        let stranger = BrowserSecret::random().unwrap();
        let token = seal.form_token(&browser).unwrap();
        assert!(seal.fits(&browser, &token).unwrap());
        assert!(!seal.fits(&stranger, &token).unwrap() && !other.fits(&browser, &token).unwrap());
        for wrong in ["", "0", &token[1..], &token.to_uppercase(), &browser.text()] {
            assert!(!seal.fits(&browser, wrong).unwrap(), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_64_digits_and_never_printed() {
        let token = BrowserSecret::random().unwrap();
        assert_eq!(BrowserSecret::parse(&token.text()), Some(token.clone()));
        assert!(!format!("{token:?}").contains(&token.text()[..8]));
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65)] {
            assert_eq!(BrowserSecret::parse(wrong), None, "{wrong}");
        }
    }
}
