//! Words: the monotonic clock of a leader at its renewals, which an annotation of the Lease holds.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;

use crate::record::LeaseRecord;

/// The annotation: the `renewTime` with which it was written, and the milliseconds of a monotonic clock of the holder.
///
/// The holder of a Lease that another program took over keeps no such clock, and that program may keep the annotation.
/// The `renewTime` tells that the annotation is outdated.
const ANNOTATION: &str = "steersman/renewed";

/// The clock of a holder when it sent a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermClock(Duration);

impl TermClock {
    /// Makes the clock of a holder that has run for this time.
    pub(crate) fn new(running: Duration) -> Self {
        Self(running)
    }

    /// Reads the clock with which a record was written; `None` if its holder wrote none.
    pub(crate) fn of(lease: &Lease, record: &LeaseRecord) -> Option<Self> {
        let text = lease.metadata.annotations.as_ref()?.get(ANNOTATION)?;
        let (renewed, millis) = text.split_once(' ')?;
        let renewed: Timestamp = renewed.parse().ok()?;
        // The server keeps microseconds.
        let differs = renewed.as_millisecond() != record.renewed?.as_millisecond();
        let millis = millis.parse().ok()?;
        (!differs).then(|| Self(Duration::from_millis(millis)))
    }

    /// Writes the clock beside a record.
    pub(crate) fn write(self, record: &LeaseRecord, lease: &mut Lease) {
        let Some(renewed) = record.renewed else {
            return;
        };
        let annotations = lease.metadata.annotations.get_or_insert_default();
        let text = format!("{renewed} {}", self.0.as_millis());
        annotations.insert(ANNOTATION.to_owned(), text);
    }

    /// Returns the time from an earlier renewal to this one; `None` if the clock is another one.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }
}
