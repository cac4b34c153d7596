//! Handle: a manager: the parts of an operator, declared first, then started and stopped.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::ClientConfig;
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_controller::{
    Controller, ControllerDeclaration, ControllerDefaults, RecentReconcile, StartContext,
};
use steersman_events::{EventPublisher, EventRecorder};
use steersman_lease::Elector;
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::clusters::AddedClusters;
use crate::error::Error;
use crate::health::Health;
use crate::http_server::HttpServers;
use crate::monitor::{Monitor, RunStage, WatchedKinds};
use crate::options::ManagerOptions;
use crate::order::Group;
use crate::runnable::{ErasedRunnable, Runnable, from_fn};
use crate::shutdown::Shutdown;
use crate::supervision::Supervision;
use crate::supervisor::campaign::{ManagerElection, RECORDER};
use crate::supervisor::{Supervised, supervise};
use crate::tasks::RunnableTasks;

mod serving;
mod leadership;
mod sharing;
mod life_of_definitions;
mod other_clusters;

pub(crate) use life_of_definitions::{
    LeaderConditions, connect_webhooks, with_metrics as with_definition_metrics,
};

/// Owns a cache, a client and controllers. Cheap to clone.
///
/// Made by [`Manager::builder`]. Every method but [`start`](Self::start) only declares, and needs no cluster.
///
/// # Examples
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use steersman_controller::Controller;
/// # use steersman_manager::{Error, Manager, shutdown_signal};
/// # async fn f(
/// #     client_config: steersman_api::ClientConfig,
/// #     scaler: impl steersman_controller::Reconciler,
/// # ) -> Result<(), Error> {
/// let manager = Manager::builder(client_config).build()?;
/// manager.add_controller(Controller::builder::<Deployment>().build(scaler)?)?;
/// manager.start(shutdown_signal()).await
/// # }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Manager {{ cluster: {:?}, options: {:?}, state: {:?} }}",
    shared.cluster, shared.options, *shared.state.lock()
)]
#[must_use]
pub struct Manager {
    shared: Arc<SharedManager>,
}

struct SharedManager {
    cluster: Cluster,
    options: ManagerOptions,
    monitor: Arc<Monitor>,
    clusters: AddedClusters,
    http: HttpServers,
    events: EventPublisher,
    state: Mutex<ManagerState>,
    added: Notify,
    election: ManagerElection,
    conditions: LeaderConditions,
}

/// The grace of a controller if its manager has no time limit for the stop.
const A_LONG_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug)]
struct ManagerState {
    phase: ManagerPhase,
    waiting: Vec<ErasedRunnable>,
    controllers: BTreeMap<String, ControllerDeclaration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ManagerPhase {
    Declaring,
    Running,
    Stopping,
}

/// A started manager. Dropping the value makes the manager refuse further runnables and start no waiting ones.
struct StartedManager {
    manager: Manager,
}

impl Drop for StartedManager {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.manager.shared.state.lock();
            state.phase = ManagerPhase::Stopping;
            take(&mut state.waiting)
        };
        // The runnables are dropped outside the lock, because they are of user types.
        drop(waiting);
        // After an orderly stop, no event waits to be sent.
        self.manager.shared.events.abort();
    }
}

impl Manager {
    pub(crate) fn new(
        cluster: Cluster,
        clusters: AddedClusters,
        options: ManagerOptions,
        events: EventPublisher,
        elector: Option<Elector>,
        conditions: LeaderConditions,
    ) -> Self {
        let state = ManagerState {
            phase: ManagerPhase::Declaring,
            waiting: vec![ErasedRunnable::new(cluster.clone())],
            controllers: BTreeMap::new(),
        };
        let monitor = Monitor::new(&cluster.client_config().endpoint(), cluster.cache().clone());
        let monitor = Arc::new(monitor);
        let recorder = events.recorder(RECORDER);
        let shared = SharedManager {
            http: HttpServers::new(&monitor),
            monitor,
            cluster,
            clusters,
            options,
            events,
            state: Mutex::new(state),
            added: Notify::new(),
            election: ManagerElection::new(elector, recorder),
            conditions,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Returns the manager's own cluster: the client configuration, cache and client of its API server.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// Returns the client configuration of the API server.
    pub fn client_config(&self) -> &ClientConfig {
        self.shared.cluster.client_config()
    }

    /// Returns the cache of the manager's own cluster. Declaring kinds and indexes needs no running cache; reads do.
    pub fn cache(&self) -> &Cache {
        self.shared.cluster.cache()
    }

    /// Returns the client that reads from the cache and writes to the server.
    pub fn client(&self) -> &Client {
        self.shared.cluster.client()
    }

    /// Returns a recorder of Kubernetes Events for a part of the program that is not a controller: `name` becomes the
    /// `reportingController` of the Events. A reconciler uses the recorder of its controller,
    /// [`Context::events`](steersman_controller::Context::events).
    ///
    /// One task sends the events of all recorders of a manager. The task starts with the first event and stops last
    /// (EVENT-8). Events that are recorded later are dropped and counted.
    pub fn events(&self, name: &str) -> EventRecorder {
        self.shared.events.recorder(name)
    }

    /// Returns the registry of all metrics of this manager.
    pub fn metrics_registry(&self) -> &prometheus::Registry {
        &self.shared.options.registry
    }

    /// Returns the names of the controllers declared so far, in order.
    pub fn controllers(&self) -> Vec<String> {
        self.shared
            .state
            .lock()
            .controllers
            .keys()
            .cloned()
            .collect()
    }

    /// Returns the declarations of the controllers, ordered by name.
    pub fn controller_declarations(&self) -> Vec<ControllerDeclaration> {
        let state = self.shared.state.lock();
        state.controllers.values().cloned().collect()
    }

    /// Returns the present health of the manager: the unavailable kinds with reasons, the controllers that wait for
    /// them, and the handlers that panicked. Sends no request, and may be called at any time.
    pub fn health(&self) -> Health {
        self.shared.monitor.health()
    }

    /// Returns the last reconciles of each controller that have ended, with the names of the controllers, oldest first: up to
    /// 64 of each. Empty before the start.
    pub fn recent_reconciles(&self) -> Vec<(String, RecentReconcile)> {
        let controllers = self.shared.monitor.controllers().into_iter();
        let recent = controllers.flat_map(|status| {
            let name = status.controller().to_owned();
            let recent = status.recent().into_iter();
            recent.map(move |reconcile| (name.clone(), reconcile))
        });
        recent.collect()
    }

    #[cfg(test)]
    pub(crate) fn monitor(&self) -> &Arc<Monitor> {
        &self.shared.monitor
    }

    pub(crate) fn election(&self) -> &ManagerElection {
        &self.shared.election
    }

    /// Adds a runnable. It starts with its group, or at once if the manager runs.
    ///
    /// # Errors
    ///
    /// [`Error::Stopping`].
    pub fn add(&self, runnable: impl Runnable) -> Result<(), Error> {
        self.add_erased(ErasedRunnable::new(runnable))
    }

    /// Adds a controller, which starts with its group. Its kinds are declared in the cache at once.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateController`]; [`Error::Controller`] if the cache refuses one of its kinds;
    /// [`Error::Stopping`].
    pub fn add_controller(&self, controller: Controller) -> Result<(), Error> {
        let name = controller.name().to_owned();
        self.reserve(controller.declaration())?;
        let added = self.add_reserved(controller, &name);
        if added.is_err() {
            // CACHE-13: a refused controller does not keep its name.
            self.shared.state.lock().controllers.remove(&name);
        }
        added
    }

    /// Reserves the name of a controller, before its kinds are declared.
    fn reserve(&self, declaration: &ControllerDeclaration) -> Result<(), Error> {
        let name = declaration.name.clone();
        let mut state = self.shared.state.lock();
        if state.phase == ManagerPhase::Stopping {
            let name = title(&name);
            return Err(Error::Stopping { name });
        }
        match state.controllers.entry(name) {
            Entry::Vacant(free) => {
                free.insert(declaration.clone());
                Ok(())
            }
            Entry::Occupied(taken) => Err(Error::DuplicateController {
                name: taken.key().clone(),
            }),
        }
    }

    fn add_reserved(&self, controller: Controller, name: &str) -> Result<(), Error> {
        controller.declare(self.cache())?;
        controller.declare_in(self.clusters())?;
        let given = &self.shared.options.field_manager;
        let client = match controller.field_manager().or(given.as_deref()) {
            Some(given) => self.client().field_manager(given),
            // The default includes the name of the program, because two programs may have controllers with the same
            // name.
            None => self.client().for_controller(name),
        };
        let watched = WatchedKinds {
            status: controller.status(),
            primary: controller.declaration().primary.clone(),
            own: controller.kinds().to_vec(),
            in_clusters: controller.cluster_kinds().to_vec(),
        };
        // The gate knows the slots of objects of this cluster alone; other controllers stay with the leader.
        let is_shared = controller.requests_objects()
            && controller.cluster_kinds().is_empty()
            && !controller.runs_on_every_replica();
        let gate = self.shared.options.shards.clone().filter(|_| is_shared);
        let group = if controller.runs_on_every_replica() || gate.is_some() {
            Group::Others
        } else {
            Group::LeaderElected
        };
        let workers = self.shared.election.workers();
        // Clones of the parts, because the manager owns the runnable: a runnable that held the manager would never be
        // freed.
        let (cluster, options) = (self.shared.cluster.clone(), self.shared.options.clone());
        let clusters = self.clusters().clone();
        let events = self.shared.events.clone();
        // DEF-6: controllers of the leader wait until the CustomResourceDefinitions are installed.
        let conditions = (group == Group::LeaderElected).then(|| self.shared.conditions.clone());
        self.add(from_fn(title(name), group, move |context| async move {
            let title = title(controller.name());
            let cancel = context.cancellation();
            if let Some(conditions) = conditions {
                let met = conditions.met(controller.kinds());
                if cancel.run_until_cancelled(met).await.is_none() {
                    return Ok(());
                }
            }
            let mut start = StartContext::new(
                cluster.cache().clone(),
                client,
                cancel,
                Arc::clone(&options.clock),
            )
            .grace(options.reconcile_grace().unwrap_or(A_LONG_TIME))
            .registry(options.registry.clone())
            .defaults(options.controllers.clone())
            .clusters(clusters)
            .workers(workers)
            .events(events);
            if let Some(gate) = gate {
                start = start.shards(gate);
            }
            if options.has_journal {
                start = start.journal();
            }
            controller.start(start).await?;
            context.note_end(&title);
            Ok(())
        }))?;
        // CACHE-13: the controller is added last, so that a refused controller is not part of the health.
        self.shared.monitor.add_controller(watched);
        Ok(())
    }

    /// Starts all runnables, and stops them when `shutdown` asks for it or a runnable fails.
    ///
    /// The manager counts as started from this call on, before the future is polled: a cached read after the
    /// call waits for the first sync. The manager runs while the future is awaited.
    ///
    /// Returns `Ok` after a requested stop in which every runnable ended in time.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] or [`Error::Panicked`] with the name of the runnable that ended the manager;
    /// [`Error::StopTimeout`] or [`Error::Aborted`] if a runnable had to be dropped;
    /// [`Error::LeadershipLost`] if this replica lost its lease while it led, and [`Error::LeaderElection`] if the
    /// elector could not be started; [`Error::AlreadyStarted`]; [`Error::UnknownControllers`] if
    /// [settings](crate::ManagerBuilder::controllers) name a controller that was not added before the start.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops every runnable, without the order and the grace of a stop.
    pub fn start(
        &self,
        shutdown: impl Into<Shutdown>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let shutdown = shutdown.into();
        let begun = self.begin();
        async move {
            let begun = begun?;
            let shared = &begun.manager.shared;
            let tasks = RunnableTasks::new(Arc::clone(&shared.monitor), shared.election.workers());
            let campaign = shared.election.campaign();
            let options = &shared.options;
            let supervision = Supervision::new(options.grace, options.last_moment());
            let run = supervise(&**shared, tasks, campaign, supervision, shutdown);
            let ended = Box::pin(run).await;
            // EVENT-8: the publisher stops last, so that the events of the stop itself are sent.
            let bound = match &ended {
                Err(Error::Aborted { .. }) => Duration::ZERO,
                _ => options.last_moment(),
            };
            shared.events.stop(bound).await;
            ended
        }
    }

    /// Calls `begin` of all declared runnables, and marks the manager as started.
    fn begin(&self) -> Result<StartedManager, Error> {
        let mut declared = {
            let mut state = self.shared.state.lock();
            if state.phase != ManagerPhase::Declaring {
                return Err(Error::AlreadyStarted);
            }
            // MGR-8: unknown names are refused before a runnable starts.
            check_names(&self.shared.options.controllers, &state.controllers)?;
            state.phase = ManagerPhase::Running;
            take(&mut state.waiting)
        };
        // `begin` is called outside the lock, because it is user code.
        declared.iter_mut().for_each(ErasedRunnable::begin);
        self.shared.state.lock().waiting.splice(..0, declared);
        let manager = self.clone();
        Ok(StartedManager { manager })
    }

    fn add_erased(&self, mut erased: ErasedRunnable) -> Result<(), Error> {
        let mut begun = false;
        loop {
            let mut state = self.shared.state.lock();
            match state.phase {
                ManagerPhase::Stopping => {
                    drop(state);
                    return Err(Error::Stopping { name: erased.name });
                }
                // `begin` calls user code, so the lock is released first. The manager may stop meanwhile.
                ManagerPhase::Running if !begun => {
                    drop(state);
                    erased.begin();
                    begun = true;
                }
                ManagerPhase::Running | ManagerPhase::Declaring => {
                    state.waiting.push(erased);
                    break;
                }
            }
        }
        self.shared.added.notify_one();
        Ok(())
    }
}

impl Supervised for SharedManager {
    fn take_waiting(&self, which: impl Fn(&ErasedRunnable) -> bool) -> Vec<ErasedRunnable> {
        let mut state = self.state.lock();
        let (taken, left) = take(&mut state.waiting).into_iter().partition(which);
        state.waiting = left;
        taken
    }

    async fn added(&self) {
        self.added.notified().await;
    }

    fn reached(&self, group: Group) {
        // HEALTH-2: a standby waits for the lease before this group, and counts as started.
        if group == Group::LeaderElected {
            self.monitor.reach(RunStage::Started);
        }
    }

    fn refuse(&self) {
        self.monitor.reach(RunStage::Stopping);
        self.state.lock().phase = ManagerPhase::Stopping;
    }

    fn leads(&self) {
        self.election.leads();
    }

    fn stops_leading(&self) {
        self.election.stops_leading();
    }

    async fn writes_finished(&self) {
        self.cluster.client().writes_finished().await;
    }
}

fn check_names(
    settings: &ControllerDefaults,
    known: &BTreeMap<String, ControllerDeclaration>,
) -> Result<(), Error> {
    let named = settings.names().filter(|name| !known.contains_key(*name));
    let unknown: Vec<String> = named.map(|name| format!("{name:?}")).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known = known.keys().map(|name| format!("{name:?}")).collect();
    Err(Error::UnknownControllers { unknown, known })
}

/// Returns the name of a controller among the runnables of a manager.
fn title(controller: &str) -> String {
    format!("controller {controller:?}")
}
