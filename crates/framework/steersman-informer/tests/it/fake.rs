//! A scripted server that records its requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::error::Status;
use steersman_api::{
    Decoded, Error, ListPage, ListPart, ListStream, ListWatch, Malformed, PageRequest, RawObject,
    RequestInfo, VersionMatch, WatchEvent, WatchOptions,
};
use steersman_informer::{Delivery, Event, Informer, InformerOptions, Subscription};
use steersman_object::{Kind, ObjectKey, ResourceVersion};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

type Map = ConfigMap;
type Item = Result<WatchEvent, Error>;
type Raw = Decoded<RawObject>;

/// The verb of a request.
#[derive(Clone, Debug)]
pub(crate) enum Asks {
    List(PageRequest),
    Watch(WatchOptions),
}

/// A request and the time of its arrival.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) asks: Asks,
    pub(crate) at: Instant,
}

/// The sender of an open watch's items, held by the test; dropping it ends the watch.
pub(crate) type Wire = mpsc::UnboundedSender<Item>;

enum Answer {
    Page(Result<Vec<Result<ListPart, Error>>, Error>),
    Watch(Result<mpsc::UnboundedReceiver<Item>, Error>),
}

/// A server that answers by its script. Requests after the end of the script get no response.
#[derive(Clone)]
pub(crate) struct Fake {
    script: Arc<parking_lot::Mutex<VecDeque<Answer>>>,
    log: watch::Sender<Vec<Request>>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self {
            script: Arc::default(),
            log: watch::Sender::new(Vec::new()),
        }
    }

    fn then(&self, answer: Answer) {
        self.script.lock().push_back(answer);
    }

    fn answer(&self, page: ListPage<RawObject>) {
        let parts = page.into_parts().map(Ok).collect();
        self.then(Answer::Page(Ok(parts)));
    }

    /// Answers the next request with the last page of a list.
    pub(crate) fn page(&self, version: &str, maps: impl IntoIterator<Item = Raw>) {
        self.answer(ListPage::new(
            maps.into_iter().collect(),
            ResourceVersion::new(version),
        ));
    }

    /// Answers the next request with a page that ends early, with or without an error.
    pub(crate) fn page_cut(&self, maps: impl IntoIterator<Item = Raw>, error: Option<Error>) {
        let parts = maps.into_iter().map(ListPart::Object).map(Ok);
        let parts = parts.chain(error.map(Err)).collect();
        self.then(Answer::Page(Ok(parts)));
    }

    /// Answers the next request with a page that is not the last.
    pub(crate) fn page_then(
        &self,
        token: &str,
        version: &str,
        maps: impl IntoIterator<Item = Raw>,
    ) {
        let page = ListPage::new(maps.into_iter().collect(), ResourceVersion::new(version));
        self.answer(page.continued(token));
    }

    /// Answers the next request with a watch that is open until the wire is dropped.
    pub(crate) fn watch(&self) -> Wire {
        let (wire, receiver) = mpsc::unbounded();
        self.then(Answer::Watch(Ok(receiver)));
        wire
    }

    /// Refuses the next request, which is a list.
    pub(crate) fn list_refused(&self, code: u16, reason: &str) {
        self.list_error(refused("list", code, reason));
    }

    /// Fails the next request, which is a list.
    pub(crate) fn list_error(&self, error: Error) {
        self.then(Answer::Page(Err(error)));
    }

    /// Refuses the next request, which is a watch, with an HTTP status.
    pub(crate) fn watch_refused(&self, code: u16, reason: &str) {
        self.watch_error(refused("watch", code, reason));
    }

    /// Fails the next request, which is a watch.
    pub(crate) fn watch_error(&self, error: Error) {
        self.then(Answer::Watch(Err(error)));
    }

    /// Refuses the next request, which is a watch: its version is too large.
    pub(crate) fn then_too_large(&self) {
        let status = Status {
            code: 504,
            reason: "Timeout".into(),
            message: "Too large resource version: 30, current: 12".into(),
            ..Status::default()
        };
        let asked = RequestInfo::of_collection("watch", &Kind::of::<Map>(), None);
        let error = Error::from_status(asked, status, None);
        self.then(Answer::Watch(Err(error)));
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.borrow().clone()
    }

    /// Waits for the request of this number, from 1.
    pub(crate) async fn request(&self, number: usize) -> Request {
        let mut log = self.log.subscribe();
        let log = log.wait_for(|log| log.len() >= number).await.unwrap();
        log[number - 1].clone()
    }

    fn ask(&self, asks: Asks) -> Option<Answer> {
        let at = Instant::now();
        self.log.send_modify(|log| log.push(Request { asks, at }));
        self.script.lock().pop_front()
    }
}

impl ListWatch for Fake {
    async fn list(&self, options: &PageRequest) -> Result<ListStream, Error> {
        // A check of the version of a resumed watch (REFL-12) is not part of the script.
        let paging = &options.paging;
        if (paging.page_size, paging.version_match) == (Some(1), Some(VersionMatch::NotOlderThan)) {
            return Ok(stream::empty().boxed());
        }
        match self.ask(Asks::List(options.clone())) {
            Some(Answer::Page(page)) => Ok(stream::iter(page?).boxed()),
            Some(Answer::Watch(_)) => panic!("the script has a watch, and a list was asked"),
            None => std::future::pending().await,
        }
    }

    async fn watch(&self, options: &WatchOptions) -> Result<BoxStream<'static, Item>, Error> {
        match self.ask(Asks::Watch(options.clone())) {
            Some(Answer::Watch(watch)) => Ok(watch?.boxed()),
            Some(Answer::Page(_)) => panic!("the script has a list, and a watch was asked"),
            None => std::future::pending().await,
        }
    }
}

impl Request {
    pub(crate) fn list(&self) -> &PageRequest {
        match &self.asks {
            Asks::List(options) => options,
            Asks::Watch(options) => panic!("a watch: {options:?}"),
        }
    }

    pub(crate) fn watch(&self) -> &WatchOptions {
        match &self.asks {
            Asks::Watch(options) => options,
            Asks::List(options) => panic!("a list: {options:?}"),
        }
    }

    /// Returns the version after which a watch starts.
    pub(crate) fn after(&self) -> &str {
        self.watch().resource_version.as_str()
    }

    /// Returns the version of a list.
    pub(crate) fn from(&self) -> &str {
        let version = self.list().paging.resource_version.as_ref();
        version.map_or("", ResourceVersion::as_str)
    }
}

/// Returns an API server's refusal.
pub(crate) fn refused(verb: &'static str, code: u16, reason: &str) -> Error {
    let status = Status {
        code,
        reason: reason.into(),
        message: format!("{reason} by the script"),
        ..Status::default()
    };
    let asked = RequestInfo::of_collection(verb, &Kind::of::<Map>(), None);
    Error::from_status(asked, status, None)
}

/// Returns the error of a broken connection.
pub(crate) fn broken() -> Error {
    broken_by("connection reset by the script")
}

/// Returns the error of a connection that broke for this cause.
pub(crate) fn broken_by(cause: &str) -> Error {
    Error::Transport {
        info: Box::new(RequestInfo::of_collection(
            "watch",
            &Kind::of::<Map>(),
            None,
        )),
        endpoint: None,
        cause: cause.into(),
    }
}

/// Returns a ConfigMap in the namespace `ns`, with its name as its uid.
pub(crate) fn map(name: &str, version: u64) -> Map {
    map_of(name, version, &format!("uid-of-{name}"))
}

pub(crate) fn map_of(name: &str, version: u64, uid: &str) -> Map {
    let mut map = Map::default();
    map.metadata.namespace = Some("ns".into());
    map.metadata.name = Some(name.into());
    map.metadata.resource_version = Some(version.to_string());
    map.metadata.uid = Some(uid.into());
    map
}

pub(crate) fn good(name: &str, version: u64) -> Raw {
    raw(&map(name, version))
}

/// Returns the object's JSON, as on the wire.
pub(crate) fn raw(map: &Map) -> Raw {
    Decoded::Good(RawObject::of(map).unwrap())
}

/// Returns an object that does not decode as a ConfigMap, but as other types.
pub(crate) fn odd(name: &str, version: u64) -> Raw {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": "odd",
        "metadata": map(name, version).metadata,
    });
    Decoded::Good(RawObject::from_json(object.to_string().into_bytes()).unwrap())
}

pub(crate) fn bad(name: &str, version: u64) -> Raw {
    let version = ResourceVersion::new(version.to_string());
    let uid = format!("uid-of-{name}");
    Malformed::new(key(name), uid, version, "broken by the script").into()
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("ns", name)
}

pub(crate) fn added(name: &str, version: u64) -> Item {
    Ok(WatchEvent::Added(good(name, version)))
}

pub(crate) fn modified(name: &str, version: u64) -> Item {
    Ok(WatchEvent::Modified(good(name, version)))
}

pub(crate) fn deleted(name: &str, version: u64) -> Item {
    Ok(WatchEvent::Deleted(good(name, version)))
}

pub(crate) fn bookmark(version: u64) -> Item {
    Ok(WatchEvent::Bookmark {
        version: ResourceVersion::new(version.to_string()),
        initial_events_end: false,
    })
}

pub(crate) fn end_of_initial_events(version: u64) -> Item {
    Ok(WatchEvent::Bookmark {
        version: ResourceVersion::new(version.to_string()),
        initial_events_end: true,
    })
}

/// An informer of ConfigMaps that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) informer: Informer<Map>,
    pub(crate) task: tokio::task::JoinHandle<()>,
    _stop: DropGuard,
}

/// Returns options without streaming lists, which other tests cover.
pub(crate) fn listing() -> InformerOptions {
    InformerOptions::new().watch_list(false).seed(7)
}

pub(crate) fn run(fake: &Fake, options: InformerOptions) -> Running {
    let informer = Informer::new(Kind::of::<Map>(), options);
    run_informer(fake, informer)
}

pub(crate) fn run_informer(fake: &Fake, informer: Informer<Map>) -> Running {
    let cancel = CancellationToken::new();
    let task = tokio::spawn(informer.run(fake.clone(), cancel.clone()));
    Running {
        informer,
        task,
        _stop: cancel.drop_guard(),
    }
}

impl Running {
    /// Returns name and version of each stored object.
    pub(crate) fn stored(&self) -> Vec<String> {
        let store = self.informer.store();
        let entries = store.entries(None);
        entries.iter().map(|entry| format!("{entry:?}")).collect()
    }

    /// Waits until the store has applied this version.
    pub(crate) async fn applied(&self, version: u64) {
        let version = ResourceVersion::new(version.to_string());
        let store = self.informer.store();
        while !store.version().is_at_least(&version) {
            tokio::task::yield_now().await;
        }
    }
}

/// Returns an event as text: `+a@1` created, `~a@1>2` updated, `-a@2` deleted, `-a@2?` deleted with
/// its final state unknown; `*a@1` for an initial object, `=a@1` for a resync.
pub(crate) fn word(event: &Event<Map>) -> String {
    use steersman_informer::Origin;
    let name = event.key().name().to_owned();
    let version = event.entry().version();
    match event {
        Event::Created { origin, .. } if *origin == Origin::Initial => format!("*{name}@{version}"),
        Event::Created { .. } => format!("+{name}@{version}"),
        Event::Updated { origin, .. } if *origin == Origin::Resync => format!("={name}@{version}"),
        Event::Updated { old, .. } => format!("~{name}@{}>{version}", old.version()),
        Event::Deleted { .. } if event.final_state_unknown() => format!("-{name}@{version}?"),
        Event::Deleted { .. } => format!("-{name}@{version}"),
    }
}

/// Returns the next delivery as text; `synced` for the marker, `end` at the end of the subscription.
pub(crate) async fn next(subscription: &mut Subscription<Map>) -> String {
    let next = tokio::time::timeout(Duration::from_secs(3600), subscription.next());
    match next.await {
        Ok(Some(Delivery::Event(event))) => word(&event),
        Ok(Some(Delivery::Synced)) => "synced".into(),
        Ok(Some(Delivery::Released(key))) => format!("!{}", key.name()),
        Ok(Some(_)) => "unknown".into(),
        Ok(None) => "end".into(),
        Err(_) => "silence".into(),
    }
}

/// Returns the next `count` deliveries.
pub(crate) async fn take(subscription: &mut Subscription<Map>, count: usize) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..count {
        words.push(next(subscription).await);
    }
    words
}
