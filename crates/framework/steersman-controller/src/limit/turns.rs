//! Machine: decides which waiting worker gets the next permit: the controllers of a limit take turns (CTRL-10).

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserNumber(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WaiterNumber(u64);

/// The number of free permits, and the waiting workers in the order in which they get permits.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) free: usize,
    /// The controllers with waiting workers. The first controller gets the next permit. Empty while a permit is free.
    line: VecDeque<(UserNumber, VecDeque<WaiterNumber>)>,
    next_number: u64,
}

impl Turns {
    pub(crate) fn new(permits: usize) -> Self {
        Self {
            free: permits,
            line: VecDeque::new(),
            next_number: 0,
        }
    }

    pub(crate) fn add_user(&mut self) -> UserNumber {
        UserNumber(self.number())
    }

    /// Takes a permit for a worker of the controller `user`; if no permit is free, returns the number of its wait.
    pub(crate) fn handle_ask(&mut self, user: UserNumber) -> Option<WaiterNumber> {
        if let Some(left) = self.free.checked_sub(1) {
            self.free = left;
            return None;
        }
        let waiter = WaiterNumber(self.number());
        match self.line.iter_mut().find(|(waiting, _)| *waiting == user) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.line.push_back((user, VecDeque::from([waiter]))),
        }
        Some(waiter)
    }

    /// Returns a permit to the limit, and grants it to the next waiting worker. Returns the number of that worker's
    /// wait; `None` if no worker waits.
    pub(crate) fn handle_return(&mut self) -> Option<WaiterNumber> {
        let granted = self.line.pop_front().and_then(|(user, mut waiters)| {
            let waiter = waiters.pop_front();
            // CTRL-10: a controller with more waiting workers goes to the end of the line, behind all others.
            if !waiters.is_empty() {
                self.line.push_back((user, waiters));
            }
            waiter
        });
        if granted.is_none() {
            self.free += 1;
        }
        granted
    }

    /// Ends a wait. Returns false if the permit was granted before; the caller then returns that permit.
    pub(crate) fn handle_leave(&mut self, user: UserNumber, waiter: WaiterNumber) -> bool {
        let Some(at) = self.line.iter().position(|(waiting, _)| *waiting == user) else {
            return false;
        };
        let waiters = &mut self.line[at].1;
        let before = waiters.len();
        waiters.retain(|waiting| *waiting != waiter);
        let left = waiters.len() < before;
        if waiters.is_empty() {
            self.line.remove(at);
        }
        left
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CTRL-10: each waiting controller gets one permit before another controller gets its second.
    #[test]
    fn users_take_turns_however_many_waiters_one_of_them_has() {
        let mut turns = Turns::new(1);
        let (many, few) = (turns.add_user(), turns.add_user());
        assert_eq!(
            turns.handle_ask(many),
            None,
            "a free permit is granted at once"
        );
        let of_many: Vec<_> = (0..3).map(|_| turns.handle_ask(many)).collect();
        let of_few: Vec<_> = (0..2).map(|_| turns.handle_ask(few)).collect();
        let granted: Vec<_> = (0..5).map(|_| turns.handle_return()).collect();
        let expected = [of_many[0], of_few[0], of_many[1], of_few[1], of_many[2]];
        assert_eq!(granted, expected);
        assert_eq!(turns.free, 0);
        assert_eq!((turns.handle_return(), turns.free), (None, 1));
    }

    // CTRL-10: a worker that stops waiting gets no permit, and no permit is lost.
    #[test]
    fn a_waiter_that_leaves_gets_no_permit_and_loses_none() {
        let mut turns = Turns::new(1);
        let user = turns.add_user();
        assert_eq!(turns.handle_ask(user), None);
        let (first, second) = (
            turns.handle_ask(user).unwrap(),
            turns.handle_ask(user).unwrap(),
        );
        assert!(turns.handle_leave(user, first));
        assert_eq!(turns.handle_return(), Some(second));
        assert!(!turns.handle_leave(user, second), "it was granted a permit");
        assert_eq!((turns.handle_return(), turns.free), (None, 1));
    }
}
