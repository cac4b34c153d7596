//! Delays after failures: they grow, are independent of other kinds, and are reported once.

use std::time::Duration;

use super::fake::*;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::error::Status;
use steersman_api::{Error, RequestInfo};
use steersman_informer::{InformerState, Reason};
use steersman_object::Kind;

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
    let InformerState::Degraded {
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
        let InformerState::Degraded { reason, since, .. } = running.informer.state() else {
            panic!("{}", running.informer.state());
        };
        assert_eq!(reason, expected);
        assert_eq!(since, start.into_std());
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_retry_after_is_bounded() {
    let fake = Fake::new();
    let status = Status {
        code: 429,
        reason: "TooManyRequests".into(),
        ..Status::default()
    };
    let asked = RequestInfo::of_collection("list", &Kind::of::<ConfigMap>(), None);
    fake.list_error(Error::from_status(asked, status, Some(Duration::MAX)));
    fake.page("10", []);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    running.informer.wait_for_sync().await.unwrap();
    let waited = fake.request(2).await.at - fake.request(1).await.at;
    assert_eq!(waited, Duration::from_secs(300));
}

// REFL-8
#[tokio::test(start_paused = true)]
async fn refl_8_a_watch_rejected_several_times_leads_to_a_list() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    for _ in 0..5 {
        fake.watch_refused(400, "BadRequest");
    }
    fake.page("20", [good("b", 15)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    let mut seen = running.informer.subscribe();
    let expected = ["*a@1", "synced", "-a@1?", "+b@15"];
    assert_eq!(take(&mut seen, 4).await, expected);
    assert_eq!(fake.request(7).await.from(), "");
    let (refused, list) = (fake.request(6).await, fake.request(7).await);
    assert!(list.at - refused.at >= Duration::from_secs(9));
}

// REFL-8
#[tokio::test(start_paused = true)]
async fn refl_8_a_watch_resumes_from_its_last_version_after_any_number_of_5xx() {
    for (code, reason) in [(500, "InternalError"), (503, "ServiceUnavailable")] {
        let fake = Fake::new();
        fake.page("10", [good("a", 1)]);
        for _ in 0..20 {
            fake.watch_refused(code, reason);
        }
        let wire = fake.watch();
        let running = run(&fake, listing());
        for number in 2..=22 {
            assert_eq!(fake.request(number).await.after(), "10");
        }
        wire.unbounded_send(added("b", 11)).unwrap();
        running.applied(11).await;
        assert!(running.informer.state().is_synced());
    }
}

// REFL-9
#[tokio::test(start_paused = true)]
async fn refl_9_a_410_after_an_outage_leads_to_a_list_at_once() {
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    for _ in 0..8 {
        fake.watch_refused(503, "ServiceUnavailable");
    }
    fake.watch_refused(410, "Expired");
    fake.page("20", [good("b", 15)]);
    let _wire = fake.watch();
    let _running = run(&fake, listing());
    let (last, expired, list) = (
        fake.request(9).await.at,
        fake.request(10).await.at,
        fake.request(11).await,
    );
    assert!(expired - last <= Duration::from_secs(3));
    assert_eq!((list.at - expired, list.from()), (Duration::ZERO, ""));
}

#[tokio::test(start_paused = true)]
async fn a_starting_server_is_reported_and_retried_soon() {
    for (code, reason, text) in [
        (429, "TooManyRequests", "storage is (re)initializing"),
        (
            503,
            "ServiceUnavailable",
            "the request has been made before all known HTTP paths have been installed, please try again",
        ),
    ] {
        let fake = Fake::new();
        for _ in 0..5 {
            let status = Status {
                code,
                reason: reason.into(),
                message: text.into(),
                ..Status::default()
            };
            let asked = RequestInfo::of_collection("list", &Kind::of::<ConfigMap>(), None);
            let after = Some(Duration::from_secs(5));
            fake.list_error(Error::from_status(asked, status, after));
        }
        fake.page("10", []);
        let _wire = fake.watch();
        let running = run(&fake, listing());
        fake.request(3).await;
        let InformerState::Degraded {
            reason, message, ..
        } = running.informer.state()
        else {
            panic!("{}", running.informer.state());
        };
        assert_eq!(reason, Reason::Starting);
        assert!(message.starts_with("the server is starting: "), "{message}");
        let times: Vec<_> = (1..=6).map(|number| fake.request(number)).collect();
        let times: Vec<_> = futures::future::join_all(times).await;
        for pair in times.windows(2) {
            assert!(pair[1].at - pair[0].at <= Duration::from_secs(3));
        }
    }
}
