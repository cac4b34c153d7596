//! CACHE-16: informers that an optional watch holds.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{CacheOptions, ListOptions, Undeclared};
use steersman_object::Kind;
use steersman_testenv::log::capture;

use crate::world::{World, initial, soon};

const LINGER: Duration = Duration::from_secs(600);

/// Returns the number of open watches of Services.
fn open(world: &World) -> usize {
    world.server.faults().open_watches("services")
}

/// CACHE-16, CACHE-8
#[tokio::test(start_paused = true)]
async fn a_held_informer_counts_as_declared_until_the_last_hold_is_released() {
    let log = capture();
    let options = CacheOptions::new().on_undeclared(Undeclared::Fail);
    let mut world = World::new(options);
    world.service("a", "s");
    world.start();
    let kind = Kind::of::<Service>();
    let everything = ListOptions::new();
    let refused = world.cache.list::<Service>(&everything).await;
    assert!(refused.is_err(), "an undeclared read");

    let first = world.cache.hold::<Service>(&kind).unwrap();
    let second = world.cache.hold::<Service>(&kind).unwrap();
    let mut subscription = first.informers().next().unwrap().subscribe();
    assert_eq!(soon(initial(&mut subscription)).await, 1);
    drop((subscription, first));
    tokio::time::sleep(LINGER * 3).await;
    let read = soon(world.cache.list::<Service>(&everything)).await;
    assert_eq!(read.unwrap().len(), 1);
    assert_eq!(world.server.requests().watch_lists("services"), 1);

    drop(second);
    assert!(world.cache.list::<Service>(&everything).await.is_err());
    tokio::time::sleep(LINGER * 2).await;
    assert_eq!(open(&world), 0, "it ended as idle");
    assert!(!log.text().contains("undeclared read"), "{}", log.text());
    world.stop().await.unwrap();
}

/// CACHE-16
#[tokio::test(start_paused = true)]
async fn the_end_of_a_kind_ends_a_held_informer_at_once_unless_something_else_uses_it() {
    let mut world = World::new(CacheOptions::new());
    world.start();
    let kind = Kind::of::<Service>();
    let hold = || world.cache.hold::<Service>(&kind).unwrap();
    let settle = || tokio::time::sleep(Duration::from_secs(1));

    let held = hold();
    settle().await;
    assert_eq!(open(&world), 1);
    held.end();
    settle().await;
    assert_eq!(open(&world), 0);
    assert!(world.cache.informer_reports().is_empty());

    // Another hold uses the informer.
    let (held, other) = (hold(), hold());
    held.end();
    settle().await;
    assert_eq!(open(&world), 1);
    // A subscription uses the informer.
    let subscription = other.informers().next().unwrap().subscribe();
    other.end();
    settle().await;
    assert_eq!(open(&world), 1);
    drop(subscription);
    // A declaration uses the informer.
    let held = hold();
    world.cache.informer::<Service>().unwrap();
    held.end();
    settle().await;
    assert_eq!(open(&world), 1);
    assert!(world.cache.informer_reports()[0].is_declared);
    world.stop().await.unwrap();
}

/// CACHE-10, CACHE-3: a stopped cache holds nothing, and a hold is a declaration.
#[tokio::test(start_paused = true)]
async fn a_hold_starts_an_informer_of_a_guarded_kind_but_not_in_a_stopped_cache() {
    let mut world = World::new(CacheOptions::new());
    world.config_map("a", "c", &serde_json::json!({}));
    world.start();
    let kind = Kind::of::<ConfigMap>();
    let held = world.cache.hold::<ConfigMap>(&kind).unwrap();
    let read = soon(world.cache.list::<ConfigMap>(&ListOptions::new())).await;
    assert_eq!(read.unwrap().len(), 1);
    drop(held);
    let cache = world.cache.clone();
    world.stop().await.unwrap();
    assert!(cache.hold::<ConfigMap>(&kind).is_err());
}
