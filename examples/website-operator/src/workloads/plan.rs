//! Machine: what to do next so that a Deployment's pods are as its spec says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use steersman::ObjectKey;
use steersman::k8s_openapi::api::apps::v1::{
    Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use steersman::k8s_openapi::api::core::v1::{Pod, PodStatus};
use steersman::object::{Object as _, TypedObject};
use steersman::owner;

use super::objects::{self, Count};

/// What the caches hold of one Deployment.
#[derive(Debug)]
pub(super) struct World<'a> {
    /// The Deployment, unless it is gone.
    pub(super) deployment: Option<&'a Deployment>,
    /// The ReplicaSets that name it as their controller.
    pub(super) replica_sets: &'a [Arc<ReplicaSet>],
    /// The pods of any of its ReplicaSets, present or past.
    pub(super) pods: &'a [Arc<Pod>],
}

/// One request to the api-server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Create the ReplicaSet of the present template, owned by the Deployment.
    CreateReplicaSet(Box<ReplicaSet>),
    /// Change how many pods a ReplicaSet asks for.
    Scale(Arc<ReplicaSet>, i32),
    /// Delete a ReplicaSet whose Deployment has moved on to another template.
    DeleteReplicaSet(ObjectKey),
    /// Create a pod, owned by the ReplicaSet.
    CreatePod(Box<Pod>, Arc<ReplicaSet>),
    /// Delete a pod.
    DeletePod(ObjectKey),
    /// Report that a pod runs.
    Run(Arc<Pod>, Box<PodStatus>),
    /// Report on a ReplicaSet.
    ReplicaSetStatus(Arc<ReplicaSet>, Box<ReplicaSetStatus>),
    /// Report on the Deployment.
    DeploymentStatus(Box<DeploymentStatus>),
}

/// The steps to take now, and when to look again without being told.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// In order.
    pub(super) steps: Vec<Step>,
    /// When the next pod will have started.
    pub(super) look_again: Option<SignedDuration>,
}

/// Plans the next steps. Pods take `startup` to become ready.
#[must_use]
pub(super) fn plan(world: &World<'_>, startup: SignedDuration, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(deployment) = world.deployment.filter(|d| !d.is_being_deleted()) else {
        return plan;
    };
    let sets: Vec<_> = controlled_by(deployment.uid_str(), world.replica_sets);
    let pods = sets
        .iter()
        .map(|set| {
            (
                set.uid_str().to_owned(),
                controlled_by(set.uid_str(), world.pods),
            )
        })
        .collect();
    plan.run(deployment, &sets, &pods, (startup, now));
    plan
}

/// Those whose controller is this very object; what others control is never touched.
fn controlled_by<K: TypedObject>(uid: &str, objects: &[Arc<K>]) -> Vec<Arc<K>> {
    let ours = |object: &&Arc<K>| owner::controller_of(object.meta()).is_some_and(|o| o.uid == uid);
    objects.iter().filter(ours).cloned().collect()
}

type PodsBySet = BTreeMap<String, Vec<Arc<Pod>>>;

impl Plan {
    fn run(
        &mut self,
        deployment: &Deployment,
        sets: &[Arc<ReplicaSet>],
        pods: &PodsBySet,
        (startup, now): (SignedDuration, Timestamp),
    ) {
        let spec = deployment.spec.clone().unwrap_or_default();
        let desired = spec.replicas.unwrap_or(1);
        let fresh = objects::replica_set(deployment, &objects::template_hash(&spec.template));
        let current = sets
            .iter()
            .find(|set| set.metadata.name == fresh.metadata.name);
        let Some(current) = current else {
            self.steps.push(Step::CreateReplicaSet(Box::new(fresh)));
            return;
        };
        if current.spec.as_ref().and_then(|s| s.replicas) != Some(desired) {
            self.steps.push(Step::Scale(Arc::clone(current), desired));
        }
        let mut total = Count::default();
        let mut updated = Count::default();
        for set in sets {
            let pods = pods
                .get(set.uid_str())
                .map(Vec::as_slice)
                .unwrap_or_default();
            let count = count(pods);
            total = Count {
                total: total.total + count.total,
                ready: total.ready + count.ready,
            };
            if set.metadata.name == current.metadata.name {
                updated = count;
                self.fill(set, pods, desired);
            }
            self.start(pods, (startup, now));
            let status = objects::replica_set_status(set, count);
            if set.status.as_ref() != Some(&status) {
                self.steps
                    .push(Step::ReplicaSetStatus(Arc::clone(set), Box::new(status)));
            }
        }
        if updated.ready >= desired {
            // The new pods serve: the old template has done its work.
            let old = sets
                .iter()
                .filter(|set| set.metadata.name != current.metadata.name);
            self.steps
                .extend(old.map(|set| Step::DeleteReplicaSet(set.key())));
        }
        let status = objects::deployment_status(deployment, total, updated, now);
        if deployment.status.as_ref() != Some(&status) {
            self.steps.push(Step::DeploymentStatus(Box::new(status)));
        }
    }

    /// Creates the pods that are missing and deletes those that are too many.
    fn fill(&mut self, set: &Arc<ReplicaSet>, pods: &[Arc<Pod>], desired: i32) {
        let wanted: BTreeSet<ObjectKey> = objects::pod_keys(&set.key(), desired).collect();
        let present: BTreeSet<ObjectKey> = pods.iter().map(|pod| pod.key()).collect();
        self.steps.extend(
            wanted
                .difference(&present)
                .map(|key| Step::CreatePod(Box::new(objects::pod(set, key)), Arc::clone(set))),
        );
        self.steps
            .extend(present.difference(&wanted).cloned().map(Step::DeletePod));
    }

    /// Lets the pods run whose start-up is over, and notes when the next one's will be.
    fn start(&mut self, pods: &[Arc<Pod>], (startup, now): (SignedDuration, Timestamp)) {
        let waiting = pods
            .iter()
            .filter(|pod| !objects::is_ready(pod) && !pod.is_being_deleted());
        for pod in waiting {
            let at = objects::started_at(pod, startup).unwrap_or(now);
            if at <= now {
                let status = Box::new(objects::running(pod, now));
                self.steps.push(Step::Run(Arc::clone(pod), status));
            } else {
                let wait = at.duration_since(now);
                self.look_again = Some(self.look_again.map_or(wait, |w| w.min(wait)));
            }
        }
    }
}

fn count(pods: &[Arc<Pod>]) -> Count {
    let size = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Count {
        total: size(pods.len()),
        ready: size(pods.iter().filter(|pod| objects::is_ready(pod)).count()),
    }
}

#[cfg(test)]
mod tests;
