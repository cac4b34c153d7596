//! Words: what a controller shows of its queue, its events and its reconciles to people.

pub(crate) mod recent;

use std::time::{Duration, Instant};

use steersman_client::WaitCause;
use steersman_object::{Kind, ObjectKey, ResourceVersion};
use steersman_workqueue::{KeyReport, QueueReport};

use crate::request::ClusterName;

use recent::RecentReconcile;

/// An object that is asked for: of one cluster, or of any.
#[derive(Clone, Copy, Debug)]
pub struct SoughtObject<'a> {
    key: &'a ObjectKey,
    cluster: Option<&'a str>,
}

/// A live event of a watch, with the requests that it caused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JournalEvent {
    /// When the event was handled.
    pub at: Instant,
    /// The kind of the object.
    pub kind: Kind,
    /// The namespace and the name of the object.
    pub key: ObjectKey,
    /// The cluster of the object; `None` for the manager's own cluster.
    pub cluster: Option<ClusterName>,
    /// `created`, `updated` or `deleted`.
    pub change: &'static str,
    /// The resource version after the change; for a delete the last known version.
    pub version: ResourceVersion,
    /// The first requests that the event caused, as texts; empty if a predicate refused the event, or its handler named no
    /// request.
    pub requests: Vec<String>,
    /// The number of further requests.
    pub more_requests: usize,
}

/// A write or a wait of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconcileStep {
    /// When the step began.
    pub began: Instant,
    /// How long the step took; of a step in progress, how long it has taken so far.
    pub took: Duration,
    /// Whether the step is in progress.
    pub is_open: bool,
    /// What the reconcile did.
    pub action: StepAction,
    /// The cluster; `None` for the manager's own cluster.
    pub cluster: Option<ClusterName>,
    /// The kind of the objects.
    pub kind: Kind,
    /// The object; `None` for a list, for the delete of a collection, and if the server generates the name.
    pub key: Option<ObjectKey>,
}

/// What a reconcile did in a [`ReconcileStep`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepAction {
    /// It wrote an object.
    Write {
        /// The verb, as in RBAC rules.
        verb: &'static str,
        /// The written subresource; `None` for the object itself.
        subresource: Option<String>,
        /// The error of the server; `None` if the write was executed.
        error: Option<String>,
    },
    /// It waited.
    Wait(WaitCause),
}

/// The reconciles that failed with one message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorGroup {
    /// The message of the last failure, with its causes.
    pub message: String,
    /// The number of failures.
    pub count: u64,
    /// When the first one ended.
    pub first: Instant,
    /// When the last one ended.
    pub last: Instant,
    /// The last requests that failed so, the newest first, as texts.
    pub requests: Vec<String>,
    /// The message of the last failure of each of these requests.
    pub messages: Vec<String>,
}

/// A request that triggers itself: each of its runs writes an object, and that write alone causes the next run (CTRL-24).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopReport {
    /// When the warning about the object was logged.
    pub at: Instant,
    /// The request, as text.
    pub request: String,
    /// The kind of the object that the runs write.
    pub kind: Kind,
    /// The object that the runs write.
    pub key: ObjectKey,
    /// The fields that the last write changed, separated by commas; or `unknown`.
    pub fields: String,
    /// The number of runs in a row before the warning.
    pub runs: u32,
}

/// How many reconciles ended in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconcileRate {
    /// The number of reconciles.
    pub reconciles: u64,
    /// The number of reconciles that failed, panicked or timed out.
    pub failures: u64,
}

impl<'a> SoughtObject<'a> {
    /// Makes an object of any cluster.
    #[must_use]
    pub fn new(key: &'a ObjectKey) -> Self {
        Self { key, cluster: None }
    }

    /// Sets the cluster; `local` is the manager's own.
    #[must_use]
    pub fn in_cluster(mut self, cluster: &'a str) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Returns whether this is the object with a key; `cluster` is `None` for the manager's own cluster.
    pub(crate) fn is(&self, cluster: Option<&ClusterName>, key: &ObjectKey) -> bool {
        let cluster = cluster.map_or(ClusterName::LOCAL, ClusterName::as_str);
        key == self.key && self.cluster.is_none_or(|sought| sought == cluster)
    }
}

/// A running controller, without the type of its requests.
pub(crate) trait Inside: Send + Sync {
    fn queue(&self, most: usize) -> QueueReport<String>;

    fn find(&self, object: SoughtObject<'_>) -> Option<KeyReport<String>>;

    /// Returns the last reconciles, newest first: of all requests, or of those for an object.
    fn recent(&self, object: Option<SoughtObject<'_>>, most: usize) -> Vec<RecentReconcile>;

    /// Returns the steps so far of the running reconciles of the requests for an object, and then those in progress.
    fn running_steps(&self, object: SoughtObject<'_>) -> Vec<ReconcileStep>;

    /// Returns the steps in progress, with their requests as texts.
    fn open_steps(&self) -> Vec<(String, ReconcileStep)>;

    /// Returns the last events, oldest first: all, or those of an object and of requests for it.
    fn events(&self, object: Option<SoughtObject<'_>>) -> Vec<JournalEvent>;

    fn errors(&self) -> Vec<ErrorGroup>;

    /// Returns the message of the last failure of each of these requests, which are texts; `None` if it is not on record.
    fn last_failures(&self, requests: &[String]) -> Vec<Option<String>>;

    fn slowest(&self) -> Vec<RecentReconcile>;

    fn rate(&self) -> ReconcileRate;

    /// Returns the last warnings about requests that trigger themselves, the newest last.
    fn loops(&self) -> Vec<LoopReport>;
}
