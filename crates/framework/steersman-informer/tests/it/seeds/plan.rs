//! The events of one world, derived from its seed.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use steersman_apiserver::History;
use steersman_apiserver::faults::{Effect, FaultSpec, Restart, Verb};
use steersman_testenv::seeds::Disruption;

/// The number of names in each namespace.
const NAMES: u8 = 5;

/// An object: its kind, namespace and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which {
    pub(super) website: bool,
    pub(super) namespace: bool,
    pub(super) name: u8,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Creates or changes the object, and sets or removes the label of a selector.
    Put(Which, bool),
    Delete(Which),
    Recreate(Which),
    Disrupt(Disruption),
    Uninstall,
    Install,
    /// The next request with this verb is answered with this status and, unless 0, a `Retry-After`.
    Answer(Verb, u16, u32),
    Sleep(u64),
    Subscribe(u8),
    Leave(u8),
    /// One subscriber takes this number of deliveries.
    Take(u8, u8),
    /// Writes many similar objects of this shape.
    Crowd(Shape, u16),
    /// Deletes most of the crowd.
    Disperse,
}

/// The common fields of the objects of a crowd.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Old,
    New,
}

/// The set-up of one world.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) acts: Vec<Act>,
    pub(super) options: [Options; 3],
    pub(super) server_streams: bool,
    pub(super) retained: usize,
    pub(super) bookmarks: u64,
    pub(super) seed: u64,
}

/// The options of one informer.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) watch_list: bool,
    pub(super) mailbox: usize,
    pub(super) queue: usize,
    pub(super) page: u32,
    pub(super) resync: Option<u64>,
    pub(super) selects: bool,
    /// The budget in bytes: for no object, one or two, some, or all.
    pub(super) budget: Option<usize>,
    /// The number of batches decoded at once, and the bytes of each batch.
    pub(super) decode_batches: (usize, usize),
}

fn which() -> impl Strategy<Value = Which> {
    (any::<bool>(), any::<bool>(), 0..NAMES).prop_map(|(website, namespace, name)| Which {
        website,
        namespace,
        name,
    })
}

fn fault() -> impl Strategy<Value = FaultSpec> {
    let watch = |effect| FaultSpec::new(effect).verb(Verb::Watch);
    let list = |effect| FaultSpec::new(effect).verb(Verb::List);
    let fault = prop_oneof![
        (1..200_u64).prop_map(move |after_bytes| watch(Effect::CutBody { after_bytes })),
        (1..400_u64).prop_map(move |after_bytes| list(Effect::CutBody { after_bytes })),
        (1..40_u64).prop_map(move |bytes| watch(Effect::Chunks { bytes, millis: 1 })),
        (1..40_u64).prop_map(move |bytes| list(Effect::Chunks { bytes, millis: 1 })),
        Just(watch(Effect::DuplicateEvents)),
        Just(watch(Effect::DuplicateBookmarks)),
        (0..5_000_u64).prop_map(move |millis| watch(Effect::LateBookmarks { millis })),
        Just(watch(Effect::ExpireWatch)),
        Just(watch(Effect::Silence)),
        Just(list(Effect::Cut { commit: false })),
        (1..20_u64).prop_map(move |revisions| list(Effect::StaleList { revisions })),
        // A wait may expire the continue token of a page.
        (1..9_000_u64).prop_map(move |millis| {
            list(Effect::Delay {
                millis,
                jitter_millis: millis,
            })
        }),
    ];
    (fault, 1..4_u64).prop_map(|(fault, times)| fault.times(times))
}

fn restart() -> impl Strategy<Value = Restart> {
    let history = prop::sample::select(vec![History::Kept, History::Lost]);
    let phase = |most: u64| prop_oneof![Just(0), 0..most].prop_map(Duration::from_millis);
    (history, phase(20_000), phase(5_000), phase(5_000)).prop_map(
        |(history, away, installing, initializing)| {
            Restart::new(history)
                .away(away)
                .installing(installing)
                .initializing(initializing)
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    let verb = prop::sample::select(vec![Verb::Watch, Verb::Watch, Verb::List]);
    let code = prop::sample::select(vec![403_u16, 404, 410, 429, 500, 503, 504]);
    prop_oneof![
        16 => (which(), any::<bool>()).prop_map(|(which, label)| Act::Put(which, label)),
        6 => which().prop_map(Act::Delete),
        4 => which().prop_map(Act::Recreate),
        4 => Just(Act::Disrupt(Disruption::Cut)),
        3 => Just(Act::Disrupt(Disruption::Break)),
        2 => Just(Act::Disrupt(Disruption::Silence)),
        1 => Just(Act::Disrupt(Disruption::Resume)),
        2 => Just(Act::Disrupt(Disruption::Expire)),
        4 => Just(Act::Disrupt(Disruption::Compact)),
        2 => restart().prop_map(|restart| Act::Disrupt(Disruption::Restart(restart))),
        1 => (0..40_000_u64).prop_map(|millis| Act::Disrupt(Disruption::Die(millis))),
        1 => Just(Act::Uninstall),
        1 => Just(Act::Install),
        6 => fault().prop_map(|fault| Act::Disrupt(Disruption::Fault(Box::new(fault)))),
        4 => (verb, code, 0..3_u32).prop_map(|(verb, code, wait)| Act::Answer(verb, code, wait)),
        8 => (0..4_000_u64).prop_map(Act::Sleep),
        3 => (0..3_u8).prop_map(Act::Subscribe),
        1 => any::<u8>().prop_map(Act::Leave),
        5 => (any::<u8>(), 0..8_u8).prop_map(|(who, count)| Act::Take(who, count)),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let mailbox = prop::sample::select(vec![0_usize, 3, 1000]);
    let resync = prop::option::weighted(0.3, 500..20_000_u64);
    let budget = prop::sample::select(vec![Some(0), Some(4_000), Some(10_000), None]);
    (
        any::<bool>(),
        mailbox,
        1..4_usize,
        1..4_u32,
        resync,
        any::<bool>(),
        budget,
        (
            0..5_usize,
            prop::sample::select(vec![1_usize, 700, 64 << 10]),
        ),
    )
        .prop_map(
            |(watch_list, mailbox, queue, page, resync, selects, budget, decode_batches)| Options {
                watch_list,
                mailbox,
                queue,
                page,
                resync,
                selects,
                budget,
                decode_batches,
            },
        )
}

fn plan() -> impl Strategy<Value = Plan> {
    let acts = prop::collection::vec(act(), 1..60);
    let options = [options(), options(), options()];
    (
        acts,
        options,
        any::<bool>(),
        4..200_usize,
        1..60_u64,
        any::<u64>(),
    )
        .prop_map(
            |(acts, options, server_streams, retained, bookmarks, seed)| Plan {
                acts,
                options,
                server_streams,
                retained,
                bookmarks,
                seed,
            },
        )
}

impl Plan {
    /// Returns the same world with enough objects for a dictionary, with a change of their shape that causes another
    /// dictionary, and without objects in the end.
    pub(super) fn crowded(mut self) -> Self {
        for options in &mut self.options {
            options.page += 200;
        }
        let rest = Act::Sleep(100);
        let crowd = [
            (0, vec![Act::Crowd(Shape::Old, 1_000), rest.clone()]),
            (1, vec![Act::Crowd(Shape::New, 1_700), rest.clone()]),
            (2, vec![Act::Crowd(Shape::New, 300), rest.clone()]),
            (3, vec![Act::Disperse, rest]),
        ];
        let step = self.acts.len() / crowd.len();
        for (part, acts) in crowd.into_iter().rev() {
            let at = part * step;
            self.acts.splice(at..at, acts);
        }
        self
    }

    pub(super) fn of(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        plan().new_tree(&mut runner).unwrap().current()
    }
}
