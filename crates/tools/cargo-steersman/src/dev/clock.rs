//! Driver: the present instant, by the clock of tokio.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
