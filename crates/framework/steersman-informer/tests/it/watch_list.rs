//! Streaming lists, and servers without them.

use std::time::Duration;

use super::fake::*;
use steersman_api::WatchEvent;
use steersman_informer::InformerOptions;

fn streaming() -> InformerOptions {
    InformerOptions::new().seed(7)
}

#[tokio::test(start_paused = true)]
async fn one_request_lists_and_watches() {
    let fake = Fake::new();
    let wire = fake.watch();
    let running = run(&fake, streaming());
    let mut seen = running.informer.subscribe();
    for event in [
        added("a", 1),
        added("b", 2),
        end_of_initial_events(10),
        added("c", 11),
    ] {
        wire.unbounded_send(event).unwrap();
    }
    assert_eq!(
        take(&mut seen, 4).await,
        ["*a@1", "*b@2", "synced", "+c@11"]
    );
    let request = fake.request(1).await;
    assert!(request.watch().initial_events && request.watch().bookmarks);
    assert_eq!(request.after(), "");
    assert_eq!(fake.requests().len(), 1);
    // The next request is an ordinary watch.
    drop(wire);
    let next = fake.request(2).await;
    assert!(!next.watch().initial_events);
    assert_eq!(next.after(), "11");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_gets_an_ordinary_list() {
    for (code, reason) in [
        (422, "Invalid"),
        (400, "BadRequest"),
        (405, "MethodNotAllowed"),
    ] {
        let fake = Fake::new();
        fake.watch_refused(code, reason);
        fake.page("10", [good("a", 1)]);
        let _wire = fake.watch();
        let running = run(&fake, streaming());
        running.informer.wait_for_sync().await.unwrap();
        let (refused, list) = (fake.request(1).await, fake.request(2).await);
        assert_eq!(refused.at, list.at);
        assert_eq!(list.from(), "0");
        assert_eq!(fake.request(3).await.after(), "10");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_sends_the_end_gets_an_ordinary_list() {
    let fake = Fake::new();
    let wire = fake.watch();
    wire.unbounded_send(added("a", 1)).unwrap();
    fake.page("10", [good("a", 1)]);
    let _wire = fake.watch();
    let running = run(&fake, streaming());
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(running.stored(), ["ns/a@1"]);
    let (stream, list) = (fake.request(1).await, fake.request(2).await);
    assert_eq!(list.from(), "0");
    assert!(list.at - stream.at <= Duration::from_secs(30));
}

// A busy server that took the request for an ordinary watch is never silent.
#[tokio::test(start_paused = true)]
async fn a_first_bookmark_without_the_end_marker_ends_streaming() {
    let fake = Fake::new();
    let wire = fake.watch();
    wire.unbounded_send(added("a", 1)).unwrap();
    wire.unbounded_send(bookmark(5)).unwrap();
    wire.unbounded_send(added("b", 6)).unwrap();
    fake.page("10", [good("a", 1)]);
    let _wire = fake.watch();
    let running = run(&fake, streaming());
    running.informer.wait_for_sync().await.unwrap();
    assert_eq!(running.stored(), ["ns/a@1"]);
    assert_eq!(fake.request(1).await.at, fake.request(2).await.at);
}

#[tokio::test(start_paused = true)]
async fn a_broken_streaming_list_is_discarded() {
    let fake = Fake::new();
    let first = fake.watch();
    first.unbounded_send(added("a", 1)).unwrap();
    first.unbounded_send(added("b", 2)).unwrap();
    drop(first);
    let second = fake.watch();
    second.unbounded_send(added("a", 1)).unwrap();
    second.unbounded_send(end_of_initial_events(12)).unwrap();
    let running = run(&fake, streaming());
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["*a@1", "synced"]);
    assert_eq!(running.stored(), ["ns/a@1"]);
    assert_eq!(fake.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_streaming_list_is_no_older_than_the_first() {
    let fake = Fake::new();
    let wire = fake.watch();
    wire.unbounded_send(added("a", 1)).unwrap();
    wire.unbounded_send(end_of_initial_events(10)).unwrap();
    let error = refused("watch", 410, "Expired");
    wire.unbounded_send(Err(error)).unwrap();
    let second = fake.watch();
    second.unbounded_send(added("c", 3)).unwrap();
    second.unbounded_send(end_of_initial_events(20)).unwrap();
    let running = run(&fake, streaming());
    let mut seen = running.informer.subscribe();
    assert_eq!(
        take(&mut seen, 4).await,
        ["*a@1", "synced", "-a@1?", "+c@3"]
    );
    let again = fake.request(2).await;
    assert!(again.watch().initial_events);
    assert_eq!(again.after(), "");
}

#[tokio::test(start_paused = true)]
async fn streaming_is_tried_again_at_the_next_relist() {
    let fake = Fake::new();
    drop(fake.watch());
    drop(fake.watch());
    fake.page("10", [good("a", 1)]);
    let wire = fake.watch();
    let running = run(&fake, streaming());
    running.informer.wait_for_sync().await.unwrap();
    let stream = fake.watch();
    stream.unbounded_send(end_of_initial_events(20)).unwrap();
    let error = refused("watch", 410, "Expired");
    wire.unbounded_send(Ok(WatchEvent::Error(error))).unwrap();
    assert!(fake.request(5).await.watch().initial_events);
    running.applied(20).await;
}

// The server is never silent, sends no bookmarks, and ends no watch for minutes.
#[tokio::test(start_paused = true)]
async fn a_busy_server_that_does_not_stream_gets_an_ordinary_list() {
    let fake = Fake::new();
    let wire = fake.watch();
    fake.page("10", [good("a", 1)]);
    let next = fake.watch();
    let start = tokio::time::Instant::now();
    let busy = tokio::spawn(async move {
        for version in 2.. {
            if wire.unbounded_send(modified("a", version)).is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    });
    let running = run(&fake, streaming());
    running.informer.wait_for_sync().await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(30));
    busy.await.unwrap();
    // The server does not stream, so no streaming list is requested again.
    fake.page("20", []);
    let _wire = fake.watch();
    let error = refused("watch", 410, "Expired");
    next.unbounded_send(Ok(WatchEvent::Error(error))).unwrap();
    assert_eq!(fake.request(4).await.from(), "");
}

#[tokio::test(start_paused = true)]
async fn events_before_the_end_marker_are_initial() {
    let fake = Fake::new();
    let wire = fake.watch();
    for event in [
        added("a", 1),
        added("b", 2),
        modified("a", 3),
        deleted("b", 4),
        end_of_initial_events(4),
    ] {
        wire.unbounded_send(event).unwrap();
    }
    let running = run(&fake, streaming());
    let mut seen = running.informer.subscribe();
    assert_eq!(take(&mut seen, 2).await, ["*a@3", "synced"]);
    assert_eq!(fake.requests().len(), 1);
}
