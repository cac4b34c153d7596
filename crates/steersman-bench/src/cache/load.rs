//! Driver: what a server is asked by a manager with many controllers, counted in its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_client::{Api, Client};
use kube_runtime::controller::Action as PeerAction;
use kube_runtime::{Controller, watcher};
use serde::{Deserialize, Serialize};
use steersman_api::Connection;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::Verb;
use steersman_cache::CacheOptions;
use steersman_controller::{Action, Context, Error, Reconciler, Request};
use steersman_manager::{Manager, Shutdown};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::words::Who;
use crate::process::{Actor, Outcome, progress, say};
use crate::report::{Figure, KUBE_RUNTIME, Spread};
use crate::samples::Sample;
use crate::server::fill::fill;

/// What the controllers watch: the first kind for itself, the others as owned.
const KINDS: [Sample; 3] = [Sample::ConfigMap, Sample::Secret, Sample::Pod];

/// The most log that is kept.
const LOG: usize = 100_000;

/// What a process is to count.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Asked {
    by: Who,
    controllers: u64,
    watch_list: bool,
    /// Of each kind.
    objects: u64,
}

/// What was asked of the server, for all kinds together.
#[derive(Debug, Serialize, Deserialize)]
struct Loaded {
    /// Every request, whatever it was for.
    requests: u64,
    /// Lists that began, their further pages not counted.
    lists: u64,
    /// All watches, those that begin with everything included.
    watches: u64,
}

/// Counts reconciles, and says when there were enough.
#[derive(Debug, Default)]
struct Count {
    reconciles: AtomicU64,
    moved: Notify,
}

#[derive(Debug)]
struct Counting(Arc<Count>);

/// The peer's error type; nothing fails.
#[derive(Debug)]
struct Never;

/// Runs all of them; small ones are as good as large ones.
pub(crate) async fn measure(quick: bool) -> Outcome<Vec<Figure>> {
    // Of 1,200 a list may have three pages of 500.
    let (numbers, objects): (&[u64], u64) = if quick {
        (&[3], 50)
    } else {
        (&[1, 10, 50], 1_200)
    };
    let mut figures = Vec::new();
    for controllers in numbers.iter().copied() {
        let count = |by, watch_list| {
            count(Asked {
                by,
                controllers,
                watch_list,
                objects,
            })
        };
        progress(format!("requests of {controllers} controllers"));
        let own = count(Who::Defaults, true).await?;
        let peer = count(Who::KubeRuntime, true).await?;
        let kinds = KINDS.len();
        let of = format!("{controllers} controllers of the same {kinds} kinds");
        let one = |requests: u64| Spread::one(requests as f64);
        let all = kinds as f64;
        let id = |name: &str| format!("load/{name}/{controllers}");
        let what = format!("requests with WatchList, {of}");
        figures.push(
            Figure::new(&id("watch-list"), what, "", one(own.requests))
                .beside(KUBE_RUNTIME, one(peer.requests))
                .at_most(all)
                .guarded(),
        );
        let own = count(Who::Defaults, false).await?;
        let peer = count(Who::KubeRuntime, false).await?;
        for (name, what, own, peer) in [
            ("lists", "lists of all pages", own.lists, peer.lists),
            ("watches", "watches", own.watches, peer.watches),
        ] {
            let what = format!("{what} without WatchList, {of}");
            figures.push(
                Figure::new(&id(name), what, "", one(own))
                    .beside(KUBE_RUNTIME, one(peer))
                    .at_most(all)
                    .guarded(),
            );
        }
    }
    Ok(figures)
}

async fn count(asked: Asked) -> Outcome<Loaded> {
    let mut client = Actor::client(&["load", &serde_json::to_string(&asked)?])?;
    let loaded = client.hear().await?;
    client.end().await?;
    Ok(loaded)
}

/// Has the controllers see every object once, and reports the log.
pub(super) async fn play(asked: &str) -> Outcome<()> {
    let asked: Asked = serde_json::from_str(asked)?;
    let server = ApiServer::builder().log_capacity(LOG).build();
    for of in KINDS {
        fill(&server, of, 0..asked.objects)?;
    }
    let connection = Connection::in_process(server.service(), "default");
    let count = Arc::new(Count::default());
    match asked.by {
        Who::KubeRuntime => peers(connection.client()?, asked, &count).await,
        _ => manager(connection, asked, &count).await?,
    }
    let log = server.requests();
    let counted = |requests: usize| requests as u64;
    say(&Loaded {
        requests: counted(log.count(|_| true)),
        lists: counted(log.count(steersman_apiserver::faults::RequestRecord::is_first_page)),
        watches: counted(log.count(|request| request.does(Verb::Watch))),
    })
}

async fn manager(connection: Connection, asked: Asked, count: &Arc<Count>) -> Outcome<()> {
    let options = CacheOptions::new().watch_list(asked.watch_list);
    let manager = Manager::builder(connection).cache(options).build()?;
    for number in 0..asked.controllers {
        let controller = steersman_controller::Controller::builder::<ConfigMap>()
            .name(format!("controller-{number}"))
            .owns::<Secret>()
            .owns::<Pod>()
            .build(Counting(Arc::clone(count)))?;
        manager.add_controller(controller)?;
    }
    let cancel = CancellationToken::new();
    let stop = Shutdown::when(cancel.clone().cancelled_owned());
    let running = tokio::spawn(manager.start(stop));
    count.reach(asked.controllers * asked.objects).await;
    cancel.cancel();
    Ok(running.await??)
}

async fn peers(client: Client, asked: Asked, count: &Arc<Count>) {
    let config = if asked.watch_list {
        watcher::Config::default().streaming_lists()
    } else {
        watcher::Config::default()
    };
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..asked.controllers {
        let controller = Controller::new(Api::<ConfigMap>::all(client.clone()), config.clone())
            .owns(Api::<Secret>::all(client.clone()), config.clone())
            .owns(Api::<Pod>::all(client.clone()), config.clone());
        let reconcile = async |_: Arc<ConfigMap>, count: Arc<Count>| {
            count.one();
            Ok::<_, Never>(PeerAction::await_change())
        };
        let failed = |_: Arc<ConfigMap>, _: &Never, _: Arc<Count>| PeerAction::await_change();
        let results = controller.run(reconcile, failed, Arc::clone(count));
        running.spawn(results.for_each(|_| futures::future::ready(())));
    }
    count.reach(asked.controllers * asked.objects).await;
}

impl Count {
    fn one(&self) {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        self.moved.notify_one();
    }

    async fn reach(&self, wanted: u64) {
        while self.reconciles.load(Ordering::Relaxed) < wanted {
            self.moved.notified().await;
        }
    }
}

impl Reconciler for Counting {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        self.0.one();
        Ok(Action::done())
    }
}

impl std::fmt::Display for Never {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nothing fails")
    }
}

impl std::error::Error for Never {}
