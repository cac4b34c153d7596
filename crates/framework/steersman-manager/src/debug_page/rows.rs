//! Machine: turns what controllers show into rows of the debug page.

use std::time::Instant;

use steersman_controller::{
    ErrorGroup, JournalEvent, KeyReport, KeyState, LoopReport, RecentReconcile, ReconcileResult,
    ReconcileStep, StepAction,
};

use super::view::{ErrorRow, EventRow, LoopRow, ReconcileRow, RequestRow, StepInProgress, StepRow};

/// Returns the seconds from an instant until now.
pub(super) fn ago(at: Instant, now: Instant) -> f64 {
    now.saturating_duration_since(at).as_secs_f64()
}

/// Returns the row of a request. `open` has the steps in progress of all requests.
pub(super) fn request_row(
    report: &KeyReport<String>,
    open: &[(String, ReconcileStep)],
    now: Instant,
) -> RequestRow {
    let until = |at: Instant| at.saturating_duration_since(now).as_secs_f64();
    let (state, since, due_in, runs_again) = match report.state {
        KeyState::Held { since, runs_again } => ("running", since, None, runs_again),
        KeyState::Ready { since } => ("ready", since, None, false),
        KeyState::Delayed { until: due } => ("delayed", None, Some(until(due)), false),
        _ => ("unknown", None, None, false),
    };
    RequestRow {
        request: report.key.clone(),
        state,
        since: since.map(|since| ago(since, now)),
        due_in,
        failures: report.failures,
        retry_in: report.retry_at.map(until),
        priority: report.priority.value(),
        runs_again,
        in_progress: in_progress(&report.key, open),
    }
}

/// Returns the steps in progress of one request.
pub(super) fn in_progress(request: &str, open: &[(String, ReconcileStep)]) -> Vec<StepInProgress> {
    let own = open.iter().filter(|(of, _)| of == request);
    own.map(|(_, step)| StepInProgress {
        text: step_text(step).0,
        seconds: step.took.as_secs_f64(),
    })
    .collect()
}

pub(super) fn error_row(group: &ErrorGroup, now: Instant) -> ErrorRow {
    ErrorRow {
        message: group.message.clone(),
        count: group.count,
        first_ago: ago(group.first, now),
        last_ago: ago(group.last, now),
        requests: group.requests.clone(),
    }
}

pub(super) fn loop_row(report: &LoopReport, now: Instant) -> LoopRow {
    LoopRow {
        ago: ago(report.at, now),
        request: report.request.clone(),
        object: format!("{} {}", report.kind, report.key),
        fields: report.fields.clone(),
        runs: report.runs,
    }
}

pub(super) fn event_row(event: &JournalEvent, now: Instant) -> EventRow {
    EventRow {
        ago: ago(event.at, now),
        object: object_of(event),
        change: event.change,
        version: event.version.to_string(),
        requests: event.requests.clone(),
        more_requests: event.more_requests,
    }
}

/// Returns the kind and the key of the object of an event, with its cluster.
pub(super) fn object_of(event: &JournalEvent) -> String {
    match &event.cluster {
        Some(cluster) => format!("{} {cluster}/{}", event.kind, event.key),
        None => format!("{} {}", event.kind, event.key),
    }
}

pub(super) fn reconcile_row(recent: &RecentReconcile, now: Instant) -> ReconcileRow {
    let (result, message) = outcome(&recent.result);
    let steps = recent.steps.iter();
    ReconcileRow {
        id: recent.id,
        request: recent.request.clone(),
        reason: recent.reason.clone(),
        attempt: recent.attempt,
        result,
        message: message.map(str::to_owned),
        seconds: recent.time.as_secs_f64(),
        ended_ago: ago(recent.ended, now),
        next_in: recent.next_in.map(|next| next.as_secs_f64()),
        refused_writes: steps.clone().filter(|step| is_refused(step)).count(),
        steps: steps.map(|step| step_row(step, recent)).collect(),
        more_steps: recent.more_steps,
    }
}

fn is_refused(step: &ReconcileStep) -> bool {
    matches!(&step.action, StepAction::Write { error: Some(_), .. })
}

/// Returns the result of a reconcile as a word, and the text of its failure.
pub(super) fn outcome(result: &ReconcileResult) -> (&'static str, Option<&str>) {
    match result {
        ReconcileResult::Failed(error) => ("error", Some(error)),
        ReconcileResult::Panicked(text) => ("panic", Some(text)),
        ReconcileResult::TimedOut => ("timeout", None),
        _ => ("success", None),
    }
}

/// Returns when a reconcile began.
pub(super) fn began(reconcile: &RecentReconcile) -> Instant {
    let began = reconcile.ended.checked_sub(reconcile.time);
    began.unwrap_or(reconcile.ended)
}

fn step_row(step: &ReconcileStep, reconcile: &RecentReconcile) -> StepRow {
    let began = began(reconcile);
    let (text, error) = step_text(step);
    StepRow {
        at: step.began.saturating_duration_since(began).as_secs_f64(),
        seconds: step.took.as_secs_f64(),
        text,
        is_write: matches!(step.action, StepAction::Write { .. }),
        error,
    }
}

/// Returns what a step did, and the error of a write that failed.
pub(super) fn step_text(step: &ReconcileStep) -> (String, Option<String>) {
    let object = match (&step.cluster, &step.key) {
        (None, Some(key)) => format!("{} {key}", step.kind),
        (None, None) => step.kind.to_string(),
        (Some(cluster), Some(key)) => format!("{} {cluster}/{key}", step.kind),
        (Some(cluster), None) => format!("{} of {cluster}", step.kind),
    };
    match &step.action {
        StepAction::Write {
            verb,
            subresource: Some(subresource),
            error,
        } => (format!("{verb} {object}, {subresource}"), error.clone()),
        StepAction::Write { verb, error, .. } => (format!("{verb} {object}"), error.clone()),
        StepAction::Wait(cause) => (format!("wait for {cause}: {object}"), None),
        _ => (object, None),
    }
}
