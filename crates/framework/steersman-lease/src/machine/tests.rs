//! Tests the requests, losses and releases of one candidate.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::{CandidateStatus as Status, ElectionStep as Step, *};
use crate::options::LeaderElection;

mod outages;
mod unseen_holders;

const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn candidate(identity: &str, seed: u64, now: Instant) -> ElectionMachine {
    let options = LeaderElection::new("demo").identity(identity).seed(seed);
    ElectionMachine::new(&options.validate(Some("default")).unwrap(), now)
}

/// A candidate named `me`, with its wall clock.
struct World {
    machine: ElectionMachine,
    wall: Timestamp,
}

impl World {
    fn new(now: Instant) -> Self {
        Self {
            machine: candidate("me", 7, now),
            wall: Timestamp::UNIX_EPOCH,
        }
    }

    fn step(&mut self, now: Instant) -> Step {
        self.machine.next_step(now, self.wall)
    }

    /// Expects a request at `now`, and gives the reply at once.
    fn exchange(&mut self, now: Instant, reply: Reply) -> LeaseRequest {
        self.exchange_late(now, now, reply)
    }

    fn exchange_late(&mut self, now: Instant, replied: Instant, reply: Reply) -> LeaseRequest {
        match self.step(now) {
            Step::Send(request, _) => {
                assert_eq!(self.step(now), Step::AwaitReply);
                self.machine.on_reply(reply, replied);
                request
            }
            other => panic!("{other:?} instead of a request"),
        }
    }

    /// Expects a write at `now`, and executes it.
    fn write(&mut self, now: Instant) -> LeaseRecord {
        match self.step(now) {
            Step::Send(LeaseRequest::Create(lease) | LeaseRequest::Replace(lease), _) => {
                let record = LeaseRecord::of(&lease, 15);
                self.machine.on_reply(Reply::Lease(lease), now);
                record
            }
            other => panic!("{other:?} instead of a write"),
        }
    }

    /// Makes a leader: at `now`, the candidate takes a Lease that another holder has released.
    fn leading(now: Instant) -> Self {
        let mut world = Self::new(now);
        world.exchange(now, found("", 1, 4));
        let taken = world.write(now);
        assert_eq!((taken.holder.as_str(), taken.transitions), ("me", 5));
        assert!(matches!(world.machine.standing(now), Status::Leader(_)));
        world
    }

    fn waits_until(&mut self, now: Instant) -> Instant {
        match self.step(now) {
            Step::Wait(Some(until)) => until,
            other => panic!("{other:?} instead of a wait"),
        }
    }

    fn loss(&self, now: Instant) -> Option<LossReason> {
        match self.machine.standing(now) {
            Status::Lost(reason) => reason,
            _ => None,
        }
    }
}

fn lease_of(holder: &str, seconds: i32, transitions: i32) -> Lease {
    let record = LeaseRecord {
        holder: holder.to_owned(),
        seconds,
        transitions,
        ..LeaseRecord::default()
    };
    let mut lease = empty_lease(&ObjectKey::namespaced("default", "demo"));
    record.write(&mut lease);
    lease
}

fn found(holder: &str, seconds: i32, transitions: i32) -> Reply {
    Reply::Lease(Box::new(lease_of(holder, seconds, transitions)))
}

fn failed() -> Reply {
    Reply::Failed("refused".to_owned())
}

fn outdated() -> Reply {
    Reply::Outdated("409".to_owned())
}

/// LEASE-3: a deleted or overwritten Lease is not free at once.
#[test]
fn the_creator_of_a_lease_waits_before_it_works() {
    let now = start();
    let mut world = World::new(now);
    assert_eq!(world.exchange(now, Reply::Absent), LeaseRequest::Read);
    let created = world.write(now);
    assert_eq!((created.holder.as_str(), created.seconds), ("me", 15));
    assert_eq!(world.machine.standing(now), Status::Standby);
    assert_eq!(world.machine.works_from(now), Some(now + RETRY * 2));
    world.write(now + RETRY);
    let works = now + RETRY * 2;
    assert!(matches!(world.machine.standing(works), Status::Leader(_)));
}

/// LEASE-3: no work has begun, so the candidate stays a standby.
#[test]
fn a_creator_that_finds_another_holder_goes_on_as_a_standby() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, Reply::Absent);
    world.write(now);
    world.exchange(now + RETRY, outdated());
    world.exchange(now + RETRY, found("other", 15, 0));
    assert_eq!(world.machine.standing(now + RETRY), Status::Standby);
    world.waits_until(now + RETRY);
}

/// LEASE-2: the expiry is judged by the own clock from the moment of the last seen change.
#[test]
fn a_standby_takes_the_lease_when_it_saw_no_change_for_the_duration() {
    let now = start();
    let mut world = World::new(now);
    let mut at = now;
    while at < now + LEASE {
        // The times in the Lease are of the year 1970.
        world.exchange(at, found("other", 15, 3));
        let until = world.waits_until(at);
        assert!(until <= at + seconds(4.4) && (until >= at + RETRY || until == now + LEASE));
        at = until;
    }
    // The standby reads the Lease at the expiry, without a random pause.
    assert_eq!(at, now + LEASE);
    world.exchange(at, found("other", 15, 3));
    assert_eq!(world.write(at).transitions, 4);
    assert!(matches!(world.machine.standing(at), Status::Leader(_)));
}

/// LEASE-2: the expiry is judged by the own clock from the moment of the last seen change.
#[test]
fn a_renewal_that_is_seen_late_extends_the_lease_from_then_on() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("other", 15, 3));
    let expiry = now + LEASE;
    let mut renewed = lease_of("other", 15, 3);
    renewed.spec.get_or_insert_default().renew_time = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::UNIX_EPOCH),
    );
    world.waits_until(now);
    world.exchange(expiry, Reply::Lease(Box::new(renewed)));
    world.waits_until(expiry);
    assert!(
        matches!(world.machine.candidacy.next_claim(expiry), Claim::HeldUntil(Some(until)) if until == expiry + LEASE)
    );
}

/// LEASE-3: a deleted or overwritten Lease is not free at once.
#[test]
fn a_lease_that_was_deleted_or_overwritten_is_not_free_before_its_holder_stopped() {
    let cleared = || found("", 15, 3);
    let thief_released = || found("", 1, 4);
    for displaced in [|| Reply::Absent, cleared, thief_released] {
        let now = start();
        let mut world = World::new(now);
        world.exchange(now, found("other", 15, 3));
        let noticed = world.waits_until(now);
        world.exchange(noticed, displaced());
        let free = noticed + LEASE;
        assert_eq!(
            world.machine.candidacy.next_claim(noticed),
            Claim::HeldUntil(Some(free))
        );
        world.waits_until(noticed);
        assert_eq!(world.exchange(free, displaced()), LeaseRequest::Read);
        world.write(free);
        assert!(matches!(world.machine.standing(free), Status::Leader(_)));
    }
}

#[test]
fn a_released_lease_is_free_at_once() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("other", 15, 3));
    let noticed = world.waits_until(now);
    world.exchange(noticed, found("", 1, 3));
    world.write(noticed);
    assert!(matches!(world.machine.standing(noticed), Status::Leader(_)));
}

/// LEASE-1: a leader stops leading before its lease can expire for another candidate.
#[test]
fn a_leader_loses_at_the_renew_deadline_after_it_sent_its_last_renewal() {
    let now = start();
    let mut world = World::leading(now);
    let renewed = now + RETRY;
    assert_eq!(world.waits_until(now), renewed);
    // The response takes a second, which does not extend the term.
    let renewal = lease_of("me", 15, 5);
    world.exchange_late(
        renewed,
        renewed + seconds(1.0),
        Reply::Lease(Box::new(renewal)),
    );
    let lost = renewed + DEADLINE;
    assert_eq!(world.machine.standing(renewed), Status::Leader(lost));
    // The deadline ends a request in flight.
    let at = lost - seconds(1.0);
    match world.step(at) {
        Step::Send(_, deadline) => assert_eq!(deadline, lost),
        other => panic!("{other:?}"),
    }
    world.machine.on_reply(failed(), lost);
    assert!(matches!(
        world.loss(lost),
        Some(LossReason::RenewDeadline { .. })
    ));
}

/// LEASE-5: a failed renewal or release is repeated.
#[test]
fn a_failed_fast_renewal_is_followed_by_a_read_at_once() {
    for failure in [failed, outdated] {
        let now = start();
        let mut world = World::leading(now);
        let at = now + RETRY;
        assert!(matches!(
            world.exchange(at, failure()),
            LeaseRequest::Replace(_)
        ));
        assert_eq!(world.exchange(at, found("me", 15, 5)), LeaseRequest::Read);
        world.write(at);
        assert_eq!(world.machine.slow_paths, 1);
        assert_eq!(world.machine.standing(at), Status::Leader(at + DEADLINE));
    }
}

/// LEASE-5: a server that answers each request with an error at once is asked once per retry period.
#[test]
fn an_attempt_that_failed_is_repeated_after_a_retry_period() {
    let now = start();
    let mut world = World::leading(now);
    let at = now + RETRY;
    world.exchange(at, failed());
    world.exchange(at, found("me", 15, 5));
    assert!(matches!(
        world.exchange(at, failed()),
        LeaseRequest::Replace(_)
    ));
    assert_eq!(world.waits_until(at), at + RETRY);
    assert_eq!(world.exchange(at + RETRY, failed()), LeaseRequest::Read);
    assert_eq!(world.waits_until(at + RETRY), at + RETRY * 2);
}

#[test]
fn a_leader_recreates_a_deleted_lease() {
    let now = start();
    let mut world = World::leading(now);
    let at = now + RETRY;
    world.exchange(at, outdated());
    world.exchange(at, Reply::Absent);
    assert_eq!(world.write(at).holder, "me");
    assert_eq!(world.machine.standing(at), Status::Leader(at + DEADLINE));
}

/// LEASE-4: work that goes on after a loss aborts the process.
#[test]
fn a_leader_loses_a_taken_lease_at_once_and_aborts_half_way_to_the_expiry() {
    for aborts in [true, false] {
        let now = start();
        let mut world = World::leading(now);
        world.machine.policy.aborts = aborts;
        let at = now + RETRY;
        world.exchange(at, outdated());
        world.exchange(at, found("thief", 15, 6));
        let holder = "thief".to_owned();
        assert_eq!(world.loss(at), Some(LossReason::Taken { holder }));
        let abort_at = at + seconds(2.5);
        if aborts {
            assert_eq!(world.step(at), Step::Wait(Some(abort_at)));
            assert_eq!(world.step(abort_at), Step::Abort);
        }
        // The abort is requested once only, in case that a test's hook returns.
        assert_eq!(world.step(abort_at), Step::Wait(None));
        // After the end of the work, there is nothing to release, because another candidate has the Lease.
        world.machine.on_command(Command::Release, abort_at);
        assert_eq!(world.step(abort_at), Step::End(Ending::NotHeld));
    }
}

/// LEASE-4: work that goes on after a loss aborts the process.
#[test]
fn a_loss_that_is_noticed_late_aborts_in_time_for_the_expiry() {
    let now = start();
    let mut world = World::leading(now);
    let late = now + seconds(12.4);
    assert_eq!(world.step(late), Step::Wait(Some(now + seconds(12.5))));
}

/// LEASE-5: a failed renewal or release is repeated.
#[test]
fn a_release_is_repeated_after_a_conflict_and_until_the_expiry() {
    let now = start();
    let mut world = World::leading(now);
    world.machine.on_command(Command::Release, now);
    assert_eq!(world.machine.standing(now), Status::Standby);
    assert!(matches!(
        world.exchange(now, outdated()),
        LeaseRequest::Replace(_)
    ));
    assert_eq!(world.exchange(now, found("me", 15, 5)), LeaseRequest::Read);
    let released = world.write(now);
    assert_eq!(
        (
            released.holder.as_str(),
            released.seconds,
            released.transitions
        ),
        ("", 1, 5)
    );
    assert_eq!(world.step(now), Step::End(Ending::Released));

    let mut world = World::leading(now);
    world.machine.on_command(Command::Release, now);
    let mut at = now;
    while at < now + DEADLINE {
        world.exchange(at, failed());
        at = world.waits_until(at);
    }
    assert_eq!(at, now + DEADLINE);
    assert_eq!(world.step(at), Step::End(Ending::Kept));
}

/// LEASE-5: after a loss, a Lease that still names this candidate is released, which shortens the failover.
#[test]
fn a_lost_lease_is_released_if_it_is_still_ours() {
    let now = start();
    let mut world = World::leading(now);
    let lost = now + DEADLINE;
    world.step(lost);
    assert!(world.loss(lost).is_some());
    world.machine.on_command(Command::Release, lost);
    world.write(lost);
    assert_eq!(world.step(lost), Step::End(Ending::Released));

    // After the expiry, nothing is released, because another candidate may have the Lease.
    let mut world = World::leading(now);
    world.machine.policy.aborts = false;
    let expired = now + LEASE;
    world.step(expired);
    world.machine.on_command(Command::Release, expired);
    assert_eq!(world.step(expired), Step::End(Ending::Kept));
}

/// LEASE-7: a candidate that stops never leads.
#[test]
fn a_standby_that_stops_while_it_takes_the_lease_releases_it_and_never_leads() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("", 1, 3));
    assert!(matches!(
        world.step(now),
        Step::Send(LeaseRequest::Replace(_), _)
    ));
    world.machine.on_command(Command::Release, now);
    assert_eq!(world.step(now), Step::AwaitReply);
    world.machine.on_reply(found("me", 15, 4), now);
    assert_eq!(world.machine.standing(now), Status::Standby);
    assert_eq!(world.write(now).holder, "");
    assert_eq!(world.step(now), Step::End(Ending::Released));

    // The result of the write is unknown, so the candidate reads the Lease.
    let mut world = World::new(now);
    world.exchange(now, found("", 1, 3));
    world.exchange(now, failed());
    world.machine.on_command(Command::Release, now);
    assert_eq!(world.exchange(now, found("me", 15, 4)), LeaseRequest::Read);
    assert_eq!(world.write(now).holder, "");
}

#[test]
fn a_standby_that_holds_nothing_ends_at_once() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("other", 15, 3));
    world.machine.on_command(Command::Release, now);
    assert_eq!(world.step(now), Step::End(Ending::NotHeld));
}

/// LEASE-8: the Lease is released after all work has ended.
#[test]
fn work_that_is_left_behind_keeps_the_lease_and_aborts_the_process() {
    let now = start();
    let mut world = World::leading(now);
    let stopped = now + seconds(1.0);
    world.machine.on_command(Command::LeaveBehind, stopped);
    assert!(!matches!(
        world.machine.standing(stopped),
        Status::Leader(_)
    ));
    let abort_at = stopped + seconds(2.5);
    assert_eq!(world.step(stopped), Step::Wait(Some(abort_at)));
    assert_eq!(world.step(abort_at), Step::Abort);
}

#[test]
fn an_abandoned_lease_expires() {
    let now = start();
    let mut world = World::leading(now);
    world.machine.on_command(Command::Abandon, now);
    assert_eq!(world.step(now), Step::End(Ending::Kept));
}

#[test]
fn fields_and_labels_of_others_are_kept() {
    let now = start();
    let mut world = World::leading(now);
    world
        .machine
        .labels
        .insert("app".to_owned(), "web".to_owned());
    let mut theirs = lease_of("me", 15, 5);
    theirs.metadata.labels = Some(BTreeMap::from([("team".to_owned(), "a".to_owned())]));
    theirs.metadata.resource_version = Some("7".to_owned());
    let at = now + RETRY;
    world.exchange(at, Reply::Lease(Box::new(theirs)));
    let next = at + RETRY;
    let Step::Send(LeaseRequest::Replace(lease), _) = world.step(next) else {
        panic!("no renewal")
    };
    assert_eq!(lease.metadata.resource_version.as_deref(), Some("7"));
    let labels: Vec<String> = lease
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(labels, ["app=web", "team=a"]);
}
