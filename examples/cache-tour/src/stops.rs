//! Words: the stops of the tour, in the order in which they are visited.
//!
//! A visit returns the first error of its cache or of the server.

pub(crate) mod scope;
pub(crate) mod indexes;
pub(crate) mod metadata;
pub(crate) mod views;
pub(crate) mod own_writes;
pub(crate) mod degraded;
pub(crate) mod memory;

use crate::cluster::{NAMESPACES, NODES, PODS};
use crate::page::Page;

/// Returns the first page of the tour.
pub(crate) fn welcome() -> Page {
    Page::new("A tour of the cache").say(format_args!(
        "An API server runs in this process, with {PODS} Pods on {NODES} nodes in the namespaces {}.\n\
         At each stop a cache is opened on it. Its requests are those that the server logged, its\n\
         bytes those that were allocated meanwhile.",
        NAMESPACES.join(", ")
    ))
}
