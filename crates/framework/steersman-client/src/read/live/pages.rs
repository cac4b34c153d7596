//! Driver: requests a list from the server page by page.

use std::collections::VecDeque;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use steersman_api::{Api, Malformed, Paging};
use steersman_object::{Kind, ListOptions, Object, ResourceVersion};

use crate::error::Error;
use crate::shared::SharedClient;

pub(super) const PAGE_SIZE: u32 = 500;

/// The pages of a live list. Made by [`Live::pages`](crate::Live::pages).
///
/// All pages have the resource version of the first page, and each object is in one page only. The server forgets old
/// versions, by default after five minutes. A request for a later page then fails with
/// [`Expired`](steersman_api::Error::Expired), and a new [`Pages`] must begin the list anew, unless
/// [`inconsistent`](Self::inconsistent) is set.
#[must_use = "no request is sent before `next_page` is awaited"]
#[derive(Debug)]
pub struct Pages<K> {
    shared: SharedClient,
    kind: Kind,
    list_options: ListOptions,
    paging: Paging,
    may_be_inconsistent: bool,
    consistent: bool,
    ended: bool,
    api: Option<Api<K>>,
}

/// One page of a live list: the objects that decode, and the objects that do not. [`Pages::next_page`] returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<K> {
    /// The objects, in the server's order.
    pub items: Vec<K>,
    /// The objects on this page that do not decode as a `K`.
    pub malformed: Vec<Malformed>,
    /// The resource version of the list, the same on all consistent pages.
    pub version: ResourceVersion,
    /// The number of objects on the following pages; `None` if the server does not report it.
    pub remaining: Option<u64>,
    /// Whether the page has the version of the first page. False only on pages after an expired version, with
    /// [`Pages::inconsistent`].
    pub consistent: bool,
}

impl<K: Object> Pages<K> {
    pub(super) fn new(
        shared: SharedClient,
        kind: Kind,
        list_options: &ListOptions,
        paging: &Paging,
    ) -> Self {
        let mut paging = paging.clone();
        paging.page_size = paging.page_size.or(Some(PAGE_SIZE));
        Self {
            shared,
            kind,
            list_options: list_options.clone(),
            paging,
            may_be_inconsistent: false,
            consistent: true,
            ended: list_options.selected_limit() == Some(0),
            api: None,
        }
    }

    /// Sets whether the list continues after its version has expired: at the newest version, behind the last returned
    /// object. Objects that changed in between may be missing or appear twice; [`Page::consistent`] is false from then
    /// on. Off by default.
    pub fn inconsistent(mut self, may_be: bool) -> Self {
        self.may_be_inconsistent = may_be;
        self
    }

    /// Requests the next page; returns `None` after the last page.
    ///
    /// # Errors
    ///
    /// [`Expired`](steersman_api::Error::Expired) if the server has forgotten the version of the list; otherwise the
    /// errors of the server. After an error of the transport or a throttled request the next call requests the same
    /// page again; after any other error there are no more pages.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call requests the same page again.
    pub async fn next_page(&mut self) -> Result<Option<Page<K>>, Error> {
        while !self.ended {
            match self.request().await {
                Ok(page) => return Ok(Some(page)),
                Err(Error::Api(error))
                    if error.is_expired() && self.continue_inconsistently(&error) => {}
                Err(Error::Api(error)) => {
                    self.ended = !(error.is_transport() || error.is_throttled());
                    return Err(Error::Api(error));
                }
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Returns the pages as a stream that ends with the first error.
    #[must_use]
    pub fn into_stream(self) -> BoxStream<'static, Result<Page<K>, Error>> {
        stream::unfold(Some(self), |pages| async {
            let mut pages = pages?;
            match pages.next_page().await {
                Ok(page) => page.map(|page| (Ok(page), Some(pages))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    /// Returns the objects as a stream that ends with the first error. An object that does not decode is an error
    /// unless [`ListOptions::skip_malformed`] is set.
    #[must_use]
    pub fn into_objects(self) -> BoxStream<'static, Result<K, Error>> {
        let (kind, skips_malformed) = (self.kind.clone(), self.list_options.skips_malformed());
        let objects = self.into_stream().flat_map(move |page| {
            let objects: VecDeque<_> = match page {
                Ok(page) => {
                    let refused = page
                        .malformed
                        .first()
                        .filter(|_| !skips_malformed)
                        .map(|first| Err(malformed(&kind, first)));
                    page.items.into_iter().map(Ok).chain(refused).collect()
                }
                Err(error) => [Err(error)].into(),
            };
            stream::iter(objects)
        });
        // After an object that does not decode, the stream would go on with the next page. So the end is recorded here.
        let until_error = objects.scan(false, |ended, object| {
            let over = std::mem::replace(ended, object.is_err());
            std::future::ready((!over).then_some(object))
        });
        until_error.boxed()
    }

    async fn request(&mut self) -> Result<Page<K>, Error> {
        let api = match &self.api {
            Some(api) => api,
            None => self.api.insert(self.shared.api::<K>(&self.kind).await?),
        };
        let list_options = self.shared.live_options(&self.kind, &self.list_options)?;
        let ask = || api.list(&list_options, &self.paging);
        let page = self.shared.sender().read(&self.kind, None, ask).await?;
        self.list_options = list_options.into_owned().reduce_limit(page.items.len());
        self.ended = page.continue_token.is_none() || self.list_options.selected_limit() == Some(0);
        self.paging.continue_token = page.continue_token;
        let (items, malformed) = super::separate(page.items);
        Ok(Page {
            items,
            malformed,
            version: page.version,
            remaining: page.remaining,
            consistent: self.consistent,
        })
    }

    /// If inconsistent pages are allowed, continues the list with the new continue token in the server's error about
    /// the expired token. Returns whether the list continues.
    fn continue_inconsistently(&mut self, error: &steersman_api::Error) -> bool {
        let metadata = error.status().and_then(|status| status.metadata.as_ref());
        let token = metadata.and_then(|metadata| metadata.continue_.clone());
        let token = token.filter(|token| self.may_be_inconsistent && !token.is_empty());
        let continues = token.is_some();
        if continues {
            self.paging.continue_token = token;
            self.consistent = false;
        }
        continues
    }
}

pub(super) fn malformed(kind: &Kind, first: &Malformed) -> Error {
    Error::Cache(steersman_cache::Error::Malformed {
        kind: kind.clone(),
        key: first.key.clone(),
        problem: first.error.clone(),
    })
}
