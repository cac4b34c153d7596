//! Sources besides the kinds of the cache: channels, periodic sources and informers.

mod indexed;
mod mapped_async;
pub(crate) mod optional;
mod polls;
mod runtime_kinds;
mod watch_set;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use steersman_api::ClientConfig;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::Client;
use steersman_controller::{Controller, Error, Watch, handler, predicate, source};
use steersman_object::{ListOptions, Object as _, ObjectKey};
use steersman_testenv::log::capture;

use crate::world::{World, record};

fn object(name: &str) -> Deployment {
    Deployment {
        metadata: ObjectMeta {
            namespace: Some("default".into()),
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        ..Deployment::default()
    }
}

// CTRL-41, as controller-runtime's `source.Channel`: the producer waits while the channel is full.
#[tokio::test(start_paused = true)]
async fn a_full_channel_makes_its_producer_wait_until_the_controller_takes_an_object() {
    let mut world = World::new();
    let (sender, channel) = source::channel_with_bound(2);
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::channel(channel, handler::itself()))
        .build(note.reconciler())
        .unwrap();
    sender.try_send(object("a")).unwrap();
    sender.send(object("b")).await.unwrap();
    let unsent = sender.try_send(object("c")).unwrap_err();
    assert!(unsent.is_full());
    let producer = tokio::spawn({
        let sender = sender.clone();
        async move { sender.send(unsent.into_object()).await }
    });
    // A producer that does not wait would end within this minute.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!producer.is_finished());
    let running = world.start(controller);
    producer.await.unwrap().unwrap();
    assert_eq!(runs.rest().await, ["a", "b", "c"]);

    world.cancel.cancel();
    running.await.unwrap().unwrap();
    assert!(sender.send(object("d")).await.unwrap_err().is_closed());
}

#[test]
fn a_channel_holds_1024_objects_by_default_and_at_least_one() {
    for (bound, (sender, channel)) in [
        (1024, source::channel::<u64>()),
        (1, source::channel_with_bound(0)),
    ] {
        for number in 0..bound {
            assert!(sender.try_send(number).is_ok(), "{number}");
        }
        assert!(sender.try_send(bound).unwrap_err().is_full());
        drop(channel);
        assert!(sender.is_closed());
    }
}

// CTRL-6: for the objects of a channel.
#[tokio::test(start_paused = true)]
async fn a_panic_over_an_object_of_a_channel_costs_that_object_alone() {
    let log = capture();
    let mut world = World::new();
    let (sender, channel) = source::channel();
    let (note, mut runs) = record();
    let not_bad = predicate::object(|object: &Deployment| {
        let name = object.metadata.name.as_deref();
        assert_ne!(name, Some("bad"), "it is bad");
        name != Some("hidden")
    });
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::channel(channel, handler::itself()).filter(not_bad))
        .with_event_filter(|event| event.key.name() != "filtered")
        .build(note.reconciler())
        .unwrap();
    let status = controller.status();
    let running = world.start(controller);
    for name in ["hidden", "bad", "filtered", "good"] {
        sender.send(object(name)).await.unwrap();
    }
    assert_eq!(runs.rest().await, ["good"]);
    assert_eq!(status.handler_panics(), 1);
    let panic = status.last_handler_panic().unwrap();
    assert_eq!((panic.watch, panic.key.name()), (1, "bad"));
    assert!(log.text().contains("object=default/bad"), "{}", log.text());
    // The end of a channel does not end the controller.
    drop(sender);
    world.deploy("web");
    assert_eq!(runs.rest().await, ["web"]);
    assert!(!running.is_finished());
}

// SRC-6: an error, a panic and a hang cost one call of a periodic source.
#[tokio::test(start_paused = true)]
async fn a_periodic_source_calls_its_function_at_a_jittered_interval_also_after_a_failure() {
    let log = capture();
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let every = Duration::from_secs(600);
    let calls = Arc::new(AtomicU32::new(0));
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::every(every, move |client: Client| {
            let number = calls.fetch_add(1, Ordering::Relaxed);
            async move {
                match number {
                    0 => return Err(Error::msg("the first call")),
                    1 => panic!("the second call"),
                    2 => std::future::pending().await,
                    _ => {}
                }
                let all = client.list::<Deployment>(&ListOptions::new()).await?;
                Ok(all
                    .iter()
                    .map(|object| object.key())
                    .collect::<Vec<ObjectKey>>())
            }
        }))
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    assert_eq!(runs.next().await, "web", "the initial object");
    // Four pauses, and the interval in which the third call hangs.
    let (name, mut before) = runs.next_at().await;
    assert_eq!(name, "web");
    let interval = every.as_millis();
    assert!(
        (interval * 46 / 10..=interval * 54 / 10).contains(&before),
        "{before}"
    );
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let (_, at) = runs.next_at().await;
        pauses.push(at - before);
        before = at;
    }
    let range = interval * 9 / 10..=interval * 11 / 10 + 1;
    assert!(
        pauses.iter().all(|pause| range.contains(pause)),
        "{pauses:?}"
    );
    pauses.dedup();
    assert!(pauses.len() > 5, "{pauses:?}");
    let errors = r#"steersman_controller_periodic_errors_total{controller="deployment"} "#;
    assert_eq!(world.series(errors), "3");
    for part in [
        "the first call", "the second call", "it took more than 600s",
    ] {
        assert!(
            log.text().contains(part),
            "{part:?} is not in {}",
            log.text()
        );
    }
    assert!(!running.is_finished());
}

/// A controller may have nothing but a periodic source.
#[tokio::test(start_paused = true)]
async fn a_periodic_source_alone_is_enough_for_a_controller() {
    let mut world = World::new();
    let (note, mut runs) = record();
    let controller = Controller::keyed("clock")
        .watch(Watch::every(Duration::ZERO, |_| async {
            Ok([ObjectKey::namespaced("default", "tick")])
        }))
        .build(note.reconciler())
        .unwrap();
    world.start(controller);
    let (name, at) = runs.next_at().await;
    assert_eq!(name, "tick");
    assert!(
        (900..=1101).contains(&at),
        "an interval is at least a second: {at}"
    );
}

/// The informer of another cache, which ends before the controller.
#[tokio::test(start_paused = true)]
async fn an_informer_of_another_cache_causes_requests_and_its_end_is_no_error() {
    let mut world = World::new();
    world.own("pages", &["web"]);
    let other = Cache::new(CacheOptions::new()).unwrap();
    let informer = other.informer::<ConfigMap>().unwrap();
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .watch(Watch::informer(informer, handler::owner::<Deployment>()))
        .build(note.reconciler())
        .unwrap();
    let running = world.start(controller);
    assert!(
        runs.rest().await.is_empty(),
        "the other cache does not run yet"
    );
    let cancel = tokio_util::sync::CancellationToken::new();
    let client_config = ClientConfig::in_process(world.server.service(), "default");
    let ran = tokio::spawn(other.run(client_config, cancel.clone()));
    assert_eq!(runs.rest().await, ["web"]);
    cancel.cancel();
    ran.await.unwrap().unwrap();
    world.deploy("more");
    assert_eq!(runs.rest().await, ["more"]);
    assert!(!running.is_finished());
}
