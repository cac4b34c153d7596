//! Machine: decides which child may start next, by the order of `after`.

use std::collections::VecDeque;

/// The order of the children in one run. A child may start when all children that it comes after are done.
///
/// A child can only come after children with smaller indexes, so the order has no cycles.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// For each child, the indexes of the children that come after it.
    followers: Vec<Vec<usize>>,
    /// For each child, the indexes of the children that it waits for.
    waits_for: Vec<Vec<usize>>,
    startable: VecDeque<usize>,
}

impl Schedule {
    /// Makes the schedule. `after` has, for each child, the indexes of the children that it comes after.
    pub(crate) fn new(after: impl IntoIterator<Item = Vec<usize>>) -> Self {
        let mut schedule = Self {
            followers: Vec::new(),
            waits_for: Vec::new(),
            startable: VecDeque::new(),
        };
        for (index, mut after) in after.into_iter().enumerate() {
            after.sort_unstable();
            after.dedup();
            after.retain(|earlier| *earlier < index);
            for earlier in &after {
                // The lookup cannot fail, because the index is smaller than the number of children so far.
                if let Some(followers) = schedule.followers.get_mut(*earlier) {
                    followers.push(index);
                }
            }
            if after.is_empty() {
                schedule.startable.push_back(index);
            }
            schedule.followers.push(Vec::new());
            schedule.waits_for.push(after);
        }
        schedule
    }

    /// Returns a child that may start. Each child is returned once.
    pub(crate) fn next_child(&mut self) -> Option<usize> {
        self.startable.pop_front()
    }

    /// Records that a child is done, so that children that wait for it may start.
    pub(crate) fn handle_done(&mut self, index: usize) {
        let followers = self.followers.get_mut(index);
        for follower in followers.map(std::mem::take).unwrap_or_default() {
            if let Some(waits_for) = self.waits_for.get_mut(follower) {
                waits_for.retain(|earlier| *earlier != index);
                if waits_for.is_empty() {
                    self.startable.push_back(follower);
                }
            }
        }
    }

    /// Returns the indexes of the children that a child is waiting for.
    pub(crate) fn waits_for(&self, index: usize) -> &[usize] {
        self.waits_for.get(index).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startable(schedule: &mut Schedule) -> Vec<usize> {
        std::iter::from_fn(|| schedule.next_child()).collect()
    }

    #[test]
    fn a_child_starts_once_after_all_that_it_comes_after() {
        let mut schedule = Schedule::new([vec![], vec![0], vec![], vec![1, 2, 1], vec![3]]);
        assert_eq!(startable(&mut schedule), [0, 2]);
        schedule.handle_done(2);
        assert!(startable(&mut schedule).is_empty());
        assert_eq!(schedule.waits_for(3), [1]);
        schedule.handle_done(0);
        assert_eq!(startable(&mut schedule), [1]);
        assert_eq!(
            (schedule.waits_for(3), schedule.waits_for(4)),
            (&[1][..], &[3][..])
        );
        schedule.handle_done(1);
        assert_eq!(startable(&mut schedule), [3]);
        // A second report for the same child has no effect.
        schedule.handle_done(1);
        assert!(startable(&mut schedule).is_empty());
    }

    #[test]
    fn a_child_does_not_come_after_itself_or_a_later_one() {
        let mut schedule = Schedule::new([vec![0, 1, 7], vec![]]);
        assert_eq!(startable(&mut schedule), [0, 1]);
    }
}
