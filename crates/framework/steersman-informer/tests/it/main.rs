//! Informers of scripted servers and of the embedded one, on a paused clock.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

mod fake;
mod world;

mod backoff;
mod bookmarks;
mod bounds;
mod budget;
mod changed_definition;
mod expired;
mod index_while_running;
mod late_subscriber;
mod logs;
mod metrics;
mod outage;
mod peak;
mod poison;
mod relist;
mod server;
mod seeds;
mod shards;
mod shards_of_server;
mod silence;
mod slow_subscriber;
mod views;
mod watch_list;
