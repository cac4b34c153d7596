//! Driver: the handler that requests the objects with index values that name the object of the event.

use std::marker::PhantomData;

use futures::future::FutureExt;
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_informer::Event;
use steersman_object::{Kind, ListOptions, Object, ObjectKey, TypedObject};

use crate::error::Error;
use crate::handler::target::TargetOf;
use crate::handler::{EventHandler, HandlerFuture, Requests};

/// Requests the objects with index values that name the object of the event; see [`indexed`].
#[derive(derive_more::Debug)]
#[debug("Indexed({index:?})")]
pub struct Indexed<K> {
    index: String,
    of: PhantomData<fn(&K)>,
}

/// Requests the objects of the primary kind `K` with values in an index of the cache that name the object of the event.
///
/// Register the index first, with [`Cache::index_field`] or [`Cache::index_values`]. A value of the index is one of:
///
/// - `NAME`: the object of this name in the namespace of `K`'s object, or the cluster-scoped object of this name.
/// - `NAMESPACE/NAME`: an object in any namespace, for a `K` that is cluster-scoped or names other namespaces.
///
/// The handler works with every scope of the cache: the cluster, one namespace or several. It waits for the first
/// sync of `K` (CTRL-43), and decodes no object.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_cache::Cache;
/// use steersman_controller::{Controller, handler};
///
/// const CONFIG: &str = "spec.template.spec.volumes.configMap.name";
///
/// # fn f(cache: &Cache) -> Result<(), steersman_cache::Error> {
/// cache.index_values::<Deployment>(CONFIG, |deployment| {
///     let pods = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
///     let volumes = pods.and_then(|pods| pods.volumes.as_ref()).into_iter().flatten();
///     volumes.filter_map(|volume| Some(volume.config_map.as_ref()?.name.clone())).collect()
/// })?;
/// let controller = Controller::builder::<Deployment>()
///     .watches::<ConfigMap>(handler::indexed(CONFIG));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn indexed<K: TypedObject>(index: impl Into<String>) -> Indexed<K> {
    Indexed {
        index: index.into(),
        of: PhantomData,
    }
}

impl<K: TypedObject> Indexed<K> {
    fn selections(&self, key: &ObjectKey) -> Vec<ListOptions> {
        let naming = |value: String| {
            let list_options = ListOptions::new().index(&*self.index, value);
            // A malformed object has no index values, and the update that corrects the object causes its own request.
            list_options.skip_malformed()
        };
        let name = || naming(key.name().to_owned());
        match key.namespace().filter(|namespace| !namespace.is_empty()) {
            None => vec![name()],
            Some(namespace) => {
                let anywhere = naming(format!("{namespace}/{}", key.name()));
                match Kind::of::<K>().is_namespaced() {
                    true => vec![name().namespace(namespace), anywhere],
                    false => vec![anywhere],
                }
            }
        }
    }
}

impl<W: Object, K: TypedObject, P: TargetOf<K>> EventHandler<W, P> for Indexed<K> {
    fn declare(&self, cache: &Cache) -> Result<(), steersman_cache::Error> {
        let reads = cache.typed::<K>();
        let kind = reads.kind().clone();
        if !reads.is_cached() {
            return Err(steersman_cache::Error::NotCached { kind });
        }
        let informers = reads.informers()?;
        let is_indexed = |store: &steersman_informer::Store<K>| store.has_index(&self.index);
        match informers.iter().all(|of| is_indexed(of.as_store())) {
            true => Ok(()),
            false => Err(steersman_cache::Error::NoIndex {
                kind,
                index: self.index.clone(),
            }),
        }
    }

    fn handle(&self, _: &Event<W>, _: &mut Requests<P::Key>) {}

    fn handle_async<'a>(
        &'a self,
        event: &Event<W>,
        client: &Client,
        mut requests: Requests<P::Key>,
    ) -> Option<HandlerFuture<'a, P::Key>> {
        let selections = self.selections(event.key());
        let reads = client.cache().typed::<K>();
        let found = async move {
            for list_options in selections {
                match reads.keys(&list_options).await {
                    Ok(keys) => keys
                        .into_iter()
                        .for_each(|key| requests.add(P::Key::from(key))),
                    // The cache does not hold the namespace of the event's object, so it holds no object there to
                    // request.
                    Err(error) if error.is_outside_scope() => {}
                    Err(error) => return Err(Error::from(error)),
                }
            }
            Ok(requests)
        };
        Some(found.boxed())
    }
}
