//! Driver: reads CustomResourceDefinitions from files, and installs them until they are served.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use steersman_apiserver::manifests;

use crate::assert::eventually_within;
use crate::error::Error;
use crate::rest::{self, Rest};

/// The time limit until a definition is served, as in envtest.
const SERVED: Duration = Duration::from_secs(10);
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the definitions in a file or folder. Ignores other files and other kinds.
pub(crate) fn collect(path: &Path) -> Result<Vec<Value>, Error> {
    let found = manifests::read(path)?.into_iter().map(|one| one.object);
    let found: Vec<Value> = found.filter(is_definition).collect();
    if found.is_empty() {
        let path = path.to_owned();
        return Err(Error::NoDefinition { path });
    }
    Ok(found)
}

fn is_definition(value: &Value) -> bool {
    value["kind"] == "CustomResourceDefinition" && value["apiVersion"] == "apiextensions.k8s.io/v1"
}

/// Creates or replaces definitions, and waits until each is established and found by discovery.
pub(crate) async fn install(rest: &Rest, definitions: &[Value]) -> Result<(), Error> {
    for definition in definitions {
        apply(rest, definition).await?;
    }
    for definition in definitions {
        served(rest, definition).await?;
    }
    Ok(())
}

async fn apply(rest: &Rest, definition: &Value) -> Result<(), Error> {
    let name = name(definition);
    let doing = || format!("the installation of the definition {name}");
    let source = match rest.create(CRDS, definition, doing).await {
        Err(Error::Request { source, .. }) if rest::is(&source, 409) => source,
        outcome => return outcome.map(|_| ()),
    };
    // The definition exists, for example on a cluster with earlier tests.
    let path = format!("{CRDS}/{name}");
    let failed = |source| Error::request(doing(), source);
    let found = rest.get(&path).await.map_err(failed)?;
    let mut newer = definition.clone();
    let version = &found["metadata"]["resourceVersion"];
    if newer["metadata"].is_null() || version.is_null() {
        let doing = doing();
        return Err(Error::Request { doing, source });
    }
    newer["metadata"]["resourceVersion"] = version.clone();
    rest.replace(&path, &newer).await.map_err(failed)?;
    Ok(())
}

async fn served(rest: &Rest, definition: &Value) -> Result<(), Error> {
    let name = name(definition);
    let look = || async {
        let found = rest.get(&format!("{CRDS}/{name}")).await;
        let found = found.map_err(|error| error.to_string())?;
        let conditions = &found["status"]["conditions"];
        let established = conditions.as_array().into_iter().flatten();
        let mut established = established.filter(|one| one["type"] == "Established");
        if !established.any(|one| one["status"] == "True") {
            return Err(conditions.to_string());
        }
        discovered(rest, &found["spec"]).await
    };
    let waited = eventually_within(SERVED, "the definition", look).await;
    waited.map_err(|unmet| Error::NotServed {
        name: name.to_owned(),
        after: SERVED,
        seen: unmet.to_string(),
    })
}

/// Checks that discovery lists every served version: real servers set `Established` shortly before they serve.
async fn discovered(rest: &Rest, spec: &Value) -> Result<(), String> {
    let group = spec["group"].as_str().unwrap_or_default();
    let plural = &spec["names"]["plural"];
    let versions = spec["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["served"] == true) {
        let version = version["name"].as_str().unwrap_or_default();
        let list = rest.get(&format!("/apis/{group}/{version}")).await;
        let list = list.map_err(|error| error.to_string())?;
        let mut resources = list["resources"].as_array().into_iter().flatten();
        if !resources.any(|one| one["name"] == *plural) {
            return Err(format!("{group}/{version} does not serve {plural}"));
        }
    }
    Ok(())
}

fn name(definition: &Value) -> &str {
    definition["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_kinds_are_ignored_and_a_file_without_definitions_is_an_error() {
        let folder = tempfile::TempDir::new().unwrap();
        let other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
        std::fs::write(folder.path().join("a.yaml"), other).unwrap();
        let text = collect(folder.path()).unwrap_err().to_string();
        assert!(
            text.starts_with("there is no CustomResourceDefinition"),
            "{text}"
        );
        let definition = "---\napiVersion: apiextensions.k8s.io/v1\n\
            kind: CustomResourceDefinition\nmetadata: {name: a.example.com}\n";
        std::fs::write(folder.path().join("b.yaml"), format!("{other}{definition}")).unwrap();
        let found = collect(folder.path()).unwrap();
        assert_eq!(
            found.iter().map(name).collect::<Vec<_>>(),
            ["a.example.com"]
        );
        let text = collect(&folder.path().join("c.yaml"))
            .unwrap_err()
            .to_string();
        assert_eq!(text, "the manifests cannot be read");
    }
}
