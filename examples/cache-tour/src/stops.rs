//! Words: the stops of the tour, in the order in which they are visited.

pub mod scope;
pub mod indexes;
pub mod metadata;
pub mod views;
pub mod own_writes;
pub mod degraded;
pub mod memory;

use crate::cluster::{NAMESPACES, NODES, PODS};
use crate::page::Page;

/// Returns the first page of the tour.
pub fn welcome() -> Page {
    Page::new("A tour of the cache").say(format_args!(
        "An API server runs in this process, with {PODS} Pods on {NODES} nodes in the namespaces {}.\n\
         At each stop a cache is opened on it. Its requests are those that the server logged, its\n\
         bytes those that were allocated meanwhile.",
        NAMESPACES.join(", ")
    ))
}
