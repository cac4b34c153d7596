//! Watches that end at once, and watches that are silent.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_informer::{InformerOptions, Reason};

use super::fake::*;

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_closed_after_its_timeout_and_resumed() {
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
async fn a_watch_with_events_is_kept_past_its_timeout() {
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
    // The watch counts as dead 15 s later.
    let last = tokio::time::Instant::now();
    let resumed = fake.request(3).await;
    assert_eq!(resumed.after(), "50");
    assert!(resumed.at - last <= Duration::from_secs(16));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_at_once_is_not_flooded() {
    let fake = Fake::new();
    fake.page("10", []);
    for _ in 0..3 {
        for _ in 0..3 {
            drop(fake.watch());
        }
        fake.page("10", []);
    }
    drop(fake.watch());
    let running = run(&fake, listing());
    let (first, last) = (fake.request(2).await.at, fake.request(14).await.at);
    assert!(
        last - first >= Duration::from_secs(100),
        "{:?}",
        last - first
    );
    assert!(running.informer.state().is_degraded());
}

/// Opens watches that end at once, without an event or with a bookmark of their first version.
async fn an_empty_watch_lists_once(bookmark_of: Option<u64>) {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    for _ in 0..3 {
        let wire = fake.watch();
        if let Some(version) = bookmark_of {
            wire.unbounded_send(bookmark(version)).unwrap();
        }
    }
    fake.page("20", [good("b", 15)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    let expected = ["*a@1", "synced", "-a@1?", "+b@15"];
    assert_eq!(take(&mut seen, 4).await, expected);
    for number in 2..=4 {
        assert_eq!(fake.request(number).await.after(), "10");
    }
    assert_eq!(fake.request(5).await.from(), "");
    // The next watch begins at the version of the bookmark.
    assert_eq!(fake.request(6).await.after(), "20");
    wire.unbounded_send(added("c", 21)).unwrap();
    assert_eq!(next(&mut seen).await, "+c@21");
    assert!(running.informer.state().is_synced());
}

// REFL-11: kubernetes/kubernetes#104171
#[tokio::test(start_paused = true)]
async fn refl_11_three_empty_watches_in_a_row_list_once() {
    an_empty_watch_lists_once(None).await;
}

// REFL-11
#[tokio::test(start_paused = true)]
async fn refl_11_three_watches_with_nothing_but_the_same_bookmark_list_once() {
    an_empty_watch_lists_once(Some(10)).await;
}

// REFL-10
#[tokio::test(start_paused = true)]
async fn refl_10_missing_bookmarks_end_the_watch_and_degrade_the_state() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let dead = fake.watch();
    let running = run(&fake, listing());
    fake.request(2).await;
    let mut states = running.informer.state_changes();
    for n in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        dead.unbounded_send(bookmark(11 + n)).unwrap();
    }
    running.applied(13).await;
    let last = tokio::time::Instant::now();
    // The request for the next watch hangs.
    states.wait_for(|state| !state.is_synced()).await.unwrap();
    assert_eq!(last.elapsed(), Duration::from_secs(75));
    assert_eq!(fake.request(3).await.after(), "13");
    assert!(running.informer.state().is_degraded());
}

// REFL-10
#[tokio::test(start_paused = true)]
async fn refl_10_bookmarks_are_expected_for_one_more_watch_after_they_stop() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let marked = fake.watch();
    let _silent = (fake.watch(), fake.watch());
    let _running = run(&fake, listing());
    let first = fake.request(2).await.at;
    tokio::time::sleep_until(first + Duration::from_secs(60)).await;
    marked.unbounded_send(bookmark(11)).unwrap();
    // The first two watches are closed as silent; the second delivered no bookmark at all.
    let (second, third) = (fake.request(3).await.at, fake.request(4).await);
    assert_eq!(third.at - second, Duration::from_secs(75));
    // The third watch lasts until its own timeout, because no bookmark is expected any more.
    let fourth = fake.request(5).await.at;
    let timeout = third.watch().timeout.unwrap();
    assert_eq!(fourth - third.at, timeout + Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_connection_counts_as_silent_and_a_broken_one_does_not() {
    for (cause, at_once) in [("keep-alive timed out", true), ("connection reset", false)] {
        let fake = Fake::new();
        fake.page("10", []);
        let wire = fake.watch();
        let running = run(&fake, listing());
        fake.request(2).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let at = tokio::time::Instant::now();
        let mut states = running.informer.state_changes();
        states.borrow_and_update();
        wire.unbounded_send(Err(broken_by(cause))).unwrap();
        // The request for the next watch hangs.
        states.wait_for(|state| !state.is_synced()).await.unwrap();
        let within = Duration::from_secs(u64::from(!at_once));
        assert_eq!(at.elapsed(), within, "{cause}");
    }
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

/// The calls of a hook: the reason, and the number of failures since the last success.
type HookCalls = Arc<Mutex<Vec<(Reason, u32)>>>;

fn problem_log(calls: &HookCalls) -> InformerOptions {
    let calls = Arc::clone(calls);
    listing().on_failure(move |failed| {
        assert!(!failed.message.is_empty());
        calls.lock().push((failed.reason, failed.attempt));
    })
}

#[tokio::test(start_paused = true)]
async fn the_failure_hook_is_called_for_watches_that_end_at_once() {
    let (fake, calls) = (Fake::new(), HookCalls::default());
    fake.page("10", []);
    for _ in 0..3 {
        drop(fake.watch());
    }
    fake.page("10", []);
    let wire = fake.watch();
    let running = run(&fake, problem_log(&calls));
    fake.request(6).await;
    wire.unbounded_send(added("a", 11)).unwrap();
    running.applied(11).await;
    let short = |attempt| (Reason::ShortWatch, attempt);
    assert_eq!(*calls.lock(), [short(1), short(2), short(3)]);

    // A watch that lasted, or delivered an event, ends without a failure.
    let _next = fake.watch();
    drop(wire);
    fake.request(7).await;
    assert_eq!(calls.lock().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_failure_hook_is_called_for_silent_connections() {
    let (fake, calls) = (Fake::new(), HookCalls::default());
    fake.page("10", []);
    let _dead = (fake.watch(), fake.watch());
    let wire = fake.watch();
    let running = run(&fake, problem_log(&calls));
    fake.request(4).await;
    wire.unbounded_send(added("a", 11)).unwrap();
    running.applied(11).await;
    assert_eq!(*calls.lock(), [(Reason::Silent, 1), (Reason::Silent, 2)]);
    assert!(running.informer.state().is_synced());
}

#[tokio::test(start_paused = true)]
async fn the_failure_hook_is_called_for_a_broken_streaming_list() {
    let (fake, calls) = (Fake::new(), HookCalls::default());
    let (wire, _stalled) = (fake.watch(), fake.watch());
    fake.page("10", []);
    let _wire = fake.watch();
    let running = run(&fake, problem_log(&calls).watch_list(true));
    fake.request(1).await;
    wire.unbounded_send(added("a", 5)).unwrap();
    wire.unbounded_send(Err(broken())).unwrap();
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(*calls.lock(), [(Reason::Network, 1), (Reason::Silent, 2)]);
}
