//! Handle: reads the views of the debug page from the parts of a manager.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::Registry;
use serde_json::Value;
use steersman_cache::{InformerFailure, InformerReport, InformerState};
use steersman_client::Client;
use steersman_controller::{ControllerStatus, KeyState, QueueReport, SoughtObject};
use steersman_object::Kind;

use super::attention::{Facts, attention};
use super::query::ViewQuery;
use super::rows::{ago, error_row, event_row, loop_row, reconcile_row, request_row};
use super::server_metrics::{certificates, requests, webhooks};
use super::timeline::timeline;
use super::view::{
    CacheProblem, CacheRow, CacheTotals, CachesView, ControllerRow, ControllerView, ObjectView,
    Overview, PageOf, ReplicasView, ServerView,
};
use crate::diagnostics::Diagnostics;
use crate::monitor::{Monitor, RunStage};

/// The parts of a manager that the debug page shows. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gatherer {
    pub(crate) monitor: Arc<Monitor>,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) registry: Registry,
    pub(crate) client: Client,
    pub(crate) server: String,
    /// The program and the host of this replica.
    pub(crate) replica: String,
}

/// A controller and the kind of its requests.
struct SeenController {
    status: ControllerStatus,
    kind: Option<Kind>,
}

/// The number of requests of each state, of reconciles and of events that one controller shows.
const MOST: usize = 20;

/// The number of reconciles of one object that its page shows.
const MOST_ROWS: usize = 100;

/// How long the last error of a controller is shown in the list of controllers.
const RECENT_ERROR: Duration = Duration::from_mins(10);

impl<T> PageOf<T> {
    fn of(query: &ViewQuery, all: Vec<T>) -> Self {
        let offset = query.offset.min(all.len());
        Self {
            total: all.len(),
            items: all.into_iter().skip(offset).take(query.limit).collect(),
            offset,
            limit: query.limit,
            filter: query.filter.clone(),
        }
    }

    fn map<U>(self, row: impl FnMut(T) -> U) -> PageOf<U> {
        PageOf {
            items: self.items.into_iter().map(row).collect(),
            total: self.total,
            offset: self.offset,
            limit: self.limit,
            filter: self.filter,
        }
    }
}

impl Gatherer {
    pub(crate) fn overview(&self, query: &ViewQuery, now: Instant) -> Overview {
        let controllers = self.controllers().into_iter();
        // Cheap for a controller without waiting requests, so that hundreds of controllers can be looked at.
        let with_queue = |one: SeenController| (one.status.queue(3), one);
        let all: Vec<_> = controllers.map(with_queue).collect();
        let mut facts = Facts::default();
        let informers = self.monitor.informers();
        let failures = self.monitor.failures();
        for (cluster, failure) in &failures {
            facts.add_failure(cluster.as_deref(), failure);
        }
        facts.add_checks(&self.monitor.live_checks(now));
        facts.add_shards(&self.diagnostics.section("shards").unwrap_or(Value::Null));
        // What causes other problems is first: the list is cut.
        for (queue, controller) in &all {
            let has_objects = controller.kind.is_some();
            facts.add_controller(&controller.status, has_objects, queue.as_ref(), now);
        }
        facts.add_waiting();
        let is_leader = self.is_leader();
        let (attention, more_attention) = attention(facts);
        let wanted = all
            .iter()
            .filter(|(_, one)| query.matches(one.status.controller()));
        let page = PageOf::of(query, wanted.collect());
        let stage = self.monitor.stage();
        Overview {
            replica: self.replica.clone(),
            server: self.server.clone(),
            stage: match stage {
                RunStage::Starting => "starting",
                RunStage::Started => "started",
                RunStage::Stopping => "stopping",
            },
            is_leader,
            attention,
            more_attention,
            controllers: page.map(|(queue, one)| one.row(queue.as_ref(), is_leader, now)),
            caches: totals(&informers),
        }
    }

    /// Returns one controller; `None` if there is none of this name.
    pub(crate) fn controller(&self, query: &ViewQuery, now: Instant) -> Option<ControllerView> {
        let controller = self.named(&query.controller)?;
        let status = &controller.status;
        let queue = status.queue(MOST);
        let open = status.open_steps();
        let rows = |state| {
            let keys = queue.iter().flat_map(|queue| &queue.keys);
            keys.map(|key| request_row(key, &open, now))
                .filter(|row| row.state == state)
                .collect()
        };
        let recent = status.last_reconciles(None, query.limit);
        let mut events = status.events(None);
        events.reverse();
        let lost = [status.last_handler_panic(), status.last_handler_error()];
        let mut loops: Vec<_> = status
            .loops()
            .iter()
            .map(|one| loop_row(one, now))
            .collect();
        loops.reverse();
        Some(ControllerView {
            row: controller.row(queue.as_ref(), self.is_leader(), now),
            running: rows("running"),
            ready: rows("ready"),
            delayed: rows("delayed"),
            failing: queue
                .iter()
                .flat_map(|queue| &queue.failing)
                .map(|key| request_row(key, &open, now))
                .collect(),
            errors: status
                .errors()
                .iter()
                .map(|one| error_row(one, now))
                .collect(),
            slowest: status
                .slowest()
                .iter()
                .map(|one| reconcile_row(one, now))
                .collect(),
            recent: recent.iter().map(|one| reconcile_row(one, now)).collect(),
            loops,
            lost_events: lost
                .into_iter()
                .flatten()
                .map(|one| one.to_string())
                .collect(),
            events: events
                .iter()
                .take(MOST)
                .map(|one| event_row(one, now))
                .collect(),
        })
    }

    /// Returns the path of an object, without its writers; `None` if there is no such controller, or the query has no object.
    pub(crate) fn object(&self, query: &ViewQuery, now: Instant) -> Option<ObjectView> {
        let controller = self.named(&query.controller)?;
        let key = query.object()?;
        let status = &controller.status;
        let sought = SoughtObject::new(&key);
        let sought = query
            .cluster()
            .map_or(sought, |cluster| sought.in_cluster(cluster));
        let request = status.request_of(sought);
        let reconciles = status.last_reconciles(Some(sought), MOST_ROWS);
        let steps = status.running_steps(sought);
        let since = request.as_ref().and_then(|request| match request.state {
            KeyState::Held { since, .. } => since,
            _ => None,
        });
        Some(ObjectView {
            controller: status.controller().to_owned(),
            kind: controller.kind.as_ref().map(ToString::to_string),
            request: request.map(|request| request_row(&request, &status.open_steps(), now)),
            timeline: timeline(
                &reconciles,
                (since, &steps),
                &status.events(Some(sought)),
                now,
            ),
            is_shared: self.diagnostics.section("shards").is_some(),
            key: query.key.clone(),
            writers: Vec::new(),
            problem: None,
        })
    }

    pub(crate) fn has_controller(&self, query: &ViewQuery) -> bool {
        self.named(&query.controller).is_some()
    }

    /// Returns the kind of the requests of a controller; `None` if they are of another type.
    pub(crate) fn kind_of(&self, controller: &str) -> Option<Kind> {
        self.named(controller)?.kind
    }

    pub(crate) fn caches(&self, query: &ViewQuery, now: Instant) -> CachesView {
        let informers = self.monitor.informers();
        let failures = self.monitor.failures();
        let totals = totals(&informers);
        let mut rows: Vec<CacheRow> = informers
            .iter()
            .map(|(cluster, report)| {
                let same = |(of, failure): &&(Option<String>, InformerFailure)| {
                    of == cluster
                        && failure.kind == report.kind
                        && failure.namespace == report.namespace
                };
                let failure = failures.iter().find(same).map(|(_, failure)| failure);
                cache_row(cluster.clone(), report, failure, now)
            })
            .filter(|row| query.matches(&row.kind))
            .collect();
        // Those with problems first.
        rows.sort_by_cached_key(|row| {
            (
                row.problem.is_none(),
                row.kind.clone(),
                row.cluster.clone(),
                row.namespace.clone(),
            )
        });
        CachesView {
            totals,
            caches: PageOf::of(query, rows),
        }
    }

    pub(crate) fn server(&self) -> ServerView {
        let families = self.registry.gather();
        ServerView {
            server: self.server.clone(),
            writes_in_flight: self.client.writes_in_flight(),
            unseen_writes: self.client.unseen_writes(),
            requests: requests(&families),
            webhooks: webhooks(&families),
            certificates: certificates(&families),
        }
    }

    pub(crate) fn replicas(&self) -> ReplicasView {
        let section = |name| self.diagnostics.section(name).unwrap_or(Value::Null);
        ReplicasView {
            lease: section("lease"),
            shards: section("shards"),
        }
    }

    /// Returns whether this replica leads; `None` without leader election.
    fn is_leader(&self) -> Option<bool> {
        self.diagnostics.section("lease")?["isLeader"].as_bool()
    }

    fn controllers(&self) -> Vec<SeenController> {
        let controllers = self.monitor.controllers_with_kinds().into_iter();
        controllers
            .map(|(status, kind)| SeenController { status, kind })
            .collect()
    }

    fn named(&self, name: &str) -> Option<SeenController> {
        let mut controllers = self.controllers().into_iter();
        controllers.find(|one| one.status.controller() == name)
    }
}

impl SeenController {
    /// Returns the row. One key of each state in `queue` is enough, for the longest running reconcile.
    fn row(
        &self,
        queue: Option<&QueueReport<String>>,
        is_leader: Option<bool>,
        now: Instant,
    ) -> ControllerRow {
        let status = &self.status;
        let work = status.work();
        let rate = status.rate();
        let errors = status.errors();
        let last_error = errors
            .first()
            .filter(|error| now.saturating_duration_since(error.last) < RECENT_ERROR);
        let waiting_for = status.waiting_for();
        ControllerRow {
            name: status.controller().to_owned(),
            kind: self.kind.as_ref().map(ToString::to_string),
            state: match (&work, status.is_waiting()) {
                (Some(_), _) => "working",
                (None, true) => "waiting",
                (None, false) if is_leader == Some(false) => "standby",
                (None, false) => "off",
            },
            waiting_for: waiting_for.iter().map(ToString::to_string).collect(),
            workers: work.map_or(0, |work| work.workers),
            running: work.map_or(0, |work| work.running),
            ready: queue.map_or(0, |queue| queue.ready),
            delayed: queue.map_or(0, |queue| queue.delayed),
            retrying: queue.map_or(0, |queue| queue.retrying),
            finished: work.map_or(0, |work| work.finished),
            per_minute: rate.reconciles,
            failures_per_minute: rate.failures,
            longest_running: queue.and_then(|queue| longest(queue, now)),
            last_error: last_error.map(|error| error.message.clone()),
        }
    }
}

/// Returns for how many seconds the longest reconcile has run.
fn longest(queue: &QueueReport<String>, now: Instant) -> Option<f64> {
    let first = queue.keys.first()?;
    match first.state {
        KeyState::Held { since, .. } => Some(ago(since?, now)),
        _ => None,
    }
}

fn totals(informers: &[(Option<String>, InformerReport)]) -> CacheTotals {
    let mut totals = CacheTotals::default();
    for (_, report) in informers {
        totals.informers += 1;
        totals.synced += usize::from(report.state.is_synced());
        if let Some(usage) = &report.usage {
            totals.objects += usage.objects;
            totals.packed_bytes += usage.packed;
            totals.decoded_bytes += usage.decoded;
        }
    }
    totals
}

fn cache_row(
    cluster: Option<String>,
    report: &InformerReport,
    failure: Option<&InformerFailure>,
    now: Instant,
) -> CacheRow {
    let since = match &report.state {
        InformerState::Degraded { since, .. } => Some(ago(*since, now)),
        _ => None,
    };
    let usage = report.usage.as_ref();
    let last = |at: Option<Instant>| at.map(|at| ago(at, now));
    CacheRow {
        cluster,
        kind: report.kind.to_string(),
        namespace: report.namespace.clone(),
        state: report.state.as_str(),
        has_synced: report.has_synced,
        is_metadata_only: report.is_metadata_only,
        subscribers: report.subscribers,
        objects: usage.map_or(0, |usage| usage.objects),
        malformed: usage.map_or(0, |usage| usage.malformed),
        json_bytes: usage.map_or(0, |usage| usage.bytes),
        packed_bytes: usage.map_or(0, |usage| usage.packed),
        decoded_bytes: usage.map_or(0, |usage| usage.decoded),
        queued: usage.map_or(0, |usage| usage.queued),
        last_event_ago: last(usage.and_then(|usage| usage.last_event)),
        last_bookmark_ago: last(usage.and_then(|usage| usage.last_bookmark)),
        last_list_ago: last(usage.and_then(|usage| usage.last_list).map(|(at, _)| at)),
        last_list_cause: usage
            .and_then(|usage| usage.last_list)
            .map(|(_, cause)| cause.to_string()),
        problem: failure.map(|failure| CacheProblem {
            reason: failure.reason.as_str().to_owned(),
            message: failure.why.clone(),
            remedy: failure.remedy.clone(),
            since_ago: since,
        }),
    }
}
