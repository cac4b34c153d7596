//! Handle: an operator that a test runs.

use std::fmt;
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

use crate::bound_watch::BoundWatch;
use crate::error::{BoxError, HarnessError};
use crate::prepared::Prepared;
use crate::progress::{ControllerProgress, sent_writes};
use crate::rbac_file;
use crate::request_log::{RequestsSince, requests_sent};
use crate::steadiness::{Sample, Steadiness, SteadinessVerdict};

/// Declares the controllers of an operator in a manager.
pub(crate) type Declare = Arc<dyn Fn(&Manager) -> Result<(), BoxError> + Send + Sync>;

/// The surroundings of an operator, which outlive its restarts.
pub(crate) struct Surroundings {
    pub(crate) env: TestEnv,
    pub(crate) client_config: ClientConfig,
    pub(crate) prepared: Prepared,
    pub(crate) plan: OperatorPlan,
}

/// What a test decides about an operator.
pub(crate) struct OperatorPlan {
    pub(crate) declare: Declare,
    pub(crate) cache: CacheOptions,
    pub(crate) quiet: Duration,
    pub(crate) patience: Duration,
    pub(crate) other_servers: Vec<ApiServer>,
    /// The file to which the permissions of the operator are added at the end.
    pub(crate) rbac_file: Option<PathBuf>,
}

/// An operator that runs in a test. [`stop`](Self::stop) ends it at the end of the test.
///
/// If the test ends without that call, because an assertion failed, the operator is dropped. On an existing cluster
/// the namespace of the test then stays, with all objects in it (HARNESS-3).
#[must_use = "a dropped operator stops, and its namespace stays on an existing cluster"]
pub struct RunningOperator {
    around: Surroundings,
    process: OperatorProcess,
    kept: KeptNamespace,
    /// `None` for a server other than the embedded one.
    permissions: Option<RequestsSince>,
}

/// One run of the operator, from the start of a manager to its end.
struct OperatorProcess {
    manager: Manager,
    /// Stops the manager when it is dropped. `None` after a halt, as `running`.
    stop: Option<DropGuard>,
    /// The number of reconciles at the last moment at which the operator was steady.
    counted: u64,
    running: Option<JoinHandle<Result<(), steersman_manager::Error>>>,
}

/// Says that a namespace stays, unless it is disarmed before it is dropped.
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

    /// Returns the embedded server, for its request log, its faults and its clock; `None` for other servers.
    pub fn server(&self) -> Option<&ApiServer> {
        self.around.env.server()
    }

    /// Returns a client with all permissions. It is not that of the operator, and has no cache: read with
    /// [`live`](Client::live).
    pub fn client(&self) -> &Client {
        &self.around.prepared.client
    }

    /// Returns the namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.around.prepared.namespace
    }

    /// Returns the key of an object in the namespace of the test.
    pub fn key(&self, name: &str) -> ObjectKey {
        self.around.prepared.key(name)
    }

    /// Returns the manager of the operator, until the next restart.
    pub fn manager(&self) -> &Manager {
        &self.process.manager
    }

    /// Returns the number of reconciles that have ended since the operator was started last.
    pub fn reconciles(&self) -> u64 {
        self.process.progress().reconciles
    }

    /// Returns the number of requests that the operator has sent to the embedded server; `None` for other servers.
    /// Watches are left out, because they are renewed every few minutes.
    pub fn requests_sent(&self) -> Option<usize> {
        self.server().map(requests_sent)
    }

    /// Returns the least ClusterRole that permits the requests of the operator so far, as YAML, for a comparison with a
    /// file.
    ///
    /// The role differs from that of [`TestEnv::rbac_needed`] in two points: requests before the start of the operator
    /// do not count, and neither do requests that impersonate a user, because they need the permissions of that user.
    /// Requests of other clients that the test makes count, except those of [`client`](Self::client) and of
    /// [`TestEnv::client`].
    ///
    /// # Errors
    ///
    /// [`NoRequestLog`](steersman_testenv::Error::NoRequestLog) for a server other than the embedded one;
    /// [`RequestsForgotten`](steersman_testenv::Error::RequestsForgotten) if its log has dropped requests.
    pub fn rbac_needed(&self, name: &str) -> Result<String, steersman_testenv::Error> {
        use steersman_testenv::Error;
        let log = self.permissions.as_ref().ok_or(Error::NoRequestLog)?;
        match log.forgotten() {
            0 => Ok(log.rules().cluster_role(name)),
            forgotten => Err(Error::RequestsForgotten { forgotten }),
        }
    }

    /// Starts an expectation; its error has the report of the environment, with the metrics of the operator.
    pub fn expect(&self, what: impl Into<String>) -> Expectation<'_> {
        self.around.env.expect(what)
    }

    /// Waits until the operator has nothing to do, and returns the number of reconciles that ended since the last
    /// such moment, or since the start of the operator.
    ///
    /// The operator has nothing to do after a [quiet time](crate::OperatorTest::quiet_for), 1 s by default, in which
    /// no reconcile waited, ran or ended, and the embedded server stored no change (HARNESS-1). On a paused clock that
    /// time takes no real time.
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
            if process.has_ended() {
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
        let steady = self
            .expect("a steady operator")
            .within(self.around.plan.patience);
        let registry = process.manager.metrics_registry();
        let bound = BoundWatch::start(registry, before.saturating_add(most));
        let found = tokio::select! {
            found = steady.eventually(look) => found?,
            () = bound.exceeded() => {
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
            Some(SteadinessVerdict::Wait(_)) | None => Err(self.ended().await),
        }
    }

    /// Starts the operator anew, waits until it has nothing to do, and checks that it sent no write request.
    ///
    /// A new start requests each object once, without a change of any object. So a write in this round would be sent
    /// again in each round: the operator does not settle. Requests that ask a question, such as reviews of
    /// permissions, are no writes. The operator continues to run.
    ///
    /// Call it when the operator is [steady](Self::tick_until_steady). The embedded server counts the requests of every
    /// client other than that of the test (HARNESS-2); for other servers the metrics of the operator's `ClientConfig`
    /// count them.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Unmet`] with the write requests and a report; otherwise as
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

    /// Stops the operator and starts it anew, as a new Pod of its Deployment would.
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

    /// Stops the operator until the next [`restart`](Self::restart): changes of objects in between are changes that no
    /// watch reports.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Ended`] if the manager ended with an error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the operator stops.
    pub async fn halt(&mut self) -> Result<(), HarnessError> {
        self.process.halt().await
    }

    /// Ends the test: stops the operator, adds its permissions to the file of
    /// [`observe_rbac`](crate::OperatorTest::observe_rbac), deletes the namespace on an existing cluster, and ends the
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
    /// Not cancel safe: the namespace may stay on an existing cluster.
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

    /// Adds the permissions of the operator to the file of observed permissions, if the test names one and the server
    /// has a log (HARNESS-4).
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

    /// Returns the error of an expectation that failed, with the report of the environment.
    async fn unmet(&self, what: String, seen: String) -> HarnessError {
        self.expect(what).failed(seen).await.into()
    }

    /// Returns the error of a manager that ended by itself.
    async fn ended(&mut self) -> HarnessError {
        match self.process.halt().await {
            Err(error) => error,
            Ok(()) => HarnessError::Ended(None),
        }
    }
}

impl OperatorProcess {
    /// Declares the operator in a new manager, and starts the manager.
    fn start(around: &Surroundings) -> Result<Self, HarnessError> {
        let manager = builder(around).build();
        let manager = manager.map_err(|error| HarnessError::Declare(error.into()))?;
        (around.plan.declare)(&manager).map_err(HarnessError::Declare)?;
        around.env.observe(manager.metrics_registry().clone());
        let stop = CancellationToken::new();
        let running = tokio::spawn(manager.start(stop.clone()));
        Ok(Self {
            manager,
            stop: Some(stop.drop_guard()),
            counted: 0,
            running: Some(running),
        })
    }

    async fn halt(&mut self) -> Result<(), HarnessError> {
        self.stop = None;
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        match running.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(HarnessError::Ended(Some(Box::new(error)))),
            // A panic of the manager's own task.
            Err(_) => Err(HarnessError::Ended(None)),
        }
    }

    fn has_ended(&self) -> bool {
        self.running.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn progress(&self) -> ControllerProgress {
        ControllerProgress::of(self.manager.metrics_registry())
    }

    /// Returns the findings of the manager's health, for the state of an operator that is not steady.
    fn failures(&self) -> String {
        let health = self.manager.health();
        let findings = health.checks().into_iter().flat_map(|check| check.findings);
        findings.map(|finding| format!("; {finding}")).collect()
    }
}

fn builder(around: &Surroundings) -> ManagerBuilder {
    let builder = Manager::builder(around.client_config.clone()).cache(around.plan.cache.clone());
    match around.env.server().cloned() {
        // The server and the operator share one wall clock, which a paused clock advances.
        Some(server) => builder.clock(move || server.now()),
        None => builder,
    }
}

impl Drop for KeptNamespace {
    /// HARNESS-3: the namespace is named, and not deleted.
    fn drop(&mut self) {
        if let Some(namespace) = &self.0 {
            tracing::warn!(
                namespace,
                "the test did not end with `stop`: its namespace stays"
            );
        }
    }
}

impl fmt::Debug for RunningOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningOperator")
            .field("env", &self.around.env)
            .field("namespace", &self.namespace())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use steersman_testenv::log;

    use super::KeptNamespace;

    /// HARNESS-3
    #[test]
    fn a_namespace_that_stays_is_named() {
        let log = log::capture();
        drop(KeptNamespace(None));
        assert_eq!(log.text(), "");
        drop(KeptNamespace(Some("operator-test-x7k2p".to_owned())));
        assert!(log.text().contains("operator-test-x7k2p"), "{}", log.text());
    }
}
