//! Driver: the handler that requests the keys that an asynchronous function returns.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use steersman_client::Client;
use steersman_informer::{Entry, Event};
use steersman_object::Object;
use tokio::time::timeout;

use crate::error::{Error, TookTooLong};
use crate::handler::target::ControllerTarget;
use crate::handler::{EventHandler, HandlerFuture, Requests};

/// How long the function may take for one event, if the handler sets no limit.
const LIMIT: Duration = Duration::from_secs(30);

/// Requests the keys that an asynchronous function returns; see [`mapped_async`].
#[derive(derive_more::Debug)]
#[debug("MappedAsync {{ limit: {limit:?}, .. }}")]
pub struct MappedAsync<K, F> {
    function: F,
    limit: Duration,
    kind: PhantomData<fn(&K)>,
}

/// Requests the keys that `function` returns for an object; the function gets a client to look them up. For an update,
/// the function is called for the old and then for the new object.
///
/// The client is the controller's own client: it reads from the cache. A read of a kind that has not synced waits for
/// the sync. If this wait fails and the function returns the error, the function is called again after the sync
/// (CTRL-43). A live read asks the server once per event.
///
/// The events of a watch are handled one after another, so a function that waits delays the later events of its watch,
/// and of no other watch. Meanwhile the later events of each object are coalesced into one. The workers start after the
/// function has returned for all initial objects (CTRL-1).
///
/// If the function panics, takes longer than the [`limit`](MappedAsync::limit), or returns any other error, the event
/// is lost: no request is added, and the failure is logged, counted in `steersman_controller_handler_errors_total` or
/// `steersman_controller_handler_panics_total`, and shown by [`ControllerStatus`](crate::ControllerStatus) (CTRL-6).
/// The event is not repeated, so the function itself should retry an operation that may fail for a moment.
///
/// # Cancel safety
///
/// When the controller stops, and when a call exceeds its limit, the future of the function is dropped at an await.
///
/// ```
/// use std::sync::Arc;
///
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_client::Client;
/// use steersman_controller::{Controller, handler};
/// use steersman_object::{Object as _, ObjectKey, ListOptions};
///
/// // Every Deployment of the namespace of a ConfigMap.
/// let all = handler::mapped_async(|client: Client, config: Arc<ConfigMap>| async move {
///     let namespace = config.metadata.namespace.clone().unwrap_or_default();
///     let here = ListOptions::new().namespace(namespace);
///     let deployments = client.list::<Deployment>(&here).await?;
///     Ok(deployments.iter().map(|deployment| deployment.key()).collect::<Vec<ObjectKey>>())
/// });
/// let controller = Controller::builder::<Deployment>().watches::<ConfigMap>(all);
/// ```
pub fn mapped_async<K, F, Fut, I>(function: F) -> MappedAsync<K, F>
where
    K: Object,
    F: Fn(Client, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<I, Error>> + Send,
    I: IntoIterator,
{
    MappedAsync {
        function,
        limit: LIMIT,
        kind: PhantomData,
    }
}

impl<K, F> MappedAsync<K, F> {
    /// Sets how long the function may take for one event. The default is 30 s; zero removes the limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        let limit = Some(limit).filter(|limit| !limit.is_zero());
        self.limit = limit.unwrap_or(Duration::MAX);
        self
    }
}

impl<K, P, F, Fut, I> EventHandler<K, P> for MappedAsync<K, F>
where
    K: Object,
    P: ControllerTarget,
    F: Fn(Client, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<I, Error>> + Send,
    I: IntoIterator<Item: Into<P::Key>>,
{
    fn handle(&self, _: &Event<K>, _: &mut Requests<P::Key>) {}

    fn handle_async<'a>(
        &'a self,
        event: &Event<K>,
        client: &Client,
        mut requests: Requests<P::Key>,
    ) -> Option<HandlerFuture<'a, P::Key>> {
        // The old object is mapped, too, so that objects to which only the old object refers are requested. In a resync
        // the old and the new object are the same.
        let old = event.old().filter(|_| !event.is_resync());
        let entries = [old, event.current()].into_iter().flatten();
        let objects: Vec<Arc<K>> = entries.map(Entry::object).collect();
        let client = client.clone();
        let limit = self.limit;
        let all = async move {
            for object in objects {
                let found = (self.function)(client.clone(), object).await?;
                for request in found {
                    requests.add(request.into());
                }
            }
            Ok(requests)
        };
        let limited = async move {
            let in_time = timeout(limit, all).await;
            in_time.unwrap_or_else(|_| Err(TookTooLong { limit }.into()))
        };
        Some(limited.boxed())
    }
}
