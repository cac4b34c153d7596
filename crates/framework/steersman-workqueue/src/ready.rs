//! Machine: selects the next ready key: the oldest key of the highest priority, or in a share of the turns the oldest
//! key of all.

use std::collections::{BTreeMap, VecDeque};

use crate::options::Priority;

/// The index of a key's slot in the table.
pub(crate) type KeySlot = u32;

/// A number that is unique per push. It orders keys by age, and tells live entries from stale ones.
pub(crate) type Turn = u64;

/// The capacity, in keys, that stays allocated when keys are removed; more, as after a relist, is freed.
pub(crate) const KEPT: usize = 1024;

/// The number of empty lines that are kept, so that a queue with few priorities does not allocate per key.
const KEPT_LINES: usize = 4;

/// The ready keys, in one FIFO line per priority.
///
/// A key that moves to another line leaves a stale entry, which `pop` detects by its turn. A line
/// without live entries is cleared, so stale entries do not accumulate.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    lines: BTreeMap<Priority, Line>,
    live: usize,
    next_turn: Turn,
    lower_share: u32,
    passed_over: u32,
}

#[derive(Debug, Default)]
struct Line {
    entries: VecDeque<(Turn, KeySlot)>,
    live: usize,
}

impl ReadyKeys {
    pub(crate) fn new(lower_share: u32) -> Self {
        Self {
            lower_share,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    pub(crate) fn depths(&self) -> impl Iterator<Item = (Priority, usize)> + '_ {
        self.lines
            .iter()
            .map(|(priority, line)| (*priority, line.live))
    }

    /// Puts a key at the end of the line of its priority.
    pub(crate) fn push(&mut self, slot: KeySlot, priority: Priority) -> Turn {
        let turn = self.next_turn;
        self.next_turn += 1;
        let line = self.lines.entry(priority).or_default();
        line.entries.push_back((turn, slot));
        line.live += 1;
        self.live += 1;
        turn
    }

    /// Takes the next key. `is_live` returns whether an entry is live.
    pub(crate) fn pop(&mut self, is_live: impl Fn(Turn, KeySlot) -> bool) -> Option<KeySlot> {
        if self.live == 0 {
            return None;
        }
        let priority = self.choose(&is_live)?;
        let line = self.lines.get_mut(&priority)?;
        let (_, slot) = line.front(&is_live)?;
        line.entries.pop_front();
        self.leave(priority);
        Some(slot)
    }

    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.live = 0;
    }

    /// Counts one entry of a line as stale. WQ-9: an empty line is removed, unless there are few lines.
    pub(crate) fn leave(&mut self, priority: Priority) {
        self.live -= 1;
        let Some(line) = self.lines.get_mut(&priority) else {
            return;
        };
        line.leave();
        if line.live == 0 && self.lines.len() > KEPT_LINES {
            self.lines.remove(&priority);
        }
    }

    // WQ-5: while several lines have keys, one turn in `lower_share` goes to the oldest key of all lines. Every key
    // becomes the oldest eventually, so every key gets a turn. (Turns for the oldest key below the highest priority
    // would not be enough: bursts of higher keys could starve a middle priority.)
    fn choose(&mut self, is_live: &impl Fn(Turn, KeySlot) -> bool) -> Option<Priority> {
        let mut busy = self
            .lines
            .iter_mut()
            .rev()
            .filter(|(_, line)| line.live > 0);
        let (&top, top_line) = busy.next()?;
        if top_line.live == self.live {
            self.passed_over = 0;
            return Some(top);
        }
        self.passed_over += 1;
        if self.passed_over < self.lower_share {
            return Some(top);
        }
        self.passed_over = 0;
        let first = top_line.front(is_live).map(|(turn, _)| (turn, top));
        let oldest = busy
            .filter_map(|(priority, line)| Some((line.front(is_live)?.0, *priority)))
            .chain(first)
            .min_by_key(|(turn, _)| *turn);
        Some(oldest.map_or(top, |(_, priority)| priority))
    }
}

impl Line {
    // Removes stale entries from the front of this line, and returns the first live entry.
    fn front(&mut self, is_live: &impl Fn(Turn, KeySlot) -> bool) -> Option<(Turn, KeySlot)> {
        while let Some(&(turn, slot)) = self.entries.front() {
            if is_live(turn, slot) {
                return Some((turn, slot));
            }
            self.entries.pop_front();
        }
        None
    }

    fn leave(&mut self) {
        self.live -= 1;
        if self.live == 0 {
            self.entries.clear();
            self.entries.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(ready: &mut ReadyKeys) -> Vec<KeySlot> {
        std::iter::from_fn(|| ready.pop(|_, _| true)).collect()
    }

    #[test]
    fn keys_leave_by_priority_and_then_by_age() {
        let mut ready = ReadyKeys::new(8);
        ready.push(1, Priority::LOW);
        ready.push(2, Priority::NORMAL);
        ready.push(3, Priority::HIGH);
        ready.push(4, Priority::NORMAL);
        assert_eq!(drain(&mut ready), [3, 2, 4, 1]);
        assert_eq!(ready.len(), 0);
    }

    // WQ-5
    #[test]
    fn one_turn_in_the_lower_share_goes_to_the_oldest_key() {
        let mut ready = ReadyKeys::new(3);
        ready.push(100, Priority::LOW);
        ready.push(200, Priority::NORMAL);
        for slot in 0..6 {
            ready.push(slot, Priority::HIGH);
        }
        assert_eq!(drain(&mut ready), [0, 1, 100, 2, 3, 200, 4, 5]);
    }

    // WQ-5: bursts of high priority that end just before each turn of the oldest key, beside a backlog of low priority.
    #[test]
    fn a_middle_priority_does_not_starve_between_two_others() {
        let mut ready = ReadyKeys::new(3);
        ready.push(500, Priority::NORMAL);
        for slot in 0..100 {
            ready.push(slot, Priority::LOW);
        }
        let mut turns = 0;
        loop {
            if turns % 3 == 0 {
                ready.push(1000, Priority::HIGH);
                ready.push(1001, Priority::HIGH);
            }
            turns += 1;
            if ready.pop(|_, _| true) == Some(500) {
                break;
            }
            assert!(turns < 10, "the key waits for ever");
        }
    }

    #[test]
    fn stale_entries_are_skipped_and_do_not_pile_up() {
        let mut ready = ReadyKeys::new(8);
        for _ in 0..1000 {
            ready.push(7, Priority::LOW);
            ready.leave(Priority::LOW);
        }
        let turn = ready.push(7, Priority::NORMAL);
        assert_eq!(ready.len(), 1);
        assert!(ready.lines[&Priority::LOW].entries.is_empty());
        assert_eq!(ready.pop(|t, _| t == turn), Some(7));
        assert_eq!(ready.pop(|_, _| true), None);
    }

    // WQ-9
    #[test]
    fn wq_9_at_most_a_few_empty_lines_are_kept() {
        let mut ready = ReadyKeys::new(8);
        for value in 0..10_000 {
            let priority = Priority::new(value);
            ready.push(7, priority);
            match value % 2 {
                0 => assert_eq!(ready.pop(|_, _| true), Some(7)),
                _ => ready.leave(priority),
            }
        }
        assert!(ready.lines.len() <= KEPT_LINES, "{}", ready.lines.len());
        assert_eq!((ready.len(), ready.pop(|_, _| true)), (0, None));
        // Lines that were all used at once are removed, too.
        for value in 0..10_000 {
            ready.push(value, Priority::new(value as i32));
        }
        assert_eq!(drain(&mut ready).len(), 10_000);
        assert!(ready.lines.len() <= KEPT_LINES, "{}", ready.lines.len());
    }
}
