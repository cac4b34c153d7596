//! Handle: typed verbs: reads from the cache, writes to the server.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{Connection, FieldValidation, Mapper};
use steersman_cache::Cache;
use steersman_object::{Kind, Object, ObjectKey, Selection, TypedObject};

use crate::cached;
use crate::consistency::ReadConsistency;
use crate::error::{Error, absent_is_none};
use crate::field_manager;
use crate::kind_client::KindClient;
use crate::live::Live;
use crate::options::{ClientOptions, Lock};
use crate::own_writes::Read;
use crate::route::{Route, route};
use crate::shared::Shared;
use crate::status::StatusClient;
use crate::subresource::Subresource;
use crate::write::RequestId;

mod writes;
mod changes;
mod parts;

/// Reads from the cache and writes to the api-server. Cheap to clone.
///
/// Making one does no I/O. Its connection to the server opens with the first request, in the runtime that
/// makes it.
///
/// # Cancel safety
///
/// A read is cancel safe. A write that was sent is finished by a task of its own: where its future is dropped,
/// the caller does not hear the answer, but those who [observe](ClientOptions::observe_writes) do. `ensure`,
/// `modify` and the finalizers ask more than once where they have to; what was answered by then stands. All of
/// them may simply be called again.
#[derive(Clone, Debug)]
#[must_use]
pub struct Client {
    shared: Shared,
}

impl Client {
    /// A client over a cache and a connection to the same server.
    pub fn new(cache: Cache, connection: Connection) -> Self {
        Self::with_options(cache, connection, ClientOptions::new())
    }

    /// As [`new`](Self::new), with options.
    pub fn with_options(cache: Cache, connection: Connection, options: ClientOptions) -> Self {
        Self {
            shared: Shared::new(cache, connection, options),
        }
    }

    // ===== the same client, with another option =====

    /// The same client, signing its writes with another field manager.
    pub fn field_manager(&self, name: impl Into<String>) -> Self {
        self.with(|options| options.field_manager(name))
    }

    /// The same client, signing its writes as a controller of this program does by default:
    /// `program/controller`.
    ///
    /// The program is [`Connection::program`]: the first word of the `User-Agent`, which
    /// [`Connection::user_agent`] sets and which is the name of the executable otherwise. Characters that
    /// are not printable become `_`. Of a name longer than the 128 bytes that servers take the beginning
    /// and the end are kept, with a hash between them.
    pub fn for_controller(&self, controller: &str) -> Self {
        let program = self.shared.connection().program();
        self.field_manager(field_manager::of_controller(&program, controller))
    }

    /// The same client, in one namespace: it is filled in where an object, a key or a list of a namespaced
    /// kind names none, and another one is refused ([`Error::OtherNamespace`]). Cluster-scoped kinds pass.
    pub fn in_namespace(&self, namespace: impl Into<String>) -> Self {
        self.with(|options| options.namespace(namespace))
    }

    /// The same client, whose writes are checked by the server and not stored.
    pub fn dry_run(&self) -> Self {
        self.with(|options| options.dry_run(true))
    }

    /// The same client, with another answer to fields that the server does not know.
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|options| options.field_validation(validation))
    }

    /// The same client, whose `apply` takes fields over from other managers, or does not.
    pub fn force(&self, force: bool) -> Self {
        self.with(|options| options.force(force))
    }

    /// The same client, whose differences insist on the version they were computed from, or do not.
    pub fn lock(&self, lock: Lock) -> Self {
        self.with(|options| options.lock(lock))
    }

    /// The same client, whose differences change the lists of Kubernetes' own kinds element by element, or do not:
    /// see [`ClientOptions::strategic`].
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

    /// The same client, with another time limit of requests: see [`ClientOptions::request_timeout`]. For one call,
    /// call it on what this returns.
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

    /// The same client, whose cached reads see other writes: see [`ReadConsistency`].
    pub fn read_consistency(&self, consistency: ReadConsistency) -> Self {
        self.with(|options| options.read_consistency(consistency))
    }

    /// The same client, working on behalf of a request: its writes carry it to the
    /// [observers](ClientOptions::observe_writes), and its cached reads see what was written on behalf of the
    /// same one (`RYOW-1`). A reconciler's client is such a one.
    pub fn for_request(&self, request: RequestId) -> Self {
        Self {
            shared: self.shared.with_request(request),
        }
    }

    /// The same client, whose [`writes_finished`](Self::writes_finished) waits for its own writes alone: those
    /// of the result, its clones and the clients made from it. They count as writes of this client too. A
    /// controller has such a one.
    pub fn counting_apart(&self) -> Self {
        Self {
            shared: self.shared.counting_apart(),
        }
    }

    /// On whose behalf it works.
    #[must_use]
    pub fn request(&self) -> Option<&RequestId> {
        self.shared.door().request.as_ref()
    }

    fn with(&self, change: impl FnOnce(ClientOptions) -> ClientOptions) -> Self {
        let options = change(self.shared.options().clone());
        Self {
            shared: self.shared.with_options(options),
        }
    }

    /// The cache it reads from.
    pub fn cache(&self) -> &Cache {
        self.shared.cache()
    }

    /// The server it writes to.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.shared.connection()
    }

    // ===== reads =====

    /// The object, from the cache.
    ///
    /// Waits for the kind's first sync, and until the cache has seen what was written to the object [on behalf
    /// of the same request](Self::for_request). The server is asked past a
    /// [bound](ClientOptions::own_write_wait), where nobody knows what became of such a write, and of a kind that
    /// is declared uncached. In the first two cases it is asked what the informer asks, and the answer is what
    /// the cache would show (`RYOW-6`).
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where the object is absent, or a selector of the cache hides it
    /// ([`scoped_by`](Error::scoped_by)); everything [`steersman_cache::Error`] lists; and, where the server is
    /// asked, what it says.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    #[track_caller]
    pub fn get<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.read(key, Location::caller())
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get), except that an absent object is none.
    #[track_caller]
    pub fn get_opt<K: TypedObject>(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Option<Arc<K>>, Error>> + Send {
        let read = self.read(key, Location::caller());
        async move { absent_is_none(read.await) }
    }

    /// The objects of a kind that `selection` selects, from the cache, in no particular order.
    ///
    /// Waits as [`get`](Self::get). Where nobody knows what became of a write, on behalf of the same request, that
    /// the list could show, the server is asked about that first.
    ///
    /// # Errors
    ///
    /// Everything [`steersman_cache::Error`] lists; of an uncached kind, what the server says;
    /// [`Error::OwnWritesUnseen`] where the cache is too far behind what was written on behalf of the same request.
    #[track_caller]
    pub fn list<K: TypedObject>(
        &self,
        selection: &Selection,
    ) -> impl Future<Output = Result<Vec<Arc<K>>, Error>> + Send {
        let caller = Location::caller();
        async move {
            let reads = self.cache().typed::<K>();
            let kind = reads.kind();
            let placed = self.shared.place_selection(kind, selection)?;
            match route(reads.is_cached()) {
                Route::Cache => {
                    let read = || async { Ok(reads.list_at(&placed, caller).await?.items) };
                    let namespace = placed.selected_namespace();
                    let namespace = namespace.filter(|_| kind.is_namespaced());
                    match self.shared.owes(kind, Read::List(namespace)) {
                        false => Ok(read().await?),
                        true => Box::pin(cached::list(&self.shared, kind, &placed, read)).await,
                    }
                }
                Route::Live => {
                    let objects = Box::pin(self.live().list::<K>(&placed)).await?;
                    Ok(objects.into_iter().map(Arc::new).collect())
                }
            }
        }
    }

    /// A reader that asks the server.
    pub fn live(&self) -> Live {
        Live::new(self.shared.clone())
    }

    /// The verbs of a kind that is known at runtime only, of objects of any type: reads from the cache, writes
    /// to the server.
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
        KindClient::new(self.shared.clone(), kind.clone())
    }

    /// Which kinds the server serves, asked when somebody wants to know. What it found of a group is forgotten
    /// when the server answers a request of this client that it does not serve a kind of it.
    #[must_use]
    pub fn mapper(&self) -> &Mapper {
        &self.shared.door().mapper
    }

    /// The status subresource.
    pub fn status(&self) -> StatusClient {
        StatusClient::new(self.shared.clone())
    }

    /// A subresource by its name: `scale`, `resize`, `ephemeralcontainers`, `approval`, and so on.
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
    pub fn subresource<K: TypedObject>(&self, name: impl Into<String>) -> Subresource<K> {
        Subresource::new(self.shared.clone(), Kind::of::<K>(), name)
    }

    /// Waits until no write of this client, its clones and those made from it with other options is on its
    /// way: what a program does before it ends, because writes outlive those who wait for them.
    ///
    /// An answer may take a minute. A controller that is shut down waits for the writes of its own client
    /// ([`counting_apart`](Self::counting_apart)), for what is left of its grace.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn writes_finished(&self) {
        self.shared.door().under_way.none().await;
    }

    /// The verbs of the kind that `K` is.
    fn typed<K: TypedObject>(&self) -> KindClient<K> {
        KindClient::new(self.shared.clone(), Kind::of::<K>())
    }

    // ===== the way of a read =====

    async fn read<K: TypedObject>(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        match self.at_hand(key) {
            Some(found) => Ok(found),
            // Larger than a read that finds its object at hand should carry along.
            None => Box::pin(self.find(key, caller)).await,
        }
    }

    /// The object, where the cache has it at hand and this client may read it there as it is.
    fn at_hand<K: TypedObject>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        // RYOW-1: before the cache is read. Mostly nothing is owed to this reader.
        if self.shared.may_owe(key.name()) && self.owes::<K>(key) {
            return None;
        }
        let own = self.shared.options().namespace.as_deref();
        if own.is_some_and(|own| key.namespace() != Some(own)) {
            return None;
        }
        // Of an uncached kind nothing is at hand (CLIENT-1).
        self.cache().get_at_hand(key)
    }

    /// Whether a read of the object has to see a write that the cache may not show yet.
    fn owes<K: TypedObject>(&self, key: &ObjectKey) -> bool {
        let reads = self.cache().typed::<K>();
        let kind = reads.kind();
        self.shared.owes(kind, Read::Object(&key.placed(kind)))
    }

    async fn find<K: TypedObject>(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> Result<Arc<K>, Error> {
        let reads = self.cache().typed::<K>();
        match route(reads.is_cached()) {
            Route::Cache => {
                let kind = reads.kind();
                let key = self.shared.place(kind, key)?;
                let read = || reads.get_at(&key, caller);
                match self.shared.owes(kind, Read::Object(&key.placed(kind))) {
                    false => Ok(read().await?),
                    true => cached::get(&self.shared, kind, &key, read).await,
                }
            }
            Route::Live => Ok(Arc::new(self.live().get::<K>(key).await?)),
        }
    }
}

#[cfg(test)]
mod tests;
