//! Machine: the OpenAPI v3 documents that describe discovery: of `/api`, `/apis`, `/version` and each
//! built-in group.
//!
//! Kubernetes source: `apiserver/pkg/endpoints/discovery`. The groups of definitions have no such
//! document.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_schema::resource::Resource;

use crate::paths::{capital, group_name, reference};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";

/// An operation that reads a document of discovery.
struct Reading {
    /// The path of the operation, with a slash at its end.
    path: String,
    tag: String,
    id: String,
    about: &'static str,
    schema: String,
}

/// Returns the paths of the documents below `/openapi/v3/`.
pub fn paths(resources: &[Arc<Resource>]) -> impl Iterator<Item = String> {
    let built_in = resources.iter().filter(|one| one.built_in);
    let groups = built_in.map(|one| one.group.as_str());
    let groups: BTreeSet<&str> = groups.filter(|group| !group.is_empty()).collect();
    let groups = groups.into_iter().map(|group| format!("apis/{group}"));
    let roots = ["api", "apis", "version"].map(str::to_owned);
    roots.into_iter().chain(groups)
}

/// Builds the document at one of the [`paths`].
pub fn document(resources: &[Arc<Resource>], path: &str) -> Option<Value> {
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

/// Adds a schema of discovery, and the schemas that it refers to.
fn add_schema(component: &str, schemas: &mut Map<String, Value>) {
    let Some((_, fields)) = SCHEMAS
        .iter()
        .find(|(name, _)| qualified(name) == component)
    else {
        return;
    };
    let (mut properties, mut required, mut others) = (Map::new(), Vec::new(), Vec::new());
    for (name, kind) in *fields {
        let (kind, is_list) = match kind.strip_prefix("[]") {
            Some(kind) => (kind, true),
            None => (*kind, false),
        };
        let mut schema = match kind {
            "string" | "boolean" => json!({ "type": kind }),
            other => {
                others.push(qualified(other));
                reference(&qualified(other))
            }
        };
        if is_list {
            schema = json!({
                "type": "array",
                "items": schema,
                "x-kubernetes-list-type": "atomic",
            });
        }
        let bare = name.trim_end_matches('!');
        if bare != *name {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    // These are the fields of a kind of its own.
    if fields.iter().any(|(name, _)| *name == "apiVersion") {
        let kind = component.rsplit('.').next().unwrap_or_default();
        let kind = json!([{ "group": "", "version": "v1", "kind": kind }]);
        schema["x-kubernetes-group-version-kind"] = kind;
    }
    schemas.insert(component.to_owned(), schema);
    for other in others {
        add_schema(&other, schemas);
    }
}

fn qualified(name: &str) -> String {
    if name == "Info" {
        VERSION.to_owned()
    } else {
        format!("{META}.{name}")
    }
}

/// The name of a field, with `!` if it is required, and its type: `string`, `boolean`, the name of a
/// schema, or `[]` and one of these for a list.
type Field = (&'static str, &'static str);

const SCHEMAS: &[(&str, &[Field])] = &[
    (
        "APIGroup",
        &[
            ("apiVersion", "string"),
            ("kind", "string"),
            ("name!", "string"),
            ("preferredVersion", "GroupVersionForDiscovery"),
            ("serverAddressByClientCIDRs", "[]ServerAddressByClientCIDR"),
            ("versions!", "[]GroupVersionForDiscovery"),
        ],
    ),
    (
        "APIGroupList",
        &[
            ("apiVersion", "string"),
            ("groups!", "[]APIGroup"),
            ("kind", "string"),
        ],
    ),
    (
        "APIResource",
        &[
            ("categories", "[]string"),
            ("group", "string"),
            ("kind!", "string"),
            ("name!", "string"),
            ("namespaced!", "boolean"),
            ("shortNames", "[]string"),
            ("singularName!", "string"),
            ("storageVersionHash", "string"),
            ("verbs!", "[]string"),
            ("version", "string"),
        ],
    ),
    (
        "APIResourceList",
        &[
            ("apiVersion", "string"),
            ("groupVersion!", "string"),
            ("kind", "string"),
            ("resources!", "[]APIResource"),
        ],
    ),
    (
        "APIVersions",
        &[
            ("apiVersion", "string"),
            ("kind", "string"),
            ("serverAddressByClientCIDRs!", "[]ServerAddressByClientCIDR"),
            ("versions!", "[]string"),
        ],
    ),
    (
        "GroupVersionForDiscovery",
        &[("groupVersion!", "string"), ("version!", "string")],
    ),
    (
        "ServerAddressByClientCIDR",
        &[("clientCIDR!", "string"), ("serverAddress!", "string")],
    ),
    (
        "Info",
        &[
            ("buildDate!", "string"),
            ("compiler!", "string"),
            ("emulationMajor", "string"),
            ("emulationMinor", "string"),
            ("gitCommit!", "string"),
            ("gitTreeState!", "string"),
            ("gitVersion!", "string"),
            ("goVersion!", "string"),
            ("major!", "string"),
            ("minCompatibilityMajor", "string"),
            ("minCompatibilityMinor", "string"),
            ("minor!", "string"),
            ("platform!", "string"),
        ],
    ),
];
