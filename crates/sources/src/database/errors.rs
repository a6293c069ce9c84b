//! Errors of databases: their kind, and messages without secrets and without values of rows.

use std::error::Error;

#[cfg(feature = "databases")]
use super::certificates::distrust;

/// The reason why an operation on a database failed.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// There is no connection, or the connection broke. A later attempt may succeed.
    #[error("the database cannot be reached: {0}")]
    Away(String),
    /// The database refuses the user or the password.
    #[error(
        "the database refuses the user or the password: {0}; the password is read from --password-file or password_file"
    )]
    Denied(String),
    /// The certificate of the server is missing or refused.
    #[error("doppel cannot verify that this is the intended database: {0}")]
    Untrusted(String),
    /// The database cannot carry out the request.
    #[error("the database refuses: {0}")]
    Refused(String),
}

/// The largest number of characters of a database's own message that is repeated. The message may quote values.
const MOST_SAID: usize = 200;

impl DatabaseError {
    pub(super) fn other(detail: impl Into<String>) -> Self {
        Self::Refused(detail.into())
    }

    /// True if a later attempt may succeed.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }
}

/// SQLSTATE classes of temporary errors: no connection, too many connections, shutdown.
const AWAY: [&str; 3] = ["08", "53", "57"];
/// SQLSTATE class of authorisation.
const DENIED: &str = "28";

#[cfg(feature = "databases")]
impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(distrust) = distrust(&error) {
            return distrust;
        }
        match &error {
            sqlx::Error::Database(refusal) => {
                let detail = cut(refusal.message());
                let code = refusal.code().unwrap_or_default();
                match &code {
                    code if code.starts_with(DENIED) => Self::Denied(detail),
                    code if AWAY.iter().any(|class| code.starts_with(class)) && code.len() == 5 => Self::Away(detail),
                    _ => Self::Refused(detail),
                }
            }
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolTimedOut => {
                Self::Away(cut(&innermost(&error)))
            }
            // The message may quote the value that could not be decoded.
            sqlx::Error::ColumnDecode { index, .. } => Self::Refused(format!("column {index} cannot be decoded")),
            sqlx::Error::Decode(_) => Self::Refused("a value cannot be decoded".into()),
            sqlx::Error::Protocol(_) => Self::Away(cut(&error.to_string())),
            _ => Self::Refused(cut(&innermost(&error))),
        }
    }
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// Returns the first line of a message, cut to [`MOST_SAID`] characters.
fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MOST_SAID).collect()
}
