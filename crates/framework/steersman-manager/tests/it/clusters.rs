//! A manager with further clusters, which are added and removed while it runs (CTRL-12, MGR-9).

mod unreachable;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use prometheus::TextEncoder;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_cache::CacheOptions;
use steersman_client::ClientOptions;
use steersman_controller::{
    Action, ClusterName, ClusterRequest, Context, Controller, ControllerError,
    Error as ReconcileError, Reconciler, Watch, handler,
};
use steersman_manager::{Error, Manager};
use steersman_object::ObjectKey;
use steersman_testenv::eventually;
use steersman_testenv::log::capture;
use tokio::sync::mpsc;

use crate::world::{Notes, Tell, add, config_map, manager_of, soon, start};

/// Marks the object of each request by the client of its cluster, and notes the request.
#[derive(Clone, Default)]
struct Marker {
    notes: Notes,
    /// The requests of clusters that had been removed.
    gone: Arc<Mutex<Vec<String>>>,
}

impl Reconciler<ClusterRequest> for Marker {
    async fn reconcile(
        &self,
        ctx: &Context,
        request: ClusterRequest,
    ) -> Result<Action, ReconcileError> {
        let Some(client) = ctx.client_in(&request.cluster) else {
            self.gone.lock().push(request.to_string());
            return Ok(Action::done());
        };
        let Some(found) = client.get_opt::<ConfigMap>(&request.key).await? else {
            self.notes.note(format!("{request} is gone"));
            return Ok(Action::done());
        };
        if found.data.is_some() {
            return Ok(Action::done());
        }
        let mark = |map: &mut ConfigMap| {
            let data = map.data.get_or_insert_default();
            data.insert("cluster".to_owned(), request.cluster.to_string());
        };
        client.ensure(&request.key, mark).await?;
        // Reads see own writes in every cluster.
        let again = client.get::<ConfigMap>(&request.key).await?;
        let mark = again.data.as_ref().and_then(|data| data.get("cluster"));
        assert_eq!(mark.map(String::as_str), Some(request.cluster.as_str()));
        self.notes.note(request.to_string());
        Ok(Action::done())
    }
}

pub(crate) fn client_config(server: &ApiServer) -> ClientConfig {
    ClientConfig::in_process(server.service(), "default")
}

/// Returns a connection for which no client can be made.
pub(crate) fn unusable() -> ClientConfig {
    let mut config =
        steersman_api::kube_client::Config::new("https://127.0.0.1:1".parse().unwrap());
    config.auth_info.token_file = Some("/nowhere/token".to_owned());
    ClientConfig::from_config(config)
}

pub(crate) fn server_with(names: &[&str]) -> ApiServer {
    let server = ApiServer::new();
    for name in names {
        server.create(config_map(name)).unwrap();
    }
    server
}

/// Returns a manager with a controller that marks the ConfigMaps of its own and of every other cluster.
fn marking(own: &ApiServer) -> (Manager, Marker) {
    let (manager, marker) = (manager_of(own).build().unwrap(), Marker::default());
    let controller = Controller::keyed::<ClusterRequest>("marker")
        .watches::<ConfigMap>(handler::in_cluster(ClusterName::local(), handler::itself()))
        .watch(Watch::of::<ConfigMap>(handler::itself()).in_clusters())
        .build(marker.clone())
        .unwrap();
    manager.add_controller(controller).unwrap();
    (manager, marker)
}

/// Waits until `condition` is true.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let check = || {
        let reached = condition()
            .then_some(())
            .ok_or_else(|| "not yet".to_owned());
        async move { reached }
    };
    eventually(what, check).await.unwrap();
}

fn sorted(notes: &Notes) -> Vec<String> {
    let mut all = notes.all();
    all.sort();
    all
}

fn metrics(manager: &Manager) -> String {
    let families = manager.metrics_registry().gather();
    TextEncoder::new().encode_to_string(&families).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_controller_reconciles_objects_of_every_cluster() {
    let (own, west, east) = (
        server_with(&["a"]),
        server_with(&["b"]),
        server_with(&["c"]),
    );
    let (manager, marker) = marking(&own);
    let options = CacheOptions::new;
    manager
        .add_cluster("west", client_config(&west), options())
        .unwrap();
    manager
        .add_cluster("east", client_config(&east), options())
        .unwrap();
    let started = start(&manager);
    marker.notes.reach(3).await;
    let all = ["east/default/c", "local/default/a", "west/default/b"];
    assert_eq!(sorted(&marker.notes), all);
    let written = west.get("configmaps", "default", "b").unwrap();
    assert_eq!(written["data"]["cluster"], "west");
    // The controller has the same field manager in every cluster.
    let signer = |server: &ApiServer| {
        let writes = server.requests().matching(|r| r.does(Verb::Patch));
        writes[0].parameter("fieldManager").unwrap().to_owned()
    };
    assert_eq!(signer(&west), signer(&own));
    assert!(signer(&own).ends_with("/marker"), "{}", signer(&own));
    started.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_and_goes_while_the_manager_runs() {
    let (own, west) = (server_with(&["a"]), server_with(&["b"]));
    let (manager, marker) = marking(&own);
    let started = start(&manager);
    marker.notes.reach(1).await;
    let added = manager.add_cluster("west", client_config(&west), CacheOptions::new());
    assert_eq!(added.unwrap().name().as_str(), "west");
    marker.notes.reach(2).await;
    assert_eq!(marker.notes.all()[1], "west/default/b");

    assert!(soon(manager.remove_cluster("west")).await);
    until("no watch", || west.faults().open_watches("configmaps") == 0).await;
    west.create(config_map("unseen")).unwrap();
    own.create(config_map("seen")).unwrap();
    marker.notes.reach(3).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(marker.notes.all()[2..], ["local/default/seen"]);
    assert!(!soon(manager.remove_cluster("west")).await);

    // Another server gets the name of a removed cluster.
    let north = server_with(&["d"]);
    manager
        .add_cluster("west", client_config(&north), CacheOptions::new())
        .unwrap();
    marker.notes.reach(4).await;
    assert_eq!(marker.notes.all()[3], "west/default/d");
    started.stop().await.unwrap();
    assert!(
        manager
            .add_cluster("late", client_config(&west), CacheOptions::new())
            .is_err()
    );
    assert!(manager.clusters().get(&"late".into()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_removed_before_the_start_is_never_asked() {
    let (own, west) = (server_with(&["a"]), server_with(&["b"]));
    let (manager, marker) = marking(&own);
    manager
        .add_cluster("west", client_config(&west), CacheOptions::new())
        .unwrap();
    assert!(soon(manager.remove_cluster("west")).await);
    let started = start(&manager);
    marker.notes.reach(1).await;
    started.stop().await.unwrap();
    assert_eq!(west.requests().all().len(), 0);
}

/// A cache of another part of the program goes on when its cluster is removed.
#[tokio::test(start_paused = true)]
async fn a_removed_cluster_is_watched_no_longer_although_its_cache_goes_on() {
    let (own, west) = (server_with(&[]), server_with(&["b"]));
    let other = manager_of(&west).build().unwrap();
    let (told, mut seen) = mpsc::unbounded_channel();
    add::<ConfigMap>(&other, Tell(told));
    let (manager, marker) = marking(&own);
    let (cache, client) = (other.cache().clone(), other.client().clone());
    manager.clusters().add("west", cache, client).unwrap();
    let (others, started) = (start(&other), start(&manager));
    marker.notes.reach(1).await;
    assert!(manager.clusters().remove(&"west".into()).is_some());
    west.create(config_map("unseen")).unwrap();
    while soon(seen.recv()).await.unwrap() != "default/unseen" {}
    own.create(config_map("seen")).unwrap();
    marker.notes.reach(2).await;
    assert_eq!(marker.notes.all(), ["west/default/b", "local/default/seen"]);
    // The marker's own write may have requested `b` once more; `unseen` was never requested.
    let unseen = |request: &String| request.ends_with("unseen");
    assert!(!marker.gone.lock().iter().any(unseen));
    started.stop().await.unwrap();
    others.stop().await.unwrap();
}

/// CTRL-12
#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_delays_no_other_one() {
    let (own, west, east) = (
        server_with(&["a"]),
        server_with(&["b"]),
        server_with(&["c"]),
    );
    let (manager, marker) = marking(&own);
    let refuses = west.faults().answer(None, "configmaps", Answer::code(503));
    let options = CacheOptions::new;
    manager
        .add_cluster("west", client_config(&west), options())
        .unwrap();
    manager
        .add_cluster("east", client_config(&east), options())
        .unwrap();
    let started = start(&manager);
    marker.notes.reach(2).await;
    assert_eq!(sorted(&marker.notes), ["east/default/c", "local/default/a"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let health = manager.health();
    assert_eq!(health.informers.len(), 1);
    assert_eq!(health.informers[0].cluster, "west");
    assert_eq!(health.informers[0].controllers, ["marker"]);
    drop(refuses);
    marker.notes.reach(3).await;
    assert_eq!(marker.notes.all()[2], "west/default/b");
    until("health", || manager.health().is_ok()).await;
    started.stop().await.unwrap();
}

/// CTRL-12: a cluster without usable credentials ends neither the manager nor the work for other clusters.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_credentials_is_tried_again_and_can_be_removed() {
    let own = server_with(&["a"]);
    let (manager, marker) = marking(&own);
    let log = capture();
    let unusable = unusable();
    manager
        .add_cluster("west", unusable.clone(), CacheOptions::new())
        .unwrap();
    let started = start(&manager);
    marker.notes.reach(1).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!started.task.is_finished());
    let tries = log
        .text()
        .matches("no client can be made for the cluster")
        .count();
    assert!((10..20).contains(&tries), "{tries}");
    assert!(soon(manager.remove_cluster("west")).await);

    // MGR-9: the metrics lose a cluster that the set removes, too.
    let again = manager.add_cluster("west", unusable, CacheOptions::new());
    again.unwrap();
    assert!(manager.clusters().remove(&"west".into()).is_some());
    until("the end", || {
        metrics(&manager).contains("steersman_clusters 0")
    })
    .await;
    started.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_added_cluster_has_the_client_options_of_the_manager() {
    let (own, west) = (server_with(&[]), server_with(&["b"]));
    let builder = manager_of(&own).client(ClientOptions::new().dry_run(true));
    let manager = builder.build().unwrap();
    let member = manager
        .add_cluster("west", client_config(&west), CacheOptions::new())
        .unwrap();
    let started = start(&manager);
    let map = ConfigMap {
        metadata: ObjectKey::namespaced("default", "dry").to_meta(),
        ..ConfigMap::default()
    };
    member.client().create(&map).await.unwrap();
    assert!(west.get("configmaps", "default", "dry").is_none());
    started.stop().await.unwrap();
}

/// MGR-9: a cluster that was removed through the set leaves no metrics behind.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_the_set_removed_leaves_the_metrics_too() {
    let (own, west) = (server_with(&["a"]), server_with(&["b"]));
    let (manager, marker) = marking(&own);
    manager
        .add_cluster("west", client_config(&west), CacheOptions::new())
        .unwrap();
    let started = start(&manager);
    marker.notes.reach(2).await;
    assert!(manager.clusters().remove(&"west".into()).is_some());
    until("the end", || {
        metrics(&manager).contains("steersman_clusters 0")
    })
    .await;
    started.stop().await.unwrap();
}

/// MGR-9
#[tokio::test(start_paused = true)]
async fn health_and_metrics_name_the_cluster_until_it_is_removed() {
    let (own, west) = (server_with(&["a"]), server_with(&["b"]));
    let (manager, marker) = marking(&own);
    manager
        .add_cluster("west", client_config(&west), CacheOptions::new())
        .unwrap();
    let started = start(&manager);
    marker.notes.reach(2).await;
    let shown = metrics(&manager);
    let objects = "steersman_informer_objects{";
    let of_west = |line: &&str| line.starts_with(objects) && line.contains("cluster=\"west\"");
    assert_eq!(shown.lines().filter(of_west).count(), 1, "{shown}");
    assert!(shown.contains("steersman_clusters 1"), "{shown}");
    west.faults()
        .answer(None, "configmaps", Answer::code(503))
        .keep();
    west.faults().cut_watches();
    until("failure", || manager.health().informers.len() == 1).await;
    soon(manager.remove_cluster("west")).await;
    assert!(manager.health().is_ok());
    let shown = metrics(&manager);
    assert!(!shown.contains("cluster=\"west\""), "{shown}");
    assert!(shown.contains("steersman_clusters 0"), "{shown}");
    started.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_removed_cluster_find_no_client() {
    let (own, west) = (server_with(&[]), server_with(&["b"]));
    let manager = manager_of(&own).build().unwrap();
    let (manager_for, gone) = (manager.clone(), Arc::new(Mutex::new(Vec::new())));
    let record = Arc::clone(&gone);
    struct Late {
        manager: Manager,
        gone: Arc<Mutex<Vec<bool>>>,
    }
    impl Reconciler<ClusterRequest> for Late {
        async fn reconcile(
            &self,
            ctx: &Context,
            request: ClusterRequest,
        ) -> Result<Action, ReconcileError> {
            assert!(ctx.client_in(&request.cluster).is_some());
            // A reconcile may remove its own cluster.
            assert!(self.manager.remove_cluster(request.cluster.clone()).await);
            self.gone
                .lock()
                .push(ctx.client_in(&request.cluster).is_none());
            Ok(Action::done())
        }
    }
    let late = Late {
        manager: manager_for,
        gone: record,
    };
    let controller = Controller::keyed::<ClusterRequest>("late")
        .watch(Watch::of::<ConfigMap>(handler::itself()).in_clusters())
        .build(late)
        .unwrap();
    manager.add_controller(controller).unwrap();
    manager
        .add_cluster("west", client_config(&west), CacheOptions::new())
        .unwrap();
    let started = start(&manager);
    until("the removal", || *gone.lock() == [true]).await;
    started.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_refused_by_name_or_by_its_cache_options() {
    let own = server_with(&[]);
    let (manager, _) = marking(&own);
    let add = |name: &str, options: CacheOptions| {
        let added = manager.add_cluster(name, client_config(&own), options);
        added.map(drop)
    };
    add("west", CacheOptions::new()).unwrap();
    for taken in ["west", "local"] {
        let refused = add(taken, CacheOptions::new());
        let Err(Error::Cluster(error)) = &refused else {
            panic!("{refused:?}");
        };
        let ControllerError::DuplicateCluster { cluster } = &**error else {
            panic!("{error:?}");
        };
        assert_eq!(cluster.as_str(), taken);
    }
    let refused = add(" ", CacheOptions::new());
    let Err(Error::Cluster(error)) = refused else {
        panic!("{refused:?}");
    };
    assert!(matches!(*error, ControllerError::EmptyClusterName));
    // None of the refused clusters is a member, so its name is free.
    assert_eq!(manager.clusters().list().len(), 1);

    // A cache that has ended refuses new watches.
    let other = manager_of(&own).build().unwrap();
    drop(other.cache().begin().unwrap());
    let (cache, client) = (other.cache().clone(), other.client().clone());
    let refused = manager.clusters().add("ended", cache, client).unwrap_err();
    let ControllerError::WatchInCluster { cluster, kind, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!((cluster.as_str(), kind.plural()), ("ended", "configmaps"));
    assert_eq!(manager.clusters().list().len(), 1);
    assert_eq!(
        ClusterRequest::new("west", ObjectKey::namespaced("ns", "x")).to_string(),
        "west/ns/x"
    );
}
