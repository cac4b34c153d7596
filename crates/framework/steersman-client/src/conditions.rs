//! Words: the conditions that programs wait for most: the same as in `kube_runtime::wait::conditions`.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman_object::Object;

use crate::condition::Condition;

/// Returns the condition that the object with this uid does not exist: its name belongs to no object, or to an object
/// with another uid. An empty uid stands for every object of the name.
pub fn is_deleted<K: Object>(uid: &str) -> impl Condition<K> + use<K> {
    let uid = uid.to_owned();
    let is_deleted = move |object: Option<&K>| match object {
        None => true,
        Some(object) => !uid.is_empty() && object.uid_str() != uid,
    };
    is_deleted.named("is deleted")
}

/// Returns the condition that a CustomResourceDefinition has the condition `Established`: the server serves its kind.
pub fn is_crd_established() -> impl Condition<CustomResourceDefinition> {
    let is_established = |crd: Option<&CustomResourceDefinition>| {
        let status = crd.and_then(|crd| crd.status.as_ref());
        let mut conditions = status
            .into_iter()
            .flat_map(|s| s.conditions.iter().flatten());
        conditions.any(|c| c.type_ == "Established" && c.status == "True")
    };
    is_established.named("is established")
}

/// Returns the condition that a Pod has the phase `Running`. A Pod that has ended does not meet the condition.
pub fn is_pod_running() -> impl Condition<Pod> {
    let is_running = |pod: Option<&Pod>| {
        let status = pod.and_then(|pod| pod.status.as_ref());
        status.is_some_and(|status| status.phase.as_deref() == Some("Running"))
    };
    is_running.named("is running")
}

/// Returns the condition that a Job has the condition `Complete`. A Job that has failed does not meet the condition.
pub fn is_job_completed() -> impl Condition<Job> {
    let is_completed = |job: Option<&Job>| {
        let status = job.and_then(|job| job.status.as_ref());
        let mut conditions = status
            .into_iter()
            .flat_map(|s| s.conditions.iter().flatten());
        conditions.any(|c| c.type_ == "Complete" && c.status == "True")
    };
    is_completed.named("is complete")
}

/// Returns the condition that the rollout of a Deployment's current generation has ended, by the rule of `kubectl
/// rollout status`: all replicas have the newest template and are available, and no replica has an earlier template.
pub fn is_deployment_completed() -> impl Condition<Deployment> {
    let is_completed = |deployment: Option<&Deployment>| {
        let Some(deployment) = deployment else {
            return false;
        };
        let spec: Option<&DeploymentSpec> = present(&deployment.spec);
        let (Some(spec), Some(status)) = (spec, &deployment.status) else {
            return false;
        };
        let updated = status.updated_replicas.unwrap_or(0);
        status.observed_generation >= deployment.metadata.generation
            && updated >= spec.replicas.unwrap_or(1)
            && status.replicas.unwrap_or(0) <= updated
            && status.available_replicas.unwrap_or(0) >= updated
    };
    is_completed.named("is rolled out")
}

/// Returns a field that is an `Option` in the types of some versions of the Kubernetes API and a plain field in others:
/// the `spec` of a Deployment is required from 1.37 on.
fn present<'a, T>(field: impl Into<Option<&'a T>>) -> Option<&'a T> {
    field.into()
}
