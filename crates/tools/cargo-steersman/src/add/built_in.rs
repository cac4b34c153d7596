//! Machine: the kinds of Kubernetes, the Rust types of these kinds, and a valid object of each.

use serde_json::{Value, json};
use steersman_schema::builtin::built_in;
use steersman_schema::resource::Resource;

/// Example objects of the Kubernetes kinds that are not valid with a name alone.
const OBJECTS: &str = include_str!("../../templates/controller/objects.yaml");

/// Returns the Kubernetes kind with this group and version, written as in manifests: `apps/v1` or `v1`.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<Resource> {
    let mut all = kinds().into_iter();
    all.find(|known| known.kind == kind && known.api_version() == api_version)
}

/// Returns the Kubernetes kinds that a controller can watch.
pub(crate) fn kinds() -> Vec<Resource> {
    let mut resources = built_in();
    resources.retain(|one| one.verbs.contains(&"watch"));
    resources
}

/// Returns the path of the Rust module that has the type of a kind, such as `k8s_openapi::api::apps::v1`.
pub(crate) fn path(kind: &Resource) -> String {
    format!("k8s_openapi::{}::{}", module(&kind.group), kind.version)
}

/// Returns a valid object of a kind without a namespace.
pub(crate) fn object(kind: &Resource) -> Value {
    let (api_version, name) = (kind.api_version(), &kind.kind);
    let documents = OBJECTS.split("\n---\n");
    let mut objects = documents.filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
    let is_own = |object: &Value| object["kind"] == **name && object["apiVersion"] == *api_version;
    let own = objects.find(is_own);
    let mut object = own.unwrap_or_else(|| json!({"apiVersion": api_version, "kind": name}));
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = json!("example");
    }
    object
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
        // The command may use the network: packages of other platforms may be missing, which no build has downloaded.
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
            let module = path(&kind).replace("k8s_openapi::", "").replace("::", "/");
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
            // An object has the same name in all versions of its kind, and the server keeps one of them.
            let server = ApiServer::builder().storage_migrations(true).build();
            let mut object = object(&kind);
            if kind.namespaced {
                object["metadata"]["namespace"] = json!("default");
            }
            if let Err(status) = server.create(object) {
                problems.push(format!(
                    "{} {}: {}",
                    kind.api_version(),
                    kind.kind,
                    status.message
                ));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_kind_is_found_in_its_version() {
        let found = find("apps/v1", "Deployment").unwrap();
        assert_eq!(path(&found), "k8s_openapi::api::apps::v1");
        assert!(find("apps/v2", "Deployment").is_none());
        // The server offers no watch for Bindings.
        assert!(find("v1", "Binding").is_none());
    }
}
