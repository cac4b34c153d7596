//! The client over the embedded API server, in process, on a paused clock.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod cache_or_server;
mod ensure;
mod owned;
mod status;
mod finalizers;
mod replaced;
mod connections;
mod sending;
mod own_writes;
mod leaving_selectors;
mod several_informers;
mod unknown_outcomes;
mod waiting;
mod live_reads;
mod apply;
mod merge;
mod strategic;
mod subresources;
mod wrappers;
mod errors;
mod paging;
mod seeds;
