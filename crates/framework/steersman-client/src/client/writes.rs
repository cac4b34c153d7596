//! Handle: the methods of a client that send writes.

use kube_core::DynamicObject;
use serde::Serialize;
use serde_json::Value;
use steersman_api::{DeleteOptions, Patch};
use steersman_object::{AsObject, ListOptions, Object, ObjectKey, ResourceVersion, WholeObject};

use super::Client;
use crate::ensure::Ensured;
use crate::error::Error;
use crate::kinds::KindSource;
use crate::patch::change::ChangedPart;
use crate::patch::document::gvk_of;
use crate::patch::extract::extract;

/// Creates, replaces, patches and deletes objects on the API server.
///
/// # Cancel safety
///
/// A request that was sent is finished even if its future is dropped; see [`Client`].
impl<S> Client<S> {
    /// Creates an object; returns it as the server stored it.
    ///
    /// # Errors
    ///
    /// [`is_already_exists`](Error::is_already_exists) if an object of the name exists; the error says so if a selector
    /// hides that object from the cache. Otherwise the errors of the server.
    pub async fn create<K: WholeObject<By>, By>(
        &self,
        object: &impl AsObject<K>,
    ) -> Result<K, Error>
    where
        S: KindSource<K>,
    {
        let object = object.as_object();
        self.shared.create(&self.kinds.kind_of(), object).await
    }

    /// Replaces the object on the server by `object`. The server refuses the request if the object changed since it was
    /// read.
    ///
    /// A field that `object` lacks is removed on the server. So metadata alone, and any type that is not declared to
    /// hold all fields of its kind ([`WholeObject`]), do not compile here:
    ///
    /// ```compile_fail
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_core::PartialObjectMeta;
    /// # async fn f(client: steersman_client::Client, meta: PartialObjectMeta<Pod>) {
    /// client.update(&meta).await.unwrap();
    /// # }
    /// ```
    ///
    /// An object of a kind that the cache holds through a transform is never replaced, not even an object that was read
    /// from the server: the object does not show from where it was read. [`modify`](Self::modify) and
    /// [`merge`](Self::merge) send only the difference, which is safe with an object that lacks fields.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMissing`] if the object has no resource version, [`is_conflict`](Error::is_conflict) if that
    /// version is not the newest, [`is_not_found`](Error::is_not_found) if the object is gone or another object has
    /// its name, [`Error::Transformed`] if the kind is cached through a transform. Otherwise the errors of the server.
    pub async fn update<K: WholeObject<By>, By>(
        &self,
        object: &impl AsObject<K>,
    ) -> Result<K, Error>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of();
        self.shared
            .replace(&kind, object.as_object(), ChangedPart::Object)
            .await
    }

    /// Sends a patch; returns the object as the server stored it.
    ///
    /// # Errors
    ///
    /// The errors of the server.
    pub async fn patch<K: Object>(&self, key: &ObjectKey, patch: &Patch) -> Result<K, Error>
    where
        S: KindSource<K>,
    {
        let kind = &*self.kinds.kind_of();
        let key = self.shared.options().key_in_namespace(kind, key)?;
        let options = self.shared.options().write();
        let api = self.shared.api::<K>(kind).await?;
        let request = api.patch_request(&key, patch, &options)?;
        Ok(self.shared.sender().write(kind, request).await?)
    }

    /// Changes `before` into `after`: sends the difference of the two objects as a merge patch, in one request, or
    /// nothing if they are equal. Fields that only the server sets, such as `managedFields`, are left out.
    ///
    /// The patch always carries the uid of `before`, and also its resource version if the
    /// [`OptimisticLock`](crate::OptimisticLock) of the client requires that. [`modify`](Self::modify) takes a closure
    /// instead of `after`, and can compute the difference again after a conflict.
    ///
    /// # Errors
    ///
    /// [`is_conflict`](Error::is_conflict) if the patch carries a version and the object has changed since;
    /// [`is_not_found`](Error::is_not_found) if the object is gone or another object has its name; [`Error::Renamed`]
    /// if the keys of the two differ; otherwise the errors of the server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn f(client: steersman_client::Client, before: ConfigMap) -> Result<(), steersman_client::Error> {
    /// use steersman_client::OptimisticLock;
    ///
    /// let mut after = before.clone();
    /// after.data.get_or_insert_default().insert("sky".to_owned(), "blue".to_owned());
    /// client.lock(OptimisticLock::Always).merge(&before, &after).await?;
    /// # Ok(()) }
    /// ```
    pub async fn merge<K: Object>(
        &self,
        before: &impl AsObject<K>,
        after: &impl AsObject<K>,
    ) -> Result<Ensured<K>, Error>
    where
        S: KindSource<K>,
    {
        let (before, after) = (before.as_object(), after.as_object());
        let kind = self.kinds.kind_of();
        self.shared
            .merge(&kind, before, after, ChangedPart::Object)
            .await
    }

    /// Returns the fields of an object that this client's manager has applied, as a document that can be changed and
    /// applied again; see [`extract()`](crate::extract()).
    ///
    /// # Errors
    ///
    /// [`Error::NoManagedFields`] if the object lacks its `managedFields`: a cache removes them, so read the object
    /// live.
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
    pub fn extract<K: Object>(&self, object: &impl AsObject<K>) -> Result<Value, Error>
    where
        S: KindSource<K>,
    {
        extract(
            &self.kinds.kind_of(),
            object.as_object(),
            &self.shared.manager(),
            None,
        )
    }

    /// Deletes `object` on the server. An object of the same name with another uid is left alone.
    ///
    /// The object is gone when the method returns, unless it has finalizers or a grace period.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if the object is gone; a conflict if another object has its name.
    pub async fn delete<K: Object>(&self, object: &impl AsObject<K>) -> Result<(), Error>
    where
        S: KindSource<K>,
    {
        let object = object.as_object();
        let options = match object.uid_str() {
            "" => DeleteOptions::new(),
            uid => DeleteOptions::new().uid(uid),
        };
        let version = Some(object.stored_version()).filter(ResourceVersion::is_exact);
        self.delete_knowing::<K>(&object.key(), &options, version)
            .await
    }

    /// Deletes the object with this key, whatever its uid.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if no object has the key.
    pub async fn delete_key<K: Object>(&self, key: &ObjectKey) -> Result<(), Error>
    where
        S: KindSource<K>,
    {
        self.delete_with::<K>(key, &DeleteOptions::new()).await
    }

    /// Deletes the object with this key, with options such as preconditions and the propagation policy.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if no object has the key; [`is_conflict`](Error::is_conflict) if a
    /// precondition does not hold; otherwise the errors of the server.
    pub async fn delete_with<K: Object>(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<(), Error>
    where
        S: KindSource<K>,
    {
        let version = options.resource_version.clone();
        self.delete_knowing::<K>(key, options, version).await
    }

    /// Deletes an object that existed at `version`; `None` if no such version is known. The delete stays remembered
    /// until the cache has passed `version`, because events of the object may arrive after the delete (RYOW-9).
    async fn delete_knowing<K: Object>(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
        version: Option<ResourceVersion>,
    ) -> Result<(), Error>
    where
        S: KindSource<K>,
    {
        let kind = &*self.kinds.kind_of();
        let key = self.shared.options().key_in_namespace(kind, key)?;
        let options = self.shared.options().delete(options);
        let api = self.shared.api::<K>(kind).await?;
        let request = api.delete_request(&key, &options)?;
        let sender = self.shared.sender().dry(options.dry_run);
        if options.dry_run {
            sender.answer(kind, request, version).await?;
            return Ok(());
        }
        // CLIENT-10: the remembered applies to the object are forgotten before the request, because this future may be
        // dropped before the answer arrives.
        self.shared.forget_applied(kind, &key);
        let deleted = sender.answer(kind, request, version).await;
        // CLIENT-10: the applies are forgotten again, because another task may have applied the object meanwhile.
        self.shared.forget_applied(kind, &key);
        deleted?;
        Ok(())
    }

    /// Deletes the selected objects in one request; returns the keys of the objects in the server's answer. For a
    /// namespaced kind the list options must name a namespace.
    ///
    /// The server deletes the objects one after the other and stops at the first failure; objects that it deleted
    /// before the failure stay deleted.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] if the list options name an index; an invalid request, which is not sent, if a
    /// namespace is missing; otherwise the errors of the server.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_api::DeleteOptions;
    /// # use steersman_object::{FieldSelector, LabelSelector, ListOptions};
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let done = ListOptions::new()
    ///     .namespace("shop")
    ///     .labels(LabelSelector::label("job", "import"))
    ///     .fields(FieldSelector::new().equals("status.phase", "Succeeded"));
    /// client.delete_all::<Pod>(&done, &DeleteOptions::new()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn delete_all<K: Object>(
        &self,
        list_options: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Vec<ObjectKey>, Error>
    where
        S: KindSource<K>,
    {
        let kind = &*self.kinds.kind_of();
        let list_options = self.shared.live_options(kind, list_options)?;
        let options = self.shared.options().delete(options);
        let api = self.shared.api::<K>(kind).await?;
        let request = api.delete_all_request(&list_options, &options)?;
        let sender = self.shared.sender().dry(options.dry_run);
        if options.dry_run {
            return Ok(sender.write(kind, request).await?);
        }
        // CLIENT-10: it is unknown which objects the server deletes, so the remembered applies to all objects of the
        // namespace are forgotten: before the request, because this future may be dropped, and after it, because
        // another task may apply an object in between.
        let namespace = list_options.selected_namespace();
        self.shared.forget_applied_in(kind, namespace);
        let deleted = sender.write(kind, request).await;
        self.shared.forget_applied_in(kind, namespace);
        Ok(deleted?)
    }
}

impl Client {
    /// Applies a manifest: an object, or a part of an object, with its own `apiVersion` and `kind`.
    ///
    /// # Errors
    ///
    /// The errors of [`apply`](Self::apply); also [`Error::NotApplicable`] if the manifest lacks `apiVersion` or
    /// `kind`, and an error of the server if the server does not serve the kind.
    pub async fn apply_manifest(
        &self,
        manifest: &(impl Serialize + Sync),
    ) -> Result<DynamicObject, Error> {
        let kind = self.mapper().kind(&gvk_of(manifest)?).await?;
        self.of(&kind).apply_part(manifest).await
    }

    /// Returns the number of writes of this client, its copies and the clients made from it that are in flight.
    pub fn writes_in_flight(&self) -> usize {
        self.shared.sender().in_flight.count()
    }

    /// Returns the number of objects with writes of this client and its copies that the cache has not seen yet.
    pub fn unseen_writes(&self) -> usize {
        self.shared.sender().own.unseen()
    }
}
