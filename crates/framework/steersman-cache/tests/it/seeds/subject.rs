//! The cached kinds and the content of their objects.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_object::TypedObject;

use super::plan::Of;

pub(super) const WEBSITES: &str = "websites.web.example.com";
/// The label of each object, and the name of its index.
pub(super) const LABEL: &str = "v";
/// The index of properties of the value.
pub(super) const HAS_VALUE: &str = "value";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "web.example.com",
    version = "v1",
    kind = "Website",
    namespaced
)]
#[kube(crates(kube_core = "::kube_core"))]
pub(super) struct WebsiteSpec {
    value: String,
}

/// A kind of objects that have a value in their body.
pub(super) trait Subject: TypedObject {
    const RESOURCE: &'static str;

    fn value(&self) -> Option<&str>;

    /// Returns the index values of an object; the index of the label has no function.
    fn values(&self) -> Vec<String> {
        let Some(value) = self.value() else {
            return Vec::new();
        };
        let even = value
            .parse::<u64>()
            .is_ok_and(|value| value.is_multiple_of(2));
        vec![
            "any".to_owned(),
            if even { "even" } else { "odd" }.to_owned(),
        ]
    }
}

impl Subject for ConfigMap {
    const RESOURCE: &'static str = "configmaps";

    fn value(&self) -> Option<&str> {
        self.data.as_ref()?.get("value").map(String::as_str)
    }
}

impl Subject for Website {
    const RESOURCE: &'static str = WEBSITES;

    fn value(&self) -> Option<&str> {
        Some(&self.spec.value)
    }
}

impl Subject for ServiceAccount {
    const RESOURCE: &'static str = "serviceaccounts";

    fn value(&self) -> Option<&str> {
        Some(&self.image_pull_secrets.as_ref()?.first()?.name)
    }
}

impl Subject for ClusterRole {
    const RESOURCE: &'static str = "clusterroles.rbac.authorization.k8s.io";

    fn value(&self) -> Option<&str> {
        let rule = self.rules.as_ref()?.first()?;
        rule.resources.as_ref()?.first().map(String::as_str)
    }
}

impl Of {
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Maps => ConfigMap::RESOURCE,
            Self::Websites => Website::RESOURCE,
            Self::Accounts => ServiceAccount::RESOURCE,
            Self::Roles => ClusterRole::RESOURCE,
        }
    }

    /// Returns an object with this value.
    pub(super) fn object(self, value: &Value) -> Value {
        match self {
            Self::Maps => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value},
            }),
            Self::Websites => json!({
                "apiVersion": "web.example.com/v1", "kind": "Website", "spec": {"value": value},
            }),
            Self::Accounts => json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "imagePullSecrets": [{"name": value}],
            }),
            Self::Roles => json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "rules": [{"apiGroups": [""], "resources": [value], "verbs": ["get"]}],
            }),
        }
    }
}

/// Returns the value in an object of the server; `None` if the Rust type cannot decode it.
pub(super) fn value_in(object: &Value) -> Option<&str> {
    let paths = [
        "/data/value", "/spec/value", "/imagePullSecrets/0/name", "/rules/0/resources/0",
    ];
    paths.iter().find_map(|path| object.pointer(path)?.as_str())
}

/// Installs a definition that accepts any value; `served` says whether its first version is served.
pub(super) fn install(server: &ApiServer, served: bool) {
    let mut definition = serde_json::to_value(Website::crd()).unwrap();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    definition["spec"]["versions"] = json!([
        {"name": "v1", "served": served, "storage": true, "schema": {"openAPIV3Schema": anything}},
        {"name": "v2", "served": true, "storage": false, "schema": {"openAPIV3Schema": anything}},
    ]);
    server.install_crd(definition).unwrap();
}
