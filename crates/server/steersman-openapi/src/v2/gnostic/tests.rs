//! Tests of the encoding: a reader with the messages of gnostic turns the bytes into JSON again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_apimachinery::yaml;
use steersman_schema::builtin::built_in;
use steersman_schema::custom_schema::CustomSchema;

use super::*;
use crate::v2::{json as document_as_json, protobuf};

/// The messages of gnostic's `OpenAPIv2.proto` that documents of Kubernetes have: `number:name=type`, where `*` marks
/// a repeated field, and `^` one that stands for its holder.
const MESSAGES: &str = "\
Document 1:swagger=string 2:info=Info 8:paths=Paths 9:definitions=Schemas
Info 1:title=string 2:version=string
Paths 2:^=NamedPathItem
Schemas 1:^=NamedSchema
NamedPathItem 1:name=string 2:value=PathItem
NamedSchema 1:name=string 2:value=Schema
NamedResponseValue 1:name=string 2:value=ResponseValue
NamedAny 1:name=string 2:value=Any
Any 2:^=yaml
PathItem 2:get=Operation 3:put=Operation 4:post=Operation 5:delete=Operation 7:head=Operation 8:patch=Operation 9:parameters*=ParametersItem 10:^=NamedAny
Operation 1:tags*=string 3:description=string 5:operationId=string 6:produces*=string 7:consumes*=string 8:parameters*=ParametersItem 9:responses=Responses 13:^=NamedAny
Responses 1:^=NamedResponseValue
ResponseValue 1:^=Response
Response 1:description=string 2:schema=SchemaItem
SchemaItem 1:^=Schema
ParametersItem 1:^=Parameter
Parameter 1:^=BodyParameter 2:^=NonBodyParameter
NonBodyParameter 3:^=QueryParameter 4:^=PathParameter
BodyParameter 1:description=string 2:name=string 3:in=string 4:required=bool 5:schema=Schema
QueryParameter 1:required=bool 2:in=string 3:description=string 4:name=string 6:type=string 20:uniqueItems=bool
PathParameter 1:required=bool 2:in=string 3:description=string 4:name=string 5:type=string 19:uniqueItems=bool
Schema 1:$ref=string 2:format=string 3:title=string 4:description=string 6:multipleOf=double 7:maximum=double 8:exclusiveMaximum=bool 9:minimum=double 10:exclusiveMinimum=bool 11:maxLength=integer 12:minLength=integer 13:pattern=string 14:maxItems=integer 15:minItems=integer 16:uniqueItems=bool 17:maxProperties=integer 18:minProperties=integer 19:required*=string 20:enum*=Any 21:additionalProperties=AdditionalPropertiesItem 22:type=TypeItem 23:items=ItemsItem 25:properties=Schemas 31:^=NamedAny
AdditionalPropertiesItem 1:^=Schema 2:^=bool
TypeItem 1:^=string
ItemsItem 1:^=Schema
";

type Messages = BTreeMap<&'static str, Vec<(u64, &'static str, &'static str)>>;

fn messages() -> Messages {
    let read = |line: &'static str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let fields = words.map(|word| {
            let (number, rest) = word.split_once(':').unwrap();
            let (name, ty) = rest.split_once('=').unwrap();
            (number.parse().unwrap(), name, ty)
        });
        (name, fields.collect())
    };
    MESSAGES.lines().map(read).collect()
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    number
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

/// Reads a value: a scalar, or a message as the JSON that gnostic writes for it.
fn read(messages: &Messages, ty: &str, bytes: &[u8]) -> Value {
    let text = || std::str::from_utf8(bytes).unwrap();
    match ty {
        "string" => return text().into(),
        "yaml" => return yaml::parse(bytes).unwrap(),
        _ => {}
    }
    let mut members = Map::new();
    let mut replaced = None;
    let mut rest = bytes;
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        let found = messages[ty].iter().find(|(number, ..)| *number == tag >> 3);
        let (_, name, of) = found.unwrap_or_else(|| panic!("{ty} has no field {}", tag >> 3));
        let value = match (tag & 7, *of) {
            (0, "bool") => (varint(&mut rest) == 1).into(),
            (0, "integer") => varint(&mut rest).cast_signed().into(),
            (1, "double") => {
                let bits = take(&mut rest, 8).try_into().unwrap();
                f64::from_le_bytes(bits).into()
            }
            (2, of) => {
                let length = usize::try_from(varint(&mut rest)).unwrap();
                read(messages, of, take(&mut rest, length))
            }
            (wire, of) => panic!("{ty}.{name} is a {of}, and has wire type {wire}"),
        };
        if *name == "^" && of.starts_with("Named") {
            let key = value["name"].as_str().unwrap().to_owned();
            members.insert(key, value["value"].clone());
        } else if *name == "^" {
            replaced = Some(value);
        } else if let Some(name) = name.strip_suffix('*') {
            let list = members.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(value);
        } else {
            assert_eq!(members.insert((*name).to_owned(), value), None, "{name}");
        }
    }
    replaced.unwrap_or(Value::Object(members))
}

#[test]
fn the_document_is_the_same_in_both_encodings() {
    let mut resources = built_in();
    let mut custom = resources[0].clone();
    custom.group = "example.com".to_owned();
    custom.kind = "Website".to_owned();
    custom.plural = "websites".to_owned();
    custom.built_in = false;
    let schema = json!({
        "type": "object",
        "description": "A site: with YAML's signs - # and \u{e9}.",
        "properties": {
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "nullable": true },
            "spec": {
                "type": "object",
                "required": ["port"],
                "maxProperties": 4,
                "additionalProperties": true,
                "x-kubernetes-validations": [{ "rule": "self.port > 1", "message": "a: b" }],
                "properties": {
                    "port": {
                        "x-kubernetes-int-or-string": true,
                        "anyOf": [{ "type": "integer" }, { "type": "string" }],
                    },
                    "ratio": {
                        "type": "number", "minimum": -0.5, "maximum": 1.5, "multipleOf": 0.25, "default": 0.25,
                        "exclusiveMinimum": true, "enum": [0.25, 0.75],
                    },
                    "names": {
                        "type": "array", "minItems": 1, "maxItems": 300, "uniqueItems": true,
                        "items": { "type": "string", "minLength": 1, "pattern": "^a: .*$", "enum": ["a: b", "on"] },
                    },
                    "empty": { "type": "object", "properties": {} },
                    "embedded": {
                        "type": "object", "x-kubernetes-embedded-resource": true, "title": "Any",
                        "additionalProperties": { "type": "integer", "format": "int64" },
                    },
                },
            },
        },
    });
    custom.schema = Some(Arc::new(CustomSchema::new(schema.to_string().into())));
    resources.push(custom);
    let resources: Vec<_> = resources.into_iter().map(Arc::new).collect();
    let wanted: Value = serde_json::from_slice(&document_as_json(&resources)).unwrap();
    let found = read(&messages(), "Document", &protobuf(&resources));
    let schema = &found["definitions"]["com.example.v1.Website"]["properties"]["spec"];
    assert_eq!(schema["properties"]["ratio"]["multipleOf"], 0.25);
    let properties = schema["properties"].as_object().unwrap();
    assert!(properties["embedded"]["properties"]["metadata"]["$ref"].is_string());
    assert!(!schema.to_string().contains("anyOf"));
    for part in ["definitions", "paths"] {
        let [wanted, found] = [&wanted, &found].map(|document| document[part].as_object().unwrap());
        let names = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(found), names(wanted));
        for (name, wanted) in wanted {
            assert_eq!(found[name], *wanted, "{part} {name}");
        }
    }
    assert_eq!(found["info"], wanted["info"]);
    assert_eq!(found["swagger"], wanted["swagger"]);
}

/// The bytes of gnostic for a small schema.
#[test]
fn a_schema_has_the_bytes_that_gnostic_writes() {
    let value = json!({ "description": "D", "type": "string", "x-a": "b" });
    let mut bytes = Vec::new();
    schema(&value, &mut FieldWriter::new(&mut bytes));
    let wanted = [
        b"\x22\x01D".as_slice(),
        b"\xb2\x01\x08\x0a\x06string",
        b"\xfa\x01\x0b\x0a\x03x-a\x12\x04\x12\x02b\n",
    ];
    assert_eq!(bytes, wanted.concat());
}
