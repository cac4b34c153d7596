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

/// The schemas of discovery, one per line: the kind, `@` if objects of the kind stand alone, and the fields as
/// `name:type`. The name of a required field ends in `!`. A type that is neither `text` nor `boolean` is another kind;
/// `[]` before it makes the field an atomic list, `{}` a plain one.
const SCHEMAS: &str = "\
APIGroup @ name!:text preferredVersion:GroupVersionForDiscovery serverAddressByClientCIDRs:[]ServerAddressByClientCIDR versions!:[]GroupVersionForDiscovery
APIGroupList @ groups!:[]APIGroup
APIResource categories:[]text group:text kind!:text name!:text namespaced!:boolean shortNames:[]text singularName!:text storageVersionHash:text verbs!:{}text version:text
APIResourceList @ groupVersion!:text resources!:[]APIResource
APIVersions @ serverAddressByClientCIDRs!:[]ServerAddressByClientCIDR versions!:[]text
GroupVersionForDiscovery groupVersion!:text version!:text
ServerAddressByClientCIDR clientCIDR!:text serverAddress!:text
";

/// The fields of the version. Those of the emulation are optional.
const VERSION_FIELDS: &str = "buildDate!:text compiler!:text emulationMajor:text emulationMinor:text gitCommit!:text \
    gitTreeState!:text gitVersion!:text goVersion!:text major!:text minCompatibilityMajor:text \
    minCompatibilityMinor:text minor!:text platform!:text";

/// Adds a schema of discovery, and the schemas that it refers to.
fn add_schema(component: &str, schemas: &mut Map<String, Value>) {
    if component == VERSION {
        schemas.insert(VERSION.to_owned(), object(VERSION_FIELDS.split(' ')).0);
        return;
    }
    let kind = component
        .strip_prefix(META)
        .and_then(|rest| rest.strip_prefix('.'));
    let line = kind.and_then(|kind| {
        let mut lines = SCHEMAS.lines();
        lines.find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))
    });
    let (Some(kind), Some(line)) = (kind, line) else {
        return;
    };
    let schema = match line.strip_prefix("@ ") {
        Some(fields) => {
            let own = ["apiVersion:text", "kind:text"];
            let (mut schema, others) = object(own.into_iter().chain(fields.split(' ')));
            let gvk = json!([{ "group": "", "version": "v1", "kind": kind }]);
            schema["x-kubernetes-group-version-kind"] = gvk;
            (schema, others)
        }
        None => object(line.split(' ')),
    };
    let (schema, others) = schema;
    schemas.insert(component.to_owned(), schema);
    for other in others {
        add_schema(&format!("{META}.{other}"), schemas);
    }
}

/// Builds the schema of an object from its fields, and returns the other kinds among them.
fn object<'a>(fields: impl Iterator<Item = &'a str>) -> (Value, Vec<&'a str>) {
    let (mut properties, mut required, mut others) = (Map::new(), Vec::new(), Vec::new());
    for (name, word) in fields.filter_map(|field| field.split_once(':')) {
        let bare = name.trim_end_matches('!');
        if bare != name {
            required.push(bare);
        }
        let item = word.trim_start_matches("[]").trim_start_matches("{}");
        let schema = match item {
            "text" => json!({ "type": "string" }),
            "boolean" => json!({ "type": "boolean" }),
            kind => {
                others.push(kind);
                reference(&format!("{META}.{kind}"))
            }
        };
        let schema = match word.get(..2) {
            Some("[]") => {
                json!({ "type": "array", "items": schema, "x-kubernetes-list-type": "atomic" })
            }
            Some("{}") => json!({ "type": "array", "items": schema }),
            _ => schema,
        };
        properties.insert(bare.to_owned(), schema);
    }
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    (schema, others)
}
