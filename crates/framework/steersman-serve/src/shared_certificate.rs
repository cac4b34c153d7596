//! Handle: a certificate in memory that a program replaces while its servers run.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::certificate::PemPair;
use crate::error::Error;

/// A certificate chain and its key in memory, which servers present from their next handshake on. Cheap to clone;
/// the clones share one certificate.
///
/// A server of [`TlsOptions::shared`](crate::TlsOptions::shared) listens before there is a certificate, and until
/// then its handshakes fail. Each handshake uses the certificate that was set last (CERT-5).
///
/// ```
/// use steersman_serve::{ServerOptions, SharedCertificate, TlsOptions};
///
/// let certificate = SharedCertificate::new();
/// let options = ServerOptions::new().tls(TlsOptions::shared(certificate.clone()));
/// assert!(!certificate.is_set());
/// assert!(certificate.set("no PEM", "no PEM").is_err());
/// # let _ = options;
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct SharedCertificate {
    pair: Arc<Mutex<Option<Arc<PemPair>>>>,
}

impl SharedCertificate {
    /// Makes a handle without a certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the certificate: a chain that begins with the certificate of the server, and the key of that
    /// certificate, both in PEM. Open connections go on with the former certificate.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] if the chain or the key is no PEM, or the key does not belong to the certificate. The
    /// former certificate stays in use.
    pub fn set(&self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<(), Error> {
        let pair = PemPair {
            chain: chain.as_ref().to_vec(),
            key: key.as_ref().to_vec(),
            client_authorities: None,
        };
        let checked = pair.server_config(false);
        checked.map_err(|problem| Error::Certificate {
            place: PLACE.to_owned(),
            problem,
        })?;
        let mut current = self.pair.lock();
        if current.as_deref() != Some(&pair) {
            *current = Some(Arc::new(pair));
        }
        Ok(())
    }

    /// Returns whether there is a certificate.
    pub fn is_set(&self) -> bool {
        self.pair.lock().is_some()
    }

    pub(crate) fn pair(&self) -> Option<Arc<PemPair>> {
        self.pair.lock().clone()
    }
}

/// The origin of the certificate in errors and logs.
pub(crate) const PLACE: &str = "the program itself";

impl fmt::Debug for SharedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCertificate")
            .field("is_set", &self.is_set())
            .finish()
    }
}
