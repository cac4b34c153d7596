//! Driver: waits until every website is ready. It ends early if further waiting cannot help.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use steersman::cache::Cache;
use steersman::futures::StreamExt as _;
use steersman::futures::stream::{self, BoxStream};
use steersman::informer::{Delivery, Informer, Subscription};
use steersman::object::Object as _;
use steersman::{CancellationToken, Manager, ObjectKey, cache};
use thiserror::Error;

use crate::BoxError;
use crate::status::{PAGES_MISSING, REFUSED};
use crate::website::Website;

/// The time limit for websites to become ready.
const PATIENCE: Duration = Duration::from_secs(90);

/// The time after which a site that waits for a user ends the wait.
const GRACE: Duration = Duration::from_secs(2);

/// The reason why not every website became ready.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotReady {
    /// There is no website.
    #[error("there is no Website: create one, or run again with --sample")]
    NoWebsite,
    /// The operator cannot read a kind that it needs.
    #[error("{}", .0.join("; "))]
    Unseen(Vec<String>),
    /// Objects that do not decode as the kind.
    #[error("not of the shape of a Website: {}", .0.join("; "))]
    Malformed(Vec<String>),
    /// Sites that wait for a user to remove an obstacle.
    #[error("{}", .0.join("; "))]
    Stuck(Vec<String>),
    /// Sites that did not become ready in time.
    #[error(
        "not ready after {} s: {} (Deployments get Pods where there are a controller-manager and nodes, or where steersman-apiserver runs with --play workloads)",
        PATIENCE.as_secs(),
        .0.join("; ")
    )]
    TooLong(Vec<String>),
    /// The manager stopped during the wait.
    #[error("the watch of websites ended")]
    Ended,
    /// The kind cannot be cached.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

/// The last seen state of each website.
#[derive(Default)]
struct Sites(BTreeMap<ObjectKey, Arc<Website>>);

/// Starts the manager, and stops it once every website is ready.
///
/// # Errors
///
/// Why not every website became ready, or else the error of the manager.
pub async fn run(manager: &Manager) -> Result<(), BoxError> {
    let cache = manager.cache().clone();
    let informers = cache.informers::<Website>()?;
    let stop = CancellationToken::new();
    let done = stop.clone().drop_guard();
    let running = manager.start(stop);
    let outcome = tokio::spawn(async move {
        let _done = done;
        until_ready(&cache, &informers).await
    });
    let stopped = running.await;
    if stopped.is_err() && !outcome.is_finished() {
        // The manager did not start, or ended by itself: there is nothing to wait for.
        outcome.abort();
        return Ok(stopped?);
    }
    // The reason of the stop comes before errors of the stop.
    outcome.await??;
    Ok(stopped?)
}

/// Waits until there are websites and every one is ready. A kind has one informer, or one per namespace.
///
/// # Errors
///
/// As soon as waiting cannot help, and after 90 s.
pub async fn until_ready(cache: &Cache, informers: &[Informer<Website>]) -> Result<(), NotReady> {
    let mut events = stream::select_all(informers.iter().map(deliveries));
    cache.settled().await;
    let unseen = cache.all_unsynced();
    if !unseen.is_empty() {
        return Err(NotReady::Unseen(
            unseen.iter().map(ToString::to_string).collect(),
        ));
    }
    let malformed = informers.iter().flat_map(|i| i.store().malformed());
    let malformed: Vec<_> = malformed.collect();
    if !malformed.is_empty() {
        let named = malformed.iter().map(|m| format!("{}: {}", m.key, m.error));
        return Err(NotReady::Malformed(named.collect()));
    }
    let mut sites = Sites::default();
    let all_ready = async {
        let mut unsynced = informers.len();
        loop {
            let synced = unsynced == 0;
            let delivery = if synced && sites.are_stuck() {
                match tokio::time::timeout(GRACE, events.next()).await {
                    Ok(delivery) => delivery,
                    Err(_) => return Err(NotReady::Stuck(sites.waiting())),
                }
            } else {
                events.next().await
            };
            match delivery {
                None => return Err(NotReady::Ended),
                Some(Delivery::Event(event)) => {
                    match event.current() {
                        Some(site) => sites.0.insert(site.key().clone(), site.object()),
                        None => sites.0.remove(event.key()),
                    };
                }
                Some(Delivery::Synced) => unsynced -= 1,
                Some(_) => {}
            }
            let synced = unsynced == 0;
            if synced && sites.0.is_empty() {
                return Err(NotReady::NoWebsite);
            }
            if synced && sites.0.values().all(|site| site.is_ready()) {
                return Ok(());
            }
        }
    };
    let timely = tokio::time::timeout(PATIENCE, all_ready).await;
    timely.unwrap_or_else(|_| Err(NotReady::TooLong(sites.waiting())))
}

/// Returns the events of one informer as a stream.
fn deliveries(informer: &Informer<Website>) -> BoxStream<'static, Delivery<Website>> {
    let next =
        |mut events: Subscription<Website>| async move { Some((events.next().await?, events)) };
    stream::unfold(informer.subscribe(), next).boxed()
}

impl Sites {
    /// Returns whether every site that is not ready waits for a user.
    fn are_stuck(&self) -> bool {
        let mut waiting = self.0.values().filter(|site| !site.is_ready()).peekable();
        let stuck = |site: &Arc<Website>| {
            let condition = site.ready_condition();
            condition.is_some_and(|c| c.reason == PAGES_MISSING || c.reason == REFUSED)
        };
        waiting.peek().is_some() && waiting.all(stuck)
    }

    /// Returns the messages of the sites that are not ready.
    fn waiting(&self) -> Vec<String> {
        let waiting = self.0.values().filter(|site| !site.is_ready());
        let says = waiting.map(|site| match site.ready_condition() {
            Some(condition) => format!("Website {}: {}", site.key(), condition.message),
            None => format!("Website {}: no status was written", site.key()),
        });
        says.collect()
    }
}
