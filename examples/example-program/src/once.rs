//! Driver: runs a manager until something has happened.

use std::collections::BTreeMap;
use std::time::Duration;

use steersman::cache::Cache;
use steersman::futures::StreamExt as _;
use steersman::futures::stream::{self, BoxStream, SelectAll};
use steersman::informer::{Delivery, Informer, Subscription};
use steersman::object::TypedObject;
use steersman::status_conditions::{HasConditions, READY, TRUE, find};
use steersman::{CancellationToken, Kind, Manager};
use tokio::time::{Instant, timeout_at};

use crate::BoxError;

/// The time limit for objects to be done.
const PATIENCE: Duration = Duration::from_secs(90);

/// The time after which the wait ends if all objects wait for a user.
const GRACE: Duration = Duration::from_secs(2);

/// Why a Deployment may never become ready.
const NO_PODS: &str = "Deployments get Pods where there are a controller-manager and nodes, or where steersman-apiserver \
                       runs with --play workloads";

/// Starts a manager, and stops it at the end of the future.
///
/// # Errors
///
/// The error of the future, or else that of the manager.
pub async fn run_until(
    manager: &Manager,
    end: impl Future<Output = Result<(), BoxError>>,
) -> Result<(), BoxError> {
    let stop = CancellationToken::new();
    let mut running = Box::pin(manager.start(stop.clone()));
    tokio::select! {
        // The reason of the stop comes before errors of the stop.
        biased;
        ended = Box::pin(end) => {
            stop.cancel();
            let stopped = running.await;
            ended?;
            Ok(stopped?)
        }
        // The manager did not start, or ended by itself: there is nothing to wait for.
        stopped = &mut running => Ok(stopped?),
    }
}

/// Waits until there are objects of a kind and the condition `Ready` of each is true for its present spec.
///
/// The wait ends early if the others wait for a user, which their condition says by one of the reasons in `stuck`.
///
/// # Errors
///
/// An error as soon as waiting cannot help, and after 90 s.
pub async fn until_ready<K: TypedObject + HasConditions>(
    cache: &Cache,
    stuck: &[&str],
) -> Result<(), BoxError> {
    let kind = Kind::of::<K>();
    let name = kind.gvk().kind();
    let informers = cache.informers::<K>()?;
    let mut events = deliveries(&informers);
    cache.settled().await;
    let unseen = cache.all_unsynced();
    let unseen: Vec<_> = unseen.iter().map(ToString::to_string).collect();
    if !unseen.is_empty() {
        return Err(unseen.join("; ").into());
    }
    let malformed = informers.iter().flat_map(|i| i.store().malformed());
    let malformed: Vec<_> = malformed
        .map(|m| format!("{}: {}", m.key, m.error))
        .collect();
    if !malformed.is_empty() {
        return Err(format!("not of the shape of a {name}: {}", malformed.join("; ")).into());
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let objects: Vec<_> = informers.iter().flat_map(|i| i.store().list()).collect();
        if objects.is_empty() {
            let problem = format!("there is no {name}: create one, or run again with --sample");
            return Err(problem.into());
        }
        let waiting = objects.iter().filter(|object| !is_ready(&***object));
        let conditions = waiting.map(|object| (object.key(), find(object.conditions(), READY)));
        let conditions: BTreeMap<_, _> = conditions.collect();
        if conditions.is_empty() {
            return Ok(());
        }
        let is_stuck = conditions.values().all(|condition| {
            condition.is_some_and(|condition| stuck.contains(&condition.reason.as_str()))
        });
        let waiting: Vec<_> = conditions
            .iter()
            .map(|(key, condition)| {
                let message = condition.map_or("no status was written", |c| c.message.as_str());
                format!("{name} {key}: {message}")
            })
            .collect();
        let waiting = waiting.join("; ");
        let end = match is_stuck {
            true => deadline.min(Instant::now() + GRACE),
            false => deadline,
        };
        match timeout_at(end, events.next()).await {
            Ok(Some(_)) => {}
            Ok(None) => return Err(format!("the watch of {} ended", kind.plural()).into()),
            Err(_) if is_stuck => return Err(waiting.into()),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                return Err(format!("not ready after {seconds} s: {waiting} ({NO_PODS})").into());
            }
        }
    }
}

/// Returns whether the condition `Ready` of an object is true for the present spec.
pub fn is_ready<K: HasConditions>(object: &K) -> bool {
    let ready = find(object.conditions(), READY);
    ready.is_some_and(|ready| {
        ready.status == TRUE && ready.observed_generation == object.meta().generation
    })
}

/// Returns the events of all informers of a kind as one stream.
pub fn deliveries<K: TypedObject>(
    informers: &[Informer<K>],
) -> SelectAll<BoxStream<'static, Delivery<K>>> {
    let next = |mut events: Subscription<K>| async move { Some((events.next().await?, events)) };
    let streams = informers.iter().map(|informer| informer.subscribe());
    stream::select_all(streams.map(|events| stream::unfold(events, next).boxed()))
}
