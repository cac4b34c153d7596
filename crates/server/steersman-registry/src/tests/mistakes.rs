//! Tests of a panic in the middle of a verb, and of numbers at the end of their range.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// SRV-4: a verb that panics while webhooks may be called leaves neither its random numbers nor its
/// webhook state in the registry.
#[test]
fn a_verb_that_panics_leaves_the_registry_as_it_was() {
    let mut server = Server::new();
    let hooks = json!({"metadata": {"name": "hooks"}, "webhooks": []});
    server
        .create("validatingwebhookconfigurations", hooks)
        .unwrap();
    let mut expected = server.registry.rng.clone();
    let _used = expected.fork();
    let mut attempt = Attempt::default();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        server.registry.attempt(&mut attempt, |registry| {
            assert!(registry.is_attended());
            let uid = registry.rng.uid();
            assert!(uid.is_empty(), "a mistake in the verb");
        })
    }));
    assert!(broken.is_err());
    assert_eq!(server.registry.rng.state(), expected.state());
    assert!(!server.registry.is_attended());
    // Writes of the server itself call no webhooks before the panic and after it.
    server.create("configmaps", config_map("next")).unwrap();
}

/// SRV-3: a client can set the generation of a kind without a generation rule, even to the maximum.
#[test]
fn the_maximum_generation_is_not_raised() {
    let mut server = Server::new();
    let mut held = config_map("held");
    held["metadata"]["generation"] = json!(i64::MAX);
    held["metadata"]["finalizers"] = json!(["e.com/hold"]);
    server.create("configmaps", held).unwrap();
    server.delete("configmaps", "held").unwrap();
    let left = server.get("configmaps", "held").unwrap();
    assert_eq!(left["metadata"]["generation"], json!(i64::MAX));
    assert!(left["metadata"]["deletionTimestamp"].is_string());
}

/// SRV-REG-3: a new CSIDriver has no generation; the first change of its spec makes it one.
#[test]
fn the_generation_of_a_csi_driver_counts_its_changes() {
    let mut server = Server::new();
    let driver = json!({"metadata": {"name": "d.e.com"}, "spec": {}});
    let made = server.create("csidrivers", driver).unwrap();
    assert_eq!(made["metadata"]["generation"], json!(null));
    let change = json!({"spec": {"requiresRepublish": true}});
    let changed = server.merge("csidrivers", "d.e.com", change).unwrap();
    assert_eq!(changed["metadata"]["generation"], 1);
}
