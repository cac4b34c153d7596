//! The events of one world, made from its seed.

use serde_json::Value;
use steersman_apiserver::faults::{Effect, FaultSpec, Verb};
use steersman_object::ObjectKey;
use steersman_testenv::seeds::{Disruption, SeededRng};

use super::{LOST, THINGS};

/// The number of request keys that write and read.
pub(super) const WRITERS: usize = 3;

/// The selectors of the cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub(super) labels: bool,
    pub(super) fields: Option<&'static str>,
    pub(super) one_namespace: bool,
}

/// The object that an event is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which {
    namespace: &'static str,
    name: u64,
}

/// The fields of a written object that selectors compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) keep: bool,
    pub(super) red: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Create(Content),
    Patch(Content),
    /// A patch without changes.
    Nothing,
    Apply(Content),
    Update(Content),
    /// A delete of an object that was read live.
    Delete,
    DeleteKey,
    /// A delete of an object that was read from the cache.
    DeleteSeen,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Write(usize, Which, Op),
    /// A write of a client that is not under test.
    Other(Which, Op),
    Get(usize, Which),
    List(usize, Option<&'static str>),
    Declare,
    Disrupt(Disruption),
    /// Loses the answer to the next request with this verb, which the server executes if the flag is set.
    Lose(Verb, bool),
    Sleep(u64),
}

/// The setup of one world, and its events.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) server_streams: bool,
    pub(super) retained: usize,
    /// The interval of bookmarks, in seconds.
    pub(super) bookmarks: u64,
    pub(super) watch_list: bool,
    /// The linger of idle informers, in seconds.
    pub(super) linger: Option<u64>,
    pub(super) page: u32,
    /// The number of batches of a list that are decoded at once, and the bytes of each batch.
    pub(super) decode_batches: (usize, usize),
    pub(super) scope: Selection,
    pub(super) acts: Vec<Act>,
}

impl Selection {
    fn of(rng: &mut SeededRng) -> Self {
        Self {
            labels: rng.chance(40),
            fields: rng.maybe(40, |rng| {
                rng.pick(&["spec.colour=red", "spec.colour!=red", "metadata.name!=o0"])
            }),
            one_namespace: rng.chance(20),
        }
    }

    pub(super) fn covers(self, namespace: &str) -> bool {
        !self.one_namespace || namespace == "a"
    }

    /// Returns whether the cache holds an object of the server.
    pub(super) fn selects(self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let labels = !self.labels || metadata["labels"]["keep"] == "yes";
        let red = object["spec"]["colour"] == "red";
        let fields = match self.fields {
            Some("spec.colour=red") => red,
            Some("spec.colour!=red") => !red,
            Some(_) => metadata["name"] != "o0",
            None => true,
        };
        labels && fields && self.covers(metadata["namespace"].as_str().unwrap())
    }
}

impl Which {
    fn of(rng: &mut SeededRng) -> Self {
        Self {
            namespace: rng.pick(&["a", "a", "b"]),
            name: rng.below(3),
        }
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        let of = |namespace| (0..3).map(move |name| Self { namespace, name });
        ["a", "b"].into_iter().flat_map(of)
    }

    pub(super) fn key(self) -> ObjectKey {
        ObjectKey::namespaced(self.namespace, format!("o{}", self.name))
    }
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let rng = &mut SeededRng::new(seed ^ 0x5eed_0f0d_0e5e);
        // Lists that accept an old version get an old state from this server.
        let stale = rng.chance(30);
        let count = 10 + rng.index(60);
        let mut acts = Vec::new();
        if stale {
            let revisions = 3 + rng.below(10);
            let spec = FaultSpec::new(Effect::StaleList { revisions });
            acts.push(Act::Disrupt(Disruption::Fault(Box::new(
                spec.user_agent("informer"),
            ))));
        }
        while acts.len() < count {
            match rng.below(100) {
                0..4 => acts.extend(blind_delete(rng)),
                4..8 => acts.extend(first_list(rng)),
                _ => acts.push(act(rng)),
            }
        }
        Self {
            seed,
            server_streams: rng.chance(60),
            retained: 4 + rng.index(200),
            bookmarks: 5 + rng.below(60),
            watch_list: rng.chance(60),
            linger: rng.maybe(60, |rng| 1 + rng.below(20)),
            page: rng.pick(&[1, 2, 500]),
            decode_batches: (rng.index(5), rng.pick(&[1, 700, 64 << 10])),
            scope: Selection::of(rng),
            acts,
        }
    }
}

/// A delete of an object that another process has just made, while a slow watch leaves time for reads between the
/// events of the creation and of the delete.
fn blind_delete(rng: &mut SeededRng) -> Vec<Act> {
    let (writer, which) = (rng.index(WRITERS), Which::of(rng));
    let content = Content {
        keep: true,
        red: rng.chance(50),
    };
    let slow = Effect::Chunks {
        bytes: 20 + rng.below(100),
        millis: 20 + rng.below(200),
    };
    let slow = FaultSpec::new(slow).verb(Verb::Watch).resource(THINGS);
    let mut acts = vec![
        Act::Get(writer, which),
        Act::Write(writer, which, Op::DeleteKey),
        Act::Disrupt(Disruption::Fault(Box::new(slow.times(1)))),
        Act::Disrupt(Disruption::Cut),
        Act::Sleep(5_000),
        Act::Other(which, Op::Create(content)),
        Act::Write(writer, which, rng.pick(&[Op::DeleteKey, Op::Delete])),
    ];
    for _ in 0..4 {
        acts.push(Act::Sleep(rng.below(1_500)));
        acts.push(read(rng, writer, which));
    }
    acts
}

/// A write after informers may have ended for want of reads, and the read that starts them again.
fn first_list(rng: &mut SeededRng) -> [Act; 3] {
    let (writer, which) = (rng.index(WRITERS), Which::of(rng));
    [
        Act::Sleep(40_000),
        Act::Write(writer, which, op(rng)),
        read(rng, writer, which),
    ]
}

fn read(rng: &mut SeededRng, writer: usize, which: Which) -> Act {
    if rng.chance(50) {
        Act::Get(writer, which)
    } else {
        Act::List(writer, None)
    }
}

fn op(rng: &mut SeededRng) -> Op {
    let content = Content {
        keep: rng.chance(60),
        red: rng.chance(50),
    };
    match rng.below(100) {
        0..25 => Op::Create(content),
        25..50 => Op::Patch(content),
        50..57 => Op::Nothing,
        57..65 => Op::Apply(content),
        65..73 => Op::Update(content),
        73..82 => Op::Delete,
        82..92 => Op::DeleteKey,
        _ => Op::DeleteSeen,
    }
}

fn act(rng: &mut SeededRng) -> Act {
    let (writer, which) = (rng.index(WRITERS), Which::of(rng));
    match rng.below(100) {
        0..26 => Act::Write(writer, which, op(rng)),
        26..38 => Act::Other(which, op(rng)),
        38..54 => Act::Get(writer, which),
        54..64 => Act::List(writer, rng.pick(&[Some("a"), None])),
        64..66 => Act::Declare,
        66..69 => Act::Disrupt(Disruption::Cut),
        69..70 => Act::Disrupt(Disruption::Die(rng.below(40_000))),
        70..72 => Act::Disrupt(Disruption::Break),
        72..78 => Act::Disrupt(Disruption::Silence),
        78..80 => Act::Disrupt(Disruption::Resume),
        80..82 => Act::Disrupt(Disruption::Expire),
        82..84 => Act::Disrupt(Disruption::Compact),
        84..85 => Act::Disrupt(Disruption::restart(rng)),
        85..89 => Act::Lose(rng.pick(&LOST), rng.chance(70)),
        89..93 => Act::Disrupt(Disruption::Fault(Box::new(fault(rng)))),
        _ => Act::Sleep(if rng.chance(10) {
            rng.below(100_000)
        } else {
            rng.below(3_000)
        }),
    }
}

fn fault(rng: &mut SeededRng) -> FaultSpec {
    let millis = 1 + rng.below(6_000);
    let (verb, effect) = match rng.below(7) {
        0 => (
            Verb::Watch,
            Effect::Chunks {
                bytes: 20 + millis % 200,
                millis: 20 + millis % 300,
            },
        ),
        1 => (Verb::Watch, Effect::LateBookmarks { millis }),
        2 => (Verb::Watch, Effect::Silence),
        3 => (Verb::Watch, Effect::DuplicateEvents),
        4 => (
            Verb::List,
            Effect::Delay {
                millis,
                jitter_millis: millis,
            },
        ),
        5 => (Verb::List, Effect::Cut { commit: false }),
        _ => (
            rng.pick(&[Verb::List, Verb::Watch]),
            Effect::Answer {
                code: rng.pick(&[410, 429, 500, 503, 504]),
                message: None,
                retry_after_seconds: u32::try_from(rng.below(3)).unwrap(),
                commit: false,
            },
        ),
    };
    let spec = FaultSpec::new(effect).verb(verb).resource(THINGS);
    spec.times(1 + rng.below(3))
}
