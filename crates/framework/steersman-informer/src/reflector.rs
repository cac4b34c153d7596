//! Room: the reflector, which lists and watches one kind and sends deltas.
//!
//! ```text
//!            ┌───────────── Expired, version unknown ─────────────┐
//!            ▼                                                    │
//!         Empty ──▶ Listing (a page at a time) ──────────────▶ Watching ◀─┐
//!            │          ▲                                       ▲   │     │ ended, cut, silent:
//!            │          │ refused, no end bookmark              │   └─────┘ resumes, no relist
//!            └──▶ Streaming (WatchList) ─── complete ───────────┘
//!
//!         any of them, after a failure ──▶ Backoff ──▶ the same again
//! ```

pub(crate) mod backoff;
pub(crate) mod failure;
pub(crate) mod partial_list;
pub(crate) mod step;
pub(crate) mod watch_activity;
pub(crate) mod problems;
pub(crate) mod pauses;
pub(crate) mod machine;
pub(crate) mod request_metrics;
pub(crate) mod version_check;
pub(crate) mod driver;
