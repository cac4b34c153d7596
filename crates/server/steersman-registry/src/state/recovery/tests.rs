//! Tests of servers that start from a snapshot and the transactions after it.

use serde_json::{Value, json};
use steersman_auth::{Authorization, User};
use steersman_schema::resource::StorageKey;

use super::*;
use crate::requests::options::{DeleteOptions, ListQuery, ObjectTarget, WriteOptions};
use crate::{RegistryOptions, WatchEvent};

const NOW: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
}

fn definition(name: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": format!("{name}s"), "kind": name},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    })
}

/// A server with a write-ahead log: its first snapshot, and the text of each transaction since.
struct Recorded {
    registry: Registry,
    base: Snapshot,
    log: Vec<Vec<u8>>,
}

impl Recorded {
    fn new() -> Self {
        let options = RegistryOptions {
            authorization: Authorization::Rbac,
            ..Default::default()
        };
        let mut registry = Registry::new(options, NOW);
        registry.record_transactions();
        registry.bootstrap(NOW);
        let _ = registry.take_transaction();
        let base = read_again(&registry);
        let log = Vec::new();
        Self {
            registry,
            base,
            log,
        }
    }

    /// Runs one turn of the registry's lock, and appends its transaction to the log.
    fn turn<R>(&mut self, work: impl FnOnce(&mut Registry) -> R) -> R {
        let result = work(&mut self.registry);
        let _ = self.registry.take_changed();
        self.registry.take_after_writes().finish();
        if let Some(transaction) = self.registry.take_transaction() {
            let mut text = Vec::new();
            transaction.write(&mut text).unwrap();
            self.log.push(text);
        }
        result
    }

    fn create(&mut self, (group, version, plural): (&str, &str, &str), object: Value) {
        self.turn(|registry| {
            let resource = registry.resource(group, version, plural).unwrap();
            let namespace = resource.namespaced.then_some("default");
            let target = ObjectTarget::collection(&resource, namespace);
            registry
                .create(target, object, &WriteOptions::default(), NOW)
                .unwrap();
        });
    }

    fn delete(&mut self, (group, version, plural): (&str, &str, &str), name: &str) {
        self.turn(|registry| {
            let resource = registry.resource(group, version, plural).unwrap();
            let namespace = resource.namespaced.then_some("default");
            let target = ObjectTarget::object(&resource, namespace, name);
            registry
                .delete(target, &DeleteOptions::default(), NOW)
                .unwrap();
        });
    }

    fn recovery(&self) -> Recovery {
        let mut recovery = Recovery::from(self.base.clone());
        for text in &self.log {
            recovery.add(text).unwrap();
        }
        recovery
    }
}

/// Writes the snapshot of a registry as text and parses this text, as another process would.
fn read_again(registry: &Registry) -> Snapshot {
    Snapshot::read(&text(registry)).unwrap()
}

fn text(registry: &Registry) -> Vec<u8> {
    let mut text = Vec::new();
    registry.snapshot().write(&mut text).unwrap();
    text
}

fn recovered(recovery: &Recovery) -> Registry {
    let mut registry = Registry::new(Default::default(), NOW);
    registry.recover(recovery);
    registry
}

const MAPS: (&str, &str, &str) = ("", "v1", "configmaps");

/// Changes each part of the state that a snapshot keeps: objects, counters, tokens and CRDs.
fn live(server: &mut Recorded) {
    for name in ["a", "b", "c"] {
        server.create(MAPS, config(name, "1"));
    }
    server.delete(MAPS, "b");
    let definitions = ("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    for name in ["boat", "car"] {
        server.turn(|registry| registry.install_crd(definition(name), NOW).unwrap());
    }
    let boats = ("example.com", "v1", "boats");
    let boat = json!({"apiVersion": "example.com/v1", "kind": "boat", "metadata": {"name": "x",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1"}]}});
    server.create(boats, boat);
    server.delete(definitions, "cars.example.com");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    server.create(("", "v1", "services"), service);
    server.turn(|registry| registry.add_token("anns".to_owned(), User::new("ann"), true));
    // At the end of this turn of the lock, the ClusterRole `view` gets the rules of this role (aggregation).
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["boats"], "verbs": ["get"]}]});
    server.create(("rbac.authorization.k8s.io", "v1", "clusterroles"), role);
}

// WAL-2: a server that replays all transactions of the log has the same state as the server that wrote them.
#[test]
fn a_recovered_server_holds_all_that_the_other_one_held() {
    let mut server = Recorded::new();
    live(&mut server);
    let recovery = server.recovery();
    assert_eq!(recovery.revision(), server.registry.revision());
    assert_eq!(recovery.replayed(), server.log.len());
    let again = recovered(&recovery);
    assert_eq!(
        String::from_utf8(text(&again)).unwrap(),
        String::from_utf8(text(&server.registry)).unwrap()
    );
    assert!(again.resource("example.com", "v1", "boats").is_some());
    assert!(again.resource("example.com", "v1", "cars").is_none());
    assert!(again.tokens.get("anns").is_some());
    assert_eq!(again.dependents.len(), server.registry.dependents.len());
}

// WAL-2: with a later snapshot, the transactions of the log that it contains are skipped.
#[test]
fn transactions_that_the_snapshot_includes_are_left_out() {
    let mut server = Recorded::new();
    live(&mut server);
    server.base = read_again(&server.registry);
    server.create(MAPS, config("d", "1"));
    let recovery = server.recovery();
    assert_eq!(recovery.replayed(), 1);
    assert_eq!(text(&recovered(&recovery)), text(&server.registry));
}

// WAL-2: a log in which one transaction is missing is not replayed.
#[test]
fn a_missing_transaction_is_an_error() {
    let mut server = Recorded::new();
    live(&mut server);
    for missing in 0..server.log.len() - 1 {
        let mut recovery = Recovery::from(server.base.clone());
        let mut left = server.log.clone();
        left.remove(missing);
        let added: Result<Vec<()>, _> = left.iter().map(|text| recovery.add(text)).collect();
        let problem = added.unwrap_err();
        assert!(
            matches!(problem, TransactionError::Gap { .. }),
            "{missing}: {problem}"
        );
    }
    // The second transaction gets the number of the first, so its number is right, but its revision is too high.
    let mut recovery = Recovery::from(server.base.clone());
    let first = String::from_utf8(server.log[0].clone()).unwrap();
    let second = String::from_utf8(server.log[1].clone()).unwrap();
    let number = |text: &str| text.split_once(',').unwrap().0.to_owned();
    let moved = second.replace(&number(&second), &number(&first));
    let problem = recovery.add(moved.as_bytes()).unwrap_err();
    assert!(
        matches!(problem, TransactionError::Revision { .. }),
        "{problem}"
    );
}

#[test]
fn a_text_that_is_no_transaction_is_refused_with_its_place() {
    let mut server = Recorded::new();
    server.create(MAPS, config("a", "1"));
    server.delete(MAPS, "a");
    for (number, from, to, why) in [
        (0, "}\n", "", "the text is no transaction"),
        (
            0, "\"counters\":{", "\"counters\":{\"x\":1,", "the text is no transaction",
        ),
        (
            0, "\"resourceVersion\":\"", "\"resourceVersion\":\"9", "its resource version is not",
        ),
        (1, ",\"name\":\"a\"", "", "it has neither an object"),
        (
            1, "\"name\":\"a\"", "\"name\":\"\"", "the object has no name",
        ),
    ] {
        let text = String::from_utf8(server.log[number].clone()).unwrap();
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let problem = Recovery::from(server.base.clone()).add(changed.as_bytes());
        let said = problem.unwrap_err().to_string();
        assert!(said.contains(why), "{from}: {said}");
    }
}

fn names(events: &[WatchEvent]) -> Vec<String> {
    let names = events.iter().filter_map(|event| match event {
        WatchEvent::Added(object) => Some(format!("+{}", object.stored.name)),
        WatchEvent::Deleted(object) => Some(format!("-{}", object.stored.name)),
        WatchEvent::Bookmark { revision, .. } => Some(format!("@{revision}")),
        WatchEvent::Modified(_) => None,
        WatchEvent::Error(status) => Some(status.reason.clone()),
    });
    names.collect()
}

fn watch_from(registry: &Registry, revision: u64) -> crate::WatchCursor {
    let maps = registry.resource("", "v1", "configmaps").unwrap();
    let options = ListQuery {
        resource_version: Some(revision.to_string()),
        ..Default::default()
    };
    registry.watch(&maps, None, &options).unwrap()
}

// WAL-3: a watch can resume on a recovered server, because the transactions after the snapshot are its history.
#[test]
fn watches_resume_from_the_revision_of_the_snapshot_on() {
    let mut server = Recorded::new();
    let base = server.registry.revision();
    server.create(MAPS, config("a", "1"));
    server.delete(MAPS, "a");
    let mut registry = recovered(&server.recovery());
    let mut cursor = watch_from(&registry, base);
    assert_eq!(names(&registry.poll(&mut cursor, 9)), ["+a", "-a"]);
    let mut cursor = watch_from(&registry, base - 1);
    assert_eq!(names(&registry.poll(&mut cursor, 9)), ["Expired"]);

    // A compaction is in the log, too, so after a recovery a watch from before it gets 410.
    server.turn(Registry::compact);
    server.create(MAPS, config("b", "1"));
    registry = recovered(&server.recovery());
    let mut cursor = watch_from(&registry, base);
    assert_eq!(names(&registry.poll(&mut cursor, 9)), ["Expired"]);
    let mut cursor = watch_from(&registry, base + 2);
    assert_eq!(names(&registry.poll(&mut cursor, 9)), ["+b"]);
}

// WAL-1: a watch shows a revision only after the log holds it.
#[test]
fn a_watch_sees_no_revision_that_is_not_in_the_log() {
    let mut registry = Registry::new(Default::default(), NOW);
    let maps = StorageKey::new("", "configmaps");
    let base = registry.revision();
    let mut cursor = watch_from(&registry, base);
    registry.put(&maps, "default", "a", config("a", "1"));
    registry.put(&maps, "default", "b", config("b", "1"));
    registry.show_until(base);
    assert!(registry.poll(&mut cursor, 9).is_empty());
    assert!(registry.bookmark(&mut cursor).is_none());
    registry.show_until(base + 1);
    assert_eq!(names(&registry.poll(&mut cursor, 9)), ["+a"]);
    assert_eq!(cursor.position(), base + 1);
    registry.show_until(base + 2);
    assert_eq!(names(&registry.poll(&mut cursor, 9)), ["+b"]);
    registry.put(
        &StorageKey::new("", "secrets"),
        "default",
        "s",
        json!({"metadata": {"name": "s"}}),
    );
    let bookmark = registry.bookmark(&mut cursor);
    assert_eq!(names(bookmark.as_slice()), [format!("@{}", base + 2)]);
}
