//! Handle: waits with a report on failure.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde_json::Value;

use crate::assert::{self, ConditionError, PATIENCE};
use crate::environment::TestEnv;
use crate::log;
use crate::page;
use crate::report;
use crate::rest::Rest;

/// The time limit for reading objects for a report: a server with faults may not respond.
const LOOKING: Duration = Duration::from_secs(5);

/// An expectation on an environment. On failure, the error contains the last requests to the server (embedded server
/// only), the objects of the relevant kinds, and the last reconciles of the controllers on this thread, if their log is
/// [captured](crate::log::capture) or their registry [observed](TestEnv::observe).
#[derive(Debug)]
#[must_use = "nothing is checked before `eventually`, `consistently` or `never`"]
pub struct Expectation<'a> {
    env: &'a TestEnv,
    what: String,
    within: Duration,
    about: Vec<(String, Option<String>)>,
}

impl TestEnv {
    /// Creates an expectation; `what` completes the sentence "… did not come true".
    pub fn expect(&self, what: impl Into<String>) -> Expectation<'_> {
        Expectation {
            env: self,
            what: what.into(),
            within: PATIENCE,
            about: Vec::new(),
        }
    }
}

impl Expectation<'_> {
    /// Sets the time limit of [`eventually`](Self::eventually), in the time of the runtime's clock. Default: 60 s.
    pub fn within(mut self, patience: Duration) -> Self {
        self.within = patience;
        self
    }

    /// Adds the objects of a kind to the report: `pods`, `deployments.apps`. Default: the kinds
    /// that were written last, on an embedded server.
    pub fn about(mut self, resource: impl Into<String>) -> Self {
        self.about.push((resource.into(), None));
        self
    }

    /// Adds the objects of a kind in one namespace to the report.
    pub fn about_in(mut self, namespace: &str, resource: impl Into<String>) -> Self {
        self.about
            .push((resource.into(), Some(namespace.to_owned())));
        self
    }

    /// Waits like [`eventually`](crate::eventually), with a report.
    ///
    /// # Errors
    /// [`ConditionError`] after the time limit.
    ///
    /// # Cancel safety
    /// Cancel safe if `check` is.
    pub async fn eventually<T, F: Future<Output = Result<T, String>>>(
        self,
        check: impl FnMut() -> F,
    ) -> Result<T, ConditionError> {
        let outcome = assert::eventually_within(self.within, &self.what, check).await;
        self.explained(outcome).await
    }

    /// Checks like [`consistently`](crate::consistently), with a report.
    ///
    /// # Errors
    /// [`ConditionError`] at the first check that returns `Err`.
    ///
    /// # Cancel safety
    /// Cancel safe if `check` is.
    pub async fn consistently<T, F: Future<Output = Result<T, String>>>(
        self,
        lasting: Duration,
        check: impl FnMut() -> F,
    ) -> Result<(), ConditionError> {
        let outcome = assert::consistently(lasting, &self.what, check).await;
        self.explained(outcome).await
    }

    /// Checks like [`never()`](crate::never), with a report.
    ///
    /// # Errors
    /// [`ConditionError`] at the first check that returns `Ok`.
    ///
    /// # Cancel safety
    /// Cancel safe if `check` is.
    pub async fn never<T: fmt::Debug, F: Future<Output = Result<T, String>>>(
        self,
        lasting: Duration,
        check: impl FnMut() -> F,
    ) -> Result<(), ConditionError> {
        let outcome = assert::never(lasting, &self.what, check).await;
        self.explained(outcome).await
    }

    /// Returns the error of a failed expectation, with a report. `seen` describes what the caller found instead.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn failed(self, seen: impl fmt::Display) -> ConditionError {
        let text = format!("{} did not come true; seen: {seen}", self.what);
        page::failed(&text).await;
        ConditionError::new(text).with(&self.report().await)
    }

    async fn explained<T>(&self, outcome: Result<T, ConditionError>) -> Result<T, ConditionError> {
        match outcome {
            Ok(found) => Ok(found),
            Err(unmet) => Err(unmet.with(&self.report().await)),
        }
    }

    async fn report(&self) -> String {
        let mut text = String::new();
        let mut about = self.about.clone();
        if let Some(server) = self.env.server() {
            let records = server.requests().all();
            text.push_str(&report::requests(&records));
            if about.is_empty() {
                let kinds = report::written(&records).into_iter();
                about.extend(kinds.map(|kind| (kind, None)));
            }
        }
        for (resource, namespace) in &about {
            let looked = self.objects(resource, namespace.as_deref());
            match tokio::time::timeout(LOOKING, looked).await {
                Ok(Ok(items)) => text.push_str(&report::objects(resource, &items)),
                Ok(Err(error)) => text.push_str(&format!("{resource}: {error}\n")),
                Err(_) => text.push_str(&format!("{resource}: no response\n")),
            }
        }
        if let Some(reconciles) = log::reconciles() {
            text.push_str(match reconciles.is_empty() {
                true => "controllers, by their spans: no reconcile ended\n",
                false => "controllers, by their spans:\n",
            });
            text.push_str(&reconciles);
        }
        for registry in self.env.registries.lock().iter() {
            text.push_str("controllers, by their metrics:\n");
            text.push_str(&report::metrics(registry));
        }
        text
    }

    async fn objects(&self, resource: &str, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        let rest = self.env.rest().map_err(|error| error.to_string())?;
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let root = if group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{}", preferred(&rest, group).await?)
        };
        let path = match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        };
        let mut list = rest.get(&path).await.map_err(|error| error.to_string())?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            other => Err(format!("a list without items: {other}")),
        }
    }
}

async fn preferred(rest: &Rest, group: &str) -> Result<String, String> {
    let found = rest.get(&format!("/apis/{group}")).await;
    let found = found.map_err(|error| error.to_string())?;
    match found["preferredVersion"]["groupVersion"].as_str() {
        Some(version) => Ok(version.to_owned()),
        None => Err(format!("{group} has no preferred version")),
    }
}
