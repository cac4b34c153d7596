//! Machine: decodes a built-in object as Go does: refuses values of a wrong JSON type, drops unknown fields.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};
use steersman_apimachinery::quantity::Quantity;
use steersman_apimachinery::times;

use super::Scalar;
use super::base64;
use super::go;
use super::table::{self, Type, TypeNode};

/// The type of the schemas of custom resources.
const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

#[derive(Debug, Default)]
struct ObjectDecoder {
    /// Paths of the members that the type does not have.
    unknown: Vec<String>,
    /// The message of Go's decoder about the first value of a wrong type.
    refusal: Option<String>,
}

/// The path of a value, as a segment after the path of the parent value. Its text is built only for a message.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    /// The parent's path; `None` for the members of the object itself.
    above: Option<&'a Self>,
    segment: Segment<'a>,
}

/// The segment of a path that leads from a value to a value inside.
#[derive(Debug, Clone, Copy)]
enum Segment<'a> {
    Field(&'static Type, &'a str),
    Index(usize),
    /// To the value under a key of a map.
    Key(&'a str),
}

impl<'a> At<'a> {
    fn below(above: Option<&'a Self>, segment: Segment<'a>) -> Self {
        Self { above, segment }
    }

    /// Returns the last part of the name of the Go type that has the field, and the field's name.
    fn field(&self) -> (&'static str, &'a str) {
        let mut at = Some(self);
        while let Some(here) = at {
            if let Segment::Field(ty, name) = here.segment {
                return (ty.name.rsplit('.').next().unwrap_or(ty.name), name);
            }
            at = here.above;
        }
        ("", "")
    }

    /// Returns the path: with list indexes and map keys if it is to be whole, as in
    /// `spec.containers[0].name`, otherwise as in `spec.containers.name`.
    fn path(&self, whole: bool) -> String {
        let mut path = String::new();
        self.write(&mut path, whole);
        path
    }

    fn write(&self, out: &mut String, whole: bool) {
        if let Some(above) = self.above {
            above.write(out, whole);
        }
        match self.segment {
            Segment::Index(index) if whole => out.push_str(&format!("[{index}]")),
            Segment::Field(_, name) => push_name(out, name),
            Segment::Key(name) if whole => push_name(out, name),
            Segment::Index(_) | Segment::Key(_) => {}
        }
    }
}

fn push_name(out: &mut String, name: &str) {
    if !out.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}

/// Normalises an object by the type of its kind: drops nulls and unknown members, and writes quantities and times as
/// kube-apiserver does. Skips `apiVersion`, `kind` and metadata. Returns the paths of the dropped members.
///
/// # Errors
/// Fails with the message of Go's decoder for a value of a wrong type.
pub fn decode(api_version: &str, kind: &str, object: &mut Value) -> Result<Vec<String>, String> {
    let (Some(found), Some(members)) = (table::kind(api_version, kind), object.as_object_mut())
    else {
        return Ok(Vec::new());
    };
    let mut decoder = ObjectDecoder::default();
    decoder.members(found, members, None);
    decoder.refusal.map_or(Ok(decoder.unknown), Err)
}

/// Normalises an object's metadata as [`decode`] does the rest of the object. Returns the paths of
/// the dropped members. Paths start at the object named by `within`.
///
/// # Errors
/// Fails with the message of Go's decoder for a value of a wrong type.
pub fn decode_metadata(
    metadata: &mut Map<String, Value>,
    within: bool,
) -> Result<Vec<String>, String> {
    let Some(found) = table::named("meta.v1.ObjectMeta") else {
        return Ok(Vec::new());
    };
    let above = At::below(None, Segment::Field(found, "metadata"));
    let nothing = At::below(None, Segment::Key(""));
    let mut decoder = ObjectDecoder::default();
    let at = if within { &above } else { &nothing };
    decoder.members(found, metadata, Some(at));
    if let Some(refusal) = decoder.refusal {
        return Err(refusal);
    }
    if !within {
        let named = |path: &mut String| path.insert_str(0, "metadata.");
        decoder.unknown.iter_mut().for_each(named);
    }
    Ok(decoder.unknown)
}

impl ObjectDecoder {
    /// Decodes the members of a struct. `at` is `None` for the object itself.
    fn members(
        &mut self,
        ty: &'static Type,
        members: &mut Map<String, Value>,
        above: Option<&At<'_>>,
    ) {
        members.retain(|name, value| {
            if above.is_none() && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let at = At::below(above, Segment::Field(ty, name));
            let Some(node) = ty.fields.get(name.as_str()) else {
                self.unknown.push(at.path(true));
                return false;
            };
            if value.is_null() {
                return false;
            }
            self.value(node, value, &at);
            true
        });
    }

    fn value(&mut self, node: &'static TypeNode, value: &mut Value, at: &At<'_>) {
        match node {
            TypeNode::Any => self.schema(value, at),
            TypeNode::Scalar(scalar) => self.scalar(*scalar, node, value, at),
            TypeNode::Int32 => self.scalar(Scalar::Integer, node, value, at),
            TypeNode::Ref(named) => match (named.ty(), &mut *value) {
                (None, _) => {}
                (Some(ty), Value::Object(members)) => self.members(ty, members, Some(at)),
                // Go decodes a null element of a list as an empty struct.
                (Some(_), Value::Null) => *value = Value::Object(Map::new()),
                (Some(_), _) => self.refuse(value, node, at),
            },
            TypeNode::List { items, .. } => match value {
                Value::Array(list) => {
                    for (index, item) in list.iter_mut().enumerate() {
                        self.value(items, item, &At::below(Some(at), Segment::Index(index)));
                    }
                }
                Value::Null => {}
                _ => self.refuse(value, node, at),
            },
            TypeNode::Map { values, .. } => match value {
                Value::Object(members) => {
                    for (key, value) in members.iter_mut() {
                        self.value(values, value, &At::below(Some(at), Segment::Key(key)));
                        thousandths(values, value);
                    }
                }
                Value::Null => {}
                _ => self.refuse(value, node, at),
            },
        }
    }

    /// Decodes a field of `JSONSchemaProps` that holds either a schema or an alternative, which the
    /// table of types does not describe.
    fn schema(&mut self, value: &mut Value, at: &At<'_>) {
        let Segment::Field(ty, name) = at.segment else {
            return;
        };
        if ty.name != SCHEMA {
            return;
        }
        match (name, value) {
            ("items" | "additionalItems" | "additionalProperties", Value::Object(members)) => {
                self.members(ty, members, Some(at));
            }
            ("items", Value::Array(schemas)) => {
                for schema in schemas.iter_mut().filter_map(Value::as_object_mut) {
                    self.members(ty, schema, Some(at));
                }
            }
            ("additionalItems" | "additionalProperties", Value::Bool(_)) => {}
            ("additionalItems" | "additionalProperties", _) => {
                self.fail("boolean or JSON schema expected".to_owned());
            }
            _ => {}
        }
    }

    fn scalar(&mut self, scalar: Scalar, node: &'static TypeNode, value: &mut Value, at: &At<'_>) {
        if value.is_null() {
            // Go decodes null as the zero of the type.
            *value = match scalar {
                Scalar::String | Scalar::Bytes => Value::from(""),
                Scalar::Boolean => Value::from(false),
                Scalar::Integer | Scalar::Number | Scalar::IntOrString => Value::from(0),
                Scalar::Quantity => Value::from("0"),
                Scalar::Time => Value::Null,
            };
            return;
        }
        match scalar {
            Scalar::String if value.is_string() => {}
            Scalar::Boolean if value.is_boolean() => {}
            Scalar::Number if value.is_number() => {}
            Scalar::Integer if fits(node, value) => {}
            Scalar::Integer if value.is_number() => {
                let found = format!("number {value}");
                let (owner, field) = at.field();
                self.refuse_as(&found, &go::type_of(node, owner, field), at);
            }
            Scalar::Bytes if value.is_string() => {
                let text = value.as_str().unwrap_or_default();
                match base64::decode(text) {
                    Ok(bytes) => *value = Value::String(STANDARD.encode(bytes)),
                    Err(at) => self.fail(format!("illegal base64 data at input byte {at}")),
                }
            }
            Scalar::Time => self.time(value, at),
            Scalar::Quantity => self.quantity(value),
            Scalar::IntOrString => {
                if value.is_number() && !fits(&TypeNode::Int32, value) {
                    self.refuse_as(&format!("number {value}"), "int32", at);
                } else if !value.is_number() && !value.is_string() {
                    self.refuse_as(go::type_word(value), "int32", at);
                }
            }
            Scalar::String | Scalar::Boolean | Scalar::Number | Scalar::Integer | Scalar::Bytes => {
                self.refuse(value, node, at)
            }
        }
    }

    fn time(&mut self, value: &mut Value, at: &At<'_>) {
        let Some(text) = value.as_str() else {
            self.refuse_as(go::type_word(value), "string", at);
            return;
        };
        let micro = go::MICRO_TIMES.contains(&at.field().1);
        let checked = if micro {
            times::check_micro(text)
        } else {
            times::check(text)
        };
        match (checked, text.parse::<Timestamp>()) {
            (Ok(()), Ok(_)) if !micro && is_as_written(text) => {}
            (Ok(()), Ok(time)) => {
                let form = if micro {
                    "%Y-%m-%dT%H:%M:%S.%6fZ"
                } else {
                    "%Y-%m-%dT%H:%M:%SZ"
                };
                *value = Value::String(time.strftime(form).to_string());
            }
            (Err(why), _) => self.fail(why),
            (Ok(()), Err(_)) => {}
        }
    }

    fn quantity(&mut self, value: &mut Value) {
        let text = match &*value {
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        match Quantity::parse(&text) {
            Ok(read) => *value = Value::String(read.to_string()),
            Err(why) => self.fail(why.to_owned()),
        }
    }

    fn refuse(&mut self, found: &Value, node: &'static TypeNode, at: &At<'_>) {
        let (owner, field) = at.field();
        let wanted = go::type_of(node, owner, field);
        self.refuse_as(go::type_word(found), &wanted, at);
    }

    fn refuse_as(&mut self, found: &str, wanted: &str, at: &At<'_>) {
        let (owner, fields) = (at.field().0, at.path(false));
        self.fail(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{fields} of type {wanted}"
        ));
    }

    /// Records a failure. Only the first one is reported.
    fn fail(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }
}

/// Returns whether a valid time already has the form that the server writes: whole seconds, UTC, and no leap second.
fn is_as_written(time: &str) -> bool {
    time.len() == 20 && time.ends_with('Z') && time.get(17..19).is_some_and(|s| s < "60")
}

/// Rounds the amounts of a resource list up to thousandths.
fn thousandths(node: &TypeNode, value: &mut Value) {
    if let (TypeNode::Scalar(Scalar::Quantity), Some(text)) = (node, value.as_str())
        && let Ok(read) = Quantity::parse(text)
    {
        *value = Value::String(read.in_thousandths().to_string());
    }
}

/// Returns whether a number is whole and within the bounds of its type.
fn fits(node: &TypeNode, value: &Value) -> bool {
    let number = value.as_i64();
    match node {
        TypeNode::Int32 => number.is_some_and(|number| i32::try_from(number).is_ok()),
        _ => number.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: &Value) -> (Result<Vec<String>, String>, Value) {
        let mut object = json!({"kind": "Pod", "metadata": {"odd": 1}, "spec": spec});
        let unknown = decode("v1", "Pod", &mut object);
        (unknown, object["spec"].clone())
    }

    #[test]
    fn unknown_fields_are_dropped_at_every_depth() {
        let (unknown, spec) = pod(
            &json!({"extra": 2, "nodeName": null, "nodeSelector": {"a": null},
            "containers": [{"name": "c", "bogus": 1, "resources": {"limits": {"cpu": "1000m", "memory": 1024}}}]}),
        );
        assert_eq!(unknown.unwrap(), ["spec.containers[0].bogus", "spec.extra"]);
        assert_eq!(
            spec,
            json!({"nodeSelector": {"a": ""}, "containers": [{"name": "c",
                "resources": {"limits": {"cpu": "1", "memory": "1024"}}}]})
        );
    }

    #[test]
    fn wrong_types_are_refused_in_gos_words() {
        for (spec, expected) in [
            (
                json!({"containers": {}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                json!({"containers": [{"command": [1]}]}),
                "json: cannot unmarshal number into Go struct field Container.spec.containers.command of type string",
            ),
            (
                json!({"priority": 3_000_000_000_i64}),
                "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                json!({"activeDeadlineSeconds": 1.5}),
                "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.activeDeadlineSeconds of type int64",
            ),
            (
                json!({"restartPolicy": true}),
                "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
            ),
            (
                json!({"containers": [{"ports": [{"containerPort": "x"}]}]}),
                "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                json!({"nodeSelector": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
            ),
            (
                json!({"overhead": {"cpu": "one"}}),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ] {
            assert_eq!(pod(&spec).0.unwrap_err(), expected);
        }
        assert_eq!(
            pod(&json!("text")).0.unwrap_err(),
            "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"
        );
    }

    #[test]
    fn schemas_inside_schemas_are_decoded() {
        let at = "json: cannot unmarshal";
        let place = "spec.versions.schema.openAPIV3Schema";
        for (schema, expected) in [
            (
                json!({"properties": {"n": {"minimum": "x"}}}),
                format!(
                    "{at} string into Go struct field JSONSchemaProps.{place}.properties.minimum of type float64"
                ),
            ),
            (
                json!({"type": ["object"]}),
                format!(
                    "{at} array into Go struct field JSONSchemaProps.{place}.type of type string"
                ),
            ),
            (
                json!({"items": {"maxLength": 1.5}}),
                format!(
                    "{at} number 1.5 into Go struct field JSONSchemaProps.{place}.items.maxLength of type int64"
                ),
            ),
            (
                json!({"additionalProperties": "x"}),
                "boolean or JSON schema expected".to_owned(),
            ),
        ] {
            let mut crd = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
            let kind = "CustomResourceDefinition";
            let read = decode("apiextensions.k8s.io/v1", kind, &mut crd);
            assert_eq!(read.unwrap_err(), expected);
        }
    }

    #[test]
    fn times_are_written_in_seconds_of_utc() {
        let mut pod = json!({"status": {"startTime": "2026-01-02T03:04:05.678+01:00"}});
        decode("v1", "Pod", &mut pod).unwrap();
        assert_eq!(pod["status"]["startTime"], "2026-01-02T02:04:05Z");
        let mut pod = json!({"status": {"startTime": "soon"}});
        assert_eq!(
            decode("v1", "Pod", &mut pod).unwrap_err(),
            "parsing time \"soon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"soon\" as \"2006\""
        );
    }
}
