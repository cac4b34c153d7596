//! Machine: the snapshot of one kube-apiserver, the transactions after it, and the attached kube-apiserver, the only
//! one that may read and write both.

use bytes::Bytes;

use crate::program::data::SavedGroup;

#[derive(Debug, Default)]
pub(super) struct SnapshotHold {
    pub(super) text: Option<Bytes>,
    pub(super) in_snapshot: u64,
    pub(super) log: Vec<SavedGroup>,
    pub(super) holder: Option<Holder>,
}

/// How the transactions of an append relate to those that the etcd has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogPlace {
    Next,
    /// The etcd has the transactions already: an earlier answer was lost, or a snapshot includes the transactions.
    Held,
    /// Transactions before the appended ones are missing.
    Gap {
        held: u64,
    },
}

#[derive(Debug)]
pub(super) struct Holder {
    attachment: u64,
    description: String,
}

impl SnapshotHold {
    /// Lets one kube-apiserver, identified by a number, read and write the snapshot until it detaches (SRV-ETCD-1).
    ///
    /// # Errors
    /// The description of another kube-apiserver that is attached already.
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

    /// Detaches the kube-apiserver with this number. Does nothing if another one is attached.
    pub(super) fn release(&mut self, attachment: u64) {
        if self.is_current(attachment) {
            self.holder = None;
        }
    }

    pub(super) fn is_current(&self, attachment: u64) -> bool {
        let holder = self.holder.as_ref();
        holder.is_some_and(|holder| holder.attachment == attachment)
    }

    pub(super) fn log_text(&self) -> Bytes {
        let payloads: Vec<&[u8]> = self.log.iter().map(|group| &*group.payload).collect();
        payloads.concat().into()
    }

    /// Replaces the snapshot by `text`, which includes the transactions up to number `transactions`. These transactions
    /// are removed from the log.
    pub(super) fn replace(&mut self, text: Bytes, transactions: u64) {
        self.text = Some(text);
        self.in_snapshot = transactions;
        self.log.retain(|group| group.last > transactions);
    }

    /// Returns whether the snapshot includes transactions after number `transactions`, so that a snapshot that ends
    /// there must not replace it.
    pub(super) fn is_newer_than(&self, transactions: u64) -> bool {
        self.text.is_some() && self.in_snapshot > transactions
    }

    /// Returns whether the transactions `first` to `last` follow those that the etcd has, or are among them (WAL-2).
    pub(super) fn place(&self, first: u64, last: u64) -> LogPlace {
        let held = self.log.last().map_or(self.in_snapshot, |group| group.last);
        let held = held.max(self.in_snapshot);
        if self.text.is_some() && last <= held {
            LogPlace::Held
        } else if self.text.is_some() && first == held + 1 {
            LogPlace::Next
        } else {
            LogPlace::Gap { held }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(last: u64, payload: &'static [u8]) -> SavedGroup {
        let payload = Bytes::from_static(payload);
        SavedGroup { last, payload }
    }

    // SRV-ETCD-1: at most one kube-apiserver at a time reads and writes the state of an etcd.
    #[test]
    fn one_server_at_a_time_is_attached() {
        let mut hold = SnapshotHold::default();
        assert!(hold.holder.is_none());
        hold.attach(1, "process 7").unwrap();
        assert_eq!(hold.attach(2, "process 8").unwrap_err(), "process 7");
        assert!(hold.is_current(1) && !hold.is_current(2));

        hold.release(2);
        assert!(hold.holder.is_some());
        hold.release(1);
        hold.attach(3, "process 8").unwrap();
        hold.release(1);
        assert!(hold.is_current(3));
    }

    #[test]
    fn the_snapshot_outlives_the_attachment() {
        let mut hold = SnapshotHold {
            text: Some(Bytes::from_static(b"a")),
            ..SnapshotHold::default()
        };
        hold.attach(1, "process 7").unwrap();
        hold.replace(Bytes::from_static(b"b"), 0);
        hold.release(1);
        assert_eq!(hold.text.as_deref(), Some(b"b".as_slice()));
    }

    // WAL-2: a log is replayed to its last complete append, or not at all.
    #[test]
    fn transactions_are_held_without_a_gap() {
        let mut hold = SnapshotHold::default();
        assert_eq!(hold.place(1, 1), LogPlace::Gap { held: 0 }, "no snapshot");
        hold.replace(Bytes::from_static(b"a"), 4);
        assert_eq!(hold.place(6, 6), LogPlace::Gap { held: 4 });
        assert_eq!(hold.place(3, 4), LogPlace::Held);
        assert_eq!(hold.place(5, 7), LogPlace::Next);
        hold.log.push(group(7, b"5\n6\n7\n"));
        assert_eq!(hold.place(5, 7), LogPlace::Held);
        assert_eq!(hold.place(8, 8), LogPlace::Next);
        hold.log.push(group(8, b"8\n"));
        assert_eq!(&*hold.log_text(), b"5\n6\n7\n8\n");

        hold.replace(Bytes::from_static(b"b"), 7);
        assert_eq!(&*hold.log_text(), b"8\n");
        assert!(hold.is_newer_than(6) && !hold.is_newer_than(7));
        hold.replace(Bytes::from_static(b"c"), 9);
        assert_eq!(
            (&*hold.log_text(), hold.place(10, 10)),
            (&b""[..], LogPlace::Next)
        );
    }
}
