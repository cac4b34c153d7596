//! Subscribers that join while objects change.

use std::collections::BTreeMap;

use super::fake::*;
use steersman_informer::{Delivery, Event, Origin};

// FAN-1
#[tokio::test]
async fn fan_1_a_subscriber_that_joins_at_any_moment_ends_with_the_state_of_the_store() {
    let fake = Fake::new();
    fake.page("10", [good("0", 1), good("1", 2)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    let mut subscriptions = Vec::new();
    let mut version = 10;
    for round in 0..200_u64 {
        version += 1;
        let name = (round * 7 % 13).to_string();
        let event = match round % 5 {
            0..=1 => modified(&name, version),
            2..=3 => added(&name, version),
            _ => deleted(&name, version),
        };
        wire.unbounded_send(event).unwrap();
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        if round % 10 == 0 {
            subscriptions.push(running.informer.subscribe());
        }
    }
    running.applied(version).await;
    let expected: Vec<String> = running.stored();
    running.task.abort();
    for mut subscription in subscriptions {
        let mut world = BTreeMap::new();
        let mut synced = 0;
        while let Some(delivery) = subscription.next().await {
            let Delivery::Event(event) = delivery else {
                synced += 1;
                continue;
            };
            assert_eq!(event.origin() == Origin::Initial, synced == 0);
            match &event {
                Event::Created { new, .. } => {
                    assert_eq!(world.insert(new.key().clone(), format!("{new:?}")), None);
                }
                Event::Updated { new, .. } => {
                    assert!(
                        world
                            .insert(new.key().clone(), format!("{new:?}"))
                            .is_some()
                    );
                }
                Event::Deleted { last_known, .. } => {
                    assert!(world.remove(last_known.key()).is_some());
                }
            }
        }
        assert_eq!(synced, 1);
        assert_eq!(world.into_values().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn early_and_late_subscribers_get_the_same_objects() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let _wire = fake.watch();
    let informer = steersman_informer::Informer::new(
        steersman_object::Kind::of::<k8s_openapi::api::core::v1::ConfigMap>(),
        listing(),
    );
    let mut early = informer.subscribe();
    let running = run_informer(&fake, informer);
    running.informer.wait_for_sync().await.unwrap();
    let mut late = running.informer.subscribe();
    assert_eq!(take(&mut early, 2).await, ["*a@1", "synced"]);
    assert_eq!(take(&mut late, 2).await, ["*a@1", "synced"]);
    assert_eq!(running.informer.subscribers(), 2);
    drop(early);
    assert_eq!(running.informer.subscribers(), 1);
    drop(late);
    assert_eq!(running.informer.subscribers(), 0);
}

// After an event was coalesced away, its subscriber is still woken for the next event.
#[tokio::test(start_paused = true)]
async fn no_wake_up_is_lost_when_events_are_coalesced_away() {
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let running = run(&fake, listing().mailbox_bound(0));
    let mut seen = running.informer.subscribe();
    assert_eq!(next(&mut seen).await, "synced");
    wire.unbounded_send(added("x", 11)).unwrap();
    wire.unbounded_send(deleted("x", 12)).unwrap();
    running.applied(12).await;
    let waiting = tokio::spawn(async move { next(&mut seen).await });
    tokio::task::yield_now().await;
    wire.unbounded_send(added("y", 13)).unwrap();
    assert_eq!(waiting.await.unwrap(), "+y@13");
}
