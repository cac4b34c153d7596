//! Tables of the steps that follow the events of a controller's life.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

const GRACE: Duration = Duration::from_secs(30);

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn kinds() -> [Kind; 2] {
    [Kind::of::<Deployment>(), Kind::of::<ConfigMap>()]
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn syncing(limit: Option<Duration>, now: Instant) -> Lifecycle {
    Lifecycle::new("web", kinds(), limit, GRACE, now)
}

fn working(now: Instant) -> Lifecycle {
    let mut life = syncing(None, now);
    for _ in kinds() {
        life.on(Event::Synced, now);
    }
    life
}

fn stream_panicked() -> Event {
    let message = "broken".to_owned();
    Event::TaskEnded(TaskEnd::Pump(PumpEnd::StreamPanicked { message }))
}

/// CTRL-1
#[test]
fn workers_start_when_every_initial_set_is_in_the_queue() {
    let now = start();
    let mut life = syncing(None, now);
    assert_eq!(life.on(Event::Synced, now), Step::Wait);
    let started = Step::StartWorkers { reminded: false };
    assert_eq!(life.on(Event::Synced, now), started);
    // A controller that only has a stream of requests awaits no kind.
    let mut life = Lifecycle::new("web", [], None, GRACE, now);
    assert_eq!(life.on(Event::Synced, now), started);
}

/// CTRL-7
#[test]
fn each_minute_of_the_wait_is_logged_with_the_first_kind_that_is_missing() {
    let now = start();
    let [first, second] = kinds();
    // The longest limit reaches past the end of the clock, as no limit does.
    for limit in [None, Some(Duration::MAX)] {
        let mut life = syncing(limit, now);
        assert_eq!(life.deadline(), Some(now + seconds(60)));
        assert_eq!(
            life.on(Event::DeadlinePassed, now + seconds(59)),
            Step::Wait
        );
        let reminded = life.on(Event::DeadlinePassed, now + seconds(60));
        assert_eq!(reminded, Step::Remind(first.clone()));
        life.on(Event::Synced, now + seconds(61));
        // A log line that came late delays the next one.
        let reminded = life.on(Event::DeadlinePassed, now + seconds(125));
        assert_eq!(reminded, Step::Remind(second.clone()));
        assert_eq!(life.deadline(), Some(now + seconds(185)));
        let started = life.on(Event::Synced, now + seconds(130));
        assert_eq!(started, Step::StartWorkers { reminded: true });
    }
}

#[test]
fn a_limit_ends_the_wait_with_the_first_kind_that_is_missing() {
    let now = start();
    let [_, second] = kinds();
    let mut life = syncing(Some(seconds(20)), now);
    life.on(Event::Synced, now);
    assert_eq!(life.deadline(), Some(now + seconds(20)));
    let step = life.on(Event::DeadlinePassed, now + seconds(20));
    assert_eq!(step, Step::GiveUp(second, seconds(20)));
}

#[test]
fn a_controller_that_has_no_workers_yet_ends_at_once() {
    let now = start();
    let mut life = syncing(None, now);
    assert_eq!(life.on(Event::Cancelled, now), Step::End);
    assert!(life.finish().is_ok());
    let mut life = syncing(None, now);
    assert_eq!(life.on(stream_panicked(), now), Step::End);
    assert!(life.finish().unwrap_err().is_panic());
}

#[test]
fn the_end_of_a_stream_and_of_a_worker_are_no_failures() {
    let now = start();
    for mut life in [syncing(None, now), working(now)] {
        for end in [TaskEnd::Pump(PumpEnd::Finished), TaskEnd::Worker] {
            assert_eq!(life.on(Event::TaskEnded(end), now), Step::Wait);
        }
    }
}

#[test]
fn a_failing_task_stops_the_workers_and_is_the_result() {
    let [kind, _] = kinds();
    let message = "broken".to_owned();
    let panicked = TaskEnd::Panicked {
        task: "worker",
        message,
    };
    for (event, is_panic) in [
        (stream_panicked(), true),
        (Event::TaskEnded(panicked), true),
        (
            Event::TaskEnded(TaskEnd::Pump(PumpEnd::Stopped { kind })),
            false,
        ),
    ] {
        let now = start();
        let mut life = working(now);
        assert_eq!(life.on(event, now), Step::StopWorkers);
        // Reconciles that had to be dropped do not hide the failure.
        life.on(Event::WorkersAborted(vec!["a".to_owned()]), now);
        assert_eq!(life.on(Event::WritesEnded, now), Step::End);
        assert_eq!(life.finish().unwrap_err().is_panic(), is_panic);
    }
}

/// CTRL-9
#[test]
fn writes_get_the_grace_that_the_workers_did_not_use() {
    let now = start();
    let mut life = working(now);
    assert_eq!(life.on(Event::Cancelled, now), Step::StopWorkers);
    assert_eq!(life.deadline(), Some(now + GRACE));
    let step = life.on(Event::WorkersEnded, now + seconds(10));
    assert_eq!(step, Step::AwaitWrites(seconds(20)));
    assert_eq!(life.on(Event::WritesEnded, now), Step::End);
    assert!(life.finish().is_ok());
}

#[test]
fn workers_that_outlast_the_grace_are_aborted_and_their_requests_named() {
    let now = start();
    let mut life = working(now);
    life.on(Event::Cancelled, now);
    assert_eq!(
        life.on(Event::DeadlinePassed, now + GRACE),
        Step::AbortWorkers
    );
    assert_eq!(life.deadline(), None);
    let requests = vec!["default/a".to_owned()];
    let step = life.on(Event::WorkersAborted(requests.clone()), now + GRACE);
    assert_eq!(step, Step::AwaitWrites(Duration::ZERO));
    life.on(Event::WritesEnded, now + GRACE);
    let error = life.finish().unwrap_err();
    assert!(
        matches!(&error, ControllerError::StillRunning { requests: named, grace, .. } if *named == requests && *grace == GRACE),
        "{error}"
    );
}
