//! The HTTP connections of an operator, counted at the server, over real sockets.

use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
    Pod, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cache::CacheOptions;
use steersman_client::ClientOptions;

use crate::world::{World, config, key};

/// CONN-1
#[tokio::test]
async fn an_operator_of_20_kinds_has_one_connection_for_watches_reads_and_writes() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    serving.write_kubeconfig(&path).unwrap();
    let client_config = ClientConfig::from_kubeconfig(&path).await.unwrap();
    let world = World::over(
        server.clone(),
        client_config.clone(),
        CacheOptions::new(),
        ClientOptions::new(),
    );
    macro_rules! watch {
        ($($kind:ty),*) => {
            ($(world.client.cache().informer::<$kind>().unwrap().subscribe()),*)
        };
    }
    let ten = watch!(
        ConfigMap, Secret, Service, Pod, Node, Namespace, Endpoints, LimitRange, ResourceQuota,
        ServiceAccount, PersistentVolume
    );
    let others = watch!(
        Deployment, DaemonSet, StatefulSet, ReplicaSet, ControllerRevision, Job, CronJob, Ingress,
        NetworkPolicy, HorizontalPodAutoscaler, PersistentVolumeClaim
    );
    world.client.cache().wait_for_sync().await.unwrap();
    world.client.create(&config("a")).await.unwrap();
    world
        .client
        .get::<Namespace>(&steersman_object::ObjectKey::cluster_scoped("default"))
        .await
        .unwrap();
    world
        .client
        .live()
        .get::<ConfigMap>(&key("a"))
        .await
        .unwrap();
    let kinds = world.client.mapper();
    kinds
        .kind(&steersman_object::Gvk::new("apps", "v1", "Deployment"))
        .await
        .unwrap();
    world
        .client
        .cache()
        .preflight(&client_config)
        .await
        .unwrap();
    assert_eq!(serving.accepted(), 1);
    drop((ten, others, world));
    serving.stop().await;
}
