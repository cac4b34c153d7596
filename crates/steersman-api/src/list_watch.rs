//! Driver: lists and watches one kind; what reflectors are driven by.

use std::future::Future;
use std::marker::PhantomData;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http_body_util::BodyExt as _;
use kube_client::client::Body;
use steersman_object::{Kind, Object};

use crate::asked::Asked;
use crate::decode::{Decoder, Events};
use crate::error::Error;
use crate::event::{ListPage, WatchEvent};
use crate::options::{ListOptions, WatchOptions};
use crate::transport::Call;
use crate::url::Url;

/// The events of an open watch; after an error it has ended.
pub type WatchStream<K> = BoxStream<'static, Result<WatchEvent<K>, Error>>;

/// Lists and watches the objects of one kind: the door between an api-server and a reflector.
///
/// Implemented by [`ApiListWatch`] over a client, and by tests with a script.
///
/// What an implementor owes: a page holds what the options ask for and carries the version of
/// the whole list; a watch delivers events in the server's order and ends where the server ends
/// it, or with an error. Retrying, resuming and noticing silence are the reflector's job.
///
/// Both requests are awaited without a deadline: it is the implementor who bounds how long an answer
/// may take to begin, and to go on. [`ApiListWatch`] ends with an error of transport after 65 s
/// without an answer, and after 30 s without more of a page.
pub trait ListWatch<K>: Send + Sync + 'static {
    /// One page of a list.
    fn list(
        &self,
        options: &ListOptions,
    ) -> impl Future<Output = Result<ListPage<K>, Error>> + Send;

    /// Opens a watch. Dropping the stream closes it.
    fn watch(
        &self,
        options: &WatchOptions,
    ) -> impl Future<Output = Result<WatchStream<K>, Error>> + Send;
}

/// Lists and watches a kind of an api-server, in one namespace or in all.
///
/// Objects come without their `managedFields` unless asked otherwise: these are half of an
/// object's size, and hardly ever read.
pub struct ApiListWatch<K> {
    client: kube_client::Client,
    kind: Kind,
    namespace: Option<String>,
    decoder: Decoder,
    of: PhantomData<fn() -> K>,
}

impl<K: Object> ApiListWatch<K> {
    /// Lists and watches `kind` in `namespace`, or in all namespaces.
    #[must_use]
    pub fn new(client: kube_client::Client, kind: Kind, namespace: Option<String>) -> Self {
        Self {
            client,
            decoder: Decoder::new(kind.clone(), true),
            kind,
            namespace,
            of: PhantomData,
        }
    }

    /// Whether objects keep their `managedFields`.
    #[must_use]
    pub fn keep_managed_fields(mut self, keep: bool) -> Self {
        self.decoder = Decoder::new(self.kind.clone(), !keep);
        self
    }

    fn asked(&self, verb: &'static str) -> Asked {
        Asked::of_collection(verb, &self.kind, self.namespace.as_deref())
    }

    fn url(&self, asked: &Asked) -> Result<Url, Error> {
        Url::collection(&self.kind, self.namespace.as_deref())
            .map_err(|problem| Error::invalid_request(asked.clone(), problem))
    }
}

impl<K> Clone for ApiListWatch<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            decoder: self.decoder.clone(),
            of: PhantomData,
        }
    }
}

impl<K> std::fmt::Debug for ApiListWatch<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiListWatch")
            .field("kind", &self.kind)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl<K: Object> ListWatch<K> for ApiListWatch<K> {
    async fn list(&self, options: &ListOptions) -> Result<ListPage<K>, Error> {
        let asked = self.asked("list");
        let url = self.url(&asked)?.list(options);
        let (asked, body) = Call::get(asked, url).fetch(&self.client).await?;
        self.decoder.page(&asked, &body)
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream<K>, Error> {
        let asked = self.asked("watch");
        let url = self.url(&asked)?.watch(options);
        let mut call = Call::get(asked, url);
        // Newer servers compress each event as a gzip member of its own, which HTTP clients
        // do not take apart.
        call.identity = true;
        let (asked, response) = call.send(&self.client).await?;
        let open = Open {
            body: response.into_body(),
            events: Events::new(self.decoder.clone(), asked.clone()),
            asked,
            ended: false,
        };
        Ok(stream::unfold(open, |mut open| async {
            let event = open.next().await?;
            Some((event, open))
        })
        .boxed())
    }
}

/// A watch whose answer has begun.
struct Open {
    body: Body,
    events: Events,
    asked: Asked,
    ended: bool,
}

impl Open {
    async fn next<K: Object>(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        while !self.ended {
            if let Some(event) = self.events.next_event() {
                self.ended = event.is_err();
                return Some(event);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.events.push(&data);
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(Error::from_client(self.asked.clone(), error)));
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
