//! Words: the limits on Events per object, and the times of writes for repeated events.

use std::time::Duration;

/// The limits on Events per object, and the times of writes for repeated events. The defaults are those of client-go
/// (`tools/events`, and the correlator of `tools/record`).
///
/// A value out of range is replaced by the nearest allowed value. Durations range from 1 s to a day.
///
/// ```
/// use std::time::Duration;
/// use steersman_events::EventLimits;
///
/// let minute = Duration::from_secs(60);
/// let limits = EventLimits::new().rate(100, minute).series(minute * 10, minute * 60);
/// # let _ = limits;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct EventLimits {
    /// The maximum number of new Events of one object at once, and of its followed Events.
    pub(crate) burst: u32,
    /// The time after which an object may have one more Event.
    pub(crate) refill: Duration,
    pub(crate) own_notes: usize,
    /// The time without a similar event after which the notes are counted anew.
    pub(crate) window: Duration,
    /// The time without an occurrence after which an Event is finished.
    pub(crate) finish: Duration,
    /// The time between two writes of an Event's count.
    pub(crate) refresh: Duration,
}

/// The allowed range of durations.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The largest allowed number of Events per object, which bounds the memory of the publisher.
const MOST: u32 = 1000;

impl Default for EventLimits {
    fn default() -> Self {
        Self {
            // `defaultSpamBurst` and `defaultSpamQPS` of `tools/record`.
            burst: 25,
            refill: Duration::from_secs(300),
            // `defaultAggregateMaxEvents` and `defaultAggregateIntervalInSeconds`.
            own_notes: 10,
            window: Duration::from_secs(600),
            // `finishTime` and `refreshTime` of `tools/events`.
            finish: Duration::from_secs(6 * 60),
            refresh: Duration::from_secs(30 * 60),
        }
    }
}

impl EventLimits {
    /// Makes the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many Events a recorder can create about one object at once, from 1 to 1,000, and the time after which
    /// it can create one more; by default 25 and 5 min (EVENT-5).
    pub fn rate(mut self, burst: u32, refill: Duration) -> Self {
        self.burst = burst.clamp(1, MOST);
        self.refill = refill.clamp(SHORTEST, LONGEST);
        self
    }

    /// Sets how many events that differ only in their notes become separate Events, from 1 to 1,000, before all others
    /// share one Event, and the time without such an event after which the count restarts; by default 10 and 10 min
    /// (EVENT-4).
    pub fn combined(mut self, own_notes: u32, window: Duration) -> Self {
        self.own_notes = usize::try_from(own_notes.clamp(1, MOST)).unwrap_or_default();
        self.window = window.clamp(SHORTEST, LONGEST);
        self
    }

    /// Sets the time after which a repetition becomes a new Event, and the time between two writes of a repeated
    /// Event's count; by default 6 min and 30 min (EVENT-3).
    pub fn series(mut self, finish: Duration, refresh: Duration) -> Self {
        self.finish = finish.clamp(SHORTEST, LONGEST);
        self.refresh = refresh.clamp(SHORTEST, LONGEST);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_their_range_count_as_the_nearest() {
        let zero = Duration::ZERO;
        let least = EventLimits::new()
            .rate(0, zero)
            .combined(0, zero)
            .series(zero, zero);
        assert_eq!((least.burst, least.own_notes), (1, 1));
        let durations = [least.refill, least.window, least.finish, least.refresh];
        assert_eq!(durations, [SHORTEST; 4]);
        let most = EventLimits::new().rate(u32::MAX, Duration::MAX);
        assert_eq!((most.burst, most.refill), (MOST, LONGEST));
    }
}
