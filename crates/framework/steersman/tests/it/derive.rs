//! A custom resource in a module that imports no other crate.

use steersman::kube_core::CustomResourceExt as _;
use steersman::schemars::JsonSchema;
use steersman::serde::{Deserialize, Serialize};
use steersman::{CustomResource, Kind, serde_json};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[serde(crate = "steersman::serde")]
#[schemars(crate = "steersman::schemars")]
#[kube(group = "web.example.com", version = "v1", kind = "Site", namespaced)]
struct SiteSpec {
    image: String,
}

#[test]
fn a_resource_is_derived_through_the_facade_alone() {
    let site = Site::new(
        "home",
        SiteSpec {
            image: "nginx".to_owned(),
        },
    );
    let json = serde_json::to_value(&site).unwrap();
    assert_eq!(json["spec"]["image"], "nginx");
    assert_eq!(
        Kind::of::<Site>().qualified_plural(),
        "sites.web.example.com"
    );
    assert_eq!(
        Site::crd().metadata.name.as_deref(),
        Some("sites.web.example.com")
    );
}
