//! Declaring does no I/O, and refuses what cannot work before anything starts.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use steersman_api::{Connection, kube_client};
use steersman_cache::{ByObject, CacheOptions};
use steersman_manager::{Error, Manager};
use tokio::sync::mpsc;

use steersman_object::report;

use crate::world::Tell;

fn nowhere() -> Connection {
    Connection::from_config(kube_client::Config::new(
        "http://127.0.0.1:1".parse().unwrap(),
    ))
}

/// No runtime runs here: nothing that is declared needs one.
#[test]
fn everything_is_declared_without_a_runtime_and_a_cluster() {
    let secrets = ByObject::new().namespaces(["default"]);
    let options = CacheOptions::new().by_object::<Secret>(secrets);
    let manager = Manager::builder(nowhere()).cache(options).build().unwrap();
    manager
        .cache()
        .index_field::<ConfigMap>("name", |c| c.metadata.name.clone())
        .unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    manager
        .controller::<ConfigMap>()
        .owns::<Secret>()
        .run(Tell(told.clone()))
        .unwrap();
    manager
        .controller::<ConfigMap>()
        .name("other")
        .run(Tell(told))
        .unwrap();
    assert_eq!(manager.controllers(), ["configmap", "other"]);
    assert_eq!(manager.cache().all_unsynced().len(), 2);
}

#[test]
fn what_cannot_work_is_refused_by_name() {
    let bad = CacheOptions::new().by_object::<Namespace>(ByObject::new().namespaces(["a"]));
    let error = Manager::builder(nowhere()).cache(bad).build().unwrap_err();
    assert!(
        report(&error).to_string().contains("Namespace.v1"),
        "{}",
        report(&error).to_string()
    );

    let manager = Manager::builder(nowhere()).build().unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    let run = |name: &str, workers| {
        let controller = manager.controller::<ConfigMap>().name(name);
        controller
            .max_concurrent_reconciles(workers)
            .run(Tell(told.clone()))
    };
    run("one", 1).unwrap();
    let error = run("one", 1).unwrap_err();
    assert!(
        matches!(&error, Error::DuplicateController { name } if name == "one"),
        "{error}"
    );
    assert!(matches!(run("", 1), Err(Error::Controller(_))));
    assert!(matches!(run("two", 0), Err(Error::Controller(_))));
}

#[test]
fn two_managers_cannot_count_in_one_registry() {
    let first = Manager::builder(nowhere()).build().unwrap();
    let registry = first.metrics_registry().clone();
    let error = Manager::builder(nowhere())
        .metrics_registry(registry)
        .build()
        .unwrap_err();
    assert!(matches!(error, Error::Metrics(_)), "{error}");
}
