//! Words: the options of a queue and of one add.

use std::time::Duration;

use crate::causes::Causes;
use crate::key::Key;
use crate::limiter::{Exponential, RateLimiter};
use crate::metrics::Metrics;

/// The urgency of a key; the greater one goes first. The default is [`NORMAL`](Self::NORMAL).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display,
)]
pub struct Priority(i32);

/// The priority and delay of one add.
///
/// The default is an immediate add of normal priority.
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "options do nothing until they are passed to `Queue::add_with`"]
pub struct AddOptions {
    pub(crate) priority: Priority,
    pub(crate) after: Option<Duration>,
    pub(crate) rate_limited: bool,
    pub(crate) add_delay: AddDelay,
    pub(crate) causes: Causes,
}

/// Decides when an immediate add of a key that waits for a retry runs the key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddDelay {
    /// The key runs now.
    #[default]
    Now,
    /// The key runs now or, after early runs that failed, after a pause that doubles with each of them (WQ-12).
    Spaced,
    /// The key runs when the retry is due.
    Backoff,
}

/// The options of a queue; [`QueueOptions::new`] sets every default.
#[derive(derive_more::Debug)]
#[debug(
    "QueueOptions {{ name: {name:?}, metrics: {}, lower_share: {lower_share}, \
     at_most: {at_most:?}, .. }}",
    metrics.is_some()
)]
#[must_use = "options do nothing until they are passed to `Queue::new`"]
pub struct QueueOptions<T> {
    pub(crate) name: String,
    pub(crate) limiter: Box<dyn RateLimiter<T>>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) lower_share: u32,
    /// The number of runs of one key that may begin in a span, and the length of the span.
    pub(crate) at_most: Option<(u32, Duration)>,
    pub(crate) records_times: bool,
}

// === impl Priority ===

impl Priority {
    /// Work that can wait: initial lists and resyncs (-100, as in controller-runtime).
    pub const LOW: Self = Self(-100);
    /// Ordinary work (0).
    pub const NORMAL: Self = Self(0);
    /// Work that goes before ordinary work (100).
    pub const HIGH: Self = Self(100);

    /// Makes a priority of any value.
    pub const fn new(value: i32) -> Self {
        Self(value)
    }

    /// Returns the value of the priority.
    pub const fn value(self) -> i32 {
        self.0
    }
}

// === impl AddOptions ===

impl AddOptions {
    /// Makes the options of an immediate add with normal priority.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the priority. Of several adds of one waiting key the highest priority counts.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Delays the key. Zero means no delay; a delay of more than ten years counts as ten years.
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Counts a failure of the key, and delays the key as the rate limiter decides. Together with
    /// [`after`](Self::after) the shorter delay counts.
    pub fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }

    /// Lets an immediate add keep the running backoff of its key.
    ///
    /// A key in backoff stays delayed, and a held key does not run at once if its run ends in backoff: the retry gets
    /// the cause of this add. For every other key this is an ordinary add. Use it for events that the failing run
    /// itself has caused.
    pub fn keep_backoff(mut self) -> Self {
        self.add_delay = AddDelay::Backoff;
        self
    }

    /// Spaces the immediate adds of a key in backoff (WQ-12): the first one runs the key now. After each run before the
    /// retry that fails, the next add waits, 5 ms at first and then twice as long each time, at most until the retry.
    ///
    /// For every other key this is an ordinary add. Use it for events that the failing run itself may have caused, such
    /// as a change of only the object's status.
    pub fn space_in_backoff(mut self) -> Self {
        self.add_delay = AddDelay::Spaced;
        self
    }

    /// Returns whether the queue needs the time of an immediate add.
    pub(crate) fn uses_time(&self) -> bool {
        self.add_delay == AddDelay::Spaced
    }

    /// Names the causes of the add, for [`Ticket::causes`](crate::Ticket::causes). The default is [`Causes::ADD`].
    pub fn cause(mut self, causes: Causes) -> Self {
        self.causes = causes;
        self
    }
}

// === impl QueueOptions ===

impl<T: Key> QueueOptions<T> {
    /// Makes options with the defaults: exponential backoff per key from 5 ms to 1000 s, no metrics, and one
    /// turn in eight for lower priorities.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            limiter: Box::new(Exponential::default()),
            metrics: None,
            lower_share: 8,
            at_most: None,
            records_times: false,
        }
    }

    /// Replaces the rate limiter.
    pub fn rate_limiter(mut self, limiter: impl RateLimiter<T>) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// Records the queue's metrics.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Gives one turn in `turns` to the oldest key, whatever its priority, while there are keys of several
    /// priorities. Values below 2 count as 2. The default is 8.
    pub fn lower_priority_share(mut self, turns: u32) -> Self {
        self.lower_share = turns.max(2);
        self
    }

    /// Records since when each key is held, for [`Queue::held_since`](crate::Queue::held_since). Implied by metrics and
    /// by a limit of runs.
    pub fn record_times(mut self) -> Self {
        self.records_times = true;
        self
    }

    /// Lets each key run at most `runs` times in any span of `per`, whatever adds and retries ask for (WQ-13). A key
    /// that is added too soon becomes ready when the limit allows its run. By default there is no limit.
    ///
    /// The queue stores the start times of the last runs of each key while they matter. Zero runs count as 1, and a
    /// `per` of zero is no limit.
    pub fn at_most(mut self, runs: u32, per: Duration) -> Self {
        self.at_most = (!per.is_zero()).then_some((runs, per));
        self
    }
}
