//! Machine: OpenAPI v2: as JSON with the schemas of all kinds, and as protobuf for kubectl before
//! 1.29, which validates with this form only.
//!
//! The protobuf form holds only what those versions look for: a PATCH of each kind that takes
//! `fieldValidation`. Field numbers are those of gnostic's `OpenAPIv2.proto`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steersman_schema::resource::Resource;

use crate::http::documents::openapi;

/// The media type of the protobuf document in Accept headers.
const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the protobuf document in answers.
pub(crate) const CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Returns whether a client accepts the protobuf document.
pub(crate) fn is_accepted(accept: Option<&str>) -> bool {
    let mut clauses = accept.unwrap_or_default().split(',');
    clauses.any(|clause| matches!(clause.trim(), ASKED | CONTENT_TYPE))
}

/// Returns whether a client accepts none of the forms that a kube-apiserver has.
pub(crate) fn is_unknown(accept: Option<&str>) -> bool {
    let mut clauses = accept.unwrap_or("*/*").split(',');
    !clauses.any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        matches!(
            media,
            "*/*" | "application/*" | "application/json" | ASKED | CONTENT_TYPE
        )
    })
}

/// The members of a JSON object, serialised.
#[derive(Default)]
struct Members(BTreeMap<String, String>);

impl Members {
    fn add(&mut self, members: impl IntoIterator<Item = (String, Value)>) {
        let members = members.into_iter();
        self.0
            .extend(members.map(|(name, value)| (name, value.to_string())));
    }

    /// Returns the upper bound of the length of the object.
    fn length(&self) -> usize {
        let each = self.0.iter();
        each.map(|(name, text)| 2 * name.len() + text.len() + 4)
            .sum()
    }

    /// Writes the object, and frees each member that is written.
    fn write(mut self, out: &mut String) {
        let mut before = '{';
        while let Some((name, text)) = self.0.pop_first() {
            out.push(before);
            out.push_str(&Value::from(name).to_string());
            out.push(':');
            out.push_str(&text);
            before = ',';
        }
        out.push('}');
    }
}

/// Builds the document as JSON: the v3 documents of all versions, converted to v2.
///
/// Only one custom resource at a time is decoded: decoded, the schemas of many definitions take ten
/// times the memory of the document.
pub(crate) fn json(resources: &[Arc<Resource>]) -> String {
    let (mut paths, mut definitions) = (Members::default(), Members::default());
    let (built_in, custom): (Vec<_>, Vec<_>) =
        resources.iter().cloned().partition(|one| one.built_in);
    for part in std::iter::once(&*built_in).chain(custom.chunks(1)) {
        let documents = openapi::paths(part).filter_map(|path| openapi::document(part, &path));
        for mut document in documents {
            point_to_definitions(&mut document);
            if let Value::Object(schemas) = document["components"]["schemas"].take() {
                let known = |name: &str| part.len() == 1 && definitions.0.contains_key(name);
                let new: Vec<_> = schemas
                    .into_iter()
                    .filter(|(name, _)| !known(name))
                    .collect();
                definitions.add(new);
            }
            if let Value::Object(of_version) = document["paths"].take() {
                paths.add(
                    of_version
                        .into_iter()
                        .map(|(path, item)| (path, path_in_v2(item))),
                );
            }
        }
    }
    let mut out = String::with_capacity(paths.length() + definitions.length() + 128);
    out.push_str(r#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.36.0"},"paths":"#);
    paths.write(&mut out);
    out.push_str(",\"definitions\":");
    definitions.write(&mut out);
    out.push('}');
    out
}

/// Converts the operations and the parameters of a path.
fn path_in_v2(item: Value) -> Value {
    let Value::Object(item) = item else {
        return item;
    };
    let mut of_path = Map::new();
    for (name, mut member) in item {
        if name == "parameters" {
            parameters_in_v2(&mut member);
        } else {
            member = in_v2(member);
        }
        of_path.insert(name, member);
    }
    Value::Object(of_path)
}

/// Moves the schema of each parameter into the parameter itself, as v2 requires.
fn parameters_in_v2(parameters: &mut Value) {
    for parameter in parameters.as_array_mut().into_iter().flatten() {
        if let (Value::Object(schema), Some(parameter)) =
            (parameter["schema"].take(), parameter.as_object_mut())
        {
            parameter.remove("schema");
            parameter.extend(schema);
        }
    }
}

/// Moves the parameters, body and answers of an operation to where v2 has them.
fn in_v2(mut operation: Value) -> Value {
    let Some(members) = operation.as_object_mut() else {
        return operation;
    };
    let mut parameters = members.remove("parameters").unwrap_or_else(|| json!([]));
    parameters_in_v2(&mut parameters);
    if let Some(mut body) = members.remove("requestBody") {
        let (media, schema) = one_schema(&mut body);
        let parameter = json!({"name": "body", "in": "body", "schema": schema,
            "required": body["required"] == true});
        if let Some(list) = parameters.as_array_mut() {
            list.push(parameter);
        }
        members.insert("consumes".to_owned(), json!(media));
    }
    if parameters != json!([]) {
        members.insert("parameters".to_owned(), parameters);
    }
    let mut produces = Vec::new();
    let answers = members.get_mut("responses").and_then(Value::as_object_mut);
    for answer in answers.into_iter().flat_map(Map::values_mut) {
        let (media, schema) = one_schema(answer);
        if !schema.is_null() {
            answer["schema"] = schema;
            produces = media;
        }
    }
    members.insert("produces".to_owned(), json!(produces));
    operation
}

/// Takes the media types of a content out of its holder, and the schema they share.
fn one_schema(holder: &mut Value) -> (Vec<String>, Value) {
    let content = holder.as_object_mut().and_then(|one| one.remove("content"));
    let Some(Value::Object(mut forms)) = content else {
        return (Vec::new(), Value::Null);
    };
    let media = forms.keys().cloned().collect();
    let schema = forms.values_mut().next().map(|form| form["schema"].take());
    (media, schema.unwrap_or_default())
}

/// Rewrites references to where v2 keeps its schemas. The recursion is bounded because the nesting
/// of schemas is.
fn point_to_definitions(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(target) if name == "$ref" => {
                        *target = target.replace("#/components/schemas/", "#/definitions/");
                    }
                    member => point_to_definitions(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_definitions),
        _ => {}
    }
}

/// Builds the document as protobuf.
pub(crate) fn document(resources: &[Arc<Resource>]) -> Bytes {
    let mut paths = Message::default();
    for resource in resources
        .iter()
        .filter(|known| known.verbs.contains(&"patch"))
    {
        let mut item = Message::default();
        item.text(1, &path(resource));
        let mut operations = Message::default();
        operations.message(8, &patch(resource));
        item.message(2, &operations);
        paths.message(2, &item);
    }
    let mut info = Message::default();
    info.text(1, "Kubernetes");
    info.text(2, "v1.36.0");
    let mut document = Message::default();
    document.text(1, "2.0");
    document.message(2, &info);
    document.message(8, &paths);
    document.bytes.into()
}

fn path(resource: &Resource) -> String {
    let root = if resource.group.is_empty() {
        "api"
    } else {
        "apis"
    };
    let namespace = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    format!(
        "/{root}/{}{namespace}/{}/{{name}}",
        resource.api_version(),
        resource.plural
    )
}

/// Builds the PATCH operation: its parameter and its kind.
fn patch(resource: &Resource) -> Message {
    let mut query = Message::default();
    query.text(2, "query");
    query.text(3, "Ignore, Warn or Strict: what becomes of unknown fields.");
    query.text(4, "fieldValidation");
    query.text(6, "string");
    let parameter = query.within(3).within(2).within(1);

    let kind = json!({
        "group": resource.group,
        "kind": resource.kind,
        "version": resource.version,
    });
    let mut value = Message::default();
    // The field holds YAML; JSON is YAML.
    value.text(2, &kind.to_string());
    let mut extension = Message::default();
    extension.text(1, "x-kubernetes-group-version-kind");
    extension.message(2, &value);

    let mut operation = Message::default();
    operation.message(8, &parameter);
    operation.message(13, &extension);
    operation
}

/// A protobuf message under construction.
#[derive(Debug, Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn text(&mut self, field: u8, text: &str) {
        self.delimited(field, text.as_bytes());
    }

    fn message(&mut self, field: u8, message: &Self) {
        self.delimited(field, &message.bytes);
    }

    /// Returns a message with this one in a field.
    fn within(&self, field: u8) -> Self {
        let mut outer = Self::default();
        outer.message(field, self);
        outer
    }

    fn delimited(&mut self, field: u8, content: &[u8]) {
        const LENGTH_DELIMITED: u8 = 2;
        self.bytes.push((field << 3) | LENGTH_DELIMITED);
        let mut length = content.len();
        while length >= 0x80 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the mask leaves seven bits"
            )]
            self.bytes.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the loop ends below 128")]
        self.bytes.push(length as u8);
        self.bytes.extend_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_protobuf() {
        let mut message = Message::default();
        message.text(1, "2.0");
        assert_eq!(message.bytes, b"\x0a\x032.0");
        assert_eq!(message.within(13).bytes, b"\x6a\x05\x0a\x032.0");
        let mut long = Message::default();
        long.text(2, &"x".repeat(300));
        assert_eq!(long.bytes[..3], [0x12, 0xac, 0x02]);
    }

    #[test]
    fn the_document_in_json_has_the_schemas_and_leads_to_them() {
        let resources: Vec<_> = steersman_schema::builtin::built_in()
            .into_iter()
            .map(Arc::new)
            .collect();
        let document: Value = serde_json::from_str(&json(&resources)).unwrap();
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
