//! Machine: decides what keeps an operator from its work, and what helps.

use std::time::{Duration, Instant};

use serde_json::Value;
use steersman_cache::InformerFailure;
use steersman_controller::{ControllerStatus, ErrorGroup, KeyReport, KeyState, QueueReport};

use super::rows::in_progress;
use super::text::{encoded, link, seconds};
use super::view::{AttentionItem, Severity};
use crate::health::Check;

/// What was seen of the parts of a manager.
#[derive(Debug, Default)]
pub(super) struct Facts {
    items: Vec<AttentionItem>,
}

/// A reconcile that has run for this time, without a deadline, is probably stuck.
const LONG: Duration = Duration::from_mins(1);

/// The number of failures in a row from which on a request is shown.
const MANY_FAILURES: u32 = 5;

/// How long a loop is shown after its last warning.
const LOOP_SHOWN: Duration = Duration::from_mins(15);

/// The number of items that are shown.
const MOST: usize = 30;

/// Returns what needs attention, the most urgent first, and the number of items that are left out.
pub(super) fn attention(facts: Facts) -> (Vec<AttentionItem>, usize) {
    let mut items = facts.items;
    items.sort_by_key(|item| item.severity);
    let more = items.len().saturating_sub(MOST);
    items.truncate(MOST);
    (items, more)
}

impl Facts {
    pub(super) fn add_controller(
        &mut self,
        status: &ControllerStatus,
        queue: Option<&QueueReport<String>>,
        now: Instant,
    ) {
        let controller = status.controller();
        let work = status.work();
        let longest = work.and_then(|work| work.longest_reconcile);
        let waiting = status.waiting_for();
        if !waiting.is_empty() {
            let kinds: Vec<String> = waiting.iter().map(|one| one.kind.to_string()).collect();
            self.bad(
                format!("{controller} waits for {}", kinds.join(", ")),
                "its workers start when these kinds have synced once".to_owned(),
                None,
                "caches".to_owned(),
            );
        }
        let keys = queue.iter().flat_map(|queue| &queue.keys);
        self.add_stuck(status, keys, longest, now);
        let failing = queue.iter().flat_map(|queue| &queue.failing);
        self.add_failing(status, failing, now);
        self.add_loops(status, now);
        self.add_rate(status);
    }

    /// Adds the reconciles that have run for longer than their deadline and the grace, `longest`.
    fn add_stuck<'a>(
        &mut self,
        status: &ControllerStatus,
        keys: impl Iterator<Item = &'a KeyReport<String>>,
        longest: Option<Duration>,
        now: Instant,
    ) {
        let controller = status.controller();
        let runs = |key: &KeyReport<String>| match key.state {
            KeyState::Held { since, .. } => Some(now.saturating_duration_since(since?)),
            _ => None,
        };
        let stuck = keys.filter_map(|key| Some((key, runs(key)?)));
        let mut stuck = stuck
            .filter(|(_, runs)| *runs >= longest.unwrap_or(LONG))
            .peekable();
        if stuck.peek().is_none() {
            return;
        }
        let open = status.open_steps();
        for (KeyReport { key, .. }, runs) in stuck {
            let place = match &in_progress(key, &open)[..] {
                [] => "in the reconciler's own code".to_owned(),
                [step, ..] => format!("for {} in: {}", seconds(step.seconds), step.text),
            };
            let remedy = match longest {
                Some(_) => {
                    "it is past its deadline and does not end at an await: find what blocks it"
                }
                None => "find what it waits for, and set a deadline (`reconcile_timeout`)",
            };
            self.bad(
                format!(
                    "a reconcile of {controller} has run for {}",
                    seconds(runs.as_secs_f64())
                ),
                format!("{key} occupies a worker, {place}"),
                Some(remedy.to_owned()),
                link(controller, key),
            );
        }
    }

    fn add_failing<'a>(
        &mut self,
        status: &ControllerStatus,
        failing: impl Iterator<Item = &'a KeyReport<String>>,
        now: Instant,
    ) {
        let controller = status.controller();
        let failing = failing.filter(|key| key.failures >= MANY_FAILURES);
        let mut failing = failing.peekable();
        if failing.peek().is_none() {
            return;
        }
        let errors = status.errors();
        for key in failing {
            let error = last_error(&errors, &key.key);
            let retry = key.retry_at.map(|at| at.saturating_duration_since(now));
            let retry = retry.map_or(String::new(), |retry| {
                format!("; the next try is in {}", seconds(retry.as_secs_f64()))
            });
            self.bad(
                format!("{} has failed {} times in a row", key.key, key.failures),
                format!("controller {controller}: {error}{retry}"),
                None,
                link(controller, &key.key),
            );
        }
    }

    fn add_loops(&mut self, status: &ControllerStatus, now: Instant) {
        let controller = status.controller();
        for found in status.loops() {
            if now.saturating_duration_since(found.at) < LOOP_SHOWN {
                self.warning(
                    format!(
                        "{controller} triggers itself by writing {} {}",
                        found.kind, found.key
                    ),
                    format!(
                        "request {}; changed fields: {}",
                        found.request, found.fields
                    ),
                    "write only what differs, or let a predicate hold back these changes"
                        .to_owned(),
                    link(controller, &found.request),
                );
            }
        }
    }

    fn add_rate(&mut self, status: &ControllerStatus) {
        let controller = status.controller();
        let rate = status.rate();
        if rate.failures * 2 > rate.reconciles && rate.failures >= 10 {
            self.warning(
                format!(
                    "{} of {} reconciles of {controller} failed in the last minute",
                    rate.failures, rate.reconciles
                ),
                status
                    .errors()
                    .first()
                    .map_or(String::new(), |error| error.message.clone()),
                "read the errors of the controller".to_owned(),
                format!("controller?controller={}", encoded(controller)),
            );
        }
    }

    pub(super) fn add_failure(&mut self, cluster: Option<&str>, failure: &InformerFailure) {
        let place = match (&failure.namespace, cluster) {
            (Some(namespace), Some(cluster)) => format!(" in namespace {namespace} of {cluster}"),
            (Some(namespace), None) => format!(" in namespace {namespace}"),
            (None, Some(cluster)) => format!(" of {cluster}"),
            (None, None) => String::new(),
        };
        let state = match failure.has_synced {
            true => "reads return objects that become stale",
            false => "reads of the kind fail",
        };
        self.bad(
            format!(
                "{}{place} does not follow the server: {}",
                failure.kind,
                failure.reason.as_str()
            ),
            format!("{}; {state}", failure.why),
            failure.remedy.clone(),
            format!("caches?filter={}", encoded(&failure.kind.to_string())),
        );
    }

    /// Adds what keeps this replica from its part, by the section `shards` of the diagnostics.
    pub(super) fn add_shards(&mut self, shards: &Value) {
        let text = |name: &str| shards[name].as_str().unwrap_or_default().to_owned();
        let link = || "replicas".to_owned();
        if shards.is_null() {
            return;
        }
        if shards["isRenewed"] == false {
            self.bad(
                "this replica works on no object: its Lease is not renewed".to_owned(),
                text("lastError"),
                Some(
                    "see whether the operator may create and update Leases in its namespace"
                        .to_owned(),
                ),
                link(),
            );
        }
        if !shards["otherDivision"].is_null() {
            self.warning(
                "this replica has no shards: the others divide the objects in another way".to_owned(),
                format!("{} here, {} there", text("division"), text("otherDivision")),
                "nothing to do during a rollout: it begins when the last replica of the other form has left".to_owned(),
                link(),
            );
        }
        let others = shards["waitsFor"].as_array().into_iter().flatten();
        let others: Vec<&str> = others.filter_map(Value::as_str).collect();
        if !others.is_empty() {
            self.warning(
                format!("this replica waits for shards of {}", others.join(", ")),
                format!(
                    "slots {}",
                    shards["awaited"]["slots"].as_str().unwrap_or_default()
                ),
                "nothing to do if it lasts seconds; otherwise a reconcile does not end there"
                    .to_owned(),
                link(),
            );
        }
    }

    /// Adds the findings of checks that fail.
    pub(super) fn add_checks(&mut self, checks: &[Check]) {
        for check in checks.iter().filter(|check| !check.is_ok) {
            for finding in &check.findings {
                self.bad(
                    format!("the check {} of /livez fails", check.name),
                    finding.clone(),
                    None,
                    "./".to_owned(),
                );
            }
        }
    }

    fn bad(&mut self, title: String, detail: String, remedy: Option<String>, link: String) {
        self.items.push(AttentionItem {
            severity: Severity::Bad,
            title,
            detail,
            remedy,
            link,
        });
    }

    fn warning(&mut self, title: String, detail: String, remedy: String, link: String) {
        self.items.push(AttentionItem {
            severity: Severity::Warning,
            title,
            detail,
            remedy: Some(remedy),
            link,
        });
    }
}

/// Returns the last error of a request.
fn last_error(errors: &[ErrorGroup], request: &str) -> String {
    let is_of = |group: &&ErrorGroup| group.requests.iter().any(|one| one == request);
    let last = errors.iter().find(is_of);
    last.map_or_else(
        || "its error is no longer on record".to_owned(),
        |last| last.message.clone(),
    )
}
