//! Driver: the tower service: reads a request, carries it out, and writes the answer.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task;

use bytes::Bytes;
use futures::FutureExt;
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use steersman_apimachinery::status::Status;
use steersman_auth::User;
use steersman_registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::faults::{
    Decision, DepartureDecision, RequestInterceptor, RequestRecord, RestartEffect, Verb, WatchMode,
};
use crate::http::context::Context;
use crate::http::documents::serve::{self, DocumentRequest};
use crate::http::documents::{issuer, metrics};
use crate::http::handlers::verbs::{self, RequestBody};
use crate::http::handlers::{admin, future_reads, stop, watch};
use crate::http::requests::auth::{AuthOutcome, Caller};
use crate::http::requests::call::{self, HttpRefusal, ResourceCall};
use crate::http::requests::deadline;
use crate::http::requests::headers::{append, joined, text};
use crate::http::requests::negotiate::{self, Format};
use crate::http::requests::path::{ObjectPath, PathRoute};
use crate::http::requests::query::Query;
use crate::http::requests::receive::read;
use crate::http::responses::body::{BodyError, ResponseBody};
use crate::http::responses::reply::{HttpOutcome, Reply, ReplyBody};
use crate::http::responses::{faulty_body, gzip};

const PANICKED: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// The server as a [`tower::Service`], for clients in the same process. Cheap to clone.
///
/// Accepts requests with any body type. Fails only if a fault or a simulated restart cuts the connection before the
/// answer. All work happens in the returned future; dropping the future abandons the request, which then has done all
/// of its work or none.
///
/// If the code that handles a request panics, the request is answered 500. The process's panic hook reports the panic,
/// and the server continues to serve.
#[derive(Debug, Clone)]
pub struct ApiService {
    context: Arc<Context>,
    caller: Caller,
    stop: CancellationToken,
}

impl ApiService {
    pub(crate) fn new(context: Arc<Context>, caller: Caller, stop: CancellationToken) -> Self {
        Self {
            context,
            caller,
            stop,
        }
    }
}

impl<B: Body<Data: Send> + Send + 'static> tower::Service<Request<B>> for ApiService {
    type Response = Response<ResponseBody>;
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BodyError>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> task::Poll<Result<(), BodyError>> {
        task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        let is_head = request.method() == Method::HEAD;
        Box::pin(async move {
            let answer = match caught(service.handle(request)).await {
                Ok(answer) => answer?,
                Err(status) => plain(Reply::status(&status, Format::Json)),
            };
            Ok(if is_head {
                without_body(answer)
            } else {
                answer
            })
        })
    }
}

impl ApiService {
    async fn handle(
        self,
        request: Request<impl Body<Data: Send> + Send + 'static>,
    ) -> Result<Response<ResponseBody>, BodyError> {
        let (parts, body) = request.into_parts();
        let mut query = Query::parse(parts.uri.query());
        if let Some(path) = admin::below_root(parts.uri.path()) {
            let auth = self.context.check_auth(&parts, &query, &self.caller);
            let asked = (&query, &auth);
            let done = caught(self.administer(&parts, path, asked, body)).await;
            let reply = done.unwrap_or_else(|status| Reply::status(&status, Format::Json));
            let record = self.describe(&parts, &PathRoute::Unknown, &query, &auth);
            return Ok(self.respond(reply, &record, &Decision::default(), false));
        }
        let route = PathRoute::parse(parts.uri.path());
        let auth = self.context.check_auth(&parts, &query, &self.caller);
        let mut record = self.describe(&parts, &route, &query, &auth);
        self.context.log.begin(&mut record);
        if let Some(met) = self.context.meet_outage(&record) {
            let reply = match met {
                RestartEffect::Nothing => return Err(BodyError),
                RestartEffect::Refusal(status) => Reply::status(&status, Format::Json),
                RestartEffect::NotReady => {
                    Reply::text(500, "[-]poststarthook failed: not finished\n")
                }
            };
            self.context.log.finish(record.sequence, reply.code, None);
            return Ok(self.respond(reply, &record, &Decision::default(), false));
        }
        let mut decision = self.context.faults.decide(&record);
        if !decision.delay.is_zero() {
            tokio::time::sleep(decision.delay).await;
        }
        if let Some(fault) = decision.swallowed_by {
            self.context.faults.lifted(fault).await;
        }
        let interceptor = self.context.interceptor.of(&record);
        if let Some(interceptor) = &interceptor {
            let past = decision.add_interceptor(interceptor.arrive(&record).await);
            if let Some(revision) = past.filter(|_| record.does(Verb::List)) {
                query.look_back(revision);
            }
        }
        if decision.cut && !decision.commit {
            return Err(BodyError);
        }
        if decision.stale > 0 && record.does(Verb::List) {
            let past = |registry: &mut Registry| registry.past_revision(decision.stale);
            query.look_back(self.context.with_registry(past));
        }
        let outcome = match decision.answer.take() {
            Some(status) if !decision.commit => Err(HttpRefusal::Status(status)),
            lost => {
                let done = match self.refuse(&auth, Some((&query, &record))) {
                    Some(refusal) => Err(refusal),
                    None => {
                        let who = (&record, &auth.user);
                        let done = caught(self.answer(&parts, body, &route, &query, who)).await;
                        done.unwrap_or_else(|status| Err(status.into()))
                    }
                };
                // A fault that carries out the request and replaces its answer replaces only a success: a refused
                // request changed nothing, so its client gets the refusal.
                match lost {
                    Some(status) if done.is_ok() => Err(HttpRefusal::Status(status)),
                    _ => done,
                }
            }
        };
        if decision.cut {
            return Err(BodyError);
        }
        let accept = text(&parts.headers, header::ACCEPT);
        let mut reply = outcome.unwrap_or_else(|refusal| refused(refusal, accept));
        if let Some(interceptor) = interceptor {
            reply = depart(&*interceptor, &mut record, reply, accept).await?;
        }
        let (code, created) = (reply.code, reply.created.as_deref());
        self.context.log.finish(record.sequence, code, created);
        self.context.counts.lock().count(&record, code);
        let gzip = gzip::is_accepted(text(&parts.headers, header::ACCEPT_ENCODING));
        Ok(self.respond(reply, &record, &decision, gzip))
    }

    /// Returns the refusal of a request for a reason that does not depend on its object: the listener stops, the
    /// parameter `timeout` is invalid, or the client is not allowed (AUTH-1). `None` if there is no such reason.
    fn refuse(
        &self,
        auth: &AuthOutcome,
        asked: Option<(&Query, &RequestRecord)>,
    ) -> Option<HttpRefusal> {
        if self.stop.is_cancelled() {
            return Some(stop::refusal().into());
        }
        let asked = asked.filter(|(_, record)| !runs_long(record));
        let late = asked.and_then(|(query, _)| deadline::of(query).err());
        let refusal = late.map(Box::new).or_else(|| auth.refusal.clone());
        refusal.map(HttpRefusal::Status)
    }

    /// Answers a request below `/steersman/`, which controls the server. Only administrators may send such requests.
    async fn administer(
        &self,
        parts: &Parts,
        path: &str,
        (query, auth): (&Query, &AuthOutcome),
        body: impl Body,
    ) -> Reply {
        let body = match read(&parts.headers, body).await {
            Ok(body) => body,
            Err(status) => return Reply::status(&status, Format::Json),
        };
        if let Some(refusal) = self.refuse(auth, None) {
            return refused(refusal, None);
        }
        let asked = (parts.method.as_str(), path);
        let reply = admin::answer(&self.context, &auth.user, asked, query, &body);
        match self.context.kept(false).await {
            Ok(()) => reply,
            Err(status) => Reply::status(&status, Format::Json),
        }
    }

    async fn answer(
        &self,
        parts: &Parts,
        body: impl Body<Data: Send> + Send + 'static,
        route: &PathRoute,
        query: &Query,
        (record, user): (&RequestRecord, &Arc<User>),
    ) -> HttpOutcome {
        match route {
            PathRoute::Metrics => {
                let counts = self.context.counts.lock();
                let print = |registry: &mut Registry| counts.print(registry);
                let text = self.context.with_registry(print);
                Ok(Reply::new(200, metrics::CONTENT_TYPE, text))
            }
            PathRoute::Objects(path) => {
                self.check_served(path)?;
                let accept = text(&parts.headers, header::ACCEPT);
                let call = ResourceCall {
                    path,
                    verb: record.verb,
                    sequence: record.sequence,
                    query,
                    accept,
                    content_type: text(&parts.headers, header::CONTENT_TYPE).unwrap_or_default(),
                    user_agent: text(&parts.headers, header::USER_AGENT).unwrap_or_default(),
                    user,
                    watch_list: self.context.tuning.watch_list,
                };
                let (outcome, warnings) = self.perform(parts, body, &call).await?;
                if warnings.is_empty() {
                    return outcome;
                }
                let mut reply = outcome.unwrap_or_else(|refusal| refused(refusal, accept));
                reply.warnings = warnings;
                Ok(reply)
            }
            document => self.answer_document(parts, document, query),
        }
    }

    fn answer_document(&self, parts: &Parts, route: &PathRoute, query: &Query) -> HttpOutcome {
        let (resources, has_issuer) = self
            .context
            .with_registry(|registry| (registry.resources().to_vec(), registry.has_issuer()));
        let ask = DocumentRequest {
            method: parts.method.as_str(),
            accept: text(&parts.headers, header::ACCEPT),
            query,
            if_none_match: text(&parts.headers, header::IF_NONE_MATCH),
            has_issuer,
            log_failure: self.context.log_failure(),
        };
        if let PathRoute::Issuer(document) = route {
            let answer = |registry: &mut Registry| issuer::answer(*document, &ask, registry);
            return self.context.with_registry(answer);
        }
        let mut cache = self.context.documents.lock();
        serve::answer(route, &ask, &resources, &mut cache)
    }

    async fn perform(
        &self,
        parts: &Parts,
        body: impl Body<Data: Send> + Send + 'static,
        call: &ResourceCall<'_>,
    ) -> Result<(HttpOutcome, Vec<String>), HttpRefusal> {
        let reads = matches!(call.verb, None | Some(Verb::Get | Verb::List | Verb::Watch));
        let body = if reads {
            Bytes::new()
        } else {
            self.context.check_writable()?;
            read(&parts.headers, body).await?
        };
        let now = self.context.now();
        let mut body = RequestBody::new(&body);
        // SRV-1: the verb does not wait. If it needs an answer of a webhook, it changes nothing and is run again with
        // the answer.
        let perform = |registry: &mut Registry| {
            if !reads {
                self.context.note_request(call.sequence);
            }
            verbs::perform(registry, call, &mut body, now)
        };
        let asking = async {
            let verb = future_reads::run(&self.context, perform);
            let done = stop::before_end(&self.stop, verb).await;
            let (outcome, warnings) = done.unwrap_or_else(|why| (Err(why.into()), Vec::new()));
            let kept = self.context.kept(reads).await;
            (kept.map_err(HttpRefusal::from).and(outcome), warnings)
        };
        let (outcome, warnings) = match call.verb {
            Some(Verb::Watch) => asking.await,
            _ => {
                // `refuse` has refused an invalid `timeout`, except for requests that may run long, such as one for the
                // log of a Pod: these get the maximum.
                let within = deadline::of(call.query).unwrap_or(deadline::MOST);
                let asked = tokio::time::timeout(within, asking).await;
                asked.map_err(|_| deadline::missed())?
            }
        };
        Ok((outcome.and_then(|reply| Ok(reply.encoded()?)), warnings))
    }

    /// Refuses a path with an unserved resource, before the Accept header and the body are checked.
    fn check_served(&self, path: &ObjectPath) -> Result<(), HttpRefusal> {
        self.context.with_registry(|registry| {
            match registry.resource(&path.group, &path.version, &path.resource) {
                Some(_) => Ok(()),
                None => Err(verbs::unknown_version(registry, &path.group)),
            }
        })
    }

    fn describe(
        &self,
        parts: &Parts,
        route: &PathRoute,
        query: &Query,
        auth: &AuthOutcome,
    ) -> RequestRecord {
        let (object, verb) = match route {
            PathRoute::Objects(path) => (path.clone(), call::verb_of(&parts.method, path, query)),
            PathRoute::Resources { group, version } => {
                let object = ObjectPath {
                    group: group.clone(),
                    version: version.clone(),
                    ..ObjectPath::default()
                };
                (object, None)
            }
            _ => (ObjectPath::default(), None),
        };
        let user_agent = text(&parts.headers, header::USER_AGENT);
        let initial = query.switch("sendInitialEvents").unwrap_or(false);
        RequestRecord {
            sequence: 0,
            at: self.context.now(),
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            parameters: query.pairs().to_vec(),
            verb,
            group: object.group,
            version: object.version,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            user_agent: user_agent.unwrap_or_default().to_owned(),
            accept: joined(&parts.headers, header::ACCEPT),
            user: auth.user.name.clone(),
            groups: auth.user.groups.clone(),
            impersonated_by: auth.by.as_ref().map(|by| by.name.clone()),
            watch_list: verb == Some(Verb::Watch) && initial,
            status: None,
        }
    }

    fn respond(
        self,
        reply: Reply,
        record: &RequestRecord,
        decision: &Decision,
        gzip: bool,
    ) -> Response<ResponseBody> {
        let gzip_watches = self.context.tuning.gzip_watches;
        let body = match reply.body {
            ReplyBody::Whole(bytes) => ResponseBody::whole(bytes),
            ReplyBody::List(list) => ResponseBody::list(list),
            // This arm is never reached, because `perform` has encoded all objects and lists.
            ReplyBody::UnencodedObject(_) | ReplyBody::UnencodedList(_) => {
                ResponseBody::whole(Bytes::new())
            }
            ReplyBody::Watch(watch) => {
                let mode = match decision.watch {
                    watch_faults if watch_faults.expired => WatchMode::Expired,
                    watch_faults if watch_faults.silent => WatchMode::Silent,
                    _ => WatchMode::Live,
                };
                let tap = self.context.faults.watches.open(record, mode, self.stop);
                ResponseBody::stream(watch::stream(self.context, *watch, tap, decision.watch))
            }
        };
        let length = body.size_hint().exact();
        let packed = gzip && length.map_or(gzip_watches, |length| length > gzip::THRESHOLD);
        let body = if packed { body.compressed() } else { body };
        let body = faulty_body::chop(body, decision.chop);
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(reply.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let fixed = HeaderValue::from_static;
        if !reply.content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, fixed(reply.content_type));
        }
        headers.insert(header::CACHE_CONTROL, fixed(reply.cache_control));
        if packed {
            headers.insert(header::CONTENT_ENCODING, fixed("gzip"));
            headers.insert(header::VARY, fixed("Accept-Encoding"));
        }
        if reply.retry_after > 0 {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(reply.retry_after));
        }
        if let Some(tag) = reply.etag {
            append(headers, header::ETAG, &tag);
            // All formats of a document have one `ETag`, so caches need `Vary` to tell the formats apart.
            headers.append(header::VARY, fixed("Accept"));
        }
        for warning in &reply.warnings {
            let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
            append(headers, header::WARNING, &format!("299 - \"{quoted}\""));
        }
        response
    }
}

/// Lets the interceptor decide about the answer of a request that was carried out.
async fn depart(
    interceptor: &dyn RequestInterceptor,
    record: &mut RequestRecord,
    reply: Reply,
    accept: Option<&str>,
) -> Result<Reply, BodyError> {
    record.status = Some(reply.code);
    if let Some(created) = &reply.created {
        record.name = Some(created.clone());
    }
    match interceptor.depart(record).await {
        DepartureDecision::Answer => Ok(reply),
        DepartureDecision::Replace(status) => Ok(refused(HttpRefusal::Status(status), accept)),
        DepartureDecision::Cut => Err(BodyError),
    }
}

/// Awaits a future. A panic becomes the Status of a 500, and ends neither the connection nor the server (SRV-4).
async fn caught<F: Future>(work: F) -> Result<F::Output, Status> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.map_err(|_| Status::internal(PANICKED.to_owned()))
}

fn plain(reply: Reply) -> Response<ResponseBody> {
    let body = match reply.body {
        ReplyBody::Whole(bytes) => bytes,
        _ => Bytes::new(),
    };
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let content_type = HeaderValue::from_static(reply.content_type);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    response
}

/// Removes the body from the answer to a `HEAD`, because HTTP/2 forbids it, and keeps its length as a header.
fn without_body(answer: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut parts, body) = answer.into_parts();
    if let Some(length) = body.size_hint().exact() {
        let length = HeaderValue::from(length);
        parts.headers.insert(header::CONTENT_LENGTH, length);
    }
    Response::from_parts(parts, ResponseBody::whole(Bytes::new()))
}

fn refused(refusal: HttpRefusal, accept: Option<&str>) -> Reply {
    match refusal {
        HttpRefusal::PageNotFound => Reply::text(404, "404 page not found\n"),
        HttpRefusal::Status(status) => Reply::status(&status, negotiate::format(accept)),
    }
}

fn runs_long(record: &RequestRecord) -> bool {
    let part = record.subresource.as_deref().unwrap_or_default();
    let part = part.split('/').next().unwrap_or_default();
    record.does(Verb::Watch) || matches!(part, "attach" | "exec" | "proxy" | "log" | "portforward")
}
