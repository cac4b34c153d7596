//! Driver: reads the present instant and waits for later instants, by the clock of tokio, which tests can pause.

use std::future::pending;
use std::time::Instant;

use tokio::time::sleep_until;

/// Returns the present instant.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Waits until the instant `due`; never returns for `None`, so that a `select!` can poll an unset timer. Cancel safe.
pub async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => pending().await,
    }
}
