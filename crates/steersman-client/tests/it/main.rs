//! The client over the embedded api-server, in process, on a paused clock.
#![expect(clippy::unwrap_used, reason = "tests say what is wrong by failing")]

mod world;
mod split;
mod ensure;
mod owned;
mod status;
mod finalizers;
mod replaced;
mod transport;
mod connections;
mod door;
mod own_writes;
mod left;
mod several;
mod unknown;
mod asked;
mod apply;
mod merge;
mod strategic;
mod subresources;
mod wrappers;
mod errors;
mod paging;
mod seeds;
