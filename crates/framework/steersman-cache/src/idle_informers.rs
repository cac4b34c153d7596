//! Machine: decides when an informer that only reads started (undeclared) has been idle for its linger time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::informer_map::InformerKey;

/// The number of checks per linger time (`CacheOptions::linger`). A read only sets a bit, so the time of the last read
/// is known to the precision of one check interval.
const CHECKS: u32 = 10;

/// The idle informers that only reads started (undeclared), each with the time of the first check that found it idle.
#[derive(Debug)]
pub(crate) struct IdleInformers {
    after: Option<Duration>,
    idle: BTreeMap<InformerKey, Instant>,
    next: Instant,
}

impl IdleInformers {
    /// Creates the machine. Informers that were idle for the linger time `after` end; with `None` idle informers go on.
    pub(crate) fn new(after: Option<Duration>, now: Instant) -> Self {
        let mut linger = Self {
            after,
            idle: BTreeMap::new(),
            next: now,
        };
        linger.schedule(now);
        linger
    }

    /// Returns the time of the next check; `None` if informers may be idle without limit.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        self.after.map(|_| self.next)
    }

    /// Handles a check of all undeclared informers: `undeclared` tells of each whether it was in use since the last
    /// check. Returns the keys of informers that were idle for the whole linger time.
    pub(crate) fn handle_check(
        &mut self,
        undeclared: impl IntoIterator<Item = (InformerKey, bool)>,
        now: Instant,
    ) -> Vec<InformerKey> {
        self.schedule(now);
        let Some(after) = self.after else {
            return Vec::new();
        };
        let before = std::mem::take(&mut self.idle);
        let mut over = Vec::new();
        for (informer_key, _) in undeclared.into_iter().filter(|(_, used)| !used) {
            let since = before.get(&informer_key).copied().unwrap_or(now);
            if now.saturating_duration_since(since) >= after {
                over.push(informer_key);
            } else {
                self.idle.insert(informer_key, since);
            }
        }
        over
    }

    fn schedule(&mut self, now: Instant) {
        // Checks are at least a millisecond apart, so that a tiny linger time causes no busy loop.
        let between = self.after.unwrap_or_default() / CHECKS;
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

    fn informer_key(kind: &str) -> InformerKey {
        InformerKey {
            gvk: Gvk::new("", "v1", kind),
            namespace: None,
        }
    }

    /// Runs up to `looks` checks at their due times. Returns the number of the check that ended the informer.
    fn over(linger: &mut IdleInformers, looks: u32, used: impl Fn(u32) -> bool) -> Option<u32> {
        (1..=looks).find(|number| {
            let due = linger.next_check().unwrap();
            let over = linger.handle_check([(informer_key("Pod"), used(*number))], due);
            !over.is_empty()
        })
    }

    /// CACHE-8
    #[test]
    fn an_informer_idle_for_the_linger_time_ends_once() {
        let mut linger = IdleInformers::new(Some(AFTER), now());
        // The first check finds the informer idle; ten more checks make up the linger time.
        assert_eq!(over(&mut linger, 100, |_| false), Some(CHECKS + 1));
        assert_eq!(
            over(&mut linger, CHECKS, |_| false),
            None,
            "the linger time starts again"
        );
    }

    /// CACHE-8
    #[test]
    fn a_use_between_two_checks_restarts_the_linger_time() {
        let mut linger = IdleInformers::new(Some(AFTER), now());
        let now_and_then = |number: u32| number.is_multiple_of(CHECKS);
        assert_eq!(over(&mut linger, 1000, now_and_then), None);
        assert_eq!(over(&mut linger, 1000, |_| false), Some(CHECKS + 1));
    }

    #[test]
    fn an_informer_missing_from_a_check_starts_again_from_zero() {
        let start = now();
        let mut linger = IdleInformers::new(Some(AFTER), start);
        linger.handle_check([(informer_key("Pod"), false)], start);
        linger.handle_check([(informer_key("Node"), false)], start + AFTER);
        let later = start + AFTER * 2;
        let over = linger.handle_check(
            [(informer_key("Pod"), false), (informer_key("Node"), false)],
            later,
        );
        assert_eq!(over, [informer_key("Node")]);
    }

    #[test]
    fn without_a_linger_time_no_check_is_scheduled() {
        assert_eq!(IdleInformers::new(None, now()).next_check(), None);
    }
}
