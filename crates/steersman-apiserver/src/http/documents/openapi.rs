//! Machine: OpenAPI v3, from which kubectl validates and explains, and from which clients are
//! generated.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_schema::resource::Resource;
use steersman_schema::stored_schemas::StoredSchemas;
use steersman_schema::types;

use crate::http::documents::discovery::{
    ListedSubresource, group_version, group_versions, of_version,
};
use crate::http::documents::openapi_groups;
use crate::http::documents::openapi_paths::{self, Components};

const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

/// Returns the paths of the documents below `/openapi/v3/`.
pub(crate) fn paths(resources: &[Arc<Resource>]) -> impl Iterator<Item = String> {
    let versions = group_versions(resources).into_iter();
    versions.map(|(group, version)| document_path(group, version))
}

/// Builds `/openapi/v3`: the paths of the documents and their hashes.
pub(crate) fn index(documents: Vec<(String, String)>) -> Value {
    let mut paths = Map::new();
    for (path, tag) in documents {
        let url = format!("/openapi/v3/{path}?hash={}", tag.trim_matches('"'));
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

/// Returns the `ETag`, in quotes, of a document about these resources. The tag depends on all that the
/// documents are built from, so that an index names the documents without building them.
pub(crate) fn tag<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>) -> String {
    let mut hasher = DefaultHasher::new();
    // The descriptions of the built-in types change with the program.
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for resource in resources {
        if let Some(schema) = &resource.schema {
            schema.json().hash(&mut hasher);
        }
        // The rest of a custom resource; the documents show neither editions nor conversions.
        let shown = Resource {
            schema: None,
            stored_schemas: StoredSchemas::default(),
            conversion: None,
            edition: 0,
            ..(**resource).clone()
        };
        format!("{shown:?}").hash(&mut hasher);
    }
    format!("\"{:016X}\"", hasher.finish())
}

/// Returns the `ETag` of the document at a path; `None` if the version is not served.
pub(crate) fn tag_of(resources: &[Arc<Resource>], path: &str) -> Option<String> {
    let (group, version) = version_at(resources, path)?;
    Some(tag(of_version(resources, group, version)))
}

/// Returns the group version with the document at a path.
fn version_at<'a>(resources: &'a [Arc<Resource>], path: &str) -> Option<(&'a str, &'a str)> {
    let mut versions = group_versions(resources).into_iter();
    versions.find(|(group, version)| document_path(group, version) == path)
}

/// Builds the document at `api/v1` or `apis/<group>/<version>`, if the version is served.
///
/// kubectl looks for a PATCH of its object's kind with a `fieldValidation` parameter; if there is
/// one, it leaves validation to the server. `kubectl explain` reads the schemas.
pub(crate) fn document(resources: &[Arc<Resource>], path: &str) -> Option<Value> {
    let (group, version) = version_at(resources, path)?;
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let options = types::describe_named("meta.v1.DeleteOptions", &mut schemas);
    let status = types::describe_named("meta.v1.Status", &mut schemas);
    schemas.insert(PATCH.to_owned(), json!({ "type": "object" }));
    schemas.insert(EVENT.to_owned(), event());
    for resource in of_version(resources, group, version) {
        let (object, list) = add_schema(resource, &mut schemas);
        let components = Components {
            object: &object,
            list: &list,
            options: &options,
            status: &status,
            patch: PATCH,
            event: EVENT,
        };
        let component = |below: &ListedSubresource<'_>| {
            let version = if below.group.is_empty() {
                resource.api_version()
            } else {
                group_version(below.group, below.version)
            };
            types::describe(&version, below.kind, &mut schemas)
        };
        let root = format!("/{path}");
        openapi_paths::add(resource, &root, components, component, &mut paths);
    }
    if of_version(resources, group, version).any(|one| one.built_in) {
        let root = format!("/{path}");
        openapi_groups::add_resources((group, version), &root, &mut paths, &mut schemas);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.36.0" },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Builds the schema of a watch event.
fn event() -> Value {
    json!({
        "type": "object",
        "required": ["type", "object"],
        "properties": { "type": { "type": "string" }, "object": { "type": "object" } },
    })
}

fn kind(resource: &Resource) -> Value {
    json!({ "group": resource.group, "version": resource.version, "kind": resource.kind })
}

/// Adds the schemas of a resource's objects and lists, and returns their names.
fn add_schema(resource: &Resource, schemas: &mut Map<String, Value>) -> (String, String) {
    let known = if resource.built_in {
        types::describe(&resource.api_version(), &resource.kind, schemas)
    } else {
        None
    };
    let name = if let Some(name) = known {
        schemas[&name]["x-kubernetes-group-version-kind"] = json!([kind(resource)]);
        name
    } else {
        let name = schema_name(resource, &resource.kind);
        let metadata = reference(&types::describe_metadata(false, schemas));
        schemas.insert(name.clone(), component(resource, &metadata));
        name
    };
    let before = name.strip_suffix(&resource.kind).unwrap_or_default();
    let list_name = format!("{before}{}", resource.list_kind);
    if resource.verbs.contains(&"list") {
        let of_list = reference(&types::describe_metadata(true, schemas));
        schemas.insert(list_name.clone(), list(resource, &name, &of_list));
    }
    (name, list_name)
}

/// Returns a schema name such as `com.example.v1.Website`: the reversed group, the version, the
/// kind.
fn schema_name(resource: &Resource, kind: &str) -> String {
    let mut parts: Vec<&str> = if resource.group.is_empty() {
        vec!["core"]
    } else {
        resource.group.split('.').rev().collect()
    };
    parts.push(&resource.version);
    parts.push(kind);
    parts.join(".")
}

fn reference(component: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{component}") })
}

/// Returns the fields that every object has.
fn standard(metadata: &Value) -> [(&'static str, Value); 3] {
    [
        (
            "apiVersion",
            json!({ "type": "string", "description": "Group and version of the object." }),
        ),
        (
            "kind",
            json!({ "type": "string", "description": "Kind of the object." }),
        ),
        (
            "metadata",
            json!({ "description": "Name, labels and the like.", "allOf": [metadata] }),
        ),
    ]
}

/// Builds the schema of a list of objects (upstream: `buildListSchema`).
fn list(resource: &Resource, name: &str, metadata: &Value) -> Value {
    let mut properties: Map<String, Value> = standard(metadata)
        .into_iter()
        .map(|(name, field)| (name.to_owned(), field))
        .collect();
    properties.insert(
        "items".to_owned(),
        json!({ "type": "array", "items": { "allOf": [reference(name)] } }),
    );
    let mut schema = json!({
        "type": "object",
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind": [{
            "group": resource.group, "version": resource.version, "kind": resource.list_kind,
        }],
    });
    add_selectable_fields(resource, &mut schema);
    schema
}

/// Adds the fields that a field selector of a custom resource may use.
fn add_selectable_fields(resource: &Resource, schema: &mut Value) {
    if resource.built_in || resource.fields.is_empty() {
        return;
    }
    let fields = resource.fields.iter();
    let fields = fields.map(|field| json!({ "fieldPath": field.label }));
    schema["x-kubernetes-selectable-fields"] = fields.collect();
}

/// Adds apiVersion, kind and metadata to the schemas of embedded resources.
fn complete_embedded(schema: &mut Value, metadata: &Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for name in ["items", "additionalProperties"] {
        if let Some(below) = fields.get_mut(name) {
            complete_embedded(below, metadata);
        }
    }
    let below = fields.get_mut("properties").and_then(Value::as_object_mut);
    for below in below.into_iter().flat_map(Map::values_mut) {
        complete_embedded(below, metadata);
    }
    if fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (name, field) in standard(metadata) {
                properties.insert(name.to_owned(), field);
            }
        }
        let required = fields.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|known| known == name) {
                    required.push(json!(name));
                }
            }
        }
    }
}

fn component(resource: &Resource, metadata: &Value) -> Value {
    let mut schema = match resource.schema.as_ref().map(|schema| schema.decode()) {
        Some(schema @ Value::Object(_)) => schema,
        _ => json!({ "type": "object" }),
    };
    complete_embedded(&mut schema, metadata);
    if let Some(fields) = schema.as_object_mut() {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (name, mut field) in standard(metadata) {
                // The definition's own words, which are those of upstream's types in most of them.
                let own = properties.get(name).map(|own| own["description"].clone());
                if let Some(own @ Value::String(_)) = own {
                    field["description"] = own;
                }
                properties.insert(name.to_owned(), field);
            }
        }
        fields.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            Value::Array(vec![kind(resource)]),
        );
    }
    add_selectable_fields(resource, &mut schema);
    schema
}

#[cfg(test)]
mod tests {
    use steersman_schema::builtin::built_in;
    use steersman_schema::custom_schema::CustomSchema;

    use super::*;

    #[test]
    fn a_tag_follows_what_a_document_shows_and_nothing_else() {
        let custom = |schema: &'static str, change: &dyn Fn(&mut Resource)| {
            let mut resource = built_in().swap_remove(0);
            resource.schema = Some(Arc::new(CustomSchema::new(schema.into())));
            change(&mut resource);
            tag([Arc::new(resource)].iter())
        };
        let first = custom("{}", &|_| {});
        assert_eq!(custom("{}", &|one| one.edition = 7), first);
        assert_ne!(custom("{\"type\":\"object\"}", &|_| {}), first);
        assert_ne!(custom("{}", &|one| one.namespaced ^= true), first);
    }
}
