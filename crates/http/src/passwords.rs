//! Passwords of people: their rules, and hashing and checking them with argon2id.
//!
//! The work needs memory and time by design. It runs outside of the asynchronous threads, and only [`MOST_AT_ONCE`] at the same time.

use std::sync::Arc;
use std::time::Duration;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use doppel_core::error_code::ErrorCode;

/// Smallest number of characters of a password. The service slows down guessing, so that a longer password protects only a little more.
pub const LEAST_PASSWORD_CHARS: usize = 10;
/// Largest number of bytes of a password: longer than any sentence that a person types.
pub const MAX_PASSWORD_BYTES: usize = 512;
/// Number of passwords that are hashed at the same time. Each takes 19 MiB and some hundredths of a second of one core.
pub const MOST_AT_ONCE: usize = 2;
/// Longest time that a request waits for its turn. The number of waiting requests has the limit of all requests.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A hash that belongs to no password. It has the same parameters as all other hashes. Checking it takes as long as checking the password
/// of an account.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// The characters of generated passwords, without letters and digits that look alike.
const PLAIN_CHARACTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Number of characters in a part of a generated password.
const PART: usize = 5;
/// Number of characters of a generated password: 100 random bits.
const GENERATED: usize = 4 * PART;

/// The reason why a text cannot be a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordFault {
    /// It has fewer than [`LEAST_PASSWORD_CHARS`] characters.
    TooShort,
    /// It has more than [`MAX_PASSWORD_BYTES`] bytes.
    TooLong,
    /// It is the name of the account.
    IsName,
}

/// Checks a new password of the account `name`.
///
/// # Errors
/// The reason why it cannot be a password.
pub fn check_password(name: &str, password: &str) -> Result<(), PasswordFault> {
    match password {
        short if short.chars().count() < LEAST_PASSWORD_CHARS => Err(PasswordFault::TooShort),
        long if long.len() > MAX_PASSWORD_BYTES => Err(PasswordFault::TooLong),
        same if same.eq_ignore_ascii_case(name) => Err(PasswordFault::IsName),
        _ => Ok(()),
    }
}

/// Makes a random password, in parts that are easy to copy by hand.
///
/// # Errors
/// 500 if the system has no randomness.
pub fn random_password() -> Result<String, Problem> {
    let random = doppel_service::clock::random().ok_or_else(|| Problem::internal("no randomness from the system"))?;
    let characters = random.iter().take(GENERATED).map(|byte| char::from(PLAIN_CHARACTERS[usize::from(byte % 32)]));
    let characters: Vec<char> = characters.collect();
    let parts: Vec<String> = characters.chunks(PART).map(|part| part.iter().collect()).collect();
    Ok(parts.join("-"))
}

/// Hashes and checks passwords, a few at a time.
pub struct PasswordWork(Arc<Semaphore>);

impl Default for PasswordWork {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_AT_ONCE)))
    }
}

impl PasswordWork {
    /// Returns the hash of a password in the PHC string format, with a random salt.
    ///
    /// # Errors
    /// 503 if too many passwords are being checked; 500 if the system has no randomness.
    pub async fn hash(&self, password: String) -> Result<String, Problem> {
        let hashed =
            self.in_turn(move || Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string()));
        hashed.await?.map_err(|error| Problem::internal(format!("a password cannot be hashed: {error}")))
    }

    /// True if `stored` is the hash of the password. Without a hash the answer is false, but takes the same time.
    ///
    /// # Errors
    /// 503 if too many passwords are being checked.
    pub async fn is_password(&self, password: String, stored: Option<String>) -> Result<bool, Problem> {
        self.in_turn(move || is_password_of(stored.as_deref(), &password)).await
    }

    async fn in_turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        let turn = self.turn().await?;
        let working = tokio::task::spawn_blocking(move || {
            // If the client closes the connection, the work continues and keeps its turn.
            let _turn: OwnedSemaphorePermit = turn;
            work()
        });
        working.await.map_err(|error| Problem::internal(format!("the check of a password failed: {error}")))
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let waiting = tokio::time::timeout(LONGEST_WAIT, Arc::clone(&self.0).acquire_owned()).await;
        waiting.ok().and_then(Result::ok).ok_or_else(|| {
            let detail = "too many people sign in at the same time; try again in a moment";
            Problem::unavailable(ErrorCode::TooManySignIns, detail).retry_after(5)
        })
    }
}

/// True if `stored` is the hash of the password. A hash that cannot be read belongs to no password.
fn is_password_of(stored: Option<&str>, password: &str) -> bool {
    let hash = PasswordHash::new(stored.unwrap_or(NOBODY));
    let is_equal = hash.is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
    is_equal && stored.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_neither_too_short_nor_too_long_nor_the_name() {
        assert_eq!(check_password("zhang", "a good password"), Ok(()));
        assert_eq!(check_password("zhang", "十个汉字也可以作口令"), Ok(()));
        assert_eq!(check_password("zhang", "too short"), Err(PasswordFault::TooShort));
        assert_eq!(check_password("zhang", &"a".repeat(513)), Err(PasswordFault::TooLong));
        assert_eq!(check_password("zhang-wei-2", "Zhang-Wei-2"), Err(PasswordFault::IsName));
    }

    #[test]
    fn generated_passwords_differ_and_follow_the_rules() {
        let one = random_password().unwrap();
        assert_eq!((one.len(), check_password("zhang", &one)), (GENERATED + 3, Ok(())));
        assert_ne!(one, random_password().unwrap());
    }

    #[tokio::test]
    async fn a_password_has_its_own_hash_and_nobody_has_any() {
        let work = PasswordWork::default();
        let hash = work.hash("a good password".into()).await.unwrap();
        assert_ne!(hash, work.hash("a good password".into()).await.unwrap(), "each has its own salt");
        assert!(work.is_password("a good password".into(), Some(hash.clone())).await.unwrap());
        assert!(!work.is_password("another password".into(), Some(hash.clone())).await.unwrap());
        assert!(!work.is_password("a good password".into(), None).await.unwrap());
        assert!(!work.is_password("a good password".into(), Some("no hash".into())).await.unwrap());
        assert_eq!(parameters(NOBODY), parameters(&hash), "unknown names take as long");
        assert!(PasswordHash::new(NOBODY).is_ok());
    }

    /// Returns the algorithm and its parameters.
    fn parameters(hash: &str) -> Vec<&str> {
        hash.split('$').take(4).collect()
    }

    #[tokio::test]
    async fn only_so_many_passwords_are_hashed_at_once() {
        let work = PasswordWork::default();
        let turns = [work.turn().await.unwrap(), work.turn().await.unwrap()];
        assert!(work.0.try_acquire().is_err());
        drop(turns);
        drop(work.turn().await.unwrap());
    }
}
