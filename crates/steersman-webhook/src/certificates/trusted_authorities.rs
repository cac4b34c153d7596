//! Handle: the authorities that API servers have to trust, which the leader of a process publishes.

use std::sync::Arc;

use tokio::sync::watch;

/// The authorities of a built-in authority, as PEM. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct TrustedAuthorities(Arc<watch::Sender<Option<String>>>);

impl TrustedAuthorities {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Publishes the authorities.
    pub(crate) fn publish(&self, pem: &str) {
        self.0.send_if_modified(|former| {
            let is_new = former.as_deref() != Some(pem);
            *former = Some(pem.to_owned());
            is_new
        });
    }

    pub(crate) fn receiver(&self) -> AuthoritiesReceiver {
        self.0.subscribe()
    }
}

/// Receives the authorities: `None` until there are some.
pub type AuthoritiesReceiver = watch::Receiver<Option<String>>;
