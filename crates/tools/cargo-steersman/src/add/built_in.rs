//! Machine: the kinds of Kubernetes, their types in Rust, and a valid object of each.

use serde_json::{Value, json};
use steersman_schema::builtin::built_in;
use steersman_schema::resource::Resource;

/// A kind of Kubernetes that a controller can watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuiltInKind {
    pub(crate) kind: String,
    /// Group and version, such as `apps/v1`.
    pub(crate) api_version: String,
    /// The path of the module of its type, such as `k8s_openapi::api::apps::v1`.
    pub(crate) path: String,
    pub(crate) is_namespaced: bool,
}

/// Objects of the kinds that need more than a name.
const OBJECTS: &str = include_str!("../../templates/controller/objects.yaml");

/// Returns a kind by its group and version as manifests write them, such as `apps/v1` or `v1`.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<BuiltInKind> {
    let mut all = kinds().into_iter();
    all.find(|known| known.kind == kind && known.api_version == api_version)
}

pub(crate) fn kinds() -> Vec<BuiltInKind> {
    let resources = built_in();
    let watched = resources.iter().filter(|one| one.verbs.contains(&"watch"));
    watched.map(BuiltInKind::of).collect()
}

impl BuiltInKind {
    fn of(resource: &Resource) -> Self {
        let (group, version) = (&*resource.group, &*resource.version);
        Self {
            kind: resource.kind.clone(),
            api_version: match group {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            },
            path: format!("k8s_openapi::{}::{version}", module(group)),
            is_namespaced: resource.namespaced,
        }
    }

    /// Returns a valid object without a namespace.
    pub(crate) fn object(&self) -> Value {
        let documents = OBJECTS.split("\n---\n");
        let mut objects = documents.filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
        let own = objects.find(|object| {
            object["kind"] == *self.kind && object["apiVersion"] == *self.api_version
        });
        let mut object =
            own.unwrap_or_else(|| json!({"apiVersion": self.api_version, "kind": self.kind}));
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!("example");
        }
        object
    }
}

/// Returns the module of a group below `k8s_openapi`, which is named after the Go package of the group.
fn module(group: &str) -> String {
    match group {
        "" => "api::core".to_owned(),
        "apiextensions.k8s.io" => "apiextensions_apiserver::pkg::apis::apiextensions".to_owned(),
        "apiregistration.k8s.io" => "kube_aggregator::pkg::apis::apiregistration".to_owned(),
        group => format!("api::{}", group.split('.').next().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use steersman_testenv::apiserver::ApiServer;

    use super::*;
    use crate::project::cargo;

    /// Returns the folder of the sources of `k8s-openapi` in the version of this crate.
    fn sources() -> PathBuf {
        // Not offline: packages of other platforms may be missing, which the build does not need.
        let output = Command::new(cargo())
            .args(["metadata", "--locked", "--format-version", "1"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let mut found = packages
            .iter()
            .filter(|package| package["name"] == "k8s-openapi");
        let manifest = found.next().unwrap()["manifest_path"].as_str().unwrap();
        PathBuf::from(manifest).with_file_name("src").join("v1_36")
    }

    #[test]
    fn each_kind_has_a_type() {
        let sources = sources();
        for kind in kinds() {
            let module = kind.path.replace("k8s_openapi::", "").replace("::", "/");
            let path = sources.join(module).join("mod.rs");
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let is_exported = text.contains(&format!("::{};", kind.kind));
            assert!(is_exported, "{kind:?}: {}", path.display());
        }
    }

    #[test]
    fn an_api_server_accepts_the_object_of_each_kind() {
        let mut problems = Vec::new();
        for kind in kinds() {
            // Versions of one kind have objects of one name.
            let server = ApiServer::builder().storage_migrations(true).build();
            let mut object = kind.object();
            if kind.is_namespaced {
                object["metadata"]["namespace"] = json!("default");
            }
            if let Err(status) = server.create(object) {
                problems.push(format!(
                    "{} {}: {}",
                    kind.api_version, kind.kind, status.message
                ));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_kind_is_found_in_its_version() {
        let found = find("apps/v1", "Deployment").unwrap();
        assert_eq!(found.path, "k8s_openapi::api::apps::v1");
        assert_eq!(find("apps/v2", "Deployment"), None);
        // A Binding cannot be watched.
        assert_eq!(find("v1", "Binding"), None);
    }
}
