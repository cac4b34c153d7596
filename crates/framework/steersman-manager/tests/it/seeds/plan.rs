//! The events of one world, made from its seed.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::faults::{Answer, Effect, FaultSpec};
use steersman_testenv::seeds::SeededRng;

pub(super) const REPLICAS: usize = 3;

#[derive(Clone, Debug)]
pub(super) enum Act {
    Sleep(u64),
    /// The requests of one replica, or of all replicas (`None`), fail in some way.
    Meet(Option<usize>, Fault),
    /// The process of a replica is killed.
    Crash(usize),
    /// A replica is asked to stop.
    Stop(usize),
    /// An administrator deletes the Lease.
    Delete,
    /// Another program writes the Lease without a version.
    Overwrite(Value),
}

/// A failure of requests.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) spec: Box<FaultSpec>,
    pub(super) lasts: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// The error of each replica's clock, in seconds.
    pub(super) skews: [i64; REPLICAS],
    /// The duration of a reconcile, which ignores its cancellation.
    pub(super) work: Duration,
    /// The pause between two reconciles.
    pub(super) pause: Duration,
    pub(super) acts: Vec<Act>,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ 0x1ea5_e000);
        let skew = |rng: &mut SeededRng| rng.pick(&[0, 0, 17, -17, 86_400, -86_400]);
        let skews = [skew(&mut rng), skew(&mut rng), skew(&mut rng)];
        let work = Duration::from_millis(rng.below(6_000));
        let pause = Duration::from_millis(200 + rng.below(1_800));
        let mut acts = vec![Act::Sleep(rng.below(20_000))];
        for _ in 0..4 + rng.below(8) {
            acts.push(act(&mut rng));
            acts.push(Act::Sleep(rng.below(12_000)));
        }
        Self {
            seed,
            skews,
            work,
            pause,
            acts,
        }
    }
}

fn act(rng: &mut SeededRng) -> Act {
    let slot = rng.index(REPLICAS);
    match rng.below(10) {
        0..=2 => Act::Meet(Some(slot), fault(rng)),
        3 => Act::Meet(None, fault(rng)),
        4 | 5 => Act::Crash(slot),
        6 => Act::Stop(slot),
        7 => Act::Delete,
        8 => Act::Overwrite(json!({"holderIdentity": "thief", "leaseTransitions": rng.below(5)})),
        // An administrator writes this to force a failover.
        _ => Act::Overwrite(json!({"holderIdentity": ""})),
    }
}

pub(crate) fn fault(rng: &mut SeededRng) -> Fault {
    let lasts = rng.pick(&[1_000, 5_000, 12_000, 20_000, 40_000]);
    let spec = match rng.below(6) {
        0..=2 => FaultSpec::new(Effect::Swallow),
        3 => FaultSpec::new(Effect::Delay {
            millis: rng.below(7_000),
            jitter_millis: 500,
        }),
        4 => FaultSpec::new(Effect::Cut {
            commit: rng.chance(50),
        }),
        _ if rng.chance(50) => FaultSpec::from(Answer::code(500).after_commit()),
        _ => FaultSpec::from(Answer::code(429)),
    };
    let spec = if rng.chance(40) {
        spec.probability(0.5)
    } else {
        spec
    };
    Fault {
        spec: Box::new(spec.for_millis(lasts)),
        lasts: Duration::from_millis(lasts),
    }
}
