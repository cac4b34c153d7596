//! Handle: a controller that was declared and can be started.

pub(crate) mod declaration;

use std::any::TypeId;
use std::sync::Arc;

use futures::future::BoxFuture;
use steersman_cache::Cache;
use steersman_object::Kind;

use crate::clusters::{Clusters, Declaration};
use crate::controller::declaration::{ControllerDeclaration, NeededRule};
use crate::error::ControllerError;
use crate::request::{Request, RequestKey};
use crate::running::{ControllerParts, refused, run};
use crate::start::StartContext;
use crate::status::ControllerStatus;
use crate::watch::in_clusters::AnyClusterWatch;

/// A controller: watches that cause requests, and workers that reconcile them.
///
/// [`Controller::builder`](crate::Controller::builder) makes a controller; it does nothing until it is started.
#[derive(derive_more::Debug)]
#[debug("Controller {{ name: {:?}, kinds: {kinds:?}, .. }}", declaration.name)]
#[must_use = "a controller does nothing until it is started"]
pub struct Controller {
    declaration: ControllerDeclaration,
    field_manager: Option<String>,
    on_every_replica: bool,
    kinds: Vec<Kind>,
    cluster_kinds: Vec<Kind>,
    requests_objects: bool,
    status: ControllerStatus,
    parts: Box<dyn AnyParts>,
}

/// [`ControllerParts`] without the type of the requests, so that [`Controller`] needs no type parameter.
trait AnyParts: Send {
    fn declare(&self, cache: &Cache) -> Result<(), ControllerError>;
    fn declare_in(&self, clusters: &Clusters) -> Result<(), ControllerError>;
    fn run(
        self: Box<Self>,
        start: StartContext,
        status: ControllerStatus,
    ) -> BoxFuture<'static, Result<(), ControllerError>>;
}

// === impl Controller ===

impl Controller {
    pub(crate) fn new<R: RequestKey>(
        parts: ControllerParts<R>,
        status: ControllerStatus,
        field_manager: Option<String>,
        on_every_replica: bool,
        needed_rules: Vec<NeededRule>,
    ) -> Self {
        let kinds = parts.sources.watch_kinds();
        let others = parts.sources.others.iter();
        let others = others.filter_map(|source| source.watched_kind());
        let declaration = ControllerDeclaration {
            name: parts.name.clone(),
            primary: parts
                .declared
                .primary
                .as_ref()
                .map(|primary| primary.kind.clone()),
            owned: parts.declared.owned().to_vec(),
            watched: kinds.iter().chain(others).cloned().collect(),
            needed_rules,
        };
        Self {
            declaration,
            field_manager,
            on_every_replica,
            kinds,
            cluster_kinds: parts
                .sources
                .cluster_watches
                .iter()
                .map(|watch| watch.kind().clone())
                .collect(),
            requests_objects: TypeId::of::<R>() == TypeId::of::<Request>(),
            status,
            parts: Box::new(parts),
        }
    }

    /// Returns the name of the controller, unique among the controllers of a manager.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Returns the declaration of the controller, from which its rules of RBAC follow.
    pub fn declaration(&self) -> &ControllerDeclaration {
        &self.declaration
    }

    /// Returns the field manager that [`ControllerBuilder::field_manager`](crate::ControllerBuilder::field_manager)
    /// set; `None` if it was not called.
    pub fn field_manager(&self) -> Option<&str> {
        self.field_manager.as_deref()
    }

    /// Returns whether the controller runs on every replica, and not on the leader only; see
    /// [`ControllerBuilder::on_every_replica`](crate::ControllerBuilder::on_every_replica).
    pub fn runs_on_every_replica(&self) -> bool {
        self.on_every_replica
    }

    /// Returns the kinds that must have synced before the workers start, in the order of their declaration, the primary
    /// kind first.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the kinds that are watched in each cluster that the manager has besides its own.
    pub fn cluster_kinds(&self) -> &[Kind] {
        &self.cluster_kinds
    }

    /// Returns whether the requests of the controller are [`Request`]s, so that each of them is about an object of the
    /// manager's own cluster.
    pub fn requests_objects(&self) -> bool {
        self.requests_objects
    }

    /// Returns a handle that shows the state of the controller, also after [`start`](Self::start) has taken it.
    pub fn status(&self) -> ControllerStatus {
        self.status.clone()
    }

    /// Makes the watched kinds known to a cache, so that the cache can sync them before this
    /// controller is started. No request is sent.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Watch`] if the options of the cache exclude a kind.
    pub fn declare(&self, cache: &Cache) -> Result<(), ControllerError> {
        self.parts.declare(cache)
    }

    /// Makes the [`cluster_kinds`](Self::cluster_kinds) known to the caches of all clusters, without a request.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Cluster`] if the options of a cluster's cache exclude a kind.
    pub fn declare_in(&self, clusters: &Clusters) -> Result<(), ControllerError> {
        self.parts.declare_in(clusters)
    }

    /// Runs the controller until it is cancelled.
    ///
    /// The controller subscribes to every watched kind, waits until the initial objects of each kind are in the queue,
    /// and only then starts its workers (CTRL-1). It waits for a kind that is missing or forbidden, without a limit
    /// unless [`require_sync`](crate::ControllerBuilder::require_sync) sets one (CTRL-7).
    ///
    /// When the token of `start` is cancelled, [`Context::cancelled`](crate::Context::cancelled) fires, and the workers
    /// take no further request. Running reconciles may finish within the grace and are dropped after it. Waiting
    /// requests are dropped, because the next start lists their objects again.
    ///
    /// # Errors
    ///
    /// [`ControllerError::Watch`] if the cache refuses a kind, [`ControllerError::WatchEnded`] if the cache stops
    /// watching a kind, [`ControllerError::Sync`] if a kind does not sync in the time of `require_sync`,
    /// [`ControllerError::TaskPanicked`] if a task of the controller or a stream of requests panics, and
    /// [`ControllerError::StillRunning`] if reconciles had to be dropped at the end of the grace.
    ///
    /// Neither an error of a reconcile nor a panic of a predicate or handler ends a controller.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the controller without a grace.
    pub fn start(
        self,
        start: StartContext,
    ) -> impl Future<Output = Result<(), ControllerError>> + Send + 'static {
        self.parts.run(start, self.status)
    }
}

impl<R: RequestKey> AnyParts for ControllerParts<R> {
    fn declare(&self, cache: &Cache) -> Result<(), ControllerError> {
        for watch in &self.sources.watches {
            let declared = watch.declare(cache);
            declared.map_err(|source| refused(&self.name, watch.kind(), source))?;
        }
        Ok(())
    }

    fn declare_in(&self, clusters: &Clusters) -> Result<(), ControllerError> {
        let declaration = |watch: &Arc<dyn AnyClusterWatch<R>>| {
            let shared = Arc::clone(watch);
            Declaration {
                kind: watch.kind().clone(),
                declare: Arc::new(move |cache| shared.declare(cache)),
            }
        };
        let cluster_watches = self.sources.cluster_watches.iter();
        let kinds = cluster_watches.map(declaration).collect();
        let declared = clusters.declare(kinds);
        declared.map_err(|source| ControllerError::Cluster {
            controller: self.name.clone(),
            source: Box::new(source),
        })
    }

    fn run(
        self: Box<Self>,
        start: StartContext,
        status: ControllerStatus,
    ) -> BoxFuture<'static, Result<(), ControllerError>> {
        Box::pin(run(*self, start, status))
    }
}
