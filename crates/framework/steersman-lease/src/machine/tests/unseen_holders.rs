//! Tests the waits for holders that the candidate has not seen, or with another lease duration.

use super::*;

/// LEASE-3: an unseen candidate may have taken the released Lease before it was deleted.
#[test]
fn the_creator_of_a_lease_that_was_released_when_it_was_last_read_waits_too() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("other", 15, 3));
    let released = world.waits_until(now);
    world.exchange(released, found("", 1, 3));
    // Another candidate takes the Lease first.
    world.exchange(released, outdated());
    let deleted = world.waits_until(released);
    world.exchange(deleted, Reply::Absent);
    world.write(deleted);
    assert_eq!(world.machine.standing(deleted), CandidateStatus::Standby);
    assert_eq!(world.machine.works_from(deleted), Some(deleted + RETRY * 2));
}

/// LEASE-3: an unseen candidate may have taken the released Lease before its holder field was cleared.
#[test]
fn a_holder_that_was_cleared_between_two_reads_is_waited_for() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("", 1, 3));
    world.exchange(now, outdated());
    let cleared = world.waits_until(now);
    world.exchange(cleared, found("", 15, 4));
    assert_eq!(
        world.machine.candidacy.next_claim(cleared),
        Claim::HeldUntil(Some(cleared + LEASE))
    );
}

/// LEASE-3: the wait counts from the first read that shows the created Lease.
#[test]
fn the_creator_of_a_lease_waits_although_the_reply_was_lost() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, Reply::Absent);
    assert!(matches!(
        world.exchange(now, failed()),
        LeaseRequest::Create(_)
    ));
    let seen = world.waits_until(now);
    world.exchange(seen, found("me", 15, 0));
    world.write(seen);
    assert_eq!(world.machine.standing(seen), CandidateStatus::Standby);
    assert_eq!(world.machine.works_from(seen), Some(seen + RETRY * 2));

    // The Lease names another candidate, so the create was not executed.
    let mut world = World::new(now);
    world.exchange(now, Reply::Absent);
    world.exchange(now, failed());
    let seen = world.waits_until(now);
    world.exchange(seen, found("other", 15, 0));
    let released = world.waits_until(seen);
    world.exchange(released, found("", 1, 0));
    world.write(released);
    assert!(matches!(
        world.machine.standing(released),
        CandidateStatus::Leader(_)
    ));
}

/// LEASE-2: the expiry is judged by the own clock from the moment of the last seen change.
#[test]
fn a_lease_without_a_duration_is_held_for_that_of_the_candidate() {
    let now = start();
    let mut world = World::new(now);
    let mut lease = lease_of("other", 15, 3);
    lease.spec.get_or_insert_default().lease_duration_seconds = None;
    world.exchange(now, Reply::Lease(Box::new(lease)));
    assert_eq!(
        world.machine.candidacy.next_claim(now),
        Claim::HeldUntil(Some(now + LEASE))
    );
}

/// LEASE-3: a holder works by the lease duration that it wrote itself.
#[test]
fn a_lease_duration_that_was_shortened_frees_no_lease_early() {
    let now = start();
    let mut world = World::new(now);
    world.exchange(now, found("other", 15, 3));
    let noticed = world.waits_until(now);
    world.exchange(noticed, found("other", 1, 3));
    assert_eq!(
        world.machine.candidacy.next_claim(noticed),
        Claim::HeldUntil(Some(noticed + LEASE))
    );
}
