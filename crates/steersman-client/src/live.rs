//! Handle: reads that ask the server, whatever the cache knows.

use steersman_api::{Decoded, Malformed, Paging};
use steersman_object::{Kind, Object, ObjectKey, Selection, TypedObject};
use tracing::warn;

use crate::error::Error;
use crate::shared::Shared;

mod pages;
mod kind;

pub use kind::LiveKind;
pub use pages::{Page, Pages};

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
        get(&self.shared, &Kind::of::<K>(), key).await
    }

    /// As [`get`](Self::get), with `None` for an object that is not there.
    ///
    /// # Errors
    ///
    /// What the server says; a kind it does not serve is an error.
    pub async fn get_opt<K: TypedObject>(&self, key: &ObjectKey) -> Result<Option<K>, Error> {
        get_opt(&self.shared, &Kind::of::<K>(), key).await
    }

    /// The objects that `selection` selects, all pages of them.
    ///
    /// With [`Selection::skip_malformed`], objects that do not decode as `K` are left out, and the list logs a
    /// warning with their number and the first one's key.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] where an index is named; [`is_malformed`](Error::is_malformed), naming the first
    /// object that does not decode; else what the server says.
    pub async fn list<K: TypedObject>(&self, selection: &Selection) -> Result<Vec<K>, Error> {
        list(&self.shared, &Kind::of::<K>(), selection).await
    }

    /// The reads of a kind that is known at runtime only, of objects of any type.
    pub fn of<K: Object>(&self, kind: &Kind) -> LiveKind<K> {
        LiveKind::new(self.shared.clone(), kind.clone())
    }

    /// The pages of a list, of one namespace or of all: for lists that need not be held as a whole. Nothing is
    /// asked before the first page is.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_api::Paging;
    /// # use steersman_object::{FieldSelector, Selection};
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let running = FieldSelector::new().equals("status.phase", "Running");
    /// let running = Selection::new().fields(running);
    /// let mut pages = client.live().pages::<Pod>(&running, &Paging::new().page_size(100));
    /// let mut many = 0;
    /// while let Some(page) = pages.next_page().await? {
    ///     many += page.items.len();
    /// }
    /// # let _ = many; Ok(()) }
    /// ```
    pub fn pages<K: TypedObject>(&self, selection: &Selection, paging: &Paging) -> Pages<K> {
        Pages::new(self.shared.clone(), Kind::of::<K>(), selection, paging)
    }
}

pub(crate) async fn get<K: Object>(
    shared: &Shared,
    kind: &Kind,
    key: &ObjectKey,
) -> Result<K, Error> {
    let (api, key) = (shared.api::<K>(kind).await?, shared.place(kind, key)?);
    Ok(shared.door().read(kind, || api.get(&key)).await?)
}

async fn get_opt<K: Object>(
    shared: &Shared,
    kind: &Kind,
    key: &ObjectKey,
) -> Result<Option<K>, Error> {
    let (api, key) = (shared.api::<K>(kind).await?, shared.place(kind, key)?);
    Ok(shared.door().read(kind, || api.get_opt(&key)).await?)
}

pub(crate) async fn list<K: Object>(
    shared: &Shared,
    kind: &Kind,
    selection: &Selection,
) -> Result<Vec<K>, Error> {
    let selection = shared.place_live(kind, selection)?;
    let limit = selection.selected_limit();
    // A list with a limit needs no second page.
    let paging = match limit {
        Some(_) => Paging::new(),
        None => Paging::new().page_size(pages::PAGE_SIZE),
    };
    let api = shared.api::<K>(kind).await?;
    let ask = || api.list_all(&selection, &paging);
    let page = shared.door().read(kind, ask).await?;
    let mut good = Vec::with_capacity(page.items.len());
    let mut malformed = Vec::new();
    for item in page.items {
        match item {
            Decoded::Good(object) => good.push(object),
            Decoded::Malformed(object) => malformed.push(*object),
        }
    }
    match malformed.first() {
        Some(first) if !selection.skips_malformed() => Err(pages::malformed(kind, first)),
        _ => {
            tell(kind, &malformed);
            Ok(good)
        }
    }
}

/// Who cleans up by a list has to hear that it is not whole.
fn tell(kind: &Kind, malformed: &[Malformed]) {
    if let Some(first) = malformed.first() {
        warn!(
            kind = %kind.qualified_plural(),
            left_out = malformed.len(),
            first = %first.key,
            error = %first.error,
            "objects do not decode and are left out of a live list"
        );
    }
}

#[cfg(test)]
mod tests;
