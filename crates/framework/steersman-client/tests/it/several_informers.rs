//! RYOW-1: reads of a kind that several informers cache.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_apiserver::faults::{Effect, FaultSpec, Verb};
use steersman_cache::{ByObject, CacheOptions, ListOptions};
use steersman_client::{Client, ClientOptions};
use steersman_object::Object as _;
use tokio::time::{Instant, sleep};

use crate::own_writes::{mine, names};
use crate::world::{World, config};

/// Makes a world with one informer of config maps per namespace, for two namespaces that receive no more events.
async fn deaf_in_two() -> World {
    let spaces = ["default", "kube-system"];
    let scope = ByObject::new().namespaces(spaces);
    let cache = CacheOptions::new().by_object::<ConfigMap>(scope);
    let world = World::with(cache, ClientOptions::new());
    world.client.cache().informers::<ConfigMap>().unwrap();
    world.client.cache().wait_for_sync().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server.faults().silence_watches_of("configmaps"), 2);
    world
}

/// Lets the cache receive events again: of the first namespace at once, and of the second after `wait`.
fn hears_of_the_other_after(world: &World, wait: Duration) {
    let millis = u64::try_from(wait.as_millis()).unwrap();
    let late = Effect::Delay {
        millis,
        jitter_millis: 0,
    };
    let late = FaultSpec::new(late)
        .verb(Verb::Watch)
        .resource("configmaps");
    let faults = world.server.faults();
    faults.add(late.namespace("kube-system")).unwrap().keep();
    faults.cut_watches_of("configmaps");
}

fn elsewhere(name: &str) -> ConfigMap {
    let mut object = config(name);
    object.metadata.namespace = Some("kube-system".to_owned());
    object
}

/// Returns whether a list of all namespaces shows the object of the first namespace, and that of the second.
async fn both(client: &Client) -> (bool, bool) {
    let listed = client.list::<ConfigMap>(&ListOptions::new()).await.unwrap();
    let has = |object: &ConfigMap| listed.iter().any(|listed| listed.key() == object.key());
    (has(&config("a")), has(&elsewhere("a")))
}

/// RYOW-1: a list over several informers waits for each informer, and a list of one namespace only for its informer.
#[tokio::test(start_paused = true)]
async fn a_list_of_several_namespaces_waits_for_all_of_them() {
    let world = deaf_in_two().await;
    let (client, wait) = (mine(&world), Duration::from_secs(5));
    client.create(&config("a")).await.unwrap();
    client.create(&elsewhere("a")).await.unwrap();
    let start = Instant::now();
    hears_of_the_other_after(&world, wait);
    assert_eq!(names(&client).await, ["a"]);
    assert!(start.elapsed() < wait);
    assert_eq!(both(&client).await, (true, true));
    assert!(start.elapsed() >= wait);
}

/// RYOW-1: a write during the wait of a read is seen by the next read.
#[tokio::test(start_paused = true)]
async fn a_read_waits_only_for_writes_before_it_began() {
    let world = deaf_in_two().await;
    let (client, wait) = (mine(&world), Duration::from_secs(5));
    client.create(&config("a")).await.unwrap();
    let start = Instant::now();
    let meanwhile = async {
        sleep(Duration::from_secs(1)).await;
        client.create(&elsewhere("a")).await.unwrap();
        hears_of_the_other_after(&world, wait);
    };
    let (seen, ()) = tokio::join!(both(&client), meanwhile);
    assert_eq!(seen, (true, false));
    assert!(start.elapsed() < wait);
    assert_eq!(both(&client).await, (true, true));
    assert!(start.elapsed() >= wait);
}
