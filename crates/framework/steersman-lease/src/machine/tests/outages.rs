//! Simulates a leader and a standby during an outage of the server, and checks when each leads.

use super::*;

/// The step of the simulated time.
const TICK: Duration = Duration::from_millis(20);

/// A server with a Lease, the leader, and the standby.
struct Cluster {
    start: Instant,
    stored: Option<Lease>,
    version: u64,
    leader: ElectionMachine,
    standby: ElectionMachine,
}

impl Cluster {
    /// Runs one candidate at `now`. `is_away` is whether this candidate cannot reach the server.
    fn turn(&mut self, of_leader: bool, now: Instant, is_away: bool) {
        let wall = Timestamp::UNIX_EPOCH + (now - self.start);
        loop {
            let machine = match of_leader {
                true => &mut self.leader,
                false => &mut self.standby,
            };
            let ElectionStep::Send(request, _) = machine.next_step(now, wall) else {
                return;
            };
            let reply = match request {
                _ if is_away => failed(),
                LeaseRequest::Read => match &self.stored {
                    Some(lease) => Reply::Lease(Box::new(lease.clone())),
                    None => Reply::Absent,
                },
                LeaseRequest::Create(lease) | LeaseRequest::Replace(lease) => {
                    let present = self.stored.as_ref();
                    let present = present.map(|lease| &lease.metadata.resource_version);
                    if present.is_some_and(|version| *version != lease.metadata.resource_version) {
                        outdated()
                    } else {
                        self.version += 1;
                        let mut lease = lease;
                        lease.metadata.resource_version = Some(self.version.to_string());
                        self.stored = Some((*lease).clone());
                        Reply::Lease(lease)
                    }
                }
            };
            machine.on_reply(reply, now);
        }
    }

    /// Makes a cluster in which the first candidate leads, and the second has been a standby for a minute.
    fn led(seed: u64) -> (Self, Instant) {
        let start = start();
        let mut cluster = Self {
            start,
            stored: None,
            version: 0,
            leader: candidate("leader", seed, start),
            standby: candidate("standby", seed + 1000, start + TICK),
        };
        let mut now = start;
        while now < start + seconds(60.0) {
            cluster.turn(true, now, false);
            cluster.turn(false, now, false);
            now += TICK;
        }
        assert!(matches!(
            cluster.leader.standing(now),
            CandidateStatus::Leader(_)
        ));
        (cluster, now)
    }
}

/// LEASE-9: at any start of the outage, whether the standby has seen the last renewal or not.
#[test]
fn a_standby_leads_a_retry_period_after_an_outage_that_outlives_the_lease() {
    for seed in 0..60 {
        let (mut cluster, begin) = Cluster::led(seed);
        let end = begin + seconds(20.0);
        // The leader loses the lease during the outage.
        let last_sent = cluster.leader.changed().unwrap();
        let mut now = begin;
        let leads_at = loop {
            cluster.turn(true, now, now < end);
            cluster.turn(false, now, now < end);
            if matches!(cluster.standby.standing(now), CandidateStatus::Leader(_)) {
                break now;
            }
            now += TICK;
            assert!(now < begin + seconds(60.0), "seed {seed}");
        };
        // LEASE-2: the standby does not lead before the lease has expired.
        assert!(leads_at >= last_sent + LEASE, "seed {seed}");
        let after = leads_at - end;
        assert!(
            after <= RETRY + TICK,
            "seed {seed}: {after:?} after the outage"
        );
    }
}

/// LEASE-2: a standby that alone was cut off does not take the Lease from a leader that has just renewed.
#[test]
fn a_standby_that_was_cut_off_alone_does_not_take_the_lease() {
    for seed in 0..60 {
        let (mut cluster, begin) = Cluster::led(seed);
        let mut now = begin;
        while now < begin + seconds(80.0) {
            cluster.turn(true, now, false);
            cluster.turn(false, now, now < begin + seconds(40.0));
            let standing = cluster.standby.standing(now);
            assert_eq!(standing, CandidateStatus::Standby, "seed {seed}");
            now += TICK;
        }
        assert!(matches!(
            cluster.leader.standing(now),
            CandidateStatus::Leader(_)
        ));
    }
}

/// Returns the Lease of a renewal by `other`, at these seconds of its wall clock and of its monotonic clock.
fn renewal(wall: i64, clock: u64) -> Reply {
    let record = LeaseRecord {
        holder: "other".to_owned(),
        seconds: 15,
        acquired: Some(Timestamp::UNIX_EPOCH),
        renewed: Timestamp::from_second(wall).ok(),
        transitions: 1,
    };
    let mut lease = empty_lease(&ObjectKey::namespaced("default", "demo"));
    record.write(&mut lease);
    TermClock(Duration::from_secs(clock)).write(&record, &mut lease);
    Reply::Lease(Box::new(lease))
}

/// LEASE-2: the clock in the Lease counts only where it cannot be wrong.
#[test]
fn an_unseen_renewal_is_dated_by_the_longer_difference_and_not_at_all_by_another_holder() {
    let other_annotation = |reply: Reply| match reply {
        // Another program has renewed the Lease and kept the annotation.
        Reply::Lease(mut lease) => {
            let spec = lease.spec.as_mut().unwrap();
            let later = Timestamp::from_second(1020).unwrap();
            spec.renew_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(
                later,
            ));
            Reply::Lease(lease)
        }
        other => other,
    };
    let other_term = |reply: Reply| match reply {
        Reply::Lease(mut lease) => {
            lease.spec.as_mut().unwrap().acquire_time = None;
            Reply::Lease(lease)
        }
        other => other,
    };
    for (next, dated) in [
        (renewal(1002, 102), Some(2.0)),
        // The wall clock was set back, so the monotonic clock decides.
        (renewal(900, 102), Some(2.0)),
        // The machine was suspended, or its wall clock was set forward.
        (renewal(1012, 102), Some(12.0)),
        // The difference exceeds the time that has passed, so it must be wrong.
        (renewal(2000, 102), None),
        // Another process with the same identity has another monotonic clock.
        (renewal(1002, 3), None),
        (other_term(renewal(1002, 102)), None),
        (other_annotation(renewal(1000, 100)), None),
        (found("other", 15, 1), None),
    ] {
        let begin = start();
        let mut world = World::new(begin);
        world.exchange(begin, renewal(1000, 100));
        let mut now = world.waits_until(begin);
        while now < begin + seconds(20.0) {
            world.exchange(now, failed());
            now = world.waits_until(now);
        }
        let text = format!("{next:?}");
        world.exchange(now, next);
        let changed = world.machine.changed();
        let expected = dated.map_or(now, |after| begin + seconds(after));
        assert_eq!(changed, Some(expected), "{text}");
    }
}
