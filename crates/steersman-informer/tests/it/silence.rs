//! Watches that end at once, and watches that never say anything.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_informer::{InformerOptions, Reason};

use super::fake::*;

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_after_its_own_end_and_resumed() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let _dead = fake.watch();
    let wire = fake.watch();
    let running = run(&fake, listing());
    let (first, second) = (fake.request(2).await, fake.request(3).await);
    let timeout = first.watch().timeout.unwrap();
    assert_eq!(second.at - first.at, timeout + Duration::from_secs(15));
    assert_eq!(second.after(), "10");
    wire.unbounded_send(added("b", 11)).unwrap();
    running.applied(11).await;
    assert!(running.informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_heard_of_is_kept_past_its_end() {
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let _running = run(&fake, listing());
    let start = fake.request(2).await.at;
    for n in 0..40 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        wire.unbounded_send(bookmark(11 + n)).unwrap();
    }
    assert!(start.elapsed() >= Duration::from_secs(400));
    assert_eq!(fake.requests().len(), 2);
    // 15 s of silence after that are enough.
    let last = tokio::time::Instant::now();
    let resumed = fake.request(3).await;
    assert_eq!(resumed.after(), "50");
    assert!(resumed.at - last <= Duration::from_secs(16));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_at_once_is_not_asked_in_a_loop() {
    let fake = Fake::new();
    fake.page("10", []);
    for _ in 0..10 {
        drop(fake.watch());
    }
    let running = run(&fake, listing());
    let (first, last) = (fake.request(2).await.at, fake.request(12).await.at);
    assert!(
        last - first >= Duration::from_secs(100),
        "{:?}",
        last - first
    );
    assert!(running.informer.state().is_degraded());
    assert_eq!(
        fake.requests()
            .iter()
            .filter(|r| matches!(r.asks, Asks::List(_)))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_stays_open_is_healthy() {
    let fake = Fake::new();
    fake.page("10", []);
    fake.watch_refused(503, "ServiceUnavailable");
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut states = running.informer.state_changes();
    states.wait_for(|state| state.is_degraded()).await.unwrap();
    states.wait_for(|state| state.is_synced()).await.unwrap();
    let opened = fake.request(3).await.at;
    assert!(opened.elapsed() <= Duration::from_secs(2));
}

/// What a hook was told: the reason, and which failure it is since the last success.
type Told = Arc<Mutex<Vec<(Reason, u32)>>>;

fn telling(told: &Told) -> InformerOptions {
    let told = Arc::clone(told);
    listing().on_failure(move |failed| {
        assert!(!failed.message.is_empty());
        told.lock().push((failed.reason, failed.attempt));
    })
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_is_told_of_watches_that_end_at_once() {
    let (fake, told) = (Fake::new(), Told::default());
    fake.page("10", []);
    for _ in 0..3 {
        drop(fake.watch());
    }
    let wire = fake.watch();
    let running = run(&fake, telling(&told));
    fake.request(5).await;
    wire.unbounded_send(added("a", 11)).unwrap();
    running.applied(11).await;
    let short = |attempt| (Reason::ShortWatch, attempt);
    assert_eq!(*told.lock(), [short(1), short(2), short(3)]);

    // One that lasted and ends is no failure, and neither is one that brought something.
    let _next = fake.watch();
    drop(wire);
    fake.request(6).await;
    assert_eq!(told.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_is_told_of_connections_that_are_silent() {
    let (fake, told) = (Fake::new(), Told::default());
    fake.page("10", []);
    let _dead = (fake.watch(), fake.watch());
    let wire = fake.watch();
    let running = run(&fake, telling(&told));
    fake.request(4).await;
    wire.unbounded_send(added("a", 11)).unwrap();
    running.applied(11).await;
    assert_eq!(*told.lock(), [(Reason::Silent, 1), (Reason::Silent, 2)]);
    assert!(running.informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_is_told_of_a_streaming_list_that_breaks_off() {
    let (fake, told) = (Fake::new(), Told::default());
    let (wire, _stalled) = (fake.watch(), fake.watch());
    fake.page("10", []);
    let _wire = fake.watch();
    let running = run(&fake, telling(&told).watch_list(true));
    fake.request(1).await;
    wire.unbounded_send(added("a", 5)).unwrap();
    wire.unbounded_send(Err(broken())).unwrap();
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(*told.lock(), [(Reason::Network, 1), (Reason::Silent, 2)]);
}
