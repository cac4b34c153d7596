//! Driver: fuzz targets of the embedded API server, which interpret the bytes of an input and check the responses.
//!
//! For any input, the server responds, the response matches its content type and status, and a refused request changes
//! nothing.

mod world;

use std::fmt::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;

use self::world::{ServerResponse, World};
use crate::input::split;

/// The objects to patch or apply to.
const OBJECTS: [&str; 3] = [
    "/api/v1/namespaces/default/configmaps/a",
    "/apis/apps/v1/namespaces/default/deployments/a",
    "/apis/example.com/v1/namespaces/default/sites/a",
];

const SUBRESOURCES: [&str; 3] = ["", "/status", "/scale"];

/// The types of a patch, apart from apply.
const PATCHES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The collections in which objects are created.
const COLLECTIONS: [&str; 16] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/statefulsets",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/namespaces/default/sites",
];

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The header of a client that prefers protobuf.
const BINARY: [(&str, &str); 1] = [(
    "accept",
    "application/vnd.kubernetes.protobuf,application/json",
)];

/// Takes a whole request: a line with method and path, header lines, an empty line, a body.
pub(crate) fn paths(input: &[u8]) {
    let world = &World::new();
    let (head, body) = split(input, b"\n\n");
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let (method, uri) = lines
        .next()
        .and_then(|line| line.split_once(' '))
        .unwrap_or(("GET", "/"));
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
    ask(world, method, uri, &headers, body);
}

/// Takes up to three lines: a label selector, a field selector, a shard selector.
pub(crate) fn selectors(input: &[u8]) {
    let world = &World::new();
    let text = String::from_utf8_lossy(input);
    let mut query = String::from("?");
    let names = ["labelSelector", "fieldSelector", "shardSelector"];
    for (name, value) in names.iter().zip(text.lines()) {
        let value = percent_encode(value.as_bytes(), NON_ALPHANUMERIC);
        let _ = write!(query, "{name}={value}&");
    }
    for collection in [0, 1, 6, 15].map(|at| COLLECTIONS[at]) {
        let watch = format!("{collection}{query}watch=true&timeoutSeconds=1&resourceVersion=0");
        for headers in [&[][..], &BINARY] {
            ask(world, "GET", &format!("{collection}{query}"), headers, b"");
            ask(world, "GET", &watch, headers, b"");
        }
    }
}

/// Takes a byte that selects patch type, object and subresource, and a patch document.
pub(crate) fn patches(input: &[u8]) {
    let world = &World::new();
    let Some((&choice, document)) = input.split_first() else {
        return;
    };
    let (object, uri) = object_of(choice);
    let headers = [("content-type", PATCHES[usize::from(choice) / 9 % 3])];
    let dry_run = format!("{uri}?dryRun=All");
    ask(world, "PATCH", &dry_run, &headers, document);
    let patched = ask(world, "PATCH", &uri, &headers, document);
    if patched.is_some_and(|answer| answer.status == 200) {
        // A stored object can be read, listed and written back unchanged.
        let Some(read) = ask(world, "GET", object, &[], b"") else {
            return;
        };
        write_back(world, object, &read.body);
    }
}

/// Returns the path of the object that a byte selects, and that of the object or one of its subresources.
fn object_of(choice: u8) -> (&'static str, String) {
    let choice = usize::from(choice);
    let object = OBJECTS[choice % 3];
    (object, format!("{object}{}", SUBRESOURCES[choice / 3 % 3]))
}

/// Takes a byte that selects the object, and a configuration that is applied twice.
pub(crate) fn apply(input: &[u8]) {
    let world = &World::new();
    let Some((&choice, document)) = input.split_first() else {
        return;
    };
    let (_, target) = object_of(choice);
    let uri = format!("{target}?fieldManager=fuzz&force=true");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let first = ask(world, "PATCH", &uri, &headers, document);
    if first.is_none_or(|answer| answer.status >= 300) {
        return;
    }
    let before = world.revision();
    let again = ask(world, "PATCH", &uri, &headers, document);
    let again = again.map_or(0, |answer| answer.status);
    assert_eq!(again, 200, "what was applied cannot be applied again");
    let after = world.revision();
    assert_eq!(before, after, "the same applied twice changed something");
    // Another manager agrees or conflicts, and never takes ownership without force.
    let uri = format!("{target}?fieldManager=other");
    let other = ask(world, "PATCH", &uri, &headers, document);
    let other = other.map_or(0, |answer| answer.status);
    let is_consistent = matches!(other, 200 | 409);
    assert!(is_consistent, "the same by another manager: {other}");
}

/// Takes a byte that selects the resource, and a body in protobuf.
pub(crate) fn protobuf(input: &[u8]) {
    let world = &World::new();
    let Some((&choice, body)) = input.split_first() else {
        return;
    };
    let collection = COLLECTIONS[usize::from(choice) % COLLECTIONS.len()];
    let headers = [("content-type", PROTOBUF), ("accept", "application/json")];
    ask(world, "POST", collection, &headers, body);
    let mut wrapped = b"k8s\0".to_vec();
    wrapped.extend_from_slice(body);
    let headers = [headers[0], BINARY[0]];
    ask(world, "POST", collection, &headers, &wrapped);
    ask(world, "DELETE", OBJECTS[0], &headers, &wrapped);
}

/// Takes a continue token, and on a second line a limit.
pub(crate) fn tokens(input: &[u8]) {
    let world = &World::new();
    let (token, limit) = split(input, b"\n");
    let [token, limit] = [token, limit].map(|part| percent_encode(part, NON_ALPHANUMERIC));
    for collection in [COLLECTIONS[0], "/api/v1/namespaces", COLLECTIONS[15]] {
        let uri = format!("{collection}?limit={limit}&continue={token}");
        ask(world, "GET", &uri, &[], b"");
    }
}

/// Takes a byte that selects the resource, and an object to create in JSON or YAML.
pub(crate) fn manifests(input: &[u8]) {
    let world = &World::new();
    let Some((&choice, body)) = input.split_first() else {
        return;
    };
    let choice = usize::from(choice);
    let collection = COLLECTIONS[choice % COLLECTIONS.len()];
    let content_type = if (choice / COLLECTIONS.len()).is_multiple_of(2) {
        "application/json"
    } else {
        "application/yaml"
    };
    let validation = ["Ignore", "Warn", "Strict"][choice / 32 % 3];
    let uri = format!("{collection}?fieldValidation={validation}");
    let headers = [("content-type", content_type)];
    ask(world, "POST", &format!("{uri}&dryRun=All"), &headers, body);
    let made = ask(world, "POST", &uri, &headers, body);
    let Some(made) = made.filter(|answer| answer.status == 201) else {
        return;
    };
    // A created object can be written back unchanged, is one row of a table, and can be encoded.
    let made = made.json();
    // The garbage collector deletes an object at once if none of its owners exists.
    if !made["metadata"]["ownerReferences"].is_null() {
        return;
    }
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let object = format!("{collection}/{name}");
    write_back(world, &object, made.to_string().as_bytes());
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for headers in [&[("accept", table)], &BINARY] {
        let read = ask(world, "GET", &object, headers, b"");
        let status = read.map(|answer| answer.status);
        assert_eq!(status, Some(200), "{object} with {headers:?}");
    }
    ask(world, "DELETE", &object, &[], b"");
}

/// Takes a schema for a definition, an empty line, and an object of that kind.
pub(crate) fn definitions(input: &[u8]) {
    let world = &World::new();
    let (schema, object) = split(input, b"\n\n");
    let Ok(schema) = serde_json::from_slice::<Value>(schema) else {
        return;
    };
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let json = [("content-type", "application/json")];
    let definition = definition.to_string();
    let made = ask(world, "POST", COLLECTIONS[14], &json, definition.as_bytes());
    if made.is_none_or(|answer| answer.status != 201) {
        return;
    }
    ask(world, "GET", "/openapi/v3/apis/example.org/v1", &[], b"");
    let things = "/apis/example.org/v1/namespaces/default/things";
    let made = ask(world, "POST", things, &json, object);
    let Some(made) = made.filter(|answer| answer.status == 201) else {
        return;
    };
    let made = made.json();
    let name = made["metadata"]["name"].as_str().unwrap_or_default();
    let thing = format!("{things}/{name}");
    write_back(world, &thing, made.to_string().as_bytes());
}

/// Writes an object back as it was read, which changes nothing.
fn write_back(world: &World, object: &str, body: &[u8]) {
    let before = world.revision();
    let headers = [("content-type", "application/json")];
    let same = ask(world, "PUT", object, &headers, body);
    if same.is_some_and(|answer| answer.status == 200) {
        let after = world.revision();
        assert_eq!(before, after, "an object written back as it was changed");
    }
}

/// Sends a request and checks that the response is consistent.
fn ask(
    world: &World,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Option<ServerResponse> {
    let before = world.revision();
    let answer = world.send(method, uri, headers, body)?;
    let status = answer.status;
    assert!((200..600).contains(&status), "{method} {uri}: {status}");
    // The server survives a panic, which is still a finding.
    let panicked = "This request caused apiserver to panic";
    assert!(
        status != 500 || !String::from_utf8_lossy(&answer.body).contains(panicked),
        "{method} {uri} made the server panic"
    );
    if status >= 400 {
        let after = world.revision();
        assert_eq!(
            before, after,
            "{method} {uri} was refused and changed something"
        );
    }
    if answer.content_type.starts_with(PROTOBUF) && answer.whole && method != "HEAD" {
        let objects = answer.protobuf().unwrap_or_else(|error| {
            panic!("{method} {uri}: {status} with a body that is no protobuf: {error}")
        });
        if status >= 400 {
            assert_eq!(objects[0]["kind"], "Status", "{method} {uri}");
            assert_eq!(objects[0]["code"], status, "{method} {uri}");
        }
    }
    if answer.content_type == "application/json" && answer.whole && method != "HEAD" {
        let lines = serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>();
        for line in lines {
            let value = line.unwrap_or_else(|error| {
                let text = String::from_utf8_lossy(&answer.body);
                panic!("{method} {uri}: {status} with a body that is no JSON: {error}: {text}")
            });
            if status >= 400 {
                assert_eq!(value["kind"], "Status", "{method} {uri}: {value}");
                assert_eq!(value["code"], status, "{method} {uri}: {value}");
            }
        }
    }
    Some(answer)
}
