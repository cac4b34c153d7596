//! Driver: the watches that are open, and the switch that each of them listens to.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::record::RequestRecord;

/// What an open watch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    /// Delivers events.
    Live,
    /// Stays open and says nothing.
    Silent,
    /// Ends as if the server had closed it.
    Cut,
    /// Ends with an `ERROR` event of 410.
    Expired,
    /// Ends with an error in the middle of the stream.
    Broken,
}

/// Every open watch. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenWatches {
    open: Arc<Mutex<BTreeMap<u64, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    record: RequestRecord,
    mode: watch::Sender<WatchMode>,
}

/// One watch's end of its switch; dropping it takes the watch off the list.
#[derive(Debug)]
pub(crate) struct WatchTap {
    mode: watch::Receiver<WatchMode>,
    sequence: u64,
    watches: OpenWatches,
}

impl OpenWatches {
    /// Puts a watch on the list.
    pub(crate) fn open(&self, record: &RequestRecord, mode: WatchMode) -> WatchTap {
        let sender = watch::Sender::new(mode);
        let receiver = sender.subscribe();
        let entry = Entry {
            record: record.clone(),
            mode: sender,
        };
        self.open.lock().insert(record.sequence, entry);
        WatchTap {
            mode: receiver,
            sequence: record.sequence,
            watches: self.clone(),
        }
    }

    /// How many watches fit.
    pub(crate) fn count(&self, condition: impl Fn(&RequestRecord) -> bool) -> usize {
        self.open
            .lock()
            .values()
            .filter(|entry| condition(&entry.record))
            .count()
    }

    /// Switches the watches that fit, and says how many did.
    pub(crate) fn switch(
        &self,
        mode: WatchMode,
        condition: impl Fn(&RequestRecord) -> bool,
    ) -> usize {
        let open = self.open.lock();
        let mut switched = 0;
        for entry in open.values().filter(|entry| condition(&entry.record)) {
            entry.mode.send_replace(mode);
            switched += 1;
        }
        switched
    }
}

impl WatchTap {
    /// What the watch is to do now. Marks it as seen.
    pub(crate) fn mode(&mut self) -> WatchMode {
        *self.mode.borrow_and_update()
    }

    /// Waits for the switch to be turned.
    pub(crate) async fn turned(&mut self) {
        if self.mode.changed().await.is_err() {
            // The entry, and with it the sender, stays until this tap is dropped.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for WatchTap {
    fn drop(&mut self) {
        self.watches.open.lock().remove(&self.sequence);
    }
}
