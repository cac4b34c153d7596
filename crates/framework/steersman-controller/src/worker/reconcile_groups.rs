//! Machine: the slowest reconciles of one controller, its failures by message, and its rate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::journal::recent::ReconcileResult;
use crate::journal::{ErrorGroup, ReconcileRate};
use crate::request::RequestKey;
use crate::worker::kept::Kept;

/// What the debug page shows of the reconciles that have ended, besides the last ones.
pub(crate) struct ReconcileGroups<R> {
    /// The slowest first. Those that are too old are removed once per second.
    slowest: Vec<Kept<R>>,
    errors: Vec<KeptErrors<R>>,
    began: Instant,
    /// The reconciles of the last minute, by the second of their end; the oldest second first.
    seconds: VecDeque<(u64, ReconcileRate)>,
}

/// The failures with one message, without what differs from request to request.
#[derive(Clone)]
pub(crate) struct KeptErrors<R> {
    pattern: String,
    message: String,
    count: u64,
    first: Instant,
    last: Instant,
    /// The newest first, each with its last message.
    requests: VecDeque<(R, String)>,
}

/// What made room. The caller drops it outside of its lock, because dropping a request may run code of the program.
pub(crate) struct MadeRoom<R> {
    _reconciles: Vec<Kept<R>>,
    _requests: Vec<(R, String)>,
}

/// A failure to be grouped: its message, and the message without what differs from request to request.
pub(crate) struct Failure {
    pattern: String,
    message: String,
}

/// The number of slowest reconciles that are kept, and for how long.
const MOST_SLOW: usize = 16;
const SLOW_FOR: Duration = Duration::from_hours(1);

/// The number of messages that are kept. The message that has not occurred for the longest time makes room.
const MOST_MESSAGES: usize = 32;

/// The number of requests that are kept of one message.
const MOST_REQUESTS: usize = 8;

/// The time over which the rate counts.
const MINUTE: u64 = 60;

impl Failure {
    /// Returns the failure of a reconcile; `None` after a success. `request` is the request as text.
    pub(crate) fn of(result: &ReconcileResult, request: impl FnOnce() -> String) -> Option<Self> {
        if matches!(result, ReconcileResult::Success) {
            return None;
        }
        let message = message_of(result);
        Some(Self {
            pattern: pattern_of(&message, &request()),
            message,
        })
    }
}

impl<R: RequestKey> ReconcileGroups<R> {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            slowest: Vec::new(),
            errors: Vec::new(),
            began: now,
            seconds: VecDeque::new(),
        }
    }

    /// Notes a reconcile that has ended.
    pub(crate) fn note(&mut self, kept: &Kept<R>, failure: Option<Failure>) -> MadeRoom<R> {
        let second = self.second(kept.ended);
        let mut dropped = Vec::new();
        if self.seconds.back().is_none_or(|(last, _)| *last < second) {
            let is_old = |one: &mut Kept<R>| is_old(one, kept.ended);
            dropped.extend(self.slowest.extract_if(.., is_old));
            self.seconds.push_back((second, ReconcileRate::default()));
            while self
                .seconds
                .front()
                .is_some_and(|(first, _)| first + MINUTE <= second)
            {
                self.seconds.pop_front();
            }
        }
        if let Some((_, rate)) = self.seconds.back_mut() {
            rate.reconciles += 1;
            rate.failures += u64::from(failure.is_some());
        }
        let failed = failure.map(|failure| self.note_failure(kept, failure));
        dropped.extend(self.note_slow(kept));
        MadeRoom {
            _reconciles: dropped,
            _requests: failed.unwrap_or_default(),
        }
    }

    /// Keeps a reconcile if it is among the slowest. Returns the one that made room.
    fn note_slow(&mut self, kept: &Kept<R>) -> Option<Kept<R>> {
        let is_full = self.slowest.len() >= MOST_SLOW;
        let least = self.slowest.last().filter(|_| is_full);
        if least.is_some_and(|least| least.time >= kept.time) {
            return None;
        }
        let at = self.slowest.partition_point(|one| one.time >= kept.time);
        self.slowest.insert(at, kept.clone());
        is_full.then(|| self.slowest.pop()).flatten()
    }

    /// Returns the requests that made room.
    fn note_failure(&mut self, kept: &Kept<R>, failure: Failure) -> Vec<(R, String)> {
        let mut removed = Vec::new();
        let known = self
            .errors
            .iter()
            .position(|one| one.pattern == failure.pattern);
        let at = known.unwrap_or_else(|| {
            if self.errors.len() >= MOST_MESSAGES {
                let oldest = (0..self.errors.len()).min_by_key(|at| self.errors[*at].last);
                let group = self.errors.swap_remove(oldest.unwrap_or_default());
                removed.extend(group.requests);
            }
            self.errors.push(KeptErrors {
                pattern: failure.pattern,
                message: String::new(),
                count: 0,
                first: kept.ended,
                last: kept.ended,
                requests: VecDeque::new(),
            });
            self.errors.len() - 1
        });
        let errors = &mut self.errors[at];
        errors.message.clone_from(&failure.message);
        errors.count += 1;
        errors.last = kept.ended;
        let requests = &mut errors.requests;
        let same = requests.iter().position(|(one, _)| *one == kept.request);
        removed.extend(same.and_then(|at| requests.remove(at)));
        if requests.len() >= MOST_REQUESTS {
            removed.extend(requests.pop_back());
        }
        requests.push_front((kept.request.clone(), failure.message));
        removed
    }

    pub(crate) fn slowest(&self, now: Instant) -> Vec<Kept<R>> {
        let slowest = self.slowest.iter();
        slowest.filter(|one| !is_old(one, now)).cloned().collect()
    }

    /// Returns the failures by message, the last one first.
    pub(crate) fn errors(&self) -> Vec<KeptErrors<R>> {
        let mut errors = self.errors.clone();
        errors.sort_by_key(|one| std::cmp::Reverse(one.last));
        errors
    }

    pub(crate) fn rate(&self, now: Instant) -> ReconcileRate {
        let second = self.second(now);
        let recent = self.seconds.iter().filter(|(at, _)| at + MINUTE > second);
        recent.fold(ReconcileRate::default(), |sum, (_, rate)| ReconcileRate {
            reconciles: sum.reconciles + rate.reconciles,
            failures: sum.failures + rate.failures,
        })
    }

    fn second(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_secs()
    }
}

impl<R: RequestKey> KeptErrors<R> {
    /// Formats the requests, which may run code of the program.
    pub(crate) fn shown(self) -> ErrorGroup {
        let (requests, messages) = self
            .requests
            .into_iter()
            .unzip::<R, String, Vec<R>, Vec<String>>();
        ErrorGroup {
            message: self.message,
            count: self.count,
            first: self.first,
            last: self.last,
            requests: requests
                .iter()
                .map(|request| format!("{request:?}"))
                .collect(),
            messages,
        }
    }
}

/// Returns the message of a failed reconcile.
pub(crate) fn message_of(result: &ReconcileResult) -> String {
    match result {
        ReconcileResult::Success => String::new(),
        ReconcileResult::Failed(error) => error.clone(),
        ReconcileResult::Panicked(text) => format!("panic: {text}"),
        ReconcileResult::TimedOut => "it took longer than its deadline and the grace".to_owned(),
    }
}

fn is_old<R>(kept: &Kept<R>, now: Instant) -> bool {
    now.saturating_duration_since(kept.ended) > SLOW_FOR
}

/// Returns a message without the request, the parts of its name, and numbers, so that failures of different requests with
/// one cause are equal.
fn pattern_of(message: &str, request: &str) -> String {
    let mut text = message.replace(request, "…");
    for part in request.split('/').filter(|part| part.len() > 2) {
        text = text.replace(part, "…");
    }
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(character),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::reason::RunReason;

    fn kept(request: &str, result: ReconcileResult, millis: u64, ended: Instant) -> Kept<String> {
        Kept {
            id: 1,
            request: request.to_owned(),
            reason: RunReason::default(),
            attempt: 0,
            result,
            time: Duration::from_millis(millis),
            ended,
            next_in: None,
            steps: Default::default(),
        }
    }

    fn note(groups: &mut ReconcileGroups<String>, kept: &Kept<String>) {
        let failure = Failure::of(&kept.result, || kept.request.clone());
        drop(groups.note(kept, failure));
    }

    #[test]
    fn failures_of_one_cause_are_one_group() {
        let now = steersman_api::clock::now();
        let mut groups = ReconcileGroups::new(now);
        for number in 0..20 {
            let request = format!("shop/web-{number}");
            let error = format!("ConfigMap shop/web-{number}-settings has no key after {number} s");
            note(
                &mut groups,
                &kept(&request, ReconcileResult::Failed(error), 1, now),
            );
        }
        note(
            &mut groups,
            &kept(
                "shop/a",
                ReconcileResult::TimedOut,
                1,
                now + Duration::from_secs(1),
            ),
        );
        let errors = groups.errors();
        assert_eq!(errors.len(), 2);
        let (timeout, missing) = (errors[0].clone().shown(), errors[1].clone().shown());
        assert_eq!(timeout.count, 1);
        assert_eq!(missing.count, 20);
        assert!(
            missing.message.contains("web-19-settings"),
            "{}",
            missing.message
        );
        assert_eq!(missing.requests.len(), MOST_REQUESTS);
        assert_eq!(missing.requests[0], "\"shop/web-19\"");
        assert!(missing.messages[7].contains("web-12-settings"));
    }

    #[test]
    fn messages_are_bounded_and_the_oldest_makes_room() {
        let now = steersman_api::clock::now();
        let mut groups = ReconcileGroups::new(now);
        for (at, letter) in ('a'..='z').chain('A'..='Z').enumerate() {
            let error = ReconcileResult::Failed(format!("broken {letter}"));
            note(
                &mut groups,
                &kept("x", error, 1, now + Duration::from_secs(at as u64)),
            );
        }
        let errors = groups.errors();
        assert_eq!(errors.len(), MOST_MESSAGES);
        assert_eq!(errors[0].message, "broken Z");
    }

    #[test]
    fn the_slowest_of_the_last_hour_are_kept() {
        let now = steersman_api::clock::now();
        let mut groups = ReconcileGroups::new(now);
        for _ in 0..MOST_SLOW {
            let old = kept("old", ReconcileResult::Success, 99_000, now);
            note(&mut groups, &old);
        }
        let later = now + SLOW_FOR + Duration::from_secs(1);
        for millis in 0..40 {
            note(
                &mut groups,
                &kept("new", ReconcileResult::Success, millis, later),
            );
        }
        let slowest = groups.slowest(later);
        let times: Vec<u128> = slowest.iter().map(|one| one.time.as_millis()).collect();
        assert_eq!(times, (24..40).rev().collect::<Vec<u128>>());
    }

    #[test]
    fn the_rate_counts_the_last_minute() {
        let now = steersman_api::clock::now();
        let mut groups = ReconcileGroups::new(now);
        for second in 0..90 {
            let result = match second % 2 {
                0 => ReconcileResult::Success,
                _ => ReconcileResult::TimedOut,
            };
            note(
                &mut groups,
                &kept("x", result, 1, now + Duration::from_secs(second)),
            );
        }
        let rate = groups.rate(now + Duration::from_secs(89));
        assert_eq!((rate.reconciles, rate.failures), (60, 30));
        let rate = groups.rate(now + Duration::from_secs(139));
        assert_eq!((rate.reconciles, rate.failures), (10, 5));
    }
}
