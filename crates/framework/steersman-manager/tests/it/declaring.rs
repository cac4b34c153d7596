//! Declarations do no I/O, and those that cannot work are refused before anything starts.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use steersman_api::{ClientConfig, kube_client};
use steersman_apiserver::ApiServer;
use steersman_cache::{ByObject, CacheOptions};
use steersman_client::ClientOptions;
use steersman_controller::{Controller, ControllerDefaults, ControllerSettings};
use steersman_manager::{Error, Manager, Shutdown};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use steersman_object::report;

use crate::world::Tell;

fn nowhere() -> ClientConfig {
    ClientConfig::from_config(kube_client::Config::new(
        "http://127.0.0.1:1".parse().unwrap(),
    ))
}

/// No runtime runs in this test, because no declaration needs one.
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
        .add_controller(
            Controller::builder::<ConfigMap>()
                .owns::<Secret>()
                .build(Tell(told.clone()))
                .unwrap(),
        )
        .unwrap();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .name("other")
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    assert_eq!(manager.controllers(), ["configmap", "other"]);
    assert_eq!(manager.cache().all_unsynced().len(), 2);
}

/// Servers refuse each write that is signed with one of these names.
#[test]
fn a_field_manager_that_servers_refuse_is_refused_when_building() {
    let (told, _reconciled) = mpsc::unbounded_channel();
    for (name, problem) in [
        (String::new(), "is empty"),
        ("x".repeat(129), "has 129 bytes"),
        ("shop\u{7}".to_owned(), r#"has the character '\u{7}'"#),
        ("shop\u{200b}".to_owned(), r#"has the character '\u{200b}'"#),
    ] {
        let manager = Manager::builder(nowhere()).build().unwrap();
        let controller = Controller::builder::<ConfigMap>().field_manager(&name);
        let error = controller.build(Tell(told.clone())).unwrap_err();
        let text = report(&error).to_string();
        assert!(text.contains(r#"controller "configmap""#), "{text}");
        assert!(
            text.contains("field manager") && text.contains(problem),
            "{text}"
        );
        assert!(manager.controllers().is_empty() && manager.cache().all_unsynced().is_empty());

        let options = ClientOptions::new().field_manager(&name);
        let error = Manager::builder(nowhere())
            .client(options)
            .build()
            .unwrap_err();
        let text = report(&error).to_string();
        assert!(
            text.contains("field manager") && text.contains(problem),
            "{text}"
        );
    }
    for name in ["x".repeat(128), "the shop → é".to_owned()] {
        let options = ClientOptions::new().field_manager(&name);
        let manager = Manager::builder(nowhere()).client(options).build().unwrap();
        let controller = Controller::builder::<ConfigMap>().field_manager(name);
        let controller = controller.build(Tell(told.clone())).unwrap();
        manager.add_controller(controller).unwrap();
    }
}

#[test]
fn declarations_that_cannot_work_are_refused_by_name() {
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
        let controller = Controller::builder::<ConfigMap>()
            .name(name)
            .max_concurrent_reconciles(workers)
            .build(Tell(told.clone()))?;
        manager.add_controller(controller)
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

/// CACHE-13
#[tokio::test(start_paused = true)]
async fn cache_13_a_refused_controller_leaves_neither_a_name_nor_kinds() {
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let manager = Manager::builder(client_config).build().unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    manager.start(Shutdown::when(async {})).await.unwrap();
    for _ in 0..2 {
        let error = manager
            .add_controller(
                Controller::builder::<ConfigMap>()
                    .name("late")
                    .build(Tell(told.clone()))
                    .unwrap(),
            )
            .unwrap_err();
        assert!(
            matches!(&error, Error::Stopping { name } if name.contains("late")),
            "{error}"
        );
        assert!(manager.controllers().is_empty());
    }

    // The cache refuses the kinds, although the manager has not stopped.
    let manager = Manager::builder(nowhere()).build().unwrap();
    drop(manager.cache().begin().unwrap());
    for _ in 0..2 {
        let controller = Controller::builder::<ConfigMap>().name("one");
        let controller = controller.build(Tell(told.clone())).unwrap();
        let error = manager.add_controller(controller).unwrap_err();
        assert!(matches!(&error, Error::Controller(_)), "{error}");
        assert!(manager.controllers().is_empty());
    }
}

/// CACHE-13
#[test]
fn cache_13_refused_options_register_no_metrics() {
    let registry = prometheus::Registry::new();
    let bad = CacheOptions::new().by_object::<Namespace>(ByObject::new().namespaces(["a"]));
    let build = |options| {
        let builder = Manager::builder(nowhere()).metrics_registry(registry.clone());
        builder.cache(options).build()
    };
    assert!(matches!(build(bad), Err(Error::CacheOptions(_))));
    assert!(registry.gather().is_empty());
    assert!(build(CacheOptions::new()).is_ok());
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

/// MGR-8
#[tokio::test(start_paused = true)]
async fn settings_of_an_unknown_controller_are_refused_with_the_known_names() {
    let server = ApiServer::new();
    let settings = ControllerSettings::new().max_concurrent_reconciles(2);
    let defaults = ControllerDefaults::new().named("webstie", settings);
    let builder = Manager::builder(ClientConfig::in_process(server.service(), "default"));
    let manager = builder.controllers(defaults).build().unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    let declare = |name: &str| {
        let controller = Controller::builder::<ConfigMap>().name(name);
        let controller = controller.build(Tell(told.clone())).unwrap();
        manager.add_controller(controller).unwrap();
    };
    declare("website");
    declare("certificate");
    let refused = manager.start(Shutdown::from(cancelled())).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::UnknownControllers { .. }), "{error}");
    let text = error.to_string();
    let names = ["\"webstie\"", "\"certificate\", \"website\""];
    assert!(names.iter().all(|names| text.contains(names)), "{text}");
    // Nothing was started: the manager starts once the controller is there.
    declare("webstie");
    manager.start(Shutdown::from(cancelled())).await.unwrap();
}

/// CACHE-13
#[test]
fn settings_that_cannot_work_are_refused_when_building() {
    let registry = prometheus::Registry::new();
    let build = |workers| {
        let every = ControllerSettings::new().max_concurrent_reconciles(workers);
        Manager::builder(nowhere())
            .metrics_registry(registry.clone())
            .controllers(ControllerDefaults::new().every(every))
            .build()
    };
    let error = report(&build(0).unwrap_err()).to_string();
    assert!(error.contains("the smallest number is 1"), "{error}");
    let _manager = build(1).unwrap();
}

fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}
