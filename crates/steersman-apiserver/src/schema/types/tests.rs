//! What the views of built-in types and of custom schemas say.

use serde_json::json;

use super::*;

#[test]
fn a_custom_schema_and_the_metadata_of_its_objects() {
    let schema = Structural::compile(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "box": {"type": "object", "x-kubernetes-map-type": "atomic",
                "additionalProperties": {"type": "integer"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
    }}));
    let root = TypeRef::custom(&schema, true);
    let spec = root.field("spec").unwrap();
    assert_eq!(spec.shape(), Shape::Struct);
    assert!(spec.field("none").is_none());
    let ports = spec.field("ports").unwrap();
    assert_eq!(ports.shape(), Shape::List);
    assert!(matches!(ports.list(), ListKind::Map(keys) if keys == ["port", "protocol"]));
    assert_eq!(ports.key_default("protocol").unwrap().as_str(), Some("TCP"));
    assert_eq!(ports.key_default("port"), None);
    assert_eq!(spec.field("tags").unwrap().list(), ListKind::Set);
    let boxed = spec.field("box").unwrap();
    assert_eq!(
        (boxed.shape(), boxed.map_kind()),
        (Shape::Map, MapKind::Atomic)
    );
    let free = spec.field("free").unwrap();
    assert_eq!(free.shape(), Shape::Any);
    assert_eq!(free.field("x").unwrap().map_kind(), MapKind::Granular);
    let metadata = root.field("metadata").unwrap();
    assert_eq!(metadata.field("finalizers").unwrap().list(), ListKind::Set);
    assert!(metadata.field("odd").is_none());
}
