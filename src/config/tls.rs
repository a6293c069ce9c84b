//! `[server.tls]`: whether the service speaks TLS itself, and to whom.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whether callers show a certificate of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCertificates {
    /// None is asked for.
    #[default]
    Off,
    /// One is asked for; who shows one must show one of `client_ca`, and who shows none is taken all the same.
    Optional,
    /// Nobody is taken without one of `client_ca`. It comes before keys, and does not replace them.
    Required,
}

/// `[server.tls]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// File of the certificate (PEM): the service's own first, then those that lead to its authority. Empty: no TLS. It is read again
    /// when it changes and on SIGHUP.
    pub certificate: PathBuf,
    /// File of its key (PEM, unencrypted), readable by the service alone.
    pub key: PathBuf,
    /// Whether callers show a certificate.
    pub client_certificates: ClientCertificates,
    /// File of the authorities (PEM) that have signed those certificates.
    pub client_ca: PathBuf,
}

impl Tls {
    /// Whether the service speaks TLS.
    pub fn is_on(&self) -> bool {
        !self.certificate.as_os_str().is_empty()
    }

    /// The first thing wrong, without a look at the files.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { certificate, key, client_certificates, client_ca } = self;
        let given = |path: &PathBuf| !path.as_os_str().is_empty();
        let wanted = *client_certificates != ClientCertificates::Off;
        match (given(certificate), given(key), given(client_ca)) {
            (true, false, _) => Err("server.tls.key is missing: give the file of the certificate's key".into()),
            (false, true, _) => {
                Err("server.tls.certificate is missing: give the file of the certificate that the key is for".into())
            }
            (false, false, ca) if ca || wanted => {
                Err("server.tls.certificate is missing: without TLS nobody shows a certificate".into())
            }
            (true, true, false) if wanted => Err(
                "server.tls.client_ca is missing: give the certificates of the authority that has signed those of callers"
                    .into(),
            ),
            (true, true, true) if !wanted => Err(
                "server.tls.client_certificates is \"off\", so that client_ca is used for nothing; say \"optional\" or \"required\""
                    .into(),
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_is_given_together() {
        let tls = |certificate: &str, key: &str, client_ca: &str, client_certificates| Tls {
            certificate: certificate.into(),
            key: key.into(),
            client_ca: client_ca.into(),
            client_certificates,
        };
        use ClientCertificates::{Off, Optional, Required};
        for fine in [tls("", "", "", Off), tls("c", "k", "", Off), tls("c", "k", "a", Optional)] {
            assert_eq!(fine.check(), Ok(()), "{fine:?}");
        }
        for (wrong, key) in [
            (tls("c", "", "", Off), "server.tls.key"),
            (tls("", "k", "", Off), "server.tls.certificate"),
            (tls("", "", "a", Off), "server.tls.certificate"),
            (tls("c", "k", "", Required), "server.tls.client_ca"),
            (tls("c", "k", "a", Off), "server.tls.client_certificates"),
        ] {
            assert!(wrong.check().unwrap_err().starts_with(key), "{wrong:?}");
        }
    }
}
