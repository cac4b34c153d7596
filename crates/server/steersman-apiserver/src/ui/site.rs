//! Driver: answers the requests of browsers: reads the state of the server, and carries out forms.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use maud::Markup;
use serde::Serialize;
use serde_json::json;
use steersman_registry::Registry;

use super::faults::{FaultsView, ServerAct, act, spec};
use super::form::Form;
use super::guard::{ForeignRequest, check_form, check_host};
use super::kinds;
use super::markup::{self, PageFrame};
use super::news;
use super::object::FoundObject;
use super::objects::{ObjectFilter, ObjectPage};
use super::reply::{self, UiResponse};
use super::requests::{RequestFilter, RequestPage, RequestRow, RequestView};
use super::revisions::{
    self, LoggedChange, RevisionBy, RevisionFilter, RevisionView, RevisionsView,
};
use super::route::{UiFormat, UiRoute};
use crate::faults::{FaultGuard, History, Restart};
use crate::http::Context;

/// The files of the page.
const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const ICON: &str = include_str!("icon.svg");

/// Maximum size of a form, in bytes.
const LARGEST_FORM: usize = 64 << 10;

/// The pages of one server.
pub(crate) struct Site {
    context: Arc<Context>,
    /// The token of the forms, which pages of other sites cannot read.
    token: String,
}

impl Site {
    pub(crate) fn new(context: Arc<Context>, token: String) -> Self {
        Self { context, token }
    }

    pub(crate) async fn answer<B>(&self, request: Request<B>) -> UiResponse
    where
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
    {
        let (parts, body) = request.into_parts();
        if let Err(refusal) = check_host(&parts.headers) {
            return forbidden(&refusal);
        }
        match parts.method {
            Method::GET => self.read(&parts),
            Method::POST => match Limited::new(body, LARGEST_FORM).collect().await {
                Ok(body) => self.write(&parts, &Form::parse(&body.to_bytes())),
                Err(_) => reply::text(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!("a form has at most {LARGEST_FORM} bytes"),
                ),
            },
            _ => {
                let text = "the page answers GET, and POST of its forms".to_owned();
                reply::text(StatusCode::METHOD_NOT_ALLOWED, text)
            }
        }
    }

    fn read(&self, parts: &Parts) -> UiResponse {
        let path = parts.uri.path();
        match path {
            "/page.css" => return reply::file("text/css; charset=utf-8", CSS),
            "/page.js" => return reply::file("text/javascript; charset=utf-8", SCRIPT),
            "/icon.svg" => return reply::file("image/svg+xml", ICON),
            "/api/events" => return reply::events(news::stream(Arc::clone(&self.context))),
            _ => {}
        }
        let form = Form::of_query(parts.uri.query());
        let shown = match UiRoute::parse(path) {
            Some((route, format)) => self.show(&route, format, &form),
            None => Err(UiFormat::Html),
        };
        shown.unwrap_or_else(|format| self.missing(format, path))
    }

    /// Returns a page, or its JSON; an error for an object, a kind or a request that does not exist.
    fn show(&self, route: &UiRoute, format: UiFormat, form: &Form) -> Result<UiResponse, UiFormat> {
        Ok(match route {
            UiRoute::Kinds => {
                let view = self.registry(kinds::kinds);
                self.view(format, &view, ("/", "Objects"), markup::kinds)
            }
            UiRoute::Objects { resource } => {
                let filter = ObjectFilter::of(form);
                let page =
                    self.registry(|registry| ObjectPage::collect(registry, resource, filter));
                let view = page.ok_or(format)?.view(self.now());
                self.view(format, &view, ("/", &view.kind), markup::objects)
            }
            UiRoute::Object {
                resource,
                namespace,
                name,
            } => return self.object(format, form, resource, (namespace, name)),
            UiRoute::Changes => {
                let filter = RevisionFilter::of(form);
                let collect = |registry: &Registry| {
                    let oldest = registry.store().compacted();
                    (revisions::collect(registry, &filter), oldest)
                };
                let (mut changes, oldest) = self.registry(collect);
                let next = next_page(&mut changes);
                let view = RevisionsView {
                    revisions: self.revisions(&changes),
                    filter,
                    next,
                    oldest,
                };
                self.view(format, &view, ("/changes", "Changes"), markup::changes)
            }
            UiRoute::Requests => {
                let watches = self.context.faults.watches.sequences();
                let mut page = RequestPage::new(RequestFilter::of(form), watches);
                let log = &self.context.log;
                log.visit_newest_first(|record| page.add(record));
                let view = page.view(log.forgotten());
                self.view(format, &view, ("/requests", "Requests"), markup::requests)
            }
            UiRoute::Request { sequence } => {
                let record = self.context.log.find(*sequence).ok_or(format)?;
                let watches = self.context.faults.watches.sequences();
                let made = self.context.revisions_of(*sequence);
                let with = |registry: &Registry| revisions::with_revisions(registry, &made);
                let changes = self.registry(with);
                let view = RequestView {
                    row: RequestRow::new(record, &watches),
                    revisions: self.revisions(&changes),
                };
                let title = format!("Request {sequence}");
                self.view(format, &view, ("/requests", &title), markup::request)
            }
            UiRoute::Faults => {
                let view = self.faults();
                let frame = self.frame();
                self.view(format, &view, ("/faults", "Faults"), |view| {
                    markup::faults(view, &frame, form, None)
                })
            }
        })
    }

    fn object(
        &self,
        format: UiFormat,
        form: &Form,
        resource: &str,
        place: (&str, &str),
    ) -> Result<UiResponse, UiFormat> {
        let before = form.number("before");
        let find = |registry: &Registry| {
            let found = FoundObject::find(registry, resource, place)?;
            let history = revisions::of_object(registry, &found.resource, place, before);
            Some((found, history))
        };
        let (found, mut history) = self.registry(find).ok_or(format)?;
        let next = next_page(&mut history);
        let view = found.view(self.revisions(&history), next);
        let title = format!("{} {}", view.kind, view.name);
        let is_first_page = before.is_none();
        Ok(self.view(format, &view, ("/", &title), |view| {
            markup::object(view, is_first_page)
        }))
    }

    fn write(&self, parts: &Parts, form: &Form) -> UiResponse {
        if let Err(refusal) = check_form(&parts.headers, form, &self.token) {
            return forbidden(&refusal);
        }
        let done = match parts.uri.path() {
            "/faults" => self.plan(form),
            "/faults/remove" => self.remove(form),
            "/watches" => act(form).map(|act| self.act(&act)),
            path => return self.missing(UiFormat::Html, path),
        };
        match done {
            Ok(()) => reply::see_other("/faults"),
            Err(problem) => {
                let (view, frame) = (self.faults(), self.frame());
                let content = markup::faults(&view, &frame, form, Some(&problem));
                let page = frame.page("/faults", "Faults", &content);
                reply::html(StatusCode::BAD_REQUEST, page)
            }
        }
    }

    fn plan(&self, form: &Form) -> Result<(), String> {
        let added = self.context.faults.add(spec(form)?);
        added.map(FaultGuard::keep).map_err(|status| status.message)
    }

    fn remove(&self, form: &Form) -> Result<(), String> {
        match (form.get("id"), form.number("id")) {
            (Some("all"), _) => {
                self.context.faults.clear();
                Ok(())
            }
            (_, Some(id)) => {
                // A fault that is gone already is removed as well.
                self.context.faults.remove(id);
                Ok(())
            }
            _ => Err("id names no fault; use a button of the list".to_owned()),
        }
    }

    fn act(&self, act: &ServerAct) {
        match act {
            ServerAct::Watches { mode, resource } => {
                self.context.faults.switch(*mode, resource);
            }
            ServerAct::Compact => self.context.with_registry(Registry::compact),
            ServerAct::Restart => {
                self.context.restart(Restart::new(History::Kept));
            }
        }
    }

    fn faults(&self) -> FaultsView {
        let faults = &self.context.faults;
        FaultsView {
            planned: faults.planned(),
            open_watches: faults.open_watches("*"),
        }
    }

    /// Adds the time and the request of each change, and finds its difference, without the registry's lock.
    fn revisions(&self, changes: &[LoggedChange]) -> Vec<RevisionView> {
        let view = |change: &LoggedChange| {
            let origin = self.context.origin(change.revision());
            let by = match origin.map(|origin| origin.request) {
                None => RevisionBy::Unknown,
                Some(None) => RevisionBy::Server,
                Some(Some(sequence)) => match self.context.log.find(sequence) {
                    Some(record) => RevisionBy::request(&record),
                    None => RevisionBy::ForgottenRequest { sequence },
                },
            };
            RevisionView::of(change, origin.map(|origin| origin.at), by)
        };
        changes.iter().map(view).collect()
    }

    fn view<V: Serialize>(
        &self,
        format: UiFormat,
        view: &V,
        (tab, title): (&str, &str),
        markup: impl FnOnce(&V) -> Markup,
    ) -> UiResponse {
        match format {
            UiFormat::Json => reply::json(StatusCode::OK, view),
            UiFormat::Html => {
                let page = self.frame().page(tab, title, &markup(view));
                reply::html(StatusCode::OK, page)
            }
        }
    }

    fn missing(&self, format: UiFormat, path: &str) -> UiResponse {
        let text = format!("{path} does not exist, or is no longer retained.");
        match format {
            UiFormat::Json => reply::json(StatusCode::NOT_FOUND, &json!({"message": text})),
            UiFormat::Html => {
                let content = markup::message("Not found", &text);
                let page = self.frame().page("", "Not found", &content);
                reply::html(StatusCode::NOT_FOUND, page)
            }
        }
    }

    fn frame(&self) -> PageFrame {
        PageFrame {
            revision: self.registry(Registry::revision),
            faults: self.context.faults.planned().len(),
            token: self.token.clone(),
        }
    }

    fn registry<R>(&self, read: impl FnOnce(&Registry) -> R) -> R {
        self.context.with_registry(|registry| read(registry))
    }

    /// Returns the time until which ages are counted. A test that pauses tokio's clock may have moved it ahead of the
    /// clock of the page's thread; the last request has the time of the test.
    fn now(&self) -> Timestamp {
        let last = self.context.log.last_at();
        last.map_or(self.context.now(), |last| last.max(self.context.now()))
    }
}

/// Removes the change that only says that there is a next page, and returns the `before` of that page.
fn next_page(changes: &mut Vec<LoggedChange>) -> Option<u64> {
    if changes.len() <= revisions::PAGE {
        return None;
    }
    changes.truncate(revisions::PAGE);
    changes.last().map(LoggedChange::revision)
}

fn forbidden(refusal: &ForeignRequest) -> UiResponse {
    reply::text(StatusCode::FORBIDDEN, refusal.to_string())
}
