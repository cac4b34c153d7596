//! What a server is after it began from what another one was.

use serde_json::{Value, json};

use super::*;
use crate::ApiServer;
use crate::auth::User;
use crate::registry::RegistryOptions;

fn taken(server: &ApiServer) -> Snapshot {
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    Snapshot::read(&text).unwrap()
}

fn begun(server: &ApiServer) -> ApiServer {
    ApiServer::builder().restore(taken(server)).build()
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "sites", "kind": "Site"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}}}]},
    })
}

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

// SRV-SNAP-1.
#[tokio::test(start_paused = true)]
async fn srv_snap_1_objects_are_what_they_were_and_uids_go_on() {
    let server = ApiServer::new();
    server.install_crd(definition()).unwrap();
    let site = json!({"apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"name": "home"}, "spec": {"text": "é\u{1}"}});
    server.create(site).unwrap();
    server.create(config("a")).unwrap();
    server.delete("configmaps", "default", "a").unwrap();
    let again = begun(&server);
    assert_eq!(again.revision(), server.revision());
    for kind in [
        "sites.example.com",
        "namespaces",
        "customresourcedefinitions.apiextensions.k8s.io",
    ] {
        let before = server.list(kind, "");
        assert!(!before.is_empty(), "{kind}");
        assert_eq!(again.list(kind, ""), before, "{kind}");
    }
    assert!(again.list("configmaps", "").is_empty());
    // Two servers that go on from one point make the same uids, and none of the old ones.
    let (one, two) = (
        server.create(config("b")).unwrap(),
        again.create(config("b")).unwrap(),
    );
    assert_eq!(one["metadata"]["uid"], two["metadata"]["uid"]);
    assert_eq!(
        one["metadata"]["resourceVersion"],
        two["metadata"]["resourceVersion"]
    );
}

// SRV-SNAP-3.
#[test]
fn srv_snap_3_credentials_stay_good() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut before = Registry::new(Default::default(), now);
    let ann = User::new("ann").uid("7").group("dev").extra("a/b", "c");
    before.add_token("anns".to_owned(), ann, true);
    before.add_token("listeners".to_owned(), User::admin(), false);
    let mut text = Vec::new();
    before.snapshot().write(&mut text).unwrap();

    // A server of another seed would sign with another key.
    let options = RegistryOptions {
        seed: 7,
        ..Default::default()
    };
    let mut after = Registry::new(options, now);
    let signed = before.key.issue(&json!({"aud": ["a"]}));
    assert!(after.key.claims(&signed).is_none());
    after.restore(&Snapshot::read(&text).unwrap());
    assert!(after.key.claims(&signed).is_some());
    let ann = after.tokens.get("anns").unwrap();
    assert_eq!(Some(&ann), before.tokens.get("anns").as_ref());
    assert!(ann.is_in("dev") && ann.extra["a/b"] == ["c"]);
    assert!(after.tokens.get("listeners").is_none());
}

#[tokio::test(start_paused = true)]
async fn services_go_on_being_given_addresses_and_ports() {
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
    };
    let server = ApiServer::new();
    let first = server.create(service("a")).unwrap();
    let again = begun(&server);
    let (one, two) = (
        server.create(service("b")).unwrap(),
        again.create(service("b")).unwrap(),
    );
    assert_eq!(one["spec"], two["spec"]);
    assert_ne!(first["spec"]["clusterIP"], two["spec"]["clusterIP"]);
}

#[tokio::test(start_paused = true)]
async fn owners_keep_their_dependents() {
    let server = ApiServer::new();
    let owner = server.create(config("owner")).unwrap();
    let mut child = config("child");
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"]}]);
    server.create(child).unwrap();
    let again = begun(&server);
    again.delete("configmaps", "default", "owner").unwrap();
    assert!(again.list("configmaps", "default").is_empty());
}

// SRV-SNAP-2.
#[test]
fn srv_snap_2_what_was_before_is_too_old_and_the_moment_itself_is_not() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut registry = Registry::new(Default::default(), now);
    let maps = StorageKey::new("", "configmaps");
    registry.put(&maps, "default", "a", config("a"));
    let before = registry.revision();
    registry.put(&maps, "default", "b", config("b"));
    let snapshot = registry.snapshot();
    let mut again = Registry::new(Default::default(), now);
    again.restore(&snapshot);
    assert!(again.store.changes(&maps, before).is_err());
    assert!(again.store.list_at(&maps, None, before).is_err());
    let at = again.revision();
    assert_eq!(again.store.list_at(&maps, None, at).unwrap().len(), 2);
    again.put(&maps, "default", "c", config("c"));
    let changes: Vec<u64> = again
        .store
        .changes(&maps, at)
        .unwrap()
        .map(|one| one.revision)
        .collect();
    assert_eq!(changes, [at + 1]);
    again.compact();
    assert!(
        again.store.changes(&maps, at).is_err(),
        "the log goes on to be compacted"
    );
}

#[test]
fn what_is_cut_short_or_not_ours_is_no_snapshot() {
    let mut text = Vec::new();
    let server = Registry::new(Default::default(), jiff::Timestamp::UNIX_EPOCH);
    server.snapshot().write(&mut text).unwrap();
    for end in [0, 1, text.len() / 2, text.len() - 2] {
        assert!(
            matches!(Snapshot::read(&text[..end]), Err(SnapshotError::Text(_))),
            "{end}"
        );
    }
    let problem = |text: &str| Snapshot::read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        problem(r#"{"format": "x"}"#),
        "its format is \"x\", and this server reads \"steersman-apiserver/1\""
    );
    let future = r#"{"format": "steersman-apiserver/1", "revision": 3, "objects":
        {"pods.": [{"metadata": {"name": "a", "resourceVersion": "4"}}]}}"#;
    assert_eq!(
        problem(future),
        "the object 0 of pods. is none: its resource version is not one of the snapshot's past"
    );
}

/// SRV-SNAP-4: each part that would be lost, or kept as something else, is refused with its place.
#[test]
fn srv_snap_4_nothing_is_passed_over_in_silence() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut server = Registry::new(Default::default(), now);
    server.add_token("anns".to_owned(), User::new("ann").group("dev"), true);
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    let good: Value = serde_json::from_slice(&text).unwrap();
    assert!(Snapshot::read(good.to_string().as_bytes()).is_ok());
    let told = |place: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        Snapshot::read(bad.to_string().as_bytes())
            .unwrap_err()
            .to_string()
    };
    let first = "/objects/namespaces./0/metadata";
    let maps = |list: Value| {
        let mut objects = good["objects"].clone();
        objects["configmaps."] = list;
        told("/objects", objects)
    };
    let map = |name: &str, namespace: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}})
    };
    for (told, wanted) in [
        (
            told("/revision", json!("7")),
            "its revision cannot be read: \"7\" is no number of its range",
        ),
        (
            told("/counters", json!([])),
            "its counters cannot be read: it is no object",
        ),
        (
            told("/counters/addresses", json!(70_000)),
            "its counters.addresses cannot be read: 70000 is no number of its range",
        ),
        (
            told("/counters/random", json!(-1)),
            "its counters.random cannot be read: -1 is no number of its range",
        ),
        (
            told("/counters", json!({"seed": 1})),
            "its counters.seed cannot be read: this server knows no such member",
        ),
        (
            told("/credentials/key", json!("short")),
            "its credentials.key cannot be read: it is no key",
        ),
        (
            told("/credentials/tokens", json!([])),
            "its credentials.tokens cannot be read: it is no object",
        ),
        (
            told(
                "/credentials/tokens",
                json!({"t": {"username": "a"}, "u": {"groups": []}}),
            ),
            "its credentials.tokens, token 1 (from 0) cannot be read: it has no username",
        ),
        (
            told(
                "/credentials/tokens",
                json!({"t": {"username": "a", "groups": [1]}}),
            ),
            "its credentials.tokens, token 0 (from 0) cannot be read: it has a member that no user has",
        ),
        (
            told("/objects", json!([])),
            "its objects cannot be read: it is no object",
        ),
        (
            maps(json!({})),
            "its objects[\"configmaps.\"] cannot be read: it is no list",
        ),
        (
            maps(json!([
                map("a", json!("default")),
                map("a", json!("default"))
            ])),
            "the object 1 of configmaps. is none: another one before it has its name",
        ),
        (
            maps(json!([map("a", json!(null))])),
            "the object 0 of configmaps. is none: its namespace is no text",
        ),
        (
            maps(json!([map("", json!("default"))])),
            "the object 0 of configmaps. is none: it has no name",
        ),
        (
            told(first, json!(7)),
            "the object 0 of namespaces. is none: it has no metadata",
        ),
        (
            told(
                "/objects",
                json!({"sites.example.com": [map("a", json!("default"))]}),
            ),
            "its objects[\"sites.example.com\"] cannot be read: the server has no such kind, and the snapshot no definition of one",
        ),
    ] {
        assert_eq!(told, wanted);
    }
    let mut more = good.clone();
    more["leases"] = json!({});
    let told = Snapshot::read(more.to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
        "its leases cannot be read: this server knows no such member"
    );
    let mut managed = good.clone();
    managed["objects"]["namespaces."][0]["metadata"]["managedFields"] = json!({});
    let told = Snapshot::read(managed.to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert_eq!(
        told,
        "the object 0 of namespaces. is none: its managedFields are no list"
    );
    let mut placed = good.clone();
    placed["objects"]["namespaces."][0]["metadata"]["namespace"] = json!("default");
    assert!(Snapshot::read(placed.to_string().as_bytes()).is_err());
    let twice = String::from_utf8(text).unwrap();
    let twice = twice.replacen("{\"format\"", "{\"objects\":{},\"format\"", 1);
    let told = Snapshot::read(twice.as_bytes()).unwrap_err().to_string();
    assert_eq!(told, "its objects cannot be read: it is there twice");
    for missing in ["revision", "objects"] {
        let mut less = good.clone();
        less.as_object_mut().unwrap().remove(missing);
        let told = Snapshot::read(less.to_string().as_bytes())
            .unwrap_err()
            .to_string();
        assert_eq!(told, format!("its {missing} cannot be read: it is missing"));
    }
    // What the first servers wrote had no credentials, and a storage may be left without objects.
    let mut old = good;
    old.as_object_mut().unwrap().remove("credentials");
    old["objects"]["sites.example.com"] = json!([]);
    assert!(Snapshot::read(old.to_string().as_bytes()).is_ok());
}
