//! The plan of one simulation, derived from its seed.

use steersman_apiserver::faults::{Effect, FaultSpec, Verb};
use steersman_testenv::seeds::{Disruption, SeededRng};

use super::query::Query;
use super::scope::Scope;

/// The kinds of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Maps,
    Websites,
    Accounts,
    Roles,
}

pub(super) const KINDS: [Of; 4] = [Of::Maps, Of::Websites, Of::Accounts, Of::Roles];

/// The type as which a reader or a subscriber reads objects.
#[derive(Clone, Copy, Debug)]
pub(super) enum As {
    Typed,
    Dynamic,
    Metadata,
}

pub(super) const TYPES: [As; 3] = [As::Typed, As::Dynamic, As::Metadata];

/// The number of an object within its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which {
    pub(super) of: Of,
    pub(super) namespace: &'static str,
    pub(super) name: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Creates or changes the object, and sets or removes the label that selectors require.
    Put(Which, bool),
    /// Changes the object so that its Rust type cannot decode it, if the server accepts that.
    Spoil(Which),
    Delete(Which),
    Recreate(Which),
    Disrupt(Disruption),
    Uninstall,
    /// Installs the definition; the flag tells whether its first version is served.
    Install(bool),
    Sleep(u64),
    Declare(Of, As),
    Index(Of),
    Remove(Of),
    Subscribe(Of, As),
    Leave(Of, usize),
    /// One subscriber takes this number of deliveries.
    Take(Of, usize, usize),
    Read(Of, As, Query),
    Get(Of, As, Which),
    /// Ends all faults and checks that all readers and subscribers agree with the server.
    Rest(Of, As, Vec<Query>),
}

/// The setup of one simulation and its actions.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) server_streams: bool,
    pub(super) retained: usize,
    pub(super) bookmarks: u64,
    pub(super) watch_list: bool,
    pub(super) concurrent_syncs: usize,
    /// The linger time, in seconds.
    pub(super) linger: Option<u64>,
    pub(super) resync_millis: Option<u64>,
    /// The number of events that may wait for a subscriber, and of changes that may wait for the store.
    pub(super) mailbox: usize,
    pub(super) queue: usize,
    pub(super) page: u32,
    /// The decoded budget in bytes: for no object, one or two, some, or all.
    pub(super) budget: Option<usize>,
    pub(super) by_default: Scope,
    /// The scope of each kind with its own options, in the order of [`KINDS`].
    pub(super) declared: [Option<Scope>; 4],
    pub(super) acts: Vec<Act>,
    pub(super) last: Vec<Query>,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let rng = &mut SeededRng::new(seed ^ 0x5eed_0fca_c4e5);
        let declared = KINDS.map(|of| {
            // An undeclared read does not cache all ConfigMaps, so these are always declared.
            let percent = if of == Of::Maps { 100 } else { 40 };
            rng.maybe(percent, |rng| Scope::of(rng, of != Of::Roles))
        });
        let count = 1 + rng.index(60);
        Self {
            seed,
            server_streams: rng.chance(60),
            retained: 4 + rng.index(200),
            bookmarks: 5 + rng.below(120),
            watch_list: rng.chance(60),
            concurrent_syncs: 1 + rng.index(4),
            linger: rng.maybe(80, |rng| 1 + rng.below(60)),
            resync_millis: rng.maybe(20, |rng| 3_000 + rng.below(60_000)),
            mailbox: rng.pick(&[0, 2, 5, 1000]),
            queue: 1 + rng.index(4),
            page: rng.pick(&[1, 2, 3, 500]),
            budget: rng.pick(&[Some(0), Some(4_000), Some(20_000), None]),
            by_default: rng
                .maybe(50, |rng| Scope::of(rng, true))
                .unwrap_or_else(Scope::everything),
            declared,
            acts: (0..count).map(|_| act(rng)).collect(),
            last: queries(rng),
        }
    }
}

fn queries(rng: &mut SeededRng) -> Vec<Query> {
    (0..4).map(|_| Query::of(rng)).collect()
}

fn which(rng: &mut SeededRng) -> Which {
    Which {
        of: rng.pick(&KINDS),
        namespace: rng.pick(&["a", "b", "c"]),
        name: rng.below(4),
    }
}

fn act(rng: &mut SeededRng) -> Act {
    let of = rng.pick(&KINDS);
    let seen_as = rng.pick(&TYPES);
    match rng.below(100) {
        0..20 => Act::Put(which(rng), rng.chance(60)),
        20..22 => Act::Spoil(which(rng)),
        22..29 => Act::Delete(which(rng)),
        29..33 => Act::Recreate(which(rng)),
        33..37 => Act::Disrupt(Disruption::Cut),
        37..40 => Act::Disrupt(Disruption::Break),
        40..41 => Act::Disrupt(Disruption::Silence),
        41..42 => Act::Disrupt(Disruption::Die(rng.below(40_000))),
        42..43 => Act::Disrupt(Disruption::Resume),
        43..45 => Act::Disrupt(Disruption::Expire),
        45..48 => Act::Disrupt(Disruption::Compact),
        48..49 => Act::Disrupt(Disruption::restart(rng)),
        49..50 => Act::Uninstall,
        50..52 => Act::Install(rng.chance(60)),
        52..60 => Act::Disrupt(Disruption::Fault(Box::new(fault(rng)))),
        60..68 => Act::Sleep(if rng.chance(8) {
            rng.below(700_000)
        } else {
            rng.below(4_000)
        }),
        68..70 => Act::Declare(of, seen_as),
        70..72 => Act::Index(of),
        72..74 => Act::Remove(of),
        74..80 => Act::Subscribe(of, seen_as),
        80..82 => Act::Leave(of, rng.index(8)),
        82..88 => Act::Take(of, rng.index(8), rng.index(8)),
        88..94 => Act::Read(of, seen_as, Query::of(rng)),
        94..97 => Act::Get(of, seen_as, which(rng)),
        _ => Act::Rest(of, seen_as, queries(rng)),
    }
}

fn fault(rng: &mut SeededRng) -> FaultSpec {
    let millis = 1 + rng.below(9_000);
    let (watch, effect) = match rng.below(12) {
        0 => (
            true,
            Effect::CutBody {
                after_bytes: millis % 200 + 1,
            },
        ),
        1 => (
            false,
            Effect::CutBody {
                after_bytes: millis % 400 + 1,
            },
        ),
        2 => (
            true,
            Effect::Chunks {
                bytes: millis % 40 + 1,
                millis: 1,
            },
        ),
        3 => (
            false,
            Effect::Chunks {
                bytes: millis % 40 + 1,
                millis: 1,
            },
        ),
        4 => (true, Effect::DuplicateEvents),
        5 => (true, Effect::DuplicateBookmarks),
        6 => (true, Effect::LateBookmarks { millis }),
        7 => (true, Effect::ExpireWatch),
        8 => (true, Effect::Silence),
        9 => (false, Effect::Cut { commit: false }),
        // The token of a page may expire during a wait.
        10 => (
            false,
            Effect::Delay {
                millis,
                jitter_millis: millis,
            },
        ),
        _ => (
            rng.chance(60),
            Effect::Answer {
                code: rng.pick(&[403, 404, 410, 429, 500, 503, 504]),
                message: None,
                retry_after_seconds: u32::try_from(rng.below(3)).unwrap(),
                commit: false,
            },
        ),
    };
    let verb = if watch { Verb::Watch } else { Verb::List };
    FaultSpec::new(effect).verb(verb).times(1 + rng.below(3))
}
