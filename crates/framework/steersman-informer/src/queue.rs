//! Machine: the deltas that wait for the store, in order and within bounds.

pub(crate) mod channel;

use std::collections::VecDeque;
use std::time::Instant;

use crate::delta::Delta;

/// A delta with its size and its time of arrival.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) delta: Delta,
    pub(crate) since: Instant,
    bytes: usize,
}

/// The bounds of a delta queue: the number of deltas, and their size in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueBounds {
    pub(crate) deltas: usize,
    pub(crate) bytes: usize,
}

/// Deltas in order of arrival. Nothing is coalesced, and a relist is one element (QUEUE-1).
#[derive(Debug, Default)]
pub(crate) struct DeltaQueue {
    waiting: VecDeque<Queued>,
    /// The size of all waiting deltas, in bytes.
    bytes: usize,
    bounds: QueueBounds,
    pub(crate) closed: bool,
}

impl Queued {
    pub(crate) fn new(delta: Delta, since: Instant) -> Self {
        Self {
            // The size is computed once, because a full queue may return the delta several times.
            bytes: delta.bytes(),
            delta,
            since,
        }
    }
}

impl DeltaQueue {
    pub(crate) fn new(bounds: QueueBounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// Appends a delta; returns it if the queue is full.
    ///
    /// QUEUE-2: an empty queue accepts a delta of any size, because a delta beyond the bound would never pass.
    #[must_use = "a full queue returns the delta"]
    pub(crate) fn push(&mut self, delta: Queued) -> Option<Queued> {
        let bytes = self.bytes.saturating_add(delta.bytes);
        let is_full = self.waiting.len() >= self.bounds.deltas || bytes > self.bounds.bytes;
        if is_full && !self.waiting.is_empty() {
            return Some(delta);
        }
        self.bytes = bytes;
        self.waiting.push_back(delta);
        None
    }

    pub(crate) fn pop_batch(&mut self) -> Vec<Queued> {
        self.bytes = 0;
        self.waiting.drain(..).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_api::Decoded;
    use steersman_object::ResourceVersion;

    use super::*;
    use crate::entry::Entry;
    use crate::shard_filter::slot_ledger::ListSlots;

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn bookmark(n: u32) -> Queued {
        let version = ResourceVersion::new(n.to_string());
        Queued::new(Delta::Bookmark { version }, now())
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
    fn deltas_leave_in_order_of_arrival_and_a_full_queue_returns_them() {
        let mut queue = DeltaQueue::new(QueueBounds {
            deltas: 2,
            bytes: usize::MAX,
        });
        assert!(queue.push(bookmark(1)).is_none());
        assert!(queue.push(bookmark(2)).is_none());
        let third = queue.push(bookmark(3)).unwrap();
        assert_eq!(versions(queue.pop_batch()), ["1", "2"]);
        assert!(queue.push(third).is_none());
        assert_eq!(versions(queue.pop_batch()), ["3"]);
        assert!(queue.pop_batch().is_empty());
    }

    // QUEUE-1
    #[test]
    fn a_relist_is_one_element_of_any_size_and_no_delta_overtakes_it() {
        let relist = || {
            let Delta::Put(item) = map(10).delta else {
                unreachable!()
            };
            let replaced = Delta::Replaced {
                version: ResourceVersion::new("2"),
                items: std::iter::repeat_n(item, 1000).collect(),
                projection: steersman_api::Projection::Whole,
                relists: 0,
                slots: ListSlots::ALL,
            };
            Queued::new(replaced, now())
        };
        let mut queue = DeltaQueue::new(QueueBounds {
            deltas: 3,
            bytes: usize::MAX,
        });
        assert!(queue.push(bookmark(1)).is_none());
        assert!(queue.push(relist()).is_none());
        assert!(queue.push(bookmark(3)).is_none());
        assert!(queue.push(relist()).is_some());
        let batch = queue.pop_batch();
        let [first, relisted, last] = &batch[..] else {
            panic!("{batch:?}")
        };
        let is_bookmark = |queued: &Queued| matches!(queued.delta, Delta::Bookmark { .. });
        assert!(is_bookmark(first) && is_bookmark(last));
        assert!(matches!(&relisted.delta, Delta::Replaced { items, .. } if items.len() == 1000));
    }

    fn map(size: usize) -> Queued {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("m".into());
        map.data = Some([("k".to_owned(), "v".repeat(size))].into());
        Queued::new(
            Delta::Put(Decoded::Good(Entry::new(map).cast()).into()),
            now(),
        )
    }

    // QUEUE-2
    #[test]
    fn no_more_bytes_wait_than_the_bound_except_for_a_single_larger_delta() {
        let bounds = QueueBounds {
            deltas: 100,
            bytes: 10_000,
        };
        let mut queue = DeltaQueue::new(bounds);
        assert!(queue.push(map(4_000)).is_none());
        assert!(queue.push(map(4_000)).is_none());
        let third = queue.push(map(4_000)).unwrap();
        assert!(queue.push(bookmark(1)).is_none(), "there is room for it");
        assert_eq!(queue.pop_batch().len(), 3);
        assert!(queue.push(third).is_none());
        let large = queue.push(map(20_000)).unwrap();
        queue.pop_batch();
        assert!(queue.push(large).is_none(), "nothing else waits");
        assert!(queue.push(bookmark(2)).is_some());
    }
}
