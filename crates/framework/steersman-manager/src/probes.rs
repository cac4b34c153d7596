//! Driver: runs the checks of a health endpoint and answers with their results.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use steersman_object::panic_text;
use steersman_serve::{CheckResult, Error as ServeError, ProbeQuery, Route, Routes, text_response};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::error::{BoxError, Error};
use crate::health::Check;
use crate::http_options::HealthServer;
use crate::monitor::Monitor;

mod built_in_checks;

#[derive(Clone, Default, derive_more::Debug)]
#[debug("{:?}", checks.lock().iter().map(|check| &check.name).collect::<Vec<_>>())]
pub(crate) struct AddedChecks {
    checks: Arc<Mutex<Vec<AddedCheck>>>,
}

#[derive(Clone)]
struct AddedCheck {
    name: String,
    run: RunCheck,
}

type RunCheck = Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

struct ProbeEndpoint {
    /// The name of the endpoint, for instance `readyz`.
    name: &'static str,
    built_in: BuiltIn,
    added: AddedChecks,
    monitor: Arc<Monitor>,
    reveals: bool,
    limit: Duration,
    /// The checks that failed at the last request for all checks, so that each change is logged once.
    failed: Mutex<HashMap<String, String>>,
}

/// The checks that a request waits for. When dropped, because the client of the request has left, it logs the slow
/// checks (HEALTH-4).
struct AwaitedChecks<'a> {
    endpoint: &'a ProbeEndpoint,
    began: Instant,
    names: Mutex<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltIn {
    Ready,
    Live,
}

/// The check that passes whenever the process answers.
const PING: &str = "ping";
/// The time after which a check counts as slow: half of the kubelet's default timeout of a probe. If the client leaves
/// earlier, no check is logged.
const SLOW: Duration = Duration::from_millis(500);

impl BuiltIn {
    /// Returns the names of the manager's own checks, in order.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Ready => &[PING, "manager", "informers", "client-certificates"],
            Self::Live => &[PING, "tasks", "workers", "reflectors"],
        }
    }

    fn run(self, monitor: &Monitor) -> Vec<Check> {
        match self {
            Self::Ready => monitor.ready_checks().into(),
            Self::Live => {
                let now = Instant::now().into_std();
                monitor.live_checks(now).into()
            }
        }
    }
}

impl AddedChecks {
    pub(crate) fn add<F, Fut, E>(&self, taken: BuiltIn, name: String, check: F) -> Result<(), Error>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if name.is_empty() || !name.chars().all(is_named) {
            return Err(Error::CheckName { name });
        }
        let mut checks = self.checks.lock();
        let is_taken = taken.names().contains(&name.as_str());
        if is_taken || checks.iter().any(|known| known.name == name) {
            return Err(Error::DuplicateCheck { name });
        }
        let check = Arc::new(check);
        let run: RunCheck = Arc::new(move || {
            let check = Arc::clone(&check);
            // Both the call of `check` and its future may panic, so both run inside the block that catches panics.
            async move { check().await.map_err(Into::into) }.boxed()
        });
        checks.push(AddedCheck { name, run });
        Ok(())
    }
}

impl AddedCheck {
    async fn result(&self, limit: Duration) -> CheckResult {
        let run = AssertUnwindSafe((self.run)()).catch_unwind();
        let reason = match timeout(limit, run).await {
            Ok(Ok(Ok(()))) => return CheckResult::passed(&self.name),
            Ok(Ok(Err(error))) => steersman_object::report(&*error).to_string(),
            Ok(Err(payload)) => format!("the check panicked: {}", panic_text(&*payload)),
            Err(_) => format!("the check takes longer than {limit:?}"),
        };
        CheckResult::failed(&self.name, reason)
    }
}

impl ProbeEndpoint {
    async fn answer(&self, request: http::Request<bytes::Bytes>) -> http::Response<bytes::Bytes> {
        let query = ProbeQuery::parse(request.uri().query());
        let path = request.uri().path().trim_matches('/');
        let one = path.strip_prefix(self.name).unwrap_or_default();
        let one = one.trim_start_matches('/');
        let added = self.added.checks.lock().clone();
        let own_names = self.built_in.names().iter().map(ToString::to_string);
        let added_names = added.iter().map(|check| check.name.clone());
        let names: Vec<String> = own_names.chain(added_names).collect();
        if !one.is_empty() {
            if !names.iter().any(|name| name == one) {
                let text = format!("there is no check named {one:?}");
                return text_response(http::StatusCode::NOT_FOUND, text);
            }
            let results = self.run(&added, |name| name == one).await;
            let result = results.first().cloned();
            let result = result.unwrap_or_else(|| CheckResult::passed(one));
            let response = query.respond_one(&result, self.reveals);
            return text_response(response.status, response.text);
        }
        let results = self.run(&added, |name| !query.excludes(name)).await;
        self.log(&results);
        let response = query.respond(self.name, &names, &results, self.reveals);
        text_response(response.status, response.text)
    }

    /// Runs the selected checks. The checks of the program run concurrently.
    async fn run(
        &self,
        added: &[AddedCheck],
        is_selected: impl Fn(&str) -> bool,
    ) -> Vec<CheckResult> {
        let mut results = Vec::new();
        if is_selected(PING) {
            results.push(CheckResult::passed(PING));
        }
        let built_in = self.built_in.run(&self.monitor).into_iter();
        for check in built_in.filter(|check| is_selected(check.name)) {
            let result = CheckResult::with_findings(check.name, check.is_ok, check.findings);
            results.push(result);
        }
        let added = added.iter().filter(|check| is_selected(&check.name));
        let added: Vec<&AddedCheck> = added.collect();
        let names = added.iter().map(|check| check.name.clone());
        let awaited = &AwaitedChecks {
            endpoint: self,
            began: Instant::now(),
            names: Mutex::new(names.collect()),
        };
        let running = added.into_iter().map(|check| async move {
            let result = check.result(self.limit).await;
            awaited.names.lock().retain(|name| *name != check.name);
            result
        });
        results.extend(join_all(running).await);
        results
    }

    /// Logs each check that begins or ceases to fail, with the reason that the response may withhold.
    fn log(&self, results: &[CheckResult]) {
        let endpoint = self.name;
        for result in results {
            let check = result.name();
            let known = self.failed.lock().contains_key(check);
            match (result.is_ok(), known) {
                (false, false) => self.log_failure(check, result.explanation()),
                (true, true) => {
                    self.failed.lock().remove(check);
                    info!(endpoint, check, "the health check passes again");
                }
                (true, false) | (false, true) => {}
            }
        }
    }

    fn log_failure(&self, check: &str, reason: String) {
        let endpoint = self.name;
        warn!(endpoint, check, reason, "a health check fails");
        self.failed.lock().insert(check.to_owned(), reason);
    }
}

impl Drop for AwaitedChecks<'_> {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        if took < SLOW {
            return;
        }
        for check in self.names.get_mut().drain(..) {
            let is_known = self.endpoint.failed.lock().contains_key(&check);
            if !is_known {
                let reason = format!(
                    "the client left after {took:.1?}, before the check had ended: make the check faster, or raise \
                     timeoutSeconds of the probe"
                );
                self.endpoint.log_failure(&check, reason);
            }
        }
    }
}

/// Returns the routes of the health endpoints (HEALTH-1): the checks of liveness at `/livez` and `/healthz`, and those
/// of readiness at `/readyz`.
pub(crate) fn probe_routes(
    options: &HealthServer,
    monitor: &Arc<Monitor>,
    live: &AddedChecks,
    ready: &AddedChecks,
) -> Result<Routes, ServeError> {
    let mut routes = Routes::new();
    for (name, built_in, added) in [
        ("healthz", BuiltIn::Live, live),
        ("livez", BuiltIn::Live, live),
        ("readyz", BuiltIn::Ready, ready),
    ] {
        let endpoint = Arc::new(ProbeEndpoint {
            name,
            built_in,
            added: added.clone(),
            monitor: Arc::clone(monitor),
            reveals: options.reveals,
            limit: options.check_timeout,
            failed: Mutex::default(),
        });
        let answer = move |request| {
            let endpoint = Arc::clone(&endpoint);
            async move { endpoint.answer(request).await }
        };
        routes.add(Route::get(format!("/{name}"), answer.clone()))?;
        routes.add(Route::get(format!("/{name}/"), answer).prefix())?;
    }
    Ok(routes)
}
