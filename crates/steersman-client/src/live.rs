//! Handle: reads that ask the server, whatever the cache knows.

use steersman_api::ListOptions as ApiListOptions;
use steersman_cache::ListOptions;
use steersman_object::{Kind, ObjectKey, TypedObject};

use crate::error::Error;
use crate::shared::Shared;

/// Reads from the api-server: as new as can be, and a request each. Made by [`Client::live`](crate::Client::live).
#[derive(Clone, Debug)]
#[must_use]
pub struct Live {
    shared: Shared,
}

impl Live {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// The object, as the server has it now.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) where there is none; else what the server says.
    pub async fn get<K: TypedObject>(&self, key: &ObjectKey) -> Result<K, Error> {
        Ok(self.shared.api::<K>()?.get(key).await?)
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// What the server says; a kind it does not serve is an error.
    pub async fn get_opt<K: TypedObject>(&self, key: &ObjectKey) -> Result<Option<K>, Error> {
        Ok(self.shared.api::<K>()?.get_opt(key).await?)
    }

    /// The objects that `options` select, all pages of them. Objects that do not decode are left out.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] where an index is named; else what the server says.
    pub async fn list<K: TypedObject>(&self, options: &ListOptions) -> Result<Vec<K>, Error> {
        if let Some((index, _)) = options.selected_index() {
            let index = index.to_owned();
            return Err(Error::IndexNeedsCache {
                kind: Kind::of::<K>(),
                index,
            });
        }
        let labels = options.selected_labels();
        let mut asked = ApiListOptions::new().limit(500);
        if !labels.is_everything() {
            asked = asked.labels(labels.to_string());
        }
        let api = self.shared.api::<K>()?;
        Ok(api
            .list_all(options.selected_namespace(), &asked)
            .await?
            .into_good())
    }
}
