//! Driver: lists and watches one kind, for a reflector.

use std::future::Future;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use steersman_object::Kind;

use crate::decode::bodies::{PageBody, watch_body};
use crate::decode::{AnswerDecoder, WatchBody};
use crate::error::Error;
use crate::event::{ListPage, ListPart, WatchEvent};
use crate::field_managers::FieldManagers;
use crate::head::RawObject;
use crate::options::{PageRequest, Projection, WatchOptions};
use crate::pages;
use crate::request::transport::{Accept, AnswerForms, ApiCall, next_chunk};
use crate::request::url::Url;
use crate::request_info::RequestInfo;

/// The parts of one page as they arrive: its objects, then [`ListPart::End`]. The stream ends after the end part or an
/// error.
pub type ListStream = BoxStream<'static, Result<ListPart, Error>>;

/// The events of an open watch. The stream ends after an error.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, Error>>;

/// Lists and watches the objects of one kind, for a reflector.
///
/// Implemented by [`ApiListWatch`] with a client, and by scripted servers in tests. Objects are [`RawObject`]s, which
/// are not decoded as a type.
///
/// # For implementors
///
/// A page has the requested objects, and ends with [`ListPart::End`], which has the version of the whole list; an
/// incomplete page lacks the end (REFL-6). A watch delivers events in the server's order, and ends when the server ends
/// it, or with an error. The reflector retries, resumes and notices silence.
///
/// The reflector sets no deadline, so the implementor limits the time until an answer begins, and its pauses.
/// [`ApiListWatch`] fails with a transport error after 65 s without an answer, and after a pause of 30 s in a page.
pub trait ListWatch: Send + Sync + 'static {
    /// Requests one page of a list. Dropping the stream cancels the request.
    fn list(&self, request: &PageRequest)
    -> impl Future<Output = Result<ListStream, Error>> + Send;

    /// Opens a watch. Dropping the stream closes the watch.
    fn watch(
        &self,
        options: &WatchOptions,
    ) -> impl Future<Output = Result<WatchStream, Error>> + Send;

    /// Asks the server with one small request whether it serves requests. `None`, the default, means that there is no
    /// such check.
    ///
    /// An error with an HTTP code below 500, except 429, also shows that the server serves requests: a 403 comes from a
    /// running server. Dropping the future changes nothing.
    fn ready(&self) -> impl Future<Output = Option<Result<(), Error>>> + Send {
        std::future::ready(None)
    }
}

/// Lists and watches a kind of an API server, in one namespace or in all.
///
/// Objects lack their `managedFields` by default: these are half of an object's size, and hardly ever read.
#[derive(Clone, derive_more::Debug)]
#[debug("ApiListWatch {{ kind: {kind:?}, namespace: {namespace:?}, .. }}")]
pub struct ApiListWatch {
    client: kube_client::Client,
    kind: Kind,
    namespace: Option<String>,
    decoder: AnswerDecoder,
}

impl ApiListWatch {
    /// Makes the lists and watches of `kind` in `namespace`, or in all namespaces.
    pub fn new(client: kube_client::Client, kind: Kind, namespace: Option<String>) -> Self {
        Self {
            client,
            decoder: AnswerDecoder::new(kind.clone(), true),
            kind,
            namespace,
        }
    }

    /// Sets whether objects keep their `managedFields`; off by default.
    #[must_use]
    pub fn keep_managed_fields(mut self, keep: bool) -> Self {
        self.decoder.drop_managed_fields = !keep;
        self
    }

    /// Sets the field managers with applies that are recognised in arriving objects: see [`RawObject::applies`]. None
    /// by default.
    #[must_use]
    pub fn recognise_applies(mut self, managers: FieldManagers) -> Self {
        self.decoder.managers = managers;
        self
    }

    /// Returns all objects of a list at one version; as [`Api::list_all`](crate::Api::list_all).
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a list changes nothing.
    pub async fn list_all(&self, request: PageRequest) -> Result<ListPage<RawObject>, Error> {
        let ask = |request| async move {
            let (mut parts, mut items) = (self.list(&request).await?, Vec::new());
            loop {
                match parts.next().await.transpose()? {
                    Some(ListPart::Object(object)) => items.push(object),
                    Some(ListPart::End(end)) => return Ok(ListPage::of(items, end)),
                    None => {
                        return Err(Error::transport(&self.info("list"), "the page has no end"));
                    }
                }
            }
        };
        pages::all(request, None, ask).await
    }

    fn info(&self, verb: &'static str) -> RequestInfo {
        RequestInfo::of_collection(verb, &self.kind, self.namespace.as_deref())
    }

    fn url(&self, info: &RequestInfo) -> Result<Url, Error> {
        Url::collection(&self.kind, self.namespace.as_deref())
            .map_err(|problem| Error::invalid_request(info.clone(), problem))
    }
}

impl ListWatch for ApiListWatch {
    async fn list(&self, request: &PageRequest) -> Result<ListStream, Error> {
        let info = self.info("list");
        let url = self.url(&info)?.list(request);
        let mut call = ApiCall::get(info, url);
        let is_metadata = request.projection == Projection::Metadata;
        let decoder = self.decoder.metadata_only(is_metadata);
        call.accept = AnswerForms::LIST.of(request.projection, &self.kind);
        let answered = call.send(&self.client).await?;
        let arriving = PartialPage {
            body: answered.response.into_body(),
            page: PageBody::new(decoder, answered.info.clone(), answered.negotiated),
            info: answered.info,
        };
        let parts = stream::try_unfold(Some(arriving), |arriving| async {
            match arriving {
                Some(arriving) => arriving.next().await.map(Some),
                None => Ok(None),
            }
        });
        Ok(parts.boxed())
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream, Error> {
        let info = self.info("watch");
        let url = self.url(&info)?.watch(options);
        let mut call = ApiCall::get(info, url);
        let is_metadata = options.projection == Projection::Metadata;
        let decoder = self.decoder.metadata_only(is_metadata);
        call.accept = AnswerForms::WATCH.of(options.projection, &self.kind);
        // Newer servers compress each event as a separate gzip member, which HTTP clients do not support.
        call.identity = true;
        let answered = call.send(&self.client).await?;
        let open = OpenWatch {
            body: answered.response.into_body(),
            events: watch_body(decoder, answered.info.clone(), answered.negotiated),
            info: answered.info,
            ended: false,
        };
        Ok(stream::try_unfold(open, OpenWatch::next).boxed())
    }

    /// Requests `/readyz`, which kube-apiserver grants to every client (`system:public-info-viewer`).
    async fn ready(&self) -> Option<Result<(), Error>> {
        let info = RequestInfo::of_document("get", "/readyz");
        let mut call = ApiCall::get(info, Url::path("/readyz".to_owned()));
        call.accept = Accept::only("*/*");
        Some(call.fetch(&self.client).await.map(drop))
    }
}

struct PartialPage {
    body: Body,
    page: PageBody,
    info: RequestInfo,
}

impl PartialPage {
    /// Returns the next part, with the state after it; without a state after the last part.
    async fn next(mut self) -> Result<(ListPart, Option<Self>), Error> {
        loop {
            if let Some(object) = self.page.next_raw()? {
                return Ok((ListPart::Object(object), Some(self)));
            }
            match next_chunk(&self.info, &mut self.body).await? {
                Some(chunk) => self.page.push(chunk),
                None => return Ok((ListPart::End(self.page.finish()?), None)),
            }
        }
    }
}

struct OpenWatch {
    body: Body,
    events: Box<dyn WatchBody>,
    info: RequestInfo,
    ended: bool,
}

impl OpenWatch {
    async fn next(mut self) -> Result<Option<(WatchEvent, Self)>, Error> {
        while !self.ended {
            if let Some(event) = self.events.next_event() {
                return Ok(Some((event?, self)));
            }
            match self.body.frame().await.transpose() {
                Ok(Some(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.events.push(data);
                    }
                }
                Ok(None) => {
                    self.ended = true;
                    let last = self.events.finish().transpose()?;
                    return Ok(last.map(|event| (event, self)));
                }
                Err(error) => return Err(Error::from_client(self.info, error)),
            }
        }
        Ok(None)
    }
}
