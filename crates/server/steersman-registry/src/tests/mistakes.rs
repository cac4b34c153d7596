//! Tests of a panic in the middle of a verb, and of numbers at the end of their range.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// SRV-4: a verb that runs as an attempt (with webhooks) and panics leaves neither its generator of uids nor its
/// webhook responses in the registry.
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
    // After the panic, a verb that is called directly still needs no webhooks.
    server.create("configmaps", config_map("next")).unwrap();
}

/// SRV-3: a client can set the generation of a ConfigMap to the maximum of `i64`. A delete, which raises the generation
/// by 1, then keeps this value and does not overflow.
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

/// SRV-REG-3: a new CSIDriver has no generation. The first change of its spec sets the generation to 1.
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
