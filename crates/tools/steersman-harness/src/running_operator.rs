//! Handle: a running operator in a test.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use steersman_api::ClientConfig;
use steersman_cache::CacheOptions;
use steersman_client::Client;
use steersman_manager::{Manager, ManagerBuilder};
use steersman_object::ObjectKey;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::{Expectation, TestEnv};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bound_watch::exceeded;
use crate::error::{BoxError, HarnessError};
use crate::prepared::Prepared;
use crate::progress::{ControllerProgress, sent_writes};
use crate::rbac_file;
use crate::request_log::{RequestsSince, requests_sent};
use crate::steadiness::{Sample, Steadiness, SteadinessVerdict};

/// Adds the controllers of an operator to a manager.
pub(crate) type Declare = Arc<dyn Fn(&Manager) -> Result<(), BoxError> + Send + Sync>;

/// The surroundings of an operator, which stay when it restarts.
pub(crate) struct Surroundings {
    pub(crate) declare: Declare,
    pub(crate) env: TestEnv,
    pub(crate) client_config: ClientConfig,
    pub(crate) prepared: Prepared,
    pub(crate) plan: OperatorPlan,
}

/// The settings of a test for its operator.
pub(crate) struct OperatorPlan {
    pub(crate) cache: CacheOptions,
    pub(crate) quiet: Duration,
    pub(crate) patience: Duration,
    pub(crate) other_servers: Vec<ApiServer>,
    /// The file to which the operator's permissions are added by `stop`.
    pub(crate) rbac_file: Option<PathBuf>,
}

/// A running operator in a test. [`stop`](Self::stop) stops it at the end of the test.
///
/// If the test ends without that call, because an assertion failed, the operator is dropped. On an existing cluster
/// the namespace of the test then stays, with all objects in it (HARNESS-3).
#[derive(derive_more::Debug)]
#[debug("RunningOperator {{ env: {:?}, namespace: {:?}, .. }}", around.env, self.namespace())]
#[must_use = "a dropped operator stops, and its namespace stays on an existing cluster"]
pub struct RunningOperator {
    around: Surroundings,
    process: OperatorProcess,
    kept: KeptNamespace,
    /// The requests that need permissions; `None` without the embedded server.
    permissions: Option<RequestsSince>,
}

/// A run of the operator, from the start to the end of a manager.
struct OperatorProcess {
    manager: Manager,
    /// The number of reconciles when the operator was last steady.
    counted: u64,
    /// The guard that stops the manager, and the task of the manager; `None` after a halt.
    running: Option<(DropGuard, ManagerTask)>,
}

type ManagerTask = JoinHandle<Result<(), steersman_manager::Error>>;

/// Prints that a namespace stays when it is dropped, unless it is disarmed.
struct KeptNamespace(Option<String>);

impl RunningOperator {
    pub(crate) fn launch(around: Surroundings) -> Result<Self, HarnessError> {
        let permissions = around.env.server().map(RequestsSince::now);
        let process = OperatorProcess::start(&around)?;
        let is_kept = around.env.has_controllers();
        let kept = is_kept.then(|| around.prepared.namespace.clone());
        Ok(Self {
            around,
            process,
            kept: KeptNamespace(kept),
            permissions,
        })
    }

    /// Returns the environment of the test.
    pub fn env(&self) -> &TestEnv {
        &self.around.env
    }

    /// Returns the embedded server with its request log, faults and clock; `None` for any other server.
    pub fn server(&self) -> Option<&ApiServer> {
        self.around.env.server()
    }

    /// Returns a client with all permissions. It is not the operator's client and has no cache: read with
    /// [`live`](Client::live).
    pub fn client(&self) -> &Client {
        &self.around.prepared.client
    }

    /// Returns the namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.around.prepared.namespace
    }

    /// Returns the key of an object with this name in the namespace of the test.
    pub fn key(&self, name: &str) -> ObjectKey {
        self.around.prepared.key(name)
    }

    /// Returns the current manager of the operator. A restart replaces it.
    pub fn manager(&self) -> &Manager {
        &self.process.manager
    }

    /// Returns the number of reconciles since the last start of the operator.
    pub fn reconciles(&self) -> u64 {
        self.process.progress().reconciles
    }

    /// Returns the number of requests that the operator has sent to the embedded server, without watches, which are
    /// renewed every few minutes; `None` for any other server.
    pub fn requests_sent(&self) -> Option<usize> {
        self.server().map(requests_sent)
    }

    /// Returns the smallest ClusterRole that permits the operator's requests so far, as YAML, to be compared with a
    /// file.
    ///
    /// Unlike [`TestEnv::rbac_needed`], it ignores requests before the start of the operator, and requests that
    /// impersonate a user and need that user's permissions. Requests of other clients in the test count, except for
    /// [`client`](Self::client) and [`TestEnv::client`].
    ///
    /// # Errors
    ///
    /// [`NoRequestLog`](steersman_testenv::Error::NoRequestLog) without the embedded server;
    /// [`RequestsForgotten`](steersman_testenv::Error::RequestsForgotten) if its log has dropped requests.
    pub fn rbac_needed(&self, name: &str) -> Result<String, steersman_testenv::Error> {
        use steersman_testenv::Error;
        let log = self.permissions.as_ref().ok_or(Error::NoRequestLog)?;
        match log.forgotten() {
            0 => Ok(log.rules().cluster_role(name)),
            forgotten => Err(Error::RequestsForgotten { forgotten }),
        }
    }

    /// Starts an expectation. Its error includes the report of the environment, with the operator's metrics.
    pub fn expect(&self, what: impl Into<String>) -> Expectation<'_> {
        self.around.env.expect(what)
    }

    /// Waits until the operator is steady, and returns the number of reconciles since it was last steady, or since its
    /// start.
    ///
    /// The operator is steady after a [quiet time](crate::OperatorTest::quiet_for), by default 1 s, in which no
    /// reconcile waited, ran or ended, and the embedded server stored no change (HARNESS-1). On a paused clock, this
    /// takes no real time.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Unmet`] as soon as more than `most` of these reconciles have ended, or after the
    /// [time limit](crate::OperatorTest::steady_within), with a report; [`HarnessError::Ended`] if the manager ends.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the operator continues.
    pub async fn tick_until_steady(&mut self, most: u64) -> Result<u64, HarnessError> {
        let (begun, before) = (Instant::now(), self.process.counted);
        let controllers = self.process.manager.controllers().len();
        let mut steadiness = Steadiness::new(controllers, most, self.around.plan.quiet, before);
        let (process, server) = (&self.process, self.around.env.server());
        let look = || {
            let running = process.running.as_ref();
            if running.is_none_or(|(_, running)| running.is_finished()) {
                return ready(Ok(None));
            }
            let sample = Sample {
                progress: process.progress(),
                revision: server.map(ApiServer::revision),
            };
            ready(match steadiness.observe(begun.elapsed(), sample) {
                SteadinessVerdict::Wait(state) => Err(format!("{state}{}", process.failures())),
                verdict => Ok(Some(verdict)),
            })
        };
        let patience = self.around.plan.patience;
        let steady = self.expect("a steady operator").within(patience);
        let registry = process.manager.metrics_registry().clone();
        let found = tokio::select! {
            found = steady.eventually(look) => found?,
            () = exceeded(registry, before.saturating_add(most)) => {
                let ended = process.progress().reconciles;
                Some(SteadinessVerdict::TooMany(ended.saturating_sub(before)))
            }
        };
        match found {
            Some(SteadinessVerdict::Steady(reconciles)) => {
                self.process.counted += reconciles;
                Ok(reconciles)
            }
            Some(SteadinessVerdict::TooMany(reconciles)) => {
                let what = format!("the bound of {most} reconciles");
                Err(self.unmet(what, format!("{reconciles} reconciles")).await)
            }
            Some(SteadinessVerdict::Wait(_)) | None => {
                // The manager ended before the test stopped it.
                let ended = self.process.halt().await.err();
                Err(ended.unwrap_or(HarnessError::Ended(None)))
            }
        }
    }

    /// Restarts the operator, waits until it is steady, and checks that it has sent no write request.
    ///
    /// A restart requests each object once although no object has changed. A write in this round would be repeated in
    /// each such round, so the operator never settles. Requests that only ask, such as reviews of permissions, are no
    /// writes. The operator keeps running.
    ///
    /// Call this when the operator is [steady](Self::tick_until_steady). The embedded server counts the writes of every
    /// client except the test's (HARNESS-2); for any other server, the metrics of the operator's `ClientConfig` count.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Unmet`] with the write requests and a report; otherwise the errors of
    /// [`tick_until_steady`](Self::tick_until_steady) and [`restart`](Self::restart).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the operator may be stopped.
    pub async fn assert_settled(&mut self) -> Result<(), HarnessError> {
        self.halt().await?;
        let servers = self.around.env.server().into_iter();
        let servers = servers.chain(&self.around.plan.other_servers);
        let logs: Vec<RequestsSince> = servers.map(RequestsSince::now).collect();
        self.process = OperatorProcess::start(&self.around)?;
        self.tick_until_steady(u64::MAX).await?;
        let writes = logs.iter().flat_map(RequestsSince::writes);
        let mut found: Vec<String> = writes.map(|write| write.to_string()).collect();
        if self.around.env.server().is_none() {
            let sent = sent_writes(self.process.manager.metrics_registry());
            found.extend((sent > 0).then(|| format!("{sent} requests, by the metrics")));
        }
        if found.is_empty() {
            return Ok(());
        }
        let what = "a settled operator, which writes nothing when nothing has changed,".to_owned();
        let seen = format!("{} writes:\n  {}", found.len(), found.join("\n  "));
        Err(self.unmet(what, seen).await)
    }

    /// Restarts the operator, as a new Pod of its Deployment would start.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Ended`] if the manager ended with an error; [`HarnessError::Declare`].
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the operator may be stopped.
    pub async fn restart(&mut self) -> Result<(), HarnessError> {
        self.halt().await?;
        self.process = OperatorProcess::start(&self.around)?;
        Ok(())
    }

    /// Stops the operator until the next [`restart`](Self::restart). No watch of the operator reports changes in
    /// between.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Ended`] if the manager ended with an error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the operator stops in any case.
    pub async fn halt(&mut self) -> Result<(), HarnessError> {
        self.process.halt().await
    }

    /// Ends the test: stops the operator, adds its permissions to the file of
    /// [`observe_rbac`](crate::OperatorTest::observe_rbac), deletes the namespace on an existing cluster, and stops the
    /// environment.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Ended`] if the manager ended with an error; the namespace then stays, too.
    /// [`HarnessError::Request`] and [`HarnessError::Env`] if the server does not delete what the test made.
    /// [`HarnessError::RbacFile`] and [`HarnessError::RbacSyntax`] if the permissions cannot be added to the file.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: on an existing cluster, the namespace may remain.
    pub async fn stop(mut self) -> Result<(), HarnessError> {
        self.halt().await?;
        self.add_permissions()?;
        if let Some(name) = &self.kept.0 {
            let key = ObjectKey::cluster_scoped(name);
            let deleted = self.around.prepared.client.delete_key::<Namespace>(&key);
            let doing = format!("delete the namespace {name}");
            deleted.await.map_err(HarnessError::request(doing))?;
        }
        self.kept.0 = None;
        Ok(self.around.env.stop().await?)
    }

    /// Adds the operator's permissions to the file of observed permissions, if the test names a file and the server has
    /// a log (HARNESS-4).
    fn add_permissions(&self) -> Result<(), HarnessError> {
        let (Some(path), Some(log)) = (&self.around.plan.rbac_file, &self.permissions) else {
            return Ok(());
        };
        let forgotten = log.forgotten();
        if forgotten > 0 {
            tracing::warn!(
                forgotten,
                "the log of the server dropped requests: permissions may be missing in {}; raise `log_capacity`",
                path.display()
            );
        }
        rbac_file::merge(path, log.rules())
    }

    /// Returns the error of an unmet expectation, with the report of the environment.
    async fn unmet(&self, what: String, seen: String) -> HarnessError {
        self.expect(what).failed(seen).await.into()
    }
}

impl OperatorProcess {
    /// Declares the operator in a new manager, and starts it.
    fn start(around: &Surroundings) -> Result<Self, HarnessError> {
        let manager = builder(around).build();
        let manager = manager.map_err(|error| HarnessError::Declare(error.into()))?;
        (around.declare)(&manager).map_err(HarnessError::Declare)?;
        around.env.observe(manager.metrics_registry().clone());
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.start(stop.clone()));
        Ok(Self {
            manager,
            counted: 0,
            running: Some((stop.drop_guard(), running)),
        })
    }

    async fn halt(&mut self) -> Result<(), HarnessError> {
        let Some((stop, running)) = self.running.take() else {
            return Ok(());
        };
        drop(stop);
        match running.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(HarnessError::Ended(Some(Box::new(error)))),
            // The task of the manager has panicked.
            Err(_) => Err(HarnessError::Ended(None)),
        }
    }

    fn progress(&self) -> ControllerProgress {
        ControllerProgress::of(self.manager.metrics_registry())
    }

    /// Returns the failed health checks of the manager, to describe an operator that is not steady.
    fn failures(&self) -> String {
        let health = self.manager.health();
        let findings = health.checks().into_iter().flat_map(|check| check.findings);
        findings.map(|finding| format!("; {finding}")).collect()
    }
}

fn builder(around: &Surroundings) -> ManagerBuilder {
    let builder = Manager::builder(around.client_config.clone()).cache(around.plan.cache.clone());
    match around.env.server().cloned() {
        // The operator uses the server's wall clock, which a paused clock advances.
        Some(server) => builder.clock(move || server.now()),
        None => builder,
    }
}

impl Drop for KeptNamespace {
    /// HARNESS-3: prints the name of the namespace, and does not delete it.
    fn drop(&mut self) {
        if let Some(namespace) = &self.0 {
            tracing::warn!(
                namespace,
                "the test did not end with `stop`: its namespace stays"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use steersman_testenv::log;

    use super::KeptNamespace;

    /// HARNESS-3: the namespace of a test that does not end with `stop` stays.
    #[test]
    fn a_namespace_that_stays_is_named() {
        let log = log::capture();
        drop(KeptNamespace(None));
        assert_eq!(log.text(), "");
        drop(KeptNamespace(Some("operator-test-x7k2p".to_owned())));
        assert!(log.text().contains("operator-test-x7k2p"), "{}", log.text());
    }
}
