//! Tables of the steps that follow the events of a run.

use super::*;

const GRACE: Duration = Duration::from_secs(30);
const LAST_MOMENT: Duration = Duration::from_secs(2);

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn failed(name: &str) -> SupervisionEvent {
    SupervisionEvent::Failed(Error::Failed {
        name: name.to_owned(),
        group: Group::Others,
        source: "broken".into(),
    })
}

/// Makes a run in which all groups are ready.
fn running(grace: Option<Duration>) -> Supervision {
    let mut run = electing(grace);
    run.handle_event(SupervisionEvent::Elected, start());
    run.handle_event(SupervisionEvent::Ready, start());
    run
}

/// Makes a run in which all groups of all replicas are ready.
fn electing(grace: Option<Duration>) -> Supervision {
    let mut run = Supervision::new(grace, LAST_MOMENT);
    for _ in 1..START.len() {
        run.handle_event(SupervisionEvent::Ready, start());
    }
    assert!(run.is_electing());
    run
}

/// Makes a run in which the first group was asked to stop at `now`.
fn stopping(grace: Option<Duration>, now: Instant) -> Supervision {
    let mut run = running(grace);
    assert_eq!(
        run.handle_event(SupervisionEvent::StopRequested, now),
        SupervisionStep::BeginStop
    );
    assert_eq!(
        run.handle_event(SupervisionEvent::StopBegun, now),
        SupervisionStep::Stop(STOP[0])
    );
    run
}

/// MGR-1
#[test]
fn each_group_starts_when_the_one_before_it_is_ready() {
    let now = start();
    let mut run = Supervision::new(Some(GRACE), LAST_MOMENT);
    let mut steps = vec![Supervision::first_step()];
    // A runnable that is added while groups start starts after the last group.
    assert_eq!(
        run.handle_event(SupervisionEvent::Added, now),
        SupervisionStep::Wait
    );
    steps.extend((1..START.len()).map(|_| run.handle_event(SupervisionEvent::Ready, now)));
    steps.extend(
        [SupervisionEvent::Elected, SupervisionEvent::Ready]
            .map(|event| run.handle_event(event, now)),
    );
    let mut expected: Vec<SupervisionStep> = START.map(SupervisionStep::Start).to_vec();
    expected.insert(START.len() - 1, SupervisionStep::Campaign);
    expected.push(SupervisionStep::AllStarted);
    assert_eq!(steps, expected);
    assert_eq!(
        run.handle_event(SupervisionEvent::Added, now),
        SupervisionStep::StartAdded
    );
}

/// LEASE-7: only an added runnable of every replica starts on a standby.
#[test]
fn a_standby_starts_what_every_replica_runs() {
    let mut run = electing(None);
    assert_eq!(
        run.handle_event(SupervisionEvent::Added, start()),
        SupervisionStep::StartAdded
    );
    for group in START {
        assert_eq!(run.may_start(group), group != Group::LeaderElected);
    }
    run.handle_event(SupervisionEvent::Elected, start());
    assert!(
        !run.may_start(Group::LeaderElected),
        "the group starts once"
    );
    run.handle_event(SupervisionEvent::Ready, start());
    assert!(run.may_start(Group::LeaderElected));
}

/// LEASE-7
#[test]
fn a_standby_that_stops_and_wins_starts_nothing() {
    let mut run = electing(Some(GRACE));
    assert_eq!(
        run.handle_event(SupervisionEvent::StopRequested, start()),
        SupervisionStep::BeginStop
    );
    assert_eq!(
        run.handle_event(SupervisionEvent::StopBegun, start()),
        SupervisionStep::Stop(STOP[0])
    );
    assert_eq!(
        run.handle_event(SupervisionEvent::Elected, start()),
        SupervisionStep::Wait
    );
    assert_eq!(run.stopping(), Some(STOP[0]));
}

/// LEASE-1
#[test]
fn a_lost_lease_drops_everything_and_is_the_result() {
    let reason = LossReason::ElectorEnded;
    for mut run in [running(Some(GRACE)), stopping(Some(GRACE), start())] {
        let lost = SupervisionEvent::LeadershipLost(reason.clone());
        assert_eq!(run.handle_event(lost, start()), SupervisionStep::DropAll);
        assert!(run.finish(Vec::new()).unwrap_err().is_leadership_lost());
    }
}

/// MGR-1
#[test]
fn each_group_is_asked_to_stop_when_the_one_before_it_has_stopped() {
    let now = start();
    let mut run = stopping(Some(GRACE), now);
    for group in STOP {
        assert_eq!(run.stopping(), Some(group));
        let next = STOP.iter().skip_while(|next| **next != group).nth(1);
        let expected = next.map_or(SupervisionStep::DropAll, |next| {
            SupervisionStep::Stop(*next)
        });
        assert_eq!(
            run.handle_event(SupervisionEvent::GroupStopped, now),
            expected
        );
    }
    assert!(run.finish(Vec::new()).is_ok());
}

/// MGR-2
#[test]
fn the_first_failure_stops_the_manager_and_is_its_result() {
    let now = start();
    for ready in 0..=START.len() {
        let mut run = Supervision::new(Some(GRACE), LAST_MOMENT);
        for _ in 0..ready {
            run.handle_event(SupervisionEvent::Ready, now);
            run.handle_event(SupervisionEvent::Elected, now);
        }
        assert_eq!(
            run.handle_event(failed("first"), now),
            SupervisionStep::BeginStop
        );
        assert_eq!(
            run.handle_event(SupervisionEvent::StopBegun, now),
            SupervisionStep::Stop(STOP[0])
        );
        assert_eq!(
            run.handle_event(failed("second"), now),
            SupervisionStep::Wait
        );
        assert_eq!(run.finish(Vec::new()).unwrap_err().failed(), Some("first"));
    }
}

/// MGR-3
#[test]
fn groups_that_wait_for_their_turn_are_asked_to_stop_after_the_grace() {
    let now = start();
    let mut run = stopping(Some(GRACE), now);
    assert_eq!(run.deadline(), Some(now + GRACE));
    let late = now + GRACE;
    assert_eq!(
        run.handle_event(SupervisionEvent::DeadlinePassed, late),
        SupervisionStep::DropLate
    );
    assert_eq!(
        run.handle_event(SupervisionEvent::LateDropped, late),
        SupervisionStep::Wait
    );
    assert_eq!(run.deadline(), Some(late + LAST_MOMENT));
    for group in &STOP[1..] {
        assert_eq!(
            run.handle_event(SupervisionEvent::GroupStopped, late),
            SupervisionStep::Stop(*group)
        );
    }
    // The last group exceeds its time limit, too.
    let end = late + LAST_MOMENT;
    assert_eq!(
        run.handle_event(SupervisionEvent::DeadlinePassed, end),
        SupervisionStep::DropAll
    );
    let result = run.finish(vec!["b".to_owned(), "a".to_owned()]);
    assert!(
        matches!(&result, Err(Error::StopTimeout { grace, running }) if *grace == GRACE && running == &["a", "b"]),
        "{result:?}"
    );
}

/// MGR-3
#[test]
fn a_second_request_drops_everything_at_any_moment_of_a_stop() {
    let now = start();
    for is_late in [false, true] {
        let mut run = stopping(Some(GRACE), now);
        if is_late {
            run.handle_event(SupervisionEvent::DeadlinePassed, now + GRACE);
            run.handle_event(SupervisionEvent::LateDropped, now + GRACE);
        }
        assert_eq!(
            run.handle_event(SupervisionEvent::SecondRequest, now),
            SupervisionStep::DropLate
        );
        assert_eq!(
            run.handle_event(SupervisionEvent::LateDropped, now),
            SupervisionStep::DropAll
        );
        let result = run.finish(vec!["slow".to_owned()]);
        assert!(
            matches!(&result, Err(Error::Aborted { running }) if running == &["slow"]),
            "{result:?}"
        );
    }
}

#[test]
fn a_stop_without_a_grace_period_has_no_deadline() {
    let now = start();
    for grace in [None, Some(Duration::MAX)] {
        assert_eq!(stopping(grace, now).deadline(), None);
    }
}

#[test]
fn requests_that_a_controller_dropped_are_named_in_the_result() {
    let now = start();
    let mut run = stopping(Some(GRACE), now);
    let source = ControllerError::StillRunning {
        controller: "web".to_owned(),
        requests: vec!["default/a".to_owned()],
        grace: GRACE,
    };
    let failure = Error::Failed {
        name: "controller \"web\"".to_owned(),
        group: Group::LeaderElected,
        source: source.into(),
    };
    assert_eq!(
        run.handle_event(SupervisionEvent::Failed(failure), now),
        SupervisionStep::Wait
    );
    let text = run.finish(Vec::new()).unwrap_err().to_string();
    assert!(text.contains("controller \"web\" (default/a)"), "{text}");
}
