//! Handle: shares the authorities, and whether API servers can call the webhooks, between the loops of a process.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The authorities of a built-in authority, as PEM. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedAuthorities {
    pub(crate) pem: Arc<watch::Sender<Option<String>>>,
    /// Cancelled at the end of the leader's first round.
    injected: CancellationToken,
    /// Cancelled when the servers have a certificate.
    pub(crate) presented: CancellationToken,
    round_ended: Arc<Notify>,
}

impl TrustedAuthorities {
    pub(crate) fn publish(&self, pem: &str) {
        self.pem.send_if_modified(|former| {
            let is_new = former.as_deref() != Some(pem);
            *former = Some(pem.to_owned());
            is_new
        });
    }

    pub(crate) fn end_round(&self) {
        self.injected.cancel();
        self.round_ended.notify_waiters();
    }

    /// Waits until the leader finishes its next round. Cancel safe.
    pub(crate) async fn round_ended(&self) {
        self.round_ended.notified().await;
    }

    /// Waits until the leader has finished its first round and the servers have a certificate. Cancel safe.
    pub(crate) async fn usable(&self) {
        self.injected.cancelled().await;
        self.presented.cancelled().await;
    }
}

/// Receives the authorities in PEM; the value is `None` until the authorities are known.
pub type AuthoritiesReceiver = watch::Receiver<Option<String>>;
