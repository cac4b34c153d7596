//! Machine: OpenAPI v2 with the schemas of all kinds: as JSON, and as protobuf for client-go, which reads
//! only the protobuf form. Both forms have the same content.

mod conversion;
mod gnostic;

use std::sync::Arc;

use serde_json::Value;
use steersman_schema::resource::Resource;
use steersman_schema::types::Descriptions;

use crate::members::Members;
use crate::v3::{self, Edition, INFO};

/// The media type of the protobuf document in Accept headers.
const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the protobuf document in answers.
pub const CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns whether a client accepts the protobuf document.
pub fn is_accepted(accept: Option<&str>) -> bool {
    let mut clauses = accept.unwrap_or_default().split(',');
    clauses.any(|clause| matches!(clause.trim(), ASKED | CONTENT_TYPE))
}

/// Returns whether a client accepts none of the forms that a kube-apiserver has.
pub fn is_unknown(accept: Option<&str>) -> bool {
    let mut clauses = accept.unwrap_or("*/*").split(',');
    !clauses.any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        matches!(
            media,
            "*/*" | "application/*" | "application/json" | ASKED | CONTENT_TYPE
        )
    })
}

struct Encoding {
    path: fn(&str, &Value) -> Vec<u8>,
    definition: fn(&str, &Value) -> Vec<u8>,
}

#[derive(Default)]
struct Parts {
    paths: Members,
    definitions: Members,
}

impl Parts {
    /// Collects the v3 documents of all versions, converted to v2.
    ///
    /// Only one custom resource at a time is decoded: decoded schemas take ten times the memory of the document.
    fn collect(resources: &[Arc<Resource>], encoding: &Encoding) -> Self {
        let mut parts = Self::default();
        let descriptions = Descriptions::unpack();
        let (built_in, custom): (Vec<_>, Vec<_>) =
            resources.iter().cloned().partition(|one| one.built_in);
        for part in std::iter::once(&*built_in).chain(custom.chunks(1)) {
            for path in v3::paths(part) {
                if let Some(document) = v3::document(part, &path, &descriptions, Edition::V2) {
                    parts.add(document, part.len() == 1, encoding);
                }
            }
        }
        parts
    }

    /// Adds a document. With `keep`, existing definitions stay. Otherwise the definition of a kind in the kind's own
    /// document replaces an existing one: documents that only refer to the kind omit its group, version and kind.
    fn add(&mut self, mut document: Value, keep: bool, encoding: &Encoding) {
        conversion::references(&mut document);
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            for (name, mut schema) in schemas {
                let is_named = schema.get("x-kubernetes-group-version-kind").is_some();
                if (keep || !is_named) && self.definitions.has(&name) {
                    continue;
                }
                conversion::built_in(&mut schema);
                let encoded = (encoding.definition)(&name, &schema);
                self.definitions.insert(name, encoded);
            }
        }
        if let Value::Object(paths) = document["paths"].take() {
            for (path, item) in paths {
                let encoded = (encoding.path)(&path, &conversion::path(item));
                self.paths.insert(path, encoded);
            }
        }
    }
}

/// Builds the document as JSON.
pub fn json(resources: &[Arc<Resource>]) -> Vec<u8> {
    let text = |_: &str, value: &Value| value.to_string().into_bytes();
    let encoding = Encoding {
        path: text,
        definition: text,
    };
    let Parts { paths, definitions } = Parts::collect(resources, &encoding);
    let mut out = Vec::with_capacity(paths.length() + definitions.length() + 128);
    let (title, version) = INFO;
    let head =
        format!(r#"{{"swagger":"2.0","info":{{"title":"{title}","version":"{version}"}},"paths":"#);
    out.extend_from_slice(head.as_bytes());
    paths.write(&mut out);
    out.extend_from_slice(b",\"definitions\":");
    definitions.write(&mut out);
    out.push(b'}');
    out
}

/// Builds the document as protobuf.
pub fn protobuf(resources: &[Arc<Resource>]) -> Vec<u8> {
    let encoding = Encoding {
        path: |name, value| gnostic::named(name, value, gnostic::path_item),
        definition: |name, value| gnostic::named(name, value, gnostic::schema),
    };
    let Parts { paths, definitions } = Parts::collect(resources, &encoding);
    let bytes = |(_, bytes)| bytes;
    gnostic::document(
        INFO,
        paths.into_each().map(bytes),
        definitions.into_each().map(bytes),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_in_json_has_the_schemas_and_leads_to_them() {
        let resources: Vec<_> = steersman_schema::builtin::built_in()
            .into_iter()
            .map(Arc::new)
            .collect();
        let document: Value = serde_json::from_slice(&json(&resources)).unwrap();
        let name = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
        let patch = &document["paths"][name]["patch"];
        let reference = patch["responses"]["200"]["schema"]["$ref"]
            .as_str()
            .unwrap();
        let schema = reference.strip_prefix("#/definitions/").unwrap();
        assert!(document["definitions"][schema]["properties"]["spec"].is_object());
        assert_eq!(patch["parameters"][0]["type"], "string");
        let body = patch["parameters"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&body["in"], &body["required"]),
            (&json!("body"), &json!(true))
        );
        assert!(body["schema"]["$ref"].is_string() && patch.get("requestBody").is_none());
        assert_eq!(patch["consumes"].as_array().unwrap().len(), 4);
        assert_eq!(document["paths"][name]["parameters"][0]["type"], "string");
        assert_eq!(patch["produces"][0], "application/json");
        assert!(!document.to_string().contains("\"content\""));
        assert!(patch["parameters"][0].get("schema").is_none());
        assert!(!document.to_string().contains("#/components/"));
    }

    #[test]
    fn only_clients_that_accept_protobuf_get_the_protobuf_document() {
        assert!(is_accepted(Some(ASKED)));
        assert!(is_accepted(Some(&format!(
            "application/json, {CONTENT_TYPE}"
        ))));
        assert!(!is_accepted(Some("application/json")));
        assert!(!is_accepted(None));
        assert!(is_unknown(Some("image/png")) && is_unknown(Some("application/yaml")));
        assert!(!is_unknown(None) && !is_unknown(Some("image/png, application/json;q=0.5")));
    }
}
