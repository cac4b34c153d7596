//! Machine: the deltas that wait for the store, in the order they came, and how many may.

pub(crate) mod channel;

use std::collections::VecDeque;
use std::time::Instant;

use crate::delta::Delta;

/// A delta, and when it came.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) delta: Delta,
    pub(crate) since: Instant,
}

/// Deltas in arrival order; nothing is coalesced, and a relist is one element (QUEUE-1).
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Queued>,
    bound: usize,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            bound: bound.max(1),
            closed: false,
        }
    }

    /// Takes a delta, or gives it back where the bound is reached.
    #[must_use = "it may be given back"]
    pub(crate) fn push(&mut self, delta: Queued) -> Option<Queued> {
        if self.waiting.len() >= self.bound {
            return Some(delta);
        }
        self.waiting.push_back(delta);
        None
    }

    /// Takes all that waits; empty where nothing does.
    pub(crate) fn pop_batch(&mut self) -> Vec<Queued> {
        self.waiting.drain(..).collect()
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use steersman_object::ResourceVersion;

    use super::*;

    fn bookmark(n: u32) -> Queued {
        let version = ResourceVersion::new(n.to_string());
        Queued {
            delta: Delta::Bookmark { version },
            since: tokio::time::Instant::now().into_std(),
        }
    }

    fn versions(batch: Vec<Queued>) -> Vec<String> {
        batch
            .into_iter()
            .map(|queued| match queued.delta {
                Delta::Bookmark { version } => version.to_string(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    // QUEUE-1
    #[test]
    fn deltas_leave_in_arrival_order_and_past_the_bound_they_are_given_back() {
        let mut queue = Queue::new(2);
        assert!(queue.push(bookmark(1)).is_none());
        assert!(queue.push(bookmark(2)).is_none());
        let third = queue.push(bookmark(3)).unwrap();
        assert_eq!(versions(queue.pop_batch()), ["1", "2"]);
        assert!(queue.push(third).is_none());
        assert_eq!(versions(queue.pop_batch()), ["3"]);
        assert!(queue.pop_batch().is_empty());
    }
}
