//! Driver: the present instant, on the clock of tokio, which tests pause.

use std::time::Instant;

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
