//! Machine: Jobs and CronJobs.

mod schedule;
mod indexes;
mod policies;
mod status;

use serde_json::{Map, Value, json};
use steersman_apimachinery::names;

use crate::fields::fill::{complete, copy, lacks, list, part, put, set};
use crate::fields::go_value::GoType;
use crate::fields::{FieldPath, check, reference, selector};
use crate::{Strategy, pod};

pub(crate) const JOB: Strategy = Strategy {
    defaults: job_defaults,
    prepare: prepare_job,
    validate: job,
    validate_status: status::check,
    warn: warn_of_job,
    ..Strategy::PLAIN
};

pub(crate) const CRON_JOB: Strategy = Strategy {
    defaults: cron_job_defaults,
    validate: cron_job,
    warn: |new, old| {
        let schedule = new.down("spec.schedule");
        if schedule.text().contains("TZ") {
            schedule.warn("cannot use TZ or CRON_TZ in schedule, use timeZone instead");
        }
        pod::warn_of_template(new, old, "spec.jobTemplate.spec.template");
    },
    ..Strategy::PLAIN
};

/// The labels by which a Job selects its Pods, and whether the value is the Job's uid.
const LABELS: [(&str, bool); 4] = [
    ("controller-uid", true),
    ("job-name", false),
    ("batch.kubernetes.io/controller-uid", true),
    ("batch.kubernetes.io/job-name", false),
];

fn warn_of_job(new: &FieldPath<'_>, old: Option<&Value>) {
    let [completions, parallelism] = new.at("spec").parts(["completions", "parallelism"]);
    if completions.int() > 100_000 && parallelism.int() > 10_000 {
        new.warn_as("In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail");
    }
    pod::warn_of_template(new, old, "spec.template");
}

fn job_defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", json!(1));
    }
    let per_index = &spec["backoffLimitPerIndex"];
    let limit = if per_index.is_null() { 6 } else { i32::MAX };
    let replacement = match spec["podFailurePolicy"] {
        Value::Null => "TerminatingOrFailed",
        _ => "Failed",
    };
    let defaults = json!({
        "parallelism": 1,
        "backoffLimit": limit,
        "completionMode": "NonIndexed",
        "suspend": false,
        "manualSelector": false,
        "podReplacementPolicy": replacement,
    });
    complete(spec, defaults);
    complete_policy(spec);
    pod::complete_template(spec);
}

/// Sets the status of failure conditions to `True` where it is absent.
fn complete_policy(spec: &mut Value) {
    let rules = spec.pointer_mut("/podFailurePolicy/rules");
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        for pattern in list(rule, "onPodConditions") {
            set(pattern, "status", json!("True"));
        }
    }
}

fn cron_job_defaults(object: &mut Value) {
    let defaults = json!({
        "concurrencyPolicy": "Allow",
        "suspend": false,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {}, "spec": {}},
    });
    complete(object, json!({ "spec": defaults }));
    if let Some(job) = object.pointer_mut("/spec/jobTemplate/spec") {
        complete_policy(job);
        pod::complete_template(job);
    }
}

/// Gives a new Job without `manualSelector` a selector by its uid. An update keeps the selector.
fn prepare_job(new: &mut Value, old: Option<&Value>) {
    if let Some(old) = old {
        if let Some(spec) = new.get_mut("spec") {
            set(spec, "selector", old["spec"]["selector"].clone());
        }
    } else if new["spec"]["manualSelector"] != true {
        select_own_pods(new);
    }
    // A Job without labels has the labels of its template, with those of the selector.
    let labels = new["spec"]["template"]["metadata"]["labels"].clone();
    if lacks(&new["metadata"], "labels")
        && labels.is_object()
        && let Some(metadata) = part(new, "metadata")
    {
        put(metadata, "labels", labels);
    }
}

/// Labels the template by uid and name, and selects by the uid (upstream: `generateSelector`).
fn select_own_pods(new: &mut Value) {
    let own = |name: &str| json!(new["metadata"][name].as_str().unwrap_or_default());
    let (uid, name) = (own("uid"), own("name"));
    let mut labels = Map::new();
    for (label, by_uid) in LABELS {
        let value = if by_uid { &uid } else { &name };
        labels.insert(label.to_owned(), value.clone());
    }
    let spec = json!({
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {"metadata": {"labels": labels}},
    });
    complete(new, json!({ "spec": spec }));
}

/// Checks a Job. Upstream: `ValidateJob` and `ValidateJobSpecUpdate`.
fn job(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    if old.is_none() {
        check_generated(object);
    }
    check_spec(&spec);
    let at = spec.at("selector");
    at.need_set("");
    selector::check(&at);
    let labels = spec.down("template.metadata.labels");
    if !selector::selects(at.value(), labels.value()) {
        labels.invalid("`selector` does not match template `labels`");
    }
    match old {
        None => check_hostname(object),
        Some(old) => check_update(&spec, &object.with(old)),
    }
}

/// Checks the generated selector and labels (upstream: `validateGeneratedSelector`).
fn check_generated(object: &FieldPath<'_>) {
    let spec = object.at("spec");
    if spec.at("manualSelector").flag() || !spec.at("selector").is_set() {
        return;
    }
    let (uid, name) = (object.down("metadata.uid"), object.down("metadata.name"));
    let metadata = spec.down("template.metadata");
    let labels = metadata.at("labels");
    let mut expected = Map::new();
    for (label, by_uid) in LABELS {
        let wanted = if by_uid { uid.text() } else { name.text() };
        let field = labels.key(label);
        let detail = || format!("must be '{wanted}'");
        match field.value().as_str() {
            None => field.required(&detail()),
            // As in the real server, the message quotes all labels.
            Some(found) if found != wanted => field.invalid_as(labels.value(), &detail()),
            Some(_) => {}
        }
        expected.insert(label.to_owned(), json!(wanted));
    }
    let at = spec.at("selector");
    if !selector::selects(at.value(), &Value::Object(expected)) {
        at.invalid("`selector` not auto-generated");
    }
}

/// Checks the hostnames of the Pods of an indexed Job: the Job's name and the index.
fn check_hostname(object: &FieldPath<'_>) {
    let spec = object.at("spec");
    let completions = spec.at("completions").int();
    if spec.at("completionMode").text() != "Indexed" || completions <= 0 {
        return;
    }
    let name = object.down("metadata.name");
    let longest = format!("{}-{}", name.text(), completions - 1);
    if !names::check_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        name.invalid_text(&detail);
    }
}

/// Checks a Job's spec, alone or in a template (upstream: `validateJobSpec`).
fn check_spec(spec: &FieldPath<'_>) {
    let numbers = [
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
        "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    ];
    check::not_negative_members(spec, &numbers);
    let (per_index, most_failed) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    if most_failed.is_set() && !per_index.is_set() {
        per_index.required("when maxFailedIndexes is specified");
    }
    spec.at("managedBy").if_set(|manager| {
        check::required(manager, reference::check_domain_path);
        manager.at_most_bytes(63);
    });
    let mode = spec.at("completionMode");
    check::optional(&mode, &["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        check_indexed(spec);
    } else if matches!(mode.text(), "" | "NonIndexed") {
        for field in [&per_index, &most_failed] {
            field.if_set(|field| field.invalid("requires indexed completion mode"));
        }
    }
    policies::check(spec);
    pod::check_template(&spec.at("template"));
    let restarts = spec.down("template.spec.restartPolicy");
    match restarts.text() {
        "" | "Always" => restarts.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.at("podFailurePolicy").is_set() => {
            restarts.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        _ => restarts.not_supported(&["OnFailure", "Never"]),
    }
}

fn check_indexed(spec: &FieldPath<'_>) {
    const SOFT: i64 = 100_000;
    const LIMIT: i64 = 10_000;
    let [completions, parallelism, most_failed] =
        spec.parts(["completions", "parallelism", "maxFailedIndexes"]);
    completions.need_set("when completion mode is Indexed");
    if parallelism.int() > SOFT {
        let detail =
            format!("must be less than or equal to {SOFT} when completion mode is Indexed");
        parallelism.invalid(&detail);
    }
    if completions.is_set() && most_failed.int() > completions.int() {
        most_failed.invalid("must be less than or equal to completions");
    }
    most_failed.at_most(SOFT, &format!("must be less than or equal to {SOFT}"));
    if completions.int() <= SOFT || !spec.at("backoffLimitPerIndex").is_set() {
        return;
    }
    if !most_failed.is_set() {
        let detail = format!("must be specified when completions is above {SOFT}");
        most_failed.required(&detail);
    }
    for field in [&parallelism, &most_failed] {
        if field.int() > LIMIT {
            let detail = format!(
                "must be less than or equal to {LIMIT} when completions are above {SOFT} and used with backoff limit per index"
            );
            field.invalid(&detail);
        }
    }
}

fn check_update(spec: &FieldPath<'_>, old: &FieldPath<'_>) {
    let before = old.at("spec");
    let same = |field: &str| {
        check::immutable(&spec.at(field), before.at(field).value());
    };
    let same_struct = |field: &str, kind: &GoType| {
        check::immutable_struct(&spec.at(field), before.at(field).value(), kind);
    };
    let completions = spec.at("completions");
    if spec.at("completionMode").text() == "Indexed" {
        let changed = completions.value() != before.at("completions").value();
        if changed && completions.is_set() && completions.int() != spec.at("parallelism").int() {
            completions.invalid("can only be modified in tandem with spec.parallelism");
        }
    } else {
        same("completions");
    }
    same("selector");
    let mut template = before.at("template").value().clone();
    let suspended = before.at("suspend").flag() && !old.down("status.startTime").is_set();
    if suspended {
        open_scheduling(&mut template, spec.at("template").value());
    }
    let paused = check::holds(&old.at("status"), "Suspended");
    if suspended || (before.at("suspend").flag() && paused) {
        open_resources(&mut template, spec.at("template").value());
    }
    check::immutable(&spec.at("template"), &template);
    same("completionMode");
    same_struct("podFailurePolicy", &policies::FAILURE_POLICY);
    same("backoffLimitPerIndex");
    same("managedBy");
    same_struct("successPolicy", &policies::SUCCESS_POLICY);
}

/// Allows an update to change the scheduling fields of a suspended Job that has never started.
fn open_scheduling(old: &mut Value, new: &Value) {
    for path in [
        "/spec/nodeSelector", "/spec/tolerations", "/spec/schedulingGates",
        "/spec/affinity/nodeAffinity", "/metadata/annotations", "/metadata/labels",
    ] {
        let Some((holder, field)) = path.rsplit_once('/') else {
            continue;
        };
        let from = new.pointer(holder).unwrap_or(&Value::Null);
        if holder == "/spec/affinity" && from.get(field).is_some() {
            set(&mut old["spec"], "affinity", json!({}));
        }
        if let Some(into) = old.pointer_mut(holder) {
            copy(into, from, field);
        }
    }
}

/// Allows an update to change the resources of a suspended Job that has no running Pods.
fn open_resources(old: &mut Value, new: &Value) {
    for list in ["/spec/containers", "/spec/initContainers"] {
        let containers = old.pointer_mut(list).and_then(Value::as_array_mut);
        let others = new.pointer(list).and_then(Value::as_array);
        let pairs = containers
            .into_iter()
            .flatten()
            .zip(others.into_iter().flatten());
        for (container, other) in pairs {
            if let Some(resources) = other.get("resources") {
                put(container, "resources", resources.clone());
            }
        }
    }
}

/// Checks a CronJob. Upstream: `ValidateCronJobCreate` and `ValidateCronJobUpdate`.
fn cron_job(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    let before = old.map(|old| &old["spec"]);
    schedule::check(&spec, before);
    let policies = &["Allow", "Forbid", "Replace"];
    check::required_one_of(&spec.at("concurrencyPolicy"), policies);
    let job = spec.down("jobTemplate.spec");
    check_spec(&job);
    let [selector, manual] = job.parts(["selector", "manualSelector"]);
    selector.if_set(|selector| selector.invalid("`selector` will be auto-generated"));
    if manual.flag() {
        manual.not_supported(&["nil", "false"]);
    }
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    check::not_negative_members(&spec, &limits);
    let name = object.down("metadata.name");
    if old.is_none() && name.len() > 52 {
        name.invalid_text("must be no more than 52 characters");
    }
}

#[cfg(test)]
mod tests;
