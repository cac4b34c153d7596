//! Words: the errors of the queue.

/// The queue is shut down and hands out no more keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the work queue is shut down")]
pub struct ShutDown(pub(crate) ());

/// The metrics of a queue could not be registered.
///
/// The usual reason is a second queue of the same name in one registry: give it another name.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot register the metrics of work queue {name:?}; give each queue of a registry its own name"
)]
pub struct MetricsError {
    pub(crate) name: String,
    #[source]
    pub(crate) source: prometheus::Error,
}
