//! Machine: what to do next so that a Deployment's pods are as its spec says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use steersman::ObjectKey;
use steersman::k8s_openapi::api::apps::v1::{
    Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};
use steersman::k8s_openapi::api::core::v1::{Pod, PodStatus};
use steersman::object::Object as _;
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
    /// Delete a ReplicaSet whose Deployment is gone or has moved on.
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
    let uid = world.deployment.map(|d| d.uid_str()).unwrap_or_default();
    let (sets, orphans): (Vec<_>, Vec<_>) = world.replica_sets.iter().partition(|set| {
        owner::controller_of(&set.metadata).is_some_and(|o| o.uid == uid) && !uid.is_empty()
    });
    plan.steps.extend(
        orphans
            .into_iter()
            .map(|set| Step::DeleteReplicaSet(set.key())),
    );
    let pods = plan.delete_orphaned_pods(&sets, world.pods);
    if let Some(deployment) = world.deployment.filter(|d| !d.is_being_deleted()) {
        plan.run(deployment, &sets, &pods, (startup, now));
    }
    plan
}

type PodsBySet = BTreeMap<String, Vec<Arc<Pod>>>;

impl Plan {
    /// Sorts the pods by the uid of their ReplicaSet, and has those deleted that have none.
    fn delete_orphaned_pods(&mut self, sets: &[&Arc<ReplicaSet>], pods: &[Arc<Pod>]) -> PodsBySet {
        let mut by_set: PodsBySet = sets
            .iter()
            .map(|set| (set.uid_str().to_owned(), Vec::new()))
            .collect();
        for pod in pods {
            let set = owner::controller_of(&pod.metadata).map(|o| o.uid.as_str());
            match set.and_then(|uid| by_set.get_mut(uid)) {
                Some(pods) => pods.push(Arc::clone(pod)),
                None => self.steps.push(Step::DeletePod(pod.key())),
            }
        }
        by_set
    }

    fn run(
        &mut self,
        deployment: &Deployment,
        sets: &[&Arc<ReplicaSet>],
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
