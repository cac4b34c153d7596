//! Driver: counts the requests of a manager with many controllers in the server's log.

use std::convert::Infallible;
use std::sync::Arc;

use futures::{StreamExt, future};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_client::{Api, Client};
use kube_runtime::controller::Action as PeerAction;
use kube_runtime::{Controller, watcher};
use serde::{Deserialize, Serialize};
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{RequestRecord, Verb};
use steersman_cache::CacheOptions;
use steersman_controller::{Action, Context, Error, Request, reconcile};
use steersman_manager::{Manager, Shutdown};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::running::beside_peer;
use super::words::{ClientRole, LoadTask, MeasuredCache};
use crate::figures::Figures;
use crate::process::{BenchResult, progress, send};
use crate::report::Figure;
use crate::samples::Sample;
use crate::server::fill::fill;

/// The kinds that the controllers watch: the first as the primary kind, the others as owned ones.
const KINDS: [Sample; 3] = [Sample::ConfigMap, Sample::Secret, Sample::Pod];

#[derive(Debug, Serialize, Deserialize)]
struct Loaded {
    requests: u64,
    /// Lists, without their further pages.
    lists: u64,
    /// All watches, including streaming lists.
    watches: u64,
}

/// Runs all measurements; their size does not affect the result.
pub(crate) async fn measure(quick: bool) -> BenchResult<Vec<Figure>> {
    // A list of 1,200 objects may have three pages of 500.
    let (numbers, objects): (&[u64], u64) = if quick {
        (&[3], 50)
    } else {
        (&[1, 10, 50], 1_200)
    };
    let mut figures = Figures::shown();
    for controllers in numbers.iter().copied() {
        let count = async |watch_list| {
            let task = |by| LoadTask {
                by,
                controllers,
                watch_list,
                objects,
            };
            beside_peer::<Loaded>(|by| ClientRole::Load(task(by))).await
        };
        let kinds = KINDS.len();
        let plural = if controllers == 1 { "" } else { "s" };
        let figure = |name: &str, what: &str, counts: &[[Loaded; 2]], of: fn(&Loaded) -> u64| {
            let id = format!("load/{name}/{controllers}");
            let what =
                format!("{what}, {controllers} controller{plural} of the same {kinds} kinds");
            Figure::compared(&id, what, "", counts, |one| of(one) as f64)
                .at_most(kinds as f64)
                .guarded()
        };
        progress(format!("requests of {controllers} controllers"));
        let counts = [count(true).await?];
        let what = "number of requests with WatchList";
        figures.add(figure("watch-list", what, &counts, |one| one.requests));
        let counts = [count(false).await?];
        let what = "number of lists (the pages of a list count once) without WatchList";
        figures.add(figure("lists", what, &counts, |one| one.lists));
        let what = "number of watches without WatchList";
        figures.add(figure("watches", what, &counts, |one| one.watches));
    }
    Ok(figures.all())
}

/// Runs the controllers until they have seen every object, and reports the counts.
pub(super) async fn play(asked: LoadTask) -> BenchResult<()> {
    let server = ApiServer::builder().log_capacity(100_000).build();
    for of in KINDS {
        fill(&server, of, 0..asked.objects)?;
    }
    let client_config = ClientConfig::in_process(server.service(), "default");
    let count = Arc::new(Semaphore::new(0));
    match asked.by {
        MeasuredCache::KubeRuntime => peers(client_config.client()?, asked, &count).await?,
        _ => manager(client_config, asked, &count).await?,
    }
    let log = server.requests();
    send(&Loaded {
        requests: log.count(|_| true) as u64,
        lists: log.count(RequestRecord::is_first_page) as u64,
        watches: log.count(|request| request.does(Verb::Watch)) as u64,
    })
}

async fn manager(
    client_config: ClientConfig,
    asked: LoadTask,
    count: &Arc<Semaphore>,
) -> BenchResult<()> {
    let options = CacheOptions::new().watch_list(asked.watch_list);
    let manager = Manager::builder(client_config).cache(options).build()?;
    for number in 0..asked.controllers {
        let count = Arc::clone(count);
        let reconcile = move |_: Context, _: Request| {
            count.add_permits(1);
            future::ready(Ok::<_, Error>(Action::done()))
        };
        let controller = steersman_controller::Controller::builder::<ConfigMap>()
            .name(format!("controller-{number}"))
            .owns::<Secret>()
            .owns::<Pod>()
            .build(reconcile::from_fn(reconcile))?;
        manager.add_controller(controller)?;
    }
    let cancel = CancellationToken::new();
    let stop = Shutdown::when(cancel.clone().cancelled_owned());
    let running = tokio::spawn(manager.start(stop));
    all_reconciled(asked, count).await?;
    cancel.cancel();
    Ok(running.await??)
}

async fn peers(client: Client, asked: LoadTask, count: &Arc<Semaphore>) -> BenchResult<()> {
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
        let reconcile = async |_: Arc<ConfigMap>, count: Arc<Semaphore>| {
            count.add_permits(1);
            Ok::<_, Infallible>(PeerAction::await_change())
        };
        let results = controller.run(
            reconcile,
            |_, never: &Infallible, _| match *never {},
            Arc::clone(count),
        );
        running.spawn(results.for_each(|_| future::ready(())));
    }
    all_reconciled(asked, count).await
}

/// Waits until each controller has reconciled each object.
async fn all_reconciled(asked: LoadTask, count: &Semaphore) -> BenchResult<()> {
    let reconciles = u32::try_from(asked.controllers * asked.objects)?;
    drop(count.acquire_many(reconciles).await?);
    Ok(())
}
