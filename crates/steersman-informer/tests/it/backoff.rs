//! Delays between failures: growing, alone, and told once.

use std::time::Duration;

use super::fake::*;
use steersman_informer::{Reason, State};

// REFL-4
#[tokio::test(start_paused = true)]
async fn refl_4_the_delays_of_a_list_that_fails_grow() {
    let fake = Fake::new();
    for _ in 0..10 {
        fake.list_refused(500, "InternalError");
    }
    fake.page("10", []);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    let times: Vec<_> = fake.requests()[..11].iter().map(|r| r.at).collect();
    let delays: Vec<_> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(delays[0] <= Duration::from_millis(800));
    for pair in delays[..6].windows(2) {
        assert!(pair[0] < pair[1], "{delays:?}");
    }
    for late in &delays[6..] {
        let bounds = Duration::from_millis(22_500)..=Duration::from_secs(30);
        assert!(bounds.contains(late), "{delays:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_kind_that_is_forbidden_does_not_slow_another() {
    let (forbidden, fine) = (Fake::new(), Fake::new());
    for _ in 0..100 {
        forbidden.list_refused(403, "Forbidden");
    }
    fine.page("10", []);
    let wire = fine.watch();
    let child = run(&forbidden, listing());
    let parent = run(&fine, listing());
    forbidden.request(8).await;
    let start = tokio::time::Instant::now();
    let mut seen = parent.informer.subscribe();
    wire.unbounded_send(added("a", 11)).unwrap();
    assert_eq!(take(&mut seen, 2).await, ["synced", "+a@11"]);
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!child.informer.has_synced());
    let State::Degraded {
        reason, message, ..
    } = child.informer.state()
    else {
        panic!("{}", child.informer.state());
    };
    assert_eq!(reason, Reason::Forbidden);
    assert!(
        message.starts_with("list failed: the server answered 403"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_reason_has_its_name_and_keeps_its_beginning() {
    for (code, text, expected) in [
        (401, "Unauthorized", Reason::Unauthorized),
        (403, "Forbidden", Reason::Forbidden),
        (404, "NotFound", Reason::NotServed),
        (400, "BadRequest", Reason::Rejected),
        (429, "TooManyRequests", Reason::Throttled),
        (503, "ServiceUnavailable", Reason::Server),
    ] {
        let fake = Fake::new();
        fake.list_refused(code, text);
        fake.list_refused(code, text);
        let running = run(&fake, listing());
        let start = fake.request(1).await.at;
        fake.request(3).await;
        let State::Degraded { reason, since, .. } = running.informer.state() else {
            panic!("{}", running.informer.state());
        };
        assert_eq!(reason, expected);
        assert_eq!(since, start.into_std());
    }
}
