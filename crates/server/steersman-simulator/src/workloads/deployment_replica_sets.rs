//! Words: the ReplicaSets of a Deployment: the current one, the old ones, and the body of a new one.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_store::Stored;

use super::rollout::{RolloutTerms, SetSize};
use crate::pods::owned_pods::set_condition;
use crate::state::facts::{
    annotation, condition, controller_reference, label, number, template_hash, transition_time,
};

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(crate) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(crate) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The annotations that are not copied from a Deployment to its ReplicaSets: each object has its own values.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

pub(crate) struct DeploymentSets {
    pub(crate) new: Option<Arc<Stored>>,
    /// The ReplicaSets of earlier templates, the oldest first.
    pub(crate) old: Vec<Arc<Stored>>,
    /// The revision of the store at which the ReplicaSets were read, to notice later changes.
    pub(crate) read_at: u64,
}

impl DeploymentSets {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.old.iter().chain(&self.new)
    }

    /// Adds up one numeric field, in `spec` or `status` (`part`), over all ReplicaSets.
    pub(crate) fn sum(&self, part: &str, field: &str) -> i64 {
        let numbers = self.all().map(|set| number(&set.lean()[part][field], 0));
        numbers.sum()
    }
}

/// Returns the annotations that a Deployment gives to its ReplicaSets.
pub(crate) fn copied_annotations(deployment: &Value) -> Map<String, Value> {
    let own = deployment["metadata"]["annotations"].as_object();
    let mut own = own.cloned().unwrap_or_default();
    own.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    own
}

/// Returns the annotations by which a ReplicaSet remembers the Deployment's replicas, without and with `maxSurge`.
pub(crate) fn size_annotations(terms: RolloutTerms) -> [(String, Value); 2] {
    [
        (DESIRED_REPLICAS, terms.replicas),
        (MAX_REPLICAS, terms.replicas + terms.surge),
    ]
    .map(|(key, size)| (key.to_owned(), json!(size.to_string())))
}

pub(crate) fn new_replica_set(
    deployment: &Stored,
    sets: &DeploymentSets,
    revision: &str,
) -> (String, Value) {
    let spec = &deployment.lean()["spec"];
    let mut template = spec["template"].clone();
    let mut collisions = number(&deployment.lean()["status"]["collisionCount"], 0);
    let mut hash = template_hash(&template, collisions);
    let is_of = |set: &Arc<Stored>, hash: &str| label(set.lean(), "pod-template-hash") == hash;
    while sets.all().any(|set| is_of(set, &hash)) {
        collisions += 1;
        hash = template_hash(&template, collisions);
    }
    let name = format!("{}-{hash}", deployment.name);
    template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
    let labels = template["metadata"]["labels"].clone();
    let mut selector = spec["selector"].clone();
    selector["matchLabels"]["pod-template-hash"] = json!(hash);
    let terms = RolloutTerms::of(deployment.lean());
    let total = sets.sum("spec", "replicas");
    let recreate = spec["strategy"]["type"] == "Recreate" && total > 0;
    let replicas = if recreate {
        0
    } else {
        terms.grow(SetSize::default(), total)
    };
    let mut annotations = copied_annotations(deployment.lean());
    annotations.insert(REVISION.to_owned(), json!(revision));
    annotations.extend(size_annotations(terms));
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": *deployment.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    if let Some(seconds) = spec.get("minReadySeconds") {
        set["spec"]["minReadySeconds"] = seconds.clone();
    }
    (name, set)
}

pub(crate) fn same_template(set: &Value, deployment: &Value) -> bool {
    fn members<'a>(
        object: &'a Value,
        left_out: &'static [&str],
    ) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let members = object.as_object().into_iter().flatten();
        members.filter(|(field, value)| !left_out.contains(&field.as_str()) && !value.is_null())
    }
    let (own, wanted) = (&set["metadata"], &deployment["metadata"]);
    let fields = |metadata| members(metadata, &["creationTimestamp", "labels"]);
    // As upstream's `EqualIgnoreHash`, ignores the label with the hash: a Deployment's template may have it, too.
    let labels = |labels| members(labels, &["pod-template-hash"]);
    set["spec"] == deployment["spec"]
        && fields(own).eq(fields(wanted))
        && labels(&own["labels"]).eq(labels(&wanted["labels"]))
}

pub(crate) fn revision_of(set: &Value) -> i64 {
    annotation(set, REVISION).parse().unwrap_or(0)
}

pub(crate) fn is_complete(deployment: &Value) -> bool {
    condition(deployment, "Progressing")
        .is_some_and(|one| one["reason"] == "NewReplicaSetAvailable")
        && deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
}

/// Copies the condition `ReplicaFailure` of the first ReplicaSet that has it to a Deployment (`getReplicaFailures`).
pub(crate) fn set_replica_failure<'a>(
    conditions: &mut Vec<Value>,
    mut sets: impl Iterator<Item = &'a Arc<Stored>>,
) {
    const FAILURE: &str = "ReplicaFailure";
    let failure = sets.find_map(|set| condition(set.lean(), FAILURE));
    let Some(failure) = failure else {
        return conditions.retain(|one| one["type"] != FAILURE);
    };
    let known = conditions.iter().any(|one| {
        one["type"] == FAILURE
            && one["status"] == failure["status"]
            && one["reason"] == failure["reason"]
    });
    if !known {
        let mut condition = failure.clone();
        condition["lastUpdateTime"] = failure["lastTransitionTime"].clone();
        set_condition(conditions, condition);
    }
}

/// Sets a condition, unless its status and reason are stored already. `ReplicaSetUpdated` always renews its time.
pub(crate) fn put_condition(
    conditions: &mut Vec<Value>,
    (kind, status, reason, message): (&str, &str, &str, &str),
    now: &str,
) {
    let known = conditions.iter().find(|one| one["type"] == kind);
    if known.is_some_and(|one| {
        one["status"] == status && one["reason"] == reason && reason != "ReplicaSetUpdated"
    }) {
        return;
    }
    let same = known.filter(|one| one["status"] == status);
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": transition_time(same, || now.to_owned()),
    });
    set_condition(conditions, condition);
}
