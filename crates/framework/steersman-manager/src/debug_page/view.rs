//! Words: the views of the debug page, as JSON and as HTML show them.
//!
//! Times are in seconds. The views have no content of objects; texts of errors may name objects.

use serde::Serialize;
use serde_json::Value;

/// What the whole operator does.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    /// The program and the host of this replica.
    pub(crate) replica: String,
    /// The host of the API server.
    pub(crate) server: String,
    /// `starting`, `started` or `stopping`.
    pub(crate) stage: &'static str,
    /// Whether this replica leads; `null` without leader election.
    pub(crate) is_leader: Option<bool>,
    /// What needs attention, the most urgent first.
    pub(crate) attention: Vec<AttentionItem>,
    /// The number of further items.
    pub(crate) more_attention: usize,
    pub(crate) controllers: PageOf<ControllerRow>,
    pub(crate) caches: CacheTotals,
}

/// A part of a list: its rows from `offset` on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageOf<T> {
    pub(crate) items: Vec<T>,
    /// The number of rows that match the filter.
    pub(crate) total: usize,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    /// The filter; empty for all rows.
    pub(crate) filter: String,
}

/// Something that keeps the operator from its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttentionItem {
    pub(crate) severity: Severity,
    pub(crate) title: String,
    pub(crate) detail: String,
    /// What to do; `null` if nothing is known to help.
    pub(crate) remedy: Option<String>,
    /// The page that shows more, relative to `/debug/`.
    pub(crate) link: String,
}

/// How urgent an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Severity {
    /// Work does not go on.
    Bad,
    /// Work goes on, but not as it should.
    Warning,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControllerRow {
    pub(crate) name: String,
    /// The kind of its requests; `null` for requests of another type.
    pub(crate) kind: Option<String>,
    /// `waiting` for first syncs, `working`, `standby` while another replica leads, or `off`.
    pub(crate) state: &'static str,
    /// The kinds that it waits for, with the reasons.
    pub(crate) waiting_for: Vec<String>,
    pub(crate) workers: usize,
    pub(crate) running: usize,
    pub(crate) ready: usize,
    pub(crate) delayed: usize,
    /// The number of requests that wait for a retry.
    pub(crate) retrying: usize,
    /// The number of reconciles that have ended since the start.
    pub(crate) finished: u64,
    /// The reconciles of the last minute, and those that failed.
    pub(crate) per_minute: u64,
    pub(crate) failures_per_minute: u64,
    /// How long the longest running reconcile has run.
    pub(crate) longest_running: Option<f64>,
    /// The last error, if it occurred in the last ten minutes.
    pub(crate) last_error: Option<String>,
}

/// One controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ControllerView {
    pub(crate) row: ControllerRow,
    /// The reconciles that run, the longest first.
    pub(crate) running: Vec<RequestRow>,
    /// The requests that wait for a worker, the oldest first.
    pub(crate) ready: Vec<RequestRow>,
    /// The requests that wait for a time, the next one first.
    pub(crate) delayed: Vec<RequestRow>,
    /// The requests with the most failures in a row.
    pub(crate) failing: Vec<RequestRow>,
    pub(crate) errors: Vec<ErrorRow>,
    pub(crate) slowest: Vec<ReconcileRow>,
    /// The last reconciles, the newest first.
    pub(crate) recent: Vec<ReconcileRow>,
    pub(crate) loops: Vec<LoopRow>,
    /// Events that panics and errors of handlers have lost.
    pub(crate) lost_events: Vec<String>,
    /// The last live events, the newest first.
    pub(crate) events: Vec<EventRow>,
}

/// A request in the queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestRow {
    pub(crate) request: String,
    /// `running`, `ready` or `delayed`.
    pub(crate) state: &'static str,
    /// Since when it runs or is ready.
    pub(crate) since: Option<f64>,
    /// When it becomes ready.
    pub(crate) due_in: Option<f64>,
    /// The number of failures in a row.
    pub(crate) failures: u32,
    /// When it is retried, at the latest.
    pub(crate) retry_in: Option<f64>,
    pub(crate) priority: i32,
    /// Whether it runs again after the present run, because something changed.
    pub(crate) runs_again: bool,
    /// The reads, writes and waits of its running reconcile that are in progress.
    pub(crate) in_progress: Vec<StepInProgress>,
}

/// A read, write or wait in progress.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepInProgress {
    pub(crate) text: String,
    /// How long it has taken so far.
    pub(crate) seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorRow {
    pub(crate) message: String,
    pub(crate) count: u64,
    pub(crate) first_ago: f64,
    pub(crate) last_ago: f64,
    /// The last requests that failed so, the newest first.
    pub(crate) requests: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReconcileRow {
    pub(crate) id: u64,
    pub(crate) request: String,
    pub(crate) reason: String,
    /// The number of failures in a row before.
    pub(crate) attempt: u32,
    /// `success`, `error`, `panic` or `timeout`.
    pub(crate) result: &'static str,
    pub(crate) message: Option<String>,
    pub(crate) seconds: f64,
    pub(crate) ended_ago: f64,
    /// The planned next run, counted from the end of this one.
    pub(crate) next_in: Option<f64>,
    /// The number of its writes that the server refused, also if the reconcile succeeded.
    pub(crate) refused_writes: usize,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) more_steps: usize,
}

/// A write or a wait of a reconcile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepRow {
    /// When it began, counted from the start of the reconcile.
    pub(crate) at: f64,
    pub(crate) seconds: f64,
    pub(crate) text: String,
    pub(crate) is_write: bool,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoopRow {
    pub(crate) ago: f64,
    pub(crate) request: String,
    pub(crate) object: String,
    pub(crate) fields: String,
    pub(crate) runs: u32,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventRow {
    pub(crate) ago: f64,
    pub(crate) object: String,
    /// `created`, `updated` or `deleted`.
    pub(crate) change: &'static str,
    pub(crate) version: String,
    pub(crate) requests: Vec<String>,
    pub(crate) more_requests: usize,
}

/// The path of one object through one controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectView {
    pub(crate) controller: String,
    pub(crate) kind: Option<String>,
    pub(crate) key: String,
    /// Its request in the queue; `null` if it neither runs nor waits.
    pub(crate) request: Option<RequestRow>,
    /// Whether replicas share the work, so that the object may be another one's.
    pub(crate) is_shared: bool,
    /// What happened, the newest first.
    pub(crate) timeline: Vec<TimelineRow>,
    /// The writers of its fields, from `managedFields`.
    pub(crate) writers: Vec<FieldWriter>,
    /// Why there are no writers.
    pub(crate) problem: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimelineRow {
    pub(crate) ago: f64,
    /// `event`, `reconcile`, `write` or `wait`.
    pub(crate) lane: &'static str,
    pub(crate) text: String,
    pub(crate) detail: String,
    pub(crate) is_bad: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FieldWriter {
    pub(crate) manager: String,
    pub(crate) operation: String,
    pub(crate) subresource: String,
    /// The time of its last write.
    pub(crate) time: String,
    /// The paths of its fields; only the first ones.
    pub(crate) fields: Vec<String>,
    pub(crate) more_fields: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheTotals {
    pub(crate) informers: usize,
    pub(crate) synced: usize,
    pub(crate) objects: usize,
    pub(crate) packed_bytes: usize,
    pub(crate) decoded_bytes: usize,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CachesView {
    pub(crate) totals: CacheTotals,
    pub(crate) caches: PageOf<CacheRow>,
}

/// One informer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheRow {
    /// The cluster; `null` for the manager's own.
    pub(crate) cluster: Option<String>,
    pub(crate) kind: String,
    /// `null` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) has_synced: bool,
    pub(crate) is_metadata_only: bool,
    pub(crate) subscribers: usize,
    pub(crate) objects: usize,
    pub(crate) malformed: usize,
    pub(crate) json_bytes: usize,
    pub(crate) packed_bytes: usize,
    pub(crate) decoded_bytes: usize,
    pub(crate) queued: usize,
    pub(crate) last_event_ago: Option<f64>,
    pub(crate) last_bookmark_ago: Option<f64>,
    pub(crate) last_list_ago: Option<f64>,
    pub(crate) last_list_cause: Option<String>,
    pub(crate) problem: Option<CacheProblem>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheProblem {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) remedy: Option<String>,
    pub(crate) since_ago: Option<f64>,
}

/// The connection to the API server, webhooks and certificates.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerView {
    pub(crate) server: String,
    pub(crate) writes_in_flight: usize,
    /// The number of written objects that the cache has not seen yet.
    pub(crate) unseen_writes: usize,
    pub(crate) requests: Vec<RequestCount>,
    pub(crate) webhooks: Vec<WebhookRow>,
    pub(crate) certificates: Vec<CertificateRow>,
}

/// The requests to the API server with one method and one status code.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestCount {
    pub(crate) host: String,
    pub(crate) method: String,
    pub(crate) code: String,
    pub(crate) count: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebhookRow {
    pub(crate) webhook: String,
    pub(crate) requests: u64,
    pub(crate) mean_seconds: f64,
    /// An upper bound of the time of 99 of 100 requests, from the buckets of the histogram; `null` if it is above the last one.
    pub(crate) p99_seconds: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CertificateRow {
    pub(crate) name: String,
    /// Seconds since 1970.
    pub(crate) not_after: f64,
}

/// Leader election and shards.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicasView {
    /// The section `lease` of the diagnostics; `null` without leader election.
    pub(crate) lease: Value,
    /// The section `shards` of the diagnostics; `null` if the replicas do not share the work.
    pub(crate) shards: Value,
}

impl ObjectView {
    /// Adds the writers of the fields; or why they are not known.
    pub(crate) fn with(mut self, writers: Result<Vec<FieldWriter>, String>) -> Self {
        match writers {
            Ok(writers) => self.writers = writers,
            Err(problem) => self.problem = Some(problem),
        }
        self
    }
}
