//! Machine: the queue of objects that the player must process.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::facts::{Key, Kind, NamespacedName};

/// The number of consecutive Pods before an object of another kind is processed: about the number
/// of Pods that a controller creates in one turn.
const PODS_IN_A_ROW: usize = 256;

/// The objects to process, without duplicates, in the order in which they were added. An object
/// that is added again goes to the end, so it never delays other objects (PLAY-5).
///
/// Pods come before the controllers that count them. So a controller is processed once for many
/// Pods, and a Pod is processed while its decoded form is still in memory.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    pods: VecDeque<Key>,
    others: VecDeque<Key>,
    /// The number of Pods taken since the last object of another kind.
    run: usize,
    known: HashSet<Key>,
    /// For each controller, the Pods that were added to it or changed their labels since it was
    /// last processed. Its selector may no longer match them.
    release_candidates: HashMap<Key, BTreeSet<NamespacedName>>,
}

impl WorkQueue {
    pub(crate) fn add(&mut self, key: Key) {
        if self.known.insert(key.clone()) {
            let queue = match key.kind {
                Kind::Pod => &mut self.pods,
                _ => &mut self.others,
            };
            queue.push_back(key);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Key> {
        let turn = self.run < PODS_IN_A_ROW || self.others.is_empty();
        let pod = turn.then(|| self.pods.pop_front()).flatten();
        self.run = if pod.is_some() { self.run + 1 } else { 0 };
        let key = pod.or_else(|| self.others.pop_front())?;
        self.known.remove(&key);
        Some(key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn add_release_candidate(&mut self, controller: Key, pod: NamespacedName) {
        self.release_candidates
            .entry(controller)
            .or_default()
            .insert(pod);
    }

    /// Removes and returns the suspect Pods of a controller.
    pub(crate) fn take_release_candidates(&mut self, controller: &Key) -> BTreeSet<NamespacedName> {
        self.release_candidates
            .remove(controller)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind, number: usize) -> Key {
        Key::new(kind, &"default".into(), &format!("{number}").into())
    }

    // PLAY-5
    #[test]
    fn pods_come_first_and_do_not_delay_other_objects() {
        let mut work_queue = WorkQueue::default();
        for number in 0..2 {
            work_queue.add(key(Kind::Job, number));
            work_queue.add(key(Kind::Pod, number));
        }
        // The first Pod is added again each time it is processed.
        let mut looked = Vec::new();
        while looked.len() < PODS_IN_A_ROW + 2 {
            let next = work_queue.pop().unwrap();
            if next == key(Kind::Pod, 0) {
                work_queue.add(next.clone());
            }
            looked.push(next);
        }
        assert_eq!(looked[1], key(Kind::Pod, 1));
        assert_eq!(looked[PODS_IN_A_ROW - 1], key(Kind::Pod, 0));
        assert_eq!(looked[PODS_IN_A_ROW], key(Kind::Job, 0));
        assert_eq!(looked[PODS_IN_A_ROW + 1], key(Kind::Pod, 0));
        assert!(!work_queue.is_empty());
    }
}
