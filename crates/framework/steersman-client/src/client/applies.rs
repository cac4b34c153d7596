//! Handle: the server-side apply of a client, with its options.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;
use steersman_object::{AsObject, Kind, Object, Uid};

use super::Client;
use crate::applied::LastApply;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::kinds::KindSource;
use crate::patch::document::ApplyTo;
use crate::shared::apply::Apply;

/// One server-side apply, made by [`Client::apply`] and [`Client::apply_part`]. Awaited, it sends the request and
/// returns the object as the server answered it.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped; see [`Client`].
#[derive(derive_more::Debug)]
#[debug(
    "ApplyRequest {{ client: {client:?}, key: {:?}, .. }}",
    apply.as_ref().map(|apply| &apply.key)
)]
#[must_use = "the object is applied when this is awaited"]
pub struct ApplyRequest<'a, S, K> {
    client: &'a Client<S>,
    apply: Result<Apply, Error>,
    caller: &'static Location<'static>,
    object: PhantomData<fn() -> K>,
}

/// The verbs of server-side apply: it sets fields of an object, and records the client's field manager as the owner of
/// these fields.
impl<S> Client<S> {
    /// Applies an object (server-side apply). Sets the fields that are set in `object`, and removes the fields that
    /// this manager applied before and `object` lacks, unless another manager owns them too. Other fields stay as they
    /// are. Creates the object if it is absent. The request is always sent; a reconciler adds
    /// [`if_changed`](ApplyRequest::if_changed), so that nothing is sent if nothing has changed.
    ///
    /// Fields that only the server sets are left out, and so are `null`s (`Option`s that are `None`), so an object that
    /// was read may be applied as it is. Fields are taken over from other managers unless [`force`](Self::force) is
    /// off. The manager is the [field manager](Self::field_manager) of the client or, without one, the name of the
    /// program.
    ///
    /// # Errors
    ///
    /// [`Error::ApplyConflict`], with `force` off, if another manager set a field to another value: the error names
    /// the manager and the field. [`Error::NotApplicable`] if the object has no name. Otherwise the errors of the
    /// server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn f(client: steersman_client::Client, config: ConfigMap) -> Result<(), steersman_client::Error> {
    /// client.apply(&config).await?;
    /// if let Err(error) = client.force(false).apply(&config).await {
    ///     for conflict in error.conflicts() {
    ///         println!("{} owns {}", conflict.manager, conflict.field);
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn apply<K: Object>(&self, object: &impl AsObject<K>) -> ApplyRequest<'_, S, K>
    where
        S: KindSource<K>,
    {
        self.apply_part(object.as_object())
    }

    /// Applies a part of an object of type `K`: any value that encodes as JSON and has a name in its metadata.
    /// `apiVersion` and `kind` are filled in.
    ///
    /// # Errors
    ///
    /// The errors of [`apply`](Self::apply); also [`Error::NotApplicable`] if the part names another kind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use serde_json::json;
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let paused = json!({
    ///     "metadata": {"name": "front", "namespace": "shop"},
    ///     "spec": {"paused": true},
    /// });
    /// client.field_manager("freeze").apply_part::<Deployment>(&paused).await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn apply_part<K: Object>(&self, part: &(impl Serialize + Sync)) -> ApplyRequest<'_, S, K>
    where
        S: KindSource<K>,
    {
        ApplyRequest {
            client: self,
            apply: self.shared.prepare_apply(&self.kinds.kind_of(), part),
            caller: Location::caller(),
            object: PhantomData,
        }
    }

    /// Returns the cached object if the apply would change nothing: the object still has the version that the last
    /// equal apply left, or the field manager owns exactly the applied fields, with the applied values.
    ///
    /// CLIENT-10: the read waits for the earlier writes of the same reconcile request, so the object includes them.
    async fn as_applied<K: Object>(
        &self,
        kind: &Kind,
        apply: &Apply,
        caller: &'static Location<'static>,
    ) -> Option<Arc<K>>
    where
        S: KindSource<K>,
    {
        if !self.reads::<K>().is_cached() {
            return None;
        }
        let last = self.shared.last_apply(kind, apply)?;
        if last == LastApply::Other {
            return None;
        }
        // An error of the read only means that the apply is sent; if the apply fails, too, it returns its own error.
        let found = self.read::<K>(&apply.key, caller).await.ok()?;
        let version = found.stored_version();
        if let LastApply::Equal(left) = &last {
            if Uid::new(found.uid_str()) != left.uid || !version.is_at_least(&left.version) {
                return None;
            }
            if version == left.version {
                return Some(found);
            }
        }
        let is_applied = self.shared.is_applied(kind, apply, &version);
        is_applied.then_some(found)
    }
}

impl<S: KindSource<K>, K: Object> ApplyRequest<'_, S, K> {
    /// Limits the apply to the object `found` or, for `None`, to the creation of an object that the caller did not
    /// find.
    ///
    /// The cache may be behind the server, so another program may have created or recreated an object of this name
    /// meanwhile. Without the limit, the apply would change that object; with the limit, the server refuses the apply.
    ///
    /// The result is [`Error::NotAsFound`] if the server has another object or no object or, for `None`, an object.
    pub fn only_to(mut self, found: Option<&K>) -> Self {
        if let Ok(apply) = &mut self.apply {
            apply.to = match found {
                None => ApplyTo::New,
                Some(found) => ApplyTo::Existing(found.uid_str().to_owned()),
            };
        }
        self
    }

    /// Applies the object unless the apply would change nothing. Nothing is sent if, in the cached object, the field
    /// manager owns exactly the fields of the document, and they have the values of the document.
    ///
    /// A digest of the manager's own entry in `managedFields`, with the values, is kept for each cached object that
    /// this program has applied. So a restarted program sends nothing for an object that it finds unchanged, and a
    /// change of the status sends nothing. A change of an applied field by another writer changes its value or its
    /// owner: then the apply is sent, which corrects the drift.
    ///
    /// Where the server stores a value in another form than the document (a quantity such as `1000m`, the empty value
    /// of a field), the digests differ, and nothing is sent only while the object has the version that the last equal
    /// apply of this process left. The request is always sent if the document or an option differs
    /// ([`force`](Client::force), the field manager), for a dry run, and if no informer holds the whole object: for an
    /// uncached kind, a kind that is only read as metadata, or an object outside the cached namespaces.
    ///
    /// Returns [`Ensured::Created`] if the server created the object, [`Ensured::Updated`] if the request was sent and
    /// the object existed (changed or not), both with the object as the server answered it, and [`Ensured::Unchanged`]
    /// with the cached object if nothing was sent. If another client changed the object a moment ago, the cache may not
    /// show the change yet; the event of that change runs a reconciler again.
    ///
    /// `steersman_client_skipped_writes_total` counts the applies that are not sent.
    ///
    /// # Errors
    ///
    /// Those of [`apply`](Client::apply).
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is finished even if this future is dropped; see [`Client`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn f(client: steersman_client::Client, config: ConfigMap) -> Result<(), steersman_client::Error> {
    /// if client.apply(&config).if_changed().await?.is_changed() {
    ///     // A request was sent.
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn if_changed(self) -> Result<Ensured<K>, Error> {
        let (client, kind, apply) = (self.client, self.client.kinds.kind_of(), self.apply?);
        // These futures are boxed, because they are large and would enlarge the future of every caller.
        if let Some(object) = Box::pin(client.as_applied(&kind, &apply, self.caller)).await {
            client.shared.apply_skipped(&kind);
            return Ok(Ensured::Unchanged(object));
        }
        Box::pin(client.shared.apply(&kind, apply)).await
    }
}

impl<'a, S: KindSource<K>, K: Object> IntoFuture for ApplyRequest<'a, S, K> {
    type Output = Result<K, Error>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let kind = self.client.kinds.kind_of();
            let applied = self.client.shared.apply(&kind, self.apply?).await?;
            Ok(Arc::unwrap_or_clone(applied.into_object()))
        })
    }
}
