//! Machine: the readiness rules for built-in kinds.

use steersman_object::Gvk;
use steersman_object::status_conditions::{FALSE, TRUE};

use super::Readiness;
use super::fields::JsonFields;

/// Returns the readiness of an object by the rules of its built-in kind; `None` for other kinds.
pub(super) fn readiness(gvk: &Gvk, fields: &JsonFields<'_>) -> Option<Readiness> {
    let rule = match (gvk.group(), gvk.kind()) {
        ("apps", "Deployment") => deployment,
        ("apps", "StatefulSet") => stateful_set,
        ("apps", "DaemonSet") => daemon_set,
        ("apps", "ReplicaSet") => replica_set,
        ("batch", "Job") => job,
        ("", "Pod") => pod,
        ("", "PersistentVolumeClaim") => claim,
        ("", "Service") => service,
        ("policy", "PodDisruptionBudget") => disruption_budget,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition,
        _ => return None,
    };
    Some(rule(*fields))
}

fn in_progress(why: impl Into<String>) -> Readiness {
    Readiness::InProgress(why.into())
}

/// Returns `InProgress` if a number is smaller than the wanted number.
fn missing(number: i64, wanted: i64, what: &str) -> Option<Readiness> {
    (number < wanted).then(|| in_progress(format!("{number} of {wanted} {what}")))
}

/// Returns `InProgress` if the controller of a workload has not seen its current generation.
fn unobserved(fields: JsonFields<'_>) -> Option<Readiness> {
    let is_observed = fields.has("/status/observedGeneration");
    (!is_observed).then(|| in_progress("its controller has not seen it yet"))
}

fn extra_pods(fields: JsonFields<'_>, wanted: i64) -> Option<Readiness> {
    let extra = fields.count("replicas") - wanted;
    (extra > 0).then(|| in_progress(format!("{extra} Pods too many are ending")))
}

fn deployment(fields: JsonFields<'_>) -> Readiness {
    let progressing = fields.condition("Progressing");
    if let Some(failed) = progressing.filter(|found| found.reason == "ProgressDeadlineExceeded") {
        return Readiness::Failed(failed.text());
    }
    let wanted = fields.int("/spec/replicas").unwrap_or(1);
    let [pods, updated, available, ready] = [
        "replicas", "updatedReplicas", "availableReplicas", "readyReplicas",
    ]
    .map(|name| fields.count(name));
    unobserved(fields)
        .or_else(|| missing(pods, wanted, "Pods exist"))
        .or_else(|| missing(updated, wanted, "Pods have the newest template"))
        .or_else(|| extra_pods(fields, wanted))
        .or_else(|| missing(available, updated, "Pods are available"))
        .or_else(|| missing(ready, wanted, "Pods are ready"))
        .unwrap_or(Readiness::Current)
}

fn stateful_set(fields: JsonFields<'_>) -> Readiness {
    // With `OnDelete`, the controller does not replace Pods of an earlier template, so they do not count.
    if fields.text("/spec/updateStrategy/type") == "OnDelete" {
        return unobserved(fields).unwrap_or(Readiness::Current);
    }
    let wanted = fields.int("/spec/replicas").unwrap_or(1);
    let partition = fields.int("/spec/updateStrategy/rollingUpdate/partition");
    let updated_of = wanted - partition.unwrap_or(0).clamp(0, wanted);
    let revision = fields.text("/status/currentRevision");
    let newest = fields.text("/status/updateRevision");
    let is_partial = partition.is_some_and(|partition| partition > 0);
    let is_rolling = !is_partial && wanted > 0 && revision != newest;
    unobserved(fields)
        .or_else(|| missing(fields.count("replicas"), wanted, "Pods exist"))
        .or_else(|| missing(fields.count("readyReplicas"), wanted, "Pods are ready"))
        .or_else(|| extra_pods(fields, wanted))
        .or_else(|| {
            let updated = fields.count("updatedReplicas");
            missing(updated, updated_of, "Pods have the newest template")
        })
        .or_else(|| {
            is_rolling.then(|| in_progress("Pods of an earlier revision are being replaced"))
        })
        .unwrap_or(Readiness::Current)
}

fn daemon_set(fields: JsonFields<'_>) -> Readiness {
    let wanted = fields.count("desiredNumberScheduled");
    let [scheduled, updated, available, ready] = [
        "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady",
    ]
    .map(|name| fields.count(name));
    let is_on_delete = fields.text("/spec/updateStrategy/type") == "OnDelete";
    unobserved(fields)
        .or_else(|| missing(scheduled, wanted, "nodes have a Pod"))
        .or_else(|| {
            missing(updated, wanted, "Pods have the newest template").filter(|_| !is_on_delete)
        })
        .or_else(|| missing(available, wanted, "Pods are available"))
        .or_else(|| missing(ready, wanted, "Pods are ready"))
        .unwrap_or(Readiness::Current)
}

fn replica_set(fields: JsonFields<'_>) -> Readiness {
    let failure = fields.condition("ReplicaFailure");
    if let Some(failed) = failure.filter(|found| found.status == TRUE) {
        return Readiness::Failed(failed.text());
    }
    let wanted = fields.int("/spec/replicas").unwrap_or(1);
    let missing = |field: &str, what: &str| missing(fields.count(field), wanted, what);
    unobserved(fields)
        .or_else(|| missing("fullyLabeledReplicas", "Pods are labelled"))
        .or_else(|| missing("availableReplicas", "Pods are available"))
        .or_else(|| missing("readyReplicas", "Pods are ready"))
        .or_else(|| extra_pods(fields, wanted))
        .unwrap_or(Readiness::Current)
}

fn job(fields: JsonFields<'_>) -> Readiness {
    let is_true = |type_: &str| fields.condition(type_).filter(|found| found.status == TRUE);
    if let Some(failed) = is_true("Failed") {
        return Readiness::Failed(failed.text());
    }
    if is_true("Complete").is_some() {
        return Readiness::Current;
    }
    if is_true("Suspended").is_some() {
        return in_progress("the Job is suspended");
    }
    let (active, succeeded) = (fields.count("active"), fields.count("succeeded"));
    match fields.has("/status/startTime") {
        false => in_progress("the Job has not started"),
        true => in_progress(format!("{succeeded} Pods succeeded, {active} are running")),
    }
}

fn pod(fields: JsonFields<'_>) -> Readiness {
    let ready = fields.condition("Ready");
    match fields.text("/status/phase") {
        "Succeeded" => Readiness::Current,
        "Failed" => {
            let message = fields.text("/status/message");
            Readiness::Failed(match message {
                "" => "the Pod has failed".to_owned(),
                message => message.to_owned(),
            })
        }
        "Running" if ready.is_some_and(|found| found.status == TRUE) => Readiness::Current,
        _ => {
            let is_crashing = |container: &JsonFields<'_>| {
                container.text("/state/waiting/reason") == "CrashLoopBackOff"
            };
            let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
            let mut containers = lists.into_iter().flat_map(|list| fields.list(list));
            if let Some(crashing) = containers.find(is_crashing) {
                let name = crashing.text("/name");
                return Readiness::Failed(format!("container {name:?} crashes again and again"));
            }
            let scheduled = fields.condition("PodScheduled");
            let unscheduled = scheduled.filter(|found| found.status == FALSE);
            in_progress(unscheduled.or(ready).map_or_else(
                || "the Pod is not ready".to_owned(),
                |found| match found.text() {
                    text if text.is_empty() => "the Pod is not ready".to_owned(),
                    text => text,
                },
            ))
        }
    }
}

fn claim(fields: JsonFields<'_>) -> Readiness {
    match fields.text("/status/phase") {
        "Bound" => Readiness::Current,
        "Lost" => Readiness::Failed("the volume of the claim does not exist".to_owned()),
        _ => in_progress("the claim is not bound to a volume"),
    }
}

fn service(fields: JsonFields<'_>) -> Readiness {
    let is_balanced = fields.text("/spec/type") == "LoadBalancer";
    match is_balanced && fields.text("/spec/clusterIP").is_empty() {
        true => in_progress("the Service has no address in the cluster"),
        false => Readiness::Current,
    }
}

fn disruption_budget(fields: JsonFields<'_>) -> Readiness {
    let healthy = fields.count("currentHealthy");
    let wanted = fields.count("desiredHealthy");
    unobserved(fields)
        .or_else(|| missing(healthy, wanted, "Pods are healthy"))
        .unwrap_or(Readiness::Current)
}

fn definition(fields: JsonFields<'_>) -> Readiness {
    let names = fields.condition("NamesAccepted");
    if let Some(refused) = names.filter(|found| found.status == FALSE) {
        return Readiness::Failed(refused.text());
    }
    match fields.condition("Established") {
        Some(found) if found.status == TRUE => Readiness::Current,
        Some(found) if found.status == FALSE && found.reason != "Installing" => {
            Readiness::Failed(found.text())
        }
        _ => in_progress("the server does not serve the kind yet"),
    }
}
