//! Machine: the queue of the objects that the simulator must process, in three classes of kinds.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::facts::{NamespacedName, SimulatedKey, SimulatedKind};

/// After this number of objects of earlier classes, the first waiting object of a later class is next (PLAY-5).
const EARLIER_IN_A_ROW: usize = 256;

/// The number of classes that [`class_of`] returns.
const CLASSES: usize = 3;

/// The objects to process, without duplicates, by class and in the order in which they were added. An object that is
/// added again goes to the end, so it never delays other objects of its class. While earlier classes have objects, at
/// most 257 of them are processed before the first object of a later class (PLAY-5).
///
/// Pods come before the workloads that count them, and ReplicaSets before Deployments. So a workload is processed once
/// for many changes, a Pod is processed while its decoded form is still in memory, and the Pods of a new Deployment
/// start before the next Deployment is processed.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue {
    classes: [Class; CLASSES],
    known: HashSet<SimulatedKey>,
    /// For each controller, the Pods that it releases unless its selector still matches them.
    release_candidates: HashMap<SimulatedKey, BTreeSet<NamespacedName>>,
}

#[derive(Debug, Default)]
struct Class {
    waiting: VecDeque<SimulatedKey>,
    /// The number of objects of earlier classes that were processed while the first object of this class waits.
    passed_by: usize,
}

/// Returns the class of a kind: objects of lower classes are processed first.
fn class_of(kind: SimulatedKind) -> usize {
    match kind {
        SimulatedKind::Pod => 0,
        SimulatedKind::Deployment | SimulatedKind::Service | SimulatedKind::Budget => 2,
        _ => 1,
    }
}

impl WorkQueue {
    pub(crate) fn add(&mut self, key: SimulatedKey) {
        if self.known.insert(key.clone()) {
            self.classes[class_of(key.kind)].waiting.push_back(key);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<SimulatedKey> {
        let overdue = |class: &Class| class.passed_by >= EARLIER_IN_A_ROW;
        let has_objects = |class: &Class| !class.waiting.is_empty();
        let classes = &self.classes;
        let next = classes.iter().position(overdue);
        let next = next.or_else(|| classes.iter().position(has_objects))?;
        let key = self.classes[next].waiting.pop_front()?;
        self.classes[next].passed_by = 0;
        for later in &mut self.classes[next + 1..] {
            if has_objects(later) {
                later.passed_by += 1;
            }
        }
        self.known.remove(&key);
        Some(key)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(crate) fn add_release_candidate(&mut self, controller: SimulatedKey, pod: NamespacedName) {
        let pods = self.release_candidates.entry(controller).or_default();
        pods.insert(pod);
    }

    pub(crate) fn take_release_candidates(
        &mut self,
        controller: &SimulatedKey,
    ) -> BTreeSet<NamespacedName> {
        self.release_candidates
            .remove(controller)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: SimulatedKind, number: usize) -> SimulatedKey {
        SimulatedKey::new(kind, &"default".into(), &format!("{number}").into())
    }

    /// PLAY-5: each class of kinds gets its turn, after a bounded number of objects of earlier classes.
    #[test]
    fn earlier_classes_come_first_and_delay_later_ones_by_a_bound() {
        let mut work_queue = WorkQueue::default();
        for kind in [
            SimulatedKind::Deployment,
            SimulatedKind::Job,
            SimulatedKind::Pod,
        ] {
            for number in 0..2 {
                work_queue.add(key(kind, number));
            }
        }
        // The first Pod is added again each time it is processed, and still does not delay other Pods.
        let mut looked = Vec::new();
        while looked.len() < 2 * EARLIER_IN_A_ROW + 4 {
            let next = work_queue.pop().unwrap();
            if next == key(SimulatedKind::Pod, 0) {
                work_queue.add(next.clone());
            }
            looked.push(next);
        }
        assert_eq!(looked[1], key(SimulatedKind::Pod, 1));
        assert_eq!(looked[EARLIER_IN_A_ROW - 1], key(SimulatedKind::Pod, 0));
        assert_eq!(looked[EARLIER_IN_A_ROW], key(SimulatedKind::Job, 0));
        assert_eq!(
            looked[EARLIER_IN_A_ROW + 1],
            key(SimulatedKind::Deployment, 0)
        );
        assert_eq!(looked[EARLIER_IN_A_ROW + 2], key(SimulatedKind::Pod, 0));
        assert_eq!(looked[2 * EARLIER_IN_A_ROW + 2], key(SimulatedKind::Job, 1));
        assert_eq!(
            looked[2 * EARLIER_IN_A_ROW + 3],
            key(SimulatedKind::Deployment, 1)
        );
        assert!(!work_queue.is_empty());
    }

    #[test]
    fn a_later_class_waits_while_earlier_ones_have_objects() {
        let mut work_queue = WorkQueue::default();
        work_queue.add(key(SimulatedKind::Deployment, 0));
        work_queue.add(key(SimulatedKind::ReplicaSet, 0));
        assert_eq!(work_queue.pop(), Some(key(SimulatedKind::ReplicaSet, 0)));
        work_queue.add(key(SimulatedKind::Pod, 0));
        work_queue.add(key(SimulatedKind::ReplicaSet, 0));
        assert_eq!(work_queue.pop(), Some(key(SimulatedKind::Pod, 0)));
        assert_eq!(work_queue.pop(), Some(key(SimulatedKind::ReplicaSet, 0)));
        assert_eq!(work_queue.pop(), Some(key(SimulatedKind::Deployment, 0)));
        assert_eq!(work_queue.pop(), None);
    }
}
