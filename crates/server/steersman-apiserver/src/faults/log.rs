//! Handle: the log of requests, which tests query.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::record::{RequestRecord, Verb};

/// The requests that the server received, oldest first. Cheap to clone; clones share one log.
///
/// Bounded: beyond its capacity the oldest records are dropped and counted by [`RequestLog::forgotten`].
#[derive(Debug, Clone)]
pub struct RequestLog {
    shared: Arc<SharedLog>,
}

#[derive(Debug)]
struct SharedLog {
    state: Mutex<RequestLogState>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct RequestLogState {
    records: VecDeque<RequestRecord>,
    capacity: usize,
    next: u64,
    forgotten: u64,
}

impl RequestLog {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = Mutex::new(RequestLogState {
            capacity,
            ..RequestLogState::default()
        });
        let changed = watch::Sender::new(0);
        let shared = Arc::new(SharedLog { state, changed });
        Self { shared }
    }

    /// Records a request that arrived, and sets its `sequence`, the number of the request.
    pub(crate) fn begin(&self, record: &mut RequestRecord) {
        let mut state = self.shared.state.lock();
        record.sequence = state.next;
        state.next += 1;
        state.records.push_back(record.clone());
        while state.records.len() > state.capacity {
            state.records.pop_front();
            state.forgotten += 1;
        }
        drop(state);
        self.shared.changed.send_modify(|version| *version += 1);
    }

    pub(crate) fn finish(&self, sequence: u64, status: u16, created: Option<&str>) {
        let mut state = self.shared.state.lock();
        let records = &mut state.records;
        let found = records.binary_search_by_key(&sequence, |record| record.sequence);
        if let Some(record) = found.ok().and_then(|at| records.get_mut(at)) {
            record.status = Some(status);
            if let Some(created) = created {
                record.name = Some(created.to_owned());
            }
        }
        drop(state);
        self.shared.changed.send_modify(|version| *version += 1);
    }

    /// Returns a number that grows with each change of the log.
    pub(crate) fn version(&self) -> u64 {
        *self.shared.changed.borrow()
    }

    /// Returns a receiver that is notified of each change of the log.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Returns the request with this number; `None` if the log has dropped it or never had it.
    pub(crate) fn find(&self, sequence: u64) -> Option<RequestRecord> {
        let state = self.shared.state.lock();
        let records = &state.records;
        let found = records.binary_search_by_key(&sequence, |record| record.sequence);
        records.get(found.ok()?).cloned()
    }

    /// Returns the time of the newest request; `None` if the log has none.
    pub(crate) fn last_at(&self) -> Option<Timestamp> {
        let state = self.shared.state.lock();
        state.records.back().map(|record| record.at)
    }

    /// Shows every recorded request to `visit`, the newest first. `visit` runs under the log's lock.
    pub(crate) fn visit_newest_first(&self, mut visit: impl FnMut(&RequestRecord)) {
        let state = self.shared.state.lock();
        state.records.iter().rev().for_each(&mut visit);
    }

    /// Returns the number of recorded requests for which `condition` returns true.
    pub fn count(&self, condition: impl Fn(&RequestRecord) -> bool) -> usize {
        let state = self.shared.state.lock();
        let matching = state.records.iter().filter(|record| condition(record));
        matching.count()
    }

    /// Returns the recorded requests for which `condition` returns true, oldest first.
    pub fn matching(&self, condition: impl Fn(&RequestRecord) -> bool) -> Vec<RequestRecord> {
        let state = self.shared.state.lock();
        let matching = state.records.iter().filter(|record| condition(record));
        matching.cloned().collect()
    }

    /// Returns every recorded request, oldest first.
    pub fn all(&self) -> Vec<RequestRecord> {
        self.matching(|_| true)
    }

    /// Returns the number of lists of a resource; the later pages of a list do not count. See
    /// [`RequestRecord::is_for`] for how to write a resource.
    pub fn lists(&self, resource: &str) -> usize {
        self.count(|record| record.is_first_page() && record.is_for(resource))
    }

    /// Returns the number of watches of a resource, without those that stream the initial objects.
    pub fn watches(&self, resource: &str) -> usize {
        self.count(|record| {
            record.does(Verb::Watch) && !record.watch_list && record.is_for(resource)
        })
    }

    /// Returns the number of watches of a resource that stream the initial objects (WatchList).
    pub fn watch_lists(&self, resource: &str) -> usize {
        self.count(|record| {
            record.does(Verb::Watch) && record.watch_list && record.is_for(resource)
        })
    }

    /// Returns how many of the oldest records were dropped because the log was full.
    pub fn forgotten(&self) -> u64 {
        self.shared.state.lock().forgotten
    }

    /// Removes all records. The numbers of later requests continue after the last one.
    pub fn clear(&self) {
        self.shared.state.lock().records.clear();
    }

    /// Waits until at least `many` recorded requests meet a condition.
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn wait_for(&self, many: usize, condition: impl Fn(&RequestRecord) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while self.count(&condition) < many {
            // `self` holds the sender, so `changed()` cannot fail while `self` is borrowed.
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}
