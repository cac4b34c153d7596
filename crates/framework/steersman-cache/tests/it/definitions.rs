//! The kind of a CustomResourceDefinition that is missing, installed, served in another version, deleted and installed
//! again, as readers and subscribers see it. Nothing restarts, and neither the server nor the log is flooded.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_cache::internal::CacheInternals as _;
use steersman_cache::{CacheOptions, InformerState, ListOptions};
use steersman_informer::{Certainty, Delivery, Event, Informer, Reason, Subscription};
use steersman_object::Kind;
use steersman_testenv::log::capture;

use crate::world::{Website, World, initial, key, soon};

const WEBSITES: &str = "websites.web.example.com";
const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const HOUR: Duration = Duration::from_secs(3600);

/// Waits until the informer is degraded because the kind is not served.
async fn not_served(informer: &Informer<Website>) {
    let mut states = informer.state_changes();
    let gone = |state: &InformerState| matches!(state, InformerState::Degraded { reason, .. } if *reason == Reason::NotServed);
    soon(states.wait_for(gone)).await.unwrap();
}

async fn synced(informer: &Informer<Website>) {
    let mut states = informer.state_changes();
    soon(states.wait_for(InformerState::is_synced))
        .await
        .unwrap();
}

/// Returns the next event as `+name`, `~name` or `-name`, followed by `?` if the last state is
/// unknown.
async fn next(subscription: &mut Subscription<Website>) -> String {
    match soon(subscription.next()).await.unwrap() {
        Delivery::Event(event) => {
            let sign = match &event {
                Event::Created { .. } => "+",
                Event::Updated { .. } => "~",
                Event::Deleted { .. } => "-",
            };
            let unseen = matches!(
                &event,
                Event::Deleted { certainty, .. } if *certainty == Certainty::FinalStateUnknown
            );
            let name = event.key().name();
            format!("{sign}{name}{}", if unseen { "?" } else { "" })
        }
        _ => "synced".to_owned(),
    }
}

/// Returns the number of requests for the kind within `time`, which backoff limits.
async fn asked_in(world: &World, time: Duration) -> usize {
    let asked = || world.server.requests().count(|r| r.is_for(WEBSITES));
    let before = asked();
    tokio::time::sleep(time).await;
    asked() - before
}

/// Creates a world in which a subscriber knows two Websites.
async fn world() -> (World, Informer<Website>, Subscription<Website>) {
    let mut world = World::new(CacheOptions::new());
    world.install_websites();
    for name in ["one", "two"] {
        world.website(name, &json!("nginx"));
    }
    let informer = world.cache.informer::<Website>().unwrap();
    world.start();
    let mut subscription = informer.subscribe();
    assert_eq!(soon(initial(&mut subscription)).await, 2);
    // The first watch opens within a second after the sync.
    tokio::time::sleep(Duration::from_secs(1)).await;
    (world, informer, subscription)
}

async fn listed(world: &World) -> usize {
    let everything = ListOptions::new();
    let listed = soon(world.cache.list::<Website>(&everything)).await;
    listed.unwrap().len()
}

/// REFL-8: requests for the kind become rare, and the kind recovers without a restart.
#[tokio::test(start_paused = true)]
async fn the_kind_of_a_deleted_definition_is_paused_and_resumes_with_a_new_definition() {
    let log = capture();
    let (world, informer, mut seen) = world().await;
    world.server.delete(CRDS, "", WEBSITES).unwrap();
    // The server deletes the objects of a kind before it deletes the kind.
    let mut events = [next(&mut seen).await, next(&mut seen).await];
    events.sort();
    assert_eq!(events, ["-one", "-two"]);
    not_served(&informer).await;
    assert_eq!(listed(&world).await, 0);
    let read = soon(world.cache.get::<Website>(&key("a", "one"))).await;
    assert!(read.unwrap_err().is_not_found());

    // At most one request per 30 seconds, with jitter, and two at the start.
    tokio::time::sleep(Duration::from_secs(120)).await;
    let asked = asked_in(&world, HOUR * 6).await;
    assert!(
        (360..=1500).contains(&asked),
        "{asked} requests in six hours"
    );
    assert_eq!(log.text().matches("WARN").count(), 1, "{}", log.text());
    assert!(log.text().contains("is no longer served"), "{}", log.text());

    world.install_websites();
    world.website("three", &json!("nginx"));
    synced(&informer).await;
    assert_eq!(next(&mut seen).await, "+three");
    assert_eq!(listed(&world).await, 1);
    world.stop().await.unwrap();
}

/// REFL-2, STORE-3: deletions that the informer could not observe are reported once the kind is
/// served again, and not before.
#[tokio::test(start_paused = true)]
async fn deletions_during_the_absence_of_a_definition_are_reported_after_its_return() {
    let (world, informer, mut seen) = world().await;
    let away = world.server.faults().silence_watches_of(WEBSITES);
    assert_eq!(away, 1);
    world.server.delete(CRDS, "", WEBSITES).unwrap();
    world.server.faults().cut_watches();
    not_served(&informer).await;
    assert_eq!(listed(&world).await, 2, "what was known stays readable");
    assert_eq!(seen.waiting(), 0);

    world.install_websites();
    world.website("two", &json!("caddy"));
    synced(&informer).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(next(&mut seen).await);
    }
    // The new object has the name of a deleted object.
    events[..2].sort();
    assert_eq!(events, ["-one?", "-two?", "+two"]);
    assert_eq!(listed(&world).await, 1);
    world.stop().await.unwrap();
}

/// Returns a definition that serves these versions and stores the last.
fn versions(served: [(&str, bool); 2]) -> Value {
    let version = |(name, served): (&str, bool), stored: bool| {
        json!({
            "name": name, "served": served, "storage": stored,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        })
    };
    json!({"spec": {"versions": [version(served[0], false), version(served[1], true)]}})
}

/// The server stops serving `v1` and serves `v2`, then serves `v1` again.
#[tokio::test(start_paused = true)]
async fn informers_of_an_unserved_version_pause_and_another_version_is_read() {
    let log = capture();
    let (world, informer, mut seen) = world().await;
    let serve = |v1, v2| {
        let patch = versions([("v1", v1), ("v2", v2)]);
        world
            .server
            .merge_patch(CRDS, "", WEBSITES, &patch)
            .unwrap();
    };
    serve(false, true);
    not_served(&informer).await;
    assert_eq!(seen.waiting(), 0, "the objects exist in another version");
    assert_eq!(listed(&world).await, 2);

    // Reads of the served version succeed.
    let v2 = kind("v2");
    let reads = world.cache.of::<kube_core::DynamicObject>(&v2);
    let found = soon(reads.list(&ListOptions::new())).await.unwrap();
    assert_eq!(found.len(), 2);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let of_v1 =
        |r: &steersman_apiserver::faults::RequestRecord| r.is_for(WEBSITES) && r.version == "v1";
    let before = world.server.requests().count(of_v1);
    tokio::time::sleep(HOUR).await;
    let asked = world.server.requests().count(of_v1) - before;
    assert!((60..=250).contains(&asked), "{asked} requests in an hour");
    let quiet = log.text().matches("is no longer served").count();
    assert_eq!(quiet, 1, "{}", log.text());

    let changed = json!({"spec": {"image": "caddy"}});
    world
        .server
        .merge_patch(WEBSITES, "a", "two", &changed)
        .unwrap();
    serve(true, true);
    synced(&informer).await;
    assert_eq!(next(&mut seen).await, "~two");
    assert_eq!(listed(&world).await, 2);
    world.stop().await.unwrap();
}

fn kind(version: &str) -> Kind {
    let gvk = steersman_object::Gvk::new("web.example.com", version, "Website");
    Kind::new(gvk, "websites", steersman_object::Scope::Namespaced)
}

/// A kind that this program installs causes no warning before it is served. A kind that the program only converts does,
/// because a person has to install it.
#[tokio::test(start_paused = true)]
async fn a_kind_that_this_program_installs_is_awaited_without_a_warning() {
    for (installs, level) in [(true, "INFO"), (false, "WARN")] {
        let log = capture();
        let world = World::new(CacheOptions::new());
        let kinds = vec![Kind::of::<Website>().gvk().clone()];
        match installs {
            true => world.cache.note_installed(kinds),
            false => world.cache.note_converted(kinds),
        }
        let informer = world.cache.informer::<Website>().unwrap();
        let mut world = world;
        world.start();
        not_served(&informer).await;
        let text = log.text();
        let mut lines = text.lines().filter(|line| line.contains(WEBSITES));
        assert!(lines.any(|line| line.contains(level)), "{text}");
        assert_eq!(text.contains("remedy=install the"), !installs, "{text}");
    }
}
