//! 410 as an HTTP status and as an event, and resource versions that the server has not reached.

use std::time::Duration;

use super::fake::*;
use steersman_api::WatchEvent;
use steersman_informer::InformerOptions;

async fn a_410_relists(event: bool) {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    if event {
        let wire = fake.watch();
        let error = refused("watch", 410, "Expired");
        wire.unbounded_send(Ok(WatchEvent::Error(error))).unwrap();
    } else {
        fake.watch_refused(410, "Gone");
    }
    fake.page("20", [good("a", 1), good("b", 15)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut states = running.informer.state_changes();
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 3).await, ["*a@1", "synced", "+b@15"]);
    let (watch, list) = (fake.request(2).await, fake.request(3).await);
    assert_eq!(watch.after(), "10");
    assert_eq!(list.from(), "");
    // The first expired version causes neither a delay nor a problem.
    assert_eq!(list.at, watch.at);
    assert!(states.borrow_and_update().is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_410_as_an_http_status_relists() {
    a_410_relists(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_410_as_an_error_event_relists() {
    a_410_relists(true).await;
}

#[tokio::test(start_paused = true)]
async fn versions_that_expire_at_once_do_not_cause_a_tight_loop() {
    let fake = Fake::new();
    for _ in 0..6 {
        fake.page("10", [good("a", 1)]);
        fake.watch_refused(410, "Expired");
    }
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    let (first, last) = (fake.request(3).await.at, fake.request(11).await.at);
    assert!(last - first >= Duration::from_secs(10));
    assert!(running.informer.state().is_degraded());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_has_not_reached_causes_a_list() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let wire = fake.watch();
    wire.unbounded_send(modified("a", 30)).unwrap();
    drop(wire);
    // The server behaves as if it was restored from a backup.
    fake.then_too_large();
    fake.page("12", [good("a", 5)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    let expected = ["*a@1", "synced", "~a@1>30", "~a@30>5"];
    assert_eq!(take(&mut seen, 4).await, expected);
    assert_eq!(fake.request(3).await.after(), "30");
    assert_eq!(fake.request(4).await.from(), "");
    assert_eq!(fake.request(5).await.after(), "12");
}

/// Scripts watches that each deliver an event and then expire.
fn rounds_with_an_event(fake: &Fake, streaming: bool, count: usize) -> Vec<Wire> {
    let round = |_| {
        if !streaming {
            fake.page("10", [good("a", 1)]);
        }
        let wire = fake.watch();
        if streaming {
            wire.unbounded_send(added("a", 1)).unwrap();
            wire.unbounded_send(end_of_initial_events(10)).unwrap();
        }
        wire.unbounded_send(modified("a", 11)).unwrap();
        let error = refused("watch", 410, "Expired");
        wire.unbounded_send(Ok(WatchEvent::Error(error))).unwrap();
        wire
    };
    (0..count).map(round).collect()
}

// REFL-5
#[tokio::test(start_paused = true)]
async fn refl_5_events_before_each_expiration_do_not_cause_a_loop_of_lists() {
    for streaming in [false, true] {
        let fake = Fake::new();
        let _wires = rounds_with_an_event(&fake, streaming, 200);
        let options = InformerOptions::new().watch_list(streaming).seed(7);
        let _running = run(&fake, options);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let count = fake.requests().len();
        assert!((5..25).contains(&count), "{count}, streaming: {streaming}");
    }
}

// REFL-5
#[tokio::test(start_paused = true)]
async fn refl_5_after_a_healthy_watch_an_expiration_causes_a_list_at_once() {
    let fake = Fake::new();
    let mut wires = Vec::new();
    for _ in 0..3 {
        fake.page("10", [good("a", 1)]);
        wires.push(fake.watch());
    }
    let _running = run(&fake, listing());
    for (round, wire) in wires.into_iter().enumerate() {
        fake.request(round * 2 + 2).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let error = refused("watch", 410, "Expired");
        wire.unbounded_send(Ok(WatchEvent::Error(error))).unwrap();
        let at = tokio::time::Instant::now();
        assert_eq!(fake.request(round * 2 + 3).await.at, at);
    }
}
