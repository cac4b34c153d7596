//! Machine: Jobs and CronJobs.

mod schedule;
mod indexes;
mod policies;
mod status;

use serde_json::{Value, json};
use steersman_apimachinery::names;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{lacks, part, put, set};
use crate::fields::reference;
use crate::fields::selector;
use crate::pod;

/// The strategy of `Job` in `batch/v1`.
pub(crate) const JOB: Strategy = Strategy {
    defaults: job_defaults,
    prepare: prepare_job,
    validate: job,
    validate_status: status::check,
    warnings: job_warnings,
    ..Strategy::PLAIN
};

/// The strategy of `CronJob` in `batch/v1`.
pub(crate) const CRON_JOB: Strategy = Strategy {
    defaults: cron_job_defaults,
    validate: cron_job,
    warnings: |new, old| {
        let mut warnings = Vec::new();
        let zone = new["spec"]["schedule"].as_str().unwrap_or_default();
        if zone.contains("TZ") {
            warnings.push(
                "spec.schedule: cannot use TZ or CRON_TZ in schedule, use timeZone instead"
                    .to_owned(),
            );
        }
        warnings.extend(pod::template_warnings(
            new,
            old,
            "spec.jobTemplate.spec.template",
        ));
        warnings
    },
    ..Strategy::PLAIN
};

/// The labels by which a Job selects its Pods. The flag tells whether the value is the Job's uid or
/// its name.
const LABELS: [(&str, bool); 4] = [
    ("controller-uid", true),
    ("job-name", false),
    ("batch.kubernetes.io/controller-uid", true),
    ("batch.kubernetes.io/job-name", false),
];

fn job_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = FieldPath::root(new).at("spec");
    let (completions, parallelism) = (spec.at("completions").int(), spec.at("parallelism").int());
    let mut warnings = Vec::new();
    if completions > 100_000 && parallelism > 10_000 {
        warnings.push("In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail".to_owned());
    }
    warnings.extend(pod::template_warnings(new, old, "spec.template"));
    warnings
}

fn job_defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", json!(1));
    }
    set(spec, "parallelism", json!(1));
    let limit = if spec["backoffLimitPerIndex"].is_null() {
        6
    } else {
        i32::MAX
    };
    set(spec, "backoffLimit", json!(limit));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    set(spec, "manualSelector", json!(false));
    let replacement = if spec["podFailurePolicy"].is_null() {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set(spec, "podReplacementPolicy", json!(replacement));
    complete_policy(spec);
    pod::complete_template(spec);
}

/// Sets the status of failure conditions to `True` where it is absent.
fn complete_policy(spec: &mut Value) {
    let rules = spec.pointer_mut("/podFailurePolicy/rules");
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        let patterns = rule
            .get_mut("onPodConditions")
            .and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            set(pattern, "status", json!("True"));
        }
    }
}

fn cron_job_defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    if let Some(template) = part(spec, "jobTemplate") {
        part(template, "metadata");
        if let Some(job) = part(template, "spec") {
            complete_policy(job);
            pod::complete_template(job);
        }
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

/// Labels the template of a Job with the Job's uid and name, and selects Pods by the uid. Upstream:
/// `generateSelector`.
fn select_own_pods(new: &mut Value) {
    let uid = new["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let name = new["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let Some(spec) = part(new, "spec") else {
        return;
    };
    let wanted = "batch.kubernetes.io/controller-uid";
    if let Some(selector) = part(spec, "selector")
        && let Some(labels) = part(selector, "matchLabels")
    {
        set(labels, wanted, json!(uid));
    }
    if let Some(template) = part(spec, "template")
        && let Some(metadata) = part(template, "metadata")
        && let Some(labels) = part(metadata, "labels")
    {
        for (label, by_uid) in LABELS {
            set(labels, label, json!(if by_uid { &uid } else { &name }));
        }
    }
}

/// Checks a Job. Upstream: `ValidateJob` and `ValidateJobSpecUpdate`.
fn job(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let object = FieldPath::root(new);
    let spec = object.at("spec");
    if old.is_none() {
        check_generated(&object, &mut errors);
    }
    check_spec(&spec, &mut errors);
    let at = spec.at("selector");
    if at.is_set() {
        selector::check(&at, &mut errors);
    } else {
        errors.required(&at, "");
    }
    let labels = spec.down("template.metadata.labels");
    if !selector::selects(at.value(), labels.value()) {
        errors.invalid(&labels, "`selector` does not match template `labels`");
    }
    match old {
        None => check_hostname(&object, &mut errors),
        Some(old) => check_update(&spec, &FieldPath::root(old), &mut errors),
    }
    errors
}

/// Checks that a generated selector and the template have the labels that the server generates
/// (upstream: `validateGeneratedSelector`).
fn check_generated(object: &FieldPath<'_>, errors: &mut Errors) {
    let spec = object.at("spec");
    if spec.at("manualSelector").flag() || !spec.at("selector").is_set() {
        return;
    }
    let (uid, name) = (object.down("metadata.uid"), object.down("metadata.name"));
    let metadata = spec.down("template.metadata");
    let labels = metadata.at("labels");
    let mut expected = serde_json::Map::new();
    for (label, by_uid) in LABELS {
        let wanted = if by_uid { uid.text() } else { name.text() };
        let found = labels.value().get(label).and_then(Value::as_str);
        let field = labels.key(label);
        match found {
            None => errors.required(&field, &format!("must be '{wanted}'")),
            Some(found) if found != wanted => {
                let detail = format!("must be '{wanted}'");
                // As in the real server, the message quotes all labels.
                errors.invalid_as(&field, labels.value(), &detail);
            }
            Some(_) => {}
        }
        expected.insert(label.to_owned(), json!(wanted));
    }
    let at = spec.at("selector");
    if !selector::selects(at.value(), &Value::Object(expected)) {
        errors.invalid(&at, "`selector` not auto-generated");
    }
}

/// Checks the hostnames of the Pods of an indexed Job: the Job's name and the index.
fn check_hostname(object: &FieldPath<'_>, errors: &mut Errors) {
    let spec = object.at("spec");
    let completions = spec.at("completions").int();
    if spec.at("completionMode").text() != "Indexed" || completions <= 0 {
        return;
    }
    let name = object.down("metadata.name");
    let longest = format!("{}-{}", name.text(), completions - 1);
    if !names::check_label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.invalid_text(&name, &detail);
    }
}

/// Checks a Job's spec, alone or in a template (upstream: `validateJobSpec`).
fn check_spec(spec: &FieldPath<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check::not_negative(&spec.at(field), errors);
    }
    let (per_index, most_failed) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    if most_failed.is_set() && !per_index.is_set() {
        errors.required(&per_index, "when maxFailedIndexes is specified");
    }
    check_manager(&spec.at("managedBy"), errors);
    let mode = spec.at("completionMode");
    if mode.is_set() {
        check::one_of(&mode, &["NonIndexed", "Indexed"], errors);
    }
    if mode.text() == "Indexed" {
        check_indexed(spec, errors);
    } else if matches!(mode.text(), "" | "NonIndexed") {
        for field in [&per_index, &most_failed] {
            if field.is_set() {
                errors.invalid(field, "requires indexed completion mode");
            }
        }
    }
    policies::check(spec, errors);
    pod::check_template(&spec.at("template"), errors);
    let restarts = spec.down("template.spec.restartPolicy");
    match restarts.text() {
        "" | "Always" => {
            errors.required(&restarts, "valid values: \"OnFailure\", \"Never\"");
        }
        "OnFailure" if spec.at("podFailurePolicy").is_set() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&restarts, detail);
        }
        "OnFailure" | "Never" => {}
        _ => errors.not_supported(&restarts, &["OnFailure", "Never"]),
    }
}

fn check_manager(manager: &FieldPath<'_>, errors: &mut Errors) {
    if !manager.is_set() {
        return;
    }
    if manager.is_empty() {
        errors.required(manager, "");
    } else {
        reference::check_domain_path(manager, errors);
    }
    if manager.len() > 63 {
        errors.too_long(manager, 63);
    }
}

fn check_indexed(spec: &FieldPath<'_>, errors: &mut Errors) {
    const SOFT: i64 = 100_000;
    const LIMIT: i64 = 10_000;
    let (completions, parallelism) = (spec.at("completions"), spec.at("parallelism"));
    let most_failed = spec.at("maxFailedIndexes");
    if !completions.is_set() {
        errors.required(&completions, "when completion mode is Indexed");
    }
    if parallelism.int() > SOFT {
        let detail =
            format!("must be less than or equal to {SOFT} when completion mode is Indexed");
        errors.invalid(&parallelism, &detail);
    }
    if completions.is_set() && most_failed.int() > completions.int() {
        errors.invalid(&most_failed, "must be less than or equal to completions");
    }
    if most_failed.int() > SOFT {
        errors.invalid(
            &most_failed,
            &format!("must be less than or equal to {SOFT}"),
        );
    }
    if completions.int() <= SOFT || !spec.at("backoffLimitPerIndex").is_set() {
        return;
    }
    if !most_failed.is_set() {
        let detail = format!("must be specified when completions is above {SOFT}");
        errors.required(&most_failed, &detail);
    }
    for field in [&parallelism, &most_failed] {
        if field.int() > LIMIT {
            let detail = format!(
                "must be less than or equal to {LIMIT} when completions are above {SOFT} and used with backoff limit per index"
            );
            errors.invalid(field, &detail);
        }
    }
}

fn check_update(spec: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let before = old.at("spec");
    let same = |field: &str, errors: &mut Errors| {
        check::immutable(&spec.at(field), before.at(field).value(), errors);
    };
    let completions = spec.at("completions");
    if spec.at("completionMode").text() == "Indexed" {
        let changed = completions.value() != before.at("completions").value();
        if changed && completions.is_set() && completions.int() != spec.at("parallelism").int() {
            let detail = "can only be modified in tandem with spec.parallelism";
            errors.invalid(&completions, detail);
        }
    } else {
        same("completions", errors);
    }
    same("selector", errors);
    let mut template = before.at("template").value().clone();
    let suspended = before.at("suspend").flag() && !old.down("status.startTime").is_set();
    if suspended {
        open_scheduling(&mut template, spec.at("template").value());
    }
    let mut conditions = old.down("status.conditions").items();
    let paused = conditions
        .any(|one| one.at("type").text() == "Suspended" && one.at("status").text() == "True");
    if suspended || (before.at("suspend").flag() && paused) {
        open_resources(&mut template, spec.at("template").value());
    }
    check::immutable(&spec.at("template"), &template, errors);
    same("completionMode", errors);
    policies::same_failure(spec, &before, errors);
    same("backoffLimitPerIndex", errors);
    same("managedBy", errors);
    policies::same_success(spec, &before, errors);
}

/// Allows an update to change the scheduling fields of a suspended Job that has never started.
fn open_scheduling(old: &mut Value, new: &Value) {
    for path in [
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/schedulingGates",
        "/spec/affinity/nodeAffinity",
        "/metadata/annotations",
        "/metadata/labels",
    ] {
        let Some((holder, field)) = path.rsplit_once('/') else {
            continue;
        };
        let value = new.pointer(path);
        if value.is_some() && holder == "/spec/affinity" && old.pointer(holder).is_none() {
            set(&mut old["spec"], "affinity", json!({}));
        }
        let Some(members) = old.pointer_mut(holder).and_then(Value::as_object_mut) else {
            continue;
        };
        match value {
            Some(value) => members.insert(field.to_owned(), value.clone()),
            None => members.remove(field),
        };
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
fn cron_job(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let object = FieldPath::root(new);
    let spec = object.at("spec");
    let before = old.map(|old| &old["spec"]);
    schedule::check(&spec, before, &mut errors);
    let policies = &["Allow", "Forbid", "Replace"];
    check::required_one_of(&spec.at("concurrencyPolicy"), policies, &mut errors);
    let job = spec.down("jobTemplate.spec");
    check_spec(&job, &mut errors);
    if job.at("selector").is_set() {
        errors.invalid(&job.at("selector"), "`selector` will be auto-generated");
    }
    if job.at("manualSelector").flag() {
        errors.not_supported(&job.at("manualSelector"), &["nil", "false"]);
    }
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        check::not_negative(&spec.at(field), &mut errors);
    }
    let name = object.down("metadata.name");
    if old.is_none() && name.len() > 52 {
        errors.invalid_text(&name, "must be no more than 52 characters");
    }
    errors
}

#[cfg(test)]
mod tests;
