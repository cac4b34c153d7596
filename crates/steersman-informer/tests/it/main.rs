//! Informers against scripted servers, on a paused clock.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

mod fake;

mod backoff;
mod bookmarks;
mod expired;
mod index_while_running;
mod late_subscriber;
mod poison;
mod relist;
mod silence;
mod slow_subscriber;
mod watch_list;
