//! Handle: the authorities that API servers have to trust, which the leader of a process publishes.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The authorities of a built-in authority, as PEM. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct TrustedAuthorities {
    pem: Arc<watch::Sender<Option<String>>>,
    /// Cancelled at the end of the leader's first round.
    injected: CancellationToken,
}

impl TrustedAuthorities {
    pub(crate) fn new() -> Self {
        Self {
            pem: Arc::new(watch::Sender::new(None)),
            injected: CancellationToken::new(),
        }
    }

    /// Publishes the authorities.
    pub(crate) fn publish(&self, pem: &str) {
        self.pem.send_if_modified(|former| {
            let is_new = former.as_deref() != Some(pem);
            *former = Some(pem.to_owned());
            is_new
        });
    }

    pub(crate) fn receiver(&self) -> AuthoritiesReceiver {
        self.pem.subscribe()
    }

    /// Notes the end of a round of the leader.
    pub(crate) fn end_round(&self) {
        self.injected.cancel();
    }

    /// Waits until the leader's first round has ended. Cancel safe.
    pub(crate) async fn injected(&self) {
        self.injected.cancelled().await;
    }
}

/// Receives the authorities: `None` until there are some.
pub type AuthoritiesReceiver = watch::Receiver<Option<String>>;
