//! Machine: decides what keeps an operator from its work, and what helps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use steersman_cache::InformerFailure;
use steersman_controller::{ControllerStatus, KeyReport, KeyState, QueueReport};

use super::rows::in_progress;
use super::text::{encoded, link, seconds};
use super::view::{AttentionItem, Severity};
use crate::health::Check;

/// What was seen of the parts of a manager.
#[derive(Debug, Default)]
pub(super) struct Facts {
    items: Vec<AttentionItem>,
    /// The controllers that wait, by the kinds that they wait for.
    waiting: BTreeMap<String, Vec<String>>,
}

/// A controller, and when it is looked at.
struct SeenStatus<'a> {
    status: &'a ControllerStatus,
    /// Whether its requests are about objects, which have pages.
    has_objects: bool,
    now: Instant,
}

/// A reconcile that has run for this time, without a deadline, is probably stuck.
const LONG: Duration = Duration::from_mins(1);

/// A step of this time is shown: a server answers sooner.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// The number of controllers that one item names.
const MOST_NAMED: usize = 5;

/// The number of failures in a row from which on a request is shown.
const MANY_FAILURES: u32 = 5;

/// How long a loop is shown after its last warning.
const LOOP_SHOWN: Duration = Duration::from_mins(15);

/// The number of items that are shown.
const MOST: usize = 30;

/// Returns what needs attention, the most urgent first, and the number of items that are left out. Of one urgency, what was
/// added first is first.
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
        has_objects: bool,
        queue: Option<&QueueReport<String>>,
        now: Instant,
    ) {
        let seen = SeenStatus {
            status,
            has_objects,
            now,
        };
        let waiting = status.waiting_for();
        if !waiting.is_empty() {
            let kinds: Vec<String> = waiting.iter().map(|one| one.kind.to_string()).collect();
            let controllers = self.waiting.entry(kinds.join(", ")).or_default();
            controllers.push(status.controller().to_owned());
        }
        let keys = queue.iter().flat_map(|queue| &queue.keys);
        self.add_stuck(&seen, keys);
        if let Some(queue) = queue {
            self.add_failing(&seen, queue);
        }
        self.add_loops(&seen);
        self.add_rate(status);
    }

    /// Adds the controllers that wait for the same kinds as one item.
    pub(super) fn add_waiting(&mut self) {
        for (kinds, controllers) in std::mem::take(&mut self.waiting) {
            let named = controllers.iter().take(MOST_NAMED).cloned();
            let mut names = named.collect::<Vec<String>>().join(", ");
            if controllers.len() > MOST_NAMED {
                names += &format!(" and {} more", controllers.len() - MOST_NAMED);
            }
            let (title, workers) = match &controllers[..] {
                [one] => (format!("{one} waits for {kinds}"), "its workers start"),
                all => (
                    format!("{} controllers wait for {kinds}", all.len()),
                    "their workers start",
                ),
            };
            let detail = match controllers.len() {
                1 => format!("{workers} when these kinds have synced once"),
                _ => format!("{names}: {workers} when these kinds have synced once"),
            };
            self.bad(title, detail, None, "caches".to_owned());
        }
    }

    /// Adds the reconciles that have run for longer than their deadline and the grace, and those that have waited long for
    /// a server.
    fn add_stuck<'a>(
        &mut self,
        seen: &SeenStatus<'_>,
        keys: impl Iterator<Item = &'a KeyReport<String>>,
    ) {
        let work = seen.status.work();
        let longest = work.and_then(|work| work.longest_reconcile);
        let runs = |key: &KeyReport<String>| match key.state {
            KeyState::Held { since, .. } => Some(seen.now.saturating_duration_since(since?)),
            _ => None,
        };
        let running = keys.filter_map(|key| Some((key, runs(key)?)));
        let stuck_after = longest.unwrap_or(LONG);
        let least = LONG_WAIT.min(stuck_after);
        let mut long = running.filter(|(_, runs)| *runs >= least).peekable();
        if long.peek().is_none() {
            return;
        }
        let (open, controller) = (seen.status.open_steps(), seen.status.controller());
        for (KeyReport { key, .. }, runs) in long {
            let is_stuck = runs >= stuck_after;
            let steps = in_progress(key, &open);
            let step = steps.first();
            let waits = step.is_some_and(|step| step.seconds >= LONG_WAIT.as_secs_f64());
            if !is_stuck && !waits {
                continue;
            }
            let place = match step {
                None => "in the reconciler's own code".to_owned(),
                Some(step) => format!("for {} in: {}", seconds(step.seconds), step.text),
            };
            let remedy = match longest {
                _ if !is_stuck => {
                    "see whether the server answers others: `kubectl get --raw /readyz`"
                }
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
                seen.link(key),
            );
        }
    }

    /// Adds the requests that fail again and again: the first ones, and the number of the others.
    fn add_failing(&mut self, seen: &SeenStatus<'_>, queue: &QueueReport<String>) {
        let controller = seen.status.controller();
        let failing = queue.failing.iter();
        let failing: Vec<_> = failing
            .filter(|key| key.failures >= MANY_FAILURES)
            .collect();
        if failing.is_empty() {
            return;
        }
        let requests: Vec<String> = failing.iter().map(|key| key.key.clone()).collect();
        let errors = seen.status.last_failures(&requests);
        for (key, error) in failing.iter().zip(errors) {
            let error = error.unwrap_or_else(|| "its error is no longer on record".to_owned());
            let retry = key
                .retry_at
                .map(|at| at.saturating_duration_since(seen.now));
            let retry = retry.map_or(String::new(), |retry| {
                format!("; the next try is in {}", seconds(retry.as_secs_f64()))
            });
            self.bad(
                format!("{} has failed {} times in a row", key.key, key.failures),
                format!("controller {controller}: {error}{retry}"),
                None,
                seen.link(&key.key),
            );
        }
        let others = queue.retrying.saturating_sub(failing.len());
        if others > 0 {
            self.bad(
                format!(
                    "{others} more requests of {controller} have failed and wait for their retry"
                ),
                "those with the most failures are shown here".to_owned(),
                None,
                page_of(controller),
            );
        }
    }

    fn add_loops(&mut self, seen: &SeenStatus<'_>) {
        let controller = seen.status.controller();
        for found in seen.status.loops() {
            if seen.now.saturating_duration_since(found.at) < LOOP_SHOWN {
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
                    seen.link(&found.request),
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
                page_of(controller),
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

impl SeenStatus<'_> {
    /// Returns the page of a request, or that of the controller if its requests are not about objects.
    fn link(&self, request: &str) -> String {
        let controller = self.status.controller();
        match self.has_objects {
            true => link(controller, request),
            false => page_of(controller),
        }
    }
}

fn page_of(controller: &str) -> String {
    format!("controller?controller={}", encoded(controller))
}
