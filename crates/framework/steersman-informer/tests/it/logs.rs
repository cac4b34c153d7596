//! Log lines of failures: one line with the kind, the failure, its reason and the advice.

use steersman_informer::{InformerState, Reason};
use steersman_testenv::log::capture;

use super::fake::*;

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_once_until_its_reason_changes() {
    let log = capture();
    let fake = Fake::new();
    for _ in 0..3 {
        fake.list_refused(401, "Unauthorized");
    }
    fake.list_refused(500, "InternalError");
    fake.page("10", []);
    let _wire = fake.watch();
    let advised = listing().failure_advice(|reason| {
        (reason == Reason::Unauthorized).then(|| "renew the credentials".to_owned())
    });
    let running = run(&fake, advised);
    let mut states = running.informer.state_changes();
    states.wait_for(InformerState::is_synced).await.unwrap();

    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("degraded")).collect();
    let [unauthorized, failing] = lines.as_slice() else {
        panic!("{text}");
    };
    for part in [
        "WARN",
        "degraded; trying again until it works kind=configmaps reason=unauthorized",
        "error=list failed: the server answered 401",
        "remedy=renew the credentials",
    ] {
        assert!(
            unauthorized.contains(part),
            "{part} is not in {unauthorized}"
        );
    }
    assert!(failing.contains("reason=server"), "{failing}");
    assert!(!failing.contains("remedy"), "{failing}");
    assert!(text.contains("recovered kind=configmaps"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_logged_when_it_begins_and_when_it_ends() {
    let log = capture();
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    let wire = fake.watch();
    let running = run(&fake, listing());
    let mut states = running.informer.state_changes();
    states.wait_for(InformerState::is_synced).await.unwrap();

    for _ in 0..3 {
        fake.watch_error(broken());
    }
    for (code, reason) in [
        (502, ""),
        (503, "ServiceUnavailable"),
        (500, "InternalError"),
    ] {
        fake.watch_refused(code, reason);
    }
    fake.watch_refused(410, "Expired");
    fake.page("20", [good("a", 1)]);
    // The storage of the kind is not initialized when the watch begins.
    fake.watch_refused(503, "ServiceUnavailable");
    let last = fake.watch();
    drop(wire);
    fake.request(12).await;
    last.unbounded_send(added("b", 21)).unwrap();
    running.applied(21).await;
    states.wait_for(InformerState::is_synced).await.unwrap();

    let text = log.text();
    let is_notable = |line: &&str| !line.contains("DEBUG") && !line.contains("synced kind");
    let lines: Vec<&str> = text.lines().filter(is_notable).collect();
    let [begins, ends] = lines.as_slice() else {
        panic!("{text}");
    };
    assert!(
        begins.contains("WARN") && begins.contains("degraded"),
        "{text}"
    );
    assert!(
        ends.contains("INFO") && ends.contains("recovered"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_410_logs_no_warning() {
    let log = capture();
    let fake = Fake::new();
    fake.page("10", [good("a", 1)]);
    fake.watch_refused(410, "Expired");
    fake.page("20", [good("a", 1)]);
    fake.watch_refused(410, "Expired");
    fake.page("30", [good("a", 1)]);
    let _wire = fake.watch();
    let running = run(&fake, listing());
    fake.request(6).await;
    running.applied(30).await;
    let text = log.text();
    assert!(
        !text.contains("WARN") && !text.contains("degraded"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_is_logged_once_without_advice() {
    let log = capture();
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let advised = listing().failure_advice(|_| Some("install its definition".to_owned()));
    let running = run(&fake, advised);
    let mut states = running.informer.state_changes();
    states.wait_for(InformerState::is_synced).await.unwrap();

    fake.watch_refused(404, "NotFound");
    for _ in 0..3 {
        fake.list_refused(404, "NotFound");
    }
    fake.page("20", []);
    let _wire = fake.watch();
    drop(wire);
    states.wait_for(|state| !state.is_synced()).await.unwrap();
    states.wait_for(InformerState::is_synced).await.unwrap();

    let text = log.text();
    let bad: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("WARN") || line.contains("ERROR"))
        .collect();
    let [line] = bad.as_slice() else {
        panic!("{text}");
    };
    assert!(line.contains("is no longer served"), "{line}");
    assert!(
        line.contains("kind=configmaps") && !line.contains("install"),
        "{line}"
    );
    assert!(text.contains("recovered kind=configmaps"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn each_malformed_version_of_an_object_is_logged_once() {
    let log = capture();
    let fake = Fake::new();
    let listed = || [odd("p", 1), bad("q", 2), good("fine", 3)];
    fake.page("10", listed());
    fake.watch_refused(410, "Expired");
    fake.page("20", listed());
    let wire = fake.watch();
    let running = run(&fake, listing());
    for item in [odd("p", 21), bad("q", 22), good("fine", 23)] {
        let event = steersman_api::WatchEvent::Modified(item);
        wire.unbounded_send(Ok(event)).unwrap();
    }
    running.applied(23).await;
    let text = log.text();
    assert_eq!(
        text.matches("does not decode; readers keep").count(),
        4,
        "{text}"
    );
    for version in [
        "p version=1 ", "q version=2 ", "p version=21", "q version=22",
    ] {
        assert!(text.contains(&format!("object=ns/{version}")), "{text}");
    }
}
