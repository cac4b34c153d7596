//! Machine: reports the ignored fields of a body (unknown and duplicate ones), in the order of the body.

use serde_json::Value;
use steersman_apimachinery::json::duplicates::in_vain;
use steersman_apimachinery::status::Status;
use steersman_apimachinery::yaml;
use steersman_registry::{Registry, unknown_fields};
use steersman_schema::resource::Resource;

use crate::http::requests::negotiate::Format;

const UNKNOWN: &str = "unknown field \"";
const STRICT: &str = "strict decoding error: ";

pub(crate) struct IgnoredFields<'a> {
    body: &'a [u8],
    /// Whether unknown and duplicate fields are reported together, in the order of the body, as for built-in kinds in
    /// JSON. Otherwise the duplicate fields are reported first.
    ordered: bool,
    twice: Vec<String>,
}

impl<'a> IgnoredFields<'a> {
    /// Finds duplicate fields, unless `mode`, the `fieldValidation` of the query, is `Ignore`.
    ///
    /// # Errors
    /// 400 for duplicate fields if `mode` is `Strict`; the message also lists the unknown fields.
    pub(crate) fn new(
        body: &'a [u8],
        format: Format,
        mode: &str,
        (resource, kind): (&Resource, &str),
        object: &Value,
    ) -> Result<Self, Status> {
        let mut sent = Self {
            body,
            ordered: format == Format::Json && resource.built_in,
            twice: Vec::new(),
        };
        let strict = mode == "Strict";
        sent.twice = match format {
            _ if mode == "Ignore" => return Ok(sent),
            Format::Json => in_vain(body, &[]),
            Format::Yaml if strict => {
                let messages = yaml::twice(body);
                let first = (!messages.is_empty())
                    .then(|| format!("yaml: unmarshal errors:\n  {}", messages.join("\n  ")));
                first.into_iter().collect()
            }
            Format::Yaml => yaml::twice(body),
            Format::Protobuf => Vec::new(),
        };
        if !strict || sent.twice.is_empty() || !fits(object, resource, kind) {
            return Ok(sent);
        }
        let unknown = if kind == resource.kind {
            // An object that does not decode is refused later, because of its decoding error.
            let Ok(unknown) = unknown_fields(resource, &mut object.clone()) else {
                return Ok(sent);
            };
            unknown
        } else {
            Vec::new()
        };
        let (messages, version) = (sent.messages(unknown).join(", "), &resource.version);
        Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {STRICT}{messages}"
        )))
    }

    /// Returns `done`, the result of a write, and reports the ignored fields of its body: as warnings, and in the
    /// message of a refusal by strict validation.
    pub(crate) fn settle<T>(
        &self,
        registry: &Registry,
        done: Result<T, Status>,
    ) -> Result<T, Status> {
        let (decoded, all) = registry.take_warnings();
        let (unknown, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.starts_with(UNKNOWN));
        if decoded {
            registry.note_warnings(self.messages(unknown));
        }
        registry.note_warnings(others);
        done.map_err(|mut status| {
            if let Some((lead, messages)) = status.message.split_once(STRICT) {
                let unknown = messages.split(", ").map(str::to_owned).collect();
                let messages = self.messages(unknown).join(", ");
                status.message = format!("{lead}{STRICT}{messages}");
            }
            status
        })
    }

    fn messages(&self, unknown: Vec<String>) -> Vec<String> {
        let path = |one: &String| Some(one.strip_prefix(UNKNOWN)?.strip_suffix('"')?.to_owned());
        let paths: Option<Vec<String>> = unknown.iter().map(path).collect();
        let needs_order = self.ordered && self.twice.len() + unknown.len() > 1;
        let Some(paths) = paths.filter(|_| needs_order) else {
            return self.twice.iter().cloned().chain(unknown).collect();
        };
        let messages = in_vain(self.body, &paths);
        // `in_vain` returns the messages about the fields that it finds in the body, in the order of the body. The
        // messages about the other unknown fields follow at the end.
        let is_lost = |one: &String| !messages.contains(one);
        let lost: Vec<String> = unknown.into_iter().filter(is_lost).collect();
        messages.into_iter().chain(lost).collect()
    }
}

/// Returns whether an object has the `kind` and the `apiVersion` of the request, or leaves them out.
fn fits(object: &Value, resource: &Resource, kind: &str) -> bool {
    let is = |field: &str, wanted: &str| match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(found)) => found.is_empty() || found == wanted,
        Some(_) => false,
    };
    object.is_object()
        && is("kind", kind)
        && (kind != resource.kind || is("apiVersion", &resource.api_version()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ignored_fields_are_reported_in_the_order_of_the_body() {
        let resources = steersman_schema::builtin::built_in();
        let resource = resources
            .iter()
            .find(|one| one.kind == "ConfigMap")
            .unwrap();
        let body = br#"{"zz":1,"metadata":{"name":"a","x":{"y":1,"y":2}},"data":{"a":"1","a":"2"},"b":1,"b":2}"#;
        let object: Value = serde_json::from_slice(body).unwrap();
        let read =
            |mode| IgnoredFields::new(body, Format::Json, mode, (resource, "ConfigMap"), &object);
        let refused = read("Strict").err().unwrap();
        assert_eq!(
            refused.message,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
             unknown field \"zz\", unknown field \"metadata.x\", duplicate field \"data.a\", \
             unknown field \"b\""
        );
        let unknown = ["metadata.x", "b", "zz"].map(|path| format!("unknown field \"{path}\""));
        let messages = read("").unwrap().messages(unknown.to_vec());
        assert_eq!(
            refused.message.split_once(STRICT).unwrap().1,
            messages.join(", ")
        );
        assert!(read("Ignore").unwrap().messages(Vec::new()).is_empty());
        // An object of another kind is refused because of its kind, without a look at its fields.
        let other = json!({"kind": "Secret"});
        assert!(!fits(&other, resource, "ConfigMap"));
    }
}
