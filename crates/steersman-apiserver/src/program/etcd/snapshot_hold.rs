//! Machine: the snapshot of one kube-apiserver, and the attachment that may read and write it.

use bytes::Bytes;

/// The snapshot, and the kube-apiserver that is attached.
#[derive(Debug, Default)]
pub(super) struct SnapshotHold {
    text: Option<Bytes>,
    holder: Option<Holder>,
}

#[derive(Debug)]
struct Holder {
    attachment: u64,
    description: String,
}

impl SnapshotHold {
    /// Creates a hold with the snapshot of an earlier process.
    pub(super) fn new(text: Option<Bytes>) -> Self {
        Self { text, holder: None }
    }

    /// Attaches a kube-apiserver under a number (SRV-ETCD-1).
    ///
    /// # Errors
    /// The description of the one that is attached.
    pub(super) fn attach(&mut self, attachment: u64, description: &str) -> Result<(), String> {
        if let Some(holder) = &self.holder {
            return Err(holder.description.clone());
        }
        self.holder = Some(Holder {
            attachment,
            description: description.to_owned(),
        });
        Ok(())
    }

    /// Ends an attachment. Nothing happens if another one has begun.
    pub(super) fn release(&mut self, attachment: u64) {
        if self.is_current(attachment) {
            self.holder = None;
        }
    }

    /// Returns whether a kube-apiserver is attached.
    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// Returns whether the attachment with this number lasts.
    pub(super) fn is_current(&self, attachment: u64) -> bool {
        let holder = self.holder.as_ref();
        holder.is_some_and(|holder| holder.attachment == attachment)
    }

    /// Returns the snapshot, if there is one.
    pub(super) fn text(&self) -> Option<Bytes> {
        self.text.clone()
    }

    /// Replaces the snapshot.
    pub(super) fn replace(&mut self, text: Bytes) {
        self.text = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SRV-ETCD-1.
    #[test]
    fn one_server_at_a_time_is_attached() {
        let mut hold = SnapshotHold::new(None);
        assert!(!hold.is_held());
        hold.attach(1, "process 7").unwrap();
        assert_eq!(hold.attach(2, "process 8").unwrap_err(), "process 7");
        assert!(hold.is_current(1) && !hold.is_current(2));

        hold.release(2);
        assert!(hold.is_held());
        hold.release(1);
        hold.attach(3, "process 8").unwrap();
        hold.release(1);
        assert!(hold.is_current(3));
    }

    #[test]
    fn the_snapshot_outlives_the_attachment() {
        let mut hold = SnapshotHold::new(Some(Bytes::from_static(b"a")));
        hold.attach(1, "process 7").unwrap();
        hold.replace(Bytes::from_static(b"b"));
        hold.release(1);
        assert_eq!(hold.text().as_deref(), Some(b"b".as_slice()));
    }
}
