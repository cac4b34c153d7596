//! Words: what failed to start, to run or to stop, by name.

use std::error::Error as StdError;
use std::time::Duration;

use thiserror::Error as ThisError;

use crate::order::Group;

/// Any error of a runnable.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a manager could not be built, or ended.
///
/// Displays one level; [`source`](StdError::source) has the rest.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The cache's options contradict themselves.
    #[error("the manager cannot be built with these cache options")]
    CacheOptions(#[source] steersman_cache::Error),
    /// A kind, an index or a scope was declared in a way that cannot work. Converts from the cache's
    /// error, so that a function that declares indexes and controllers has one error.
    #[error("the manager's cache cannot hold what was declared")]
    Declared(#[from] steersman_cache::Error),
    /// Servers refuse the field manager of the client options.
    #[error("the manager's client cannot sign its writes")]
    FieldManager(#[source] steersman_client::InvalidFieldManager),
    /// The registry has metrics of these names already.
    #[error(
        "the metrics of the manager cannot be registered: give each manager a registry of its own"
    )]
    Metrics(#[source] prometheus::Error),
    /// A controller was declared in a way that cannot work.
    #[error("a controller cannot be built as declared")]
    Controller(#[from] steersman_controller::ControllerError),
    /// Two controllers of one manager have one name, so that metrics and logs would mix them.
    #[error(
        "this manager has a controller named {name:?} already: give one of the two another name"
    )]
    DuplicateController {
        /// The name.
        name: String,
    },
    /// The signals that ask to stop could not be listened to.
    #[error("SIGINT and SIGTERM cannot be listened to")]
    Signals(#[source] std::io::Error),
    /// [`start`](crate::Manager::start) was called twice.
    #[error("this manager has been started already: make a new one, it cannot start twice")]
    AlreadyStarted,
    /// Something was added while the manager stops, or after.
    #[error("{name} cannot be added: the manager is stopping")]
    Stopping {
        /// What was to be added.
        name: String,
    },
    /// A runnable ended with an error, and with it the manager.
    #[error("{name} failed ({group})")]
    Failed {
        /// The name of the runnable.
        name: String,
        /// Its group.
        group: Group,
        /// What it said.
        #[source]
        source: BoxError,
    },
    /// A task of the framework, or of a runnable, panicked: a defect that ends the manager.
    #[error("{name} panicked ({group}): {message}")]
    Panicked {
        /// The name of the runnable.
        name: String,
        /// Its group.
        group: Group,
        /// What the panic said.
        message: String,
    },
    /// Not everything stopped within the grace period; what had not was dropped.
    #[error("not everything stopped within {grace:?}: {} did not", running.join(", "))]
    StopTimeout {
        /// The grace period.
        grace: Duration,
        /// The names of those that had been asked to stop and still ran; of controllers with the requests
        /// that they still worked on.
        running: Vec<String>,
    },
    /// A second request to stop came before everything had stopped; what had not was dropped.
    #[error("stopped at once on a second request, while {} still ran", running.join(", "))]
    Aborted {
        /// The names of those that had been asked to stop and still ran.
        running: Vec<String>,
    },
}

impl Error {
    /// Whether something did not stop by itself.
    #[must_use]
    pub fn is_unclean_stop(&self) -> bool {
        matches!(self, Self::StopTimeout { .. } | Self::Aborted { .. })
    }

    /// The name of the runnable that ended the manager, where one did.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        match self {
            Self::Failed { name, .. } | Self::Panicked { name, .. } => Some(name),
            _ => None,
        }
    }
}
