//! Handle: the verbs that write, of one kind.

use serde::Serialize;
use serde_json::Value;
use steersman_api::{DeleteOptions, Patch};
use steersman_object::{Object, ObjectKey, ResourceVersion, Selection, WholeObject};

use super::KindClient;
use crate::change::Part;
use crate::error::Error;
use crate::extract::extract;

/// Writes: to the server, and nowhere else.
///
/// # Cancel safety
///
/// What was sent is finished, whoever waits for it; see [`Client`](crate::Client).
impl<K: Object> KindClient<K> {
    /// Creates the object; answers it as the server stored it.
    ///
    /// # Errors
    ///
    /// As [`Client::create`](crate::Client::create).
    pub async fn create<By>(&self, object: &K) -> Result<K, Error>
    where
        K: WholeObject<By>,
    {
        self.shared.create(&self.kind, object).await
    }

    /// Replaces the object by this one.
    ///
    /// # Errors
    ///
    /// As [`Client::update`](crate::Client::update).
    pub async fn update<By>(&self, object: &K) -> Result<K, Error>
    where
        K: WholeObject<By>,
    {
        self.shared.replace(&self.kind, object, Part::Object).await
    }

    /// Sends a patch; answers the object as the server stored it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<K, Error> {
        let key = self.shared.place(&self.kind, key)?;
        let options = self.shared.options().write();
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = api.patch_request(&key, patch, &options)?;
        Ok(self.shared.door().write(&self.kind, request).await?)
    }

    /// Applies an object, or a part of one: anything that encodes as JSON with a name in its metadata.
    ///
    /// # Errors
    ///
    /// As [`Client::apply`](crate::Client::apply).
    pub async fn apply(&self, part: &(impl Serialize + Sync)) -> Result<K, Error> {
        self.shared.apply(&self.kind, part).await
    }

    /// What this client's manager applied of the object, to be changed and applied again.
    ///
    /// # Errors
    ///
    /// As [`Client::extract`](crate::Client::extract).
    pub fn extract(&self, object: &K) -> Result<Value, Error> {
        extract(&self.kind, object, &self.shared.manager(), None)
    }

    /// Deletes this very object: one of its name with another uid is left alone.
    ///
    /// # Errors
    ///
    /// As [`Client::delete`](crate::Client::delete).
    pub async fn delete(&self, object: &K) -> Result<(), Error> {
        let options = match object.uid_str() {
            "" => DeleteOptions::new(),
            uid => DeleteOptions::new().uid(uid),
        };
        let version = Some(object.stored_version()).filter(ResourceVersion::is_exact);
        self.delete_knowing(&object.key(), &options, version).await
    }

    /// Deletes whatever object has this key.
    ///
    /// # Errors
    ///
    /// As [`Client::delete_key`](crate::Client::delete_key).
    pub async fn delete_key(&self, key: &ObjectKey) -> Result<(), Error> {
        self.delete_with(key, &DeleteOptions::new()).await
    }

    /// Deletes by key, with options.
    ///
    /// # Errors
    ///
    /// As [`Client::delete_with`](crate::Client::delete_with).
    pub async fn delete_with(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), Error> {
        let version = options.resource_version.clone();
        self.delete_knowing(key, options, version).await
    }

    /// The same, of an object that was there at `version`.
    async fn delete_knowing(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
        version: Option<ResourceVersion>,
    ) -> Result<(), Error> {
        let key = self.shared.place(&self.kind, key)?;
        let options = self.shared.options().delete(options);
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = api.delete_request(&key, &options)?;
        let door = self.shared.door().dry(options.dry_run);
        door.write_knowing(&self.kind, request, version).await?;
        Ok(())
    }

    /// Deletes the selected objects in one request.
    ///
    /// # Errors
    ///
    /// As [`Client::delete_all`](crate::Client::delete_all).
    pub async fn delete_all(
        &self,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<Vec<ObjectKey>, Error> {
        let selection = self.shared.place_live(&self.kind, selection)?;
        let options = self.shared.options().delete(options);
        let api = self.shared.api::<K>(&self.kind).await?;
        let request = api.delete_all_request(&selection, &options)?;
        let door = self.shared.door().dry(options.dry_run);
        Ok(door.write(&self.kind, request).await?)
    }
}
