//! Machine: puts the events of an object, and the reconciles of its request with their steps, into one order of time.

use std::time::Instant;

use steersman_controller::{JournalEvent, RecentReconcile, ReconcileStep, StepAction};

use super::rows::{ago, began, object_of, outcome, step_text};
use super::text::seconds;
use super::view::TimelineRow;

/// The number of rows.
const MOST: usize = 200;

/// Returns the rows, the newest first. The running reconcile has these steps since its begin. Of one instant, the row that came last is first.
pub(super) fn timeline(
    reconciles: &[RecentReconcile],
    (since, running): (Option<Instant>, &[ReconcileStep]),
    events: &[JournalEvent],
    now: Instant,
) -> Vec<TimelineRow> {
    let mut rows: Vec<(Instant, TimelineRow)> = Vec::new();
    rows.extend(events.iter().map(|event| (event.at, of_event(event, now))));
    // The sort below is stable, and rows of one instant are to stay in order: the oldest reconcile first.
    for reconcile in reconciles.iter().rev() {
        if reconcile.steps.is_empty() {
            rows.push((reconcile.ended, whole(reconcile, now)));
            continue;
        }
        let began = began(reconcile);
        rows.push((began, of_begin(reconcile, began, now)));
        rows.extend(reconcile.steps.iter().map(|step| of_step(step, now)));
        rows.push((reconcile.ended, of_end(reconcile, now)));
    }
    if let Some(since) = since {
        rows.push((since, of_running(since, now)));
    }
    rows.extend(running.iter().map(|step| of_step(step, now)));
    // The sort is stable: a reconcile that took no time ends after its beginning.
    rows.sort_by_key(|(at, _)| *at);
    let newest = rows.into_iter().rev().take(MOST);
    newest.map(|(_, row)| row).collect()
}

fn of_event(event: &JournalEvent, now: Instant) -> TimelineRow {
    let requests = match (&*event.requests, event.more_requests) {
        ([], _) => "no request: the predicate refused it, or the handler named none".to_owned(),
        (some, 0) => format!("requests {}", some.join(", ")),
        (some, more) => format!("requests {} and {more} more", some.join(", ")),
    };
    TimelineRow {
        ago: ago(event.at, now),
        lane: "event",
        text: format!("{} was {}", object_of(event), event.change),
        detail: format!("version {}; {requests}", event.version),
        is_bad: false,
    }
}

/// Returns the row of a reconcile without steps.
fn whole(reconcile: &RecentReconcile, now: Instant) -> TimelineRow {
    let took = seconds(reconcile.time.as_secs_f64());
    let (result, is_bad) = result_of(reconcile);
    TimelineRow {
        ago: ago(reconcile.ended, now),
        lane: "reconcile",
        text: format!("reconcile {} took {took}", reconcile.id),
        detail: format!("{result}; {}", cause_of(reconcile)),
        is_bad,
    }
}

fn of_running(since: Instant, now: Instant) -> TimelineRow {
    TimelineRow {
        ago: ago(since, now),
        lane: "reconcile",
        text: "the reconcile that runs begins".to_owned(),
        detail: String::new(),
        is_bad: false,
    }
}

fn of_begin(reconcile: &RecentReconcile, began: Instant, now: Instant) -> TimelineRow {
    TimelineRow {
        ago: ago(began, now),
        lane: "reconcile",
        text: format!("reconcile {} begins", reconcile.id),
        detail: cause_of(reconcile),
        is_bad: false,
    }
}

fn of_end(reconcile: &RecentReconcile, now: Instant) -> TimelineRow {
    let took = seconds(reconcile.time.as_secs_f64());
    let (detail, is_bad) = result_of(reconcile);
    TimelineRow {
        ago: ago(reconcile.ended, now),
        lane: "reconcile",
        text: format!("reconcile {} ends after {took}", reconcile.id),
        detail,
        is_bad,
    }
}

fn cause_of(reconcile: &RecentReconcile) -> String {
    match reconcile.attempt {
        0 => format!("because of {}", reconcile.reason),
        failures => format!(
            "because of {}; {failures} failures before",
            reconcile.reason
        ),
    }
}

/// Returns how a reconcile ended, with its next run, and whether it failed.
fn result_of(reconcile: &RecentReconcile) -> (String, bool) {
    let (result, message) = outcome(&reconcile.result);
    let message = message
        .map(|message| format!(": {message}"))
        .unwrap_or_default();
    let next = match reconcile.next_in {
        Some(next) => format!("; runs again in {}", seconds(next.as_secs_f64())),
        None => String::new(),
    };
    (format!("{result}{message}{next}"), result != "success")
}

/// Returns the end of a step, and its row; of a step in progress, its begin.
fn of_step(step: &ReconcileStep, now: Instant) -> (Instant, TimelineRow) {
    let (text, error) = step_text(step);
    let took = seconds(step.took.as_secs_f64());
    let (at, detail) = match step.is_open {
        true => (step.began, format!("in progress for {took}")),
        false => (step.began + step.took, format!("took {took}")),
    };
    let row = TimelineRow {
        ago: ago(at, now),
        lane: match step.action {
            StepAction::Write { .. } => "write",
            _ => "wait",
        },
        is_bad: error.is_some(),
        text,
        detail: error.unwrap_or(detail),
    };
    (at, row)
}
