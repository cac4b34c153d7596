//! The plan of one simulation, derived from its seed.

use steersman_apiserver::faults::{Effect, FaultSpec, Verb};
use steersman_testenv::seeds::{Dice, Disruption};

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
    /// In seconds.
    pub(super) linger: Option<u64>,
    pub(super) resync_millis: Option<u64>,
    /// The number of events that may wait for a subscriber, and of changes that may wait for the
    /// store.
    pub(super) mailbox: usize,
    pub(super) queue: usize,
    pub(super) page: u32,
    /// The decoded budget in bytes: none, one or two objects, some, all.
    pub(super) budget: Option<usize>,
    pub(super) by_default: Scope,
    /// The scope of each kind with its own options, in the order of [`KINDS`].
    pub(super) declared: [Option<Scope>; 4],
    pub(super) acts: Vec<Act>,
    pub(super) last: Vec<Query>,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let dice = &mut Dice::new(seed ^ 0x5eed_0fca_c4e5);
        let declared = KINDS.map(|of| {
            // An undeclared read never caches all ConfigMaps.
            let percent = if of == Of::Maps { 100 } else { 40 };
            dice.maybe(percent, |dice| Scope::of(dice, of != Of::Roles))
        });
        let count = 1 + dice.index(60);
        Self {
            seed,
            server_streams: dice.chance(60),
            retained: 4 + dice.index(200),
            bookmarks: 5 + dice.below(120),
            watch_list: dice.chance(60),
            concurrent_syncs: 1 + dice.index(4),
            linger: dice.maybe(80, |dice| 1 + dice.below(60)),
            resync_millis: dice.maybe(20, |dice| 3_000 + dice.below(60_000)),
            mailbox: dice.pick(&[0, 2, 5, 1000]),
            queue: 1 + dice.index(4),
            page: dice.pick(&[1, 2, 3, 500]),
            budget: dice.pick(&[Some(0), Some(4_000), Some(20_000), None]),
            by_default: dice
                .maybe(50, |dice| Scope::of(dice, true))
                .unwrap_or_else(Scope::everything),
            declared,
            acts: (0..count).map(|_| act(dice)).collect(),
            last: queries(dice),
        }
    }
}

fn queries(dice: &mut Dice) -> Vec<Query> {
    (0..4).map(|_| Query::of(dice)).collect()
}

fn which(dice: &mut Dice) -> Which {
    Which {
        of: dice.pick(&KINDS),
        namespace: dice.pick(&["a", "b", "c"]),
        name: dice.below(4),
    }
}

fn act(dice: &mut Dice) -> Act {
    let of = dice.pick(&KINDS);
    let seen_as = dice.pick(&TYPES);
    match dice.below(100) {
        0..20 => Act::Put(which(dice), dice.chance(60)),
        20..22 => Act::Spoil(which(dice)),
        22..29 => Act::Delete(which(dice)),
        29..33 => Act::Recreate(which(dice)),
        33..37 => Act::Disrupt(Disruption::Cut),
        37..40 => Act::Disrupt(Disruption::Break),
        40..41 => Act::Disrupt(Disruption::Silence),
        41..42 => Act::Disrupt(Disruption::Die(dice.below(40_000))),
        42..43 => Act::Disrupt(Disruption::Resume),
        43..45 => Act::Disrupt(Disruption::Expire),
        45..48 => Act::Disrupt(Disruption::Compact),
        48..49 => Act::Disrupt(Disruption::restart(dice)),
        49..50 => Act::Uninstall,
        50..52 => Act::Install(dice.chance(60)),
        52..60 => Act::Disrupt(Disruption::Fault(Box::new(fault(dice)))),
        60..68 => Act::Sleep(if dice.chance(8) {
            dice.below(700_000)
        } else {
            dice.below(4_000)
        }),
        68..70 => Act::Declare(of, seen_as),
        70..72 => Act::Index(of),
        72..74 => Act::Remove(of),
        74..80 => Act::Subscribe(of, seen_as),
        80..82 => Act::Leave(of, dice.index(8)),
        82..88 => Act::Take(of, dice.index(8), dice.index(8)),
        88..94 => Act::Read(of, seen_as, Query::of(dice)),
        94..97 => Act::Get(of, seen_as, which(dice)),
        _ => Act::Rest(of, seen_as, queries(dice)),
    }
}

fn fault(dice: &mut Dice) -> FaultSpec {
    let millis = 1 + dice.below(9_000);
    let (watch, effect) = match dice.below(12) {
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
            dice.chance(60),
            Effect::Answer {
                code: dice.pick(&[403, 404, 410, 429, 500, 503, 504]),
                message: None,
                retry_after_seconds: u32::try_from(dice.below(3)).unwrap(),
                commit: false,
            },
        ),
    };
    let verb = if watch { Verb::Watch } else { Verb::List };
    FaultSpec::new(effect).verb(verb).times(1 + dice.below(3))
}
