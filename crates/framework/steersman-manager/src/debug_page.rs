//! Driver: the routes of the debug page below `/debug/`: pages, JSON and live updates.

mod view;
mod query;
mod text;
mod rows;
mod attention;
mod timeline;
mod server_metrics;
mod field_writers;
mod gather;
mod html;
mod pages;

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderValue, LOCATION,
};
use http::{Request, Response, StatusCode};
use k8s_openapi::jiff::Timestamp;
use kube_core::{DynamicObject, PartialObjectMeta};
use maud::Markup;
use prometheus::Registry;
use serde::Serialize;
use serde_json::json;
use steersman_api::clock::now;
use steersman_client::Client;
use steersman_object::{Kind, ObjectKey, report};
use steersman_serve::{Route, SignIn, json_response, response, stream_response, text_response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use self::field_writers::field_writers;
use self::gather::Gatherer;
use self::query::ViewQuery;
use self::view::FieldWriter;
use crate::diagnostics::Diagnostics;
use crate::monitor::{Monitor, RunStage};

/// The path of the debug page.
pub(crate) const DEBUG: &str = "/debug/";

/// The debug page of one manager. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DebugPage {
    gatherer: Gatherer,
    /// Whether only clients on this host reach the server, and whether it admits every client.
    is_loopback: bool,
    is_open: bool,
    /// The permits of live pages.
    live: Arc<Semaphore>,
}

/// A view: a page, and the JSON of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DebugView {
    Overview,
    Controller,
    Object,
    Caches,
    Server,
    Replicas,
}

/// The writers of the fields of an object; or why they are not known.
type Writers = Result<Vec<FieldWriter>, String>;

/// The state of one live page.
struct LivePage {
    page: DebugPage,
    view: DebugView,
    query: ViewQuery,
    /// The content that the browser has.
    shown: String,
    writers: Option<(Instant, Writers)>,
    /// The number of looks at the operator, and of those since the last message.
    looks: usize,
    silent: usize,
    _permit: OwnedSemaphorePermit,
}

const STYLE: &str = include_str!("debug_page/assets/page.css");
const SCRIPT: &str = include_str!("debug_page/assets/page.js");

/// No part of a page comes from elsewhere, and no other page may frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The number of live pages. Each has a connection, and looks at the operator once per [`BETWEEN_LOOKS`].
const MOST_LIVE: usize = 16;
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// The number of looks after which a live page ends. The browser opens it again, and its permission is checked again.
const MOST_LOOKS: usize = 300;

/// The number of looks after which a comment keeps the connection open.
const MOST_SILENT: usize = 15;

/// How long a live page shows the writers of an object before it asks the server again.
const WRITERS_KEPT: Duration = Duration::from_secs(10);
const WRITERS_LIMIT: Duration = Duration::from_secs(5);

const VIEWS: [(DebugView, &str, &str); 6] = [
    (
        DebugView::Overview,
        "overview",
        "all controllers, and what needs attention; filter, offset, limit",
    ),
    (
        DebugView::Controller,
        "controller",
        "one controller: its queue, errors and reconciles; controller=NAME, limit of the last reconciles",
    ),
    (
        DebugView::Object,
        "object",
        "the path of one object; controller=NAME, key=NAMESPACE/NAME",
    ),
    (
        DebugView::Caches,
        "caches",
        "the informers; filter, offset, limit",
    ),
    (
        DebugView::Server,
        "server",
        "requests to the API server, webhooks and certificates",
    ),
    (
        DebugView::Replicas,
        "replicas",
        "leader election and shards",
    ),
];

impl DebugView {
    fn named(name: &str) -> Option<Self> {
        let mut views = VIEWS.iter();
        views
            .find(|(_, known, _)| *known == name)
            .map(|(view, ..)| *view)
    }

    fn name(self) -> &'static str {
        let found = VIEWS.iter().find(|(view, ..)| *view == self);
        found.map_or("overview", |(_, name, _)| name)
    }

    /// Returns the path of its page below [`DEBUG`].
    fn path(self) -> &'static str {
        match self {
            Self::Overview => "./",
            other => other.name(),
        }
    }
}

impl DebugPage {
    pub(crate) fn new(
        monitor: &Arc<Monitor>,
        diagnostics: &Diagnostics,
        registry: &Registry,
        client: &Client,
        server: String,
    ) -> Self {
        Self {
            gatherer: Gatherer {
                monitor: Arc::clone(monitor),
                diagnostics: diagnostics.clone(),
                registry: registry.clone(),
                client: client.clone(),
                server,
                replica: replica(),
            },
            is_loopback: false,
            is_open: false,
            live: Arc::new(Semaphore::new(MOST_LIVE)),
        }
    }

    /// Sets whether only clients on this host reach the server, and whether it admits every client.
    pub(crate) fn reached_by(mut self, is_loopback: bool, is_open: bool) -> Self {
        (self.is_loopback, self.is_open) = (is_loopback, is_open);
        self
    }

    /// Returns the routes. `protect` adds the access control of the server, and `is_secure` says that it speaks HTTPS.
    pub(crate) fn routes(&self, is_secure: bool, protect: impl Fn(Route) -> Route) -> Vec<Route> {
        let form = |problem| html::sign_in(problem).into_string();
        let sign_in = SignIn::new(DEBUG, is_secure, form)
            .accept_links(self.is_loopback)
            .policy(POLICY);
        let file = |path: &str, content_type: &'static str, text: &'static str| {
            Route::get(format!("{DEBUG}{path}"), move |_| async move {
                response(StatusCode::OK, content_type, text)
            })
        };
        let this = self.clone();
        let pages = Route::get(DEBUG, move |request: Request<Bytes>| {
            let this = this.clone();
            async move { this.answer(&request).await }
        });
        vec![
            Route::get(DEBUG.trim_end_matches('/'), |_| async { to_pages() }),
            file("page.css", "text/css; charset=utf-8", STYLE),
            file("page.js", "text/javascript; charset=utf-8", SCRIPT),
            // Relative, as all links, because a proxy may serve the pages below another path.
            protect(pages.prefix().sign_in_at("sign-in")),
            sign_in.route(),
        ]
    }

    async fn answer(&self, request: &Request<Bytes>) -> Response<Bytes> {
        if self.is_open && !is_of_this_host(request.headers()) {
            let text = "open the page by its address, such as 127.0.0.1, or as localhost";
            return text_response(StatusCode::FORBIDDEN, text);
        }
        let path = request.uri().path().strip_prefix(DEBUG).unwrap_or_default();
        let query = ViewQuery::parse(request.uri().query().unwrap_or_default());
        let (form, name) = match path.split_once('/') {
            Some((form @ ("api" | "live"), name)) => (form, name),
            None if path == "api" => ("api", ""),
            None if path.is_empty() => ("page", DebugView::Overview.name()),
            _ => ("page", path),
        };
        let mut response = match (form, DebugView::named(name)) {
            ("api", _) if name.is_empty() => index(),
            ("api", Some(view)) => self.json(view, &query).await,
            ("live", Some(view)) => self.live(view, query),
            (_, Some(view)) => self.html(view, &query).await,
            (_, None) => not_found(name),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn html(&self, view: DebugView, query: &ViewQuery) -> Response<Bytes> {
        let writers = self.writers_for(view, query).await;
        let Some(content) = self.content(view, query, writers) else {
            return absent(query);
        };
        let title = match view {
            DebugView::Controller | DebugView::Object if !query.key.is_empty() => query.key.clone(),
            DebugView::Controller => query.controller.clone(),
            other => other.name().to_owned(),
        };
        let replica = &self.gatherer.replica;
        let page = html::page(view.path(), view.name(), (&title, replica), &content);
        response(
            StatusCode::OK,
            "text/html; charset=utf-8",
            page.into_string(),
        )
    }

    async fn json(&self, view: DebugView, query: &ViewQuery) -> Response<Bytes> {
        let writers = self.writers_for(view, query).await;
        let (gatherer, now) = (&self.gatherer, now());
        let found = match view {
            DebugView::Overview => Some(as_json(&gatherer.overview(query, now))),
            DebugView::Controller => gatherer.controller(query, now).as_ref().map(as_json),
            DebugView::Object => {
                let object = gatherer.object(query, now);
                object.map(|object| as_json(&object.with(writers)))
            }
            DebugView::Caches => Some(as_json(&gatherer.caches(query, now))),
            DebugView::Server => Some(as_json(&gatherer.server())),
            DebugView::Replicas => Some(as_json(&gatherer.replicas())),
        };
        found.unwrap_or_else(|| absent(query))
    }

    /// Returns the content of a page; `None` if the controller or the object of the query is unknown.
    fn content(&self, view: DebugView, query: &ViewQuery, writers: Writers) -> Option<Markup> {
        let (gatherer, now) = (&self.gatherer, now());
        Some(match view {
            DebugView::Overview => pages::overview(&gatherer.overview(query, now)),
            DebugView::Controller => pages::controller(&gatherer.controller(query, now)?),
            DebugView::Object => pages::object(&gatherer.object(query, now)?.with(writers)),
            DebugView::Caches => pages::caches(&gatherer.caches(query, now)),
            DebugView::Server => {
                let seconds = Timestamp::now().as_millisecond() as f64 / 1e3;
                pages::server(&gatherer.server(), seconds)
            }
            DebugView::Replicas => pages::replicas(&gatherer.replicas()),
        })
    }

    async fn writers_for(&self, view: DebugView, query: &ViewQuery) -> Writers {
        if view != DebugView::Object {
            return Ok(Vec::new());
        }
        if query.cluster().is_some() {
            return Err("the fields of objects of other clusters are not shown".to_owned());
        }
        let kind = self.gatherer.kind_of(&query.controller);
        match kind.zip(query.object()) {
            Some((kind, key)) => self.writers(&kind, &key).await,
            None => Err("the requests of this controller are not about objects".to_owned()),
        }
    }

    /// Asks the server for the metadata of an object, because the cache keeps no `managedFields`.
    async fn writers(&self, kind: &Kind, key: &ObjectKey) -> Writers {
        if kind.gvk().group().is_empty() && kind.gvk().kind() == "Secret" {
            return Err("the fields of Secrets are not shown".to_owned());
        }
        // The server sends metadata alone, of any kind.
        let live = self.gatherer.client.live();
        let live = live.of::<PartialObjectMeta<DynamicObject>>(kind);
        let found = match timeout(WRITERS_LIMIT, live.get_opt(key)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(format!("the server was asked, and: {}", report(&error))),
            Err(_) => return Err("the server did not answer in time".to_owned()),
        };
        let Some(found) = found else {
            return Err("the object does not exist on the server".to_owned());
        };
        let entries = found.metadata.managed_fields.unwrap_or_default();
        Ok(field_writers(&entries))
    }

    /// Returns whether the controller and the object of a query exist.
    fn has(&self, view: DebugView, query: &ViewQuery) -> bool {
        match view {
            DebugView::Controller => self.gatherer.has_controller(query),
            DebugView::Object => self.gatherer.has_controller(query) && query.object().is_some(),
            _ => true,
        }
    }

    /// Returns server-sent events: the content of the page, whenever it has changed.
    fn live(&self, view: DebugView, query: ViewQuery) -> Response<Bytes> {
        if !self.has(view, &query) {
            return absent(&query);
        }
        let Ok(permit) = Arc::clone(&self.live).try_acquire_owned() else {
            let text = format!("{MOST_LIVE} pages are live already: close one");
            return text_response(StatusCode::SERVICE_UNAVAILABLE, text);
        };
        let live = LivePage {
            page: self.clone(),
            view,
            query,
            shown: String::new(),
            writers: None,
            looks: 0,
            silent: 0,
            _permit: permit,
        };
        let messages = stream::unfold(live, |mut live| async move {
            let message = live.next_message().await?;
            Some((message, live))
        });
        stream_response("text/event-stream", messages)
    }
}

impl LivePage {
    /// Waits for the next message; `None` when the operator stops, so that no stop waits for a browser.
    async fn next_message(&mut self) -> Option<Bytes> {
        loop {
            if self.looks > 0 {
                sleep(BETWEEN_LOOKS).await;
            }
            self.looks += 1;
            if self.looks > MOST_LOOKS || self.page.gatherer.monitor.stage() == RunStage::Stopping {
                return None;
            }
            let writers = self.known_writers().await;
            // A request of the program may panic when it is formatted, which ends this page alone.
            let content = || self.page.content(self.view, &self.query, writers);
            let content = catch_unwind(AssertUnwindSafe(content)).ok().flatten()?;
            self.silent += 1;
            if content.0 != self.shown {
                self.shown = content.0;
                self.silent = 0;
                return Some(message(&self.shown));
            }
            if self.silent >= MOST_SILENT {
                self.silent = 0;
                return Some(Bytes::from_static(b": nothing new\n\n"));
            }
        }
    }

    async fn known_writers(&mut self) -> Writers {
        if self.view != DebugView::Object {
            return Ok(Vec::new());
        }
        let fresh = |at: &Instant| now().saturating_duration_since(*at) < WRITERS_KEPT;
        if let Some((_, known)) = self.writers.as_ref().filter(|(at, _)| fresh(at)) {
            return known.clone();
        }
        let asked = self.page.writers_for(self.view, &self.query).await;
        self.writers = Some((now(), asked.clone()));
        asked
    }
}

/// Returns a server-sent event. Each line of its data has a field of its own.
fn message(data: &str) -> Bytes {
    let mut message = String::with_capacity(data.len() + 32);
    for line in data.split(['\n', '\r']) {
        message.push_str("data: ");
        message.push_str(line);
        message.push('\n');
    }
    message.push('\n');
    message.into()
}

/// Returns the program and the host of this replica; in a Pod, the host is the Pod.
fn replica() -> String {
    let program = std::env::args_os().next();
    let program = program.as_deref().map(Path::new).and_then(Path::file_stem);
    let program = program.map(|name| name.to_string_lossy().into_owned());
    let program = program.unwrap_or_else(|| "operator".to_owned());
    match std::env::var("HOSTNAME") {
        Ok(host) if !host.is_empty() => format!("{program} on {host}"),
        _ => program,
    }
}

/// Returns whether a browser was sent here by an address or by the name `localhost`. By any other name, a site could have made
/// its own name point at this host, and read the page.
fn is_of_this_host(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(host) = host else {
        return true;
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<IpAddr>().is_ok()
}

fn as_json(view: &impl Serialize) -> Response<Bytes> {
    match serde_json::to_string_pretty(view) {
        Ok(text) => json_response(StatusCode::OK, text + "\n"),
        // The keys of all maps are texts, so this does not happen.
        Err(error) => text_response(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Returns the list of the views.
fn index() -> Response<Bytes> {
    let views = VIEWS
        .iter()
        .map(|(_, name, about)| json!({ "path": format!("{DEBUG}api/{name}"), "about": about }));
    let index = json!({ "views": views.collect::<Vec<_>>() });
    json_response(StatusCode::OK, format!("{index:#}\n"))
}

fn not_found(name: &str) -> Response<Bytes> {
    let known: Vec<&str> = VIEWS.iter().map(|(_, name, _)| *name).collect();
    let known = known.join(", ");
    let text = format!("there is no view {name:?}; the views are {known}");
    text_response(StatusCode::NOT_FOUND, text)
}

fn absent(query: &ViewQuery) -> Response<Bytes> {
    let text = format!(
        "there is no controller {:?}, or its requests are not about an object {:?} (namespace/name)",
        query.controller, query.key
    );
    text_response(StatusCode::NOT_FOUND, text)
}

/// Sends a browser to the page. The address is relative, because a proxy may serve the page below another path.
fn to_pages() -> Response<Bytes> {
    let mut response = text_response(StatusCode::MOVED_PERMANENTLY, "see debug/");
    let target = HeaderValue::from_static("debug/");
    response.headers_mut().insert(LOCATION, target);
    response
}

#[cfg(test)]
mod tests;
