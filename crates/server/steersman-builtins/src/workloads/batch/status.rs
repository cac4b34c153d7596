//! Machine: checks writes to a Job's status (upstream: `ValidateJobStatusUpdate`).

use std::collections::HashSet;

use serde_json::Value;

use crate::fields::go_value::GoType::{self, Plain, Struct};
use crate::fields::{FieldPath, check};

use super::indexes;

/// A Job's status before and after a write.
struct StatusWrite<'a> {
    status: FieldPath<'a>,
    old: FieldPath<'a>,
}

impl StatusWrite<'_> {
    fn is(&self, kind: &str) -> bool {
        check::holds(&self.status, kind)
    }

    fn was(&self, kind: &str) -> bool {
        check::holds(&self.old, kind)
    }

    /// Returns whether the write ends the Job. Most rules hold only for such a write.
    fn finishes(&self) -> bool {
        let turns = |kind| self.is(kind) && !self.was(kind);
        turns("Complete") || turns("Failed")
    }

    fn refuse_both(&self, kind: &str, other: &str) {
        if self.is(kind) && self.is(other) {
            self.refuse(&format!(
                "cannot set {kind}=True and {other}=true conditions"
            ));
        }
    }

    /// Refuses a write that sets a condition without the other condition.
    fn refuse_without(&self, kind: &str, other: &str) {
        if self.is(kind) && !self.was(kind) && !self.is(other) {
            let detail =
                format!("cannot set {kind}=True condition without the {other}=true condition");
            self.refuse(&detail);
        }
    }

    /// Refuses a write that unsets a condition.
    fn refuse_end_of(&self, adjective: &str, kind: &str) {
        if self.was(kind) && !self.is(kind) {
            self.refuse(&format!(
                "cannot disable the {adjective}{kind}=True condition"
            ));
        }
    }

    fn refuse(&self, detail: &str) {
        self.status.at("conditions").invalid_bare(detail);
    }
}

/// Pods that ended and are not counted yet.
const UNCOUNTED: GoType = Struct(&[("succeeded", Plain), ("failed", Plain)]);

pub(super) fn check(job: &FieldPath<'_>, old: &Value) {
    let write = StatusWrite {
        status: job.at("status"),
        old: job.with(old).at("status"),
    };
    let counts = ["active", "succeeded", "failed", "ready", "terminating"];
    check::not_negative_members(&write.status, &counts);
    check_uncounted(&write.status.at("uncountedTerminatedPods"));
    check_end(&write);
    let finished = write.is("Complete") || write.is("Failed");
    check_indexes(job, finished);
    let ready = write.status.at("ready");
    let active = write.status.at("active").int();
    ready.at_most(active, "cannot set more ready pods than active");
    write.refuse_both("SuccessCriteriaMet", "Failed");
    write.refuse_both("SuccessCriteriaMet", "FailureTarget");
    check_changes(job, &write);
}

fn check_end(write: &StatusWrite<'_>) {
    let (complete, finishes) = (write.is("Complete"), write.finishes());
    if finishes {
        write.refuse_both("Complete", "Failed");
        write.refuse_both("Complete", "FailureTarget");
    }
    let [done, start] = write.status.parts(["completionTime", "startTime"]);
    let changed = done.value() != write.old.at("completionTime").value();
    if done.is_set() && !complete && changed {
        done.invalid("cannot set completionTime when there is no Complete=True condition");
    }
    if !done.is_set() && complete && finishes {
        done.required("completionTime is required for Complete jobs");
    }
    // Both times have the same zone and length, so comparing the texts compares the times.
    if done.is_set() && start.is_set() && done.text() < start.text() && changed {
        done.invalid("completionTime cannot be set before startTime");
    }
    write.refuse_without("Failed", "FailureTarget");
    write.refuse_without("Complete", "SuccessCriteriaMet");
    if !finishes {
        return;
    }
    let [active, uncounted] = write.status.parts(["active", "uncountedTerminatedPods"]);
    active.at_most(0, "active>0 is invalid for finished job");
    start.need_set("startTime is required for finished job");
    let pods = uncounted.parts(["succeeded", "failed"]);
    if pods.iter().any(|pods| !pods.is_empty()) {
        let detail = "uncountedTerminatedPods needs to be empty for finished job";
        uncounted.invalid_printed(&UNCOUNTED, detail);
    }
}

/// Checks that a write keeps the parts of a status that never change once set.
fn check_changes(job: &FieldPath<'_>, write: &StatusWrite<'_>) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        write.refuse_end_of("terminal ", kind);
    }
    for field in ["failed", "succeeded"] {
        let count = write.status.at(field);
        let before = write.old.at(field).int();
        count.at_least(before, &format!("cannot decrease the {field} counter"));
    }
    let [done, was_done] = [&write.status, &write.old].map(|status| status.at("completionTime"));
    if done.is_set() && was_done.is_set() && done.value() != was_done.value() {
        done.invalid("completionTime cannot be mutated");
    }
    let [start, was] = [&write.status, &write.old].map(|status| status.at("startTime"));
    let suspended = job.down("spec.suspend").flag();
    let resumes = write.was("Suspended") && !write.is("Suspended");
    if was.is_set() && was.value() != start.value() && !suspended && !resumes {
        start.required("startTime cannot be removed for unsuspended job");
    }
    write.refuse_end_of("", "SuccessCriteriaMet");
}

fn check_uncounted(uncounted: &FieldPath<'_>) {
    let mut seen = HashSet::new();
    for field in ["succeeded", "failed"] {
        for uid in uncounted.at(field).items() {
            if uid.is_empty() {
                uid.invalid_text("must not be empty");
            } else {
                uid.unique(&mut seen);
            }
        }
    }
}

fn check_indexes(object: &FieldPath<'_>, finished: bool) {
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
            field.invalid(&format!("error parsing {name}: {why}"));
        }
    }
    if !done.is_empty() && spec.at("completionMode").text() != "Indexed" {
        done.invalid("cannot set non-empty completedIndexes when non-indexed completion mode");
    }
    if lost.is_set() && !spec.at("backoffLimitPerIndex").is_set() {
        lost.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    }
    if completions.is_set()
        && lost.is_set()
        && let Some(index) = indexes::overlap(&done, &lost, completions.int())
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        lost.invalid(&detail);
    }
    let terminating = status.at("terminating");
    if finished && terminating.int() > 0 {
        terminating.invalid("terminating>0 is invalid for finished job");
    }
}
