//! Driver: the watches that are open, and the switch that each of them listens to.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::record::RequestRecord;
use crate::bell::Bell;

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
    switch: Arc<Switch>,
    /// The end of the listener that it came by.
    stop: CancellationToken,
}

/// What a watch is told to do, and the bell that says that it was told.
#[derive(Debug)]
struct Switch {
    mode: Mutex<WatchMode>,
    bell: Arc<Bell>,
}

/// One watch's end of its switch; dropping it takes the watch off the list.
#[derive(Debug)]
pub(crate) struct WatchTap {
    switch: Arc<Switch>,
    sequence: u64,
    watches: OpenWatches,
}

impl OpenWatches {
    /// Puts a watch on the list. It ends with `stop`, once [`end_stopped`](Self::end_stopped) is told.
    pub(crate) fn open(
        &self,
        record: &RequestRecord,
        mode: WatchMode,
        stop: CancellationToken,
    ) -> WatchTap {
        let switch = Arc::new(Switch {
            mode: Mutex::new(mode),
            bell: Arc::default(),
        });
        let entry = Entry {
            record: record.clone(),
            switch: Arc::clone(&switch),
            stop,
        };
        let mut open = self.open.lock();
        // Whoever stopped it in the meantime did not find it here.
        if entry.stop.is_cancelled() {
            entry.switch.turn(WatchMode::Cut);
        }
        open.insert(record.sequence, entry);
        WatchTap {
            switch,
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
            if !entry.stop.is_cancelled() {
                entry.switch.turn(mode);
            }
            switched += 1;
        }
        switched
    }

    /// Ends the watches whose listener has stopped, the silent ones too. Watches do not look at what
    /// all of them share: a thousand of them would do so at each event.
    pub(crate) fn end_stopped(&self) {
        for entry in self.open.lock().values() {
            if entry.stop.is_cancelled() {
                entry.switch.turn(WatchMode::Cut);
            }
        }
    }
}

impl Switch {
    fn turn(&self, mode: WatchMode) {
        *self.mode.lock() = mode;
        self.bell.ring();
    }
}

impl WatchTap {
    /// What the watch is to do now.
    pub(crate) fn mode(&self) -> WatchMode {
        *self.switch.mode.lock()
    }

    /// Is rung when the switch is turned. The watch hangs it up for changes as well.
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.switch.bell
    }
}

impl Drop for WatchTap {
    fn drop(&mut self) {
        self.watches.open.lock().remove(&self.sequence);
    }
}
