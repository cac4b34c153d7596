//! Handle: subresources by name, whatever their shape.

use std::marker::PhantomData;

use k8s_openapi::api::autoscaling::v1::Scale;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use steersman_api::{Api, Patch, Request};
use steersman_object::{Kind, Object, ObjectKey};

use crate::error::Error;
use crate::shared::Shared;

/// One subresource of a kind, such as `scale` or `resize`: live, with a request each. Made by
/// [`Client::subresource`](crate::Client::subresource).
///
/// What is sent and what is answered need not be of the kind itself: a `Deployment`'s scale is a
/// [`Scale`], and a `Pod`'s resize is the `Pod`. So each verb says what it takes for the answer.
///
/// # Cancel safety
///
/// As that of the [`Client`](crate::Client).
#[derive(Debug)]
#[must_use]
pub struct Subresource<K> {
    shared: Shared,
    kind: Kind,
    name: String,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> Subresource<K> {
    pub(crate) fn new(shared: Shared, kind: Kind, name: impl Into<String>) -> Self {
        Self {
            shared,
            kind,
            name: name.into(),
            of: PhantomData,
        }
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where there is no such object, or its kind has no such subresource;
    /// else what the server says.
    pub async fn get<T: DeserializeOwned>(&self, key: &ObjectKey) -> Result<T, Error> {
        let key = self.shared.key_in_namespace(&self.kind, key)?;
        let api = self.shared.api::<K>(&self.kind).await?;
        let ask = || api.get_part(&key, &self.name);
        Ok(self.shared.sender().read(&self.kind, ask).await?)
    }

    /// POSTs to it: an eviction, a binding, a request for a token.
    ///
    /// # Errors
    ///
    /// What the server says.
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

    /// Replaces it. The server minds the resource version in `body`, where it has one.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) where the version is not the newest; else what the server says.
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

    /// Patches it. A [`Patch::Apply`] is sent as it is: [`apply`](Self::apply) is what names its manager.
    ///
    /// # Errors
    ///
    /// What the server says.
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

    /// Applies it: `body` is of the object's kind where it does not say of which it is.
    ///
    /// # Errors
    ///
    /// As [`Client::apply`](crate::Client::apply).
    pub async fn apply<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        self.shared
            .apply_part(&self.kind, key, &self.name, body)
            .await
    }

    /// Sets the replicas, of a `scale`.
    ///
    /// # Errors
    ///
    /// As [`patch`](Self::patch).
    pub async fn set_replicas(&self, key: &ObjectKey, replicas: i32) -> Result<Scale, Error> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.patch(key, &patch).await
    }

    async fn write<T: DeserializeOwned + Send + 'static>(
        &self,
        key: &ObjectKey,
        request: impl FnOnce(&Api<K>, &ObjectKey) -> Result<Request<T>, steersman_api::Error>,
    ) -> Result<T, Error> {
        let key = self.shared.key_in_namespace(&self.kind, key)?;
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = request(&api, &key)?;
        Ok(self.shared.sender().write(&self.kind, request).await?)
    }
}

impl<K> Clone for Subresource<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            of: PhantomData,
        }
    }
}
