//! Words: the functions of a builder that a worker calls after a reconcile.

use std::time::Duration;

use futures::future::BoxFuture;
use steersman_cache::Cache;

use crate::context::Context;
use crate::error::Error;

/// Reports a failed reconcile, for instance in the status of its object.
pub(crate) type ReportFailure<R> =
    Box<dyn for<'a> Fn(&'a Context, &'a R, &'a Error) -> BoxFuture<'a, ()> + Send + Sync>;

type Exists<R> = dyn Fn(&Cache, &R) -> bool + Send + Sync;

pub(crate) struct Hooks<R> {
    pub(crate) on_error: Option<ReportFailure<R>>,
    pub(crate) at_least_every: Option<AtLeastEvery<R>>,
}

/// The setting of `at_least_every`: the longest time between two runs of a request, while its object exists.
pub(crate) struct AtLeastEvery<R> {
    pub(crate) interval: Duration,
    /// The function that returns whether the cache holds the object of a request.
    pub(crate) exists: Box<Exists<R>>,
}
