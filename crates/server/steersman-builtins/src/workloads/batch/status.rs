//! Machine: checks writes to a Job's status (upstream: `ValidateJobStatusUpdate`).

use std::collections::HashSet;

use serde_json::Value;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

use super::indexes;

fn holds(status: &FieldPath<'_>, kind: &str) -> bool {
    let mut conditions = status.at("conditions").items();
    conditions.any(|one| one.at("type").text() == kind && one.at("status").text() == "True")
}

/// A Job's status before and after a write.
struct StatusWrite<'a> {
    job: FieldPath<'a>,
    status: FieldPath<'a>,
    old: FieldPath<'a>,
}

impl StatusWrite<'_> {
    fn is(&self, kind: &str) -> bool {
        holds(&self.status, kind)
    }

    fn was(&self, kind: &str) -> bool {
        holds(&self.old, kind)
    }

    /// Returns whether the write is the first that says that the Job has ended. Most rules hold
    /// only for such a write, so that a status of an older controller can still be written.
    fn finishes(&self) -> bool {
        let turns = |kind| self.is(kind) && !self.was(kind);
        turns("Complete") || turns("Failed")
    }

    /// Adds an error about the conditions for each rule that the write breaks.
    fn refuse(&self, rules: &[(bool, &str)], errors: &mut Errors) {
        let conditions = self.status.at("conditions");
        for (_, detail) in rules.iter().filter(|(broken, _)| *broken) {
            errors.invalid_bare(&conditions, detail);
        }
    }
}

pub(super) fn check(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let job = FieldPath::root(new);
    let write = StatusWrite {
        status: job.at("status"),
        old: FieldPath::root(old).at("status"),
        job,
    };
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        check::not_negative(&write.status.at(field), &mut errors);
    }
    check_uncounted(&write.status.at("uncountedTerminatedPods"), &mut errors);
    check_end(&write, &mut errors);
    let finished = write.is("Complete") || write.is("Failed");
    check_indexes(&write.job, finished, &mut errors);
    let ready = write.status.at("ready");
    if ready.int() > write.status.at("active").int() {
        errors.invalid(&ready, "cannot set more ready pods than active");
    }
    let met = write.is("SuccessCriteriaMet");
    let rules = [
        (
            met && write.is("Failed"),
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        ),
        (
            met && write.is("FailureTarget"),
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
    ];
    write.refuse(&rules, &mut errors);
    check_changes(&write, &mut errors);
    errors
}

/// Checks the conditions and times of a Job's end.
fn check_end(write: &StatusWrite<'_>, errors: &mut Errors) {
    let (complete, failed) = (write.is("Complete"), write.is("Failed"));
    let finishes = write.finishes();
    let rules = [
        (
            finishes && complete && failed,
            "cannot set Complete=True and Failed=true conditions",
        ),
        (
            finishes && complete && write.is("FailureTarget"),
            "cannot set Complete=True and FailureTarget=true conditions",
        ),
    ];
    write.refuse(&rules, errors);
    let (done, start) = (
        write.status.at("completionTime"),
        write.status.at("startTime"),
    );
    let changed = done.value() != write.old.at("completionTime").value();
    if done.is_set() && !complete && changed {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.invalid(&done, detail);
    }
    if !done.is_set() && complete && finishes {
        errors.required(&done, "completionTime is required for Complete jobs");
    }
    // Both times have the same zone and length, so comparing the texts compares the times.
    if done.is_set() && start.is_set() && done.text() < start.text() && changed {
        errors.invalid(&done, "completionTime cannot be set before startTime");
    }
    let rules = [
        (
            failed && !write.was("Failed") && !write.is("FailureTarget"),
            "cannot set Failed=True condition without the FailureTarget=true condition",
        ),
        (
            complete && !write.was("Complete") && !write.is("SuccessCriteriaMet"),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
    ];
    write.refuse(&rules, errors);
    let active = write.status.at("active");
    if finishes && active.int() > 0 {
        errors.invalid(&active, "active>0 is invalid for finished job");
    }
    if finishes && !start.is_set() {
        errors.required(&start, "startTime is required for finished job");
    }
    let uncounted = write.status.at("uncountedTerminatedPods");
    let (succeeded, lost) = (uncounted.at("succeeded"), uncounted.at("failed"));
    if finishes && !(succeeded.is_empty() && lost.is_empty()) {
        let shown = format!(
            "{{\"Succeeded\":{},\"Failed\":{}}}",
            succeeded.value(),
            lost.value()
        );
        let detail = "uncountedTerminatedPods needs to be empty for finished job";
        errors.invalid_written(&uncounted, &shown, detail);
    }
}

/// Checks that a write keeps the parts of a status that never change once set.
fn check_changes(write: &StatusWrite<'_>, errors: &mut Errors) {
    for (kind, detail) in [
        (
            "Failed",
            "cannot disable the terminal Failed=True condition",
        ),
        (
            "Complete",
            "cannot disable the terminal Complete=True condition",
        ),
        (
            "FailureTarget",
            "cannot disable the terminal FailureTarget=True condition",
        ),
    ] {
        write.refuse(&[(write.was(kind) && !write.is(kind), detail)], errors);
    }
    for field in ["failed", "succeeded"] {
        let count = write.status.at(field);
        if count.int() < write.old.at(field).int() {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid_as(&count, &Value::from(count.int()), &detail);
        }
    }
    let (done, was_done) = (
        write.status.at("completionTime"),
        write.old.at("completionTime"),
    );
    if done.is_set() && was_done.is_set() && done.value() != was_done.value() {
        errors.invalid(&done, "completionTime cannot be mutated");
    }
    let (start, was) = (write.status.at("startTime"), write.old.at("startTime"));
    let suspended = write.job.down("spec.suspend").flag();
    let resumes = write.was("Suspended") && !write.is("Suspended");
    if was.is_set() && was.value() != start.value() && !suspended && !resumes {
        let detail = "startTime cannot be removed for unsuspended job";
        errors.required(&start, detail);
    }
    let lost = write.was("SuccessCriteriaMet") && !write.is("SuccessCriteriaMet");
    let detail = "cannot disable the SuccessCriteriaMet=True condition";
    write.refuse(&[(lost, detail)], errors);
}

fn check_uncounted(uncounted: &FieldPath<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        for uid in uncounted.at(field).items() {
            if uid.is_empty() {
                errors.invalid_text(&uid, "must not be empty");
            } else if !seen.insert(uid.text()) {
                errors.duplicate(&uid);
            }
        }
    }
}

fn check_indexes(object: &FieldPath<'_>, finished: bool, errors: &mut Errors) {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let completions = spec.at("completions");
    let (done, lost) = (status.at("completedIndexes"), status.at("failedIndexes"));
    for field in [&done, &lost] {
        if !completions.is_set() || !field.is_set() {
            continue;
        }
        if let Err(why) = indexes::count(field.text(), completions.int()) {
            let path = field.path();
            let name = path.trim_start_matches("status.");
            errors.invalid(field, &format!("error parsing {name}: {why}"));
        }
    }
    if !done.is_empty() && spec.at("completionMode").text() != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&done, detail);
    }
    if lost.is_set() && !spec.at("backoffLimitPerIndex").is_set() {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&lost, detail);
    }
    if completions.is_set()
        && lost.is_set()
        && let Some(index) = indexes::overlap(&done, &lost, completions.int())
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&lost, &detail);
    }
    let terminating = status.at("terminating");
    if finished && terminating.int() > 0 {
        errors.invalid(&terminating, "terminating>0 is invalid for finished job");
    }
}
