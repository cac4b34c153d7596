//! Handle: waits that leave a report when they fail.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde_json::Value;

use crate::assert::{self, PATIENCE, Unmet};
use crate::environment::TestEnv;
use crate::log;
use crate::report;
use crate::rest::Rest;

/// How long the report may wait for objects: a server that fails on demand may not answer.
const LOOKING: Duration = Duration::from_secs(5);

/// What is expected of an environment. Where it is not met, the error tells what was asked of the
/// server last (an embedded one), what exists of the kinds in question, and what the controllers of
/// this thread last did, where their log is [captured](crate::log::capture) or their registry
/// [observed](TestEnv::observe).
#[derive(Debug)]
#[must_use = "nothing is looked at before `eventually`, `consistently` or `never`"]
pub struct Expectation<'a> {
    env: &'a TestEnv,
    what: String,
    within: Duration,
    about: Vec<(String, Option<String>)>,
}

impl TestEnv {
    /// Expects something, in words that complete "… did not come true".
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
    /// How long [`eventually`](Self::eventually) waits, in the time of the runtime's clock. Default
    /// 60 s.
    pub fn within(mut self, patience: Duration) -> Self {
        self.within = patience;
        self
    }

    /// Shows the objects of a kind in the report: `pods`, `deployments.apps`. Default: the kinds
    /// that were written last, on an embedded server.
    pub fn about(mut self, resource: impl Into<String>) -> Self {
        self.about.push((resource.into(), None));
        self
    }

    /// Shows the objects of a kind in one namespace.
    pub fn about_in(mut self, namespace: &str, resource: impl Into<String>) -> Self {
        self.about
            .push((resource.into(), Some(namespace.to_owned())));
        self
    }

    /// [`eventually`](crate::eventually), with a report.
    ///
    /// # Errors
    ///
    /// [`Unmet`] when the patience ran out.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe where `check` is.
    pub async fn eventually<T, C, F>(self, check: C) -> Result<T, Unmet>
    where
        C: FnMut() -> F,
        F: Future<Output = Result<T, String>>,
    {
        let outcome = assert::eventually_within(self.within, &self.what, check).await;
        self.explained(outcome).await
    }

    /// [`consistently`](crate::consistently), with a report.
    ///
    /// # Errors
    ///
    /// [`Unmet`] at the first look that answers `Err`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe where `check` is.
    pub async fn consistently<T, C, F>(self, lasting: Duration, check: C) -> Result<(), Unmet>
    where
        C: FnMut() -> F,
        F: Future<Output = Result<T, String>>,
    {
        let outcome = assert::consistently(lasting, &self.what, check).await;
        self.explained(outcome).await
    }

    /// [`never()`](crate::never), with a report.
    ///
    /// # Errors
    ///
    /// [`Unmet`] at the first look that answers `Ok`.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe where `check` is.
    pub async fn never<T, C, F>(self, lasting: Duration, check: C) -> Result<(), Unmet>
    where
        T: fmt::Debug,
        C: FnMut() -> F,
        F: Future<Output = Result<T, String>>,
    {
        let outcome = assert::never(lasting, &self.what, check).await;
        self.explained(outcome).await
    }

    async fn explained<T>(&self, outcome: Result<T, Unmet>) -> Result<T, Unmet> {
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
                about.extend(
                    report::written(&records)
                        .into_iter()
                        .map(|kind| (kind, None)),
                );
            }
        }
        for (resource, namespace) in &about {
            let looked = self.objects(resource, namespace.as_deref());
            match tokio::time::timeout(LOOKING, looked).await {
                Ok(Ok(items)) => text.push_str(&report::objects(resource, &items)),
                Ok(Err(error)) => text.push_str(&format!("{resource}: {error}\n")),
                Err(_) => text.push_str(&format!("{resource}: no answer\n")),
            }
        }
        if let Some(reconciles) = log::reconciles() {
            text.push_str("controllers, by their spans:");
            text.push_str(if reconciles.is_empty() {
                " no reconcile ended\n"
            } else {
                "\n"
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

/// The group and version that the server prefers.
async fn preferred(rest: &Rest, group: &str) -> Result<String, String> {
    let found = rest.get(&format!("/apis/{group}")).await;
    let found = found.map_err(|error| error.to_string())?;
    let preferred = found["preferredVersion"]["groupVersion"].as_str();
    preferred
        .map(str::to_owned)
        .ok_or_else(|| format!("{group} has no preferred version"))
}
