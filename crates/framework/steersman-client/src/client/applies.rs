//! Handle: the verbs of a client that apply, and send nothing if the object is as the same apply left it.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use serde::Serialize;
use steersman_object::{Kind, Object, Uid};

use super::Client;
use crate::applied::LastApply;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::kinds::KindSource;
use crate::patch::document::ApplyTo;
use crate::shared::apply::Apply;

/// Server-side apply for reconcilers.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped; see [`Client`].
impl<S> Client<S> {
    /// Applies an object as [`apply`](Self::apply) does, unless that would change nothing: nothing is sent if the field
    /// manager owns exactly the fields of the document in the cached object, and they have its values.
    ///
    /// This is decided by the object as the server has it: a digest of the manager's own entry in `managedFields`, with the
    /// values, is kept for each cached object that this program has applied. So a restarted program sends nothing for
    /// what it finds as it left it, nor if only the status changes. A change of an applied field by another writer gives
    /// it another value or another owner, and then the apply is sent, so drift is corrected.
    ///
    /// Where the server writes a value in another form than the document (a quantity such as `1000m`, the empty value of
    /// a field), the digests differ, and nothing is sent only as long as the object has the version that the last equal
    /// apply of this process left. The request is always sent if the document or an option differs
    /// ([`force`](Self::force), the field manager), for a dry run, and for a kind of which no informer runs with whole
    /// objects: an uncached kind, a kind that is only read as metadata, or an object outside the cached namespaces.
    ///
    /// Returns [`Ensured::Created`] if the server created the object, [`Ensured::Updated`] if the request was sent and
    /// the object existed (whether it changed or not), both with the object as the server answered it, and
    /// [`Ensured::Unchanged`] with the cached object if nothing was sent. A change that another client made on the
    /// server a moment ago may still be on its way to the cache; its event runs a reconciler again.
    ///
    /// `steersman_client_skipped_writes_total` counts the applies that are not sent.
    ///
    /// # Errors
    ///
    /// Those of [`apply`](Self::apply).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn f(client: steersman_client::Client, config: ConfigMap) -> Result<(), steersman_client::Error> {
    /// if client.ensure_applied(&config).await?.is_changed() {
    ///     // A request was sent.
    /// }
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn ensure_applied<K: Object>(
        &self,
        object: &K,
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        self.ensure_applied_from(object, ApplyTo::Any, Location::caller())
    }

    /// Applies a part of an object of type `K`, as [`ensure_applied`](Self::ensure_applied) applies an object: any
    /// value that encodes as JSON and has a name in its metadata. `apiVersion` and `kind` are filled in.
    ///
    /// # Errors
    ///
    /// Those of [`apply_part`](Self::apply_part).
    #[track_caller]
    pub fn ensure_applied_part<K: Object>(
        &self,
        part: &(impl Serialize + Sync),
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        self.ensure_applied_from(part, ApplyTo::Any, Location::caller())
    }

    /// Applies a part of an object as [`ensure_applied_part`](Self::ensure_applied_part) does, but only to the object
    /// that the caller found, or as a new object if the caller found none.
    ///
    /// The cache may be behind the server, and an apply takes an object of any origin. An object of the name that
    /// another program created, or created again, a moment ago is left alone here. The request is the same one; the
    /// server checks the condition.
    ///
    /// # Errors
    ///
    /// [`Error::NotAsFound`] if the server has another object, or none, or has one where the caller found none. Otherwise
    /// those of [`apply_part`](Self::apply_part).
    #[track_caller]
    pub fn ensure_applied_to<K: Object>(
        &self,
        found: Option<&K>,
        part: &(impl Serialize + Sync),
    ) -> impl Future<Output = Result<Ensured<K>, Error>> + Send
    where
        S: KindSource<K>,
    {
        let to = match found {
            None => ApplyTo::New,
            Some(found) => ApplyTo::Existing(found.uid_str().to_owned()),
        };
        self.ensure_applied_from(part, to, Location::caller())
    }

    async fn ensure_applied_from<K: Object>(
        &self,
        part: &(impl Serialize + Sync),
        to: ApplyTo,
        caller: &'static Location<'static>,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        let mut apply = self.shared.prepare_apply(&kind, part)?;
        apply.to = to;
        // Boxed, because these futures are large.
        if let Some(object) = Box::pin(self.as_applied(&kind, &apply, caller)).await {
            self.shared.apply_skipped(&kind);
            return Ok(Ensured::Unchanged(object));
        }
        Box::pin(self.shared.apply(&kind, apply)).await
    }

    /// Returns the cached object if it is in the state that an equal apply left.
    ///
    /// CLIENT-10: the read comes after the writes of the client's own request, so the state includes them.
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
        // If the read fails, the request is sent, and has an error of its own if it fails too.
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
