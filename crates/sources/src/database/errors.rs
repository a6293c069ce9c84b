//! What a database answers when it does not do what was asked: the kind of trouble, and words without secrets or values of rows.

use std::error::Error;

use super::certificates::distrust;

/// Why a database did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// There is no connection, or it broke: trying again may help.
    #[error("the database cannot be reached: {0}")]
    Away(String),
    /// The user or the password is not taken.
    #[error(
        "the database refuses the user or the password: {0}; the password is read from --password-file or password_file"
    )]
    Denied(String),
    /// The certificate of the server is not taken, or there is none.
    #[error("the database is not taken for the one that is meant: {0}")]
    Untrusted(String),
    /// What was asked for cannot be done there.
    #[error("the database refuses: {0}")]
    Refused(String),
}

/// Longest part of a database's own message that is repeated: it may quote values.
const MOST_SAID: usize = 200;

impl DatabaseError {
    pub(super) fn other(detail: impl Into<String>) -> Self {
        Self::Refused(detail.into())
    }

    /// Whether trying again later may help.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away(_))
    }
}

/// SQLSTATE classes: no connection; too many of them or shutting down.
const AWAY: [&str; 3] = ["08", "53", "57"];
/// SQLSTATE class: authorisation.
const DENIED: &str = "28";

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
            // What could not be decoded may be quoted.
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

/// The first line of a message, of bounded length.
fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MOST_SAID).collect()
}
