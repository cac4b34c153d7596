//! Words: what a builder lets a worker do besides reconciling.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use steersman_cache::Cache;

use crate::context::Context;
use crate::error::Error;

/// Reports a failed reconcile, for instance in the status of its object.
pub(crate) type ReportFailure<R> =
    Box<dyn for<'a> Fn(&'a Context, &'a R, &'a Error) -> BoxFuture<'a, ()> + Send + Sync>;

/// Returns whether a cache holds the object of a request.
type Exists<R> = dyn Fn(&Cache, &R) -> bool + Send + Sync;

/// What a worker does besides reconciling.
pub(crate) struct Hooks<R> {
    pub(crate) on_error: Option<ReportFailure<R>>,
    pub(crate) at_least_every: Option<AtLeastEvery<R>>,
}

/// The longest time between two runs of the request of an object that exists.
pub(crate) struct AtLeastEvery<R> {
    pub(crate) interval: Duration,
    /// Returns whether the cache holds the object of a request.
    pub(crate) exists: Box<Exists<R>>,
}

impl<R> Default for Hooks<R> {
    fn default() -> Self {
        Self {
            on_error: None,
            at_least_every: None,
        }
    }
}

impl<R> fmt::Debug for Hooks<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interval = self.at_least_every.as_ref().map(|every| every.interval);
        f.debug_struct("Hooks")
            .field("on_error", &self.on_error.is_some())
            .field("at_least_every", &interval)
            .finish()
    }
}
