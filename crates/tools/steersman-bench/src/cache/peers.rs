//! Driver: measures the cache of this workspace and the reflector of kube-runtime, each with one
//! kind, from a cold start to many reads.

use futures::{StreamExt, future};
use kube_client::Api;
use kube_client::core::NamespaceResourceScope;
use kube_runtime::reflector::{ObjectRef, Store as Reader};
use kube_runtime::{WatchStreamExt, reflector, watcher};
use prometheus::Registry;
use steersman_api::{ClientConfig, Encoding};
use steersman_cache::{Cache, CacheMetrics, CacheOptions, Settings};
use steersman_informer::Informer;
use steersman_object::{Kind, LabelSelector, ListOptions, Object, ObjectKey, TypedObject};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::reads::{KEYS, REST, Rounds, cpu_of, read_each, spread};
use super::words::{MeasuredCache, SyncTask, Synced};
use crate::process::{BenchResult, cpu_time, memory};
use crate::samples::{NUMBER, SELECTED, SHARED, TOGETHER};
use crate::wire::kube_client;

/// The largest number of objects that is listed as a whole.
const LISTED: u64 = 10_000;

impl Synced {
    /// Returns the report at the moment at which all objects are cached. The processor time includes background work
    /// after it.
    async fn after_rest(began: Instant) -> BenchResult<Self> {
        let seconds = began.elapsed().as_secs_f64();
        let (resident, peak) = memory()?;
        tokio::time::sleep(REST).await;
        Ok(Self {
            seconds,
            cpu: cpu_time().as_secs_f64(),
            resident,
            peak,
            ..Self::default()
        })
    }
}

/// Returns the requested options, with metrics as in a manager.
fn options(asked: &SyncTask) -> BenchResult<CacheOptions> {
    let options = CacheOptions::new()
        .default_namespaces(asked.namespace.clone())
        .metrics(CacheMetrics::register(&Registry::new())?);
    Ok(match asked.by {
        MeasuredCache::Budget(bytes) => options.decoded_budget(bytes),
        MeasuredCache::Decoded => options.decoded_budget(None),
        MeasuredCache::Whole => options.defaults(Settings::new().keep_managed_fields(true)),
        MeasuredCache::Selected => options.defaults(Settings::new().labels(SELECTED)),
        _ => options,
    })
}

/// Measures the cache of `K` with a view as `V`.
pub(super) async fn steersman<K: TypedObject, V: Object>(asked: &SyncTask) -> BenchResult<Synced> {
    let began = Instant::now();
    let client_config = ClientConfig::from_kubeconfig(&asked.kubeconfig).await?;
    let client_config = match asked.by {
        MeasuredCache::Http1 => client_config.http1_only(true),
        MeasuredCache::Json => client_config.encoding(Encoding::Json),
        _ => client_config,
    };
    let cache = Cache::new(options(asked)?)?;
    let mut informers = cache.informers_of::<V>(&Kind::of::<K>())?.into_iter();
    let informer = informers.next().ok_or("the cache has no informer")?;
    let cancel = CancellationToken::new();
    let running = tokio::spawn(cache.run(client_config.clone(), cancel.clone()));
    cache.wait_for_sync().await?;
    let mut synced = Synced::after_rest(began).await?;
    let store = informer.store();
    let mut keys = store.keys(&ListOptions::new())?;
    keys.retain(|key| asked.of.makes(key.name()));
    expect(keys.len(), asked)?;
    let (keys, store) = read_each(keys, store, |store, key| store.get(key).is_some()).await?;
    synced.read = memory()?.0;
    let rounds = match asked.by {
        MeasuredCache::Budget(0) => Rounds::FEW,
        _ => Rounds::MANY,
    };
    let some: Vec<&ObjectKey> = spread(&keys);
    synced.hot_ns = rounds.timed(1, |_| store.get(some[0]).is_some())?;
    synced.spread_ns = rounds.timed(some.len(), |at| store.get(some[at]).is_some())?;
    if asked.by == MeasuredCache::Decoded {
        let get = async |at: usize| cache.get::<K>(some[at]).await.is_ok();
        synced.cache_ns = rounds.timed_async(some.len(), get).await?;
        let client = steersman_client::Client::new(cache.clone(), client_config);
        let get = async |at: usize| client.get::<K>(some[at]).await.is_ok();
        synced.client_ns = rounds.timed_async(some.len(), get).await?;
        found(&informer, rounds, asked.objects, &mut synced)?;
    }
    // Decoding many objects at once may exceed the memory of the machine.
    if asked.by == MeasuredCache::Budget(0) && asked.objects <= LISTED {
        synced.list_cpu = cpu_of(|| store.list().len() as u64 == asked.objects)?;
    }
    cancel.cancel();
    running.await??;
    Ok(synced)
}

/// Measures reads of ten objects by a field index and by a label index.
fn found<V: Object>(
    informer: &Informer<V>,
    rounds: Rounds,
    objects: u64,
    synced: &mut Synced,
) -> BenchResult<()> {
    let store = informer.store();
    let groups = (objects / TOGETHER).max(1);
    informer.add_index("group", |object: &V| {
        let annotations = object.meta().annotations.as_ref();
        let number = annotations.and_then(|all| all.get(NUMBER));
        let number: Option<u64> = number.and_then(|number| number.parse().ok());
        let group = number.map(|number| (number / TOGETHER).to_string());
        group.into_iter().collect()
    })?;
    let many = usize::try_from(groups)?.min(KEYS);
    let names: Vec<String> = (0..many).map(|group| group.to_string()).collect();
    let is_group = |found: &[_]| found.len() as u64 == TOGETHER;
    let by_index = |at: usize| {
        let found = store.by_index("group", &names[at]);
        found.is_ok_and(|found| is_group(&found))
    };
    synced.index_ns = rounds.timed(many, by_index)?;
    informer.index_label(SHARED)?;
    let of_group = |name: &String| ListOptions::new().labels(LabelSelector::label(SHARED, name));
    let queries: Vec<ListOptions> = names.iter().map(of_group).collect();
    let by_label = |at: usize| {
        let found = store.list_matching(&queries[at]);
        found.is_ok_and(|found| is_group(&found.objects))
    };
    synced.label_ns = rounds.timed(many, by_label)?;
    Ok(())
}

/// Measures kube-runtime's reflector, with or without managedFields.
pub(super) async fn kube_runtime<K>(asked: &SyncTask) -> BenchResult<Synced>
where
    K: TypedObject<Scope = NamespaceResourceScope>,
{
    let began = Instant::now();
    let client = kube_client(&asked.kubeconfig).await?;
    let objects: Api<K> = match &asked.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let (reader, writer) = reflector::store();
    let events = watcher(objects, watcher::Config::default().streaming_lists());
    let bare = asked.by == MeasuredCache::KubeRuntimeBare;
    let events = events.modify(move |object: &mut K| {
        if bare {
            object.meta_mut().managed_fields = None;
        }
    });
    let running = tokio::spawn(reflector(writer, events).for_each(|_| future::ready(())));
    reader.wait_until_ready().await?;
    let mut synced = Synced::after_rest(began).await?;
    let all = reader.state();
    let keys = all.iter().map(|object| ObjectRef::from_obj(&**object));
    let keys: Vec<ObjectRef<K>> = keys.filter(|key| asked.of.makes(&key.name)).collect();
    drop(all);
    expect(keys.len(), asked)?;
    let read = |reader: &Reader<K>, key: &ObjectRef<K>| reader.get(key).is_some();
    let (keys, reader) = read_each(keys, reader, read).await?;
    synced.read = memory()?.0;
    let first = reader.get(&keys[0]).ok_or("an object is gone")?;
    synced.bytes_each = serde_json::to_vec(&*first)?.len() as u64;
    let some = spread(&keys);
    let rounds = Rounds::MANY;
    synced.hot_ns = rounds.timed(1, |_| reader.get(some[0]).is_some())?;
    synced.spread_ns = rounds.timed(some.len(), |at| reader.get(some[at]).is_some())?;
    running.abort();
    Ok(synced)
}

fn expect(found: usize, asked: &SyncTask) -> BenchResult<()> {
    let (found, wanted, of) = (found as u64, asked.objects, asked.of.resource());
    let is_expected = match asked.by {
        // The exact number is random.
        MeasuredCache::Selected => (wanted / 4..wanted / 2).contains(&found),
        _ => found == wanted,
    };
    if is_expected && found > 0 {
        return Ok(());
    }
    Err(format!("{found} of {wanted} {of} are there").into())
}

#[cfg(test)]
mod tests {
    use super::{Rounds, Synced, found};
    use crate::micro::ServedPods;

    #[test]
    fn a_list_that_does_not_find_its_ten_is_no_figure() {
        let served = ServedPods::with(95).unwrap();
        let mut synced = Synced::default();
        found(&served.informer, Rounds::FEW, 90, &mut synced).unwrap();
        assert!(synced.index_ns > 0.0 && synced.label_ns > 0.0);
        // The tenth group has five objects.
        let served = ServedPods::with(95).unwrap();
        assert!(found(&served.informer, Rounds::FEW, 100, &mut synced).is_err());
    }
}
