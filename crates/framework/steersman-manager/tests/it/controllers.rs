//! Controllers of a manager share its cache, and two managers share nothing.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_core::ObjectMeta;
use serde_json::{Value, json};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_cache::{CacheOptions, ListOptions};
use steersman_client::{ClientOptions, owner};
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Reconciler, Request, reconcile,
};
use steersman_manager::Manager;
use tokio::sync::mpsc;

use crate::world::{Tell, config_map, manager_of, soon, start};

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn two_controllers_of_one_kind_cause_one_watch_list() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    for name in ["one", "two"] {
        manager
            .add_controller(
                Controller::builder::<ConfigMap>()
                    .name(name)
                    .build(Tell(told.clone()))
                    .unwrap(),
            )
            .unwrap();
    }
    let started = start(&manager);
    for _ in 0..2 {
        assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    }
    server.create(config_map("b")).unwrap();
    for _ in 0..2 {
        assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/b");
    }
    let all = manager
        .client()
        .list::<ConfigMap>(&ListOptions::new())
        .await
        .unwrap();
    assert_eq!(all.len(), 2);
    started.stop().await.unwrap();
    assert_eq!(server.requests().watch_lists("configmaps"), 1);
    assert_eq!(
        server.requests().count(|r| r.is_for("*")),
        1,
        "{:?}",
        server.requests().all()
    );
}

/// CACHE-1
#[tokio::test(start_paused = true)]
async fn without_watch_list_two_controllers_cause_one_list_and_one_watch() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let options = CacheOptions::new().watch_list(false);
    let manager = manager_of(&server).cache(options).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    for name in ["one", "two"] {
        manager
            .add_controller(
                Controller::builder::<ConfigMap>()
                    .name(name)
                    .build(Tell(told.clone()))
                    .unwrap(),
            )
            .unwrap();
    }
    let started = start(&manager);
    for _ in 0..2 {
        assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    }
    server.create(config_map("b")).unwrap();
    for _ in 0..2 {
        assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/b");
    }
    started.stop().await.unwrap();
    let requests = server.requests();
    assert_eq!(
        (requests.lists("configmaps"), requests.watches("configmaps")),
        (1, 1)
    );
    assert_eq!(requests.count(|r| r.is_for("*")), 2, "{:?}", requests.all());
}

#[tokio::test(start_paused = true)]
async fn reconciles_see_the_clock_of_the_manager() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let noon: k8s_openapi::jiff::Timestamp = "2030-01-01T12:00:00Z".parse().unwrap();
    let manager = manager_of(&server).clock(move || noon).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    let label = reconcile::from_fn(move |ctx: Context, request: Request| {
        let told = told.clone();
        async move {
            let client = ctx.client();
            let object = client.get::<ConfigMap>(&request.key).await?;
            let now = ctx.now().to_string();
            let change = |c: &mut ConfigMap| {
                c.data
                    .get_or_insert_default()
                    .insert("seen".into(), now.clone());
            };
            let changed = client.modify(&*object, change).await?;
            told.send(changed.is_changed())?;
            Ok::<_, ReconcileError>(Action::done())
        }
    });
    manager
        .add_controller(Controller::builder::<ConfigMap>().build(label).unwrap())
        .unwrap();
    let started = start(&manager);
    assert!(soon(reconciled.recv()).await.unwrap());
    // The event of the controller's own write causes a reconcile without a change.
    assert!(!soon(reconciled.recv()).await.unwrap());
    started.stop().await.unwrap();
    let stored = server.get("configmaps", "default", "a").unwrap();
    assert_eq!(stored["data"], json!({"seen": "2030-01-01T12:00:00Z"}));
}

/// Returns a reconciler that applies one label with this value.
fn applies(value: &'static str, done: mpsc::UnboundedSender<()>) -> impl Reconciler {
    reconcile::from_fn(move |ctx: Context, request: Request| {
        let done = done.clone();
        async move {
            let name = request.key.name();
            let part = json!({"metadata": {"name": name, "namespace": "default",
                "labels": {(value): "yes"}}});
            ctx.client().apply_part::<ConfigMap>(&part).await?;
            done.send(())?;
            Ok::<_, ReconcileError>(Action::done())
        }
    })
}

/// Returns the field managers of an object, each with the labels that it owns.
fn owners(server: &ApiServer) -> Vec<(String, String)> {
    let stored = server.get("configmaps", "default", "a").unwrap();
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    let applied = entries.iter().filter(|entry| entry["operation"] == "Apply");
    let owned = applied.map(|entry| {
        let labels = &entry["fieldsV1"]["f:metadata"]["f:labels"];
        let manager = entry["manager"].as_str().unwrap().to_owned();
        (manager, labels.to_string())
    });
    owned.collect()
}

#[tokio::test(start_paused = true)]
async fn two_programs_with_controllers_of_one_name_keep_each_others_fields() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let long = "operator".repeat(30);
    for (program, label) in [("shop", "red"), ("bank", "blue"), (&*long, "green")] {
        let client_config = ClientConfig::in_process(server.service(), "default");
        let client_config = client_config.user_agent(program, "1.0");
        let manager = Manager::builder(client_config).build().unwrap();
        let (told, mut done) = mpsc::unbounded_channel();
        manager
            .add_controller(
                Controller::builder::<ConfigMap>()
                    .name("namespace")
                    .build(applies(label, told))
                    .unwrap(),
            )
            .unwrap();
        let started = start(&manager);
        soon(done.recv()).await.unwrap();
        started.stop().await.unwrap();
    }
    let owners = owners(&server);
    assert_eq!(owners.len(), 3, "{owners:?}");
    let of = |manager: &str| {
        let found = owners.iter().find(|(name, _)| name == manager);
        found.map(|(_, labels)| labels.as_str())
    };
    assert_eq!(of("shop/namespace"), Some(r#"{"f:red":{}}"#), "{owners:?}");
    assert_eq!(of("bank/namespace"), Some(r#"{"f:blue":{}}"#), "{owners:?}");
    let (cut, _) = owners
        .iter()
        .find(|(_, labels)| labels.contains("green"))
        .unwrap();
    assert!(cut.len() == 128 && cut.ends_with("/namespace"), "{cut}");
    assert!(cut.starts_with("operatoroperator"), "{cut}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_signs_with_the_field_manager_that_it_is_given() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let (told, mut done) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .name("namespace")
                .field_manager("as-before")
                .build(applies("red", told))
                .unwrap(),
        )
        .unwrap();
    let started = start(&manager);
    soon(done.recv()).await.unwrap();
    started.stop().await.unwrap();
    let owners = owners(&server);
    assert_eq!(
        owners,
        [("as-before".to_owned(), r#"{"f:red":{}}"#.to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn controllers_without_a_field_manager_use_that_of_the_client_options() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let options = ClientOptions::new().field_manager("the-shop");
    let manager = manager_of(&server).client(options).build().unwrap();
    let (told, mut done) = mpsc::unbounded_channel();
    let one = Controller::builder::<ConfigMap>().name("one");
    let one = one.build(applies("red", told.clone())).unwrap();
    manager.add_controller(one).unwrap();
    let two = Controller::builder::<ConfigMap>().name("two");
    let two = two.field_manager("as-before");
    let two = two.build(applies("blue", told)).unwrap();
    manager.add_controller(two).unwrap();
    let started = start(&manager);
    for _ in 0..2 {
        soon(done.recv()).await.unwrap();
    }
    started.stop().await.unwrap();
    let mut owners = owners(&server);
    owners.sort();
    let owner = |name: &str, labels: &str| (name.to_owned(), labels.to_owned());
    assert_eq!(
        owners,
        [
            owner("as-before", r#"{"f:blue":{}}"#),
            owner("the-shop", r#"{"f:red":{}}"#),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn two_managers_work_in_one_process() {
    let (east, west) = (ApiServer::new(), ApiServer::new());
    let (told, mut reconciled) = mpsc::unbounded_channel();
    let mut started = Vec::new();
    for (server, name) in [(&east, "east"), (&west, "west")] {
        server.create(config_map(name)).unwrap();
        let manager = manager_of(server).build().unwrap();
        manager
            .add_controller(
                Controller::builder::<ConfigMap>()
                    .build(Tell(told.clone()))
                    .unwrap(),
            )
            .unwrap();
        started.push(start(&manager));
    }
    let mut keys = Vec::new();
    for _ in 0..2 {
        keys.push(soon(reconciled.recv()).await.unwrap());
    }
    keys.sort();
    assert_eq!(keys, ["default/east", "default/west"]);
    for started in started {
        started.stop().await.unwrap();
    }
}

/// Creates a Secret for every ConfigMap.
struct Sealer;

impl Reconciler for Sealer {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, ReconcileError> {
        let client = ctx.client();
        let Some(config) = client.get_opt::<ConfigMap>(&request.key).await? else {
            return Ok(Action::done());
        };
        let mut secret = Secret {
            metadata: ObjectMeta {
                name: Some(request.key.name().to_owned()),
                namespace: request.key.namespace().map(Into::into),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        };
        owner::set_controller_reference(&*config, &mut secret)?;
        let _ = client.ensure(secret, |_| {}).await?;
        Ok(Action::done())
    }
}

/// Waits until `fits` returns true for the server. Checks again after each request.
async fn until(server: &ApiServer, fits: impl Fn(&ApiServer) -> bool) {
    let mut requests = server.requests().all().len();
    while !fits(server) {
        requests += 1;
        assert!(
            requests < 100,
            "it does not come true: {:#?}",
            server.requests().all()
        );
        soon(server.requests().wait_for(requests, |_| true)).await;
    }
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

/// An object deleted while no watch was open is made again, and the cache agrees with the server.
#[tokio::test(start_paused = true)]
async fn a_child_deleted_while_the_watch_was_away_is_made_again() {
    let server = ApiServer::new();
    for name in ["a", "b"] {
        server.create(config_map(name)).unwrap();
    }
    let manager = manager_of(&server).build().unwrap();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .owns::<Secret>()
                .build(Sealer)
                .unwrap(),
        )
        .unwrap();
    let started = start(&manager);
    until(&server, |s| s.list("secrets", "default").len() == 2).await;

    let before = server.get("secrets", "default", "a").unwrap();
    assert!(server.faults().silence_watches() >= 2);
    server.delete("secrets", "default", "a").unwrap();
    server.create(config_map("c")).unwrap();
    server.compact();
    assert!(server.faults().cut_watches() >= 2);
    until(&server, |s| s.list("secrets", "default").len() == 3).await;
    let after = server.get("secrets", "default", "a").unwrap();
    assert_ne!(uid(&before), uid(&after));

    // In the end the store agrees with the server.
    let store = manager.cache().informer::<Secret>().unwrap().store();
    let versions = || -> (BTreeSet<String>, BTreeSet<String>) {
        let held = store
            .list()
            .into_iter()
            .filter_map(|s| s.metadata.resource_version.clone());
        let stored = server.list("secrets", "default");
        let version = |s: &Value| s["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        (held.collect(), stored.iter().filter_map(version).collect())
    };
    let mut events = manager.cache().informer::<Secret>().unwrap().subscribe();
    while versions().0 != versions().1 {
        soon(events.next()).await.unwrap();
    }
    let (held, stored) = versions();
    assert_eq!(held, stored);
    let made = server.requests().matching(|r| r.does(Verb::Create));
    assert_eq!(made.len(), 4, "{made:?}");
    assert_eq!(server.requests().count(|r| r.does(Verb::Patch)), 0);
    started.stop().await.unwrap();
}
