//! Handle: the definitions of an operator, and the loops that install them and migrate their objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use steersman_api::{ClientConfig, Mapper, ProblemLog, kube_client};
use steersman_object::{Gvk, ObjectKey, report};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::crd::Crd;
use crate::error::Error;
use crate::installer::{Installer, UNTIL_SERVED};
use crate::metrics::CrdMetrics;
use crate::requests::CrdRequests;
use crate::status::{CrdPhase, CrdStatus};
use crate::status_board::{CrdReport, StatusBoard};

/// The definitions that an operator installs, for `ManagerBuilder::crds` of the manager.
///
/// The leader applies each definition, waits until it is served, and migrates the stored objects. The leader's
/// controllers start afterwards, because an API server drops fields that the served definition lacks. A definition that
/// accepts less than the definition on the server is not written: see [`Error::Narrowed`].
///
/// [`install`](Self::install) installs the definitions without a manager.
///
/// Cheap to clone. Clones share the state of the definitions.
///
/// ```
/// # use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
/// # use steersman_crds::Crds;
/// # fn f(crd: CustomResourceDefinition) {
/// // `crd` is `Website::crd()` of a type with `#[derive(CustomResource)]`.
/// let definitions = Crds::new().with(crd);
/// # let _ = definitions;
/// # }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Crds {{ statuses: {:?}, .. }}", self.statuses())]
#[must_use]
pub struct Crds {
    list: Vec<Crd>,
    settle: Duration,
    migrates: bool,
    authorities: Option<watch::Receiver<Option<String>>>,
    metrics: Option<CrdMetrics>,
    board: Arc<StatusBoard>,
}

/// The first and the longest pause before a failed installation is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The first and the longest pause before refused objects are tried again. A refused definition waits for the first.
const AFTER_REFUSAL: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(3600));
/// The pause between two reads of the definitions by a replica that does not lead.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// The default time that a migration waits before it begins; see [`Crds::settle`].
const SETTLE: Duration = Duration::from_secs(10);
/// The suffix of the `User-Agent` of all requests.
const AGENT: &str = "definitions";

impl Default for Crds {
    fn default() -> Self {
        Self::new()
    }
}

impl Crds {
    /// Makes a set without a definition.
    pub fn new() -> Self {
        Self {
            list: Vec::new(),
            settle: SETTLE,
            migrates: true,
            authorities: None,
            metrics: None,
            board: Arc::new(StatusBoard::new(std::iter::empty())),
        }
    }

    /// Adds a definition: a [`Crd`], or a `CustomResourceDefinition` without further options.
    pub fn with(mut self, definition: impl Into<Crd>) -> Self {
        self.list.push(definition.into());
        self.board = Arc::new(StatusBoard::new(self.list.iter().map(Crd::name)));
        self
    }

    /// Sets the time that a migration waits, so that each API server of a cluster notices the changed definition first:
    /// 10 s by default.
    pub fn settle(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Removes all versions except the newest from every definition; see [`Crd::newest_version_only`].
    pub fn newest_version_only(mut self) -> Self {
        let definitions = self.list.into_iter();
        self.list = definitions.map(Crd::newest_version_only).collect();
        self
    }

    /// Disables the migration for every definition; see [`Crd::without_migration`].
    pub fn without_migration(mut self) -> Self {
        self.migrates = false;
        self
    }

    /// Sets the metrics; there are none by default.
    pub fn metrics(mut self, metrics: CrdMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns whether [`metrics`](Self::metrics) were set.
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Sets the operator's own webhooks, behind this Service, as the conversion webhook of these kinds. `authorities`
    /// has PEM. A definition with a conversion stays as it is. The manager calls this method.
    pub fn converted_by(
        mut self,
        kinds: &[Gvk],
        service: &ObjectKey,
        authorities: watch::Receiver<Option<String>>,
    ) -> Self {
        self = self.converted_behind(kinds, service, None);
        self.authorities = Some(authorities);
        self
    }

    /// Sets the operator's own webhooks, behind this Service, as the conversion webhook of these kinds, with a
    /// certificate of another program. Given its `Certificate`, cert-manager injects the authority; otherwise the
    /// `caBundle` on the server stays. A definition with a conversion stays as it is. The manager calls this method.
    pub fn converted_behind(
        mut self,
        kinds: &[Gvk],
        service: &ObjectKey,
        certificate: Option<&ObjectKey>,
    ) -> Self {
        for definition in &mut self.list {
            let is_converted = kinds.iter().any(|kind| definition.defines(kind));
            if is_converted && !definition.has_conversion() {
                *definition = definition.clone().converted_by(service);
                if let Some(certificate) = certificate {
                    *definition = definition.clone().inject_ca_from(certificate);
                }
            }
        }
        self
    }

    /// Returns the definitions in the order of their addition.
    pub fn list(&self) -> &[Crd] {
        &self.list
    }

    /// Returns the names of the definitions that have a conversion webhook.
    pub fn converted(&self) -> Vec<String> {
        let converted = self.list.iter().filter(|one| one.has_conversion());
        converted.map(|one| one.name().to_owned()).collect()
    }

    /// Checks that each definition of these kinds has a conversion webhook. Without it, an API server would read the
    /// fields of one version as those of another.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`].
    pub fn check_conversions(&self, kinds: &[Gvk]) -> Result<(), Error> {
        let is_converted = |one: &&Crd| kinds.iter().any(|kind| one.defines(kind));
        let mut converted = self.list.iter().filter(is_converted);
        match converted.find(|one| one.served().len() > 1 && !one.has_conversion()) {
            None => Ok(()),
            Some(definition) => Err(Error::Unusable {
                definition: definition.name().to_owned(),
                problem: "the webhooks convert its objects, and it names no conversion: use `Crd::converted_by` \
                          with the Service of the webhooks, or built-in certificates"
                    .to_owned(),
            }),
        }
    }

    /// Returns each kind in each version that the definitions serve.
    pub fn kinds(&self) -> Vec<Gvk> {
        self.list.iter().flat_map(Crd::served).collect()
    }

    /// Returns the kinds, in each version, for which the [leader](Self::lead) in this process has changed the
    /// definition. Objects of these kinds may have a new form, for example because a webhook converts them now.
    pub fn changed_kinds(&self) -> Vec<Gvk> {
        let changed = self.list.iter();
        let changed = changed.filter(|definition| self.board.has_changed(definition.name()));
        changed.flat_map(Crd::served).collect()
    }

    /// Checks the definitions without a server.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`].
    pub fn check(&self) -> Result<(), Error> {
        self.list.iter().try_for_each(Crd::check)
    }

    /// Returns the state of each definition, in the order in which they were declared.
    pub fn statuses(&self) -> Vec<CrdStatus> {
        self.board.all()
    }

    /// Waits until the operator can work with each definition; returns at once without definitions. On a standby, this
    /// is when the leader has installed the definitions.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn installed(&self) {
        self.board.usable().await;
    }

    /// Waits until the [leader](Self::lead) in this process has checked or installed each definition; returns at once
    /// without definitions. The state that a standby has read may be outdated when it becomes the leader.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn confirmed(&self) {
        if !self.list.is_empty() {
            self.board.confirmed.cancelled().await;
        }
    }

    /// Installs the definitions and migrates their objects, without a manager and without retries, for a flag of a
    /// program, a Job, or tests. `limit` bounds every wait except a migration, which takes as long as its objects need.
    ///
    /// # Errors
    ///
    /// The first [`Error`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future may have written a definition. Another call continues.
    pub async fn install(
        &self,
        client_config: &ClientConfig,
        limit: Duration,
    ) -> Result<(), Error> {
        self.check()?;
        let client_config = client_config.clone().user_agent_suffix(AGENT);
        let client = client_config.client()?;
        for definition in &self.list {
            let installer = self.installer(definition, &client_config, &client);
            Box::pin(installer.install(limit)).await?;
            while is_migrated(&installer) && !Box::pin(installer.migrate()).await? {}
        }
        Ok(())
    }

    /// Installs the definitions and migrates their objects, until all is done or `stop` is cancelled. Only the leader
    /// should run this loop. It logs each problem once, and continues.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: after each request, the server is in a state from which the next leader can continue (DEF-4).
    pub async fn lead(&self, client_config: &ClientConfig, stop: CancellationToken) {
        let client_config = &client_config.clone().user_agent_suffix(AGENT);
        let work = async {
            let client = &connect(client_config).await;
            let missing = &AtomicUsize::new(self.list.len());
            let lives = self.list.iter().map(|definition| async move {
                let installer = self.installer(definition, client_config, client);
                // The futures are large, so they are boxed.
                let install =
                    || Box::pin(async { installer.install(UNTIL_SERVED).await.map(|()| true) });
                until_done(&installer, install).await;
                if missing.fetch_sub(1, Ordering::Relaxed) == 1 {
                    self.board.confirmed.cancel();
                }
                if is_migrated(&installer) {
                    until_done(&installer, || Box::pin(installer.migrate())).await;
                }
            });
            join_all(lives).await;
        };
        let _ = stop.run_until_cancelled(work).await;
    }

    /// Reads the definitions until the operator can work with each, or `stop` is cancelled. Every replica runs this
    /// loop, so that a replica reports a definition that would be refused before it leads.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn follow(&self, client_config: &ClientConfig, stop: CancellationToken) {
        let client_config = &client_config.clone().user_agent_suffix(AGENT);
        let work = async {
            let client = &connect(client_config).await;
            let reads = self.list.iter().map(|definition| async move {
                let installer = self.installer(definition, client_config, client);
                let mut problems = ProblemLog::default();
                while !installer.report.phase().is_usable() {
                    if let Err(error) = Box::pin(installer.look()).await {
                        note(&installer, &error, &mut problems);
                    }
                    sleep(READ_INTERVAL).await;
                }
            });
            join_all(reads).await;
        };
        let _ = stop.run_until_cancelled(work).await;
    }

    fn installer<'a>(
        &'a self,
        definition: &'a Crd,
        client_config: &ClientConfig,
        client: &kube_client::Client,
    ) -> Installer<'a> {
        let report = CrdReport {
            name: definition.name(),
            board: &self.board,
            metrics: self.metrics.as_ref(),
        };
        Installer {
            definition,
            report,
            requests: CrdRequests::new(definition.name(), client_config, client.clone()),
            mapper: Mapper::new(client_config.clone()),
            authorities: self.authorities.clone(),
            settle: self.settle,
            is_migrated: definition.is_migrated && self.migrates,
        }
    }
}

impl From<CustomResourceDefinition> for Crd {
    fn from(definition: CustomResourceDefinition) -> Self {
        Self::new(&definition)
    }
}

/// Returns whether to migrate objects: not for a kept definition, which stores the version of another release.
fn is_migrated(installer: &Installer<'_>) -> bool {
    installer.is_migrated && installer.report.phase() != CrdPhase::Kept
}

async fn connect(client_config: &ClientConfig) -> kube_client::Client {
    let mut problems = ProblemLog::default();
    loop {
        match client_config.client() {
            Ok(client) => return client,
            Err(error) => {
                let error = report(&error).to_string();
                if problems.is_due("connection", &error, Instant::now().into_std()) {
                    warn!(error, "the definitions cannot be read, trying again");
                }
                sleep(READ_INTERVAL).await;
            }
        }
    }
}

async fn until_done<F>(installer: &Installer<'_>, mut step: impl FnMut() -> F)
where
    F: Future<Output = Result<bool, Error>>,
{
    let mut problems = ProblemLog::default();
    let (mut pause, mut after_refusal) = (PAUSES.0, AFTER_REFUSAL.0);
    loop {
        match step().await {
            Ok(true) => {
                if problems.resolve(installer.report.name) {
                    info!(
                        definition = installer.report.name,
                        "the definition has no problem any more"
                    );
                }
                return;
            }
            Ok(false) => {}
            Err(error) => {
                note(installer, &error, &mut problems);
                let next = match error {
                    // Each retry writes all objects of the definition again, so the pause grows.
                    Error::NotMigrated { .. } => doubled(&mut after_refusal, AFTER_REFUSAL.1),
                    Error::Narrowed { .. } => AFTER_REFUSAL.0,
                    _ => doubled(&mut pause, PAUSES.1),
                };
                sleep(next).await;
            }
        }
    }
}

/// Returns the current pause, and doubles it up to a limit.
fn doubled(pause: &mut Duration, longest: Duration) -> Duration {
    let now = *pause;
    *pause = (now * 2).min(longest);
    now
}

/// Logs a problem of a definition once, and sets it in the definition's state.
fn note(installer: &Installer<'_>, error: &Error, problems: &mut ProblemLog) {
    let definition = installer.report.name;
    let is_forbidden = matches!(error, Error::Request(error) if error.is_forbidden());
    let error = report(error).to_string();
    installer.report.fail(&error);
    if !problems.is_due(definition, &error, Instant::now().into_std()) {
        return;
    }
    let remedy = if is_forbidden {
        ": the operator needs get, create and patch of customresourcedefinitions, patch of \
         customresourcedefinitions/status, and list and patch of its kind"
    } else {
        ""
    };
    warn!(
        definition,
        error, "the definition cannot be installed or migrated, trying again{remedy}"
    );
}
