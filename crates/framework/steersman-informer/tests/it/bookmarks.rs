//! The resource version at which a watch resumes.

use std::time::Duration;

use super::fake::*;

// REFL-8
#[tokio::test(start_paused = true)]
async fn refl_8_a_watch_that_ends_resumes_from_a_bookmark_without_a_list() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let first = fake.watch();
    let second = fake.watch();
    let _third = fake.watch();
    let running = run(&fake, listing());
    fake.request(2).await;
    first.unbounded_send(added("b", 11)).unwrap();
    first.unbounded_send(bookmark(17)).unwrap();
    running.applied(17).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    drop(first);
    assert_eq!(fake.request(3).await.after(), "17");
    second.unbounded_send(modified("b", 19)).unwrap();
    running.applied(19).await;
    // A connection that breaks is like a watch that ends.
    tokio::time::advance(Duration::from_secs(60)).await;
    second.unbounded_send(Err(broken())).unwrap();
    assert_eq!(fake.request(4).await.after(), "19");
    assert!(running.informer.state().is_synced());
    assert_eq!(running.stored(), ["ns/a@1", "ns/b@19"]);
}

// REFL-1
#[tokio::test(start_paused = true)]
async fn refl_1_a_late_bookmark_does_not_move_the_version_back() {
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let _next = fake.watch();
    let running = run(&fake, listing());
    fake.request(2).await;
    for event in [added("a", 20), bookmark(15), bookmark(0)] {
        wire.unbounded_send(event).unwrap();
    }
    running.applied(20).await;
    drop(wire);
    assert_eq!(fake.request(3).await.after(), "20");
}

// REFL-2, REFL-8
#[tokio::test(start_paused = true)]
async fn refl_2_no_failure_of_a_watch_causes_a_list_or_empties_the_store() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    for (code, reason) in [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
    ] {
        fake.watch_refused(code, reason);
    }
    let wire = fake.watch();
    let running = run(&fake, listing());
    let mut states = running.informer.state_changes();
    for number in 2..=7 {
        assert_eq!(fake.request(number).await.after(), "10");
        assert_eq!(running.stored(), ["ns/a@1"]);
    }
    assert!(states.borrow_and_update().is_degraded());
    // The informer has recovered as soon as an event arrives.
    wire.unbounded_send(bookmark(11)).unwrap();
    states.wait_for(|state| state.is_synced()).await.unwrap();
}
