//! Words: the certificate with which a connection names its user.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_client::config::AuthInfo;

/// The certificate with which a connection names its user to the API server, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Where it is kept: a file, or the kubeconfig itself.
    pub place: String,
    /// The certificate and those that signed it, in PEM.
    pub chain: Vec<u8>,
}

/// Where the certificate of a user is kept.
pub(crate) enum CertificatePlace {
    Inline(String),
    File(PathBuf),
}

impl CertificatePlace {
    /// Returns `None` for a user without a certificate, and for one with certificates of a credential plugin.
    pub(crate) fn of(user: &AuthInfo) -> Option<Self> {
        if let Some(data) = &user.client_certificate_data {
            return Some(Self::Inline(data.clone()));
        }
        let file = user.client_certificate.as_ref()?;
        Some(Self::File(file.into()))
    }

    /// Reads the certificate. Blocks. Returns `None` if it cannot be read, which the connection reports (CONN-4).
    pub(crate) fn read(self, credentials: Option<&str>) -> Option<ClientCertificate> {
        match self {
            Self::Inline(data) => Some(ClientCertificate {
                place: credentials.unwrap_or("the configuration").to_owned(),
                chain: STANDARD.decode(data.trim()).ok()?,
            }),
            Self::File(file) => Some(ClientCertificate {
                place: file.display().to_string(),
                chain: std::fs::read(&file).ok()?,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_read_where_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.crt");
        std::fs::write(&file, "of a file").unwrap();
        let read = |user: &AuthInfo| {
            let read = CertificatePlace::of(user)?.read(Some("the user \"a\""))?;
            Some((read.place, String::from_utf8(read.chain).unwrap()))
        };
        let mut user = AuthInfo {
            client_certificate: Some(file.display().to_string()),
            ..AuthInfo::default()
        };
        let of_file = (file.display().to_string(), "of a file".to_owned());
        assert_eq!(read(&user), Some(of_file));
        // client-go prefers the data.
        user.client_certificate_data = Some(STANDARD.encode("of the kubeconfig"));
        let inline = ("the user \"a\"".to_owned(), "of the kubeconfig".to_owned());
        assert_eq!(read(&user), Some(inline));
        user.client_certificate_data = Some("no base64!".to_owned());
        assert_eq!(read(&user), None);
        assert_eq!(read(&AuthInfo::default()), None);
    }
}
