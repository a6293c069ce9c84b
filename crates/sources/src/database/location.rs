//! The location of a database: a URL without a password.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::certificates;
use super::sql::SqlDialect;

/// The location of a database. It contains no password, so that it may be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseLocation {
    dialect: SqlDialect,
    url: Url,
}

/// True if this build has ODBC.
const HAS_ODBC: bool = cfg!(feature = "odbc");

/// The reason why a text is not the location of a database. The messages contain no part of the text, except the names of parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The URL contains a password.
    #[error(
        "the URL contains a password, which others can see in the list of processes and in logs: remove it, and give \
            it in a file (--password-file, or password_file in the configuration) or in the environment \
            (DOPPEL_DATABASE_PASSWORD)"
    )]
    Password,
    /// The URL has an unknown scheme.
    #[error(
        "give mysql://USER@HOST:PORT/DATABASE, postgres://USER@HOST:PORT/DATABASE or sqlite:FILE (mariadb:// and kingbase:// are \
         the first two)"
    )]
    Unknown,
    /// A part of the URL is wrong.
    #[error("{0}")]
    Part(String),
}

impl DatabaseLocation {
    /// Parses a URL.
    ///
    /// # Errors
    /// See [`LocationError`].
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let (scheme, rest) = text.split_once(':').ok_or(LocationError::Unknown)?;
        let (dialect, scheme) = match scheme {
            "mysql" | "mariadb" => (SqlDialect::MySql, "mysql"),
            "postgres" | "postgresql" | "kingbase" => (SqlDialect::Postgres, "postgres"),
            "sqlite" => (SqlDialect::Sqlite, "sqlite"),
            "odbc" if HAS_ODBC => (SqlDialect::Odbc, "odbc"),
            "odbc" => {
                let detail =
                    "this doppel is built without ODBC; build it with --features odbc, on a machine with unixODBC";
                return Err(LocationError::Part(detail.into()));
            }
            _ => return Err(LocationError::Unknown),
        };
        let url = Url::parse(&format!("{scheme}:{rest}"))
            .map_err(|error| LocationError::Part(format!("the URL cannot be read: {error}")))?;
        if dialect == SqlDialect::Odbc {
            return Self::odbc(url);
        }
        if url.password().is_some() || url.query_pairs().any(|(key, _)| key.to_lowercase().contains("pass")) {
            return Err(LocationError::Password);
        }
        certificates::check(dialect, &url)?;
        let location = Self { dialect, url };
        if dialect == SqlDialect::Sqlite && location.file().as_os_str().is_empty() {
            return Err(LocationError::Part("name the file: sqlite:FILE".into()));
        }
        if dialect != SqlDialect::Sqlite && !location.url.has_host() {
            return Err(LocationError::Unknown);
        }
        Ok(location)
    }

    /// Reads a connection string such as `odbc:DSN=office;UID=reader`.
    fn odbc(url: Url) -> Result<Self, LocationError> {
        let location = Self { dialect: SqlDialect::Odbc, url };
        let mut keys = location.connection_string().split(';').map(|part| part.split('=').next().unwrap_or_default());
        if keys.any(|key| ["pwd", "password"].contains(&key.trim().to_lowercase().as_str())) {
            return Err(LocationError::Password);
        }
        Ok(location)
    }

    /// Returns the connection string for the ODBC driver.
    pub fn connection_string(&self) -> &str {
        self.url.as_str().strip_prefix("odbc:").unwrap_or_default()
    }

    /// Returns the dialect of SQL that the database uses.
    pub fn dialect(&self) -> SqlDialect {
        self.dialect
    }

    /// Returns the whole URL with its parameters.
    pub fn full(&self) -> String {
        self.url.as_str().to_owned()
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the file of an SQLite database.
    pub fn file(&self) -> PathBuf {
        let path = self.url.as_str().split('?').next().unwrap_or_default();
        let path = path.strip_prefix("sqlite:").unwrap_or_default();
        let path = path.strip_prefix("//").unwrap_or(path);
        percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned().into()
    }
}

impl fmt::Display for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dialect {
            // The URL encodes Chinese characters as bytes, so that the file name is decoded for readers.
            SqlDialect::Sqlite => write!(f, "sqlite:{}", self.file().display()),
            SqlDialect::MySql | SqlDialect::Postgres | SqlDialect::Odbc => {
                f.write_str(self.url.as_str().split('?').next().unwrap_or_default())
            }
        }
    }
}

impl fmt::Debug for DatabaseLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_refused_wherever_it_stands_and_not_repeated() {
        for text in [
            "mysql://desk:geheim@10.0.0.5/letters",
            "postgres://desk:geheim@10.0.0.5/letters",
            "postgres://10.0.0.5/letters?user=desk&password=geheim",
            "mysql://10.0.0.5/letters?PassWord=geheim",
        ] {
            let error = DatabaseLocation::parse(text).unwrap_err();
            assert_eq!(error, LocationError::Password);
            assert!(!error.to_string().contains("geheim") && error.to_string().contains("--password-file"));
        }
    }

    #[test]
    fn databases_are_known_by_their_schemes() {
        assert_eq!(dialect_of("mariadb://desk@10.0.0.5:3306/letters"), Ok(SqlDialect::MySql));
        assert_eq!(dialect_of("postgresql://desk@10.0.0.5/letters?sslmode=verify-full"), Ok(SqlDialect::Postgres));
        assert_eq!(dialect_of("kingbase://desk@10.0.0.5/letters"), Ok(SqlDialect::Postgres));
        assert_eq!(DatabaseLocation::parse("sqlite:data/信件.db").unwrap().file(), PathBuf::from("data/信件.db"));
        assert_eq!(DatabaseLocation::parse("sqlite:///srv/a.db").unwrap().file(), PathBuf::from("/srv/a.db"));
        assert_eq!(DatabaseLocation::parse("sqlite:data/信件 2.db").unwrap().to_string(), "sqlite:data/信件 2.db");
        assert_eq!(dialect_of("oracle://desk@10.0.0.5/letters"), Err(LocationError::Unknown));
        assert!(dialect_of("postgres://h/d?options=-csearch_path=x").is_err());
        assert!(dialect_of("sqlite:").is_err() && dialect_of("letters.csv").is_err());
    }

    fn dialect_of(text: &str) -> Result<SqlDialect, LocationError> {
        DatabaseLocation::parse(text).map(|location| location.dialect())
    }
}
