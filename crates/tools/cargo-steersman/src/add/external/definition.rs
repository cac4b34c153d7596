//! Driver: finds the definition of an external kind.

use std::path::Path;

use serde_json::Value;
use steersman_object::{json_items, json_text};
use steersman_testenv::apiserver::{ApiServer, manifests};

use super::example;
use crate::error::Error;
use crate::names::{type_name, version_age};

/// The folder with the definitions of external kinds, relative to the folder of the operator.
pub(crate) const EXTERNAL: &str = "config/external";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExternalKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    pub(crate) schema: Value,
    pub(crate) definition: Value,
}

impl ExternalKind {
    pub(crate) fn type_name(&self) -> String {
        type_name(&self.kind)
    }

    /// Returns the group and version, written as in manifests: `example.com/v1`.
    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    pub(crate) fn is(&self, api_version: &str, kind: &str) -> bool {
        self.kind == kind && self.api_version() == api_version
    }

    /// Returns the first lines of the source file with the Rust types of the kind.
    pub(crate) fn header(&self) -> String {
        format!("//! {} of {}", self.kind, self.api_version())
    }

    /// Returns the path of the definition's file, relative to the folder of the operator.
    pub(crate) fn file(&self) -> String {
        format!("{EXTERNAL}/{}.{}.yaml", self.plural, self.group)
    }

    /// Returns an example object without a namespace, and the reason if an API server refuses the object.
    pub(crate) fn example(&self) -> (Value, Option<String>) {
        let object = example::object(&self.api_version(), &self.kind, &self.schema);
        let server = ApiServer::builder().build();
        let mut placed = object.clone();
        if self.is_namespaced {
            placed["metadata"]["namespace"] = "default".into();
        }
        let refused = server
            .install_crd(self.definition.clone())
            .and_then(|_| server.create(placed).map(|_| ()));
        (object, refused.err().map(|status| status.message))
    }
}

/// Finds a kind in a file or folder of definitions. `wanted` is the group and version, and the kind. Without `wanted`,
/// returns the newest version of the only kind in the definitions.
pub(crate) fn find(path: &Path, wanted: Option<(&str, &str)>) -> Result<ExternalKind, Error> {
    let wrong = |problem: String| Error::Definition {
        path: path.to_owned(),
        problem,
    };
    let mut kinds = kinds(path)?;
    let names: Vec<String> = kinds
        .iter()
        .map(|known| format!("--for {} {}", known.api_version(), known.kind))
        .collect();
    if kinds.is_empty() {
        return Err(wrong(
            "it has no CustomResourceDefinition of apiextensions.k8s.io/v1 that serves a version"
                .to_owned(),
        ));
    }
    if let Some((api_version, kind)) = wanted {
        kinds.retain(|known| known.is(api_version, kind));
    } else {
        let first = &kinds[0];
        let is_one = kinds
            .iter()
            .all(|known| (&known.group, &known.kind) == (&first.group, &first.kind));
        if !is_one {
            return Err(wrong(format!(
                "it has several kinds: add {}",
                names.join(" or ")
            )));
        }
        kinds.sort_by_key(|known| version_age(&known.version));
    }
    kinds
        .pop()
        .ok_or_else(|| wrong(format!("it has no such kind: write {}", names.join(" or "))))
}

/// Returns the external kinds with a definition in the operator's folder.
pub(crate) fn present(folder: &Path) -> Result<Vec<ExternalKind>, Error> {
    let place = folder.join(EXTERNAL);
    match place.exists() {
        true => kinds(&place),
        false => Ok(Vec::new()),
    }
}

/// Returns each served version of each definition in a file or folder.
fn kinds(path: &Path) -> Result<Vec<ExternalKind>, Error> {
    let mut kinds = Vec::new();
    for manifest in manifests::read(path)? {
        let definition = manifest.object;
        if definition["kind"] != "CustomResourceDefinition"
            || definition["apiVersion"] != "apiextensions.k8s.io/v1"
        {
            continue;
        }
        let spec = &definition["spec"];
        let text = |value: &Value| json_text(value).to_owned();
        for version in json_items(&spec["versions"]) {
            if version["served"] != true {
                continue;
            }
            kinds.push(ExternalKind {
                group: text(&spec["group"]),
                version: text(&version["name"]),
                kind: text(&spec["names"]["kind"]),
                plural: text(&spec["names"]["plural"]),
                is_namespaced: spec["scope"] == "Namespaced",
                schema: version["schema"]["openAPIV3Schema"].clone(),
                definition: definition.clone(),
            });
        }
    }
    for kind in &kinds {
        check(kind, path)?;
    }
    Ok(kinds)
}

/// Refuses a definition if a file or a Rust type cannot have the name of its kind.
fn check(kind: &ExternalKind, path: &Path) -> Result<(), Error> {
    let has_only = |text: &str, others: &str| {
        let is_one = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
        !text.is_empty() && text.chars().all(is_one)
    };
    let begins = kind
        .kind
        .starts_with(|letter: char| letter.is_ascii_uppercase());
    let are_words = has_only(&kind.kind, "") && has_only(&kind.version, "");
    match begins && are_words && has_only(&kind.plural, "-.") && has_only(&kind.group, "-.") {
        true => Ok(()),
        false => Err(Error::Definition {
            path: path.to_owned(),
            problem: format!(
                "the definition of {:?} in {:?} lacks a kind, a plural name, a group or a version, or has one that no \
                 API server accepts",
                kind.kind, kind.group
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(kind: &str, versions: &[&str], spec: &Value) -> String {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let versions: Vec<Value> = versions
            .iter()
            .enumerate()
            .map(|(at, name)| {
                json!({
                    "name": name, "served": true, "storage": at == 0,
                    "schema": {"openAPIV3Schema": schema},
                })
            })
            .collect();
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.org")},
            "spec": {
                "group": "example.org", "scope": "Cluster", "versions": versions,
                "names": {"kind": kind, "plural": plural},
            },
        });
        definition.to_string()
    }

    fn found(text: &str, wanted: Option<(&str, &str)>) -> Result<ExternalKind, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, text).unwrap();
        find(&path, wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn the_newest_version_of_the_only_kind_is_meant() {
        let one = definition("One", &["v1beta1", "v2", "v1"], &json!({"type": "object"}));
        assert_eq!(found(&one, None).unwrap().version, "v2");
        let older = found(&one, Some(("example.org/v1", "One"))).unwrap();
        assert_eq!(older.version, "v1");
        let other = definition("Other", &["v1"], &json!({"type": "object"}));
        let both = format!("{one}\n---\n{other}\n");
        assert_eq!(
            found(&both, Some(("example.org/v1", "Other")))
                .unwrap()
                .plural,
            "others"
        );
        for (text, wanted, expected) in [
            (
                &*both,
                None,
                "several kinds: add --for example.org/v1beta1 One or ",
            ),
            (
                &*one,
                Some(("example.org/v3", "One")),
                "write --for example.org/v1beta1 One",
            ),
            (
                "kind: Pod\n",
                None,
                "it has no CustomResourceDefinition of apiextensions.k8s.io/v1",
            ),
            (
                &*definition("../One", &["v1"], &json!({})),
                None,
                "that no API server accepts",
            ),
        ] {
            let error = found(text, wanted).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_example_is_valid_or_the_server_says_why_not() {
        let spec = json!({
            "type": "object",
            "minProperties": 6,
            "required": ["a", "b", "c", "d"],
            "properties": {
                "a": {"type": "array", "minItems": 2, "items": {"type": "string", "enum": ["X", "Y"]}},
                "b": {"type": "integer", "minimum": 4, "multipleOf": 3},
                "c": {"type": "string", "minLength": 9, "default": "123456789"},
                "d": {"type": "object", "minProperties": 2, "additionalProperties": {"type": "boolean"}},
                "e": {"type": "number", "maximum": -4.5},
                "f": {"type": "string", "format": "ipv6"},
            },
        });
        let kind = found(&definition("One", &["v1"], &spec), None).unwrap();
        let (object, refused) = kind.example();
        assert_eq!(refused, None, "{object}");
        assert_eq!(object["spec"]["b"], 6);
        let spec = json!({
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "string", "pattern": "^[0-9]+$"}},
        });
        let (_, refused) = found(&definition("One", &["v1"], &spec), None)
            .unwrap()
            .example();
        assert!(refused.unwrap().contains("spec.a"));
    }
}
