//! Property tests of the garbage collector with arbitrary owner references.

use proptest::prelude::*;

use super::garbage_collector::{HOLD, blocking, exists, policy, reference, with};
use super::*;

/// One operation of a client on the ConfigMaps `n0` to `n5`.
#[derive(Debug, Clone)]
enum Op {
    /// Creates the object with this index, or replaces its owner references. Each has the index of the owner and
    /// `blockOwnerDeletion`; an index without an object gives an owner that does not exist. With `true`, a new object
    /// gets a finalizer.
    Own(usize, Vec<(usize, bool)>, bool),
    Delete(usize, &'static str),
    Free(usize),
}

const MANY: usize = 6;

fn op() -> impl Strategy<Value = Op> {
    let owners = prop::collection::vec((0..=MANY, any::<bool>()), 0..3);
    let policies = prop::sample::select(vec!["Background", "Foreground", "Orphan"]);
    prop_oneof![
        4 => (0..MANY, owners, prop::bool::weighted(0.3)).prop_map(|(n, o, h)| Op::Own(n, o, h)),
        2 => (0..MANY, policies).prop_map(|(n, p)| Op::Delete(n, p)),
        1 => (0..MANY).prop_map(Op::Free),
    ]
}

fn name_of(n: usize) -> String {
    format!("n{n}")
}

fn all_of(server: &Server) -> Vec<Value> {
    let page = server.list("configmaps", &ListQuery::default()).unwrap();
    page.items.iter().map(|one| one.value().clone()).collect()
}

fn uids_of_owners(object: &Value) -> Vec<String> {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owners = owners.into_iter().flatten();
    owners
        .map(|one| one["uid"].as_str().unwrap().to_owned())
        .collect()
}

fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn has(object: &Value, finalizer: &str) -> bool {
    let all = object["metadata"]["finalizers"].as_array();
    all.is_some_and(|all| all.iter().any(|one| one == finalizer))
}

/// Returns the uids of the objects that a delete of `target` must keep: objects without owners, and objects with an
/// owner that is kept. With `orphan`, dependents of `target` lose their reference to it.
fn anchored(objects: &[Value], target: &str, orphan: bool) -> Vec<String> {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut kept: Vec<String> = Vec::new();
    loop {
        let before = kept.len();
        for object in objects {
            let mut owners = uids_of_owners(object);
            let freed = orphan && owners.iter().any(|one| one == target);
            owners.retain(|one| !freed || one != target);
            let root = owners.is_empty();
            let holds = root || owners.iter().any(|one| kept.contains(one));
            let uid = uid(object);
            if uid != target && !is_deleted(object) && holds && !kept.contains(&uid) {
                kept.push(uid);
            }
        }
        if kept.len() == before {
            return kept;
        }
    }
}

/// Checks the objects after a verb, when the garbage collector has no work left: no reference names a missing owner,
/// and only a finalizer or a blocking dependent keeps a deleted object.
fn check_settled(objects: &[Value]) -> Result<(), TestCaseError> {
    let find = |uid: &str| objects.iter().find(|one| one["metadata"]["uid"] == *uid);
    let waits = |one: &Value| is_deleted(one) && has(one, "foregroundDeletion");
    for object in objects {
        let uid = object["metadata"]["uid"].as_str().unwrap();
        if !is_deleted(object) {
            for owner in uids_of_owners(object) {
                let solid = find(&owner).is_some_and(|owner| !waits(owner));
                prop_assert!(
                    solid,
                    "{object} keeps a reference to a missing or waiting owner"
                );
            }
            continue;
        }
        prop_assert!(!has(object, "orphan"), "{object} was not orphaned");
        if waits(object) {
            let blocks = |reference: &Value| {
                reference["uid"] == uid && reference["blockOwnerDeletion"] == true
            };
            let held = objects.iter().any(|one| {
                let owners = one["metadata"]["ownerReferences"].as_array();
                owners.is_some_and(|all| all.iter().any(blocks))
            });
            prop_assert!(held, "{object} waits although no dependent blocks it");
        } else {
            prop_assert!(has(object, HOLD[0]), "{object} should have been removed");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // SRV-GC-1, SRV-GC-2: for arbitrary owner references the garbage collector ends, deletes no object that has an
    // existing owner, and keeps no object of which all owners are gone.
    #[test]
    fn exactly_the_objects_without_a_live_owner_are_collected(ops in prop::collection::vec(op(), 1..40)) {
        let mut server = Server::new();
        for op in ops {
            let before = all_of(&server);
            let mut kept = Vec::new();
            match op {
                Op::Own(n, owners, held) => {
                    let mut seen = Vec::new();
                    let mut references = Vec::new();
                    for (owner, block) in owners {
                        if owner == n || seen.contains(&owner) {
                            continue;
                        }
                        seen.push(owner);
                        let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": {"name": name_of(owner), "uid": format!("none-{owner}")}});
                        let owner = server.get("configmaps", &name_of(owner)).unwrap_or(nobody);
                        references.push(if block { blocking(&owner) } else { reference(&owner) });
                    }
                    if exists(&server, "configmaps", &name_of(n)) {
                        let patch = json!({"metadata": {"ownerReferences": references}});
                        server.merge("configmaps", &name_of(n), patch).unwrap();
                    } else {
                        let holds: &[&str] = if held { HOLD } else { &[] };
                        let body = with(config_map(&name_of(n)), &references, holds);
                        server.create("configmaps", body).unwrap();
                    }
                }
                Op::Delete(n, how) => {
                    let Ok(target) = server.get("configmaps", &name_of(n)) else { continue };
                    let uid = target["metadata"]["uid"].as_str().unwrap();
                    kept = anchored(&before, uid, how == "Orphan");
                    server.delete_with("configmaps", &name_of(n), policy(how)).unwrap();
                }
                Op::Free(n) => {
                    let Ok(target) = server.get("configmaps", &name_of(n)) else { continue };
                    kept = anchored(&before, "", false);
                    if has(&target, HOLD[0]) {
                        let mut list = target["metadata"]["finalizers"].clone();
                        list.as_array_mut().unwrap().retain(|one| one != HOLD[0]);
                        let patch = json!({"metadata": {"finalizers": list}});
                        server.merge("configmaps", &name_of(n), patch).unwrap();
                    }
                }
            }
            let after = all_of(&server);
            for uid in kept {
                let lives = |one: &Value| one["metadata"]["uid"] == *uid && !is_deleted(one);
                prop_assert!(after.iter().any(lives), "{uid} was collected: {after:?}");
            }
            check_settled(&after)?;
        }
    }
}
