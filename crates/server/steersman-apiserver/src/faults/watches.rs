//! Driver: the open watches, and the switch that commands each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::record::RequestRecord;
use crate::watch_wakers::WatchWaker;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    Live,
    /// Stays open and silent.
    Silent,
    /// Ends as if the server had closed it.
    Cut,
    /// Sends the events so far and a last bookmark, and ends, because its listener stops.
    Stopped,
    /// Ends with an `ERROR` event of 410.
    Expired,
    /// Ends with an error in the middle of the stream.
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
    /// Stops the listener through which the watch arrived.
    stop: CancellationToken,
}

#[derive(Debug)]
struct Switch {
    mode: Mutex<WatchMode>,
    waker: Arc<WatchWaker>,
}

/// Reads the mode of a watch. Dropping the tap removes the watch from the list.
#[derive(Debug)]
pub(crate) struct WatchTap {
    switch: Arc<Switch>,
    sequence: u64,
    watches: OpenWatches,
}

impl OpenWatches {
    /// Adds a watch, which ends with `stop` once [`end_stopped`](Self::end_stopped) is called.
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
        // If `stop` was cancelled in the meantime, `end_stopped` did not see this entry.
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

    /// Ends the watches of stopped listeners, silent ones too. Watches do not poll a shared token
    /// themselves, because a thousand watches would do so at each event.
    pub(crate) fn end_stopped(&self) {
        for entry in self.open.lock().values() {
            if entry.stop.is_cancelled() {
                entry.switch.stop();
            }
        }
    }
}

impl Switch {
    fn turn(&self, mode: WatchMode) {
        *self.mode.lock() = mode;
        self.waker.wake();
    }

    /// Ends the watch because its listener stops. A silent watch ends without its events.
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

    /// Returns the waker for changes of the mode, and of the storage once it is subscribed.
    pub(crate) fn waker(&self) -> &Arc<WatchWaker> {
        &self.switch.waker
    }
}

impl Drop for WatchTap {
    fn drop(&mut self) {
        self.watches.open.lock().remove(&self.sequence);
    }
}
