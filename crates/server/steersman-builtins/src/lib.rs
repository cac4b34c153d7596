//! Rules of the built-in kinds of Kubernetes: defaults, fields that the server sets, validation and
//! warnings, one table row per kind. The modules beside the table convert objects between versions
//! ([`events`], [`autoscaling`]), turn definitions into kinds ([`crd`]) and check their objects ([`custom`]).
//!
//! ```
//! use serde_json::json;
//! use steersman_schema::builtin::built_in;
//!
//! let resources = built_in();
//! let maps = resources.iter().find(|one| one.is("", "ConfigMap")).expect("the kind is built in");
//! let strategy = steersman_builtins::of(maps).expect("the kind has rules");
//! let object = json!({"metadata": {"name": "a"}, "data": {"not a key": "value"}});
//! let errors = steersman_builtins::validate(strategy, &object, None);
//! assert_eq!(errors[0].field, "data[not a key]");
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.
//!
//! # Reading order
//!
//! - `fields` has the checks that many kinds share; `fields::go_value` prints the values in refusals as Go prints its
//!   internal types.
//! - `quota` has LimitRanges and ResourceQuotas.
//! - Each folder is a family of kinds: `networking`, `storage`, `pod`, `workloads`, `cluster`, `access`, `admission`
//!   and `devices`.
//! - `cluster` and `workloads` also convert objects between versions ([`events`], [`autoscaling`]), and `access` reads
//!   certificate signing requests ([`signing_request`]).
//! - [`crd`] turns CRDs into kinds, and [`custom`] checks custom resources against their schemas.
//! - [`defaults`] fills in defaults, and brings objects into their stored form.
//! - The table of all kinds is in this file ([`of`]).

mod fields;
mod quota;
mod networking;
mod storage;
mod pod;
mod workloads;
mod cluster;
mod access;
mod admission;
mod devices;
pub mod custom;
pub mod crd;
pub mod defaults;

use access::{certificates, flow};
use fields::{FieldPath, Findings};
use serde_json::Value;
use steersman_apimachinery::status::FieldError;
use steersman_schema::resource::Resource;

pub use access::signing_request;
pub use cluster::events;
pub use fields::selector::selects;
pub use networking::service;
pub use quota::COMPUTE;
pub use workloads::autoscaling;

const ADMISSION: &str = "admissionregistration.k8s.io";

/// The rules of one kind, in addition to the rules of all objects (upstream: `rest.RESTCreateStrategy` and its
/// siblings). Metadata is checked elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Strategy {
    /// Fills in the fields that a client left out (upstream: `pkg/apis/*/v1/defaults.go`).
    pub defaults: fn(&mut Value),
    /// Sets and drops the fields that a client may not decide, before validation (upstream: the
    /// strategy's `PrepareForCreate` without an old object, and `PrepareForUpdate` with one). The
    /// caller has kept or dropped the status already.
    pub prepare: fn(&mut Value, Option<&Value>),
    /// Sets and drops fields in a write to the status subresource, before validation.
    pub prepare_status: fn(&mut Value, &Value),
    /// Sets the fields that a write to the status sets to the current time, without making the writer their owner.
    pub finish_status: Option<FinishStatus>,
    /// Checks a new object, or an update through the main resource if there is an old object.
    validate: fn(&FieldPath<'_>, Option<&Value>),
    /// Checks a write to the status subresource.
    validate_status: fn(&FieldPath<'_>, &Value),
    /// Warns the author of a new object, or of an update of an old one.
    warn: fn(&FieldPath<'_>, Option<&Value>),
    /// Warns the author of a status.
    warn_of_status: fn(&FieldPath<'_>),
}

/// Changes the new status of an object. Gets the new and the old object, and the time.
pub type FinishStatus = fn(&mut Value, &Value, &str);

impl Strategy {
    /// The strategy of a kind that has no rules of its own.
    const PLAIN: Self = Self {
        defaults: |_| {},
        prepare: |_, _| {},
        prepare_status: |_, _| {},
        finish_status: None,
        validate: |_, _| {},
        validate_status: |_, _| {},
        warn: |_, _| {},
        warn_of_status: |_| {},
    };
}

/// Returns the strategy of a built-in kind, if the table has a row for the kind.
pub fn of(resource: &Resource) -> Option<&'static Strategy> {
    if !resource.built_in {
        return None;
    }
    Some(match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "ConfigMap") => &cluster::config::CONFIG_MAP,
        ("", "Secret") => &cluster::config::SECRET,
        ("", "ServiceAccount") => &cluster::config::SERVICE_ACCOUNT,
        ("", "Namespace") => &cluster::NAMESPACE,
        ("", "Node") => &cluster::NODE,
        ("", "Service") => &service::SERVICE,
        ("", "Endpoints") => &networking::endpoints::ENDPOINTS,
        ("discovery.k8s.io", "EndpointSlice") => &networking::endpoints::ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => &networking::ingress::INGRESS,
        ("networking.k8s.io", "IngressClass") => &networking::ingress::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => &networking::network::NETWORK_POLICY,
        ("networking.k8s.io", "ServiceCIDR") => &networking::network::SERVICE_CIDR,
        ("networking.k8s.io", "IPAddress") => &networking::network::IP_ADDRESS,
        ("", "PersistentVolume") => &storage::volume::VOLUME,
        ("", "PersistentVolumeClaim") => &storage::claim::CLAIM,
        ("", "LimitRange") => &quota::LIMIT_RANGE,
        ("", "ResourceQuota") => &quota::RESOURCE_QUOTA,
        ("policy", "PodDisruptionBudget") => &workloads::budget::DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "Role") => &access::rbac::ROLE,
        ("rbac.authorization.k8s.io", "ClusterRole") => &access::rbac::CLUSTER_ROLE,
        ("rbac.authorization.k8s.io", "RoleBinding") => &access::rbac::ROLE_BINDING,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &access::rbac::CLUSTER_ROLE_BINDING,
        ("scheduling.k8s.io", "PriorityClass") => &cluster::scheduling::PRIORITY_CLASS,
        ("node.k8s.io", "RuntimeClass") => &cluster::scheduling::RUNTIME_CLASS,
        ("coordination.k8s.io", "Lease") => &cluster::scheduling::LEASE,
        ("", "Pod") => &pod::POD,
        ("", "PodTemplate") => &pod::POD_TEMPLATE,
        ("", "ReplicationController") => &workloads::REPLICATION_CONTROLLER,
        ("apps", "Deployment") => &workloads::DEPLOYMENT,
        ("apps", "ControllerRevision") => &workloads::CONTROLLER_REVISION,
        ("apps", "ReplicaSet") => &workloads::REPLICA_SET,
        ("apps", "StatefulSet") => &workloads::STATEFUL_SET,
        ("apps", "DaemonSet") => &workloads::DAEMON_SET,
        ("batch", "Job") => &workloads::batch::JOB,
        ("batch", "CronJob") => &workloads::batch::CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") => &workloads::autoscaler::AUTOSCALER,
        ("storage.k8s.io", "StorageClass") => &storage::STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::ATTRIBUTES_CLASS,
        ("storage.k8s.io", "CSIDriver") => &storage::DRIVER,
        ("storage.k8s.io", "CSINode") => &storage::CSI_NODE,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::CAPACITY,
        ("storage.k8s.io", "VolumeAttachment") => &storage::ATTACHMENT,
        (ADMISSION, "MutatingWebhookConfiguration") => &admission::webhooks::MUTATING,
        (ADMISSION, "ValidatingWebhookConfiguration") => &admission::webhooks::VALIDATING,
        (ADMISSION, "ValidatingAdmissionPolicy") => &admission::policies::VALIDATING_POLICY,
        (ADMISSION, "ValidatingAdmissionPolicyBinding") => &admission::policies::VALIDATING_BINDING,
        (ADMISSION, "MutatingAdmissionPolicy") => &admission::policies::MUTATING_POLICY,
        (ADMISSION, "MutatingAdmissionPolicyBinding") => &admission::policies::MUTATING_BINDING,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &flow::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => &flow::PRIORITY_LEVEL,
        ("certificates.k8s.io", "CertificateSigningRequest") => &certificates::SIGNING_REQUEST,
        ("apiregistration.k8s.io", "APIService") => &certificates::API_SERVICE,
        ("resource.k8s.io", "DeviceClass") => &devices::DEVICE_CLASS,
        ("resource.k8s.io", "ResourceClaim") => &devices::RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => &devices::CLAIM_TEMPLATE,
        ("resource.k8s.io", "ResourceSlice") => &devices::RESOURCE_SLICE,
        ("storagemigration.k8s.io", "StorageVersionMigration") => &cluster::migrations::MIGRATION,
        _ => return None,
    })
}

/// Checks a new object, or an update of `old`.
#[must_use]
pub fn validate(strategy: &Strategy, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    Findings::errors(object, |root| (strategy.validate)(root, old))
}

/// Checks a write to the status subresource.
#[must_use]
pub fn validate_status(strategy: &Strategy, object: &Value, old: &Value) -> Vec<FieldError> {
    Findings::errors(object, |root| (strategy.validate_status)(root, old))
}

/// Checks a write to a Pod's ephemeral containers.
#[must_use]
pub fn validate_ephemeral(object: &Value, old: &Value) -> Vec<FieldError> {
    Findings::errors(object, |root| pod::check_ephemeral(root, old))
}

/// Checks an approval of a CertificateSigningRequest.
#[must_use]
pub fn validate_approval(object: &Value, old: &Value) -> Vec<FieldError> {
    Findings::errors(object, |root| certificates::check_approval(root, old))
}

/// Checks a resize of a Pod.
#[must_use]
pub fn validate_resize(object: &Value, old: &Value) -> Vec<FieldError> {
    Findings::errors(object, |root| pod::check_resize(root, old))
}

/// Returns the warnings for the author of a new object, or of an update of `old`.
#[must_use]
pub fn warnings(strategy: &Strategy, object: &Value, old: Option<&Value>) -> Vec<String> {
    Findings::warnings(object, |root| (strategy.warn)(root, old))
}

/// Returns the warnings for the author of a status.
#[must_use]
pub fn status_warnings(strategy: &Strategy, object: &Value) -> Vec<String> {
    Findings::warnings(object, |root| (strategy.warn_of_status)(root))
}

#[cfg(test)]
mod tests;
