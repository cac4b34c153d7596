//! Words: the monotonic clock of a leader at its last renewal, kept in an annotation of the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;

use crate::record::LeaseRecord;

/// The annotation with the holder's monotonic clock in milliseconds, and the `renewTime` that was written with it.
///
/// If another program takes the Lease, it does not write this annotation but may keep the old one. The `renewTime` in
/// the annotation shows that it is outdated.
const ANNOTATION: &str = "steersman/renewed";

/// The time for which a holder had run when it sent a renewal, by its monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TermClock(pub(crate) Duration);

impl TermClock {
    /// Reads the clock that was written with a record; `None` if its holder wrote no clock.
    pub(crate) fn of(lease: &Lease, record: &LeaseRecord) -> Option<Self> {
        let text = lease.metadata.annotations.as_ref()?.get(ANNOTATION)?;
        let (renewed, millis) = text.split_once(' ')?;
        let renewed: Timestamp = renewed.parse().ok()?;
        // The server keeps microseconds, so only milliseconds are compared.
        let differs = renewed.as_millisecond() != record.renewed?.as_millisecond();
        let millis = millis.parse().ok()?;
        (!differs).then(|| Self(Duration::from_millis(millis)))
    }

    /// Writes the clock into the annotation, together with the record's `renewTime`.
    pub(crate) fn write(self, record: &LeaseRecord, lease: &mut Lease) {
        let Some(renewed) = record.renewed else {
            return;
        };
        let annotations = lease.metadata.annotations.get_or_insert_default();
        let text = format!("{renewed} {}", self.0.as_millis());
        annotations.insert(ANNOTATION.to_owned(), text);
    }

    /// Returns the time since an earlier renewal; `None` if the clock has gone back, as in another process.
    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0)
    }
}
