//! Driver: one end pushes deltas and waits for room, the other takes batches and waits for work.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::queue::{Bounds, Queue, Queued};

struct Shared {
    queue: Mutex<Queue>,
    filled: Notify,
    drained: Notify,
}

/// The reflector's end; dropping it lets the other end finish.
pub(crate) struct Sender {
    shared: Arc<Shared>,
}

/// The store's end.
pub(crate) struct Receiver {
    shared: Arc<Shared>,
}

pub(crate) fn channel(bounds: Bounds) -> (Sender, Receiver) {
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue::new(bounds)),
        filled: Notify::new(),
        drained: Notify::new(),
    });
    let sender = Sender {
        shared: Arc::clone(&shared),
    };
    (sender, Receiver { shared })
}

impl Sender {
    /// Hands a delta over, once there is room for it.
    pub(crate) async fn send(&self, delta: Queued) {
        let mut delta = delta;
        loop {
            let pushed = self.shared.queue.lock().push(delta);
            match pushed {
                None => break self.shared.filled.notify_one(),
                Some(refused) => delta = refused,
            }
            // A permit is kept where room was made since, so no wake-up is lost.
            self.shared.drained.notified().await;
        }
    }

    /// How many deltas wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.queue.lock().len()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.queue.lock().close();
        self.shared.filled.notify_one();
    }
}

impl Receiver {
    /// All that waits, once something does; `None` when nothing will come any more.
    pub(crate) async fn recv_batch(&self) -> Option<Vec<Queued>> {
        loop {
            let (batch, closed) = {
                let mut queue = self.shared.queue.lock();
                (queue.pop_batch(), queue.is_closed())
            };
            if !batch.is_empty() {
                self.shared.drained.notify_one();
                return Some(batch);
            }
            if closed {
                return None;
            }
            self.shared.filled.notified().await;
        }
    }
}
