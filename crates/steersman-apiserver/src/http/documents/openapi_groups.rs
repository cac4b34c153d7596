//! Machine: the OpenAPI v3 documents that describe discovery: of `/api`, `/apis`, `/version` and each
//! built-in group.
//!
//! Kubernetes source: `apiserver/pkg/endpoints/discovery`. The groups of definitions have no such
//! document.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_schema::resource::Resource;

use crate::http::documents::openapi_paths::{capital, group_name};

/// The package of the schemas of discovery.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";

/// An operation that reads a document of discovery.
struct Reading {
    /// The path of the operation, with a slash at its end.
    path: String,
    tag: String,
    id: String,
    about: &'static str,
    /// The schema component of the answer.
    schema: String,
}

/// Returns the paths of the documents below `/openapi/v3/`.
pub(crate) fn paths(resources: &[Arc<Resource>]) -> impl Iterator<Item = String> {
    let built_in = resources.iter().filter(|one| one.built_in);
    let groups = built_in.map(|one| one.group.as_str());
    let groups: BTreeSet<&str> = groups.filter(|group| !group.is_empty()).collect();
    let groups: Vec<String> = groups
        .into_iter()
        .map(|group| format!("apis/{group}"))
        .collect();
    let roots = ["api", "apis", "version"].map(str::to_owned);
    roots.into_iter().chain(groups)
}

/// Builds the document at one of the [`paths`].
pub(crate) fn document(resources: &[Arc<Resource>], path: &str) -> Option<Value> {
    paths(resources).find(|known| known == path)?;
    let meta = |kind: &str| format!("{META}.{kind}");
    let reading = match path {
        "api" => Reading {
            path: "/api/".to_owned(),
            tag: "core".to_owned(),
            id: "getCoreAPIVersions".to_owned(),
            about: "get available API versions",
            schema: meta("APIVersions"),
        },
        "apis" => Reading {
            path: "/apis/".to_owned(),
            tag: "apis".to_owned(),
            id: "getAPIVersions".to_owned(),
            about: "get available API versions",
            schema: meta("APIGroupList"),
        },
        "version" => Reading {
            path: "/version/".to_owned(),
            tag: "version".to_owned(),
            id: "getCodeVersion".to_owned(),
            about: "get the version information for this server",
            schema: VERSION.to_owned(),
        },
        group => {
            let name = group_name(group.strip_prefix("apis/")?);
            Reading {
                path: format!("/{group}/"),
                id: format!("get{}APIGroup", capital(&name)),
                tag: name,
                about: "get information of a group",
                schema: meta("APIGroup"),
            }
        }
    };
    let mut schemas = Map::new();
    add_schema(&reading.schema, &mut schemas);
    let mut paths = Map::new();
    paths.insert(reading.path.clone(), reading.item());
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

/// Adds the operation that lists the resources of a version to the version's document.
pub(crate) fn add_resources(
    (group, version): (&str, &str),
    root: &str,
    paths: &mut Map<String, Value>,
    schemas: &mut Map<String, Value>,
) {
    let name = group_name(group);
    let reading = Reading {
        path: format!("{root}/"),
        tag: format!("{name}_{version}"),
        id: format!("get{}{}APIResources", capital(&name), capital(version)),
        about: "get available resources",
        schema: format!("{META}.APIResourceList"),
    };
    add_schema(&reading.schema, schemas);
    paths.insert(reading.path.clone(), reading.item());
}

impl Reading {
    fn item(&self) -> Value {
        let schema = json!({ "schema": reference(&self.schema) });
        let media: &[&str] = if self.schema == VERSION {
            &["application/json"]
        } else {
            &[
                "application/json",
                "application/vnd.kubernetes.protobuf",
                "application/yaml",
            ]
        };
        let content = media
            .iter()
            .map(|media| ((*media).to_owned(), schema.clone()));
        json!({ "get": {
            "tags": [self.tag],
            "description": self.about,
            "operationId": self.id,
            "responses": {
                "200": { "description": "OK", "content": Value::Object(content.collect()) },
                "401": { "description": "Unauthorized" },
            },
        } })
    }
}

fn reference(component: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{component}") })
}

/// Adds a schema of discovery, and the schemas that it refers to.
fn add_schema(component: &str, schemas: &mut Map<String, Value>) {
    if component == VERSION {
        let names = [
            "buildDate",
            "compiler",
            "emulationMajor",
            "emulationMinor",
            "gitCommit",
            "gitTreeState",
            "gitVersion",
            "goVersion",
            "major",
            "minCompatibilityMajor",
            "minCompatibilityMinor",
            "minor",
            "platform",
        ];
        let is_required = |name: &&str| !name.starts_with("emulation") && !name.starts_with("minC");
        let required: Vec<&str> = names.iter().copied().filter(is_required).collect();
        let texts = names.map(|name| (name.to_owned(), text()));
        let schema = object(texts.into(), &required);
        schemas.insert(VERSION.to_owned(), schema);
        return;
    }
    let Some(kind) = component
        .strip_prefix(META)
        .and_then(|rest| rest.strip_prefix('.'))
    else {
        return;
    };
    let texts = |names: &[&str]| -> Vec<(String, Value)> {
        names
            .iter()
            .map(|name| ((*name).to_owned(), text()))
            .collect()
    };
    let list = |items: Value| json!({ "type": "array", "items": items, "x-kubernetes-list-type": "atomic" });
    let of = |kind: &str| reference(&format!("{META}.{kind}"));
    // The fields of the kind, the required ones, and the other kinds among them.
    let (mut fields, required, others): (_, &[&str], &[&str]) = match kind {
        "APIGroup" => {
            let mut fields = texts(&["name"]);
            fields.extend([
                (
                    "preferredVersion".to_owned(),
                    of("GroupVersionForDiscovery"),
                ),
                (
                    "serverAddressByClientCIDRs".to_owned(),
                    list(of("ServerAddressByClientCIDR")),
                ),
                ("versions".to_owned(), list(of("GroupVersionForDiscovery"))),
            ]);
            let others = &["GroupVersionForDiscovery", "ServerAddressByClientCIDR"];
            (fields, &["name", "versions"], others)
        }
        "APIGroupList" => {
            let groups = ("groups".to_owned(), list(of("APIGroup")));
            (vec![groups], &["groups"], &["APIGroup"])
        }
        "APIVersions" => {
            let fields = vec![
                (
                    "serverAddressByClientCIDRs".to_owned(),
                    list(of("ServerAddressByClientCIDR")),
                ),
                ("versions".to_owned(), list(text())),
            ];
            let required = &["versions", "serverAddressByClientCIDRs"];
            (fields, required, &["ServerAddressByClientCIDR"])
        }
        "APIResourceList" => {
            let mut fields = texts(&["groupVersion"]);
            fields.push(("resources".to_owned(), list(of("APIResource"))));
            (fields, &["groupVersion", "resources"], &["APIResource"])
        }
        "APIResource" => {
            let mut fields = texts(&[
                "group",
                "kind",
                "name",
                "singularName",
                "storageVersionHash",
                "version",
            ]);
            fields.extend([
                ("categories".to_owned(), list(text())),
                ("namespaced".to_owned(), json!({ "type": "boolean" })),
                ("shortNames".to_owned(), list(text())),
                (
                    "verbs".to_owned(),
                    json!({ "type": "array", "items": text() }),
                ),
            ]);
            let required = &["name", "singularName", "namespaced", "kind", "verbs"];
            (fields, required, &[])
        }
        "GroupVersionForDiscovery" => {
            let names = &["groupVersion", "version"];
            (texts(names), names, &[])
        }
        "ServerAddressByClientCIDR" => {
            let names = &["clientCIDR", "serverAddress"];
            (texts(names), names, &[])
        }
        _ => return,
    };
    let is_kind = !matches!(
        kind,
        "APIResource" | "GroupVersionForDiscovery" | "ServerAddressByClientCIDR"
    );
    if is_kind {
        fields.extend(texts(&["apiVersion", "kind"]));
    }
    let mut schema = object(fields, required);
    if is_kind {
        let kind = json!([{ "group": "", "version": "v1", "kind": kind }]);
        schema["x-kubernetes-group-version-kind"] = kind;
    }
    schemas.insert(component.to_owned(), schema);
    for other in others {
        add_schema(&format!("{META}.{other}"), schemas);
    }
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn object(fields: Vec<(String, Value)>, required: &[&str]) -> Value {
    let properties: Map<String, Value> = fields.into_iter().collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
