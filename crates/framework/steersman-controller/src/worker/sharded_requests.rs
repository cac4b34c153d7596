//! Driver: admits the requests of the objects that this replica owns, and holds those back that it cannot work on yet.

use std::collections::HashSet;
use std::mem::take;

use parking_lot::Mutex;
use steersman_shards::{ShardEntry, ShardGate, ShardPermit};
use steersman_workqueue::Queue;
use tokio::sync::Notify;
use tokio::time::{Duration, sleep};

use crate::request::{RequestKey, requested_object};
use crate::watch::PumpEnd;

/// The requests of one controller in a group of replicas that share the work.
pub(crate) struct ShardedRequests<R> {
    /// `None` without shards: every request is admitted.
    gate: Option<ShardGate>,
    /// The requests of owned objects on which this replica cannot work yet.
    held: Mutex<HashSet<R>>,
    /// Wakes the task that passes held requests on.
    is_held: Notify,
}

/// The pause between two looks at requests that are held back.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The answer to a request.
pub(crate) enum Admission {
    /// The reconcile may run; the permit is `None` if the request is about no object, or without shards.
    Reconcile(Option<ShardPermit>),
    /// The request runs when this replica may work on its object.
    Hold,
    /// Another replica owns the object.
    Foreign,
}

impl<R: RequestKey> ShardedRequests<R> {
    pub(crate) fn new(gate: Option<ShardGate>) -> Self {
        Self {
            gate,
            held: Mutex::default(),
            is_held: Notify::new(),
        }
    }

    /// SHARD-1: asks whether a reconcile of the request may run. The permit is held while it runs.
    pub(crate) fn admit(&self, request: &R) -> Admission {
        let object = requested_object(request);
        let (Some(gate), Some((_, key))) = (&self.gate, object) else {
            return Admission::Reconcile(None);
        };
        match gate.enter(key) {
            ShardEntry::Open(permit) => Admission::Reconcile(Some(permit)),
            ShardEntry::Waiting => Admission::Hold,
            ShardEntry::Foreign => Admission::Foreign,
        }
    }

    /// Holds a request back. The slot may have opened since the request was refused, so it is asked once more.
    pub(crate) fn hold(&self, request: R, queue: &Queue<R>) {
        self.held.lock().insert(request.clone());
        self.is_held.notify_one();
        if !matches!(self.admit(&request), Admission::Hold) {
            self.held.lock().remove(&request);
            queue.add(request);
        }
    }

    /// Passes requests that were held back to the queue when slots open. Never ends by itself.
    pub(crate) async fn release(&self, queue: Queue<R>) -> PumpEnd {
        let Some(gate) = &self.gate else {
            return std::future::pending().await;
        };
        let mut open = gate.open();
        loop {
            let has_held = !self.held.lock().is_empty();
            tokio::select! {
                biased;
                // The gate lives as long as this value, so the wait cannot fail.
                _ = open.changed() => {}
                // A request that came after the renew deadline, and before a late renewal, sees no slot open.
                () = sleep(BETWEEN_LOOKS), if has_held => {}
                () = self.is_held.notified(), if !has_held => continue,
            }
            let held = take(&mut *self.held.lock());
            // A request that still waits is held again by the worker that takes it.
            for request in held {
                queue.add(request);
            }
        }
    }
}
