//! Driver: a cache of Pods, ours and the peer's, from a cold start to many reads.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use futures::{StreamExt, future};
use k8s_openapi::api::core::v1::Pod;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::{WatchStreamExt, reflector, watcher};
use steersman_api::Connection;
use steersman_cache::{Cache, CacheOptions};
use steersman_object::ObjectKey;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::words::Synced;
use crate::process::{Outcome, cpu_time, memory};

/// So many keys are read in turn, so many times each.
const KEYS: usize = 1000;
const ROUNDS: u32 = 100;

/// Pods that share a value of the index.
const TOGETHER: u64 = 10;

impl Synced {
    /// What there is to say at the moment everything is there.
    fn now(began: Instant) -> Outcome<Self> {
        let seconds = began.elapsed().as_secs_f64();
        let (resident, peak) = memory()?;
        Ok(Self {
            seconds,
            cpu: cpu_time()?.as_secs_f64(),
            resident,
            peak,
            ..Self::default()
        })
    }
}

/// The cache with its defaults.
pub(super) async fn steersman(kubeconfig: &Path, objects: u64) -> Outcome<Synced> {
    let began = Instant::now();
    let connection = Connection::from_kubeconfig(kubeconfig).await?;
    let cache = Cache::new(CacheOptions::new())?;
    let informer = cache.informer::<Pod>()?;
    let cancel = CancellationToken::new();
    let running = tokio::spawn(cache.run(connection, cancel.clone()));
    cache.wait_for_sync().await?;
    let mut synced = Synced::now(began)?;
    let store = informer.store();
    let keys = store.keys(&steersman_informer::Query::new())?;
    expect(keys.len(), objects)?;
    for key in &keys {
        store.get(key).ok_or("a Pod is gone")?;
    }
    synced.read = memory()?.0;
    let some: Vec<&ObjectKey> = spread(&keys);
    synced.hot_ns = timed(1, |_| store.get(some[0]).is_some());
    synced.spread_ns = timed(some.len(), |at| store.get(some[at]).is_some());
    let before = Instant::now();
    for _ in 0..ROUNDS {
        for key in &some {
            cache.get::<Pod>(key).await?;
        }
    }
    synced.cache_ns = each(before, some.len());
    let groups = (objects / TOGETHER).max(1);
    informer.add_index("group", move |pod: &Pod| {
        let mut hasher = DefaultHasher::new();
        pod.metadata.uid.hash(&mut hasher);
        vec![(hasher.finish() % groups).to_string()]
    })?;
    let groups = usize::try_from(groups)?.min(KEYS);
    let names: Vec<String> = (0..groups).map(|group| group.to_string()).collect();
    let found = |at: usize| store.by_index("group", &names[at]).is_ok();
    synced.index_ns = timed(groups, found);
    cancel.cancel();
    running.await??;
    Ok(synced)
}

/// kube-runtime's reflector, with or without managedFields.
pub(super) async fn kube_runtime(kubeconfig: &Path, objects: u64, bare: bool) -> Outcome<Synced> {
    let began = Instant::now();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let pods: Api<Pod> = Api::all(Client::try_from(config)?);
    let (reader, writer) = reflector::store();
    let events = watcher(pods, watcher::Config::default().streaming_lists());
    let events = events.modify(move |pod: &mut Pod| {
        if bare {
            pod.metadata.managed_fields = None;
        }
    });
    let running = tokio::spawn(reflector(writer, events).for_each(|_| future::ready(())));
    reader.wait_until_ready().await?;
    let mut synced = Synced::now(began)?;
    let keys: Vec<ObjectRef<Pod>> = reader
        .state()
        .iter()
        .map(|pod| ObjectRef::from_obj(&**pod))
        .collect();
    expect(keys.len(), objects)?;
    for key in &keys {
        reader.get(key).ok_or("a Pod is gone")?;
    }
    synced.read = memory()?.0;
    let first = reader.get(&keys[0]).ok_or("a Pod is gone")?;
    synced.bytes_each = serde_json::to_vec(&*first)?.len() as u64;
    let some = spread(&keys);
    synced.hot_ns = timed(1, |_| reader.get(some[0]).is_some());
    synced.spread_ns = timed(some.len(), |at| reader.get(some[at]).is_some());
    running.abort();
    Ok(synced)
}

fn expect(found: usize, wanted: u64) -> Outcome<()> {
    if found as u64 == wanted {
        return Ok(());
    }
    Err(format!("{found} of {wanted} Pods are there").into())
}

/// A thousand of them, from all over.
fn spread<T>(all: &[T]) -> Vec<&T> {
    let step = (all.len() / KEYS).max(1);
    all.iter().step_by(step).take(KEYS).collect()
}

/// What one of these reads takes, in nanoseconds.
fn timed(many: usize, mut read: impl FnMut(usize) -> bool) -> f64 {
    let rounds = ROUNDS * u32::try_from(KEYS / many.max(1)).unwrap_or(1);
    let before = Instant::now();
    let mut found = true;
    for _ in 0..rounds {
        for at in 0..many {
            found &= std::hint::black_box(read(at));
        }
    }
    let took = before.elapsed().as_nanos() as f64;
    if found {
        took / f64::from(rounds) / many as f64
    } else {
        f64::NAN
    }
}

fn each(before: Instant, many: usize) -> f64 {
    before.elapsed().as_nanos() as f64 / f64::from(ROUNDS) / many as f64
}
