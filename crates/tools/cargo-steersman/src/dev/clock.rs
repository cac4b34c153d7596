//! Driver: the current instant of tokio's clock, which tests can pause.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
