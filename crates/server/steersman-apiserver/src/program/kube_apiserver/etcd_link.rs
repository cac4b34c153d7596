//! Driver: the connection of a kube-apiserver to its etcd: attaches, saves snapshots and appends to the log.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use steersman_apiserver::{ApiServer, WalGroup};

use crate::program::data::LOG_MIN;
use crate::program::etcd::{AppendConnection, AttachOutcome, Attachment, attach};
use crate::program::problem::{Outcome, ProgramProblem};

#[derive(Debug)]
pub(super) struct EtcdLink {
    pub(super) url: String,
    address: String,
    attachment: Mutex<Arc<Attachment>>,
    /// The size of the last snapshot, in bytes.
    snapshot_bytes: AtomicU64,
    /// The number of bytes of the transactions that were appended since the last snapshot was taken.
    log_bytes: AtomicU64,
}

impl EtcdLink {
    pub(super) fn new(url: &str, address: String, attachment: Attachment) -> Self {
        Self {
            url: url.to_owned(),
            address,
            attachment: Mutex::new(Arc::new(attachment)),
            snapshot_bytes: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
        }
    }

    /// Returns the attachment, with which this process alone uses the etcd. If the etcd has ended, returns the ended
    /// attachment, until `attach_again` succeeds.
    pub(super) fn attachment(&self) -> Arc<Attachment> {
        Arc::clone(&self.attachment.lock())
    }

    /// Returns whether the transactions since the last snapshot have become longer than the snapshot and than
    /// `LOG_MIN`, so that a new snapshot is due.
    pub(super) fn is_log_long(&self) -> bool {
        let limit = self.snapshot_bytes.load(Ordering::Relaxed).max(LOG_MIN);
        self.log_bytes.load(Ordering::Relaxed) > limit
    }

    pub(super) async fn save(&self, server: &ApiServer) -> Outcome {
        let snapshot = server.snapshot();
        let before = self.log_bytes.load(Ordering::Relaxed);
        let transactions = snapshot.transactions();
        let text = tokio::task::spawn_blocking(move || {
            let mut text = Vec::new();
            let written = snapshot.write(&mut text);
            written.map(|()| Bytes::from(text))
        });
        let text = text.await.map_err(|error| self.not_saved(error))?;
        let text = text.map_err(|error| self.not_saved(error))?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let written = self.attachment().write(transactions, text).await;
        written.map_err(|source| self.not_saved(source))?;
        self.snapshot_bytes.store(bytes, Ordering::Relaxed);
        // Saturates, because two saves that overlap both subtract the same bytes.
        let rest = |bytes: u64| Some(bytes.saturating_sub(before));
        let order = Ordering::Relaxed;
        let _ = self.log_bytes.fetch_update(order, order, rest);
        Ok(())
    }

    /// Attaches again if the etcd has ended, and returns whether it had: the new etcd then has an older state than this
    /// process.
    pub(super) async fn attach_again(&self) -> Outcome<bool> {
        if !self.attachment().has_ended() {
            return Ok(false);
        }
        match attach(&self.address).await {
            AttachOutcome::Attached(attachment, _) => {
                *self.attachment.lock() = Arc::new(attachment);
                Ok(true)
            }
            AttachOutcome::Held { by } => Err(ProgramProblem::Held {
                url: self.url.clone(),
                holder: by,
            }),
            AttachOutcome::Foreign { why } => Err(self.not_saved(why)),
            AttachOutcome::Unreachable(error) => Err(self.not_saved(error)),
        }
    }

    pub(super) async fn append(
        &self,
        connection: &mut Option<AppendConnection>,
        group: &WalGroup,
        payload: Bytes,
    ) -> Outcome {
        let bytes = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        let appended = self.attachment().append(connection, group, payload).await;
        appended.map_err(|source| self.not_saved(source))?;
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn not_saved(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> ProgramProblem {
        ProgramProblem::NotSaved {
            url: self.url.clone(),
            source: source.into(),
        }
    }
}
