//! Tables of the steps that follow the events of a run.

use super::*;

const GRACE: Duration = Duration::from_secs(30);
const LAST_MOMENT: Duration = Duration::from_secs(2);

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn failed(name: &str) -> Event {
    Event::Failed(Error::Failed {
        name: name.to_owned(),
        group: Group::Others,
        source: "broken".into(),
    })
}

/// Makes a run in which all groups are ready.
fn running(grace: Option<Duration>) -> Supervision {
    let mut run = electing(grace);
    run.on(Event::Elected, start());
    run.on(Event::Ready, start());
    run
}

/// Makes a run in which all groups of all replicas are ready.
fn electing(grace: Option<Duration>) -> Supervision {
    let mut run = Supervision::new(grace, LAST_MOMENT);
    for _ in 1..START.len() {
        run.on(Event::Ready, start());
    }
    assert!(run.is_electing());
    run
}

/// Makes a run in which the first group was asked to stop at `now`.
fn stopping(grace: Option<Duration>, now: Instant) -> Supervision {
    let mut run = running(grace);
    assert_eq!(run.on(Event::StopRequested, now), Step::BeginStop);
    assert_eq!(run.on(Event::StopBegun, now), Step::Stop(STOP[0]));
    run
}

/// MGR-1
#[test]
fn each_group_starts_when_the_one_before_it_is_ready() {
    let now = start();
    let mut run = Supervision::new(Some(GRACE), LAST_MOMENT);
    let mut steps = vec![Supervision::first_step()];
    // A runnable that is added during the start of the groups starts after the last group.
    assert_eq!(run.on(Event::Added, now), Step::Wait);
    steps.extend((1..START.len()).map(|_| run.on(Event::Ready, now)));
    steps.extend([Event::Elected, Event::Ready].map(|event| run.on(event, now)));
    let mut expected: Vec<Step> = START.map(Step::Start).to_vec();
    expected.insert(START.len() - 1, Step::Campaign);
    expected.push(Step::AllStarted);
    assert_eq!(steps, expected);
    assert_eq!(run.on(Event::Added, now), Step::StartAdded);
}

/// LEASE-7: only an added runnable of every replica starts on a standby.
#[test]
fn a_standby_starts_what_every_replica_runs() {
    let mut run = electing(None);
    assert_eq!(run.on(Event::Added, start()), Step::StartAdded);
    for group in START {
        assert_eq!(run.may_start(group), group != Group::LeaderElected);
    }
    run.on(Event::Elected, start());
    assert!(
        !run.may_start(Group::LeaderElected),
        "the group starts once"
    );
    run.on(Event::Ready, start());
    assert!(run.may_start(Group::LeaderElected));
}

/// LEASE-7
#[test]
fn a_standby_that_stops_and_wins_starts_nothing() {
    let mut run = electing(Some(GRACE));
    assert_eq!(run.on(Event::StopRequested, start()), Step::BeginStop);
    assert_eq!(run.on(Event::StopBegun, start()), Step::Stop(STOP[0]));
    assert_eq!(run.on(Event::Elected, start()), Step::Wait);
    assert_eq!(run.stopping(), Some(STOP[0]));
}

/// LEASE-1
#[test]
fn a_lost_lease_drops_everything_and_is_the_result() {
    let reason = LossReason::ElectorEnded;
    for mut run in [running(Some(GRACE)), stopping(Some(GRACE), start())] {
        let lost = Event::LeadershipLost(reason.clone());
        assert_eq!(run.on(lost, start()), Step::DropAll);
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
        let expected = next.map_or(Step::DropAll, |next| Step::Stop(*next));
        assert_eq!(run.on(Event::GroupStopped, now), expected);
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
            run.on(Event::Ready, now);
            run.on(Event::Elected, now);
        }
        assert_eq!(run.on(failed("first"), now), Step::BeginStop);
        assert_eq!(run.on(Event::StopBegun, now), Step::Stop(STOP[0]));
        assert_eq!(run.on(failed("second"), now), Step::Wait);
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
    assert_eq!(run.on(Event::DeadlinePassed, late), Step::DropLate);
    assert_eq!(run.on(Event::LateDropped, late), Step::Wait);
    assert_eq!(run.deadline(), Some(late + LAST_MOMENT));
    for group in &STOP[1..] {
        assert_eq!(run.on(Event::GroupStopped, late), Step::Stop(*group));
    }
    // The last group does not stop within its time limit, either.
    let end = late + LAST_MOMENT;
    assert_eq!(run.on(Event::DeadlinePassed, end), Step::DropAll);
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
            run.on(Event::DeadlinePassed, now + GRACE);
            run.on(Event::LateDropped, now + GRACE);
        }
        assert_eq!(run.on(Event::SecondRequest, now), Step::DropLate);
        assert_eq!(run.on(Event::LateDropped, now), Step::DropAll);
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
    assert_eq!(run.on(Event::Failed(failure), now), Step::Wait);
    let text = run.finish(Vec::new()).unwrap_err().to_string();
    assert!(text.contains("controller \"web\" (default/a)"), "{text}");
}
