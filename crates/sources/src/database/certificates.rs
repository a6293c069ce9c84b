//! Certificates of database servers: checks the parameters of a URL before the connection is made, and writes the message about a refused
//! certificate.
//!
//! A URL that names an authority, but has no mode in which the certificate is checked, is refused, because it looks safe but is not safe.

use std::path::{Path, PathBuf};

use rustls::CertificateError;
use url::Url;

use super::DatabaseError;
use super::location::LocationError;
use super::sql::SqlDialect;

/// The names of URL parameters of a dialect. The usual name of a parameter comes first.
struct TlsParameterNames {
    mode: &'static [&'static str],
    /// The modes, and whether a connection in this mode checks the certificate.
    modes: &'static [(&'static str, bool)],
    authority: &'static [&'static str],
    /// Other parameters that are allowed.
    others: &'static [&'static str],
}

const MODE: &[&str] = &["sslmode", "ssl-mode"];
const MYSQL: TlsParameterNames = TlsParameterNames {
    mode: MODE,
    modes: &[
        ("DISABLED", false),
        ("PREFERRED", false),
        ("REQUIRED", false),
        ("VERIFY_CA", true),
        ("VERIFY_IDENTITY", true),
    ],
    authority: &["ssl-ca", "sslca"],
    others: &["sslcert", "ssl-cert", "sslkey", "ssl-key", "socket"],
};
const POSTGRES: TlsParameterNames = TlsParameterNames {
    mode: MODE,
    modes: &[("disable", false), ("prefer", false), ("require", false), ("verify-ca", true), ("verify-full", true)],
    authority: &["sslrootcert", "ssl-root-cert", "ssl-ca"],
    others: &["sslcert", "ssl-cert", "sslkey", "ssl-key", "host"],
};
const NONE: TlsParameterNames = TlsParameterNames { mode: &[], modes: &[], authority: &[], others: &[] };

fn words(dialect: SqlDialect) -> &'static TlsParameterNames {
    match dialect {
        SqlDialect::MySql => &MYSQL,
        SqlDialect::Postgres => &POSTGRES,
        SqlDialect::Sqlite | SqlDialect::Odbc => &NONE,
    }
}

fn parameter(url: &Url, names: &[&str]) -> Option<String> {
    url.query_pairs().find(|(key, _)| names.contains(&&**key)).map(|(_, value)| value.into_owned())
}

/// Checks the parameters of a URL. Only parameters of certificates and sockets are allowed: a parameter must not hide a password or change
/// the work of a session.
pub(super) fn check(dialect: SqlDialect, url: &Url) -> Result<(), LocationError> {
    let TlsParameterNames { mode, modes, authority, others } = words(dialect);
    let known = || mode.iter().chain(*authority).chain(*others);
    if let Some((key, _)) = url.query_pairs().find(|(key, _)| !known().any(|name| name == key)) {
        let key: String = key.chars().take(32).collect();
        let known = known().copied().collect::<Vec<_>>().join(", ");
        let there = if known.is_empty() { "there are none".into() } else { format!("there are {known}") };
        return Err(LocationError::Part(format!("the URL has the parameter {key:?}; {there}")));
    }
    let given = parameter(url, mode);
    let found = given.as_ref().map(|given| modes.iter().find(|(name, _)| name.eq_ignore_ascii_case(given)));
    if let Some(None) = found {
        let known: Vec<&str> = modes.iter().map(|(name, _)| *name).collect();
        return Err(LocationError::Part(format!(
            "the URL has an unknown {}; give one of {}",
            mode[0],
            known.join(", ")
        )));
    }
    let is_looked_at = found.flatten().is_some_and(|(_, is_looked_at)| *is_looked_at);
    if parameter(url, authority).is_some() && !is_looked_at {
        let strictest = modes.last().map_or("", |(name, _)| name);
        return Err(LocationError::Part(format!(
            "the URL names an authority ({}), but without {}={strictest} no certificate is checked; add that parameter",
            authority[0], mode[0]
        )));
    }
    Ok(())
}

/// Checks the file of the authority. The driver treats a file that contains no certificate as if there were no authority.
pub(super) fn check_files(dialect: SqlDialect, url: &Url) -> Result<(), DatabaseError> {
    let names = words(dialect).authority;
    let Some(file) = parameter(url, names).map(PathBuf::from) else { return Ok(()) };
    let text =
        std::fs::read(&file).map_err(|error| unusable_file(&format!("cannot be read: {error}"), &file, names))?;
    let begin = b"-----BEGIN CERTIFICATE-----";
    match text.windows(begin.len()).any(|part| part == begin) {
        true => Ok(()),
        false => Err(unusable_file("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", &file, names)),
    }
}

fn unusable_file(what: &str, file: &Path, names: &[&str]) -> DatabaseError {
    DatabaseError::Untrusted(format!("{} {} {what}", names[0], file.display()))
}

#[cfg(feature = "databases")]
/// Returns the error for a connection that is refused as unsafe, and `None` for another error.
pub(super) fn distrust(error: &sqlx::Error) -> Option<DatabaseError> {
    let inner = match error {
        sqlx::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>()?,
        sqlx::Error::Tls(error) => match error.downcast_ref::<rustls::Error>() {
            Some(inner) => inner,
            // The drivers have no error type for this case.
            None if error.to_string().contains("does not support TLS") => {
                let what = "the server does not encrypt connections, and the URL asks for it; turn TLS on there";
                return Some(DatabaseError::Untrusted(what.into()));
            }
            None => return None,
        },
        _ => return None,
    };
    let what = match inner {
        rustls::Error::InvalidCertificate(error) => match error {
            // Two authorities may have the same name. In this case only the signature does not match.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no trusted authority has signed its certificate; give the file of the authority's certificate (PEM): \
                    ssl-ca=FILE for MySQL and MariaDB, sslrootcert=FILE for PostgreSQL"
                    .into()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate names another host; write the name of the certificate into the URL".into()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; have it renewed".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; compare the clocks of both machines".into()
            }
            other => format!("its certificate cannot be used: {other}"),
        },
        other => format!("the encrypted connection failed: {other}"),
    };
    Some(DatabaseError::Untrusted(what))
}

#[cfg(test)]
mod tests {
    use super::super::DatabaseLocation;

    #[test]
    fn parameters_of_certificates_are_checked_and_an_unused_authority_is_refused() {
        for fine in [
            "postgres://h/d?sslmode=verify-full&sslrootcert=ca.pem",
            "postgres://h/d?sslmode=require",
            "mysql://h/d?ssl-mode=verify_identity&ssl-ca=ca.pem&sslcert=a.pem&sslkey=a.key",
            "mysql://h/d?ssl-mode=VERIFY_CA&sslca=ca.pem",
        ] {
            assert!(DatabaseLocation::parse(fine).is_ok(), "{fine}");
        }
        assert!(
            refusal_of("mysql://h/d?sslrootcert=ca.pem")
                .contains("\"sslrootcert\"; there are sslmode, ssl-mode, ssl-ca")
        );
        assert!(refusal_of("sqlite:a.db?mode=rwc").contains("there are none"));
        assert!(refusal_of("mysql://h/d?ssl-mode=verify-full").contains("VERIFY_IDENTITY"));
        assert!(refusal_of("postgres://h/d?sslmode=allow").contains("verify-full"));
        assert!(refusal_of("postgres://h/d?sslrootcert=ca.pem").contains("sslmode=verify-full"));
        assert!(refusal_of("mysql://h/d?ssl-mode=REQUIRED&ssl-ca=ca.pem").contains("sslmode=VERIFY_IDENTITY"));
    }

    fn refusal_of(text: &str) -> String {
        DatabaseLocation::parse(text).map(drop).unwrap_err().to_string()
    }
}
