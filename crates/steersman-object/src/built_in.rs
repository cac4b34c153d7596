//! Words: the types of `k8s-openapi` that every object in Kubernetes' protobuf decodes as.

use std::any::TypeId;

/// Calls a macro with the types that [`decodes_all_protobuf`] knows: the watchable kinds of all versions of Kubernetes
/// that `k8s-openapi` supports.
#[macro_export]
macro_rules! each_built_in_type {
    ($with:ident) => {
        $with! {
            admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
            apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
            autoscaling::v1::{HorizontalPodAutoscaler},
            autoscaling::v2::{HorizontalPodAutoscaler},
            batch::v1::{CronJob, Job},
            certificates::v1::{CertificateSigningRequest},
            coordination::v1::{Lease},
            core::v1::{
                ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
                PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount
            },
            discovery::v1::{EndpointSlice},
            events::v1::{Event},
            flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration},
            networking::v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR},
            node::v1::{RuntimeClass},
            policy::v1::{PodDisruptionBudget},
            rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
            scheduling::v1::{PriorityClass},
            storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment},
        }
    };
}

/// Returns whether every object that arrives in Kubernetes' protobuf as the kind of a type decodes as this type. A
/// test of `steersman-api` shows it for each of them.
///
/// Protobuf fixes the type of each field, as far as no JSON is embedded. So such an object needs no check before a
/// program reads it.
#[must_use]
pub fn decodes_all_protobuf(of: TypeId) -> bool {
    macro_rules! is_one_of {
        ($($group:ident::$version:ident::{$($kind:ident),+ $(,)?}),+ $(,)?) => {
            [$($(TypeId::of::<k8s_openapi::api::$group::$version::$kind>()),+),+].contains(&of)
        };
    }
    each_built_in_type!(is_one_of)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube_core::{DynamicObject, PartialObjectMeta};

    use super::*;

    #[test]
    fn only_types_of_kubernetes_are_known() {
        assert!(decodes_all_protobuf(TypeId::of::<Pod>()));
        assert!(!decodes_all_protobuf(TypeId::of::<DynamicObject>()));
        assert!(!decodes_all_protobuf(TypeId::of::<PartialObjectMeta<Pod>>()));
    }
}
