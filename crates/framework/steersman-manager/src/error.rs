//! Words: the errors of a manager. Each names the runnable or controller that it is about.

use std::error::Error as StdError;
use std::time::Duration;

use steersman_lease::LossReason;
use thiserror::Error as ThisError;

use crate::order::Group;

/// The error of a runnable.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The error of a manager that could not be built, or ended.
///
/// `Display` prints one level; [`source`](StdError::source) has the causes.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The options of the cache contradict each other.
    #[error("the manager cannot be built with these cache options")]
    CacheOptions(#[source] steersman_cache::Error),
    /// A kind, an index or a scope was declared in a way that cannot work. Made from the error of the cache by `?`, so
    /// that a function can declare indexes and controllers.
    #[error("the manager's cache cannot hold what was declared")]
    Declared(#[from] steersman_cache::Error),
    /// Servers would refuse the field manager of the client options.
    #[error("the manager's client cannot sign its writes")]
    FieldManager(#[source] steersman_client::InvalidFieldManager),
    /// The registry already has metrics with these names.
    #[error(
        "the metrics of the manager cannot be registered: give each manager a registry of its own"
    )]
    Metrics(#[source] prometheus::Error),
    /// A controller was declared in a way that cannot work.
    #[error("a controller cannot be built as declared")]
    Controller(#[from] steersman_controller::ControllerError),
    /// A cluster cannot be added.
    #[error("the manager cannot add a cluster")]
    Cluster(#[source] Box<steersman_controller::ControllerError>),
    /// Two controllers of one manager have the same name, which would mix their metrics and logs.
    #[error(
        "this manager has a controller named {name:?} already: give one of the two another name"
    )]
    DuplicateController {
        /// The name of both controllers.
        name: String,
    },
    /// Settings name controllers that the manager does not have.
    #[error(
        "there are settings for {}, but this manager has no controller of that name; it has {}: correct the \
         name in the configuration, or in `ControllerDefaults::named`",
        unknown.join(", "),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    UnknownControllers {
        /// The names without a controller, in order.
        unknown: Vec<String>,
        /// The names of the controllers, in order.
        known: Vec<String>,
    },
    /// A server of health probes, metrics or webhooks was declared in a way that cannot work.
    #[error("the server of health probes, metrics or webhooks cannot be made as declared")]
    Server(#[from] steersman_serve::Error),
    /// The debug page names objects, and every client in the network could read it.
    #[error(
        "the debug page on {address} would be open to every client in the network: use \
         `MetricsServer::secure` (--metrics-secure), an access control, or a loopback address such as 127.0.0.1:8080"
    )]
    DebugPage {
        /// The address of the metrics server.
        address: String,
    },
    /// A CustomResourceDefinition cannot be installed on any server.
    #[error("a definition cannot be installed as declared")]
    Definition(#[from] steersman_crds::Error),
    /// A health endpoint has two checks of the same name.
    #[error("there is a check named {name:?} already: give one of the two another name")]
    DuplicateCheck {
        /// The name of both checks.
        name: String,
    },
    /// The name of a check cannot be part of a path.
    #[error("{name:?} is no name of a check: use letters, digits, and the characters - _ . and /")]
    CheckName {
        /// The refused name.
        name: String,
    },
    /// The leader election cannot work as declared, or its thread could not be started.
    #[error("the leader election of the manager cannot work")]
    LeaderElection(#[source] steersman_lease::Error),
    /// The replicas cannot share the work as declared, or the thread of the membership could not be started.
    #[error("the shards of the manager cannot work")]
    Shards(#[source] steersman_shards::Error),
    /// This replica lost its lease while it led, which ended the manager: the process should exit and be started
    /// again.
    #[error("this replica no longer leads, so the manager has stopped: {reason}")]
    LeadershipLost {
        /// Why this replica lost its lease.
        reason: LossReason,
    },
    /// The process cannot listen to the signals that stop the manager.
    #[error("SIGINT and SIGTERM cannot be listened to")]
    Signals(#[source] std::io::Error),
    /// [`start`](crate::Manager::start) was called twice.
    #[error("this manager has been started already: make a new one, it cannot start twice")]
    AlreadyStarted,
    /// A runnable or controller was added while the manager stopped, or after.
    #[error("{name} cannot be added: the manager is stopping")]
    Stopping {
        /// The name of the runnable or controller.
        name: String,
    },
    /// A runnable returned an error, which ended the manager.
    #[error("{name} failed ({group})")]
    Failed {
        /// The name of the runnable that failed.
        name: String,
        /// The group with which the runnable started.
        group: Group,
        /// The error of the runnable.
        #[source]
        source: BoxError,
    },
    /// A runnable, or a task of the framework, panicked, which ended the manager.
    #[error("{name} panicked ({group}): {message}")]
    Panicked {
        /// The name of the runnable that panicked.
        name: String,
        /// The group with which the runnable started.
        group: Group,
        /// The text of the panic.
        message: String,
    },
    /// Some runnables did not stop within the grace period, and were dropped.
    #[error("not everything stopped within {grace:?}: {} did not", running.join(", "))]
    StopTimeout {
        /// The time limit for the whole stop.
        grace: Duration,
        /// The names of the dropped runnables that had been asked to stop; for a controller with the requests that it
        /// still reconciled.
        running: Vec<String>,
    },
    /// A second request to stop came before every runnable had stopped; the remaining runnables were dropped.
    #[error("stopped at once on a second request, while {} still ran", running.join(", "))]
    Aborted {
        /// The names of the dropped runnables that had been asked to stop.
        running: Vec<String>,
    },
}

impl Error {
    /// Returns whether a runnable had to be dropped.
    pub fn is_unclean_stop(&self) -> bool {
        matches!(self, Self::StopTimeout { .. } | Self::Aborted { .. })
    }

    /// Returns whether the manager ended because this replica lost its lease.
    pub fn is_leadership_lost(&self) -> bool {
        matches!(self, Self::LeadershipLost { .. })
    }

    /// Returns the name of the runnable that ended the manager by an error or a panic; `None` if none did.
    pub fn failed(&self) -> Option<&str> {
        match self {
            Self::Failed { name, .. } | Self::Panicked { name, .. } => Some(name),
            _ => None,
        }
    }
}
