//! Driver: CustomResourceDefinitions from files, and their way to being served.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::assert::eventually_within;
use crate::error::Error;
use crate::rest::{self, Rest};

/// How long a definition may take to be served; envtest waits as long.
const SERVED: Duration = Duration::from_secs(10);
/// How deep folders are read.
const DEEPEST: usize = 16;
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The definitions in a file, or in the YAML and JSON files of a folder and those below it. What
/// else is in a folder is left alone.
pub(crate) fn collect(path: &Path) -> Result<Vec<Value>, Error> {
    let mut files = Vec::new();
    find(path, DEEPEST, &mut files)?;
    let mut found = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(unusable(file))?;
        let documents = documents(&text).map_err(|problem| Error::Manifest {
            path: file.clone(),
            problem,
        })?;
        found.extend(documents.into_iter().filter(is_definition));
    }
    if found.is_empty() {
        let path = path.to_owned();
        return Err(Error::NoDefinition { path });
    }
    Ok(found)
}

/// The files of a path, in the order of their names, so that every machine installs alike.
fn find(path: &Path, deeper: usize, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    if !std::fs::metadata(path).map_err(unusable(path))?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).map_err(unusable(path))?;
    let mut inside = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unusable(path))?;
    inside.sort();
    for one in inside {
        let manifest = one
            .extension()
            .is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|known| kind == *known));
        if manifest || (one.is_dir() && deeper > 0) {
            find(&one, deeper.saturating_sub(1), files)?;
        }
    }
    Ok(())
}

fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}

/// The documents of a YAML or JSON text; a List stands for its items.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for mut document in documents {
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => all.extend(items),
            _ => all.push(document),
        }
    }
    Ok(all)
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
    // It is there already, for instance on a cluster that saw an earlier test.
    let path = format!("{CRDS}/{name}");
    let failed = |source| Error::Request {
        doing: doing(),
        source: Box::new(source),
    };
    let found = rest.get(&path).await.map_err(failed)?;
    let mut newer = definition.clone();
    let version = &found["metadata"]["resourceVersion"];
    if newer["metadata"].is_null() || version.is_null() {
        return Err(Error::Request {
            doing: doing(),
            source,
        });
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
    let mut seen = String::new();
    let waited = eventually_within(SERVED, "the definition", || async { look().await });
    if let Err(unmet) = waited.await {
        seen.push_str(&unmet.to_string());
        return Err(Error::NotServed {
            name: name.to_owned(),
            after: SERVED,
            seen,
        });
    }
    Ok(())
}

/// Whether every served version is in its group's discovery document: real servers write
/// `Established` a moment before they serve.
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

    const TWO: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: a.example.com}
---
# A comment alone makes no document.
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: v1
kind: List
items:
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: b.example.com}
";

    #[test]
    fn folders_are_read_to_their_depth_and_in_order() {
        let folder = tempfile::TempDir::new().unwrap();
        let inside = folder.path().join("crd/bases");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("two.yaml"), TWO).unwrap();
        let c = TWO.replace("a.example", "c.example");
        std::fs::write(folder.path().join("z.yml"), c).unwrap();
        std::fs::write(folder.path().join("readme.md"), "- no: [yaml").unwrap();
        let found = collect(folder.path()).unwrap();
        let names: Vec<&str> = found.iter().map(name).collect();
        assert_eq!(
            names,
            [
                "a.example.com",
                "b.example.com",
                "c.example.com",
                "b.example.com"
            ]
        );
    }

    #[test]
    fn what_is_wrong_names_its_file() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.yaml");
        let text = collect(&path).unwrap_err().to_string();
        assert!(text.ends_with("a.yaml cannot be used"), "{text}");
        std::fs::write(&path, "kind: Namespace").unwrap();
        let text = collect(&path).unwrap_err().to_string();
        assert!(
            text.starts_with("there is no CustomResourceDefinition"),
            "{text}"
        );
        std::fs::write(&path, "a: [").unwrap();
        let text = collect(&path).unwrap_err().to_string();
        assert!(text.contains("a.yaml: "), "{text}");
    }
}
