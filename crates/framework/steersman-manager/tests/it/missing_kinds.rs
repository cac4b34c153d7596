//! An unavailable kind stops only its own controllers, and only as long as it is unavailable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube_core::CustomResourceExt as _;
use kube_derive::CustomResource;
use parking_lot::Mutex;
use prometheus::TextEncoder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, FaultGuard, Verb};
use steersman_cache::{ByObject, CacheOptions, ListOptions};
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Reconciler, Request, handler,
};
use steersman_manager::{Cluster, Group, Health, Manager, runnable};
use steersman_object::{ObjectKey, TypedObject};
use steersman_testenv::log::capture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::world::{Notes, Tell, add, config_map, manager_of, soon, start};

const WEBSITES: &str = "websites.web.example.com";
const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "web.example.com",
    version = "v1",
    kind = "Website",
    namespaced
)]
#[kube(crates(kube_core = "::kube_core"))]
pub(crate) struct WebsiteSpec {
    image: String,
}

/// The number of objects of `K` that each reconcile found in the cache, by controller.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, Vec<usize>>>>);

/// Lists the objects of one kind each second.
struct Lists<K> {
    counts: Counts,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl Counts {
    fn lists<K: TypedObject>(&self) -> Lists<K> {
        Lists {
            counts: self.clone(),
            kind: std::marker::PhantomData,
        }
    }

    /// Returns the numbers of objects that the reconciles of a controller found since the last call.
    fn take(&self, controller: &str) -> Vec<usize> {
        self.0.lock().remove(controller).unwrap_or_default()
    }
}

impl<K: TypedObject> Reconciler for Lists<K> {
    async fn reconcile(&self, ctx: &Context, _: Request) -> Result<Action, ReconcileError> {
        let found = ctx.client().list::<K>(&ListOptions::new()).await?.len();
        let mut counts = self.counts.0.lock();
        let counts = counts.entry(ctx.controller().to_owned()).or_default();
        counts.push(found);
        Ok(Action::requeue_after(Duration::from_secs(1)))
    }
}

fn install(server: &ApiServer) {
    let definition = serde_json::to_value(Website::crd()).unwrap();
    server.install_crd(definition).unwrap();
    for name in ["one", "two"] {
        server
            .create(json!({
                "apiVersion": "web.example.com/v1", "kind": "Website",
                "metadata": {"namespace": "default", "name": name}, "spec": {"image": "nginx"},
            }))
            .unwrap();
    }
}

fn service(name: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"ports": [{"port": 80}]},
    })
}

fn metrics(manager: &Manager) -> String {
    let families = manager.metrics_registry().gather();
    TextEncoder::new().encode_to_string(&families).unwrap()
}

fn check(health: &Health, name: &str) -> (bool, Vec<String>) {
    let checks = health.checks();
    let check = checks.iter().find(|check| check.name == name).unwrap();
    (check.is_ok, check.findings.clone())
}

async fn minutes(many: u64) {
    sleep(Duration::from_secs(60 * many)).await;
}

/// One manager with controllers of three kinds, one of them missing and one forbidden.
struct Scene {
    server: ApiServer,
    manager: Manager,
    counts: Counts,
}

impl Scene {
    fn new() -> Self {
        let server = ApiServer::new();
        server.create(config_map("a")).unwrap();
        server.create(service("s")).unwrap();
        let manager = manager_of(&server).build().unwrap();
        let counts = Counts::default();
        add::<ConfigMap>(&manager, counts.lists::<ConfigMap>());
        add::<Service>(&manager, counts.lists::<Service>());
        add::<Website>(&manager, counts.lists::<Website>());
        Self {
            server,
            manager,
            counts,
        }
    }

    fn forbid(&self) -> FaultGuard {
        let answer = Answer::code(403).message("services is forbidden: no right to list");
        self.server.faults().answer(None, "services", answer)
    }

    fn check(&self, name: &str) -> (bool, Vec<String>) {
        check(&self.manager.health(), name)
    }

    /// Asserts that health and metrics name kinds, reasons, rules and controllers.
    fn assert_both_are_named(&self) {
        assert!(!self.manager.health().is_ok());
        let (ok, informers) = self.check("informers");
        assert!(!ok && informers.len() == 2, "{informers:?}");
        let rule = r#"resources: ["services"]"#;
        let forbidden = [
            rule,
            "no right to list",
            "an api-server in this process, for controller service: services ",
        ];
        let definition = "install the CustomResourceDefinition websites.web.example.com";
        let missing = [
            definition,
            "404",
            "an api-server in this process, for controller website: websites",
        ];
        for (finding, parts) in [(&informers[0], forbidden), (&informers[1], missing)] {
            // The rule to copy is at the end.
            assert!(
                !finding.ends_with(')') && !finding.contains("} of"),
                "{finding}"
            );
            for part in parts {
                assert!(finding.contains(part), "{part:?} is not in {finding}");
            }
        }
        let waits = [
            "service waits for Service.v1 (forbidden)",
            "website waits for Website.v1.web.example.com (not_served)",
        ];
        assert_eq!(
            self.check("controllers"),
            (false, waits.map(Into::into).into())
        );
        let shown = metrics(&self.manager);
        for labels in [
            r#"controller="service",name="Service.v1",reason="forbidden""#,
            r#"controller="website",name="Website.v1.web.example.com",reason="not_served""#,
        ] {
            let series = format!("steersman_controller_waiting{{{labels}}} 1");
            assert!(shown.contains(&series), "{series} is not in {shown}");
        }
    }

    /// Asserts that at least one reconcile ran since the last call, and that each found `many` objects.
    fn assert_all_found(&self, controller: &str, many: usize) {
        let seen = self.counts.take(controller);
        assert!(!seen.is_empty(), "{controller} did not reconcile");
        assert!(
            seen.iter().all(|found| *found == many),
            "{controller}: {seen:?}"
        );
    }

    /// Forbids a kind after its sync: reconciles go on, no read finds an empty store, and the health names the kind.
    async fn forbid_for_a_while(&self) {
        self.counts.take("service");
        let forbidden = self.forbid();
        self.server.compact();
        assert!(self.server.faults().cut_watches_of("services") > 0);
        minutes(5).await;
        let (ok, informers) = self.check("informers");
        assert!(!ok && informers.len() == 1, "{informers:?}");
        let old = "services is stale in the cache: ";
        assert!(informers[0].contains(old), "{informers:?}");
        assert!(self.check("controllers").0);
        drop(forbidden);
        minutes(1).await;
        self.assert_all_found("service", 1);
        assert!(self.manager.health().is_ok());
    }

    /// Deletes a definition that is watched, and installs it again.
    async fn delete_the_definition_for_a_while(&self) {
        self.server.delete(CRDS, "", WEBSITES).unwrap();
        minutes(30).await;
        let (ok, informers) = self.check("informers");
        let old = "websites.web.example.com is stale in the cache";
        assert!(!ok && informers[0].contains(old), "{informers:?}");
        install(&self.server);
        minutes(1).await;
        assert!(self.manager.health().is_ok(), "{}", self.manager.health());
        assert_eq!(self.counts.take("website").last(), Some(&2));
    }
}

/// Scenario 26. CTRL-7, MGR-2, MGR-6
#[tokio::test(start_paused = true)]
async fn a_missing_and_a_forbidden_kind_stop_only_their_own_controllers_and_heal() {
    let log = capture();
    let scene = Scene::new();
    let forbidden = scene.forbid();
    let started = start(&scene.manager);

    // The third controller reconciles all the time, and the other two do not.
    minutes(30).await;
    assert!(scene.counts.take("configmap").len() >= 30 * 59);
    for waits in ["service", "website"] {
        assert!(scene.counts.take(waits).is_empty());
    }
    scene.assert_both_are_named();
    let text = log.text();
    let said = |controller: &str| {
        let waits = format!("controller={controller:?} waiting_for=");
        text.lines().filter(|line| line.contains(&waits)).count()
    };
    let each = ["service", "website", "configmap"].map(said);
    assert_eq!(each, [29, 29, 0], "each minute: {text}");

    // Each kind recovers within the longest backoff.
    drop(forbidden);
    minutes(1).await;
    scene.assert_all_found("service", 1);
    assert!(scene.counts.take("website").is_empty());
    assert_eq!(scene.check("informers").1.len(), 1);
    install(&scene.server);
    minutes(1).await;
    scene.assert_all_found("website", 2);
    assert!(scene.manager.health().is_ok(), "{}", scene.manager.health());
    assert!(!metrics(&scene.manager).contains("steersman_controller_waiting{"));

    scene.forbid_for_a_while().await;
    scene.delete_the_definition_for_a_while().await;
    assert!(scene.counts.take("configmap").len() > 37 * 59);
    started.stop().await.unwrap();
}

/// CTRL-7, CTRL-1
#[tokio::test(start_paused = true)]
async fn a_controller_that_also_watches_a_forbidden_kind_starts_with_both_sets() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    server.create(service("s")).unwrap();
    let answer = Answer::code(403).message("services is forbidden");
    let forbidden = server
        .faults()
        .answer(Verb::Watch, "services", answer.clone());
    let lists = server.faults().answer(Verb::List, "services", answer);
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    let fixed = |_: &Service| [ObjectKey::namespaced("default", "of-the-service")];
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .watches::<Service>(handler::mapped(fixed))
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let started = start(&manager);
    minutes(10).await;
    assert!(reconciled.try_recv().is_err());
    drop((forbidden, lists));
    let mut keys = Vec::new();
    for _ in 0..2 {
        keys.push(soon(reconciled.recv()).await.unwrap());
    }
    keys.sort();
    assert_eq!(keys, ["default/a", "default/of-the-service"]);
    started.stop().await.unwrap();
}

/// The groups after the caches start, also for another cluster, and a wait for all kinds names the missing kind.
#[tokio::test(start_paused = true)]
async fn an_unavailable_kind_delays_no_group_and_no_other_cluster() {
    let (server, other) = (ApiServer::new(), ApiServer::new());
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let options = CacheOptions::new().by_object::<Website>(ByObject::new());
    let client_config = steersman_api::ClientConfig::in_process(other.service(), "default");
    let cluster = Cluster::new(client_config, options).unwrap();
    cluster.cache().informer::<Website>().unwrap();
    manager.add(cluster.clone()).unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let notes = Notes::default();
    manager.add(notes.slow(Group::Others)).unwrap();
    let (seen, mut health) = mpsc::unbounded_channel();
    let looks = runnable::from_fn("looks", Group::Others, move |context| async move {
        seen.send(context.health())?;
        let error = cluster.cache().wait_for_sync().await.unwrap_err();
        assert!(error.unsynced()[0].is_not_served(), "{error}");
        seen.send(context.health())?;
        context.cancelled().await;
        Ok(())
    });
    manager.add(looks).unwrap();
    let before = Instant::now();
    let started = start(&manager);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    assert!(before.elapsed() < Duration::from_secs(10));
    for _ in 0..2 {
        let health = soon(health.recv()).await.unwrap();
        assert_eq!(health.informers.len(), 1, "{health}");
        assert!(health.informers[0].failure.reason.as_str() == "not_served");
        assert!(health.informers[0].controllers.is_empty());
        assert!(check(&health, "controllers").0, "{health}");
    }
    install(&other);
    minutes(1).await;
    assert!(manager.health().is_ok(), "{}", manager.health());
    started.stop().await.unwrap();
}

/// CTRL-7: a controller with a limit ends the manager, like `CacheSyncTimeout` of controller-runtime.
#[tokio::test(start_paused = true)]
async fn a_required_kind_that_never_syncs_ends_the_manager_after_the_limit() {
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<ConfigMap>()
                .build(Tell(told.clone()))
                .unwrap(),
        )
        .unwrap();
    let limit = Duration::from_secs(600);
    manager
        .add_controller(
            Controller::builder::<Website>()
                .require_sync(limit)
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let before = Instant::now();
    let started = start(&manager);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    let error = started.ended().await.unwrap_err();
    assert_eq!(before.elapsed().as_secs(), 600);
    assert_eq!(error.failed(), Some("controller \"website\""));
}

/// CTRL-6, MGR-2, MGR-6
#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_named_by_the_health_and_ends_no_controller() {
    let server = ApiServer::new();
    for name in ["bad", "good"] {
        server.create(config_map(name)).unwrap();
    }
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    manager
        .add_controller(
            Controller::builder::<Service>()
                .watches::<ConfigMap>(handler::mapped(|config: &ConfigMap| {
                    assert!(
                        config.metadata.name.as_deref() != Some("bad"),
                        "a bad\n  config"
                    );
                    [ObjectKey::namespaced("default", "of-good")]
                }))
                .build(Tell(told))
                .unwrap(),
        )
        .unwrap();
    let started = start(&manager);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/of-good");
    let health = manager.health();
    let finding = "service lost events to panics: 1, the last one at ConfigMap.v1 default/bad: \
                   a bad config";
    assert_eq!(check(&health, "handlers"), (true, vec![finding.to_owned()]));
    assert!(health.is_ok(), "{health}");
    assert_eq!(health.controllers[0].handler_panics, 1);
    started.stop().await.unwrap();
}

/// CACHE-2, MGR-4: a list that hangs costs only the readers of its kind.
#[tokio::test(start_paused = true)]
async fn a_first_list_that_hangs_does_not_delay_other_controllers() {
    let log = capture();
    let server = ApiServer::new();
    server.create(config_map("a")).unwrap();
    server.create(service("s")).unwrap();
    let hour = Duration::from_secs(3600);
    let hanging = server.faults().delay(None, "services", hour);
    let manager = manager_of(&server).build().unwrap();
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told.clone()));
    add::<Service>(&manager, Tell(told));
    let before = Instant::now();
    let started = start(&manager);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    assert!(
        before.elapsed() <= Duration::from_secs(10),
        "{:?}",
        before.elapsed()
    );
    let text = log.text();
    let named = text.lines().filter(|line| line.contains("has not ended"));
    assert_eq!(
        named.filter(|l| l.contains("services")).count(),
        1,
        "{text}"
    );
    let (ok, waits) = check(&manager.health(), "controllers");
    assert_eq!(
        (ok, waits),
        (false, vec!["service waits for Service.v1 (syncing)".into()])
    );
    drop(hanging);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/s");
    started.stop().await.unwrap();
}
