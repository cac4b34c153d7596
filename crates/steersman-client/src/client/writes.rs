//! Handle: the verbs that write.

use kube_core::DynamicObject;
use serde::Serialize;
use serde_json::Value;
use steersman_api::{DeleteOptions, Patch};
use steersman_object::{ObjectKey, Selection, TypedObject, WholeObject};

use super::Client;
use crate::document::gvk_of;
use crate::ensure::Ensured;
use crate::error::Error;

/// Writes: to the server, and nowhere else.
///
/// # Cancel safety
///
/// What was sent is finished, whoever waits for it; see [`Client`].
impl Client {
    /// Creates the object; answers it as the server stored it.
    ///
    /// # Errors
    ///
    /// [`is_already_exists`](Error::is_already_exists) where there is one of its name; this says so where the
    /// cache's selectors hide it. Else what the server says.
    pub async fn create<K: TypedObject + WholeObject<By>, By>(
        &self,
        object: &K,
    ) -> Result<K, Error> {
        self.typed().create(object).await
    }

    /// Replaces the object by this one, refused when it changed since it was read.
    ///
    /// What the object lacks is removed from the one on the server. So metadata alone, and any type that is not known
    /// to hold all of its kind ([`WholeObject`]), do not compile here:
    ///
    /// ```compile_fail
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_core::PartialObjectMeta;
    /// # async fn f(client: steersman_client::Client, meta: PartialObjectMeta<Pod>) {
    /// client.update(&meta).await.unwrap();
    /// # }
    /// ```
    ///
    /// And a kind that the cache holds through a transform is never replaced, wherever the object was read: nothing
    /// in it says so. [`modify`](Self::modify) and [`merge`](Self::merge) send what differs, which is safe with
    /// objects that lack something.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] where it has no resource version, [`is_conflict`](Error::is_conflict) where that
    /// is not the newest, [`is_not_found`](Error::is_not_found) where it is gone or another has its name,
    /// [`Error::Transformed`] where the kind is cached through a transform. Else what the server says.
    pub async fn update<K: TypedObject + WholeObject<By>, By>(
        &self,
        object: &K,
    ) -> Result<K, Error> {
        self.typed().update(object).await
    }

    /// Sends a patch; answers the object as the server stored it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn patch<K: TypedObject>(&self, key: &ObjectKey, patch: &Patch) -> Result<K, Error> {
        self.typed().patch(key, patch).await
    }

    /// Changes `before` into `after`: sends their difference as a merge patch, once, and nothing where there is
    /// none. What only the server sets is left out of it, `managedFields` among them.
    ///
    /// The patch insists on the version of `before` as [`Lock`](crate::Lock) says, and always on its uid.
    /// [`modify`](Self::modify) is the same with a closure, which can be run again.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) where the patch insists and the object has changed since;
    /// [`is_not_found`](Error::is_not_found) where it is gone, or another has its name; [`Error::Renamed`] where the
    /// two have not one key; else what the server says.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn f(client: steersman_client::Client, before: ConfigMap) -> Result<(), steersman_client::Error> {
    /// use steersman_client::Lock;
    ///
    /// let mut after = before.clone();
    /// after.data.get_or_insert_default().insert("sky".to_owned(), "blue".to_owned());
    /// client.lock(Lock::Always).merge(&before, &after).await?;
    /// # Ok(()) }
    /// ```
    pub async fn merge<K: TypedObject>(&self, before: &K, after: &K) -> Result<Ensured<K>, Error> {
        self.typed().merge(before, after).await
    }

    /// Applies the object (server-side apply): makes the fields that are set in it what they are in it, whether
    /// the object is there or not, and leaves all others alone.
    ///
    /// What was applied before and is not in it any more is removed, unless another manager owns it too. What
    /// only the server sets is left out, and so is what is null, which in Rust is an `Option` that is not set:
    /// an object read before may be applied as it is. Fields are taken over from other managers unless
    /// [`force`](Self::force) says otherwise. The manager is the [field manager](Self::field_manager) of the client,
    /// else what the program calls itself.
    ///
    /// # Errors
    ///
    /// [`Error::ApplyConflict`], without force, where another manager set a field to another value: it names
    /// both. [`Error::NotApplicable`] where the object has no name. Else what the server says.
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
    pub async fn apply<K: TypedObject>(&self, object: &K) -> Result<K, Error> {
        self.typed().apply(object).await
    }

    /// Applies a part of an object of kind `K`: anything that encodes as JSON and has a name in its metadata.
    /// `apiVersion` and `kind` are filled in.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply); [`Error::NotApplicable`] where it calls itself of another kind.
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
    pub async fn apply_part<K: TypedObject>(
        &self,
        part: &(impl Serialize + Sync),
    ) -> Result<K, Error> {
        self.typed().apply(part).await
    }

    /// Applies an object, or a part of one, of whatever kind it says it is: a manifest.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply); [`Error::NotApplicable`] where it does not name its `apiVersion` and `kind`, and
    /// an error of the server where that does not serve them.
    pub async fn apply_manifest(
        &self,
        manifest: &(impl Serialize + Sync),
    ) -> Result<DynamicObject, Error> {
        let kind = self.mapper().kind(&gvk_of(manifest)?).await?;
        self.of(&kind).apply(manifest).await
    }

    /// The fields of an object that this client's manager has applied, as a document that can be changed and
    /// applied again; see [`extract()`](crate::extract()).
    ///
    /// # Errors
    ///
    /// [`Error::NoManagedFields`] where the object came without them: read it live.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use steersman_object::ObjectKey;
    /// # async fn f(client: steersman_client::Client, key: ObjectKey) -> Result<(), steersman_client::Error> {
    /// let deployment: Deployment = client.live().get(&key).await?;
    /// let mut ours = client.extract(&deployment)?;
    /// ours["spec"]["replicas"] = 3.into();
    /// client.apply_part::<Deployment>(&ours).await?;
    /// # Ok(()) }
    /// ```
    pub fn extract<K: TypedObject>(&self, object: &K) -> Result<Value, Error> {
        self.typed().extract(object)
    }

    /// Deletes this very object: one of its name with another uid is left alone.
    ///
    /// The object is gone when this returns, unless finalizers hold it.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where it is gone; a conflict where another has its name.
    pub async fn delete<K: TypedObject>(&self, object: &K) -> Result<(), Error> {
        self.typed().delete(object).await
    }

    /// Deletes whatever object has this key.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where there is none.
    pub async fn delete_key<K: TypedObject>(&self, key: &ObjectKey) -> Result<(), Error> {
        self.typed::<K>().delete_key(key).await
    }

    /// Deletes by key, with options.
    ///
    /// # Errors
    ///
    /// As [`delete_key`](Self::delete_key); a conflict where a precondition does not hold.
    pub async fn delete_with<K: TypedObject>(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        self.typed::<K>().delete_with(key, options).await
    }

    /// Deletes the selected objects in one request; returns the keys of
    /// those that the server names. Of a namespaced kind, in one namespace.
    ///
    /// The server deletes them one after the other and stops at the first that it cannot: what was deleted by
    /// then stays deleted.
    ///
    /// # Errors
    ///
    /// What the server says; without a namespace, of a namespaced kind, the request is not sent.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_api::DeleteOptions;
    /// # use steersman_object::{FieldSelector, LabelSelector, Selection};
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let done = Selection::new()
    ///     .namespace("shop")
    ///     .labels(LabelSelector::label("job", "import"))
    ///     .fields(FieldSelector::new().equals("status.phase", "Succeeded"));
    /// client.delete_all::<Pod>(&done, &DeleteOptions::new()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn delete_all<K: TypedObject>(
        &self,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<Vec<ObjectKey>, Error> {
        self.typed::<K>().delete_all(selection, options).await
    }
}
