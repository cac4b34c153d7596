//! Driver: the default wall clock of a server.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::http::Clock;

/// Returns a wall clock that advances with tokio's clock, so that pausing tokio's clock pauses it.
pub(super) fn default_clock(starts_at: Option<Timestamp>) -> Clock {
    let begin = starts_at.unwrap_or_else(Timestamp::now);
    let started = tokio::time::Instant::now();
    Arc::new(move || {
        let elapsed = tokio::time::Instant::now().saturating_duration_since(started);
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        begin.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    })
}
