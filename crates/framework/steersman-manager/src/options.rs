//! Words: the options of a manager.

use std::time::Duration;

use steersman_client::ClientOptions;
use steersman_controller::{Clock, ControllerDefaults};
use steersman_shards::ShardGate;

#[derive(Clone, derive_more::Debug)]
#[debug("ManagerOptions {{ grace: {grace:?}, .. }}")]
pub(crate) struct ManagerOptions {
    /// The time limit for the whole stop; `None` means no limit.
    pub(crate) grace: Option<Duration>,
    /// The registry of the metrics of controllers, caches and queues.
    pub(crate) registry: prometheus::Registry,
    /// The options of the manager's client, which the clients of added clusters have, too.
    pub(crate) client: ClientOptions,
    /// The field manager of controllers that were declared without one.
    pub(crate) field_manager: Option<String>,
    /// The wall clock of reconcilers.
    pub(crate) clock: Clock,
    /// The settings of controllers by default and by name, and the limit that they share.
    pub(crate) controllers: ControllerDefaults,
    /// The slots of this replica, if the replicas share the work.
    pub(crate) shards: Option<ShardGate>,
    /// Whether controllers keep a journal for the debug page.
    pub(crate) has_journal: bool,
}

/// The default grace period, equal to the default of a Pod.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// The time limit, after the grace period, of the groups that were not asked to stop within it.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// The longest part of the grace period that controllers leave for groups that stop after them.
const LONGEST_MARGIN: Duration = Duration::from_secs(5);

impl ManagerOptions {
    /// Returns the grace period of reconciles, which leaves the other groups time to stop in order after a reconcile
    /// that hangs is dropped.
    pub(crate) fn reconcile_grace(&self) -> Option<Duration> {
        self.grace
            .map(|grace| grace.saturating_sub(LONGEST_MARGIN.min(grace / 5)))
    }

    /// Returns the time limit, after the grace period, of the groups that were not asked to stop within it; at most as
    /// long as the grace period.
    pub(crate) fn last_moment(&self) -> Duration {
        self.grace
            .map_or(LAST_MOMENT, |grace| grace.min(LAST_MOMENT))
    }
}
