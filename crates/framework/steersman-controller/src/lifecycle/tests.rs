//! Tests of the step that follows each event of a controller's life.

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
        life.handle_event(LifecycleEvent::Synced, now);
    }
    life
}

fn stream_panicked() -> LifecycleEvent {
    let message = "broken".to_owned();
    LifecycleEvent::TaskEnded(TaskEnd::Pump(PumpEnd::StreamPanicked { message }))
}

/// CTRL-1: workers start after the initial objects of all watched kinds are in the queue.
#[test]
fn workers_start_when_every_initial_set_is_in_the_queue() {
    let now = start();
    let mut life = syncing(None, now);
    assert_eq!(
        life.handle_event(LifecycleEvent::Synced, now),
        LifecycleStep::Wait
    );
    let started = LifecycleStep::StartWorkers { reminded: false };
    assert_eq!(life.handle_event(LifecycleEvent::Synced, now), started);
    // A controller that only has a stream of requests awaits no kind, so its workers start at the first `Synced`.
    let mut life = Lifecycle::new("web", [], None, GRACE, now);
    assert_eq!(life.handle_event(LifecycleEvent::Synced, now), started);
}

/// CTRL-7: a controller waits for kinds without a limit, and logs each minute what it waits for.
#[test]
fn each_minute_of_the_wait_is_logged_with_the_first_kind_that_is_missing() {
    let now = start();
    let [first, second] = kinds();
    // The end of the longest limit is beyond the range of the clock, so the controller waits as without a limit.
    for limit in [None, Some(Duration::MAX)] {
        let mut life = syncing(limit, now);
        assert_eq!(life.deadline(), Some(now + seconds(60)));
        assert_eq!(
            life.handle_event(LifecycleEvent::DeadlinePassed, now + seconds(59)),
            LifecycleStep::Wait
        );
        let reminded = life.handle_event(LifecycleEvent::DeadlinePassed, now + seconds(60));
        assert_eq!(reminded, LifecycleStep::Remind(first.clone()));
        life.handle_event(LifecycleEvent::Synced, now + seconds(61));
        // After a log line that came five seconds late, the next log line is due a minute later.
        let reminded = life.handle_event(LifecycleEvent::DeadlinePassed, now + seconds(125));
        assert_eq!(reminded, LifecycleStep::Remind(second.clone()));
        assert_eq!(life.deadline(), Some(now + seconds(185)));
        let started = life.handle_event(LifecycleEvent::Synced, now + seconds(130));
        assert_eq!(started, LifecycleStep::StartWorkers { reminded: true });
    }
}

#[test]
fn a_limit_ends_the_wait_with_the_first_kind_that_is_missing() {
    let now = start();
    let [_, second] = kinds();
    let mut life = syncing(Some(seconds(20)), now);
    life.handle_event(LifecycleEvent::Synced, now);
    assert_eq!(life.deadline(), Some(now + seconds(20)));
    let step = life.handle_event(LifecycleEvent::DeadlinePassed, now + seconds(20));
    assert_eq!(step, LifecycleStep::GiveUp(second, seconds(20)));
}

#[test]
fn a_controller_that_has_no_workers_yet_ends_at_once() {
    let now = start();
    let mut life = syncing(None, now);
    assert_eq!(
        life.handle_event(LifecycleEvent::Cancelled, now),
        LifecycleStep::End
    );
    assert!(life.finish().is_ok());
    let mut life = syncing(None, now);
    assert_eq!(
        life.handle_event(stream_panicked(), now),
        LifecycleStep::End
    );
    assert!(life.finish().unwrap_err().is_panic());
}

#[test]
fn the_end_of_a_stream_and_of_a_worker_are_no_failures() {
    let now = start();
    for mut life in [syncing(None, now), working(now)] {
        for end in [TaskEnd::Pump(PumpEnd::Finished), TaskEnd::Worker] {
            assert_eq!(
                life.handle_event(LifecycleEvent::TaskEnded(end), now),
                LifecycleStep::Wait
            );
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
        (LifecycleEvent::TaskEnded(panicked), true),
        (
            LifecycleEvent::TaskEnded(TaskEnd::Pump(PumpEnd::Stopped { kind })),
            false,
        ),
    ] {
        let now = start();
        let mut life = working(now);
        assert_eq!(life.handle_event(event, now), LifecycleStep::StopWorkers);
        // The failure of the task stays the result, although reconciles had to be dropped as well.
        life.handle_event(LifecycleEvent::WorkersAborted(vec!["a".to_owned()]), now);
        assert_eq!(
            life.handle_event(LifecycleEvent::WritesEnded, now),
            LifecycleStep::End
        );
        assert_eq!(life.finish().unwrap_err().is_panic(), is_panic);
    }
}

/// CTRL-9: a controller that stops waits for the writes of its own clients.
#[test]
fn writes_get_the_grace_that_the_workers_did_not_use() {
    let now = start();
    let mut life = working(now);
    assert_eq!(
        life.handle_event(LifecycleEvent::Cancelled, now),
        LifecycleStep::StopWorkers
    );
    assert_eq!(life.deadline(), Some(now + GRACE));
    let step = life.handle_event(LifecycleEvent::WorkersEnded, now + seconds(10));
    assert_eq!(step, LifecycleStep::AwaitWrites(seconds(20)));
    assert_eq!(
        life.handle_event(LifecycleEvent::WritesEnded, now),
        LifecycleStep::End
    );
    assert!(life.finish().is_ok());
}

#[test]
fn workers_that_outlast_the_grace_are_aborted_and_their_requests_named() {
    let now = start();
    let mut life = working(now);
    life.handle_event(LifecycleEvent::Cancelled, now);
    assert_eq!(
        life.handle_event(LifecycleEvent::DeadlinePassed, now + GRACE),
        LifecycleStep::AbortWorkers
    );
    assert_eq!(life.deadline(), None);
    let requests = vec!["default/a".to_owned()];
    let step = life.handle_event(
        LifecycleEvent::WorkersAborted(requests.clone()),
        now + GRACE,
    );
    assert_eq!(step, LifecycleStep::AwaitWrites(Duration::ZERO));
    life.handle_event(LifecycleEvent::WritesEnded, now + GRACE);
    let error = life.finish().unwrap_err();
    assert!(
        matches!(&error, ControllerError::StillRunning { requests: named, grace, .. } if *named == requests && *grace == GRACE),
        "{error}"
    );
}
