//! Machine: the checks that the Pod Security Standard `restricted` adds to `baseline`, one function each (upstream:
//! `pod-security-admission/policy`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::baseline::{adding, volumes_of};
use super::pod::{Pod, Violation, used};
use crate::values::has_text;

const VOLUMES: &[&str] = &[
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
];

/// The forbidden volume types that error messages name; messages call any other forbidden type `unknown`.
const OLD_VOLUMES: &[&str] = &[
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi",
    "glusterfs", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile",
    "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "portworxVolume", "scaleIO",
    "storageos",
];

pub(super) fn dropped_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let keeps =
        |container: &Value| !has_text(&container["securityContext"]["capabilities"]["drop"], "ALL");
    let mut details = Vec::from_iter(pod.list(keeps).map(|containers| {
        format!("{containers} must set securityContext.capabilities.drop=[\"ALL\"]")
    }));
    details.extend(adding(pod, &["NET_BIND_SERVICE"]));
    (!details.is_empty()).then(|| ("unrestricted capabilities", details.join("; ")))
}

pub(super) fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let containers = pod.list(|one| one["securityContext"]["allowPrivilegeEscalation"] != false)?;
    let detail = format!("{containers} must set securityContext.allowPrivilegeEscalation=false");
    Some(("allowPrivilegeEscalation != false", detail))
}

pub(super) fn volumes(pod: &Pod<'_>) -> Option<Violation> {
    let is_bad = |volume: &&Value| VOLUMES.iter().all(|kind| volume[*kind].is_null());
    let bad: Vec<&Value> = volumes_of(pod).filter(is_bad).collect();
    let names: Vec<&str> = bad.iter().filter_map(|one| one["name"].as_str()).collect();
    let kind = |volume: &&Value| {
        let mut known = OLD_VOLUMES.iter().copied();
        let found = known.find(|kind| !volume[*kind].is_null());
        found.unwrap_or("unknown")
    };
    let kinds: BTreeSet<&str> = bad.iter().map(kind).collect();
    let detail = used(("volume", &names), ("restricted volume type", &kinds))?;
    Some(("restricted volume types", detail))
}

pub(super) fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_own_users() {
        return None;
    }
    if let Some(setters) = pod.setters(|one| one["securityContext"]["runAsNonRoot"] == false) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Some((REASON, detail));
    }
    if *pod.context("runAsNonRoot") == true {
        return None;
    }
    let silent = pod.list(|one| one["securityContext"]["runAsNonRoot"].is_null())?;
    let detail = format!("pod or {silent} must set securityContext.runAsNonRoot=true");
    Some((REASON, detail))
}

pub(super) fn user(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let setters = pod.setters(|one| one["securityContext"]["runAsUser"] == 0)?;
    Some(("runAsUser=0", format!("{setters} must not set runAsUser=0")))
}
