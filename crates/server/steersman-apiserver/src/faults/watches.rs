//! Driver: the list of open watches, and for each a mode by which tests silence or end the watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::record::RequestRecord;
use crate::watch_wakers::WatchWaker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    Live,
    /// The watch stays open, but sends neither events nor bookmarks nor its end.
    Silent,
    /// The watch ends as if the server had closed it.
    Cut,
    /// The watch sends the events so far and a last bookmark, and ends, because its HTTPS listener stops.
    Stopped,
    /// The watch ends with an `ERROR` event of 410, as if the history after its last event were compacted.
    Expired,
    /// The watch ends with an error in the middle of its stream, as when the server restarts.
    Broken,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct OpenWatches {
    open: Arc<Mutex<BTreeMap<u64, LoggedWatch>>>,
}

#[derive(Debug)]
struct LoggedWatch {
    record: RequestRecord,
    switch: Arc<Switch>,
    /// Cancelled when the HTTPS listener that received the watch's request stops.
    stop: CancellationToken,
}

#[derive(Debug)]
struct Switch {
    mode: Mutex<WatchMode>,
    waker: Arc<WatchWaker>,
}

/// Tells the stream of a watch the mode that tests have set. Dropping this value removes the watch from the list.
#[derive(Debug)]
pub(crate) struct WatchTap {
    switch: Arc<Switch>,
    sequence: u64,
    watches: OpenWatches,
}

impl OpenWatches {
    /// Adds a watch. The first call of [`end_stopped`](Self::end_stopped) after `stop` was cancelled ends the watch.
    pub(crate) fn open(
        &self,
        record: &RequestRecord,
        mode: WatchMode,
        stop: CancellationToken,
    ) -> WatchTap {
        let switch = Arc::new(Switch {
            mode: Mutex::new(mode),
            waker: Arc::default(),
        });
        let entry = LoggedWatch {
            record: record.clone(),
            switch: Arc::clone(&switch),
            stop,
        };
        let mut open = self.open.lock();
        // If `stop` was cancelled already, `end_stopped` may have run without this watch, so the watch is ended here.
        if entry.stop.is_cancelled() {
            entry.switch.stop();
        }
        open.insert(record.sequence, entry);
        WatchTap {
            switch,
            sequence: record.sequence,
            watches: self.clone(),
        }
    }

    pub(crate) fn count(&self, condition: impl Fn(&RequestRecord) -> bool) -> usize {
        let open = self.open.lock();
        let matching = open.values().filter(|entry| condition(&entry.record));
        matching.count()
    }

    /// Returns the numbers of the requests of the open watches.
    pub(crate) fn sequences(&self) -> BTreeSet<u64> {
        self.open.lock().keys().copied().collect()
    }

    pub(crate) fn switch(
        &self,
        mode: WatchMode,
        condition: impl Fn(&RequestRecord) -> bool,
    ) -> usize {
        let open = self.open.lock();
        let mut switched = 0;
        for entry in open.values().filter(|entry| condition(&entry.record)) {
            if !entry.stop.is_cancelled() {
                entry.switch.turn(mode);
            }
            switched += 1;
        }
        switched
    }

    /// Ends the watches of stopped listeners, silenced ones too. The watches do not poll the `stop` token themselves,
    /// because each of a thousand watches would then poll the shared token at each event.
    pub(crate) fn end_stopped(&self) {
        for entry in self.open.lock().values() {
            if entry.stop.is_cancelled() {
                entry.switch.stop();
            }
        }
    }
}

impl Switch {
    /// Sets the mode, unless the watch is about to end: an end is final, even if no client has read it yet.
    fn turn(&self, mode: WatchMode) {
        let mut current = self.mode.lock();
        if matches!(*current, WatchMode::Live | WatchMode::Silent) {
            *current = mode;
        }
        drop(current);
        self.waker.wake();
    }

    /// Ends the watch because its listener stops. A live watch first sends the events so far, a silenced one does not.
    fn stop(&self) {
        let mode = *self.mode.lock();
        match mode {
            WatchMode::Live => self.turn(WatchMode::Stopped),
            WatchMode::Silent => self.turn(WatchMode::Cut),
            WatchMode::Cut | WatchMode::Stopped | WatchMode::Expired | WatchMode::Broken => {}
        }
    }
}

impl WatchTap {
    pub(crate) fn mode(&self) -> WatchMode {
        *self.switch.mode.lock()
    }

    /// Returns the waker of the watch's task. Changes of the mode wake it, and so do changes of objects once the waker
    /// is subscribed to the storage of the watch.
    pub(crate) fn waker(&self) -> &Arc<WatchWaker> {
        &self.switch.waker
    }
}

impl Drop for WatchTap {
    fn drop(&mut self) {
        self.watches.open.lock().remove(&self.sequence);
    }
}
