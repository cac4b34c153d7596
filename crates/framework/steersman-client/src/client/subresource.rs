//! Handle: reads and writes of subresources by name.

use std::marker::PhantomData;

use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use steersman_api::{Api, Patch, PreparedRequest};
use steersman_object::{Kind, Object, ObjectKey};

use crate::error::Error;
use crate::shared::SharedClient;

/// One subresource of a kind, such as `scale` or `resize`. Every verb sends a request.
/// [`Client::subresource`](crate::Client::subresource) returns this handle.
///
/// The type of the answer is a parameter of each verb, because it depends on the subresource: the scale of a
/// `Deployment` is a [`Scale`], and the resize of a `Pod` is the `Pod`.
///
/// # Cancel safety
///
/// A write that was sent is finished even if its future is dropped; see [`Client`](crate::Client).
#[derive(Clone, Debug)]
#[must_use]
pub struct Subresource<K> {
    shared: SharedClient,
    kind: Kind,
    name: String,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Subresource<K> {
    pub(crate) fn new(shared: SharedClient, kind: Kind, name: impl Into<String>) -> Self {
        Self {
            shared,
            kind,
            name: name.into(),
            of: PhantomData,
        }
    }

    /// Reads the subresource of the object with this key from the server.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if the object is absent or its kind has no such subresource; otherwise
    /// the errors of the server.
    pub async fn get<T: DeserializeOwned>(&self, key: &ObjectKey) -> Result<T, Error> {
        let key = self.shared.options().key_in_namespace(&self.kind, key)?;
        let api = self.shared.api::<K>(&self.kind).await?;
        let ask = || api.get_part(&key, &self.name);
        Ok(self
            .shared
            .sender()
            .read(&self.kind, Some(&key), ask)
            .await?)
    }

    /// Sends `body` to the subresource as a POST: an eviction, a binding or a request for a token, for example.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn create<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let options = self.shared.options().write();
        self.write(key, |api, key| {
            api.create_part_request(key, &self.name, body, &options)
        })
        .await
    }

    /// Replaces the subresource by `body`. If `body` has a resource version, the server compares it with its object.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) if that version is not the newest; otherwise the errors of the server.
    pub async fn update<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let options = self.shared.options().write();
        self.write(key, |api, key| {
            api.update_part_request(key, &self.name, body, &options)
        })
        .await
    }

    /// Patches the subresource. A [`Patch::Apply`] needs a [field manager](crate::Client::field_manager) of the client;
    /// without one use [`apply`](Self::apply), which then sends the name of the program.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn patch<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        patch: &Patch,
    ) -> Result<T, Error> {
        let options = self.shared.options().write();
        self.write(key, |api, key| {
            api.patch_part_request(key, &self.name, patch, &options)
        })
        .await
    }

    /// Sends `body` as a server-side apply. If `body` has no `apiVersion` and no `kind`, the client adds both.
    ///
    /// # Errors
    ///
    /// [`Error::ApplyConflict`], with `force` off, if another manager set a field to another value; otherwise the
    /// errors of the server.
    pub async fn apply<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        self.shared
            .apply_part(&self.kind, key, &self.name, body)
            .await
    }

    /// Sets the number of replicas through the subresource `scale`.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn set_replicas(&self, key: &ObjectKey, replicas: i32) -> Result<Scale, Error> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.patch(key, &patch).await
    }

    async fn write<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        request: impl FnOnce(&Api<K>, &ObjectKey) -> Result<PreparedRequest<T>, steersman_api::Error>,
    ) -> Result<T, Error> {
        let key = self.shared.options().key_in_namespace(&self.kind, key)?;
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = request(&api, &key)?;
        Ok(self.shared.sender().write(&self.kind, request).await?)
    }
}
