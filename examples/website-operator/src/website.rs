//! Words: the `Website` kind in its versions, as its users write it and read it back.

use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use steersman::status_conditions::HasConditions;

pub use self::versions::v1::{Website, WebsiteSpec, WebsiteStatus};
pub use self::versions::{conversions, crd, v1, v1alpha1};

/// The fields of the newest version, with their history.
#[steersman::versioned(
    v1alpha1(
        deprecated = "web.example.com/v1alpha1 Website is deprecated; use web.example.com/v1"
    ),
    v1,
    tests = 10_000
)]
pub mod versions {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    use steersman::{CustomResource, KubeSchema};

    /// A site to serve: pages from a ConfigMap, by a number of web servers.
    #[derive(CustomResource, Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(clippy::duplicated_attributes, reason = "columns may share a type")]
    #[kube(
        group = "web.example.com",
        kind = "Website",
        plural = "websites",
        shortname = "site",
        category = "all",
        namespaced,
        status = "WebsiteStatus",
        printcolumn(name = "Image", type_ = "string", json_path = ".spec.image")
    )]
    #[versioned(only(
        v1alpha1,
        kube(
            scale(
                spec_replicas_path = ".spec.servers",
                status_replicas_path = ".status.readyReplicas"
            ),
            printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.servers")
        )
    ))]
    #[versioned(only(
        v1,
        kube(
            scale(
                spec_replicas_path = ".spec.replicas",
                status_replicas_path = ".status.readyReplicas"
            ),
            printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas")
        )
    ))]
    #[kube(
        printcolumn(name = "Up", type_ = "integer", json_path = ".status.readyReplicas"),
        printcolumn(
            name = "Ready",
            type_ = "string",
            json_path = ".status.conditions[?(@.type==\"Ready\")].status"
        ),
        printcolumn(
            name = "Age",
            type_ = "date",
            json_path = ".metadata.creationTimestamp"
        )
    )]
    pub struct WebsiteSpec {
        /// The web server's image; it serves `/usr/share/nginx/html` on port 80.
        #[serde(default = "default_image")]
        pub image: String,
        /// How many web servers run.
        #[versioned(renamed(v1, from = servers))]
        #[serde(default = "default_replicas")]
        #[schemars(range(min = 0, max = 100))]
        pub replicas: i32,
        /// The ConfigMap, in the same namespace, with the pages by file name.
        pub pages: String,
        /// The name under which users reach the site, such as `www.example.com`.
        #[versioned(added(v1))]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[x_kube(validation = ("!self.contains('/')", "a host is a name without a scheme and a path"))]
        #[schemars(length(max = 253))]
        pub host: Option<String>,
    }

    /// What the operator last saw of a Website.
    #[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub struct WebsiteStatus {
        /// The generation of the spec that this status describes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub observed_generation: Option<i64>,
        /// How many web servers are ready.
        #[serde(default)]
        pub ready_replicas: i32,
        /// `Ready` is true once as many web servers as asked for serve the present pages.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub conditions: Vec<Condition>,
    }

    fn default_image() -> String {
        "nginx:1.29".to_owned()
    }

    fn default_replicas() -> i32 {
        1
    }
}

/// The finalizer of every [`Website`], until the operator has removed the site from the directory.
pub const FINALIZER: &str = "web.example.com/directory";

impl HasConditions for Website {
    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}
