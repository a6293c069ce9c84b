//! Random tokens that name a browser, and the tokens in forms that only its own pages can have.
//!
//! A browser gets a random token in a cookie that no script can read. Each form holds a second one that is made of it under a secret
//! of this process: a page of another site knows neither, and who could set the cookie still could not make the form's.

use std::fmt;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::clock;
use crate::config::auth::{decode, encode};
use crate::http::problem::Problem;

/// 256 random bits.
fn random() -> Result<[u8; 32], Problem> {
    clock::random().ok_or_else(|| Problem::internal("no randomness from the system"))
}

/// What names a browser: 256 random bits, 64 hexadecimal digits in its cookie.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// 500 when the system has no randomness to give.
    pub fn random() -> Result<Self, Problem> {
        random().map(Self)
    }

    /// The token in a cookie, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(Self)
    }

    /// The token as in a cookie.
    pub fn text(&self) -> String {
        encode(&self.0)
    }

    /// What it is known by here, so that who reads our memory has no token.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(not shown)")
    }
}

/// Makes the tokens in forms, and knows them again.
#[derive(Default)]
pub struct Seal(OnceLock<[u8; 32]>);

impl Seal {
    fn secret(&self) -> Result<[u8; 32], Problem> {
        match self.0.get() {
            Some(secret) => Ok(*secret),
            None => {
                let new = random()?;
                Ok(*self.0.get_or_init(|| new))
            }
        }
    }

    /// The token in the forms of `browser`.
    ///
    /// # Errors
    /// 500 when the system has no randomness to give.
    pub fn form_token(&self, browser: &Token) -> Result<String, Problem> {
        let secret = self.secret()?;
        let inner = Sha256::new().chain_update(secret).chain_update(browser.0).finalize();
        // Twice, so that nobody can make a token of a longer text out of this one.
        Ok(encode(&Sha256::new().chain_update(secret).chain_update(inner).finalize()))
    }

    /// Whether `given` is the token in the forms of `browser`. Takes as long whatever is given.
    ///
    /// # Errors
    /// As [`Seal::form_token`].
    pub fn fits(&self, browser: &Token, given: &str) -> Result<bool, Problem> {
        Ok(self.form_token(browser)?.as_bytes().ct_eq(given.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_fits_the_browser_and_the_process_that_it_was_made_for() {
        let (seal, other) = (Seal::default(), Seal::default());
        let (browser, stranger) = (Token::random().unwrap(), Token::random().unwrap());
        let token = seal.form_token(&browser).unwrap();
        assert!(seal.fits(&browser, &token).unwrap());
        assert!(!seal.fits(&stranger, &token).unwrap() && !other.fits(&browser, &token).unwrap());
        for wrong in ["", "0", &token[1..], &token.to_uppercase(), &browser.text()] {
            assert!(!seal.fits(&browser, wrong).unwrap(), "{wrong}");
        }
    }

    #[test]
    fn a_token_is_64_digits_and_never_printed() {
        let token = Token::random().unwrap();
        assert_eq!(Token::parse(&token.text()), Some(token.clone()));
        assert!(!format!("{token:?}").contains(&token.text()[..8]));
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65)] {
            assert_eq!(Token::parse(wrong), None, "{wrong}");
        }
    }
}
