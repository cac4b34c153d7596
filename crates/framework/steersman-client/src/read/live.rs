//! Handle: reads that ask the API server.

use steersman_api::{Decoded, Malformed, Paging};
use steersman_object::{Kind, ListOptions, Object, ObjectKey};
use tracing::warn;

use crate::error::Error;
use crate::kinds::{KindSource, OneKind, TypedKinds};
use crate::shared::SharedClient;

mod pages;

pub use pages::{Page, Pages};

/// Reads from the API server: each read sends a request, and its answer is as new as the server. Made by
/// [`Client::live`](crate::Client::live).
///
/// # Cancel safety
///
/// Every read is cancel safe.
#[derive(Clone, Debug)]
#[must_use]
pub struct Live<S = TypedKinds> {
    shared: SharedClient,
    kinds: S,
}

impl Live {
    /// Returns a handle for live reads of one kind that is known at runtime, with objects of type `K`.
    pub fn of<K: Object>(&self, kind: &Kind) -> Live<OneKind<K>> {
        Live::new(self.shared.clone(), OneKind::new(kind.clone()))
    }
}

impl<S> Live<S> {
    pub(crate) fn new(shared: SharedClient, kinds: S) -> Self {
        Self { shared, kinds }
    }

    /// Returns the object as the server has it now. The cache is not read.
    ///
    /// # Errors
    ///
    /// [`is_not_found`](Error::is_not_found) if the object is absent; otherwise the errors of the server.
    pub async fn get<K: Object>(&self, key: &ObjectKey) -> Result<K, Error>
    where
        S: KindSource<K>,
    {
        get(&self.shared, &self.kinds.kind_of(), key).await
    }

    /// Returns the object as [`get`](Self::get) does, or `None` if it is absent.
    ///
    /// # Errors
    ///
    /// The errors of the server; a kind that the server does not serve is an error.
    pub async fn get_opt<K: Object>(&self, key: &ObjectKey) -> Result<Option<K>, Error>
    where
        S: KindSource<K>,
    {
        let kind = &*self.kinds.kind_of();
        let key = self.shared.options().key_in_namespace(kind, key)?;
        let api = self.shared.api::<K>(kind).await?;
        Ok(self
            .shared
            .sender()
            .read(kind, Some(&key), || api.get_opt(&key))
            .await?)
    }

    /// Returns the selected objects of all pages.
    ///
    /// With [`ListOptions::skip_malformed`], objects that do not decode as `K` are left out, and a warning is logged
    /// with their number and the key of the first.
    ///
    /// # Errors
    ///
    /// [`Error::IndexNeedsCache`] if the list options name an index; [`is_malformed`](Error::is_malformed), naming the
    /// first object that does not decode; otherwise the errors of the server.
    pub async fn list<K: Object>(&self, list_options: &ListOptions) -> Result<Vec<K>, Error>
    where
        S: KindSource<K>,
    {
        list(&self.shared, &self.kinds.kind_of(), list_options).await
    }

    /// Returns a list page by page, so that a large list need not be held in memory as a whole. The first call of
    /// [`next_page`](Pages::next_page) sends the first request.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use steersman_api::Paging;
    /// # use steersman_object::{FieldSelector, ListOptions};
    /// # async fn f(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
    /// let running = FieldSelector::new().equals("status.phase", "Running");
    /// let running = ListOptions::new().fields(running);
    /// let mut pages = client.live().pages::<Pod>(&running, &Paging::new().page_size(100));
    /// let mut objects = 0;
    /// while let Some(page) = pages.next_page().await? {
    ///     objects += page.items.len();
    /// }
    /// # let _ = objects; Ok(()) }
    /// ```
    pub fn pages<K: Object>(&self, list_options: &ListOptions, paging: &Paging) -> Pages<K>
    where
        S: KindSource<K>,
    {
        let kind = self.kinds.kind_of().into_owned();
        Pages::new(self.shared.clone(), kind, list_options, paging)
    }
}

pub(crate) async fn get<K: Object>(
    shared: &SharedClient,
    kind: &Kind,
    key: &ObjectKey,
) -> Result<K, Error> {
    let api = shared.api::<K>(kind).await?;
    let key = shared.options().key_in_namespace(kind, key)?;
    Ok(shared
        .sender()
        .read(kind, Some(&key), || api.get(&key))
        .await?)
}

pub(crate) async fn list<K: Object>(
    shared: &SharedClient,
    kind: &Kind,
    list_options: &ListOptions,
) -> Result<Vec<K>, Error> {
    let list_options = shared.live_options(kind, list_options)?;
    // A list with a limit is requested as one page: the limit is its page size.
    let paging = match list_options.selected_limit() {
        Some(_) => Paging::new(),
        None => Paging::new().page_size(pages::PAGE_SIZE),
    };
    let api = shared.api::<K>(kind).await?;
    let ask = || api.list_all(&list_options, &paging);
    let page = shared.sender().read(kind, None, ask).await?;
    let (good, malformed) = separate(page.items);
    match malformed.first() {
        Some(first) if !list_options.skips_malformed() => Err(pages::malformed(kind, first)),
        _ => {
            warn_of(kind, &malformed);
            Ok(good)
        }
    }
}

fn separate<K>(items: Vec<Decoded<K>>) -> (Vec<K>, Vec<Malformed>) {
    let (mut good, mut malformed) = (Vec::with_capacity(items.len()), Vec::new());
    for item in items {
        match item {
            Decoded::Good(object) => good.push(object),
            Decoded::Malformed(object) => malformed.push(*object),
        }
    }
    (good, malformed)
}

/// Logs that a list leaves out objects that do not decode: code that takes such an object for absent might delete
/// something by mistake.
fn warn_of(kind: &Kind, malformed: &[Malformed]) {
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
