//! Tests of servers that start from the snapshot of another server.

use serde_json::{Value, json};
use steersman_auth::User;

use super::*;
use crate::RegistryOptions;

fn config(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

// SRV-SNAP-3: tokens of the first server are valid on a server that starts from its snapshot.
#[test]
fn srv_snap_3_credentials_stay_valid() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut before = Registry::new(Default::default(), now);
    let ann = User::new("ann").uid("7").group("dev").extra("a/b", "c");
    before.add_token("anns".to_owned(), ann, true);
    before.add_token("listeners".to_owned(), User::admin(), false);
    let mut text = Vec::new();
    before.snapshot().write(&mut text).unwrap();

    // The other seed gives the second server another signing key, until the snapshot replaces it.
    let options = RegistryOptions {
        seed: 7,
        ..Default::default()
    };
    let mut after = Registry::new(options, now);
    let claims = json!({"aud": ["a"], "iss": before.issuer.name()});
    let signed = before.issuer.issue(&claims).unwrap();
    assert!(after.issuer.claims(&signed).is_err());
    after.restore(&Snapshot::read(&text).unwrap());
    assert_eq!(after.issuer.claims(&signed).unwrap(), claims);
    let ann = after.tokens.get("anns").unwrap();
    assert_eq!(Some(&ann), before.tokens.get("anns").as_ref());
    assert!(ann.is_in("dev") && ann.extra["a/b"] == ["c"]);
    assert!(after.tokens.get("listeners").is_none());
}

// SRV-SNAP-2: a watch or list from a revision before the snapshot gets 410.
#[test]
fn srv_snap_2_revisions_before_the_snapshot_are_too_old() {
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
        "the log is still compacted"
    );
}

#[test]
fn a_truncated_or_foreign_text_is_no_snapshot() {
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
        "the snapshot has the format \"x\", but this server reads \"steersman-apiserver/1\""
    );
    let future = r#"{"format": "steersman-apiserver/1", "revision": 3, "objects":
        {"pods.": [{"metadata": {"name": "a", "resourceVersion": "4"}}]}}"#;
    assert_eq!(
        problem(future),
        "invalid snapshot: object 0 (from 0) of pods.: its resource version is above the snapshot's revision or invalid"
    );
}

/// Returns a valid snapshot as JSON, which tests change to make it invalid.
fn readable() -> Value {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let mut server = Registry::new(Default::default(), now);
    server.add_token("anns".to_owned(), User::new("ann").group("dev"), true);
    let mut text = Vec::new();
    server.snapshot().write(&mut text).unwrap();
    let good: Value = serde_json::from_slice(&text).unwrap();
    assert!(Snapshot::read(good.to_string().as_bytes()).is_ok());
    good
}

/// Returns the error message with which a snapshot in JSON is refused.
fn refused(snapshot: &Value) -> String {
    let read = Snapshot::read(snapshot.to_string().as_bytes());
    read.unwrap_err().to_string()
}

/// Returns the error message for a valid snapshot in which the part at the path `place` was replaced by `value`.
fn refused_with(place: &str, value: Value) -> String {
    let mut snapshot = readable();
    *snapshot.pointer_mut(place).unwrap() = value;
    refused(&snapshot)
}

/// SRV-SNAP-4: a part that could not be restored as written is refused with its path.
#[test]
fn srv_snap_4_unknown_members_are_refused() {
    let range = "is no number in range";
    let counters = "/counters";
    let tokens = "/credentials/tokens";
    for (place, value, wanted) in [
        ("/revision", json!("7"), format!("revision: \"7\" {range}")),
        (
            counters,
            json!([]),
            "counters: the value is no object".to_owned(),
        ),
        (
            "/counters/addresses",
            json!(4_294_967_296_u64),
            format!("counters.addresses: 4294967296 {range}"),
        ),
        (
            "/counters/random",
            json!(-1),
            format!("counters.random: -1 {range}"),
        ),
        (
            counters,
            json!({"seed": 1}),
            "counters.seed: the member is unknown to this server".to_owned(),
        ),
        (
            "/credentials/key",
            json!("short"),
            "credentials.key: the text is no key".to_owned(),
        ),
        (
            tokens,
            json!([]),
            "credentials.tokens: the value is no object".to_owned(),
        ),
        (
            tokens,
            json!({"t": {"username": "a"}, "u": {"groups": []}}),
            "credentials.tokens, token 1 (from 0): it has no username".to_owned(),
        ),
        (
            tokens,
            json!({"t": {"username": "a", "groups": [1]}}),
            "credentials.tokens, token 0 (from 0): it has a member that no user has".to_owned(),
        ),
        (
            "/objects",
            json!([]),
            "objects: the value is no object".to_owned(),
        ),
    ] {
        assert_eq!(
            refused_with(place, value),
            format!("invalid snapshot: {wanted}")
        );
    }
    let mut more = readable();
    more["leases"] = json!({});
    let why = "invalid snapshot: leases: the member is unknown to this server";
    assert_eq!(refused(&more), why);
    let text = readable().to_string();
    let twice = text.replacen('{', "{\"objects\":{},", 1);
    let message = Snapshot::read(twice.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        message,
        "invalid snapshot: objects: the member occurs twice"
    );
    for missing in ["revision", "objects"] {
        let mut less = readable();
        less.as_object_mut().unwrap().remove(missing);
        let why = format!("invalid snapshot: {missing}: the member is missing");
        assert_eq!(refused(&less), why);
    }
    // Snapshots of the first releases have no credentials, and a storage may have no objects.
    let mut old = readable();
    old.as_object_mut().unwrap().remove("credentials");
    old["objects"]["sites.example.com"] = json!([]);
    assert!(Snapshot::read(old.to_string().as_bytes()).is_ok());
}

/// SRV-SNAP-4: an object that could not be restored as written is refused.
#[test]
fn srv_snap_4_objects_are_restored_or_refused() {
    let map = |name: &str, namespace: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}})
    };
    let default = || json!("default");
    let first = "invalid snapshot: object 0 (from 0) of configmaps.: ";
    for (list, wanted) in [
        (
            json!({}),
            "invalid snapshot: objects[\"configmaps.\"]: the value is no list".to_owned(),
        ),
        (
            json!([map("a", default()), map("a", default())]),
            "invalid snapshot: object 1 (from 0) of configmaps.: an earlier object has the same name".to_owned(),
        ),
        (
            json!([map("a", json!(null))]),
            format!("{first}its namespace is no text"),
        ),
        (
            json!([map("", default())]),
            format!("{first}the object has no name"),
        ),
        (
            json!([{"metadata": 7}]),
            format!("{first}the object has no metadata"),
        ),
    ] {
        let mut snapshot = readable();
        snapshot["objects"]["configmaps."] = list;
        assert_eq!(refused(&snapshot), wanted);
    }
    let stray = json!({"sites.example.com": [map("a", default())]});
    assert_eq!(
        refused_with("/objects", stray),
        "invalid snapshot: objects[\"sites.example.com\"]: neither the server nor a definition in the snapshot has this kind"
    );
    let first = "invalid snapshot: object 0 (from 0) of namespaces.: ";
    for (field, value, wanted) in [
        ("managedFields", json!({}), "its managedFields are no list"),
        (
            "namespace",
            default(),
            "its namespace is missing, or its kind is cluster-scoped and has none",
        ),
    ] {
        let mut snapshot = readable();
        snapshot["objects"]["namespaces."][0]["metadata"][field] = value;
        assert_eq!(refused(&snapshot), format!("{first}{wanted}"));
    }
}
