//! Tests of the views of built-in types and of custom schemas.

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
    assert_eq!(spec.shape(), ValueShape::Struct);
    assert!(spec.field("none").is_none());
    let ports = spec.field("ports").unwrap();
    assert_eq!(ports.shape(), ValueShape::List);
    assert!(matches!(ports.list(), ListKind::Map(keys) if keys == ["port", "protocol"]));
    assert_eq!(ports.key_default("protocol").unwrap().as_str(), Some("TCP"));
    assert_eq!(ports.key_default("port"), None);
    assert_eq!(spec.field("tags").unwrap().list(), ListKind::Set);
    let boxed = spec.field("box").unwrap();
    assert_eq!(boxed.shape(), ValueShape::Map);
    assert!(boxed.is_atomic_map());
    let free = spec.field("free").unwrap();
    assert_eq!(free.shape(), ValueShape::Map);
    assert!(!free.field("x").unwrap().is_atomic_map());
    let metadata = root.field("metadata").unwrap();
    assert_eq!(metadata.field("finalizers").unwrap().list(), ListKind::Set);
    assert!(metadata.field("odd").is_none());
}

/// [`table::read`] skips lines that it cannot parse.
#[test]
fn every_line_of_the_table_is_read() {
    let table = table::read(table::TEXT);
    let mut kinds = 0;
    for line in table::TEXT.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let found = &table.types[name];
        for word in words {
            if word.starts_with('@') {
                kinds += usize::from(word.starts_with("@kind:"));
                assert!(word == "@atomic" || word.starts_with("@kind:"), "{line}");
                continue;
            }
            let (field, node) = word.split_once(':').unwrap();
            let field = found.fields.get(field.trim_end_matches('!')).unwrap();
            check_node(field, node, &table);
        }
    }
    assert!(kinds > 60, "{kinds}");
}

fn check_node(node: &TypeNode, text: &str, table: &table::TypeTable) {
    match node {
        TypeNode::Any => assert_eq!(text, "any"),
        TypeNode::Int32 => assert_eq!(text, "int32"),
        TypeNode::Ref(named) => assert!(table.types.contains_key(named.name), "{named:?}"),
        TypeNode::Scalar(_) => assert!(!text.contains(['[', '{', '.']), "{text}"),
        TypeNode::List { items, kind, .. } => {
            let (_, rest) = text.split_once(']').unwrap();
            if let ListKind::Map(keys) = kind {
                let TypeNode::Ref(named) = &**items else {
                    panic!("{text}: elements have no fields");
                };
                for key in *keys {
                    assert!(
                        table.types[named.name].fields.contains_key(&**key),
                        "{text}"
                    );
                }
            }
            check_node(items, rest, table);
        }
        TypeNode::Map { values, .. } => check_node(values, text.split_once('}').unwrap().1, table),
    }
}

/// Every kind that is served has a type.
#[test]
fn every_built_in_kind_has_a_type() {
    for resource in crate::builtin::built_in() {
        let found = TypeRef::built_in(&resource.api_version(), &resource.kind);
        let found = found.unwrap_or_else(|| panic!("{}", resource.kind));
        assert_eq!(found.shape(), ValueShape::Struct);
        let metadata = found.field("metadata").unwrap();
        assert_eq!(metadata.name(), Some("ObjectMeta"));
    }
}

#[test]
fn built_in_lists_and_maps() {
    let pod = TypeRef::built_in("v1", "Pod").unwrap();
    let spec = pod.field("spec").unwrap();
    let containers = spec.field("containers").unwrap();
    assert!(matches!(containers.list(), ListKind::Map(keys) if keys == ["name"]));
    assert_eq!(containers.list_patch(), ListPatch::MergeBy("name"));
    let ports = containers.items().field("ports").unwrap();
    assert!(matches!(ports.list(), ListKind::Map(keys) if keys == ["containerPort", "protocol"]));
    assert_eq!(ports.list_patch(), ListPatch::MergeBy("containerPort"));
    assert_eq!(ports.key_default("protocol").unwrap().as_str(), Some("TCP"));
    let tolerations = spec.field("tolerations").unwrap();
    assert_eq!(tolerations.list(), ListKind::Atomic);
    assert_eq!(tolerations.list_patch(), ListPatch::Replace);
    assert!(spec.field("nodeSelector").unwrap().is_atomic_map());
    let labels = pod.field("metadata").unwrap().field("labels").unwrap();
    assert_eq!(labels.shape(), ValueShape::Map);
    assert!(!labels.is_atomic_map());
    assert_eq!(
        labels.field("any").unwrap().shape(),
        ValueShape::Scalar(Scalar::String)
    );
    let deployment = TypeRef::built_in("apps/v1", "Deployment").unwrap();
    let selector = deployment.field("spec").unwrap().field("selector").unwrap();
    assert!(selector.is_atomic_map());
    assert!(TypeRef::built_in("apps/v1", "None").is_none());
}
