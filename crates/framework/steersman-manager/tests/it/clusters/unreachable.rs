//! Clusters without a client or without an answer: reads of them fail, and occupy no worker.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use kube_core::CustomResourceExt as _;
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_cache::{ByObject, CacheOptions};
use steersman_controller::{
    Action, ClusterRequest, Context, Controller, Error as ReconcileError, Reconciler, Watch,
    handler, reconcile,
};
use steersman_object::ObjectKey;
use steersman_testenv::eventually_within;

use crate::clusters::{client_config, server_with, until, unusable};
use crate::missing_kinds::Website;
use crate::world::{Notes, config_map, manager_of, start};

/// Reads the object of each request in its cluster, and notes the beginning and the end of each read.
struct Reader(Notes);

impl Reconciler<ClusterRequest> for Reader {
    async fn reconcile(
        &self,
        ctx: &Context,
        request: ClusterRequest,
    ) -> Result<Action, ReconcileError> {
        if let Some(client) = ctx.client_in(&request.cluster) {
            self.0.note(format!("reads {request}"));
            client.get::<ConfigMap>(&request.key).await?;
            self.0.note(format!("has read {request}"));
        }
        Ok(Action::done())
    }
}

/// CTRL-12: the only worker does not wait for a cluster that has no client, or that does not answer.
#[tokio::test(start_paused = true)]
async fn a_read_of_an_unreachable_cluster_delays_no_request_for_another_one() {
    let silent = server_with(&["a"]);
    let _silence = silent.faults().swallow_everything();
    for unreachable in [unusable(), client_config(&silent)] {
        let (own, notes) = (server_with(&["west"]), Notes::default());
        let manager = manager_of(&own).build().unwrap();
        // The name of each object is the cluster of its request.
        let request = |map: &ConfigMap| {
            let cluster = map.metadata.name.clone().unwrap_or_default();
            [ClusterRequest::new(
                cluster,
                ObjectKey::of_meta(&map.metadata),
            )]
        };
        let controller = Controller::keyed::<ClusterRequest>("reader")
            .watches::<ConfigMap>(handler::mapped(request))
            .build(Reader(notes.clone()))
            .unwrap();
        manager.add_controller(controller).unwrap();
        let cached = CacheOptions::new().by_object::<ConfigMap>(ByObject::new());
        manager.add_cluster("west", unreachable, cached).unwrap();
        let started = start(&manager);
        notes.reach(1).await;
        assert_eq!(notes.all(), ["reads west/default/west"]);
        own.create(config_map("local")).unwrap();
        let read = "has read local/default/local";
        let reading = eventually_within(Duration::from_secs(10), read, || async {
            match notes.all().iter().any(|note| note == read) {
                true => Ok(()),
                false => Err(format!("{:?}", notes.all())),
            }
        });
        reading.await.unwrap();
        started.stop().await.unwrap();
    }
}

/// CTRL-12
#[tokio::test(start_paused = true)]
async fn a_cluster_that_answers_at_last_is_read() {
    let silent = server_with(&["a"]);
    let silence = silent.faults().swallow_everything();
    let (own, notes) = (server_with(&[]), Notes::default());
    let manager = manager_of(&own).build().unwrap();
    let controller = Controller::keyed::<ClusterRequest>("reader")
        .watch(Watch::of::<ConfigMap>(handler::itself()).in_clusters())
        .build(Reader(notes.clone()))
        .unwrap();
    manager.add_controller(controller).unwrap();
    let added = manager.add_cluster("west", client_config(&silent), CacheOptions::new());
    let west = added.unwrap().client().clone();
    let started = start(&manager);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let health = manager.health();
    assert_eq!(health.informers.len(), 1, "{health}");
    assert_eq!(health.informers[0].cluster, "west");
    // No controller watches this kind.
    let absent = ObjectKey::namespaced("default", "absent");
    let error = west.get_opt::<Service>(&absent).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    drop(silence);
    notes.reach(2).await;
    let expected = ["reads west/default/a", "has read west/default/a"];
    assert_eq!(notes.all(), expected);
    until("health", || manager.health().is_ok()).await;
    // The first read of a kind waits for the kind's list again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let read = west.get_opt::<ServiceAccount>(&absent).await;
    assert!(read.unwrap().is_none());
    started.stop().await.unwrap();
}

/// CTRL-12: an optional kind begins in each cluster with its definition, and no cluster complains of it.
#[tokio::test(start_paused = true)]
async fn an_optional_kind_is_watched_in_each_cluster_that_serves_it() {
    let (own, west, east) = (server_with(&[]), server_with(&[]), server_with(&[]));
    let install = |server: &ApiServer| {
        let definition = serde_json::to_value(Website::crd()).unwrap();
        server.install_crd(definition).unwrap();
        let site = json!({
            "apiVersion": "web.example.com/v1", "kind": "Website", "spec": {"image": "nginx"},
            "metadata": {"name": "shop", "namespace": "default"},
        });
        server.create(site).unwrap();
    };
    install(&west);
    let notes = Notes::default();
    let manager = manager_of(&own).build().unwrap();
    let controller = Controller::keyed::<ClusterRequest>("sites")
        .watch(
            Watch::of::<Website>(handler::itself())
                .in_clusters()
                .optional(),
        )
        .build(reconcile::from_fn({
            let notes = notes.clone();
            move |_: Context, request: ClusterRequest| {
                notes.note(request.to_string());
                std::future::ready(Ok::<_, ReconcileError>(Action::done()))
            }
        }))
        .unwrap();
    manager.add_controller(controller).unwrap();
    for (name, server) in [("west", &west), ("east", &east)] {
        let added = manager.add_cluster(name, client_config(server), CacheOptions::new());
        drop(added.unwrap());
    }
    let started = start(&manager);
    notes.reach(1).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(notes.all(), ["west/default/shop"]);
    assert!(manager.health().is_ok(), "{}", manager.health());
    install(&east);
    notes.reach(2).await;
    assert_eq!(notes.all()[1], "east/default/shop");
    started.stop().await.unwrap();
}
