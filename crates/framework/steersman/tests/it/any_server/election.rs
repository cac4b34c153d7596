//! Leader election: a release, the death of a leader, and a Lease that another program takes.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use serde_json::json;
use steersman::api::Patch;
use steersman::lease::LeaderElection;
use steersman::object::FieldSelector;
use steersman::{ListOptions, Manager};
use steersman_testenv::eventually;

use super::world::{Running, World, connection_of, soon};

/// The name of the Lease.
const NAME: &str = "shop";

/// A replica with the permissions that the guide lists.
async fn replica(world: &World, name: &str) -> (Manager, Running) {
    let (here, leases) = (&*world.namespace, ["leases.coordination.k8s.io"]);
    let user = world.env.user(format!("{name}-of-{here}"));
    let user = user.allow_in(here, ["get", "create", "update"], leases);
    let user = user.allow_in(here, ["create", "patch"], ["events.events.k8s.io"]);
    let user = user.create().await.unwrap();
    let election = LeaderElection::new(NAME)
        .namespace(here)
        .identity(name)
        .label("app.kubernetes.io/name", "shop")
        .timing(
            Duration::from_secs(5),
            Duration::from_secs(3),
            Duration::from_millis(500),
        )
        // All tests share this process.
        .abort_with(|_| {});
    let manager = Manager::builder(connection_of(&user))
        .leader_election(election)
        .build()
        .unwrap();
    let running = Running::start(&manager);
    (manager, running)
}

/// Starts a leader and a standby, and waits until the standby knows the leader.
async fn leader_and_standby(world: &World) -> [(Manager, Running); 2] {
    let leader = replica(world, "alpha").await;
    soon(leader.0.elected()).await;
    let standby = replica(world, "beta").await;
    let knows_the_leader = || async {
        let holder = standby.0.lease_status().unwrap().holder;
        match holder.as_deref() {
            Some("alpha") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    let known = eventually("the standby knows the leader", knows_the_leader);
    known.await.unwrap();
    assert!(leader.0.is_leader() && !standby.0.is_leader());
    [leader, standby]
}

/// Returns the holder and the number of transitions in the Lease.
async fn holder(world: &World) -> (String, i32) {
    let lease: Lease = world.client.live().get(&world.key(NAME)).await.unwrap();
    let spec = lease.spec.unwrap();
    (
        spec.holder_identity.unwrap_or_default(),
        spec.lease_transitions.unwrap_or_default(),
    )
}

/// LEASE-8
#[tokio::test]
async fn a_standby_follows_a_leader_that_stops() {
    let world = World::start().await;
    let [(_, leader), (second, standby)] = leader_and_standby(&world).await;
    let lease: Lease = world.client.live().get(&world.key(NAME)).await.unwrap();
    let labels = lease.metadata.labels.unwrap();
    assert_eq!(labels["app.kubernetes.io/name"], "shop");
    let spec = lease.spec.unwrap();
    assert_eq!(spec.lease_duration_seconds, Some(5));
    assert!(spec.acquire_time.is_some() && spec.renew_time.is_some());
    assert_eq!(holder(&world).await, ("alpha".to_owned(), 0));

    leader.stop().await;
    soon(second.elected()).await;
    assert_eq!(holder(&world).await, ("beta".to_owned(), 1));
    standby.stop().await;
    assert_eq!(holder(&world).await, (String::new(), 1));

    let about_the_lease = FieldSelector::new().equals("regarding.name", NAME);
    let selected = ListOptions::new().namespace(&*world.namespace);
    let selected = selected.fields(about_the_lease);
    let events: Vec<Event> = world.client.live().list(&selected).await.unwrap();
    let notes = events.into_iter().filter_map(|event| event.note);
    let mut notes: Vec<String> = notes.collect();
    notes.sort_unstable();
    let expected = [
        "alpha became leader", "alpha stopped leading", "beta became leader",
        "beta stopped leading",
    ];
    assert_eq!(notes, expected);
}

/// LEASE-2
#[tokio::test]
async fn a_standby_follows_a_leader_that_died() {
    let world = World::start().await;
    let [(_, leader), (second, standby)] = leader_and_standby(&world).await;
    drop(leader);
    soon(second.elected()).await;
    assert!(second.is_leader());
    assert_eq!(holder(&world).await, ("beta".to_owned(), 1));
    standby.stop().await;
}

/// LEASE-1
#[tokio::test]
async fn a_leader_ends_when_another_program_takes_its_lease() {
    let world = World::start().await;
    let (manager, leader) = replica(&world, "alpha").await;
    soon(manager.elected()).await;
    let taken = json!({"spec": {"holderIdentity": "thief", "leaseTransitions": 7}});
    let patch = Patch::Merge(taken);
    let key = world.key(NAME);
    world.client.patch::<Lease>(&key, &patch).await.unwrap();
    let error = leader.ended().await.unwrap_err();
    assert!(error.is_leadership_lost(), "{error}");
    assert!(error.to_string().contains("thief"), "{error}");
    assert_eq!(holder(&world).await, ("thief".to_owned(), 7));
}
