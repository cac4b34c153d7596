//! A custom kind with conditions in its status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman_api::kube_client::core::CustomResourceExt as _;
use steersman_object::status_conditions::HasConditions;

use crate::world::World;

#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced)]
#[kube(
    status = "SiteStatus",
    crates(kube_core = "::steersman_api::kube_client::core")
)]
pub(crate) struct SiteSpec {
    #[serde(default)]
    pub(crate) suspend: bool,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct SiteStatus {
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

impl HasConditions for Site {
    fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

impl World {
    /// Makes a world with the kind Site, where controllers have the clock of the server.
    pub(crate) fn with_sites() -> Self {
        let mut world = Self::new();
        let crd = serde_json::to_value(Site::crd()).unwrap();
        world.server.install_crd(crd).unwrap();
        let server = world.server.clone();
        world.clock = Some(std::sync::Arc::new(move || server.now()));
        world
    }

    /// Creates a Site with these finalizers.
    pub(crate) fn site(&self, name: &str, finalizers: &[&str]) -> Value {
        let site = json!({
            "apiVersion": "example.com/v1", "kind": "Site",
            "metadata": {"name": name, "namespace": "default", "finalizers": finalizers},
            "spec": {"suspend": false},
        });
        self.server.create(site).unwrap()
    }

    pub(crate) fn change_site(&self, name: &str, patch: &Value) {
        self.server
            .merge_patch("sites.example.com", "default", name, patch)
            .unwrap();
    }

    /// Returns the conditions of a Site as `type=status reason: message`, in the order of their types.
    pub(crate) fn conditions(&self, name: &str) -> Vec<String> {
        let site = self.server.get("sites.example.com", "default", name);
        let site: Site = serde_json::from_value(site.unwrap()).unwrap();
        let shown = site.conditions().iter().map(|one| {
            format!(
                "{}={} {}: {}",
                one.type_, one.status, one.reason, one.message
            )
        });
        let mut shown: Vec<String> = shown.collect();
        shown.sort();
        shown
    }
}
