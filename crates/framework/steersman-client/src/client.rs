//! Handle: the client: reads from the cache, writes to the API server.

pub(crate) mod status;
pub(crate) mod subresource;
mod writes;
pub(crate) mod applies;
pub(crate) mod ensures;
mod changes;
mod actions;
mod waits;

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{ClientConfig, FieldValidation, Mapper};
use steersman_cache::{Cache, Reads};
use steersman_object::{Kind, ListOptions, Object, ObjectKey};
use tracing::Instrument as _;

use crate::consistency::ReadConsistency;
use crate::error::{Error, absent_is_none};
use crate::field_manager;
use crate::kinds::{KindSource, OneKind, TypedKinds};
use crate::options::{ClientOptions, OptimisticLock};
use crate::own_writes::unseen_writes::Read;
use crate::read::cached;
use crate::read::live::{self, Live};
use crate::shared::SharedClient;
use crate::spans::{cached_read_span, waiting};
use crate::wait_observer::WaitObserver;
use crate::write::{RequestId, WriteObserver};
use status::StatusClient;
use subresource::Subresource;

/// Reads from the cache and writes to the API server. Cheap to clone.
///
/// `Client` without a parameter reads and writes every type that names its kind
/// ([`TypedObject`](steersman_object::TypedObject)). [`KindClient<K>`](KindClient) has the same verbs for one kind
/// that is known at runtime.
///
/// Making a client does no I/O. Its connection to the server opens with the first request, in the runtime that sends
/// the request.
///
/// # Cancel safety
///
/// A read is cancel safe. A write that was sent is finished by a task of its own: if its future is dropped, the caller
/// does not get the answer, but the [observers](ClientOptions::observe_writes) do. `ensure`, `modify` and the
/// finalizer verbs may send several requests; the requests that were answered before the drop stand. All verbs may be
/// called again.
#[derive(Clone, Debug)]
#[must_use]
pub struct Client<S = TypedKinds> {
    shared: SharedClient,
    kinds: S,
}

/// A [`Client`] of one kind that is known only at runtime, with objects of type `K`: `DynamicObject`, or a type to
/// which several kinds decode. [`Client::of`] makes it.
pub type KindClient<K> = Client<OneKind<K>>;

impl Client {
    /// Makes a client of a cache and a client configuration for the same server, with the default options.
    pub fn new(cache: Cache, client_config: ClientConfig) -> Self {
        Self::with_options(cache, client_config, ClientOptions::new())
    }

    /// Makes a client of a cache, a client configuration for the same server, and these options.
    pub fn with_options(cache: Cache, client_config: ClientConfig, options: ClientOptions) -> Self {
        Self {
            shared: SharedClient::new(cache, client_config, options),
            kinds: TypedKinds,
        }
    }
}

impl<K: Object> KindClient<K> {
    /// Returns the kind that this client reads and writes.
    pub fn kind(&self) -> &Kind {
        &self.kinds.kind
    }
}

/// Copies of a client with other options, and access to its cache, configuration and mapper.
impl<S: Clone> Client<S> {
    /// Returns a copy of this client with another field manager: see [`ClientOptions::field_manager`].
    pub fn field_manager(&self, name: impl Into<String>) -> Self {
        self.with(|options| options.field_manager(name))
    }

    /// Returns the field manager set for this client; `None` means the server's default, the name of the program.
    pub fn given_field_manager(&self) -> Option<&str> {
        self.shared.options().given_field_manager()
    }

    /// Returns a copy of this client with the default field manager of a controller: `program/controller`.
    ///
    /// The program is [`ClientConfig::program`]: the name set with [`ClientConfig::user_agent`], by default the name of
    /// the executable. Characters that are not printable become `_`. A name longer than the server's limit of 128 bytes
    /// is shortened in the middle, with a hash in place of the cut part.
    pub fn for_controller(&self, controller: &str) -> Self {
        let program = self.shared.client_config().program();
        self.field_manager(field_manager::of_controller(&program, controller))
    }

    /// Returns a copy of this client that is limited to one namespace. An object, key or list of a namespaced kind
    /// without a namespace gets this namespace, and another namespace is refused ([`Error::OtherNamespace`]).
    /// Cluster-scoped kinds are not affected.
    pub fn in_namespace(&self, namespace: impl Into<String>) -> Self {
        self.with(|options| options.namespace(namespace))
    }

    /// Returns a copy of this client for dry runs: the server checks the writes and does not store them.
    pub fn dry_run(&self) -> Self {
        self.with(|options| options.dry_run(true))
    }

    /// Returns a copy of this client with another setting of whether the server drops or refuses fields that it does
    /// not know: see [`ClientOptions::field_validation`].
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|options| options.field_validation(validation))
    }

    /// Returns a copy of this client with another rule for applied fields that other managers own: an apply takes them
    /// over (`true`) or fails (`false`). See [`ClientOptions::force`].
    pub fn force(&self, force: bool) -> Self {
        self.with(|options| options.force(force))
    }

    /// Returns a copy of this client with another setting of when a patch carries a resource version, with which the
    /// server refuses the patch if the object has changed: see [`OptimisticLock`].
    pub fn lock(&self, lock: OptimisticLock) -> Self {
        self.with(|options| options.lock(lock))
    }

    /// Returns a copy of this client that sends differences as strategic merge patches (`true`), or as JSON merge
    /// patches (`false`): see [`ClientOptions::strategic`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn f(client: steersman_client::Client, front: Deployment) -> Result<(), steersman_client::Error> {
    /// let paint = |front: &mut Deployment| {
    ///     let pod = front.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
    ///     for container in pod.into_iter().flat_map(|pod| &mut pod.containers) {
    ///         if container.name == "web" {
    ///             container.image = Some("nginx:1.29".to_owned());
    ///         }
    ///     }
    /// };
    /// // Names the container `web` and no other.
    /// client.strategic(true).modify(&front, paint).await?;
    /// # Ok(()) }
    /// ```
    pub fn strategic(&self, strategic: bool) -> Self {
        self.with(|options| options.strategic(strategic))
    }

    /// Returns a copy of this client with another time limit of requests: see [`ClientOptions::request_timeout`]. To
    /// limit a single call, call the verb on the copy.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_object::ObjectKey;
    /// # async fn f(client: steersman_client::Client, key: ObjectKey) -> Result<(), steersman_client::Error> {
    /// let quick = client.request_timeout(Duration::from_secs(5));
    /// let now: ConfigMap = quick.live().get(&key).await?;
    /// # let _ = now; Ok(()) }
    /// ```
    pub fn request_timeout(&self, limit: Duration) -> Self {
        self.with(|options| options.request_timeout(limit))
    }

    /// Returns a copy of this client with another choice of the writes that cached reads wait for: [`ReadConsistency`].
    pub fn read_consistency(&self, consistency: ReadConsistency) -> Self {
        self.with(|options| options.read_consistency(consistency))
    }

    /// Returns a copy of this client with which a get may (`true`) or may not (`false`) return the object from the
    /// server's answer to a write of the same request: see [`ClientOptions::own_answers`].
    pub fn own_answers(&self, own_answers: bool) -> Self {
        self.with(|options| options.own_answers(own_answers))
    }

    /// Returns a copy of this client for a reconcile request: the [observers](ClientOptions::observe_writes) of its
    /// writes see the request, and its cached reads see the earlier writes of the same request (RYOW-1). Each reconcile
    /// gets such a client.
    pub fn for_request(&self, request: RequestId) -> Self {
        self.over(self.shared.with_request(request))
    }

    /// Returns a copy of this client with its own count of writes in flight: [`writes_finished`](Self::writes_finished)
    /// of the copy waits only for the writes of the copy, its clones and the clients made from it. These writes also
    /// count as writes of this client. Each controller has such a copy, so that it can wait for its own writes when it
    /// stops.
    pub fn counting_apart(&self) -> Self {
        self.over(self.shared.counting_within(&self.shared))
    }

    /// Returns a copy of this client with its own count of writes in flight, as
    /// [`counting_apart`](Self::counting_apart) does. Its writes also count as writes of `whole`, and not as writes of
    /// this client. The client of a further cluster is such a copy, so that the manager's own client counts the writes
    /// to all clusters.
    pub fn counting_within<T>(&self, whole: &Client<T>) -> Self {
        self.over(self.shared.counting_within(&whole.shared))
    }

    /// Returns a copy of this client with an observer of its waits, and of those of clients made from it; see
    /// [`ClientOptions::observe_waits`].
    pub fn waits_observed_by(&self, observer: Arc<dyn WaitObserver>) -> Self {
        self.with(|options| options.observe_waits(observer))
    }

    /// Returns a copy of this client with a further observer. The observer is called for the writes of the copy and of
    /// the clients made from the copy.
    pub fn observed_by(&self, observer: Arc<dyn WriteObserver>) -> Self {
        self.with(|options| options.observe_writes(observer))
    }

    /// Returns the reconcile request that the client works for; `None` if the client was not made by
    /// [`for_request`](Self::for_request).
    pub fn request(&self) -> Option<&RequestId> {
        self.shared.sender().request.as_ref()
    }

    fn with(&self, change: impl FnOnce(ClientOptions) -> ClientOptions) -> Self {
        let options = change(self.shared.options().clone());
        self.over(self.shared.with_options(options))
    }

    fn over(&self, shared: SharedClient) -> Self {
        Self {
            shared,
            kinds: self.kinds.clone(),
        }
    }

    /// Returns the cache from which this client reads.
    pub fn cache(&self) -> &Cache {
        self.shared.cache()
    }

    /// Returns the client configuration for the server that the client writes to.
    pub fn client_config(&self) -> &ClientConfig {
        self.shared.client_config()
    }

    /// Returns a client of one kind that is known at runtime, with objects of type `K`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// use kube_core::DynamicObject;
    /// use steersman_object::{Gvk, ObjectKey};
    ///
    /// let kind = client.mapper().kind(&Gvk::new("web.example.com", "v1", "Website")).await?;
    /// let sites = client.of::<DynamicObject>(&kind);
    /// let site = sites.get(&ObjectKey::namespaced("shop", "front")).await?;
    /// println!("{}", site.data["spec"]["image"]);
    /// # Ok(()) }
    /// ```
    pub fn of<K: Object>(&self, kind: &Kind) -> KindClient<K> {
        Client {
            shared: self.shared.clone(),
            kinds: OneKind::new(kind.clone()),
        }
    }

    /// Returns the mapper, which finds the [`Kind`] of a group, version and kind name by asking the server on demand.
    /// If the server answers a request of this client that it does not serve the kind, the mapper forgets the kinds of
    /// that API group, and asks the server about them again.
    pub fn mapper(&self) -> &Mapper {
        &self.shared.sender().mapper
    }

    /// Returns a handle for reads that ask the API server instead of the cache.
    pub fn live(&self) -> Live<S> {
        Live::new(self.shared.clone(), self.kinds.clone())
    }

    /// Returns a handle for writes of the status subresource.
    pub fn status(&self) -> StatusClient<S> {
        StatusClient::new(self.shared.clone(), self.kinds.clone())
    }

    /// Returns a handle for a subresource by name: `scale`, `resize`, `ephemeralcontainers`, `approval`, and so on.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use k8s_openapi::api::autoscaling::v1::Scale;
    /// # use steersman_object::ObjectKey;
    /// # async fn f(client: steersman_client::Client, key: ObjectKey) -> Result<(), steersman_client::Error> {
    /// let scale = client.subresource::<Deployment>("scale");
    /// let now: Scale = scale.get(&key).await?;
    /// if now.spec.and_then(|spec| spec.replicas) != Some(3) {
    ///     scale.set_replicas(&key, 3).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn subresource<K: Object>(&self, name: impl Into<String>) -> Subresource<K>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of().into_owned();
        Subresource::new(self.shared.clone(), kind, name)
    }

    /// Waits until no write of this client, its clones, and the clients made from it is in flight. A program calls this
    /// method before it ends, because its end would abort the writes in flight.
    ///
    /// The answer to a write may take a minute. A controller that shuts down waits for the writes of its own client
    /// ([`counting_apart`](Self::counting_apart)) within its grace period.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn writes_finished(&self) {
        self.shared.sender().in_flight.none().await;
    }
}

/// Reads objects from the cache, or from the server where the cache cannot answer the read.
///
/// # Cancel safety
///
/// Every read is cancel safe.
impl<S> Client<S> {
    /// Returns an object from the cache.
    ///
    /// Waits for the kind's first sync. Until the cache has seen the writes to the object [on behalf of the same
    /// request](Self::for_request), returns the object from the server's answer to the last of these writes
    /// ([`ClientOptions::own_answers`]). The read waits for the cache instead after a delete or the write of a `Scale`,
    /// for a kind that the cache selects by a field selector, or if a label selector of the cache excludes the answered
    /// object.
    ///
    /// The server is asked in three cases: the wait exceeds its [bound](ClientOptions::own_write_wait), the outcome of
    /// one of these writes is unknown, or the kind is declared uncached. In the first two cases the request has the
    /// informer's namespace and selectors, so the answer is what the cache would show (RYOW-6).
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if the object is absent, or a selector of the cache hides it
    /// ([`scoped_by`](Error::scoped_by)); every [`steersman_cache::Error`]; the errors of the server if it is asked.
    #[track_caller]
    pub fn get<K: Object>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        self.read(key, Location::caller())
    }

    /// Returns an object as [`get`](Self::get) does, or `None` if it is absent.
    ///
    /// # Errors
    ///
    /// Every [`steersman_cache::Error`] except the error of an absent object; the errors of the server if it is asked.
    #[track_caller]
    pub fn get_opt<K: Object>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send
    where
        S: KindSource<K>,
    {
        let read = self.read(key, Location::caller());
        async move { absent_is_none(read.await) }
    }

    /// Returns the selected objects from the cache, in no particular order.
    ///
    /// Waits for the kind's first sync, and until the cache has seen the earlier writes of the same request. If the
    /// outcome of a write of the same request is unknown and the list could show that write, the server is asked about
    /// it first.
    ///
    /// # Errors
    ///
    /// Every [`steersman_cache::Error`]; for an uncached kind, the errors of the server;
    /// [`Error::OwnWritesUnseen`] if the cache is too far behind the writes of the same request.
    #[track_caller]
    pub fn list<K: Object>(
        &self,
        list_options: &ListOptions,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send
    where
        S: KindSource<K>,
    {
        let caller = Location::caller();
        async move {
            let reads = self.reads::<K>();
            let kind = reads.kind();
            let options = self.shared.options();
            let placed = options.list_in_namespace(kind, list_options)?;
            if !reads.is_cached() {
                let objects = Box::pin(live::list::<K>(&self.shared, kind, &placed)).await?;
                return Ok(objects.into_iter().map(Arc::new).collect());
            }
            let read = || async { Ok(reads.list_at(&placed, caller).await?.items) };
            let namespace = placed.selected_namespace();
            let namespace = namespace.filter(|_| kind.is_namespaced());
            match self.shared.owes(kind, Read::List(namespace)) {
                false => Ok(waiting(read(), || cached_read_span(kind, None)).await?),
                true => {
                    let listing = Box::pin(cached::list(&self.shared, kind, &placed, read));
                    listing.instrument(cached_read_span(kind, None)).await
                }
            }
        }
    }

    async fn read<K: Object>(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error>
    where
        S: KindSource<K>,
    {
        match self.decoded(key) {
            Some(found) => Ok(found),
            // This future is boxed, because it is much larger than the future of a read of a decoded object.
            None => Box::pin(self.find(key, caller)).await,
        }
    }

    /// Returns the object if the cache holds it decoded and this client has no write to wait for; `None` otherwise.
    fn decoded<K: Object>(&self, key: &ObjectKey) -> Option<Arc<K>>
    where
        S: KindSource<K>,
    {
        // RYOW-1: a read must see the earlier writes of its own request. The writes are checked before the cache is
        // read: a check after the read would miss a write that the cache has seen in between.
        if self.shared.may_owe(key.name()) {
            let reads = self.reads::<K>();
            let kind = reads.kind();
            if self.shared.owes(kind, Read::Object(&key.placed(kind))) {
                return None;
            }
        }
        let own = self.shared.options().namespace.as_deref();
        if own.is_some_and(|own| key.namespace() != Some(own)) {
            return None;
        }
        // CLIENT-1: the cache returns `None` for a kind that is declared uncached, so that `find` reads it from the
        // server.
        self.kinds.decoded(self.shared.cache(), key)
    }

    async fn find<K: Object>(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error>
    where
        S: KindSource<K>,
    {
        let reads = self.reads::<K>();
        let kind = reads.kind();
        // CLIENT-1: a kind that is declared uncached is read from the server, and every other kind from the cache.
        if !reads.is_cached() {
            return Ok(Arc::new(live::get(&self.shared, kind, key).await?));
        }
        let key = self.shared.options().key_in_namespace(kind, key)?;
        let read = || reads.get_at(&key, caller);
        match self.shared.owes(kind, Read::Object(&key.placed(kind))) {
            false => Ok(waiting(read(), || cached_read_span(kind, Some(&key))).await?),
            true => {
                let getting = Box::pin(cached::get(&self.shared, kind, &key, read));
                getting.instrument(cached_read_span(kind, Some(&key))).await
            }
        }
    }

    fn reads<K: Object>(&self) -> Reads<K>
    where
        S: KindSource<K>,
    {
        self.kinds.reads(self.shared.cache())
    }
}

#[cfg(test)]
mod tests;
