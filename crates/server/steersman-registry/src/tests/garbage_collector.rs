//! Tests of the garbage collector and the namespace controller.

use super::*;

pub(super) fn exists(server: &Server, plural: &str, name: &str) -> bool {
    server.get(plural, name).is_ok()
}

pub(super) fn policy(name: &str) -> Value {
    json!({"propagationPolicy": name})
}

/// Returns an owner reference with `blockOwnerDeletion`, which delays a `Foreground` deletion of the owner.
pub(super) fn blocking(owner: &Value) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

pub(super) fn reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]})
}

pub(super) fn with(mut body: Value, owners: &[Value], finalizers: &[&str]) -> Value {
    body["metadata"]["ownerReferences"] = json!(owners);
    body["metadata"]["finalizers"] = json!(finalizers);
    body
}

pub(super) const HOLD: &[&str] = &["g.example.com/hold"];

fn free(server: &mut Server, name: &str) {
    let none = json!({"metadata": {"finalizers": null}});
    server.merge("configmaps", name, none).unwrap();
}

fn owned(name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<_> = owners.iter().map(|owner| reference(owner)).collect();
    with(config_map(name), &owners, &[])
}

#[test]
fn dependents_are_deleted_with_their_last_owner() {
    let mut server = Server::new();
    let one = server.create("deployments", deployment("one")).unwrap();
    let two = server.create("deployments", deployment("two")).unwrap();
    let child = server
        .create("configmaps", owned("child", &[&one]))
        .unwrap();
    server
        .create("configmaps", owned("grandchild", &[&child]))
        .unwrap();
    server
        .create("configmaps", owned("shared", &[&one, &two]))
        .unwrap();
    server.delete("deployments", "one").unwrap();
    assert_eq!(
        server.names("configmaps", &ListQuery::default()),
        ["shared"]
    );
    let shared = server.get("configmaps", "shared").unwrap();
    assert_eq!(
        shared["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    server.delete("deployments", "two").unwrap();
    assert!(!exists(&server, "configmaps", "shared"));
}

#[test]
fn an_object_created_for_a_deleted_owner_is_deleted() {
    let mut server = Server::new();
    let owner = server.create("configmaps", config_map("owner")).unwrap();
    let lives = server.create("configmaps", config_map("lives")).unwrap();
    server.delete("configmaps", "owner").unwrap();
    server
        .create("configmaps", owned("late", &[&owner]))
        .unwrap();
    assert_eq!(refused(server.get("configmaps", "late")).0, 404);
    server
        .create("configmaps", owned("shared", &[&owner, &lives]))
        .unwrap();
    assert!(server.get("configmaps", "shared").is_ok());
    let mut unknown = owner;
    unknown["kind"] = json!("Unheard");
    server
        .create("configmaps", owned("apart", &[&unknown]))
        .unwrap();
    assert!(server.get("configmaps", "apart").is_ok());
}

#[test]
fn a_long_chain_of_owners_is_collected() {
    let mut server = Server::new();
    let mut last = server.create("configmaps", config_map("c0")).unwrap();
    for n in 1..3000 {
        last = server
            .create("configmaps", owned(&format!("c{n}"), &[&last]))
            .unwrap();
    }
    server.delete("configmaps", "c0").unwrap();
    assert!(server.names("configmaps", &ListQuery::default()).is_empty());
}

#[test]
fn orphaned_dependents_stay() {
    let mut server = Server::new();
    let owner = server.create("deployments", deployment("o")).unwrap();
    server
        .create("configmaps", owned("child", &[&owner]))
        .unwrap();
    let answer = server.delete_with("deployments", "o", policy("Orphan"));
    assert!(matches!(answer.unwrap(), Deleted::Held(_)));
    let child = server.get("configmaps", "child").unwrap();
    assert!(child["metadata"].get("ownerReferences").is_none());
    assert!(!exists(&server, "deployments", "o"));
}

#[test]
fn some_kinds_orphan_by_default() {
    let mut server = Server::alone();
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    server.create("jobs", job).unwrap();
    server.delete("jobs", "j").unwrap();
    let left = server.get("jobs", "j").unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["orphan"]));
    server
        .delete_with("jobs", "j", policy("Background"))
        .unwrap();
    assert!(!exists(&server, "jobs", "j"));
}

#[test]
fn a_foreground_delete_waits_for_blocking_dependents() {
    let mut server = Server::new();
    let owner = server.create("deployments", deployment("f")).unwrap();
    let blocker = with(config_map("blocker"), &[blocking(&owner)], HOLD);
    let blocker = server.create("configmaps", blocker).unwrap();
    let below = with(config_map("below"), &[blocking(&blocker)], HOLD);
    server.create("configmaps", below).unwrap();
    let loose = with(config_map("loose"), &[reference(&owner)], HOLD);
    server.create("configmaps", loose).unwrap();
    server
        .delete_with("deployments", "f", policy("Foreground"))
        .unwrap();
    // A dependent that has dependents is itself deleted with `Foreground`, and a dependent without dependents is not.
    let finalizers = |server: &Server, name: &str| {
        let object = server.get("configmaps", name).unwrap();
        assert!(
            object["metadata"]["deletionTimestamp"].is_string(),
            "{name}"
        );
        object["metadata"]["finalizers"].clone()
    };
    let both = json!([HOLD[0], "foregroundDeletion"]);
    assert_eq!(finalizers(&server, "blocker"), both);
    assert_eq!(finalizers(&server, "below"), json!(HOLD));
    assert_eq!(finalizers(&server, "loose"), json!(HOLD));
    free(&mut server, "below");
    assert!(!exists(&server, "configmaps", "below"));
    assert_eq!(finalizers(&server, "blocker"), json!(HOLD));
    free(&mut server, "blocker");
    assert!(!exists(&server, "deployments", "f"));
    assert!(exists(&server, "configmaps", "loose"));
}

#[test]
fn an_update_of_owner_references_triggers_the_collector() {
    let mut server = Server::new();
    let lost = server.create("configmaps", config_map("lost")).unwrap();
    server.delete("configmaps", "lost").unwrap();
    server.create("configmaps", config_map("late")).unwrap();
    let owners = |all: &[Value]| json!({"metadata": {"ownerReferences": all}});
    server
        .merge("configmaps", "late", owners(&[reference(&lost)]))
        .unwrap();
    assert!(!exists(&server, "configmaps", "late"));

    for unblocked in [true, false] {
        let owner = server.create("configmaps", config_map("owner")).unwrap();
        let child = with(config_map("child"), &[blocking(&owner)], HOLD);
        server.create("configmaps", child).unwrap();
        server
            .delete_with("configmaps", "owner", policy("Foreground"))
            .unwrap();
        assert!(exists(&server, "configmaps", "owner"));
        let kept = [reference(&owner)];
        let kept: &[Value] = if unblocked { &kept } else { &[] };
        server.merge("configmaps", "child", owners(kept)).unwrap();
        assert!(!exists(&server, "configmaps", "owner"), "{unblocked}");
        free(&mut server, "child");
    }
}

#[test]
fn a_terminating_owner_with_a_finalizer_keeps_its_dependents() {
    let mut server = Server::new();
    let owner = with(config_map("owner"), &[], HOLD);
    let owner = server.create("configmaps", owner).unwrap();
    server
        .create("configmaps", owned("child", &[&owner]))
        .unwrap();
    server.delete("configmaps", "owner").unwrap();
    assert!(exists(&server, "configmaps", "child"));
    free(&mut server, "owner");
    assert!(!exists(&server, "configmaps", "child"));
}

#[test]
fn dangling_references_are_removed_if_another_owner_stays() {
    let mut server = Server::new();
    let solid = server.create("configmaps", config_map("solid")).unwrap();
    let gone = server.create("configmaps", config_map("gone")).unwrap();
    let waits = with(config_map("waits"), &[], HOLD);
    let waits = server.create("configmaps", waits).unwrap();
    server.delete("configmaps", "gone").unwrap();
    let mut other = solid.clone();
    other["metadata"]["uid"] = json!("another-uid");
    let owners = [&solid, &gone, &waits, &other].map(reference);
    server
        .create("configmaps", with(config_map("child"), &owners, &[]))
        .unwrap();
    let left = |server: &Server| {
        let child = server.get("configmaps", "child").unwrap();
        let owners = child["metadata"]["ownerReferences"].as_array().cloned();
        let owners = owners.unwrap_or_default().into_iter();
        let mut names = owners.map(|one| one["name"].as_str().unwrap().to_owned());
        names.by_ref().collect::<Vec<_>>()
    };
    assert_eq!(left(&server), ["solid", "waits"]);
    // The child still has the owner `solid`, so it stays. Its reference to the owner `waits`, which waits for the
    // deletion of its dependents, is removed, because otherwise `waits` would never be removed.
    server
        .delete_with("configmaps", "waits", policy("Foreground"))
        .unwrap();
    assert_eq!(left(&server), ["solid"]);
}

// SRV-GC-1: an object is not deleted while one of its owners has a kind that the server does not serve.
#[test]
fn objects_with_an_unknown_owner_stay() {
    let mut server = Server::new();
    let owner = server.create("configmaps", config_map("owner")).unwrap();
    let mut unknown = owner.clone();
    unknown["apiVersion"] = json!("v9");
    unknown["metadata"]["uid"] = json!("from-the-future");
    let role = json!({"metadata": {"name": "r"}, "rules": []});
    for (name, owner) in [("wide", &owner), ("strange", &unknown)] {
        let mut role = role.clone();
        role["metadata"]["name"] = json!(name);
        let role = with(role, &[reference(owner)], &[]);
        server.create("clusterroles", role).unwrap();
    }
    let mixed = owned("mixed", &[&unknown, &owner]);
    server.create("configmaps", mixed).unwrap();
    server.delete("configmaps", "owner").unwrap();
    assert!(exists(&server, "clusterroles", "wide"));
    assert!(exists(&server, "clusterroles", "strange"));
    assert!(exists(&server, "configmaps", "mixed"));
}

#[test]
fn owners_in_other_namespaces_do_not_count() {
    let mut server = Server::new();
    let owner = server.create("configmaps", config_map("owner")).unwrap();
    let maps = server.resource("configmaps");
    let (options, now) = (WriteOptions::default(), server.now);
    let target = ObjectTarget::collection(&maps, Some("kube-public"));
    let body = owned("far", &[&owner]);
    server.registry.create(target, body, &options, now).unwrap();
    let left = server
        .registry
        .list(&maps, Some("kube-public"), &ListQuery::default())
        .unwrap();
    assert!(left.items.is_empty());
    assert!(exists(&server, "configmaps", "owner"));
    let namespace = json!({"metadata": {"name": "wide"}});
    let wide = server.create("namespaces", namespace).unwrap();
    let mut wide_owned = owned("near", &[&wide]);
    wide_owned["metadata"]["ownerReferences"][0]["apiVersion"] = json!("v1");
    wide_owned["metadata"]["ownerReferences"][0]["kind"] = json!("Namespace");
    server.create("configmaps", wide_owned).unwrap();
    assert!(exists(&server, "configmaps", "near"));
    server.delete("namespaces", "wide").unwrap();
    assert!(!exists(&server, "configmaps", "near"));
}

// SRV-GC-2: the garbage collector ends even if objects own each other in a circle.
#[test]
fn objects_that_own_each_other_are_collected() {
    for many in [2, 3, 500] {
        let mut server = Server::new();
        let name = |n: usize| format!("c{}", n % many);
        let mut made = Vec::new();
        for n in 0..many {
            let body = config_map(&name(n));
            made.push(server.create("configmaps", body).unwrap());
        }
        for (n, owner) in made.iter().enumerate() {
            let owners = json!({"metadata": {"ownerReferences": [blocking(owner)]}});
            server.merge("configmaps", &name(n + 1), owners).unwrap();
        }
        server
            .delete_with("configmaps", "c0", policy("Foreground"))
            .unwrap();
        let left = server.names("configmaps", &ListQuery::default());
        assert!(left.is_empty(), "{many}: {left:?}");
    }
}

fn conditions(server: &Server, name: &str) -> Vec<(String, String)> {
    let namespace = server.get("namespaces", name).unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let all = namespace["status"]["conditions"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|one| (text(&one["reason"]), text(&one["message"])))
        .collect()
}

const FINE: [(&str, &str); 3] = [
    (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
];
const CLEAR: [(&str, &str); 2] = [
    ("ContentRemoved", "All content successfully removed"),
    (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

// SRV-GC-3: in a terminating namespace, Pods are deleted before other objects.
#[test]
fn a_terminating_namespace_reports_its_remaining_objects() {
    let mut server = Server::new();
    let body = json!({"metadata": {"name": "m"}, "spec": {"finalizers": ["g.example.com/mine"]}});
    server.create("namespaces", body).unwrap();
    let (maps, pods) = (server.resource("configmaps"), server.resource("pods"));
    let (options, now) = (WriteOptions::default(), server.now);
    let held = |body: Value| with(body, &[], HOLD);
    for (resource, body) in [
        (&maps, config_map("plain")),
        (&maps, held(config_map("held"))),
        (&pods, held(pod("p", None))),
    ] {
        let target = ObjectTarget::collection(resource, Some("m"));
        server.registry.create(target, body, &options, now).unwrap();
    }
    let free = |server: &mut Server, resource: &Resource, name: &str| {
        let patch = br#"{"metadata": {"finalizers": null}}"#;
        let target = ObjectTarget::object(resource, Some("m"), name);
        let kind = PatchKind::Merge;
        server
            .registry
            .patch(target, kind, patch, &WriteOptions::default(), now)
            .unwrap();
    };
    let count = |server: &Server| {
        let page = server
            .registry
            .list(&maps, Some("m"), &ListQuery::default());
        page.unwrap().items.len()
    };
    server.delete("namespaces", "m").unwrap();
    // The other objects in the namespace are not deleted while it has Pods.
    assert_eq!(count(&server), 2);
    let said = |one: (&str, &str)| (one.0.to_owned(), one.1.to_owned());
    let expect = |server: &Server, last: [(&str, &str); 2]| {
        let expected: Vec<_> = FINE.into_iter().chain(last).map(said).collect();
        assert_eq!(conditions(server, "m"), expected);
    };
    let remain =
        |kind: &str| format!("Some resources are remaining: {kind} has 1 resource instances");
    let finalizers = (
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: g.example.com/hold in 1 resource instances",
    );
    expect(
        &server,
        [("SomeResourcesRemain", &remain("pods.")), finalizers],
    );
    free(&mut server, &pods, "p");
    assert_eq!(count(&server), 1);
    expect(
        &server,
        [("SomeResourcesRemain", &remain("configmaps.")), finalizers],
    );
    free(&mut server, &maps, "held");
    expect(&server, CLEAR);
    // In `spec.finalizers`, `kubernetes` of the namespace controller is removed, and that of a client stays.
    let mut namespace = server.get("namespaces", "m").unwrap();
    assert_eq!(
        namespace["spec"]["finalizers"],
        json!(["g.example.com/mine"])
    );
    namespace["spec"]["finalizers"] = json!([]);
    server
        .put("namespaces", Subresource::Finalize, namespace)
        .unwrap();
    assert!(!exists(&server, "namespaces", "m"));
}
