//! Machine: the ReplicaSets, Pods and statuses that a cluster's own controllers would write.

use std::collections::BTreeMap;
use std::hash::Hasher;

use fnv::FnvHasher;
use jiff::{SignedDuration, Timestamp};
use steersman::k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus,
};
use steersman::k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodCondition, PodStatus,
    PodTemplateSpec,
};
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use steersman::{ObjectKey, owner, serde_json};

/// The label by which a ReplicaSet tells its pods from those of its siblings.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The label of everything that is played: what does not bear it is somebody else's.
const PLAYED: &str = "web.example.com/played";

/// The name of the Deployment that a played ReplicaSet or Pod belongs to.
///
/// A ReplicaSet is controlled by its Deployment, and a Pod by a ReplicaSet named
/// `<deployment>-<hash>`: the name leads back even when the ReplicaSet is gone.
#[must_use]
pub(super) fn deployment_of(meta: &ObjectMeta) -> Option<String> {
    meta.labels.as_ref()?.get(PLAYED)?;
    let controller = owner::controller_of(meta)?;
    match controller.kind.as_str() {
        "Deployment" => Some(controller.name.clone()),
        "ReplicaSet" => Some(controller.name.rsplit_once('-')?.0.to_owned()),
        _ => None,
    }
}

/// The hash that names the ReplicaSet of a pod template.
#[must_use]
pub(super) fn template_hash(template: &PodTemplateSpec) -> String {
    let mut hasher = FnvHasher::default();
    // Plain fields always serialise; were one not to, every template would share one name, and the
    // server would refuse the second ReplicaSet.
    hasher.write(&serde_json::to_vec(template).unwrap_or_default());
    format!("{:010x}", hasher.finish() & 0xff_ffff_ffff)
}

/// The ReplicaSet that runs the present template of `deployment`, not yet owned.
#[must_use]
pub(super) fn replica_set(deployment: &Deployment, hash: &str) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let mut selector = spec.selector;
    let mut template = spec.template;
    let labels = template
        .metadata
        .get_or_insert_default()
        .labels
        .get_or_insert_default();
    labels.insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    labels.insert(PLAYED.to_owned(), "true".to_owned());
    let labels = labels.clone();
    let match_labels = selector.match_labels.get_or_insert_default();
    match_labels.insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    ReplicaSet {
        metadata: ObjectMeta {
            namespace: deployment.metadata.namespace.clone(),
            name: Some(format!("{name}-{hash}")),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(spec.replicas.unwrap_or(1)),
            selector: LabelSelector { ..selector },
            template: Some(template),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}

/// The names of the pods of a ReplicaSet of `replicas` pods.
///
/// They follow from the set's name and a number, so that a pod created from a view that is a
/// moment old is refused by the server instead of being one too many.
pub(super) fn pod_keys(set: &ObjectKey, replicas: i32) -> impl Iterator<Item = ObjectKey> {
    (0..replicas).map(move |number| {
        let mut hasher = FnvHasher::default();
        hasher.write(set.name().as_bytes());
        hasher.write_i32(number);
        set.sibling(format!("{}-{:05x}", set.name(), hasher.finish() & 0xf_ffff))
    })
}

/// A pod of a ReplicaSet, not yet owned.
#[must_use]
pub(super) fn pod(set: &ReplicaSet, key: &ObjectKey) -> Pod {
    let template = set
        .spec
        .clone()
        .and_then(|s| s.template)
        .unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.namespace = key.namespace().map(Into::into);
    metadata.name = Some(key.name().to_owned());
    Pod {
        metadata,
        spec: template.spec,
        status: None,
    }
}

/// Whether a pod's `Ready` condition holds.
#[must_use]
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|c| c.type_ == "Ready" && c.status == "True")
}

/// When a pod has started, at a start-up time of `startup`.
#[must_use]
pub(super) fn started_at(pod: &Pod, startup: SignedDuration) -> Option<Timestamp> {
    pod.metadata
        .creation_timestamp
        .as_ref()?
        .0
        .checked_add(startup)
        .ok()
}

/// The status a kubelet reports for a pod all of whose containers run.
#[must_use]
pub(super) fn running(pod: &Pod, now: Timestamp) -> PodStatus {
    let condition = |type_: &str| PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    };
    let containers = pod.spec.iter().flat_map(|s| &s.containers);
    PodStatus {
        phase: Some("Running".to_owned()),
        start_time: pod.metadata.creation_timestamp.clone(),
        conditions: Some(
            ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
                .map(condition)
                .into(),
        ),
        container_statuses: Some(
            containers
                .map(|container| ContainerStatus {
                    name: container.name.clone(),
                    image: container.image.clone().unwrap_or_default(),
                    ready: true,
                    started: Some(true),
                    state: Some(ContainerState {
                        running: Some(ContainerStateRunning {
                            started_at: Some(Time(now)),
                        }),
                        ..ContainerState::default()
                    }),
                    ..ContainerStatus::default()
                })
                .collect(),
        ),
        ..PodStatus::default()
    }
}

/// How many pods there are, and how many of them are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// All of them.
    pub(super) total: i32,
    /// Those that are ready.
    pub(super) ready: i32,
}

/// The status of a ReplicaSet with these pods.
#[must_use]
pub(super) fn replica_set_status(set: &ReplicaSet, pods: Count) -> ReplicaSetStatus {
    ReplicaSetStatus {
        observed_generation: set.metadata.generation,
        replicas: pods.total,
        fully_labeled_replicas: Some(pods.total),
        ready_replicas: Some(pods.ready),
        available_replicas: Some(pods.ready),
        ..ReplicaSetStatus::default()
    }
}

/// The status of a Deployment with these pods, `current` of which run its present template.
#[must_use]
pub(super) fn deployment_status(
    deployment: &Deployment,
    pods: Count,
    current: Count,
    now: Timestamp,
) -> DeploymentStatus {
    let desired = deployment
        .spec
        .as_ref()
        .and_then(|s| s.replicas)
        .unwrap_or(1);
    let before = deployment
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten());
    let before: BTreeMap<&str, &DeploymentCondition> =
        before.map(|c| (c.type_.as_str(), c)).collect();
    let condition = |type_: &str, holds: bool, reason: &str| {
        let status = if holds { "True" } else { "False" };
        let same = before.get(type_).filter(|c| c.status == status);
        let since = same
            .and_then(|c| c.last_transition_time.clone())
            .or(Some(Time(now)));
        DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            last_transition_time: since.clone(),
            last_update_time: since,
            ..DeploymentCondition::default()
        }
    };
    let available = pods.ready >= desired;
    let done = current.ready >= desired && pods.total == current.total;
    DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: Some(pods.total),
        updated_replicas: Some(current.total),
        ready_replicas: Some(pods.ready),
        available_replicas: Some(pods.ready),
        unavailable_replicas: Some((desired - pods.ready).max(0)),
        conditions: Some(vec![
            condition(
                "Available",
                available,
                if available {
                    "MinimumReplicasAvailable"
                } else {
                    "MinimumReplicasUnavailable"
                },
            ),
            condition(
                "Progressing",
                true,
                if done {
                    "NewReplicaSetAvailable"
                } else {
                    "ReplicaSetUpdated"
                },
            ),
        ]),
        ..DeploymentStatus::default()
    }
}
