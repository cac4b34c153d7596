//! Words: the certificate with which a client configuration names its user.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_client::config::AuthInfo;

/// The present client certificate with which a client configuration names its user to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The location of the certificate: a file, or the kubeconfig itself.
    pub place: String,
    /// The certificate and the certificates of its signers, in PEM.
    pub chain: Vec<u8>,
}

impl ClientCertificate {
    /// Reads the client certificate of a user; `None` if the user has none, or gets it from a credential plugin.
    /// Blocks.
    pub(crate) fn read(user: &AuthInfo, credentials: Option<&str>) -> Option<io::Result<Self>> {
        if let Some(data) = &user.client_certificate_data {
            let chain = STANDARD.decode(data.trim()).map_err(io::Error::other);
            let place = credentials.unwrap_or("the configuration").to_owned();
            return Some(chain.map(|chain| Self { place, chain }));
        }
        let place = user.client_certificate.clone()?;
        let chain = std::fs::read(&place);
        Some(chain.map(|chain| Self { place, chain }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_read_where_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.crt");
        let read = |user: &AuthInfo| {
            let read = ClientCertificate::read(user, Some("the user \"a\""))?;
            Some(
                read.ok()
                    .map(|one| (one.place, String::from_utf8(one.chain).unwrap())),
            )
        };
        let mut user = AuthInfo {
            client_certificate: Some(file.display().to_string()),
            ..AuthInfo::default()
        };
        // A missing file may appear later, so it is no lasting error.
        assert_eq!(read(&user), Some(None));
        std::fs::write(&file, "of a file").unwrap();
        let of_file = (file.display().to_string(), "of a file".to_owned());
        assert_eq!(read(&user), Some(Some(of_file)));
        // As in client-go, the inline data wins over the file.
        user.client_certificate_data = Some(STANDARD.encode("of the kubeconfig"));
        let inline = ("the user \"a\"".to_owned(), "of the kubeconfig".to_owned());
        assert_eq!(read(&user), Some(Some(inline)));
        user.client_certificate_data = Some("no base64!".to_owned());
        assert_eq!(read(&user), Some(None));
        assert_eq!(read(&AuthInfo::default()), None);
    }
}
