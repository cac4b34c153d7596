//! Words: the `k8s-openapi` types that can decode every protobuf object of their kind.

use std::any::TypeId;

use crate::kind::Gvk;

/// Calls a macro with the types that [`decodes_all_protobuf`] knows: the watchable kinds in all Kubernetes versions
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

/// Returns whether a type decodes every protobuf object of a kind, which holds for the kind's type in `k8s-openapi`. A
/// test in `steersman-api` checks each such type.
///
/// Protobuf fixes the type of each field that has no embedded JSON, so an object needs no check before a program reads
/// it.
pub fn decodes_all_protobuf(of: TypeId, gvk: &Gvk) -> bool {
    fn is<K: k8s_openapi::Resource>(gvk: &Gvk) -> bool {
        (gvk.group(), gvk.version(), gvk.kind()) == (K::GROUP, K::VERSION, K::KIND)
    }
    macro_rules! is_one_of {
        ($($group:ident::$version:ident::{$($kind:ident),+ $(,)?}),+ $(,)?) => {
            $($(
                (of == TypeId::of::<k8s_openapi::api::$group::$version::$kind>()
                    && is::<k8s_openapi::api::$group::$version::$kind>(gvk))
            )||+)||+
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
        let pods = Gvk::new("", "v1", "Pod");
        assert!(decodes_all_protobuf(TypeId::of::<Pod>(), &pods));
        assert!(!decodes_all_protobuf(TypeId::of::<DynamicObject>(), &pods));
        assert!(!decodes_all_protobuf(
            TypeId::of::<PartialObjectMeta<Pod>>(),
            &pods
        ));
        // A view may read a kind as the type of another kind, and then no object decodes.
        let maps = Gvk::new("", "v1", "ConfigMap");
        assert!(!decodes_all_protobuf(TypeId::of::<Pod>(), &maps));
    }
}
