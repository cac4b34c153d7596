//! Driver: the cache beside kube-runtime's reflector, on the same objects of the same server.
//!
//! Each figure comes from a process that was started for it, has the system's allocator and does
//! nothing else; the server is a process of its own.

mod words;
mod peers;
mod queue;
mod storm;
mod latency;
pub(crate) mod role;

use crate::cache::words::{Peer, Queued, Synced};
use crate::process::{Actor, Outcome};
use crate::report::{Row, Spread};
use crate::server::role::Ready;

/// How large the measurements are.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Pods of the sync that is timed, and how often.
    objects: u64,
    runs: u32,
    /// Pods of the sync whose memory is weighed.
    many: u64,
    keys: u64,
}

const FULL: Size = Size {
    objects: 10_000,
    runs: 5,
    many: 50_000,
    keys: 1_000_000,
};

const QUICK: Size = Size {
    objects: 200,
    runs: 2,
    many: 500,
    keys: 10_000,
};

/// A server with so many Pods, which others ask.
struct Served {
    actor: Actor,
    kubeconfig: tempfile::NamedTempFile,
}

/// Runs all of them.
pub(crate) async fn measure(quick: bool) -> Outcome<Vec<Row>> {
    let size = if quick { QUICK } else { FULL };
    let mut rows = timed(size).await?;
    rows.extend(weighed(size).await?);
    rows.extend(queued(size).await?);
    Ok(rows)
}

impl Served {
    async fn start(objects: u64) -> Outcome<Self> {
        let mut actor = Actor::start(&["serve", "--objects", &objects.to_string()])?;
        let ready: Ready = actor.hear().await?;
        let kubeconfig = tempfile::NamedTempFile::new()?;
        std::fs::write(kubeconfig.path(), ready.place.kubeconfig)?;
        Ok(Self { actor, kubeconfig })
    }

    async fn sync(&self, peer: Peer, objects: u64) -> Outcome<Synced> {
        let path = self.kubeconfig.path();
        let path = path
            .to_str()
            .ok_or("the directory of temporary files has an odd name")?;
        let (peer, objects) = (peer.name(), objects.to_string());
        let arguments = [
            "sync",
            "--kubeconfig",
            path,
            "--objects",
            &objects,
            "--peer",
            peer,
        ];
        let mut client = Actor::client(&arguments)?;
        let synced = client.hear().await?;
        client.end().await?;
        Ok(synced)
    }
}

/// From a cold start to all Pods in the cache, taking turns.
async fn timed(size: Size) -> Outcome<Vec<Row>> {
    let served = Served::start(size.objects).await?;
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    for _ in 0..size.runs {
        own.push(served.sync(Peer::Steersman, size.objects).await?);
        peer.push(served.sync(Peer::KubeRuntime, size.objects).await?);
    }
    served.actor.end().await?;
    let each = own.iter().chain(&peer).map(|one| one.bytes_each).max();
    let compared = |what: &str, unit: &str, bound: f64, of: &dyn Fn(&Synced) -> f64| {
        let spread = |all: &[Synced]| Spread::of(all.iter().map(of).collect());
        let (own, peer) = (spread(&own), spread(&peer));
        let ratio = peer.median / own.median;
        Row {
            what: format!(
                "{what}, {} Pods of {:.1} kB, WatchList over HTTPS",
                size.objects,
                each.unwrap_or_default() as f64 / 1e3
            ),
            figure: format!(
                "{}; kube-runtime {}: {ratio:.1}x",
                own.show(unit),
                peer.show(unit)
            ),
            wanted: format!("{bound}x"),
            met: ratio >= bound,
        }
    };
    Ok(vec![
        compared("cold start to synced", "s", 3.0, &|one| one.seconds),
        compared("processor time of the client for that", "s", 3.0, &|one| {
            one.cpu
        }),
    ])
}

/// What many Pods weigh, and what it takes to read them.
async fn weighed(size: Size) -> Outcome<Vec<Row>> {
    let served = Served::start(size.many).await?;
    let own = served.sync(Peer::Steersman, size.many).await?;
    let peer = served.sync(Peer::KubeRuntime, size.many).await?;
    let bare = served.sync(Peer::KubeRuntimeBare, size.many).await?;
    served.actor.end().await?;
    let each = |bytes: u64| bytes as f64 / 1e3 / size.many as f64;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let bound = 1.3 * own.resident as f64 + 32e6;
    let named = format!("{} Pods", size.many);
    let read = |what: &str, figure: f64, unit: &str, wanted: f64, more: String| Row {
        what: what.to_owned(),
        figure: format!("{figure:.0} {unit}{more}"),
        wanted: format!("{wanted:.0} {unit}"),
        met: figure <= wanted,
    };
    Ok(vec![
        Row {
            what: format!("resident memory, {named}, each read once"),
            figure: format!(
                "{:.1} kB each; kube-runtime {:.1} kB, without managedFields {:.1} kB",
                each(own.read),
                each(peer.read),
                each(bare.read)
            ),
            wanted: "3 kB each".to_owned(),
            met: each(own.read) <= 3.0,
        },
        Row {
            what: format!("resident memory, {named}, before anybody read one"),
            figure: format!("{:.1} kB each", each(own.resident)),
            wanted: String::new(),
            met: true,
        },
        Row {
            what: format!("peak of the resident memory while {named} sync"),
            figure: format!(
                "{:.0} MB, {:.0} MB after it; kube-runtime {:.0} MB",
                megabytes(own.peak),
                megabytes(own.resident),
                megabytes(peer.peak)
            ),
            wanted: format!("{:.0} MB", bound / 1e6),
            met: own.peak as f64 <= bound,
        },
        read(
            "read by key through a Store, one key",
            own.hot_ns,
            "ns",
            60.0,
            format!("; kube-runtime {:.0} ns", peer.hot_ns),
        ),
        read(
            &format!("the same, a thousand keys of {named} in turn"),
            own.spread_ns,
            "ns",
            60.0,
            format!("; kube-runtime {:.0} ns", peer.spread_ns),
        ),
        read(
            "read by key through the Cache, a thousand keys in turn",
            own.cache_ns,
            "ns",
            250.0,
            String::new(),
        ),
        read(
            &format!("list by field index, 10 of {named}"),
            own.index_ns,
            "ns",
            1000.0,
            String::new(),
        ),
    ])
}

async fn queued(size: Size) -> Outcome<Vec<Row>> {
    let keys = size.keys.to_string();
    let mut client = Actor::client(&["queue", "--keys", &keys])?;
    let queued: Queued = client.hear().await?;
    client.end().await?;
    let row = |what: &str, figure: f64| Row {
        what: format!("work queue: add, next and done, {keys} keys `ns-i/name-i`, {what}"),
        figure: format!("{figure:.0} ns a key"),
        wanted: "200 ns".to_owned(),
        met: figure <= 200.0,
    };
    Ok(vec![
        row("all added first, one thread", queued.batch_ns),
        row("each taken as it is added", queued.single_ns),
        row(
            "added on one thread and taken on another",
            queued.concurrent_ns,
        ),
    ])
}
