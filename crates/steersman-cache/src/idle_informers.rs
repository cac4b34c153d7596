//! Machine: when an informer that nobody declared has been of no use for long enough.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::registry::Slot;

/// How many looks there are in the time that an informer may be idle: a read is noted by a bit, so
/// when it was is known to within the time between two looks.
const LOOKS: u32 = 10;

/// Since when each informer that nobody declared has been idle, and how long it may be.
#[derive(Debug)]
pub(crate) struct Linger {
    after: Option<Duration>,
    idle: BTreeMap<Slot, Instant>,
    next: Instant,
}

impl Linger {
    /// Informers may be idle for so long; for ever, where that is `None`.
    pub(crate) fn new(after: Option<Duration>, now: Instant) -> Self {
        let mut linger = Self {
            after,
            idle: BTreeMap::new(),
            next: now,
        };
        linger.schedule(now);
        linger
    }

    /// When to look again; never, where informers may be idle for ever.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.after.map(|_| self.next)
    }

    /// Each informer that nobody declared was looked at: whether it was in use since the last time,
    /// or is. Answers those that have been idle for long enough.
    pub(crate) fn handle_look(
        &mut self,
        undeclared: impl IntoIterator<Item = (Slot, bool)>,
        now: Instant,
    ) -> Vec<Slot> {
        self.schedule(now);
        let Some(after) = self.after else {
            return Vec::new();
        };
        let before = std::mem::take(&mut self.idle);
        let idle = undeclared.into_iter().filter(|(_, used)| !used);
        self.idle = idle
            .map(|(slot, _)| {
                let since = before.get(&slot).copied().unwrap_or(now);
                (slot, since)
            })
            .collect();
        let mut over = Vec::new();
        self.idle.retain(|slot, since| {
            let is_over = now.saturating_duration_since(*since) >= after;
            if is_over {
                over.push(slot.clone());
            }
            !is_over
        });
        over
    }

    fn schedule(&mut self, now: Instant) {
        // Never at once again, however short the time.
        let between = self.after.unwrap_or_default() / LOOKS;
        self.next = now + between.max(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use steersman_object::Gvk;

    use super::*;

    const AFTER: Duration = Duration::from_secs(600);

    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn slot(kind: &str) -> Slot {
        Slot {
            gvk: Gvk::new("", "v1", kind),
            namespace: None,
        }
    }

    /// Looks whenever a look is due, for so many looks; answers the number of the look at which the
    /// informer was over.
    fn over(linger: &mut Linger, looks: u32, used: impl Fn(u32) -> bool) -> Option<u32> {
        (1..=looks).find(|number| {
            let due = linger.next_look().unwrap();
            let over = linger.handle_look([(slot("Pod"), used(*number))], due);
            !over.is_empty()
        })
    }

    /// CACHE-8
    #[test]
    fn what_is_idle_for_long_enough_is_over_once() {
        let mut linger = Linger::new(Some(AFTER), now());
        // The first look finds it idle, and the tenth after that finds it so for the whole time.
        assert_eq!(over(&mut linger, 100, |_| false), Some(LOOKS + 1));
        assert_eq!(over(&mut linger, LOOKS, |_| false), None, "it begins anew");
    }

    /// CACHE-8
    #[test]
    fn any_use_between_two_looks_begins_the_time_anew() {
        let mut linger = Linger::new(Some(AFTER), now());
        let now_and_then = |number: u32| number.is_multiple_of(LOOKS);
        assert_eq!(over(&mut linger, 1000, now_and_then), None);
        assert_eq!(over(&mut linger, 1000, |_| false), Some(LOOKS + 1));
    }

    #[test]
    fn what_was_declared_or_removed_meanwhile_is_forgotten() {
        let start = now();
        let mut linger = Linger::new(Some(AFTER), start);
        linger.handle_look([(slot("Pod"), false)], start);
        linger.handle_look([(slot("Node"), false)], start + AFTER);
        let later = start + AFTER * 2;
        let over = linger.handle_look([(slot("Pod"), false), (slot("Node"), false)], later);
        assert_eq!(over, [slot("Node")]);
    }

    #[test]
    fn without_a_time_nobody_looks() {
        assert_eq!(Linger::new(None, now()).next_look(), None);
    }
}
