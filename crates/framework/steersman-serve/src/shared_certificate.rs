//! Handle: a certificate in memory that a program can replace while its servers run.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::certificate::PemPair;
use crate::error::Error;

/// A certificate chain and its key in memory. Servers use it from their next handshake on. Cheap to clone; clones share
/// the certificate.
///
/// A server with [`TlsOptions::shared`](crate::TlsOptions::shared) can listen without a certificate; until the first
/// one is set, its handshakes fail. Each handshake uses the certificate that was set last (CERT-5).
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
#[derive(Clone, Default, derive_more::Debug)]
#[debug("SharedCertificate {{ is_set: {:?} }}", self.is_set())]
#[must_use]
pub struct SharedCertificate {
    pair: Arc<Mutex<Option<Arc<PemPair>>>>,
}

impl SharedCertificate {
    /// Makes a handle that has no certificate yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the certificate by a PEM chain, which starts with the certificate of the server, and its PEM key. Open
    /// connections keep the former certificate.
    ///
    /// # Errors
    ///
    /// [`Error::Certificate`] if the chain or the key is not PEM, or they do not belong together. The former
    /// certificate stays in use.
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

    /// Returns whether a certificate was set.
    pub fn is_set(&self) -> bool {
        self.pair.lock().is_some()
    }

    pub(crate) fn pair(&self) -> Option<Arc<PemPair>> {
        self.pair.lock().clone()
    }
}

/// The origin of the certificate in errors and logs.
pub(crate) const PLACE: &str = "the program itself";
