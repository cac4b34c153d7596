//! Machine: OpenAPI v3, from which kubectl validates and explains, and from which clients are generated.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_schema::resource::Resource;
use steersman_schema::stored_schemas::StoredSchemas;
use steersman_schema::types::{self, Descriptions};

use crate::discovery::{ListedSubresource, group_version, group_versions, of_version};
use crate::groups;
use crate::members::Members;
use crate::paths::{self, Components, EVENT, PATCH, reference};
use crate::reduction;

pub(crate) const INFO: (&str, &str) = ("Kubernetes", "v1.36.0");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edition {
    /// Custom schemas have only what v2 can express. The rest of the document is v3 and converted later.
    V2,
    V3,
}

/// Returns the paths of the documents below `/openapi/v3/`.
pub fn paths(resources: &[Arc<Resource>]) -> impl Iterator<Item = String> {
    let versions = group_versions(resources).into_iter();
    versions.map(|(group, version)| document_path(group, version))
}

/// Builds `/openapi/v3`: the paths of the documents and their hashes.
pub fn index(documents: Vec<(String, String)>) -> Value {
    let mut paths = Map::new();
    for (path, tag) in documents {
        let url = format!("/openapi/v3/{path}?hash={}", tag.trim_matches('"'));
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

/// Returns the `ETag`, in quotes, of a document about these resources. The tag depends on all that the
/// documents are built from, so that an index names the documents without building them.
pub fn tag<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>) -> String {
    let mut hasher = DefaultHasher::new();
    // The types and descriptions of the built-in kinds change with the program.
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    Descriptions::tag().hash(&mut hasher);
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
pub fn tag_of(resources: &[Arc<Resource>], path: &str) -> Option<String> {
    let (group, version) = version_at(resources, path)?;
    Some(tag(of_version(resources, group, version)))
}

fn version_at<'a>(resources: &'a [Arc<Resource>], path: &str) -> Option<(&'a str, &'a str)> {
    let mut versions = group_versions(resources).into_iter();
    versions.find(|(group, version)| document_path(group, version) == path)
}

/// Builds the document at `api/v1` or `apis/<group>/<version>`, if the version is served.
///
/// kubectl looks for a PATCH of its object's kind with a `fieldValidation` parameter; if there is
/// one, it leaves validation to the server. `kubectl explain` reads the schemas.
pub(crate) fn document(
    resources: &[Arc<Resource>],
    path: &str,
    descriptions: &Descriptions,
    edition: Edition,
) -> Option<Value> {
    let (group, version) = version_at(resources, path)?;
    let root = format!("/{path}");
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    let options = types::describe_named("meta.v1.DeleteOptions", &mut schemas);
    let status = types::describe_named("meta.v1.Status", &mut schemas);
    schemas.insert(PATCH.to_owned(), json!({ "type": "object" }));
    schemas.insert(EVENT.to_owned(), event());
    for resource in of_version(resources, group, version) {
        let writer = SchemaWriter {
            resource,
            descriptions,
            edition,
        };
        let (object, list) = writer.add(&mut schemas);
        let components = Components {
            object: &object,
            list: &list,
            options: &options,
            status: &status,
        };
        let component = |below: &ListedSubresource<'_>| {
            let version = if below.group.is_empty() {
                resource.api_version()
            } else {
                group_version(below.group, below.version)
            };
            types::describe(&version, below.kind, &mut schemas)
        };
        paths::add(resource, &root, components, component, &mut paths);
    }
    let built_in = of_version(resources, group, version).any(|one| one.built_in);
    if built_in {
        groups::add_resources((group, version), &root, &mut paths, &mut schemas);
    }
    // The one document of v2 takes the built-in types beside a custom resource from the built-in kinds.
    if built_in || edition == Edition::V3 {
        descriptions.add_to(&mut schemas);
    }
    let (title, version) = INFO;
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": title, "version": version },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

/// Builds the document of a group version for v3 like `document`, as JSON, and decodes one custom resource at a time.
pub fn json(
    resources: &[Arc<Resource>],
    path: &str,
    descriptions: &Descriptions,
) -> Option<Vec<u8>> {
    let (group, version) = version_at(resources, path)?;
    let all: Vec<_> = of_version(resources, group, version).cloned().collect();
    if all.iter().any(|one| one.built_in) {
        let document = document(resources, path, descriptions, Edition::V3)?;
        return Some(document.to_string().into_bytes());
    }
    let (mut paths, mut schemas) = (Members::default(), Members::default());
    for part in all.chunks(1) {
        let mut document = document(part, path, descriptions, Edition::V3)?;
        for (members, value) in [
            (&mut paths, document["paths"].take()),
            (&mut schemas, document["components"]["schemas"].take()),
        ] {
            if let Value::Object(value) = value {
                for (name, value) in value {
                    members.insert(name, value.to_string().into_bytes());
                }
            }
        }
    }
    let mut out = Vec::with_capacity(paths.length() + schemas.length() + 128);
    let (title, version) = INFO;
    out.extend_from_slice(br#"{"components":{"schemas":"#);
    schemas.write(&mut out);
    let middle = format!(
        r#"}},"info":{{"title":"{title}","version":"{version}"}},"openapi":"3.0.0","paths":"#
    );
    out.extend_from_slice(middle.as_bytes());
    paths.write(&mut out);
    out.push(b'}');
    Some(out)
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

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

/// Returns a schema name such as `com.example.v1.Website`: the reversed group, the version, the kind.
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

struct SchemaWriter<'a> {
    resource: &'a Resource,
    descriptions: &'a Descriptions,
    edition: Edition,
}

impl SchemaWriter<'_> {
    /// Adds the schemas of the resource's objects and lists, and returns their names.
    fn add(&self, schemas: &mut Map<String, Value>) -> (String, String) {
        let resource = self.resource;
        let describe = || types::describe(&resource.api_version(), &resource.kind, schemas);
        let known = resource.built_in.then(describe).flatten();
        let name = if let Some(name) = known {
            schemas[&name]["x-kubernetes-group-version-kind"] = json!([kind(resource)]);
            name
        } else {
            let name = schema_name(resource, &resource.kind);
            let metadata = reference(&types::describe_named("meta.v1.ObjectMeta", schemas));
            schemas.insert(name.clone(), self.component(&metadata));
            name
        };
        let before = name.strip_suffix(&resource.kind).unwrap_or_default();
        let list_name = format!("{before}{}", resource.list_kind);
        if resource.verbs.contains(&"list") {
            let of_list = reference(&types::describe_named("meta.v1.ListMeta", schemas));
            schemas.insert(list_name.clone(), self.list(&name, &of_list));
        }
        (name, list_name)
    }

    /// Returns the fields that every object or list has, with the words of a type of the metadata.
    fn standard(&self, of: &str, metadata: &Value) -> [(&'static str, Value); 3] {
        let field = |of: &str, name: &'static str| {
            let component = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{of}");
            self.descriptions.of_field(&component, name)
        };
        let text = |name| {
            let description = field("TypeMeta", name);
            let text = json!({ "type": "string", "description": description });
            (name, text)
        };
        let description = field(of, "metadata");
        let metadata = json!({ "description": description, "allOf": [metadata] });
        [text("apiVersion"), text("kind"), ("metadata", metadata)]
    }

    /// Builds the schema of a list of objects (upstream: `buildListSchema`).
    fn list(&self, name: &str, metadata: &Value) -> Value {
        let resource = self.resource;
        let standard = self.standard("PartialObjectMetadataList", metadata);
        let standard = standard.map(|(name, field)| (name.to_owned(), field));
        let mut properties = Map::from_iter(standard);
        let about = format!(
            "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
            resource.plural
        );
        let items = json!({
            "type": "array", "description": about, "items": { "allOf": [reference(name)] },
        });
        properties.insert("items".to_owned(), items);
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

    /// Builds the schema of a custom resource's objects (upstream: `buildKubeNative`).
    fn component(&self, metadata: &Value) -> Value {
        let resource = self.resource;
        let mut schema = match resource.schema.as_ref().map(|schema| schema.decode()) {
            Some(schema @ Value::Object(_)) => schema,
            _ => json!({ "type": "object" }),
        };
        let in_v2 = self.edition == Edition::V2;
        if in_v2 && is_open(&schema) {
            // kubectl would refuse every field beside those of a schema with properties.
            schema = json!({ "type": "object" });
        } else {
            if in_v2 {
                reduction::reduce(&mut schema);
            }
            self.complete_embedded(&mut schema, metadata);
            let standard = self.standard("PartialObjectMetadata", metadata);
            add_properties(&mut schema, standard);
        }
        schema["x-kubernetes-group-version-kind"] = json!([kind(resource)]);
        add_selectable_fields(resource, &mut schema);
        schema
    }

    /// Adds apiVersion, kind and metadata to the schemas of embedded resources.
    fn complete_embedded(&self, schema: &mut Value, metadata: &Value) {
        let Some(fields) = schema.as_object_mut() else {
            return;
        };
        for name in ["items", "additionalProperties"] {
            if let Some(below) = fields.get_mut(name) {
                self.complete_embedded(below, metadata);
            }
        }
        let below = fields.get_mut("properties").and_then(Value::as_object_mut);
        for below in below.into_iter().flat_map(Map::values_mut) {
            self.complete_embedded(below, metadata);
        }
        if schema["x-kubernetes-embedded-resource"] != true
            || self.edition == Edition::V2 && is_open(schema)
        {
            return;
        }
        let mut standard = self.standard("PartialObjectMetadata", metadata);
        for ((_, field), about) in standard.iter_mut().zip(EMBEDDED) {
            field["description"] = about.into();
        }
        add_properties(schema, standard);
        let fields = schema.as_object_mut();
        let required = fields.map(|fields| fields.entry("required").or_insert_with(|| json!([])));
        if let Some(Value::Array(required)) = required {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|known| known == name) {
                    required.push(json!(name));
                }
            }
        }
    }
}

/// The descriptions of apiVersion and kind in an embedded resource (upstream: `addEmbeddedProperties`).
const EMBEDDED: [&str; 2] = [
    "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
];

/// Returns whether a schema preserves unknown fields.
fn is_open(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn add_properties(schema: &mut Value, added: [(&'static str, Value); 3]) {
    let fields = schema.as_object_mut();
    let properties = fields.map(|fields| fields.entry("properties").or_insert_with(|| json!({})));
    if let Some(Value::Object(properties)) = properties {
        properties.extend(added.map(|(name, field)| (name.to_owned(), field)));
    }
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

#[cfg(test)]
mod tests {
    use steersman_schema::builtin::built_in;
    use steersman_schema::custom_schema::CustomSchema;

    use super::*;

    /// SRV-CRD-1: only one custom resource at a time is decoded, and the text is the same.
    #[test]
    fn the_text_of_a_document_is_that_of_the_document() {
        let custom = |kind: &str, schema: &'static str| {
            let mut resource = built_in().swap_remove(0);
            resource.built_in = false;
            resource.group = "example.com".to_owned();
            resource.version = "v1".to_owned();
            resource.kind = kind.to_owned();
            resource.plural = format!("{}s", kind.to_lowercase());
            resource.schema = Some(Arc::new(CustomSchema::new(schema.into())));
            Arc::new(resource)
        };
        let mut resources: Vec<_> = built_in().into_iter().map(Arc::new).collect();
        let quoted = r#"{"type":"object","description":"\"quoted\""}"#;
        resources.push(custom("Other", quoted));
        let number = r#"{"type":"object","properties":{"spec":{"type":"integer"}}}"#;
        resources.push(custom("Another", number));
        let texts = Descriptions::unpack();
        for path in ["apis/example.com/v1", "api/v1", "apis/apps/v1"] {
            let document = document(&resources, path, &texts, Edition::V3).unwrap();
            let json = json(&resources, path, &texts).unwrap();
            assert!(document.to_string().as_bytes() == json, "{path}");
        }
        assert_eq!(json(&resources, "apis/example.com/v2", &texts), None);
    }

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
