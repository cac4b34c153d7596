//! Tests the decoder with handwritten bytes.

mod random;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::envelope::{
    END_OF_ENVELOPE, MAGIC, append_field_head, begin_envelope, field_head_length,
};

/// Returns an encoded field with these bytes.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend_from_slice(content);
    field
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn sealed(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [
        MAGIC.to_vec(),
        bytes(1, &meta),
        bytes(2, raw),
        bytes(3, b""),
        bytes(4, b""),
    ]
    .concat()
}

/// Decodes an object as a tree and as text, and checks that both are equal.
fn decoded(api_version: &str, kind: &str, raw: &[u8]) -> Result<Value, String> {
    let sealed = sealed(api_version, kind, raw);
    let envelope = Envelope::open(&sealed)?;
    let (tree, mut text) = (envelope.object(), Vec::new());
    match envelope.append_json(Keep::WHOLE, &mut text) {
        Ok(_) => assert_eq!(
            serde_json::from_slice::<Value>(&text).ok(),
            tree.clone().ok()
        ),
        Err(why) => assert_eq!(Err(why), tree),
    }
    tree
}

#[test]
fn maps_and_bytes() {
    let meta = [bytes(1, b"a"), bytes(2, b""), bytes(8, b"")].concat();
    let data = [bytes(1, b"k"), bytes(2, b"v")].concat();
    let raw = [
        bytes(1, &meta),
        bytes(2, &data),
        bytes(2, &bytes(1, b"empty")),
        bytes(3, b"Opaque"),
    ]
    .concat();
    let wanted = json!({
        "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "a" },
        "data": { "k": "dg==", "empty": "" }, "type": "Opaque",
    });
    assert_eq!(decoded("v1", "Secret", &raw).unwrap(), wanted);
}

#[test]
fn zeros_are_kept_where_go_has_a_pointer() {
    // DeploymentSpec: `replicas` is a pointer; `paused` and `minReadySeconds` are not.
    let spec = [number(1, 0), number(5, 0), number(7, 0), bytes(4, b"")].concat();
    let found = decoded("apps/v1", "Deployment", &bytes(2, &spec)).unwrap();
    // Members that JSON always has appear although they were not in the bytes.
    let template = json!({ "metadata": {}, "spec": { "containers": null } });
    assert_eq!(
        found,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "status": {},
            "spec": { "replicas": 0, "selector": null, "strategy": {}, "template": template },
        })
    );
    // PersistentVolumeClaimSpec: an empty class is not the same as no class.
    let spec = [bytes(5, b""), bytes(3, b"")].concat();
    let found = decoded("v1", "PersistentVolumeClaim", &bytes(2, &spec)).unwrap();
    assert_eq!(
        found["spec"],
        json!({ "storageClassName": "", "resources": {} })
    );
}

#[test]
fn embedded_messages_become_members_of_their_owner() {
    let empty_dir = bytes(2, b"");
    let volume = [bytes(1, b"v"), bytes(2, &empty_dir)].concat();
    let port = [number(1, 1), number(2, 0), bytes(3, b"web")].concat();
    let get = [bytes(1, b"/x"), bytes(2, &port)].concat();
    let probe = [bytes(1, &bytes(2, &get)), number(2, 0), number(3, 5)].concat();
    let container = [bytes(1, b"c"), bytes(10, &probe)].concat();
    let spec = [bytes(1, &volume), bytes(2, &container)].concat();
    let found = decoded("v1", "Pod", &bytes(2, &spec)).unwrap();
    assert_eq!(
        found["spec"],
        json!({
            "volumes": [{ "name": "v", "emptyDir": {} }],
            "containers": [{ "name": "c", "resources": {}, "livenessProbe": {
                "httpGet": { "path": "/x", "port": "web" }, "timeoutSeconds": 5,
            } }],
        })
    );
}

#[test]
fn times_quantities_and_raw_json() {
    let hard = [bytes(1, b"pods"), bytes(2, &bytes(1, b"5"))].concat();
    let found = decoded("v1", "ResourceQuota", &bytes(2, &bytes(1, &hard))).unwrap();
    assert_eq!(found["spec"], json!({ "hard": { "pods": "5" } }));
    let renewed = [number(1, 60), vec![2 << 3, 0xc0, 0xb1, 0x9f, 0x05]].concat();
    let spec = [bytes(4, &renewed), number(2, 15)].concat();
    let found = decoded("coordination.k8s.io/v1", "Lease", &bytes(2, &spec)).unwrap();
    assert_eq!(
        found["spec"],
        json!({ "renewTime": "1970-01-01T00:01:00.011000Z", "leaseDurationSeconds": 15 })
    );
    let data = bytes(2, &bytes(1, br#"{"a":[1]}"#));
    let found = decoded("apps/v1", "ControllerRevision", &data).unwrap();
    assert_eq!(found["data"], json!({ "a": [1] }));
}

#[test]
fn delete_options_are_decoded_in_every_group() {
    let raw = [number(1, 0), bytes(4, b"Foreground")].concat();
    let found = decoded("apps/v1", "DeleteOptions", &raw).unwrap();
    assert_eq!(found["gracePeriodSeconds"], 0);
    assert_eq!(found["propagationPolicy"], "Foreground");
}

#[test]
fn bytes_that_are_no_object_are_refused() {
    let refusal = |bytes: &[u8]| match Envelope::open(bytes) {
        Ok(envelope) => envelope.object().unwrap_err(),
        Err(why) => why,
    };
    for (bytes, why) in [
        (
            b"{}".to_vec(),
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (MAGIC.to_vec(), "empty body"),
        ([&MAGIC[..], b"\x0a"].concat(), "unexpected EOF"),
        (
            [&MAGIC[..], b"\x12\x00"].concat(),
            "Object 'Kind' is missing in 'runtime.TypeMeta{APIVersion:\"\", Kind:\"\"}'",
        ),
        (sealed("v1", "ConfigMap", b"\x12\x05a"), "unexpected EOF"),
        (
            sealed("v1", "ConfigMap", b"\x08\x01"),
            "proto: wrong wireType = 0 for field Metadata",
        ),
        (
            sealed("v1", "ConfigMap", b"\x0c"),
            "proto: ConfigMap: wiretype end group for non-group",
        ),
        (
            sealed("v1", "ConfigMap", b"\x02"),
            "proto: ConfigMap: illegal tag 0 (wire type 2)",
        ),
        (
            sealed(
                "v1",
                "ConfigMap",
                b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            ),
            "proto: integer overflow",
        ),
        (
            sealed("v1", "Nothing", b""),
            "no kind \"Nothing\" is registered for version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
        ),
    ] {
        assert_eq!(refusal(&bytes), why);
    }
}

// SRV-3: a schema that is nested too deeply is refused, and no bytes cause a panic.
#[test]
fn depth_is_bounded() {
    let mut schema = Vec::new();
    // Field 28, `not`, contains a schema.
    for _ in 0..500 {
        schema = [vec![0xe2, 1], bytes(0, &schema)[1..].to_vec()].concat();
    }
    let message = Message::named("apiextensions.v1.JSONSchemaProps").unwrap();
    let refused = append_message(message, &schema, &mut Vec::new());
    assert_eq!(refused.unwrap_err(), "exceeded max depth");
    let nested = (0..500).fold(json!({}), |inner, _| json!({ "not": inner }));
    let refused = encode(message, nested.as_object().unwrap());
    assert_eq!(refused.unwrap_err().problem, "it is nested deeper than 120");
}

#[test]
fn a_list_in_pieces_has_the_bytes_of_a_sealed_list() {
    for length in [0, 1, 127, 128, 20_000] {
        let item = vec![7; length];
        let whole = seal_list("v1", "PodList", b"", std::iter::once(&item[..]));
        let length = field_head_length(1, 0) + field_head_length(2, item.len()) + item.len();
        let mut pieces = begin_envelope("v1", "PodList", length);
        append_field_head(1, 0, &mut pieces);
        append_field_head(2, item.len(), &mut pieces);
        pieces.extend([&item[..], &END_OF_ENVELOPE].concat());
        assert_eq!(pieces, whole);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(
        raw in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..40], 0..200),
        kind in prop::sample::select(vec![
            ("v1", "Pod"), ("v1", "Event"), ("apps/v1", "Deployment"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ]),
    ) {
        let _ = decoded(kind.0, kind.1, &raw);
        let _ = Envelope::open(&[&MAGIC[..], &raw].concat());
    }
}
