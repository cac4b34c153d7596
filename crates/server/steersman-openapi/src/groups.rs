//! Machine: the OpenAPI v3 documents that describe discovery: of `/api`, `/apis`, `/version` and each built-in group.
//!
//! Kubernetes source: `apiserver/pkg/endpoints/discovery`. The groups of definitions have no such document.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_apimachinery::go::capital;
use steersman_schema::resource::Resource;

use crate::paths::{content, group_name, reference};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// The schema of the version of the server, which has a package of its own.
const VERSION: &str = "Info";

/// An operation that reads a document of discovery.
struct Reading {
    /// The path of the operation, with a slash at its end.
    path: String,
    tag: String,
    id: String,
    about: &'static str,
    /// The name of the schema of the answer.
    schema: &'static str,
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
    let name = path.strip_prefix("apis/").map(group_name);
    let name = name.unwrap_or_default();
    let of_group = format!("get{}APIGroup", capital(&name));
    let versions = "get available API versions";
    let (tag, id, about, schema) = match path {
        "api" => ("core", "getCoreAPIVersions", versions, "APIVersions"),
        "apis" => ("apis", "getAPIVersions", versions, "APIGroupList"),
        "version" => {
            let about = "get the version information for this server";
            ("version", "getCodeVersion", about, VERSION)
        }
        _ => (&*name, &*of_group, "get information of a group", "APIGroup"),
    };
    let reading = Reading {
        path: format!("/{path}/"),
        tag: tag.to_owned(),
        id: id.to_owned(),
        about,
        schema,
    };
    let mut schemas = Map::new();
    add_schema(schema, &mut schemas);
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
        schema: "APIResourceList",
    };
    add_schema(reading.schema, schemas);
    paths.insert(reading.path.clone(), reading.item());
}

impl Reading {
    fn item(&self) -> Value {
        let media: &[&str] = if self.schema == VERSION {
            &["application/json"]
        } else {
            &[
                "application/json",
                "application/vnd.kubernetes.protobuf",
                "application/yaml",
            ]
        };
        json!({ "get": {
            "tags": [self.tag],
            "description": self.about,
            "operationId": self.id,
            "responses": {
                "200": { "description": "OK", "content": content(media, &qualified(self.schema)) },
                "401": { "description": "Unauthorized" },
            },
        } })
    }
}

/// Adds a schema of discovery, and the schemas that it refers to.
fn add_schema(name: &str, schemas: &mut Map<String, Value>) {
    let Some((_, fields)) = SCHEMAS.iter().find(|(known, _)| *known == name) else {
        return;
    };
    let (mut properties, mut required, mut others) = (Map::new(), Vec::new(), Vec::new());
    for (field, listed) in fields.split(' ').filter_map(|word| word.split_once(':')) {
        let kind = listed.trim_start_matches("[]");
        let mut schema = match kind {
            "string" | "boolean" => json!({ "type": kind }),
            other => {
                others.push(other);
                reference(&qualified(other))
            }
        };
        if kind != listed {
            schema = json!({
                "type": "array",
                "items": schema,
                "x-kubernetes-list-type": "atomic",
            });
        }
        let bare = field.trim_end_matches('!');
        if bare != field {
            required.push(bare);
        }
        properties.insert(bare.to_owned(), schema);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    // These are the fields of a kind of its own.
    if properties.contains_key("apiVersion") {
        let kind = json!([{ "group": "", "version": "v1", "kind": name }]);
        schema["x-kubernetes-group-version-kind"] = kind;
    }
    schemas.insert(qualified(name), schema);
    for other in others {
        add_schema(other, schemas);
    }
}

fn qualified(name: &str) -> String {
    match name {
        VERSION => format!("io.k8s.apimachinery.pkg.version.{name}"),
        name => format!("{META}.{name}"),
    }
}

/// The schemas: the name of each, and its fields as `name:type`. The name of a required field ends in `!`. A type is
/// `string`, `boolean`, the name of a schema, or `[]` and one of these for a list.
const SCHEMAS: &[(&str, &str)] = &[
    (
        "APIGroup",
        "apiVersion:string kind:string name!:string preferredVersion:GroupVersionForDiscovery \
         serverAddressByClientCIDRs:[]ServerAddressByClientCIDR \
         versions!:[]GroupVersionForDiscovery",
    ),
    (
        "APIGroupList",
        "apiVersion:string groups!:[]APIGroup kind:string",
    ),
    (
        "APIResource",
        "categories:[]string group:string kind!:string name!:string namespaced!:boolean \
         shortNames:[]string singularName!:string storageVersionHash:string verbs!:[]string \
         version:string",
    ),
    (
        "APIResourceList",
        "apiVersion:string groupVersion!:string kind:string resources!:[]APIResource",
    ),
    (
        "APIVersions",
        "apiVersion:string kind:string serverAddressByClientCIDRs!:[]ServerAddressByClientCIDR \
         versions!:[]string",
    ),
    (
        "GroupVersionForDiscovery",
        "groupVersion!:string version!:string",
    ),
    (
        "ServerAddressByClientCIDR",
        "clientCIDR!:string serverAddress!:string",
    ),
    (
        VERSION,
        "buildDate!:string compiler!:string emulationMajor:string emulationMinor:string \
         gitCommit!:string gitTreeState!:string gitVersion!:string goVersion!:string major!:string \
         minCompatibilityMajor:string minCompatibilityMinor:string minor!:string platform!:string",
    ),
];
