//! Driver: plays a cluster's own controllers: Deployments get ReplicaSets, those get Pods, Pods run.
//!
//! Real clusters need none of it. On a server that has no controller-manager and no nodes, such as
//! the embedded one, it is what makes a Deployment's status move. It stands in one manager with the
//! website controller, and both share one watch of Deployments.

use std::time::Duration;

use jiff::SignedDuration;
use steersman::api::DeleteOptions;
use steersman::cache::ListOptions;
use steersman::client::owner;
use steersman::k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use steersman::k8s_openapi::api::core::v1::Pod;
use steersman::object::Object as _;
use steersman::{
    Action, Client, Context, Error, Manager, ObjectKey, Reconciler, Request, handler, predicate,
};

mod objects;
mod plan;

use plan::{Step, World, plan};

/// The index of ReplicaSets and Pods by the Deployment they belong to.
const BY_DEPLOYMENT: &str = "deployment";

/// Brings Deployments to life.
#[derive(Debug)]
pub struct Workloads {
    startup: SignedDuration,
}

/// Declares the controller. Its pods take `startup` to become ready.
///
/// # Errors
///
/// When the manager's cache cannot hold one of the kinds, or has a controller of this name.
pub fn declare(manager: &Manager, startup: Duration) -> Result<(), steersman::manager::Error> {
    let cache = manager.cache();
    cache.index_field::<ReplicaSet>(BY_DEPLOYMENT, |set| objects::deployment_of(&set.metadata))?;
    cache.index_field::<Pod>(BY_DEPLOYMENT, |pod| objects::deployment_of(&pod.metadata))?;
    let deployment_of_pod = |pod: &Pod| -> Option<ObjectKey> {
        Some(pod.key().sibling(objects::deployment_of(&pod.metadata)?))
    };
    manager
        .controller::<Deployment>()
        .name("workloads")
        .for_filter(predicate::generation_changed())
        .owns::<ReplicaSet>()
        .watches::<Pod>(handler::mapped(deployment_of_pod))
        .run(Workloads {
            startup: SignedDuration::try_from(startup).unwrap_or(SignedDuration::MAX),
        })
}

// ===== impl Workloads =====

impl Reconciler for Workloads {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let (client, key) = (ctx.client(), &request.key);
        let deployment = client.get_opt::<Deployment>(key).await?;
        let mut theirs = ListOptions::new().index(BY_DEPLOYMENT, key.name());
        if let Some(namespace) = key.namespace() {
            theirs = theirs.namespace(namespace);
        }
        let replica_sets = client.list::<ReplicaSet>(&theirs).await?;
        let pods = client.list::<Pod>(&theirs).await?;
        let world = World {
            deployment: deployment.as_deref(),
            replica_sets: &replica_sets,
            pods: &pods,
        };
        let plan = plan(&world, self.startup, ctx.now());
        for step in plan.steps {
            match take(client, deployment.as_deref(), step).await {
                // The view was a moment old; the event that is on its way leads here again.
                Err(StepError::Client(error))
                    if error.is_not_found() || error.is_already_exists() => {}
                other => other?,
            }
        }
        Ok(match plan.look_again {
            Some(wait) => Action::requeue_after(wait.unsigned_abs()),
            None => Action::done(),
        })
    }
}

#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Client(#[from] steersman::client::Error),
    #[error(transparent)]
    Owner(#[from] steersman::object::owner::OwnerError),
}

async fn take(
    client: &Client,
    deployment: Option<&Deployment>,
    step: Step,
) -> Result<(), StepError> {
    match step {
        Step::CreateReplicaSet(set) => {
            if let Some(deployment) = deployment {
                let key = set.key();
                // One that a former Deployment left behind is taken over: its template is the same.
                match client.get_opt::<ReplicaSet>(&key).await? {
                    Some(orphan) if owner::controller_of(&orphan.metadata).is_none() => {
                        let mut adopted = ReplicaSet::clone(&orphan);
                        owner::set_controller_reference(deployment, &mut adopted)?;
                        client.update(&adopted).await?;
                    }
                    _ => {
                        client.ensure_owned(deployment, *set, |_| {}).await?;
                    }
                }
            }
        }
        Step::Scale(set, replicas) => {
            let scale = |set: &mut ReplicaSet| {
                set.spec.get_or_insert_default().replicas = Some(replicas);
            };
            client.modify(&*set, scale).await?;
        }
        Step::DeleteReplicaSet(key) => client.delete_key::<ReplicaSet>(&key).await?,
        Step::CreatePod(mut pod, set) => {
            owner::set_controller_reference(&*set, &mut *pod)?;
            client.create(&*pod).await?;
        }
        Step::DeletePod(key) => {
            // No kubelet is there that could let it end in grace.
            let at_once = DeleteOptions::new().grace_period(Duration::ZERO);
            client.delete_with::<Pod>(&key, &at_once).await?;
        }
        Step::Run(pod, status) => {
            let status = *status;
            client
                .status()
                .patch(&*pod, |p| p.status = Some(status.clone()))
                .await?;
        }
        Step::ReplicaSetStatus(set, status) => {
            let status = *status;
            client
                .status()
                .patch(&*set, |s| s.status = Some(status.clone()))
                .await?;
        }
        Step::DeploymentStatus(status) => {
            if let Some(deployment) = deployment {
                let status = *status;
                let report = |d: &mut Deployment| d.status = Some(status.clone());
                client.status().patch(deployment, report).await?;
            }
        }
    }
    Ok(())
}
