//! Tests series on the server: few writes, and no wait of a reconciler.

use std::time::Duration;

use steersman_apiserver::faults::Verb;
use tokio::time::Instant;

use crate::world::{World, config};

fn writes(world: &World) -> [usize; 2] {
    [Verb::Create, Verb::Patch].map(|verb| {
        let requests = world.server.requests();
        requests.count(|r| r.is_for("events") && r.does(verb))
    })
}

/// EVENT-3: an event that is repeated within six minutes is counted in a series.
#[tokio::test(start_paused = true)]
async fn the_server_shows_a_series_with_its_count_and_last_time() {
    let world = World::new();
    let site = config("site");
    let record = || world.recorder.normal(&site, "Published", "Publish", "hi");
    record();
    world.until("the Event is there", |e| e.len() == 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    record();
    let again = world.server.now().as_microsecond();
    let events = world
        .until("its series begins", |e| e[0].series.is_some())
        .await;
    let series = events[0].series.clone().unwrap();
    let last = series.last_observed_time.0.as_microsecond();
    assert_eq!((series.count, last), (2, again));
    for _ in 0..7 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        record();
    }
    assert_eq!(writes(&world), [1, 1]);
    // The series ends six minutes after the last occurrence.
    let last = world.server.now().as_microsecond();
    tokio::time::sleep(Duration::from_secs(361)).await;
    let count = |e: &k8s_openapi::api::events::v1::Event| e.series.as_ref().map(|s| s.count);
    let events = world
        .until("its series ends", |e| count(&e[0]) == Some(9))
        .await;
    let series = events[0].series.clone().unwrap();
    assert_eq!(series.last_observed_time.0.as_microsecond(), last);
    assert_eq!(writes(&world), [1, 2]);
    record();
    let events = world.until("a second Event", |e| e.len() == 2).await;
    assert_eq!(count(&events[1]), None);
}

/// EVENT-9: writes of Events wait while the server is away.
#[tokio::test(start_paused = true)]
async fn an_event_that_was_deleted_is_created_anew_with_its_count() {
    let world = World::new();
    let site = config("site");
    world.recorder.normal(&site, "Published", "Publish", "hi");
    let events = world.until("the Event is there", |e| e.len() == 1).await;
    let name = events[0].metadata.name.clone().unwrap();
    world
        .server
        .delete("events.events.k8s.io", "default", &name)
        .unwrap();
    world.recorder.normal(&site, "Published", "Publish", "hi");
    let events = world.until("it is there again", |e| e.len() == 1).await;
    assert_eq!(events[0].series.as_ref().unwrap().count, 2);
    assert_eq!(writes(&world), [2, 1]);
}

/// EVENT-1, EVENT-3
#[tokio::test(start_paused = true)]
async fn ten_thousand_events_of_one_object_take_no_time_and_two_writes() {
    let world = World::new();
    let slow = Duration::from_secs(5);
    let _delay = world.server.faults().delay(Verb::Create, "events", slow);
    let site = config("site");
    let before = Instant::now();
    for _ in 0..10_000 {
        world.recorder.normal(&site, "Published", "Publish", "hi");
        // The yield lets other tasks run, such as the sender.
        tokio::task::yield_now().await;
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    let count = |e: &k8s_openapi::api::events::v1::Event| e.series.as_ref().map(|s| s.count);
    let events = world
        .until("the count is complete", |e| {
            e.len() == 1 && count(&e[0]) == Some(10_000)
        })
        .await;
    assert_eq!(events.len(), 1);
    assert!(writes(&world)[0] == 1 && writes(&world)[1] <= 1);
    assert_eq!(world.counter("steersman_events_total", "Normal"), 10_000);
}

/// EVENT-2: the number of waiting writes is bounded, and each lost event is counted.
#[tokio::test(start_paused = true)]
async fn events_beyond_the_queue_are_counted_and_all_others_are_written() {
    let world = World::new();
    for object in 0..3000 {
        let site = config(&format!("site-{object}"));
        world.recorder.warning(&site, "Refused", "Publish", "no");
    }
    world.stop().await;
    assert_eq!(world.dropped("queue_full"), 2000);
    assert_eq!(world.events("default").await.len(), 1000);
    assert_eq!(world.counter("steersman_event_writes_total", "ok"), 1000);
    assert_eq!(world.counter("steersman_events_total", "Warning"), 3000);
}
