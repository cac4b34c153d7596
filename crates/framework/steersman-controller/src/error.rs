//! Words: why a reconcile failed, and why a controller could not be built or had to end.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use steersman_object::{Kind, report};

use crate::request::ClusterName;

/// The error of one reconcile.
///
/// Made from any error by `?`, or from a text with [`Error::msg`]. It does not implement [`std::error::Error`], so that
/// `?` can convert every type that does; [`source`](Self::source) returns the wrapped error.
///
/// A failed request is retried with backoff, unless the error is [`terminal`](Self::terminal).
#[derive(Debug, derive_more::Display)]
#[display("{source}")]
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    terminal: bool,
}

/// The error of a controller that could not be built or that ended without being cancelled, of a cluster that could not
/// be added, or of a method of this crate that a reconcile called.
///
/// `Display` prints one level; [`source`](StdError::source) has the causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// A controller was declared with an empty name.
    #[error(
        "a controller was given an empty name: leave `name` out, or give it one that tells it apart in \
         logs and metrics"
    )]
    EmptyName,
    /// The controller has neither a watch nor another source of requests.
    #[error(
        "controller {controller:?} watches nothing, so nothing would ever run: \
         add `watches` or `requests`"
    )]
    NothingWatched {
        /// The name of the controller without a source of requests.
        controller: String,
    },
    /// A controller was declared with zero workers, so no request would ever run.
    #[error(
        "controller {controller:?} has max_concurrent_reconciles(0), so nothing would ever run: \
         the smallest number is 1"
    )]
    NoWorkers {
        /// The name of the controller; `*` for the settings of every controller.
        controller: String,
    },
    /// The first delay after a failure is zero, or greater than the longest delay.
    #[error(
        "the backoff of controller {controller:?} cannot go from {first:?} to {longest:?}: the first delay is \
         greater than zero, and not greater than the longest"
    )]
    Backoff {
        /// The name of the controller; `*` for the settings of every controller.
        controller: String,
        /// The delay after the first failure, as the settings give it.
        first: Duration,
        /// The longest delay, as the settings give it.
        longest: Duration,
    },
    /// Servers would refuse the field manager that the controller was declared with.
    #[error("controller {controller:?} cannot sign its writes")]
    FieldManager {
        /// The name of the controller with the refused field manager.
        controller: String,
        /// Why servers would refuse the field manager.
        source: steersman_client::InvalidFieldManager,
    },
    /// The metrics of the controller cannot be registered, for example because another controller has the same name.
    #[error(
        "the metrics of controller {controller:?} cannot be registered: \
         each controller of a registry needs a name of its own"
    )]
    Metrics {
        /// The name of the controller with the refused metrics.
        controller: String,
        /// The error of the metrics registry, such as a name that is taken.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The cache refuses a kind that the controller watches.
    #[error("controller {controller:?} cannot watch {kind}")]
    Watch {
        /// The name of the controller with the watch.
        controller: String,
        /// The kind that the cache refuses.
        kind: Kind,
        /// Why the cache refuses the kind.
        source: steersman_cache::Error,
    },
    /// The cache of another cluster refuses a kind that the controller watches in each cluster.
    #[error("controller {controller:?} cannot watch each cluster")]
    Cluster {
        /// The name of the controller with the watch.
        controller: String,
        /// The error of the cluster's cache ([`ControllerError::WatchInCluster`]), with the name of the cluster.
        source: Box<Self>,
    },
    /// The first list of a watched kind was not complete within the time of
    /// [`require_sync`](crate::ControllerBuilder::require_sync).
    #[error(
        "controller {controller:?} did not start: {kind} did not sync within {timeout:?}: {reason}"
    )]
    Sync {
        /// The name of the controller that did not start.
        controller: String,
        /// The first kind that did not sync.
        kind: Kind,
        /// The time limit that `require_sync` set.
        timeout: Duration,
        /// Why the watched kinds have not synced, each with the remedy if one is known, as text.
        reason: String,
    },
    /// The cache stopped watching a kind while the controller ran.
    #[error(
        "controller {controller:?} ended: the cache stopped watching {kind}; \
         stop controllers before the cache, and remove no kind from it that one watches"
    )]
    WatchEnded {
        /// The name of the controller that ended.
        controller: String,
        /// The kind that the cache stopped watching.
        kind: Kind,
    },
    /// Reconciles had not ended when the grace for stopping the controller was over, and were dropped.
    #[error(
        "controller {controller:?} dropped what still ran {grace:?} after it was told to stop: {}; let reconciles return when their context is cancelled",
        requests.join(", ")
    )]
    StillRunning {
        /// The name of the controller that was told to stop.
        controller: String,
        /// The requests of the dropped reconciles, sorted by their text.
        requests: Vec<String>,
        /// How long reconciles could go on after the controller was told to stop.
        grace: Duration,
    },
    /// A task of the controller, or a stream of requests, panicked.
    #[error("controller {controller:?} ended: its {task} panicked: {message}")]
    TaskPanicked {
        /// The name of the controller that ended.
        controller: String,
        /// The kind of task: `watch`, `worker` or `stream of requests`.
        task: &'static str,
        /// The text of the panic.
        message: String,
    },
    /// A cluster cannot be added, because its name is empty.
    #[error("a cluster was given an empty name: requests and metrics need one that tells it apart")]
    EmptyClusterName,
    /// A cluster cannot be added, because the manager has another cluster with this name, or its own cluster has the
    /// name.
    #[error(
        "cluster {cluster} exists: remove it first, or choose another name (`local` is the manager's own)"
    )]
    DuplicateCluster {
        /// The name of the refused cluster. Another cluster has the same name.
        cluster: ClusterName,
    },
    /// The cache of a cluster refuses a kind that a controller watches in each cluster.
    #[error("the cache of cluster {cluster} cannot watch {kind}")]
    WatchInCluster {
        /// The name of the cluster with the cache that refuses the kind.
        cluster: ClusterName,
        /// The kind that the cache refuses.
        kind: Kind,
        /// Why the cache refuses the kind.
        source: steersman_cache::Error,
    },
    /// A reconcile may not read objects of a kind that its controller does not declare as owned.
    #[error(
        "controller {controller:?} does not own {kind}: declare it with `owns` on the builder, so that its events \
         request their owner"
    )]
    NotOwned {
        /// The name of the controller that runs the reconcile.
        controller: String,
        /// The kind that is not declared as owned.
        kind: Kind,
    },
    /// A reconcile may not read owned objects, because the requests of its controller do not stand for objects of a
    /// primary kind.
    #[error(
        "the requests of controller {controller:?} are no objects, which own others: list with \
         `ListOptions::controlled_by`, or build it with `Controller::builder`"
    )]
    NoOwner {
        /// The name of the controller that runs the reconcile.
        controller: String,
    },
    /// A clean-up of [`Finalizers`](crate::Finalizers) failed.
    #[error("the clean-up for the finalizer {finalizer:?} failed")]
    CleanUp {
        /// The name of the finalizer. It stays on the object, so that the clean-up is tried again.
        finalizer: String,
        /// The error of the clean-up.
        source: Box<dyn StdError + Send + Sync>,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResult {
    #[error("the reconcile panicked: {0}")]
    Panicked(String),
    #[error("the reconcile was dropped past its deadline")]
    TimedOut,
}

/// The error of a handler's function that exceeded its time limit.
#[derive(Debug, thiserror::Error)]
#[error("the function took more than {limit:?}")]
pub(crate) struct TookTooLong {
    pub(crate) limit: Duration,
}

// === impl Error ===

impl Error {
    /// Makes an error with the text `message`.
    pub fn msg(message: impl fmt::Display) -> Self {
        Self::boxed(message.to_string().into())
    }

    pub(crate) fn boxed(source: Box<dyn StdError + Send + Sync>) -> Self {
        Self {
            source,
            terminal: false,
        }
    }

    /// Marks the error as permanent: the request is not retried, and runs again only when something changes. The number
    /// of failures of the request stays as it is.
    #[must_use]
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// Returns whether the error is marked as [`terminal`](Self::terminal).
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns the wrapped error: the error that `?` converted, or an error with the text of [`msg`](Self::msg).
    pub fn source(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }

    /// Returns the wrapped error, if it is an `E`.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    /// Returns the text of the error and of all its causes, on one line.
    pub fn chain(&self) -> String {
        report(&*self.source).to_string()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        Self::boxed(Box::new(source))
    }
}

// Lets `?` convert an [`Error`] in functions that return a boxed error, such as a runnable. The conversion does not
// conflict with the blanket implementations of std, because `Error` does not implement `std::error::Error`.
impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Self {
        error.source
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        error.source
    }
}

// === impl ControllerError ===

impl ControllerError {
    /// Returns whether the controller ended because a watched kind did not sync within the time of `require_sync`.
    pub fn is_sync_timeout(&self) -> bool {
        matches!(self, Self::Sync { .. })
    }

    /// Returns whether a panic ended the controller.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::TaskPanicked { .. })
    }

    /// Returns the kind that the error names; `None` for an error that names no kind.
    pub fn kind(&self) -> Option<&Kind> {
        match self {
            Self::Watch { kind, .. }
            | Self::Sync { kind, .. }
            | Self::WatchEnded { kind, .. }
            | Self::WatchInCluster { kind, .. }
            | Self::NotOwned { kind, .. } => Some(kind),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write the deployment")]
    struct Outer(#[source] std::io::Error);

    fn fails() -> Result<(), Error> {
        Err(Outer(std::io::Error::other("refused")))?;
        Ok(())
    }

    #[test]
    fn any_error_converts_and_its_chain_is_one_line() {
        let error = fails().unwrap_err();
        assert_eq!(error.to_string(), "cannot write the deployment");
        assert_eq!(error.chain(), "cannot write the deployment: refused");
        assert!(error.downcast_ref::<Outer>().is_some());
        assert!(!error.is_terminal());
        assert!(error.terminal().is_terminal());
        assert_eq!(Error::msg(format_args!("{} left", 3)).to_string(), "3 left");
    }
}
