//! Driver: the delta queue as a channel: the sender waits for room, and the receiver for deltas.

use std::sync::Arc;

use parking_lot::Mutex;
use steersman_api::clock::now;
use tokio::sync::Notify;

use crate::delta::Delta;
use crate::metrics::Counters;
use crate::queue::{DeltaQueue, QueueBounds, Queued};
use crate::reflector::driver::DeltaSink;

struct Channel {
    queue: Mutex<DeltaQueue>,
    filled: Notify,
    drained: Notify,
}

/// The end of the channel that the reflector holds. Dropping it closes the channel.
pub(crate) struct Sender {
    channel: Arc<Channel>,
    counters: Counters,
}

/// The end of the channel that the store's task holds.
pub(crate) struct Receiver {
    channel: Arc<Channel>,
}

/// Reads the number of waiting deltas. Unlike a [`Sender`], it does not keep the channel open.
#[derive(Clone)]
pub(crate) struct QueueLength(Arc<Channel>);

pub(crate) fn channel(bounds: QueueBounds, counters: Counters) -> (Sender, Receiver) {
    let channel = Arc::new(Channel {
        queue: Mutex::new(DeltaQueue::new(bounds)),
        filled: Notify::new(),
        drained: Notify::new(),
    });
    let sender = Sender {
        channel: Arc::clone(&channel),
        counters,
    };
    (sender, Receiver { channel })
}

impl DeltaSink for Sender {
    async fn send(&self, delta: Delta) {
        let since = now();
        if let Some(gauges) = self.counters.gauges() {
            match &delta {
                Delta::Bookmark { .. } => gauges.note_bookmark(since),
                _ => gauges.note_event(since),
            }
            gauges.enqueue();
        }
        let mut queued = Queued::new(delta, since);
        loop {
            let pushed = self.channel.queue.lock().push(queued);
            match pushed {
                None => break self.channel.filled.notify_one(),
                Some(refused) => queued = refused,
            }
            // `Notify` stores a permit, so room that was made before this wait is noticed.
            self.channel.drained.notified().await;
        }
    }
}

impl Sender {
    pub(crate) fn length(&self) -> QueueLength {
        QueueLength(Arc::clone(&self.channel))
    }
}

impl QueueLength {
    pub(crate) fn get(&self) -> usize {
        self.0.queue.lock().len()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.channel.queue.lock().closed = true;
        self.channel.filled.notify_one();
    }
}

impl Receiver {
    /// Waits for deltas and takes all of them; `None` once the channel is closed and empty.
    pub(crate) async fn recv_batch(&self) -> Option<Vec<Queued>> {
        loop {
            let (batch, closed) = {
                let mut queue = self.channel.queue.lock();
                (queue.pop_batch(), queue.closed)
            };
            if !batch.is_empty() {
                self.channel.drained.notify_one();
                return Some(batch);
            }
            if closed {
                return None;
            }
            self.channel.filled.notified().await;
        }
    }
}
