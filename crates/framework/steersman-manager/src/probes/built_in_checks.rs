//! Handle: the checks of readiness and liveness that every manager has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use steersman_api::clock;
use steersman_cache::{InformerReport, InformerState};
use steersman_controller::{RecentReconcile, ReconcileResult};

use crate::diagnostics::Diagnostics;
use crate::health::Check;
use crate::liveness::reflector_is_late;
use crate::monitor::{Monitor, RunStage};

impl Monitor {
    /// Returns the checks of readiness (HEALTH-2). `manager` passes from the start of the manager until its stop, and
    /// `informers` if each declared kind of the manager's own cluster has synced once. Some kinds are findings and no
    /// failures: those that fail later, those of other clusters, which come and go, and those that the manager's own
    /// webhook converts or its leader installs, because webhooks are called only when the manager is ready, and a
    /// rollout waits for a standby of the next release before that release leads. `client-certificates` always passes:
    /// open connections go on with an expired certificate (HEALTH-5).
    pub(crate) fn ready_checks(&self) -> [Check; 3] {
        let stage = self.stage();
        let manager = match stage {
            RunStage::Starting => Some("the manager is starting"),
            RunStage::Started => None,
            RunStage::Stopping => Some("the manager is stopping"),
        };
        let informers = self.informers();
        let mut findings = Vec::new();
        let mut all_synced = true;
        for (cluster, report) in &informers {
            let is_awaited = report.is_declared && !report.has_synced;
            let may_wait = cluster.is_some() || self.is_provided(&report.kind);
            all_synced &= !is_awaited || may_wait;
            if is_awaited || report.state.is_degraded() {
                findings.push(finding(cluster.as_deref(), report));
            }
        }
        findings.sort();
        [
            Check::new(
                "manager",
                stage == RunStage::Started,
                manager.map(str::to_owned).into_iter().collect(),
            ),
            Check::new("informers", all_synced, findings),
            Check::new(
                "client-certificates",
                true,
                self.client_certificates.lock().values().cloned().collect(),
            ),
        ]
    }

    /// Returns the checks of liveness (HEALTH-3): `tasks` passes if no framework task has ended, `workers` if the
    /// workers of controllers with ready keys take or finish keys, and `reflectors` if each reflector is active in
    /// time.
    pub(crate) fn live_checks(&self, now: Instant) -> [Check; 3] {
        let ended = self.ended_tasks.lock().clone();
        let mut stalls = Vec::new();
        for status in self.controllers() {
            let name = status.controller();
            // The progress is read outside the lock of `liveness`, because the queue has its own lock.
            let work = status.work();
            if let Some(stall) = self.liveness.lock().handle_observation(name, work, now) {
                let ready = match stall.ready {
                    1 => "1 key is ready, and".to_owned(),
                    ready => format!("{ready} keys are ready, and"),
                };
                stalls.push(format!(
                    "{name}: {ready} none was taken or finished for {} s ({} of {} workers reconcile)",
                    stall.lasts.as_secs(),
                    stall.running,
                    stall.workers
                ));
            }
        }
        let mut late = Vec::new();
        for (cluster, report) in self.informers() {
            if let Some(by) = reflector_is_late(report.activity_due, now) {
                late.push(format!(
                    "{}: late by {} s",
                    place(cluster.as_deref(), &report),
                    by.as_secs()
                ));
            }
        }
        late.sort();
        [
            Check::new(
                "tasks",
                ended.is_empty(),
                ended
                    .iter()
                    .map(|name| format!("{name} has ended"))
                    .collect(),
            ),
            Check::new("workers", stalls.is_empty(), stalls),
            Check::new("reflectors", late.is_empty(), late),
        ]
    }

    /// Returns the reports of all informers, each with the name of its cluster if it was added.
    pub(crate) fn informers(&self) -> Vec<(Option<String>, InformerReport)> {
        let clusters = self.clusters.lock().clone().into_iter().enumerate();
        let of_cluster = clusters.flat_map(|(position, (cluster, cache))| {
            let cluster = (position > 0).then_some(cluster);
            let reports = cache.informer_reports();
            reports
                .into_iter()
                .map(move |report| (cluster.clone(), report))
        });
        of_cluster.collect()
    }

    pub(crate) fn describe_in(self: &Arc<Self>, diagnostics: &Diagnostics) {
        let monitor = Arc::clone(self);
        diagnostics.add("health", move || checks(&monitor.health().checks()));
        let monitor = Arc::clone(self);
        diagnostics.add("informers", move || {
            let now = clock::now();
            let all = monitor.informers();
            all.iter()
                .map(|(cluster, report)| informer(cluster.as_deref(), report, now))
                .collect()
        });
        let monitor = Arc::clone(self);
        diagnostics.add("controllers", move || monitor.describe_controllers());
        let monitor = Arc::clone(self);
        diagnostics.add("reconciles", move || {
            let now = clock::now();
            let controllers = monitor.controllers().into_iter();
            let all = controllers.flat_map(|status| {
                let recent = status.recent().into_iter();
                recent.map(move |one| reconcile(status.controller(), &one, now))
            });
            all.collect()
        });
        let monitor = Arc::clone(self);
        diagnostics.add("tasks", move || {
            let tasks = monitor.tasks.lock().clone().into_iter();
            tasks
                .map(|(name, group)| json!({ "name": name, "group": group.to_string() }))
                .collect()
        });
    }

    fn describe_controllers(&self) -> Value {
        let described = self.controllers().into_iter().map(|status| {
            let work = status.work().map(|work| {
                json!({
                    "workers": work.workers,
                    "ready": work.ready,
                    "running": work.running,
                    "taken": work.taken,
                    "finished": work.finished,
                    "longestReconcileSeconds": work.longest_reconcile.map(|time| time.as_secs_f64()),
                })
            });
            let waiting_for = status.waiting_for();
            let waiting_for: Vec<String> = waiting_for.iter().map(ToString::to_string).collect();
            json!({
                "name": status.controller(),
                "isWaiting": status.is_waiting(),
                "waitingFor": waiting_for,
                "work": work,
                "handlerPanics": status.handler_panics(),
                "lastHandlerPanic": status.last_handler_panic().map(|panic| panic.to_string()),
                "handlerErrors": status.handler_errors(),
                "lastHandlerError": status.last_handler_error().map(|error| error.to_string()),
            })
        });
        described.collect()
    }
}

/// Returns the findings of the checks as JSON, by the name of the check.
fn checks(checks: &[Check]) -> Value {
    let shown = |check: &Check| json!({ "isOk": check.is_ok, "findings": check.findings });
    let by_name: BTreeMap<&str, Value> = checks
        .iter()
        .map(|check| (check.name, shown(check)))
        .collect();
    json!(by_name)
}

fn informer(cluster: Option<&str>, report: &InformerReport, now: Instant) -> Value {
    let reason = match &report.state {
        InformerState::Degraded {
            reason, message, ..
        } => {
            json!({ "reason": reason.as_str(), "message": message })
        }
        _ => Value::Null,
    };
    json!({
        "cluster": cluster,
        "kind": report.kind.qualified_plural(),
        // The name of the kind is the same as in the metrics.
        "name": report.kind.to_string(),
        "namespace": report.namespace,
        "state": report.state.as_str(),
        "problem": reason,
        "hasSynced": report.has_synced,
        "isDeclared": report.is_declared,
        "isMetadataOnly": report.is_metadata_only,
        "subscribers": report.subscribers,
        "activityDueInSeconds": report.activity_due.map(|due| due.saturating_duration_since(now).as_secs()),
    })
}

fn reconcile(controller: &str, recent: &RecentReconcile, now: Instant) -> Value {
    let (result, message) = match &recent.result {
        ReconcileResult::Failed(error) => ("error", Some(&**error)),
        ReconcileResult::Panicked(text) => ("panic", Some(&**text)),
        ReconcileResult::TimedOut => ("timeout", None),
        _ => ("success", None),
    };
    json!({
        "controller": controller,
        "id": recent.id,
        "request": recent.request,
        "reason": recent.reason,
        "attempt": recent.attempt,
        "result": result,
        "message": message,
        "seconds": recent.time.as_secs_f64(),
        "endedSecondsAgo": now.saturating_duration_since(recent.ended).as_secs_f64(),
        "nextInSeconds": recent.next_in.map(|delay| delay.as_secs_f64()),
    })
}

/// Describes an informer that has not synced or fails, by kind and reason. The server's message is left out, because
/// every client of the probes can read the description.
fn finding(cluster: Option<&str>, report: &InformerReport) -> String {
    let reason = match &report.state {
        InformerState::Degraded { reason, .. } => reason.as_str(),
        other => other.as_str(),
    };
    let stale = if report.has_synced {
        ", stale since its last sync"
    } else {
        ""
    };
    format!("{}: {reason}{stale}", place(cluster, report))
}

fn place(cluster: Option<&str>, report: &InformerReport) -> String {
    let mut place = report.kind.qualified_plural();
    if let Some(namespace) = &report.namespace {
        place.push_str(&format!(" in namespace {namespace}"));
    }
    if let Some(cluster) = cluster {
        place.push_str(&format!(" of {cluster}"));
    }
    place
}

#[cfg(test)]
mod tests {
    use steersman_cache::{Cache, CacheOptions};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::runnable::RunContext;

    fn monitor() -> Arc<Monitor> {
        let cache = Cache::new(CacheOptions::new()).unwrap();
        Arc::new(Monitor::new("here", cache))
    }

    /// HEALTH-3
    #[test]
    fn a_framework_task_that_ended_by_itself_is_not_live() {
        let (monitor, cancel) = (monitor(), CancellationToken::new());
        let context = RunContext::new(cancel.clone(), None, Arc::clone(&monitor));
        let tasks = || monitor.live_checks(clock::now())[0].clone();
        assert!(tasks().is_ok);
        context.note_end("cache");
        assert_eq!(
            (tasks().is_ok, tasks().findings),
            (false, vec!["cache has ended".to_owned()])
        );
        cancel.cancel();
        context.note_end("server");
        assert_eq!(
            tasks().findings.len(),
            1,
            "a task that was asked to stop may end"
        );
    }

    /// HEALTH-2
    #[test]
    fn a_manager_is_ready_from_its_start_to_its_stop() {
        let monitor = monitor();
        let is_ready = || monitor.ready_checks()[0].is_ok;
        assert!(!is_ready());
        monitor.reach(RunStage::Started);
        assert!(is_ready());
        monitor.reach(RunStage::Stopping);
        monitor.reach(RunStage::Started);
        assert!(!is_ready(), "a stop is final");
    }
}
