//! `[server.tls]`: the certificates of the service and of its clients.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The treatment of client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientCertificates {
    /// No certificate is requested.
    #[default]
    Off,
    /// A certificate is requested. If a client has one, `client_ca` must have signed it; a client without a certificate is accepted.
    Optional,
    /// Every client needs a certificate that `client_ca` has signed. API keys are required in addition.
    Required,
}

/// `[server.tls]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// The file with the certificates (PEM): first the certificate of the service, then the intermediate certificates. If empty, the
    /// service does not use TLS. The file is read again when it changes and on SIGHUP.
    pub certificate: PathBuf,
    /// The file with the key (PEM, unencrypted). Only the service should be able to read it.
    pub key: PathBuf,
    pub client_certificates: ClientCertificates,
    /// The file with the authorities (PEM) that sign client certificates.
    pub client_ca: PathBuf,
}

impl TlsConfig {
    /// True if the service uses TLS.
    pub fn is_on(&self) -> bool {
        !self.certificate.as_os_str().is_empty()
    }

    /// Returns the first mistake, without reading the files.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { certificate, key, client_certificates, client_ca } = self;
        let wanted = *client_certificates != ClientCertificates::Off;
        match (is_given(certificate), is_given(key), is_given(client_ca)) {
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

fn is_given(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_depend_on_each_other_must_be_set_together() {
        use ClientCertificates::{Off, Optional, Required};
        for fine in [tls_config("", "", "", Off), tls_config("c", "k", "", Off), tls_config("c", "k", "a", Optional)] {
            assert_eq!(fine.check(), Ok(()), "{fine:?}");
        }
        for (wrong, key) in [
            (tls_config("c", "", "", Off), "server.tls.key"),
            (tls_config("", "k", "", Off), "server.tls.certificate"),
            (tls_config("", "", "a", Off), "server.tls.certificate"),
            (tls_config("c", "k", "", Required), "server.tls.client_ca"),
            (tls_config("c", "k", "a", Off), "server.tls.client_certificates"),
        ] {
            assert!(wrong.check().unwrap_err().starts_with(key), "{wrong:?}");
        }
    }

    fn tls_config(certificate: &str, key: &str, client_ca: &str, client_certificates: ClientCertificates) -> TlsConfig {
        TlsConfig { certificate: certificate.into(), key: key.into(), client_ca: client_ca.into(), client_certificates }
    }
}
