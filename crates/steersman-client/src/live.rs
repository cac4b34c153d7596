//! Handle: reads that ask the server, whatever the cache knows.

use steersman_api::{Decoded, ListOptions as ApiListOptions, Malformed};
use steersman_cache::ListOptions;
use steersman_object::{Kind, ObjectKey, TypedObject};
use tracing::warn;

use crate::error::Error;
use crate::shared::Shared;

/// Reads from the api-server: as new as can be, and a request each. Made by [`Client::live`](crate::Client::live).
///
/// # Cancel safety
///
/// Every read is cancel safe.
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
        Ok(self.shared.api::<K>().await?.get(key).await?)
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// What the server says; a kind it does not serve is an error.
    pub async fn get_opt<K: TypedObject>(&self, key: &ObjectKey) -> Result<Option<K>, Error> {
        Ok(self.shared.api::<K>().await?.get_opt(key).await?)
    }

    /// The objects that `options` select, all pages of them.
    ///
    /// With [`ListOptions::skip_malformed`], objects that do not decode as `K` are left out, and the list logs a
    /// warning with their number and the first one's key.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] where an index is named; [`is_malformed`](Error::is_malformed), naming the first
    /// object that does not decode; else what the server says.
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
        let api = self.shared.api::<K>().await?;
        let page = api.list_all(options.selected_namespace(), &asked).await?;
        let mut good = Vec::with_capacity(page.items.len());
        let mut malformed = Vec::new();
        for item in page.items {
            match item {
                Decoded::Good(object) => good.push(object),
                Decoded::Malformed(object) => malformed.push(object),
            }
        }
        match malformed.first() {
            Some(first) if !options.skips_malformed() => {
                let refused = steersman_cache::Error::Malformed {
                    kind: Kind::of::<K>(),
                    key: first.key.clone(),
                    problem: first.error.clone(),
                };
                Err(refused.into())
            }
            _ => {
                tell::<K>(&malformed);
                Ok(good)
            }
        }
    }
}

/// Who cleans up by a list has to hear that it is not whole.
fn tell<K: TypedObject>(malformed: &[Malformed]) {
    if let Some(first) = malformed.first() {
        warn!(
            kind = %Kind::of::<K>().qualified_plural(),
            left_out = malformed.len(),
            first = %first.key,
            error = %first.error,
            "objects do not decode and are left out of a live list"
        );
    }
}

#[cfg(test)]
mod tests;
