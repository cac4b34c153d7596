//! Driver: lists and watches one kind, for a reflector.

use std::future::Future;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use steersman_object::Kind;

use crate::decode::AnswerDecoder;
use crate::decode::bodies::{Events, PageBody};
use crate::error::Error;
use crate::event::{ListPage, ListPart, WatchEvent};
use crate::field_managers::FieldManagers;
use crate::head::RawObject;
use crate::options::{PageRequest, Projection, WatchOptions};
use crate::pages;
use crate::request::transport::{Accept, Answered, ApiCall, next_chunk};
use crate::request::url::Url;
use crate::request_info::RequestInfo;

/// The parts of one page as they arrive: its objects, then [`ListPart::End`]. The stream ends after that, or after an
/// error.
pub type ListStream = BoxStream<'static, Result<ListPart, Error>>;

/// The events of an open watch. The stream ends after an error.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, Error>>;

/// Lists and watches the objects of one kind; a reflector is driven by it.
///
/// Implemented by [`ApiListWatch`] over a client, and by tests with a script. Objects are [`RawObject`]s, which are
/// not decoded as a type.
///
/// # For implementors
///
/// A page holds what the request asks for, and ends with [`ListPart::End`], which carries the version of the whole
/// list; an incomplete page has no end (REFL-6). A watch delivers events in the server's order, and ends when the
/// server ends it, or with an error. The reflector retries, resumes and notices silence.
///
/// The reflector awaits both requests without a deadline, so the implementor bounds the time until an answer begins
/// and its pauses. [`ApiListWatch`] fails with a transport error after 65 s without an answer, and after a pause of
/// 30 s in a page.
pub trait ListWatch: Send + Sync + 'static {
    /// Requests one page of a list. Dropping the stream cancels the rest of it.
    fn list(&self, request: &PageRequest)
    -> impl Future<Output = Result<ListStream, Error>> + Send;

    /// Opens a watch. Dropping the stream closes it.
    fn watch(
        &self,
        options: &WatchOptions,
    ) -> impl Future<Output = Result<WatchStream, Error>> + Send;

    /// Asks the server with one small request whether it serves requests. `None`, the default, means that there is no
    /// such request.
    ///
    /// An error with an HTTP code below 500 other than 429 proves that the server serves requests, too: a 403 comes
    /// from a running server. Dropping the future changes nothing.
    fn ready(&self) -> impl Future<Output = Option<Result<(), Error>>> + Send {
        std::future::ready(None)
    }
}

/// Lists and watches a kind of an API server, in one namespace or in all.
///
/// Objects lack their `managedFields` by default: these are half of an object's size, and hardly ever read.
#[derive(Clone)]
pub struct ApiListWatch {
    client: kube_client::Client,
    kind: Kind,
    namespace: Option<String>,
    decoder: AnswerDecoder,
}

impl ApiListWatch {
    /// Makes the lists and watches of `kind` in `namespace`, or in all namespaces.
    #[must_use]
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
        self.decoder = self.decoder.keep_managed_fields(keep);
        self
    }

    /// Recognises the applies of these managers in the objects that arrive: see [`RawObject::applies`]. None by
    /// default.
    #[must_use]
    pub fn recognise_applies(mut self, managers: FieldManagers) -> Self {
        self.decoder = self.decoder.recognise_applies(managers);
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

impl std::fmt::Debug for ApiListWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiListWatch")
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl ListWatch for ApiListWatch {
    async fn list(&self, request: &PageRequest) -> Result<ListStream, Error> {
        let info = self.info("list");
        let url = self.url(&info)?.list(request);
        let mut call = ApiCall::get(info, url);
        let decoder = self
            .decoder
            .metadata_only(request.projection == Projection::Metadata);
        call.accept = Accept::of_list(request.projection).of(&self.kind);
        let Answered {
            info,
            response,
            negotiated,
        } = call.send(&self.client).await?;
        let arriving = PartialPage {
            body: response.into_body(),
            page: PageBody::new(decoder, info.clone(), negotiated),
            info,
        };
        Ok(stream::unfold(Some(arriving), |arriving| async {
            let (part, arriving) = arriving?.next().await;
            Some((part, arriving))
        })
        .boxed())
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream, Error> {
        let info = self.info("watch");
        let url = self.url(&info)?.watch(options);
        let mut call = ApiCall::get(info, url);
        let decoder = self
            .decoder
            .metadata_only(options.projection == Projection::Metadata);
        call.accept = Accept::of_watch(options.projection).of(&self.kind);
        // Newer servers compress each event as a gzip member of its own, which HTTP clients do not separate.
        call.identity = true;
        let Answered {
            info,
            response,
            negotiated,
        } = call.send(&self.client).await?;
        let open = OpenWatch {
            body: response.into_body(),
            events: Events::new(decoder, info.clone(), negotiated),
            info,
            ended: false,
        };
        Ok(stream::unfold(open, |mut open| async {
            let event = open.next().await?;
            Some((event, open))
        })
        .boxed())
    }

    /// Requests `/readyz`, which kube-apiserver grants to every client (`system:public-info-viewer`).
    async fn ready(&self) -> Option<Result<(), Error>> {
        let info = RequestInfo::of_document("get", "/readyz");
        let mut call = ApiCall::get(info, Url::path("/readyz".to_owned()));
        call.accept = Accept::only("*/*");
        Some(call.fetch(&self.client).await.map(drop))
    }
}

/// A page that is arriving.
struct PartialPage {
    body: Body,
    page: PageBody,
    info: RequestInfo,
}

impl PartialPage {
    /// Returns the next part, and the state after it unless that part was the last.
    async fn next(mut self) -> (Result<ListPart, Error>, Option<Self>) {
        loop {
            match self.page.next_raw() {
                Ok(Some(object)) => return (Ok(ListPart::Object(object)), Some(self)),
                Ok(None) => {}
                Err(error) => return (Err(error), None),
            }
            match next_chunk(&self.info, &mut self.body).await {
                Ok(Some(chunk)) => self.page.push(chunk),
                Ok(None) => return (self.page.finish().map(ListPart::End), None),
                Err(error) => return (Err(error), None),
            }
        }
    }
}

/// An open watch.
struct OpenWatch {
    body: Body,
    events: Events,
    info: RequestInfo,
    ended: bool,
}

impl OpenWatch {
    async fn next(&mut self) -> Option<Result<WatchEvent, Error>> {
        while !self.ended {
            if let Some(event) = self.events.next_event() {
                self.ended = event.is_err();
                return Some(event);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.events.push(data);
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(Error::from_client(self.info.clone(), error)));
                }
                None => {
                    self.ended = true;
                    return self.events.finish();
                }
            }
        }
        None
    }
}
